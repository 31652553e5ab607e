//! The local socket, and raw HTTP requests.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use e2e::call::read_response;
use e2e::http::TestHttpClient;
use e2e::wait::SOCKET_PATIENCE;
use e2e::{Vnode, data, quantity};
use serde_json::{Value, json};

#[test]
fn the_local_socket_is_private_and_serves_every_module() {
    let node = Vnode::with_blocks(["--rpcapi", "net"]);
    let path = node.socket();
    let mode = std::fs::metadata(&path)
        .expect("the socket is there")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600, "{mode:o}");
    let socket = UnixStream::connect(&path).expect("the node listens");
    socket.set_read_timeout(Some(SOCKET_PATIENCE)).expect("a timeout");
    let mut write = &socket;
    // Two requests without a separator, one of them in two pieces; then a batch with an unknown
    // method.
    write
        .write_all(br#"{"jsonrpc":"2.0","id":1,"method":"mc_accounts","params":[]}{"jsonrpc":"2.0","id":"#)
        .expect("a write");
    std::thread::sleep(Duration::from_millis(20));
    write
        .write_all(br#""two","method":"net_version"}"#)
        .expect("a write");
    let mut lines = BufReader::new(&socket).lines();
    let mut line = || lines.next().expect("an answer").expect("an answer");
    let accounts = read_response(&line(), &json!(1)).expect("a result");
    assert_eq!(accounts.as_array().map(Vec::len), Some(10));
    assert_eq!(read_response(&line(), &json!("two")), Ok(json!("100")));
    write
        .write_all(br#"[{"jsonrpc":"2.0","id":3,"method":"mc_blockNumber"},{"jsonrpc":"2.0","id":4,"method":"x_y"}]"#)
        .expect("a write");
    let batch: Value = serde_json::from_str(&line()).expect("JSON");
    quantity(&batch[0]["result"]);
    assert_eq!(batch[1]["error"]["code"], json!(-32601));
    // HTTP does not serve this method, but the local socket did.
    node.refused("mc_accounts", json!([]), -32601);
}

#[test]
fn aliases_give_the_same_answers() {
    let node = Vnode::dev(["--mine", "--minerthreads", "0"]);
    let accounts = node.accounts();
    for (alias, name, params) in [
        ("eth_getBalance", "mc_getBalance", json!([accounts[0], "latest"])),
        (
            "eth_getBlockByNumber",
            "mc_getBlockByNumber",
            json!(["0x0", true]),
        ),
        ("eth_accounts", "mc_accounts", json!([])),
        ("eth_gasPrice", "mc_gasPrice", json!([])),
        ("web3_clientVersion", "chain3_clientVersion", json!([])),
        ("web3_sha3", "chain3_sha3", json!(["0x68656c6c6f20776f726c64"])),
    ] {
        assert_eq!(node.rpc(alias, params.clone()), node.rpc(name, params), "{alias}");
    }
    let hash = node.rpc("chain3_sha3", json!(["0x68656c6c6f20776f726c64"]));
    assert_eq!(
        hash,
        "0x47173285a8d7341e5e972fc677286384f802f8ef42a5ec5f03bbfa254cb01fad"
    );
}

#[test]
fn http_answers_every_post() {
    let node = Vnode::dev(Vec::<String>::new());
    let mut http = TestHttpClient::new(node.addresses()[0]);
    let mut code = |body: &str| {
        let answer = http.post(body).expect("an answer");
        assert_eq!(answer.status, 200, "{body}");
        let response: Value = serde_json::from_str(&answer.body).expect("JSON");
        response["error"]["code"].as_i64()
    };
    assert_eq!(code("{"), Some(-32700));
    assert_eq!(code("{}"), Some(-32600));
    assert_eq!(code("[]"), Some(-32600));
    assert_eq!(
        code(r#"{"jsonrpc":"2.0","id":1,"method":"mc_getBalance","params":["0x12"]}"#),
        Some(-32602)
    );
    assert_eq!(
        code(r#"{"jsonrpc":"2.0","id":1,"method":"mc_nonsense"}"#),
        Some(-32601)
    );
    assert_eq!(
        code(r#"{"jsonrpc":"2.0","id":1,"method":"mc_blockNumber"}"#),
        None
    );
    data(&node.block(0)["hash"], 32);
}

#[test]
fn health_needs_no_json_rpc() {
    let node = Vnode::with_blocks([] as [&str; 0]);
    node.wait_for_head(2);
    let health = get(node.addresses()[0], "/health");
    let health: Value = serde_json::from_str(&health).expect("JSON");
    assert!(health["head"].as_u64().is_some_and(|head| head >= 2), "{health}");
    assert!(health["age"].as_u64().is_some_and(|age| age < 60), "{health}");
    assert_eq!((&health["peers"], &health["syncing"]), (&json!(0), &json!(false)));
    assert!(get(node.addresses()[0], "/").contains("JSON-RPC 2.0"));
}

/// Sends a GET request. Returns the body of the answer.
fn get(address: std::net::SocketAddr, path: &str) -> String {
    let mut stream = std::net::TcpStream::connect(address).expect("the node listens");
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    )
    .expect("a write");
    let mut answer = String::new();
    std::io::Read::read_to_string(&mut stream, &mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a response");
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    body.to_owned()
}
