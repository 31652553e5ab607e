//! kill -9, restarts, and two nodes that want one folder.

use std::path::Path;
use std::time::{Duration, Instant};

use e2e::contract::{creation_code, set};
use e2e::ledger::Ledger;
use e2e::process::Signal;
use e2e::{CallError, Caller, Launch, data, note, quantity, to_quantity};
use serde_json::{Value, json};

use crate::offline::{check_words, good};

/// Rounds of the test below unless `KILL_ROUNDS` says how many.
const ROUNDS: u32 = 4;
/// After so many rounds the whole database is checked.
const CHECK_EVERY: u32 = 20;
/// A node is killed within this time after its first new block.
const KILL_WITHIN: Duration = Duration::from_millis(1500);

/// How many rounds, and the seed of their moments.
fn rounds() -> (u32, u64) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().expect("after 1970");
    let seed = number("KILL_SEED").unwrap_or(u64::from(now.subsec_nanos()));
    let rounds = number("KILL_ROUNDS").and_then(|rounds| u32::try_from(rounds).ok());
    (rounds.unwrap_or(ROUNDS), seed)
}

/// The next of a row of numbers that look random.
fn random(state: &mut u64) -> u64 {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

fn start(data: &Path) -> e2e::Vnode {
    Launch::dev(["--mine"]).data(data).start()
}

/// Sends transfers, writes to a contract and reads heads until the node is gone; the last block
/// that it was told.
fn load(caller: &Caller, accounts: &[String], contract: &Value) -> Option<Value> {
    let mut last = None;
    for round in 0.. {
        let (from, to) = (&accounts[round % 9], &accounts[(round + 1) % 9]);
        let sent = if round % 3 == 0 {
            json!([{"from": from, "to": contract, "data": set(round as u128), "gas": "0xf4240"}])
        } else {
            json!([{"from": from, "to": to, "value": "0x9"}])
        };
        match caller.try_rpc("mc_sendTransaction", sent) {
            // A full pool is no reason to stop.
            Ok(_) | Err(CallError::Refused { .. }) => {}
            Err(CallError::Transport(_)) => break,
        }
        match caller.try_rpc("mc_getBlockByNumber", json!(["latest", false])) {
            Ok(block) => last = Some(block),
            Err(_) => break,
        }
        // Leaves the node time to mine, and the ledger at the end something it can follow.
        std::thread::sleep(Duration::from_millis(2));
    }
    last
}

/// Follows a chain over many lives of its node.
struct Follower {
    ledger: Ledger,
    number: u128,
    hash: String,
}

impl Follower {
    /// Every block up to the head is served, hangs on the one below it, and the balances are
    /// those that the blocks give.
    fn follow(&mut self, node: &Caller, head: u128) {
        for number in self.number + 1..=head {
            let block = node.block(number);
            assert_eq!(block["parentHash"], self.hash.as_str(), "block {number}");
            self.hash = data(&block["hash"], 32).to_owned();
            self.number = number;
        }
        self.ledger.check(node, head);
    }
}

#[test]
fn kill_loses_nothing_that_was_served() {
    let (rounds, seed) = rounds();
    let mut state = seed;
    let home = tempfile::tempdir().expect("a temporary directory");
    let mut node = start(home.path());
    let accounts = node.accounts();
    let mut follower = Follower {
        ledger: Ledger::genesis(&accounts),
        number: 0,
        hash: data(&node.block(0)["hash"], 32).to_owned(),
    };
    node.wait_for_head(1);
    let created = node.send(json!({"from": accounts[0], "data": creation_code(), "gas": "0xf4240"}));
    let contract = node.receipt(&created)["contractAddress"].clone();
    let mut restarts = Vec::new();
    for round in 1..=rounds {
        let address = node.addresses()[0];
        let started_at = node.head();
        let later = KILL_WITHIN * (random(&mut state) % 1000) as u32 / 1000;
        let seen = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..2)
                .map(|_| scope.spawn(|| load(&Caller::new(address), &accounts, &contract)))
                .collect();
            node.wait_for_head(started_at + 1);
            std::thread::sleep(later);
            node.end(Signal::Kill);
            let seen = clients
                .into_iter()
                .filter_map(|client| client.join().expect("no client panics"));
            seen.max_by_key(|block| quantity(&block["number"]))
                .expect("a block was served")
        });
        if round % CHECK_EVERY == 0 || round == rounds {
            check_words(&good(home.path(), &["db", "check", "--full"]), &["no faults"]);
        }
        let restart = Instant::now();
        node = start(home.path());
        restarts.push(restart.elapsed());
        let number = quantity(&seen["number"]);
        let head = node.head();
        let place = format!("seed {seed}, round {round}");
        assert!(
            head >= number,
            "{place}: block {number} was served, the head is {head}"
        );
        assert_eq!(
            node.rpc("mc_getBlockByHash", json!([seen["hash"], false])),
            seen,
            "{place}"
        );
        assert_eq!(node.block(number)["hash"], seen["hash"], "{place}");
        follower.follow(&node, head);
    }
    node.wait_for_head(node.head() + 1);
    restarts.sort_unstable();
    note(&format!(
        "{rounds} kills (seed {seed}) over {} blocks; up again after {:.2?} at least, {:.2?} in the median, {:.2?} at most",
        follower.number,
        restarts[0],
        restarts[restarts.len() / 2],
        restarts[restarts.len() - 1]
    ));
}

/// Two chains from the same block 0, the second of which is longer, and the hash it ends in.
fn branches(home: &Path) -> (Vec<u8>, String) {
    let grow = |name: &str, blocks: u128, moacbase: &str| {
        let path = home.join(name);
        let node = Launch::dev(["--mine", "--moacbase", moacbase])
            .data(&path)
            .start();
        let accounts = node.accounts();
        for (from, to) in accounts.iter().zip(&accounts[1..]) {
            node.send(json!({"from": from, "to": to, "value": "0x77"}));
        }
        node.wait_for_head(blocks);
        assert!(node.end(Signal::Interrupt).status.success());
        let file = home.join(format!("{name}.rlp"));
        let last = blocks.to_string();
        good(&path, &["export", file.to_str().expect("plain"), "1", &last]);
        let node = Launch::dev(Vec::<String>::new()).data(&path).start();
        let hash = data(&node.block(blocks)["hash"], 32).to_owned();
        (std::fs::read(&file).expect("a stream"), hash)
    };
    std::thread::scope(|scope| {
        let short = scope.spawn(|| grow("short", 6, "0x00000000000000000000000000000000000000a1"));
        let (long, hash) = grow("long", 8, "0x00000000000000000000000000000000000000b2");
        let (mut stream, _) = short.join().expect("no panic");
        stream.extend(long);
        (stream, hash)
    })
}

#[test]
fn kill_in_an_import_with_reorganizations_leaves_a_chain_that_goes_on() {
    let (rounds, seed) = rounds();
    let mut state = seed;
    let home = tempfile::tempdir().expect("a temporary directory");
    let (stream, hash) = branches(home.path());
    let file = home.path().join("both.rlp");
    std::fs::write(&file, stream).expect("written");
    let arguments = ["import", file.to_str().expect("plain characters"), "--dev"];
    let whole = Instant::now();
    check_words(&good(&home.path().join("whole"), &arguments), &[&hash]);
    let whole = whole.elapsed();
    let mut unfinished = 0;
    for round in 0..rounds {
        let path = home.path().join(format!("round{round}"));
        let later = whole * (random(&mut state) % 1000) as u32 / 1000;
        Launch::bare(arguments).data(&path).kill_after(|| true, later);
        let place = format!("seed {seed}, round {round}");
        if path.join(store::FILE_NAME).exists() {
            let checked = Launch::bare(["db", "check", "--full"]).data(&path).run();
            let nothing_yet = checked.stderr.contains("no chain in");
            assert!(
                checked.stdout.contains("no faults") || nothing_yet,
                "{place}: {checked:?}"
            );
        }
        let said = good(&path, &arguments);
        check_words(&said, &[&hash]);
        unfinished += u32::from(!said.contains("imported 0 blocks"));
        std::fs::remove_dir_all(&path).expect("removed");
    }
    note(&format!(
        "{rounds} kills (seed {seed}) within an import of {whole:.2?}; {unfinished} before its end"
    ));
}

#[test]
fn kill_while_the_folder_is_made_leaves_one_that_starts() {
    let fresh = Launch::dev(Vec::<String>::new()).start();
    for micros in [0, 100, 200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 51_200] {
        let home = tempfile::tempdir().expect("a temporary directory");
        // Whatever the node makes first is the first sign of the making.
        let made = || std::fs::read_dir(home.path()).is_ok_and(|mut entries| entries.next().is_some());
        Launch::dev(["--mine"])
            .data(home.path())
            .kill_after(made, Duration::from_micros(micros));
        let node = start(home.path());
        assert_eq!(
            node.block(0),
            fresh.block(0),
            "killed {micros} µs after the first file"
        );
        drop(node);
    }
}

#[test]
fn a_second_node_on_the_same_data_says_so_and_ends() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let first = start(home.path());
    let second = Launch::dev(["--mine"]).data(home.path()).run();
    assert_eq!(second.status.code(), Some(1), "{}", second.stderr);
    assert_eq!(second.stdout, "", "no banner of a node that does not run");
    let errors: Vec<_> = second
        .stderr
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let [error] = errors[..] else {
        panic!("one error, got {}", second.stderr)
    };
    let path = home.path().canonicalize().expect("it is there");
    assert!(
        error.contains("in use") && error.contains(&path.display().to_string()),
        "{error}"
    );

    let head = first.head();
    first.wait_for_head(head + 2);
    let answer = e2e::wait_for("the local socket", || {
        use std::io::{BufRead, Write};
        let mut socket = std::os::unix::net::UnixStream::connect(first.socket()).ok()?;
        socket
            .write_all(br#"{"jsonrpc":"2.0","id":1,"method":"net_version"}"#)
            .ok()?;
        let mut line = String::new();
        std::io::BufReader::new(socket).read_line(&mut line).ok()?;
        Some(line)
    });
    assert!(
        answer.contains("100"),
        "the first node's socket still answers: {answer}"
    );
}

#[test]
fn a_restart_goes_on_from_the_same_chain() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let node = start(home.path());
    let genesis = node.block(0);
    let number = node.wait_for_head(2);
    let block = node.block(number);
    assert!(node.end(Signal::Interrupt).status.success());
    // Without mining nothing moves.
    let node = Launch::dev(Vec::<String>::new()).data(home.path()).start();
    assert!(node.head() >= number);
    assert_eq!((node.block(0), node.block(number)), (genesis, block));
    let head = node.banner_values("head").remove(0);
    let expected = format!("block {} {}", node.head(), data(&node.head_block()["hash"], 32));
    assert_eq!(head, expected);
    assert_eq!(node.block(node.head() + 1), Value::Null);
    assert_eq!(
        node.rpc("mc_getBlockByNumber", json!([to_quantity(1 << 40), false])),
        Value::Null
    );
}
