//! The commands on data directories: a network from a genesis file, import and export of blocks,
//! the state as JSON, and checking the database.

use std::collections::BTreeMap;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use e2e::contract::{creation_code, set};
use e2e::process::{EndSignal, EndedProcess};
use e2e::{Launch, note, quantity, to_quantity, vnode_path, wait_for};
use serde_json::{Value, json};
use store::{Source, Store, StoreOptions, TableId, meta_key};
use tempfile::TempDir;

/// The built-in contract that emits notices.
const NOTIFY_SCS: &str = "0x000000000000000000000000000000000000000d";

/// A network with the rules of Ethereum and one funded account.
const GENESIS: &str = r#"{"config": {"chainId": 4711, "homesteadBlock": 0, "eip150Block": "0x00"},
    "difficulty": "0x020000", "gasLimit": "9000000", "nonce": "0x0000000000000042", "unheardOf": 1,
    "alloc": {"00000000000000000000000000000000000000aa": {"balance": "1000000000000000000"}}}"#;

/// Runs a command on the data directory `data`.
fn vnode(data: &Path, arguments: &[&str]) -> EndedProcess {
    Launch::bare(arguments.iter().copied()).data(data).run()
}

/// Runs a command that must succeed. Returns its standard output.
#[track_caller]
pub(crate) fn run_ok(data: &Path, arguments: &[&str]) -> String {
    let ended = vnode(data, arguments);
    assert!(
        ended.status.success(),
        "{arguments:?}: {}{}",
        ended.stdout,
        ended.stderr
    );
    ended.stdout
}

/// Runs a command that must fail. Returns its standard error.
#[track_caller]
pub(crate) fn run_failing(data: &Path, arguments: &[&str]) -> String {
    run_with_code(data, arguments, 1)
}

/// Runs a command that must end with this code. Returns its standard error.
#[track_caller]
fn run_with_code(data: &Path, arguments: &[&str], code: i32) -> String {
    let ended = vnode(data, arguments);
    assert_eq!(ended.status.code(), Some(code), "{arguments:?}: {}", ended.stdout);
    assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
    ended.stderr
}

/// Checks that `text` contains each of `words`.
#[track_caller]
pub(crate) fn assert_contains(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "got {text:?}, expected {word:?} in it");
    }
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("plain characters")
}

/// The value of the line that begins with `key`.
fn value(output: &str, key: &str) -> String {
    let line = output.lines().find_map(|line| line.strip_prefix(key));
    line.unwrap_or_else(|| panic!("got {output:?}, expected a line {key:?}"))
        .trim()
        .to_owned()
}

/// A chain with transfers and a contract. It is mined once for all tests; its node has stopped.
pub(crate) struct MinedChain {
    folder: TempDir,
    /// Balances by block and address, as the node returned them.
    balances: BTreeMap<u128, BTreeMap<String, u128>>,
    pub(crate) head: u128,
    pub(crate) head_hash: String,
}

impl MinedChain {
    /// A copy of the data directory, which one command at a time can open.
    pub(crate) fn data(&self) -> PathBuf {
        let copy = tempfile::tempdir_in(self.folder.path())
            .expect("a directory")
            .keep();
        for entry in std::fs::read_dir(self.folder.path().join("data")).expect("a directory") {
            let file = entry.expect("readable").path();
            if file.is_file() {
                std::fs::copy(&file, copy.join(file.file_name().expect("a name"))).expect("a copy");
            }
        }
        copy
    }

    /// File with all blocks.
    pub(crate) fn stream(&self) -> PathBuf {
        self.folder.path().join("all.rlp")
    }
}

pub(crate) fn mined_chain() -> &'static MinedChain {
    static CHAIN: OnceLock<MinedChain> = OnceLock::new();
    CHAIN.get_or_init(|| {
        let folder = tempfile::Builder::new()
            .prefix("vn")
            .tempdir()
            .expect("a temporary directory");
        let data = folder.path().join("data");
        let node = Launch::dev(["--mine"]).data(&data).start();
        let accounts = node.accounts();
        node.wait_for_head(1);
        let created = node.send(json!({"from": accounts[0], "data": creation_code(), "gas": "0xf4240"}));
        let contract = node.receipt(&created)["contractAddress"].clone();
        for (from, to) in accounts.iter().zip(&accounts[1..]) {
            node.send(json!({"from": from, "to": to, "value": "0x123456789"}));
        }
        let last = node.send(json!({"from": accounts[0], "to": contract, "data": set(7), "gas": "0xf4240"}));
        node.receipt(&last);
        // A notice, so that its table is not empty.
        let notice =
            node.send(json!({"from": accounts[0], "to": NOTIFY_SCS, "data": "0x01", "gas": "0xf4240"}));
        node.receipt(&notice);
        node.wait_for_head(node.head() + 2);
        let head = node.head();
        let mut watched = accounts;
        watched.push(contract.as_str().expect("an address").to_owned());
        let at = |number: u128| {
            let balance = |address: &String| {
                let balance = node.rpc("mc_getBalance", json!([address, to_quantity(number)]));
                (address.to_lowercase(), quantity(&balance))
            };
            (number, watched.iter().map(balance).collect())
        };
        let balances = (0..=head).map(at).collect();
        assert!(node.end(EndSignal::Interrupt).status.success());
        let output = run_ok(&data, &["export", text(&folder.path().join("all.rlp"))]);
        // The node may have mined another block before it stopped.
        let exported: u128 = output
            .split([' ', ','])
            .nth(1)
            .and_then(|count| count.parse().ok())
            .expect("a count");
        let stats = value(&run_ok(&data, &["db", "stats"]), "head block");
        let (number, hash) = stats.split_once(' ').expect("number and hash");
        assert_eq!(
            (number, exported > head),
            ((exported - 1).to_string().as_str(), true)
        );
        MinedChain {
            head: exported - 1,
            head_hash: hash.to_owned(),
            folder,
            balances,
        }
    })
}

#[test]
fn a_directory_is_initialised_once() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let (data, file) = (home.path().join("data"), home.path().join("mine.json"));
    std::fs::write(&file, GENESIS).expect("a write");
    let first = vnode(&data, &["init", text(&file)]);
    assert!(first.status.success(), "{}", first.stderr);
    assert_contains(&first.stderr, &["unheardOf"]);
    let hash = value(&first.stdout, "genesis");
    e2e::data(&json!(hash), 32);
    e2e::data(&json!(value(&first.stdout, "state root")), 32);
    let again = run_ok(&data, &["init", text(&file)]);
    assert_eq!(value(&again, "genesis"), hash);

    let other = home.path().join("other.json");
    std::fs::write(&other, GENESIS.replace("0x020000", "0x020001")).expect("a write");
    assert_contains(
        &run_failing(&data, &["init", text(&other)]),
        &[&hash, "--datadir"],
    );
    // The head is still block 0, so the rules of later blocks can be changed.
    std::fs::write(&other, GENESIS.replace("\"0x00\"", "9")).expect("a write");
    assert_eq!(value(&run_ok(&data, &["init", text(&other)]), "genesis"), hash);
    run_ok(&data, &["init", text(&file)]);

    let flags = ["--rpc", "--rpcport", "0", "--networkid", "5"];
    let node = Launch::bare(flags).data(&data).start();
    assert_eq!(node.block(0)["hash"], json!(hash));
    assert_eq!(node.rpc("net_version", json!([])), json!("5"));
    assert_contains(
        &node.banner(),
        &["mine (network id 5, chain id 4711)", "moacbase   none"],
    );
    assert_contains(&run_failing(&data, &["import", "-"]), &["in use"]);
    assert!(node.end(EndSignal::Interrupt).status.success());

    assert_contains(&run_failing(&data, &["--dev"]), &["--network dev", "mine", &hash]);
    assert_contains(
        &run_failing(&data, &["--network", "main"]),
        &["--network main", &hash],
    );
    std::fs::write(&other, GENESIS.replace("\"0x00\"", "9")).expect("a write");
    assert_contains(
        &run_failing(&data, &["--genesis", text(&other)]),
        &["other rules from block 0 on"],
    );
    assert_contains(&run_with_code(&data, &["--mine"], 2), &["--moacbase"]);
    let flags = ["--genesis", text(&file)];
    let node = Launch::bare(flags).data(&data).start();
    assert!(node.end(EndSignal::Interrupt).status.success());
    run_ok(&data, &["db", "check", "--full"]);
}

#[test]
fn without_a_network_no_directory_is_created() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let data = home.path().join("data");
    let check = |arguments: &[&str], words: &[&str]| {
        assert_contains(&run_failing(&data, arguments), words);
        assert!(!data.exists(), "{arguments:?} creates the directory");
    };
    check(&[], &["no chain in", "vnode init", "--dev"]);
    check(&["import", "-"], &["no chain in"]);
    for command in [
        &["export", "f"][..],
        &["dump", "0"],
        &["db", "check"],
        &["db", "stats"],
    ] {
        check(command, &["no chain in"]);
        check(&[command, &["--dev"]].concat(), &["no chain in"]);
    }
    for (name, hash) in [("main", "0x6b9661646439fab9"), ("test", "0xb44f499ad420fbba")] {
        check(&["--network", name], &[name, "not built in", "vnode init", hash]);
    }
    let contradiction = run_with_code(&data, &["--dev", "--network", "test"], 2);
    assert_contains(&contradiction, &["--dev", "--network test"]);
    assert!(!data.exists());
    check(&["init", "no-such-file"], &["no-such-file"]);
    check(&["--genesis", "no-such-file"], &["no-such-file"]);
    let file = home.path().join("g.json");
    std::fs::write(&file, GENESIS).expect("a write");
    check(
        &["init", text(&file), "--network", "main"],
        &["block 0", "0x6b9661646439fab9"],
    );
    let built_in = run_with_code(&data, &["init", text(&file), "--dev"], 2);
    assert_contains(&built_in, &["built in"]);
    assert!(!data.exists());
    std::fs::write(&file, "{\n\"difficulty\": }").expect("a write");
    check(&["init", text(&file)], &["g.json", "line 2"]);
    // A genesis file is enough to start.
    std::fs::write(&file, GENESIS).expect("a write");
    let node = Launch::bare(["--genesis", text(&file)]).data(&data).start();
    assert!(node.end(EndSignal::Interrupt).status.success());
    let node = Launch::bare(Vec::<String>::new()).data(&data).start();
    assert_contains(&node.banner(), &["chain id 4711"]);
}

#[test]
fn a_chain_is_exported_and_imported() {
    let mined = mined_chain();
    let home = tempfile::tempdir().expect("a temporary directory");
    let data = home.path().join("data");
    let stream = mined.stream();
    let output = run_ok(&data, &["import", text(&stream), "--dev"]);
    let head = format!("the head is block {} {}", mined.head, mined.head_hash);
    assert_contains(
        &output,
        &[
            &format!("imported {} blocks", mined.head),
            "1 were already stored",
            "blocks/s",
            "Mgas/s",
            &head,
        ],
    );
    assert_eq!(output.lines().count(), 1, "{output}");
    let output = run_ok(&data, &["import", text(&stream)]);
    assert_contains(&output, &["imported 0 blocks", &head]);
    assert_contains(&run_ok(&data, &["db", "check", "--full"]), &["no faults"]);

    let again = home.path().join("again.rlp");
    run_ok(&data, &["export", text(&again)]);
    let bytes = std::fs::read(&stream).expect("a stream");
    assert_eq!(std::fs::read(&again).expect("a stream"), bytes);
    // The chain in three parts, through pipes; the first part starts with block 1.
    let parts = [["1", "2"], ["3", "0x4"], ["5", ""]];
    let part = |numbers: [&str; 2]| {
        let range: Vec<_> = numbers.into_iter().filter(|number| !number.is_empty()).collect();
        let output = Command::new(vnode_path())
            .args(["export", "-"])
            .args(range)
            .args(["--datadir", text(&data)])
            .output()
            .expect("vnode runs");
        assert_contains(&String::from_utf8_lossy(&output.stderr), &["exported"]);
        output.stdout
    };
    let third = home.path().join("third");
    for range in parts {
        let mut child = Command::new(vnode_path())
            .args(["import", "-", "--network", "dev", "--datadir", text(&third)])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("vnode runs");
        let mut stdin = child.stdin.take().expect("piped");
        stdin.write_all(&part(range)).expect("a write");
        drop(stdin);
        assert!(child.wait().expect("it ends").success(), "{range:?}");
    }
    assert_contains(
        &run_ok(&third, &["db", "stats"]),
        &[&format!("head block {} {}", mined.head, mined.head_hash)],
    );
}

#[test]
fn an_export_is_complete_or_refused() {
    let mined = mined_chain();
    let data = mined.data();
    let home = tempfile::tempdir().expect("a temporary directory");
    let file = home.path().join("f");
    std::fs::write(&file, "before").expect("a write");
    let head = mined.head.to_string();
    let above = (mined.head + 1).to_string();
    assert_contains(
        &run_failing(&data, &["export", text(&file), "3", "2"]),
        &["3", "2"],
    );
    assert_contains(
        &run_failing(&data, &["export", text(&file), "0", &above]),
        &[&above, &head],
    );
    assert_contains(
        &run_failing(&data, &["export", text(&file), &above]),
        &[&above, &head],
    );
    assert_contains(&run_failing(&data, &["dump", &above]), &[&above, &head]);
    assert_eq!(std::fs::read_to_string(&file).expect("a file"), "before");
    assert_contains(
        &run_failing(&data, &["export", text(&home.path().join("no/f"))]),
        &["no/f"],
    );
    run_ok(&data, &["export", text(&file), "1", "1"]);
    let entries = std::fs::read_dir(home.path()).expect("a folder").count();
    assert_eq!(entries, 1, "the file alone");
    assert_ne!(std::fs::read(&file).expect("a file"), b"before");
}

#[test]
fn blocks_before_a_damaged_part_are_imported() {
    let mined = mined_chain();
    let home = tempfile::tempdir().expect("a temporary directory");
    let file = home.path().join("f");
    let bytes = std::fs::read(mined.stream()).expect("a stream");
    run_ok(&mined.data(), &["export", text(&file), "0", "3"]);
    let four = std::fs::read(&file).expect("a file").len();
    let check = |name: &str, broken: &[u8], words: &[&str], head: &str| {
        let data = home.path().join(name);
        std::fs::write(&file, broken).expect("a write");
        let ended = vnode(&data, &["import", text(&file), "--dev"]);
        assert_eq!(ended.status.code(), Some(1), "{}", ended.stdout);
        assert_contains(&ended.stdout, &[&format!("the head is block {head} ")]);
        assert_contains(&ended.stderr, words);
        assert_contains(&run_ok(&data, &["db", "check"]), &["no faults"]);
        run_ok(&data, &["import", text(&mined.stream())]);
        assert_contains(&run_ok(&data, &["db", "stats"]), &[&mined.head_hash]);
    };
    check(
        "cut",
        &bytes[..four + 50],
        &["ends within a block", &four.to_string()],
        "3",
    );
    check("empty", b"", &["no block"], "0");
    let mut middle = bytes.clone();
    // This byte is in the header of block 4. Its hash changes, so the seal is invalid.
    middle[four + 200] ^= 1;
    check("middle", &middle, &["block 4 (0x"], "3");
    check(
        "tail",
        &[&bytes[..four], b"\x80"].concat(),
        &["0x80", &four.to_string()],
        "3",
    );
    let huge = [&bytes[..four], &[0xfb, 0xff, 0xff, 0xff, 0xff]].concat();
    check("huge", &huge, &["at most"], "3");
}

#[test]
fn a_killed_import_can_be_resumed() {
    let mined = mined_chain();
    let stream = mined.stream();
    for millis in [0, 5, 20, 60, 120, 250, 400, 700] {
        let home = tempfile::tempdir().expect("a temporary directory");
        let data = home.path().join("data");
        let arguments = ["import", text(&stream), "--dev"];
        let created = || data.join(store::FILE_NAME).exists();
        Launch::bare(arguments)
            .data(&data)
            .kill_after(created, Duration::from_millis(millis));
        let output = run_ok(&data, &arguments);
        assert_contains(&output, &[&mined.head_hash]);
        note(&format!(
            "killed {millis} ms after the database was created; then {}",
            output.trim()
        ));
        assert_contains(&run_ok(&data, &["db", "check", "--full"]), &["no faults"]);
    }
}

#[test]
fn a_killed_import_keeps_the_blocks_before_the_kill() {
    let mined = mined_chain();
    let home = tempfile::tempdir().expect("a temporary directory");
    let file = home.path().join("f");
    run_ok(&mined.data(), &["export", text(&file), "0", "3"]);
    let half = std::fs::read(&file).expect("a file");
    // The time before the kill is doubled until it is enough to import the blocks, because the
    // machine may be busy.
    let delay = (0..)
        .map(|round| Duration::from_millis(400 << round))
        .find(|delay| {
            assert!(
                *delay < e2e::wait::PATIENCE,
                "no block was imported from an open pipe"
            );
            let data = home.path().join(format!("{}", delay.as_millis()));
            let (mut child, mut stdin) = import_from_pipe(&data);
            stdin.write_all(&half).expect("a write");
            std::thread::sleep(*delay);
            child
                .kill()
                .expect("a child can be killed until it was waited for");
            child.wait().expect("a child can be waited for");
            if !data.join(store::FILE_NAME).exists() {
                return false;
            }
            let stats = run_ok(&data, &["db", "stats"]);
            if !stats.contains("head block 3 ") {
                return false;
            }
            assert_contains(&run_ok(&data, &["db", "check", "--full"]), &["no faults"]);
            let output = run_ok(&data, &["import", text(&mined.stream())]);
            let rest = mined.head - 3;
            assert_contains(
                &output,
                &[
                    &format!("imported {rest} blocks"),
                    "4 were already stored",
                    &mined.head_hash,
                ],
            );
            true
        });
    assert!(delay.is_some());
}

/// Starts an import into the development network from a pipe that stays open.
fn import_from_pipe(data: &Path) -> (Child, ChildStdin) {
    let mut child = Command::new(vnode_path())
        .args(["import", "-", "--dev", "--datadir", text(data)])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("vnode runs");
    let stdin = child.stdin.take().expect("piped");
    (child, stdin)
}

#[test]
fn a_signal_ends_an_import_between_two_blocks() {
    let mined = mined_chain();
    let home = tempfile::tempdir().expect("a temporary directory");
    let data = home.path().join("data");
    let bytes = std::fs::read(mined.stream()).expect("a stream");
    let (child, mut stdin) = import_from_pipe(&data);
    // Everything but the end of the last block.
    stdin.write_all(&bytes[..bytes.len() - 9]).expect("a write");
    wait_for("the database", || {
        data.join(store::FILE_NAME).exists().then_some(())
    });
    std::thread::sleep(Duration::from_millis(300));
    let pid = libc::pid_t::try_from(child.id()).expect("a process id fits");
    // SAFETY: the arguments are numbers; the child has not been waited for, so the id is its own.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGINT) }, 0);
    let output = child.wait_with_output().expect("it ends");
    drop(stdin);
    assert_eq!(output.status.code(), Some(1));
    assert_contains(&String::from_utf8_lossy(&output.stderr), &["interrupted"]);
    assert_contains(
        &String::from_utf8_lossy(&output.stdout),
        &["imported", "the head is block"],
    );
    assert_contains(&run_ok(&data, &["db", "check"]), &["no faults"]);
    assert_contains(
        &run_ok(&data, &["import", text(&mined.stream())]),
        &[&mined.head_hash],
    );
}

#[test]
fn a_dump_has_the_balances_of_its_height() {
    let mined = mined_chain();
    let data = mined.data();
    for (number, expected) in &mined.balances {
        let dump: Value = serde_json::from_str(&run_ok(&data, &["dump", &number.to_string()])).expect("JSON");
        for (address, balance) in expected {
            let account = &dump[address];
            let got = if account.is_null() {
                0
            } else {
                quantity(&account["balance"])
            };
            assert_eq!(got, *balance, "{address} at block {number}");
        }
    }
    let home = tempfile::tempdir().expect("a temporary directory");
    let file = home.path().join("dump.json");
    assert_eq!(run_ok(&data, &["dump", "latest", text(&file)]), "");
    let dump: Value = serde_json::from_slice(&std::fs::read(&file).expect("a dump")).expect("JSON");
    let contracts: Vec<_> = dump
        .as_object()
        .expect("accounts")
        .values()
        .filter(|account| account["code"] != "0x")
        .collect();
    let [contract] = contracts[..] else {
        panic!("got {} contracts, expected one", contracts.len())
    };
    assert_eq!(contract["code"], e2e::contract::runtime_code());
    let slots: Vec<_> = contract["storage"].as_object().expect("slots").values().collect();
    assert_eq!(slots, [&json!(e2e::contract::word(7))]);
}

#[test]
fn a_flipped_byte_is_found_in_every_table() {
    let mined = mined_chain();
    let home = tempfile::tempdir().expect("a temporary directory");
    let data = home.path().join("data");
    run_ok(&data, &["import", text(&mined.stream()), "--dev"]);
    // A chain so short has no older changes of any account, no old blocks, nothing that was
    // destroyed, no branches and no headers without bodies.
    let empty = [
        TableId::StateHistory,
        TableId::GoneAccount,
        TableId::GoneStorage,
        TableId::NumberToAncient,
        TableId::DeadStorage,
        TableId::SideBlockList,
        TableId::HashToBareHeader,
        TableId::BestNumberToHash,
    ];
    for table in TableId::ALL {
        let Some((key, row)) = last_row(&data, table) else {
            assert!(empty.contains(&table), "{} is empty", table.name());
            continue;
        };
        let mut altered = row.clone();
        match altered.last_mut() {
            Some(byte) => *byte ^= 1,
            // A row of the log index with a single block, which is in the key.
            None => altered.push(1),
        }
        put(&data, table, &key, &altered);
        // The values before a block are compared with the state roots of all blocks.
        let with_history = table == TableId::BlockToChanges;
        let arguments: &[&str] = if with_history {
            &["db", "check", "--full"]
        } else {
            &["db", "check"]
        };
        let ended = vnode(&data, arguments);
        assert_eq!(ended.status.code(), Some(1), "{}: {}", table.name(), ended.stdout);
        let lines = ended.stdout.lines().count();
        assert!(
            lines >= 2,
            "expected a line for each fault and one at the end: {}",
            ended.stdout
        );
        assert_contains(&ended.stderr, &[&format!("{} faults", lines - 1)]);
        put(&data, table, &key, &row);
    }
    assert_contains(&run_ok(&data, &["db", "check"]), &["no faults"]);
}

fn open(data: &Path) -> Store {
    Store::open(data, &StoreOptions::default()).expect("nobody else has the store open")
}

/// The last row of a table, if it has any; of the table `Meta` the hash of block 0.
fn last_row(data: &Path, table: TableId) -> Option<(Vec<u8>, Vec<u8>)> {
    let store = open(data);
    let view = store.snapshot().expect("a snapshot");
    if table == TableId::Meta {
        let row = view.get(table, meta_key::GENESIS).expect("read");
        return Some((meta_key::GENESIS.to_vec(), row.expect("the hash is stored")));
    }
    let mut last = None;
    view.scan(table, &[], |key, row| {
        last = Some((key.to_vec(), row.to_vec()));
        ControlFlow::Continue(())
    })
    .expect("read");
    last
}

fn put(data: &Path, table: TableId, key: &[u8], row: &[u8]) {
    let store = open(data);
    let batch = store.batch().expect("a batch");
    batch
        .write(|tables| tables.put(table, key, row))
        .expect("written");
    batch.commit().expect("committed");
}
