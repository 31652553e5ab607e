//! Full disks, damaged files, and other files in place of the database: the node reports what is
//! wrong, where, and what to do. It loses no block.

#![cfg(target_os = "linux")]

use std::path::{Path, PathBuf};
use std::process::Command;

use e2e::ledger::BalanceLedger;
use e2e::process::EndSignal;
use e2e::{Launch, Vnode, note, quantity, wait_for};
use serde_json::{Value, json};
use store::FILE_NAME;
use tempfile::TempDir;

use crate::vnode::offline::{assert_contains, run_failing, run_ok};

fn home() -> TempDir {
    tempfile::Builder::new()
        .prefix("vn")
        .tempdir()
        .expect("a temporary directory")
}

/// Sends large transactions until the node reports that there is no space.
fn fill(node: &Vnode) {
    let accounts = node.accounts();
    let mut round = 0;
    wait_for("the end of the space", || {
        let from = &accounts[1 + round % 8];
        round += 1;
        let ballast = format!("0x{}", "5a".repeat(30_000));
        let sent = json!([{"from": from, "to": accounts[9], "data": ballast, "gas": "0x300000"}]);
        // The pool may be full.
        let _ = node.try_rpc("mc_sendTransaction", sent);
        node.log().contains("free space on its file system").then_some(())
    });
}

/// The blocks from block 0 to the head, as a client gets them.
fn chain(node: &Vnode) -> Vec<Value> {
    let head = node.head();
    (0..=head).map(|number| node.block(number)).collect()
}

/// Checks that a node without space still answers, and accepts blocks again after `free` has freed
/// space.
fn check_full(node: Vnode, directory: &Path, free: impl FnOnce(&Vnode)) {
    fill(&node);
    let path = directory.canonicalize().expect("it is there");
    let log = node.log();
    let line = log
        .lines()
        .find(|line| line.contains("free space"))
        .expect("waited for");
    assert_contains(
        line,
        &[path.to_str().expect("plain characters"), FILE_NAME, "committed"],
    );
    let blocks = chain(&node);
    let head_without_space = node.head();
    note(&format!("no space after block {head_without_space}: {line}"));
    for block in &blocks {
        assert_eq!(
            node.rpc("mc_getBlockByHash", json!([block["hash"], false])),
            *block
        );
    }
    assert!(
        node.refused("mc_getBalance", json!(["0x12", "latest"]), -32602)
            .len()
            > 1
    );
    free(&node);
    node.wait_for_head(head_without_space + 2);
    let accounts = node.accounts();
    assert_eq!(chain(&node)[..blocks.len()], blocks[..], "no block is lost");
    let head = node.head();
    BalanceLedger::genesis(&accounts).check(&node, head);
    let ended = node.end(EndSignal::Interrupt);
    assert!(ended.status.success(), "{}", ended.stderr);
    assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
    assert_contains(&run_ok(directory, &["db", "check", "--full"]), &["no faults"]);
}

/// Mines a few blocks into `directory` and stops the node. Returns the length of the database in
/// bytes.
fn mine_and_stop(directory: &Path) -> u64 {
    let node = Launch::dev(["--mine"]).data(directory).start();
    node.wait_for_head(2);
    assert!(node.end(EndSignal::Interrupt).status.success());
    std::fs::metadata(directory.join(FILE_NAME))
        .expect("a database")
        .len()
}

/// A mining node whose database cannot become longer.
fn node_at_file_limit(directory: &Path) -> Vnode {
    let bytes = mine_and_stop(directory);
    Launch::dev(["--mine"])
        .data(directory)
        .file_bytes_max(bytes)
        .start()
}

#[test]
fn a_node_at_a_file_size_limit_waits_for_space() {
    let home = home();
    let node = node_at_file_limit(home.path());
    check_full(node, home.path(), Vnode::free_file_length);
}

/// A small file system in memory. Unmounted when dropped.
struct SmallFileSystem(PathBuf);

impl SmallFileSystem {
    /// Mounts the file system at `at`; `None` if this user may not mount.
    fn mount(at: &Path, mib: u32) -> Option<Self> {
        let options = format!("size={mib}m");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(at);
        let mounted = mount.output().is_ok_and(|output| output.status.success());
        mounted.then(|| Self(at.to_owned()))
    }

    fn resize(&self, mib: u32) {
        let options = format!("remount,size={mib}m");
        let mut mount = Command::new("mount");
        let output = mount.args(["-o", &options]).arg(&self.0).output();
        assert!(output.expect("mount runs").status.success());
    }
}

impl Drop for SmallFileSystem {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_node_on_a_full_file_system_waits_for_space() {
    let home = home();
    let Some(file_system) = SmallFileSystem::mount(home.path(), 4) else {
        return note("skipped: this user may not mount a small file system");
    };
    let node = Launch::dev(["--mine"]).data(home.path()).start();
    node.wait_for_head(1);
    check_full(node, home.path(), |_| file_system.resize(256));
}

#[test]
fn a_node_whose_file_is_gone_ends_with_a_reason() {
    let home = home();
    let node = node_at_file_limit(home.path());
    std::fs::rename(home.path().join(FILE_NAME), home.path().join("elsewhere")).expect("renamed");
    // The node uses its open file until a write fails. Then it opens the file again, which fails,
    // too.
    let accounts = node.accounts();
    let ballast = format!("0x{}", "5a".repeat(30_000));
    let sent = json!([{"from": accounts[1], "to": accounts[9], "data": ballast, "gas": "0x300000"}]);
    wait_for("the end", || {
        node.try_rpc("mc_sendTransaction", sent.clone())
            .is_err()
            .then_some(())
    });
    let ended = node.wait_for_end();
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
    let last = ended.stderr.lines().last().unwrap_or_default();
    assert_contains(
        last,
        &["the chain can accept no more blocks", FILE_NAME, "start again"],
    );
    // As the message says, the node starts again when the file is back.
    std::fs::rename(home.path().join("elsewhere"), home.path().join(FILE_NAME)).expect("renamed");
    let node = Launch::dev(["--mine"]).data(home.path()).start();
    let head = node.head();
    assert!(head >= 2);
    node.wait_for_head(head + 1);
}

#[test]
fn a_damaged_database_is_reported_and_not_changed() {
    let home = home();
    mine_and_stop(home.path());
    let path = home.path().join(FILE_NAME);
    let whole = std::fs::read(&path).expect("a database");
    let check = |bytes: &[u8], words: &[&str]| {
        std::fs::write(&path, bytes).expect("written");
        for arguments in [&["--dev", "--mine"][..], &["db", "check"], &["db", "stats"]] {
            let error = run_failing(home.path(), arguments);
            assert_contains(&error, words);
            assert_contains(&error, &[path.to_str().expect("plain characters"), "import"]);
            let lines = error.lines().filter(|line| !line.trim().is_empty()).count();
            assert_eq!(lines, 1, "{error}");
            assert!(
                std::fs::read(&path).expect("a file") == bytes,
                "the file was changed"
            );
        }
    };
    check(b"", &["empty"]);
    check(&vec![0x77; 1 << 20], &["begins with 7777"]);
    for cut in [3, 4096, whole.len() / 3, whole.len() / 2, whole.len() - 1] {
        let word = if cut < 16 { "begins with" } else { "cut off" };
        check(&whole[..cut], &[word]);
    }
    std::fs::remove_file(&path).expect("removed");
    std::fs::create_dir(&path).expect("made");
    let error = run_failing(home.path(), &["--dev", "--mine"]);
    assert_contains(&error, &["a directory", FILE_NAME]);
    std::fs::remove_dir(&path).expect("removed");
    let error = run_failing(home.path(), &["--dev", "--mine"]);
    assert_contains(&error, &["is gone", "chain.redb.lock"]);
    assert!(!path.exists(), "no new chain is started in its place");
    std::fs::write(&path, &whole).expect("written");
    assert_contains(&run_ok(home.path(), &["db", "check", "--full"]), &["no faults"]);
}

#[test]
fn a_node_with_damaged_pages_gives_right_answers_or_errors() {
    const ROUNDS: usize = 18;
    let home = home();
    mine_and_stop(home.path());
    let path = home.path().join(FILE_NAME);
    let whole = std::fs::read(&path).expect("a database");
    let node = Launch::dev(Vec::<String>::new()).data(home.path()).start();
    let good_chain = chain(&node);
    let accounts = node.accounts();
    let balances: Vec<_> = accounts.iter().map(|account| node.balance(account)).collect();
    assert!(node.end(EndSignal::Interrupt).status.success());
    let used: Vec<usize> = (16..whole.len()).filter(|at| whole[*at] != 0).collect();
    let (mut refused, mut errors) = (0, 0);
    for round in 0..ROUNDS {
        let mut bytes = whole.clone();
        // First one byte, later two and three, spread over the bytes in use.
        for flip in 0..=round / (ROUNDS / 3) {
            let index = (round * 7 + flip * 11 + 1) * used.len() / (ROUNDS * 11);
            bytes[used[index % used.len()]] ^= 0x20;
        }
        std::fs::write(&path, &bytes).expect("written");
        let launch = Launch::dev(Vec::<String>::new()).data(home.path());
        let Some(node) = launch.try_start() else {
            refused += 1;
            continue;
        };
        let check = |method: &str, params: Value, expected: Value| match node.try_rpc(method, params) {
            Ok(got) => {
                assert_eq!(got, expected, "{method}");
                0
            }
            Err(_) => 1,
        };
        for block in &good_chain {
            errors += check(
                "mc_getBlockByNumber",
                json!([block["number"], false]),
                block.clone(),
            );
            errors += check("mc_getBlockByHash", json!([block["hash"], false]), block.clone());
        }
        let last = good_chain.last().expect("blocks");
        for (account, balance) in accounts.iter().zip(&balances) {
            let got = node.try_rpc("mc_getBalance", json!([account, last["number"]]));
            match got {
                Ok(got) => assert_eq!(quantity(&got), *balance),
                Err(_) => errors += 1,
            }
        }
        let ended = node.end(EndSignal::Interrupt);
        assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
        assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
    }
    note(&format!(
        "{ROUNDS} damaged files: {refused} were not opened, {errors} answers were errors, none was wrong"
    ));
    assert!(errors + refused > 0);
}
