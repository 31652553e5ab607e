//! The command line, `vnodeconfig.json` and the log.

use std::net::TcpListener;

use e2e::http::TestHttpClient;
use e2e::process::{EndSignal, EndedProcess};
use e2e::{Launch, Vnode};
use serde_json::{Value, json};

/// Runs a node that must fail to start. Returns its standard error.
#[track_caller]
fn run_failing(launch: Launch) -> String {
    let EndedProcess {
        status,
        stdout,
        stderr,
        ..
    } = launch.run();
    assert!(
        status.code().is_some_and(|code| code != 0),
        "got {status}, expected a failure: {stderr}"
    );
    assert_eq!(stdout, "", "a node that does not start prints no banner");
    assert!(!stderr.contains("panicked"), "{stderr}");
    stderr
}

#[track_caller]
fn check_refused(arguments: &[&str], expected: &[&str]) {
    let stderr = run_failing(Launch::bare(arguments.iter().copied()));
    for word in expected {
        assert!(
            stderr.contains(word),
            "{arguments:?}: got {stderr:?}, expected {word:?} in it"
        );
    }
}

#[test]
fn bad_options_are_named() {
    check_refused(&["--dev", "--unknown"], &["--unknown"]);
    check_refused(&["--dev", "--rpc", "--rpcport", "70000"], &["70000", "--rpcport"]);
    check_refused(
        &["--dev", "--rpc", "--rpcapi", "mc,wrong"],
        &["wrong", "--rpcapi"],
    );
    check_refused(&["--dev", "--moacbase", "0x12"], &["0x12", "--moacbase"]);
    check_refused(&["--dev", "--verbosity", "6"], &["6", "--verbosity"]);
    check_refused(&["--dev", "--minerthreads", "many"], &["many", "--minerthreads"]);
    check_refused(
        &["--dev", "--extradata", "a text of more than thirty-two bytes"],
        &["--extradata", "32"],
    );
    check_refused(
        &["--dev", "--rpc", "--rpccorsdomain", "a b"],
        &["a b", "--rpccorsdomain"],
    );
    check_refused(
        &["--dev", "--rpc", "--rpcvhosts", "http://a"],
        &["http://a", "--rpcvhosts"],
    );
    check_refused(&["--dev", "--ws", "--wsapi", "mc,wrong"], &["wrong", "--wsapi"]);
    check_refused(&["--dev", "--ws", "--wsport", "70000"], &["--wsport"]);
    check_refused(&["--dev", "--ws", "--wsorigins", "x"], &["x", "--wsorigins"]);
    check_refused(
        &["--dev", "--rpc.maxbatch", "0"],
        &["--rpc.maxbatch", "at least 1"],
    );
    check_refused(&["--dev", "--rpc.timeout", "soon"], &["soon", "--rpc.timeout"]);
    check_refused(&["--rpc"], &["--dev"]);
}

#[test]
fn a_port_in_use_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("bound");
    let port = address.port().to_string();
    let stderr = run_failing(Launch::bare(["--dev", "--rpc", "--rpcport", &port]));
    assert!(stderr.contains(&address.to_string()), "{stderr}");
    assert!(stderr.to_lowercase().contains("in use"), "{stderr}");
}

#[test]
fn limits_are_options() {
    let node = Vnode::dev([
        "--rpc.maxbatch",
        "2",
        "--rpc.maxbody",
        "300",
        "--rpc.maxfilters",
        "1",
    ]);
    let mut http = TestHttpClient::new(node.addresses()[0]);
    let batch = http.post("[1,2,3]").expect("an answer");
    assert!(
        batch.body.contains("batch: got 3 requests, expected at most 2"),
        "{}",
        batch.body
    );
    let long = http.post(&" ".repeat(301)).expect("an answer");
    assert_eq!(
        (long.status, long.body.as_str()),
        (413, "the request body is longer than 300 bytes\n")
    );
    node.rpc("mc_newBlockFilter", json!([]));
    let message = node.refused("mc_newBlockFilter", json!([]), -32000);
    assert_eq!(
        message,
        "too many filters: got 1 and 1 more, expected at most 1 for this client now, of 1 for all"
    );
}

#[test]
fn servers_that_others_can_reach_are_warned_of() {
    let anywhere = [
        "--rpcaddr",
        "0.0.0.0",
        "--rpcapi",
        "mc,personal",
        "--ws",
        "--wsaddr",
        "0.0.0.0",
        "--wsport",
        "0",
    ];
    let ended = Vnode::dev(anywhere).end(EndSignal::Interrupt);
    let warnings: Vec<_> = ended
        .stderr
        .lines()
        .filter(|line| line.contains("other machines"))
        .collect();
    assert_eq!(warnings.len(), 3, "{}", ended.stderr);
    assert!(
        warnings[0].contains("HTTP") && warnings[0].contains("personal"),
        "{}",
        warnings[0]
    );
    assert!(
        warnings[1].contains("HTTP") && warnings[1].contains("unlocked"),
        "{}",
        warnings[1]
    );
    assert!(
        warnings[2].contains("WebSocket") && warnings[2].contains("unlocked"),
        "{}",
        warnings[2]
    );
    let ended = Vnode::dev(["--rpcapi", "mc,personal"]).end(EndSignal::Interrupt);
    assert!(!ended.stderr.contains("other machines"), "{}", ended.stderr);
}

#[test]
fn localhost_is_served_on_both_addresses() {
    let node = Vnode::dev(["--rpcaddr", "localhost"]);
    let addresses = node.addresses();
    assert!(
        addresses[0].ip().is_ipv4() && addresses[0].ip().is_loopback(),
        "{addresses:?}"
    );
    let has_ipv6 = e2e::address::has_ipv6();
    assert_eq!(addresses.len(), if has_ipv6 { 2 } else { 1 }, "{addresses:?}");
    for address in addresses {
        assert!(address.ip().is_loopback());
        assert_eq!(address.port(), addresses[0].port());
        assert_eq!(
            e2e::Caller::new(*address).rpc("net_version", json!([])),
            json!("100")
        );
    }
}

#[test]
fn only_the_named_modules_are_served() {
    let node = Vnode::dev(["--rpcapi", "net"]);
    assert_eq!(node.rpc("net_version", json!([])), json!("100"));
    for method in [
        "mc_blockNumber",
        "eth_blockNumber",
        "chain3_clientVersion",
        "web3_clientVersion",
    ] {
        let message = node.refused(method, json!([]), -32601);
        assert!(message.contains("not available"), "{message}");
    }
    let node = Vnode::dev(Vec::<String>::new());
    for method in ["net_version", "mc_blockNumber", "chain3_clientVersion"] {
        node.rpc(method, json!([]));
    }
    for method in [
        "personal_listAccounts",
        "admin_nodeInfo",
        "txpool_status",
        "mc_nonsense",
    ] {
        node.refused(method, json!([]), -32601);
    }
}

#[test]
fn without_rpc_nothing_listens_on_http() {
    let node = Launch::bare(["--dev"]).start();
    assert!(node.addresses().is_empty(), "{}", node.banner());
    assert!(node.socket().exists());
    let node = Launch::dev(["--ipcdisable"]).start();
    assert!(!node.banner().contains("ipc"), "{}", node.banner());
}

#[test]
fn an_invalid_vnodeconfig_stops_the_start_with_a_position() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let file = home.path().join("vnodeconfig.json");
    // The comma after the second line is missing.
    std::fs::write(&file, "{\n  \"SCSService\": false\n  \"ip\": \"\"\n}\n").expect("a write");
    for launch in [
        Launch::dev(Vec::<String>::new()).directory(home.path()),
        Launch::dev(["--vnodeconfig", file.to_str().expect("plain characters")]),
    ] {
        let stderr = run_failing(launch);
        for word in ["vnodeconfig.json", "line 3", "column 3"] {
            assert!(stderr.contains(word), "{stderr}");
        }
    }
    for (text, expected) in [
        (
            "{\"SCSService\": \"yes\"}",
            [
                "line 1, column 16",
                "SCSService: got \"yes\", expected true or false",
            ],
        ),
        ("", ["line 1, column 1", "EOF"]),
        (
            "{\n\"ForceSubnetP2P\": [\"0x12\"]}",
            [
                "line 2, column 20",
                "ForceSubnetP2P[0]: got \"0x12\", expected an address",
            ],
        ),
    ] {
        std::fs::write(&file, text).expect("a write");
        let stderr = run_failing(Launch::dev(Vec::<String>::new()).directory(home.path()));
        for word in ["vnodeconfig.json", expected[0], expected[1]] {
            assert!(stderr.contains(word), "{stderr}");
        }
    }
    let stderr = run_failing(Launch::dev(["--vnodeconfig", "no-such-file.json"]));
    assert!(stderr.contains("no-such-file.json"), "{stderr}");

    std::fs::write(&file, "{\"SCSService\": false, \"ip\": \"\"}").expect("a write");
    Launch::dev(Vec::<String>::new()).directory(home.path()).start();
}

#[test]
fn the_log_can_be_json() {
    let node = Vnode::dev(["--mine", "--log.json"]);
    node.wait_for_head(2);
    let ended = node.end(EndSignal::Interrupt);
    let events: Vec<Value> = ended
        .stderr
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line:?}: {error}")))
        .collect();
    let sealed: Vec<_> = events
        .iter()
        .filter(|event| event["message"] == "sealed a block")
        .collect();
    assert!(sealed.len() >= 2, "{}", ended.stderr);
    for (event, number) in sealed.iter().zip(1..) {
        assert_eq!(
            (&event["number"], &event["level"]),
            (&json!(number), &json!("INFO")),
            "{event}"
        );
        e2e::data(&event["hash"], 32);
        assert!(event["timestamp"].is_string(), "{event}");
    }
}

#[test]
fn verbosity_sets_how_much_is_logged() {
    let mine = |level: &str| {
        let node = Vnode::dev(["--mine", "--verbosity", level]);
        node.wait_for_head(2);
        let ended = node.end(EndSignal::Interrupt);
        assert!(ended.status.success());
        ended.stderr
    };
    assert_eq!(mine("0"), "");
    let default = mine("3");
    assert!(
        default.lines().count() > 1 && default.contains("sealed a block"),
        "{default}"
    );
}
