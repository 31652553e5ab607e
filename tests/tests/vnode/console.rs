//! `vnode rpc` for scripts and `vnode attach` for people, here with a pipe instead of a terminal.

use std::io::Write;
use std::process::{Command, Stdio};

use e2e::process::{Ended, Launch};
use e2e::{Vnode, quantity, vnode_path};
use serde_json::{Value, json};

/// Runs a command against the socket of `node`.
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
    let node = Vnode::dev(["--mine", "--ws", "--wsport", "0"]);
    let (code, out, err) = rpc(&node, &["net_version"]);
    assert_eq!((code, out.as_str(), err.as_str()), (Some(0), "\"100\"\n", ""));
    let account = &node.accounts()[0];
    for method in ["mc_getBalance", "mc.getBalance", "eth_getBalance"] {
        let (code, out, _) = rpc(&node, &[method, account, "0x0"]);
        assert_eq!(code, Some(0));
        assert!(quantity(&serde_json::from_str(&out).expect("JSON")) > 0, "{out}");
    }
    // JSON where it is JSON; the members come in the node's order.
    let (code, out, _) = rpc(&node, &["mc_getBlockByNumber", "0x0", "false"]);
    assert_eq!(code, Some(0));
    assert!(out.starts_with(r#"{"number":"0x0","hash":"0x"#), "{out}");
    let (code, out, _) = rpc(&node, &["mc_call", &format!(r#"{{"to":"{account}"}}"#), "latest"]);
    assert_eq!((code, out.as_str()), (Some(0), "\"0x\"\n"));

    // What the node refuses.
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
fn what_cannot_be_asked_is_told_apart() {
    let refused = |arguments: &[&str], word: &str| {
        let Ended {
            status,
            stderr,
            stdout,
            ..
        } = Launch::bare(["--verbosity", "0"]).command(arguments).run();
        assert_eq!(
            (status.code(), stdout.as_str()),
            (Some(2), ""),
            "{arguments:?}: {stderr}"
        );
        assert!(stderr.contains(word), "{arguments:?}: {stderr}");
    };
    // Nothing runs in a fresh data directory.
    refused(&["rpc", "net_version"], "vnode.ipc");
    refused(
        &["rpc", "--endpoint", "http://127.0.0.1:1", "net_version"],
        "127.0.0.1:1",
    );
    refused(
        &["rpc", "--endpoint", "https://localhost", "net_version"],
        "https",
    );
    refused(&["rpc"], "METHOD");
}

/// Types `lines` into `vnode attach`; gives what it says.
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
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.success(), said)
}

#[test]
fn people_attach() {
    let node = Vnode::dev(["--mine", "--ws", "--wsport", "0"]);
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
        let (ended_well, said) = attach(&[endpoint], &lines);
        assert!(ended_well, "{said}");
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
                said.contains(expected),
                "{endpoint} says {said:?}, expected {expected:?} in it"
            );
        }
        assert_eq!(said.matches(&balance).count(), 2, "both ways of writing: {said}");
    }
    let (_, said) = attach(&[socket], "exit\nnet.version\n");
    assert!(!said.contains("\"100\""), "{said}");
    let (ended_well, said) = attach(&[&format!("{socket}.no")], "");
    assert!(!ended_well && said.contains("cannot ask the node at"), "{said}");
}

#[test]
fn subscriptions_are_shown() {
    let node = Vnode::dev(["--mine"]);
    let socket = node.socket();
    // Work waits for the next block, and by then its head was told.
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
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        said.contains("\"subscription\": \"0x") && said.contains("\"parentHash\""),
        "{said}"
    );
}
