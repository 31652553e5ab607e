//! kill -9, restarts, and two nodes that want one folder.

use e2e::ledger::Ledger;
use e2e::process::Signal;
use e2e::{CallError, Caller, Launch, data, note, quantity, to_quantity};
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};

const ROUNDS: u32 = 4;

fn start(data: &Path) -> e2e::Vnode {
    Launch::dev(["--mine"]).data(data).start()
}

/// Sends transfers and reads heads until the node is gone; the last block that it was told.
fn load(caller: &Caller, accounts: &[String]) -> Option<Value> {
    let mut last = None;
    for round in 0.. {
        let (from, to) = (&accounts[round % 9], &accounts[(round + 1) % 9]);
        let transfer = json!([{"from": from, "to": to, "value": "0x9"}]);
        match caller.try_rpc("mc_sendTransaction", transfer) {
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

#[test]
fn kill_loses_nothing_that_was_served() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let mut node = start(home.path());
    let accounts = node.accounts();
    node.wait_for_head(1);
    for round in 0..ROUNDS {
        let address = node.addresses()[0];
        let started_at = node.head();
        let seen = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..2)
                .map(|_| scope.spawn(|| load(&Caller::new(address), &accounts)))
                .collect();
            node.wait_for_head(started_at + 1);
            // Another moment between two blocks in each round.
            std::thread::sleep(Duration::from_millis(u64::from(round) * 270));
            node.end(Signal::Kill);
            let seen = clients
                .into_iter()
                .filter_map(|client| client.join().expect("no client panics"));
            seen.max_by_key(|block| quantity(&block["number"]))
                .expect("a block was served")
        });
        let restart = Instant::now();
        node = start(home.path());
        let served = restart.elapsed();
        let number = quantity(&seen["number"]);
        let head = node.head();
        note(&format!(
            "killed at block {number}; up again after {served:.2?} at block {head}"
        ));
        assert!(head >= number, "block {number} was served, the head is {head}");
        assert_eq!(node.rpc("mc_getBlockByHash", json!([seen["hash"], false])), seen);
        assert_eq!(node.block(number)["hash"], seen["hash"]);
        node.wait_for_head(number + 1);
    }
    let head = node.head();
    Ledger::genesis(&accounts).check(&node, head);
    for number in 1..=head {
        let parent = data(&node.block(number - 1)["hash"], 32).to_owned();
        assert_eq!(node.block(number)["parentHash"], parent, "block {number}");
    }
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
