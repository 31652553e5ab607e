//! kill -9, restarts, and two nodes with the same data directory.

use std::path::Path;
use std::time::{Duration, Instant};

use e2e::contract::{creation_code, set};
use e2e::ledger::BalanceLedger;
use e2e::process::EndSignal;
use e2e::{Caller, Launch, RpcCallError, data, ipc, note, quantity, to_quantity};
use serde_json::{Value, json};

use crate::vnode::offline::{assert_contains, run_ok};

/// Number of rounds if `KILL_ROUNDS` is not set.
const ROUNDS: u32 = 4;
/// The whole database is checked once in this number of rounds.
const CHECK_EVERY: u32 = 20;
/// Longest time between the first new block and the kill.
const KILL_WITHIN: Duration = Duration::from_millis(1500);

/// The number of rounds, and the seed for the times of the kills.
fn rounds() -> (u32, u64) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().expect("after 1970");
    let seed = number("KILL_SEED").unwrap_or_else(|| u64::from(now.subsec_nanos()));
    let rounds = number("KILL_ROUNDS").and_then(|rounds| u32::try_from(rounds).ok());
    (rounds.unwrap_or(ROUNDS), seed)
}

/// The next pseudo-random number.
const fn random(state: &mut u64) -> u64 {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

fn start(data: &Path) -> e2e::Vnode {
    Launch::dev(["--mine"]).data(data).start()
}

/// Sends transfers, writes to a contract and reads heads until the node has ended. Returns the last
/// block that the node returned.
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
            // The pool may be full.
            Ok(_) | Err(RpcCallError::Refused { .. }) => {}
            Err(RpcCallError::Transport(_)) => break,
        }
        match caller.try_rpc("mc_getBlockByNumber", json!(["latest", false])) {
            Ok(block) => last = Some(block),
            Err(_) => break,
        }
        // A short pause, so that the node can mine and the ledger has not too much to check.
        std::thread::sleep(Duration::from_millis(2));
    }
    last
}

/// Follows a chain over many restarts of its node.
struct Follower {
    ledger: BalanceLedger,
    number: u128,
    hash: String,
}

impl Follower {
    /// Checks that the node has every block up to the head, that each block names its parent, and
    /// that the balances are those that the blocks give.
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
fn kill_loses_no_block_that_was_returned() {
    let (rounds, seed) = rounds();
    let mut state = seed;
    let home = tempfile::tempdir().expect("a temporary directory");
    let mut node = start(home.path());
    let accounts = node.accounts();
    let mut follower = Follower {
        ledger: BalanceLedger::genesis(&accounts),
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
        let delay = KILL_WITHIN * (random(&mut state) % 1000) as u32 / 1000;
        let seen = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..2)
                .map(|_| scope.spawn(|| load(&Caller::new(address), &accounts, &contract)))
                .collect();
            node.wait_for_head(started_at + 1);
            std::thread::sleep(delay);
            node.end(EndSignal::Kill);
            let seen = clients
                .into_iter()
                .filter_map(|client| client.join().expect("no client panics"));
            seen.max_by_key(|block| quantity(&block["number"]))
                .expect("a block was returned")
        });
        if round % CHECK_EVERY == 0 || round == rounds {
            assert_contains(&run_ok(home.path(), &["db", "check", "--full"]), &["no faults"]);
        }
        let restart = Instant::now();
        node = start(home.path());
        restarts.push(restart.elapsed());
        let number = quantity(&seen["number"]);
        let head = node.head();
        let context = format!("seed {seed}, round {round}");
        assert!(
            head >= number,
            "{context}: block {number} was returned before, the head is {head}"
        );
        assert_eq!(
            node.rpc("mc_getBlockByHash", json!([seen["hash"], false])),
            seen,
            "{context}"
        );
        assert_eq!(node.block(number)["hash"], seen["hash"], "{context}");
        follower.follow(&node, head);
    }
    node.wait_for_head(node.head() + 1);
    restarts.sort_unstable();
    note(&format!(
        "{rounds} kills (seed {seed}) over {} blocks; restart: min {:.2?}, median {:.2?}, max {:.2?}",
        follower.number,
        restarts[0],
        restarts[restarts.len() / 2],
        restarts[restarts.len() - 1]
    ));
}

/// A stream of two chains from the same block 0, of which the second is longer, and the hash of its
/// last block.
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
        assert!(node.end(EndSignal::Interrupt).status.success());
        let file = home.join(format!("{name}.rlp"));
        let last = blocks.to_string();
        run_ok(&path, &["export", file.to_str().expect("plain"), "1", &last]);
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
fn an_import_with_reorganizations_can_be_resumed_after_a_kill() {
    let (rounds, seed) = rounds();
    let mut state = seed;
    let home = tempfile::tempdir().expect("a temporary directory");
    let (stream, hash) = branches(home.path());
    let file = home.path().join("both.rlp");
    std::fs::write(&file, stream).expect("written");
    let arguments = ["import", file.to_str().expect("plain characters"), "--dev"];
    let whole = Instant::now();
    assert_contains(&run_ok(&home.path().join("whole"), &arguments), &[&hash]);
    let whole = whole.elapsed();
    let mut unfinished = 0;
    for round in 0..rounds {
        let path = home.path().join(format!("round{round}"));
        let delay = whole * (random(&mut state) % 1000) as u32 / 1000;
        Launch::bare(arguments).data(&path).kill_after(|| true, delay);
        let context = format!("seed {seed}, round {round}");
        if path.join(store::FILE_NAME).exists() {
            let checked = Launch::bare(["db", "check", "--full"]).data(&path).run();
            let no_chain = checked.stderr.contains("no chain in");
            assert!(
                checked.stdout.contains("no faults") || no_chain,
                "{context}: {checked:?}"
            );
        }
        let output = run_ok(&path, &arguments);
        assert_contains(&output, &[&hash]);
        unfinished += u32::from(!output.contains("imported 0 blocks"));
        std::fs::remove_dir_all(&path).expect("removed");
    }
    note(&format!(
        "{rounds} kills (seed {seed}) within an import of {whole:.2?}; {unfinished} before its end"
    ));
}

#[test]
fn a_directory_starts_after_a_kill_during_its_creation() {
    let fresh = Launch::dev(Vec::<String>::new()).start();
    for micros in [0, 100, 200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 51_200] {
        let home = tempfile::tempdir().expect("a temporary directory");
        // The first file that the node creates starts the time.
        let created = || std::fs::read_dir(home.path()).is_ok_and(|mut entries| entries.next().is_some());
        Launch::dev(["--mine"])
            .data(home.path())
            .kill_after(created, Duration::from_micros(micros));
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
fn a_second_node_on_the_same_directory_is_refused() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let first = start(home.path());
    let second = Launch::dev(["--mine"]).data(home.path()).run();
    assert_eq!(second.status.code(), Some(1), "{}", second.stderr);
    assert_eq!(second.stdout, "", "a node that does not start prints no banner");
    let errors: Vec<_> = second
        .stderr
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let [error] = errors[..] else {
        panic!("got {}, expected one error", second.stderr)
    };
    let path = home.path().canonicalize().expect("it is there");
    assert!(
        error.contains("in use") && error.contains(&path.display().to_string()),
        "{error}"
    );

    let head = first.head();
    first.wait_for_head(head + 2);
    // The second node has not replaced the socket of the first.
    assert_eq!(ipc::rpc(&first.socket(), "net_version", json!([])), "100");
}

#[test]
fn a_restart_continues_the_same_chain() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let node = start(home.path());
    let genesis = node.block(0);
    let number = node.wait_for_head(2);
    let block = node.block(number);
    assert!(node.end(EndSignal::Interrupt).status.success());
    // Without mining the head does not change.
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
