//! `vnode rpc` and `vnode attach`, with pipes instead of a terminal.

use std::io::Write;
use std::process::{Command, Stdio};

use e2e::process::EndedProcess;
use e2e::{Launch, Vnode, quantity, vnode_path};
use serde_json::{Value, json};

/// Runs `vnode rpc` with the socket of `node`. Returns exit code, standard output and standard
/// error.
fn rpc(node: &Vnode, arguments: &[&str]) -> (Option<i32>, String, String) {
    let socket = node.socket();
    let output = Command::new(vnode_path())
        .args(["rpc", "--endpoint", socket.to_str().expect("plain characters")])
        .args(arguments)
        .output()
        .expect("the program runs");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn scripts_call_methods() {
    let node = Vnode::with_blocks(["--ws", "--wsport", "0"]);
    let (code, out, err) = rpc(&node, &["net_version"]);
    assert_eq!((code, out.as_str(), err.as_str()), (Some(0), "\"100\"\n", ""));
    let account = &node.accounts()[0];
    for method in ["mc_getBalance", "mc.getBalance", "eth_getBalance"] {
        let (code, out, _) = rpc(&node, &[method, account, "0x0"]);
        assert_eq!(code, Some(0));
        assert!(quantity(&serde_json::from_str(&out).expect("JSON")) > 0, "{out}");
    }
    // A parameter that is valid JSON is sent as JSON. The members keep the order of the node.
    let (code, out, _) = rpc(&node, &["mc_getBlockByNumber", "0x0", "false"]);
    assert_eq!(code, Some(0));
    assert!(out.starts_with(r#"{"number":"0x0","hash":"0x"#), "{out}");
    let (code, out, _) = rpc(&node, &["mc_call", &format!(r#"{{"to":"{account}"}}"#), "latest"]);
    assert_eq!((code, out.as_str()), (Some(0), "\"0x\"\n"));

    // Errors of the node.
    let (code, out, err) = rpc(&node, &["mc_getBalance", "0x12"]);
    assert_eq!((code, out.as_str()), (Some(1), ""));
    assert_eq!(
        err,
        "error: invalid argument 0: got 1 byte, expected 20 bytes (-32602)\n"
    );
    let (code, _, err) = rpc(&node, &["mc_nothing", "-1"]);
    assert_eq!(code, Some(1));
    assert!(err.contains("(-32601)"), "{err}");

    // Over the other transports.
    for endpoint in [node.url(), format!("ws://{}", node.ws_address())] {
        let output = Command::new(vnode_path())
            .args(["rpc", "--endpoint", &endpoint, "net_version"])
            .output()
            .expect("the program runs");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "\"100\"\n", "{endpoint}");
    }
}

#[test]
fn an_unreachable_node_has_its_own_exit_code() {
    let refused = |arguments: &[&str], code: i32, word: &str| {
        let EndedProcess {
            status,
            stderr,
            stdout,
            ..
        } = Launch::bare(["--verbosity", "0"]).command(arguments).run();
        assert_eq!(
            (status.code(), stdout.as_str()),
            (Some(code), ""),
            "{arguments:?}: {stderr}"
        );
        assert!(stderr.contains(word), "{arguments:?}: {stderr}");
    };
    // No node runs on a new data directory.
    refused(&["rpc", "net_version"], 3, "vnode.ipc");
    for (endpoint, code, word) in [
        ("http://127.0.0.1:1", 3, "127.0.0.1:1"),
        ("https://127.0.0.1:1", 3, "https://127.0.0.1:1"),
        ("ftp://localhost", 2, "got ftp, expected http://, https://"),
        ("https://a:b@localhost", 2, "--token"),
    ] {
        refused(&["rpc", "--endpoint", endpoint, "net_version"], code, word);
    }
    refused(&["rpc"], 2, "METHOD");
}

/// Runs `vnode attach` with `lines` as its input. Returns whether it succeeded, and its output.
fn attach(arguments: &[&str], lines: &str) -> (bool, String) {
    let mut child = Command::new(vnode_path())
        .arg("attach")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .env("TERM", "dumb")
        .spawn()
        .expect("the program runs");
    let mut stdin = child.stdin.take().expect("piped");
    stdin.write_all(lines.as_bytes()).expect("the console reads");
    drop(stdin);
    let output = child.wait_with_output().expect("the console ends");
    let printed =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.success(), printed)
}

#[test]
fn the_console_calls_methods() {
    let node = Vnode::with_blocks(["--ws", "--wsport", "0"]);
    node.wait_for_head(1);
    let account = node.accounts()[0].clone();
    let lines = format!(
        "net.version\nmc.getBalance {account} 0x0\nmc_getBalance(\"{account}\", \"0x0\")\n\
         mc.getBlockByNumber 0x0 false\nmc.getBalance 0x12\nnonsense [\nhelp net\n\nmc.chainId\n"
    );
    let socket = node.socket();
    let socket = socket.to_str().expect("plain characters");
    let balance: Value = node.rpc("mc_getBalance", json!([account, "0x0"]));
    let balance = format!("{balance} ({})", quantity(&balance));
    for endpoint in [socket, &node.url(), &format!("ws://{}", node.ws_address())] {
        let (succeeded, printed) = attach(&[endpoint], &lines);
        assert!(succeeded, "{printed}");
        for expected in [
            &format!("attached to {endpoint}") as &str,
            "network  100",
            "\"100\"",
            &balance,
            "  \"number\": \"0x0\",",
            "error: invalid argument 0: got 1 byte, expected 20 bytes (-32602)",
            "error: [ is not closed",
            "net.peerCount",
            "\"0x64\" (100)",
        ] {
            assert!(
                printed.contains(expected),
                "{endpoint}: got {printed:?}, expected {expected:?} in it"
            );
        }
        assert_eq!(printed.matches(&balance).count(), 2, "both forms: {printed}");
    }
    let (_, printed) = attach(&[socket], "exit\nnet.version\n");
    assert!(!printed.contains("\"100\""), "{printed}");
    let (succeeded, printed) = attach(&[&format!("{socket}.no")], "");
    assert!(
        !succeeded && printed.contains("cannot reach the node at"),
        "{printed}"
    );
}

#[test]
fn notifications_are_printed() {
    let node = Vnode::with_blocks([] as [&str; 0]);
    let socket = node.socket();
    // `mc.getWork` waits for the next block, so a head is announced before the console ends.
    let lines = "mc.subscribe newHeads\n".to_owned() + &"mc.getWork\n".repeat(3) + "mc.blockNumber\n";
    let mut child = Command::new(vnode_path())
        .arg("attach")
        .arg(&socket)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program runs");
    let mut stdin = child.stdin.take().expect("piped");
    stdin.write_all(lines.as_bytes()).expect("the console reads");
    let head = node.head();
    node.wait_for_head(head + 3);
    drop(stdin);
    let output = child.wait_with_output().expect("the console ends");
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(
        printed.contains("\"subscription\": \"0x") && printed.contains("\"parentHash\""),
        "{printed}"
    );
}
