//! A backup of a node that runs, and the commands that ask a running node.

use std::path::Path;

use e2e::process::{EndSignal, EndedProcess};
use e2e::{Launch, Vnode, to_quantity};
use serde_json::json;

use super::offline::{assert_contains, run_failing, run_ok};

/// A node of the development network that makes a block of each transaction.
fn instant(data: &Path) -> Vnode {
    Launch::dev(["--dev.seal", "instant"]).data(data).start()
}

/// Sends coins `count` times.
fn send(node: &Vnode, count: usize) {
    let accounts = node.accounts();
    for _ in 0..count {
        node.send(json!({"from": accounts[0], "to": accounts[1], "value": "0x5"}));
    }
}

#[test]
fn a_backup_of_a_running_node_is_restored() {
    let home = tempfile::Builder::new()
        .prefix("vn")
        .tempdir()
        .expect("a temporary folder");
    let (data, backup) = (home.path().join("data"), home.path().join("backup"));
    let text = |path: &Path| path.to_str().expect("text").to_owned();
    let node = instant(&data);
    send(&node, 5);
    let said = run_ok(&data, &["db", "backup", &text(&backup)]);
    assert_contains(&said, &["by the running node", "no keys"]);
    send(&node, 3);
    // The node goes on, and tells its figures and its blocks.
    let head = node.head();
    assert_eq!(head, 8);
    let stats = run_ok(&data, &["db", "stats"]);
    assert_contains(
        &stats,
        &["number_to_hash", "chain.redb.wal", "head block 8 0x", "(archive)"],
    );
    let running = home.path().join("running.rlp");
    run_ok(&data, &["export", &text(&running)]);
    let exported = std::fs::read(&running).expect("a file");
    let era1 = |name: &str| {
        let folder = home.path().join(name);
        run_ok(&data, &["export", "--format", "era1", &text(&folder)]);
        let file = std::fs::read_dir(&folder).expect("a folder").next();
        let path = file.expect("a file").expect("a file").path();
        (
            path.file_name().map(ToOwned::to_owned),
            std::fs::read(&path).expect("a file"),
        )
    };
    let era1_exported = era1("running");
    let refused = run_failing(&data, &["db", "backup", &text(&backup)]);
    assert_contains(&refused, &["backup", "not empty"]);
    // Other commands are refused while the node runs.
    assert_contains(
        &run_failing(&data, &["db", "prune"]),
        &["in use by another process"],
    );
    node.end(EndSignal::Interrupt);

    // The same commands without a node give the same.
    assert_eq!(
        run_ok(&data, &["db", "stats"]).lines().last(),
        stats.lines().last()
    );
    let stopped = home.path().join("stopped.rlp");
    run_ok(&data, &["export", &text(&stopped)]);
    assert_eq!(std::fs::read(&stopped).expect("a file"), exported);
    assert_eq!(era1("stopped"), era1_exported);
    let cold = home.path().join("cold");
    run_ok(&data, &["db", "backup", &text(&cold)]);
    assert_contains(
        &run_ok(&cold, &["db", "check", "--full"]),
        &["checked 9 blocks", "no faults"],
    );

    // The backup is the chain as it was, and a node goes on with it.
    assert_contains(
        &run_ok(&backup, &["db", "check", "--full"]),
        &["checked 6 blocks", "no faults"],
    );
    let part = home.path().join("part.rlp");
    run_ok(&backup, &["export", &text(&part)]);
    assert!(exported.starts_with(&std::fs::read(&part).expect("a file")));
    let node = instant(&backup);
    assert_eq!(node.head(), 5);
    send(&node, 1);
    assert_eq!(node.rpc("mc_blockNumber", json!([])), to_quantity(6));
}

/// Runs a program that must fail. Returns its exit code and its standard error.
fn fail(launch: Launch) -> (Option<i32>, String) {
    let EndedProcess { status, stderr, .. } = launch.run();
    (status.code(), stderr)
}

#[test]
fn errors_name_the_option_and_one_cause_has_one_exit_code() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = taken.local_addr().expect("bound").port().to_string();
    for option in ["rpc", "ws", "stratum"] {
        let (on, port_option) = (format!("--{option}"), format!("--{option}port"));
        let (code, error) = fail(Launch::dev([on.as_str(), port_option.as_str(), &port]));
        let words = format!("address already in use: {port_option} {port}");
        assert_eq!(code, Some(1), "{error}");
        assert_contains(&error, &[&words]);
    }
    let (code, error) = fail(Launch::dev(["--stratumport", "1", "--miner.dataset", "disk"]));
    assert_eq!(code, Some(2), "{error}");
    assert_contains(&error, &["--miner.dataset disk needs --ethash.dagdir"]);
    // No node runs there.
    for command in [
        &["rpc", "net_version"][..],
        &["attach"],
        &["attach", "--exec", "net.version"],
    ] {
        let (code, error) = fail(Launch::bare([""; 0]).command(command));
        assert_eq!(code, Some(3), "{command:?}: {error}");
        assert_contains(&error, &["cannot reach the node", "vnode.ipc"]);
    }
}

#[test]
fn one_line_of_the_console_is_done() {
    let node = Vnode::dev(["--dev.seal", "instant", "--stratumport", "1"]);
    assert_contains(&node.log(), &["--stratumport has no effect without --stratum"]);
    let socket = node.socket();
    let socket = socket.to_str().expect("text");
    let run = |line: &str| {
        let arguments = ["attach", socket, "--exec", line];
        let EndedProcess {
            status,
            stdout,
            stderr,
            ..
        } = Launch::bare([""; 0]).command(&arguments).run();
        (status.code(), stdout, stderr)
    };
    assert_eq!(
        run("net.version"),
        (Some(0), "\"100\"\n".to_owned(), String::new())
    );
    assert_eq!(run("eth.blockNumber").1, "\"0x0\" (0)\n");
    assert_contains(
        &run("help mc.getBalance").1,
        &["address: DATA20", "example: mc.getBalance \"0x"],
    );
    let (code, out, error) = run("mc.getBalance 0x12");
    assert_eq!((code, out.as_str()), (Some(1), ""));
    assert_contains(&error, &["error: invalid argument 0", "(-32602)"]);
    let (code, _, error) = run("mc.getBalance(");
    assert_eq!(code, Some(1));
    assert_contains(&error, &["--exec: ( is not closed"]);
}
