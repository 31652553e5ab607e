//! Makes the data again: builds the chain, lets geth import it, and records what geth answers.

use std::fs::File;
use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use super::{folder, node_of, scene};
use crate::shared::http_client;

/// A running geth. It ends with the value.
struct Geth {
    child: Child,
    address: SocketAddr,
}

impl Drop for Geth {
    fn drop(&mut self) {
        self.child.kill().expect("a child");
        self.child.wait().expect("a child");
    }
}

/// A command of geth for this data directory. Seals are not checked, and all states are kept.
fn command(program: &str, data: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .arg("--datadir")
        .arg(data)
        .args([
            "--fakepow",
            "--gcmode",
            "archive",
            "--syncmode",
            "full",
            "--nousb",
        ])
        .stdout(Stdio::null());
    command
}

fn start(program: &str, data: &Path) -> Geth {
    let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = free.local_addr().expect("an address");
    drop(free);
    let child = command(program, data)
        .args([
            "--nodiscover",
            "--maxpeers",
            "0",
            "--port",
            "0",
            "--nat",
            "none",
            "--ipcdisable",
        ])
        .args([
            "--networkid",
            "4711",
            "--rpc",
            "--rpcapi",
            "eth,debug",
            "--rpcport",
            &address.port().to_string(),
        ])
        .spawn()
        .expect("geth starts");
    let geth = Geth { child, address };
    let end = Instant::now() + Duration::from_secs(60);
    while TcpStream::connect(address).is_err() {
        assert!(Instant::now() < end, "geth does not listen");
        std::thread::sleep(Duration::from_millis(100));
    }
    geth
}

/// Writes a compressed file. The same content gives the same bytes.
fn pack(name: &str, content: &[u8]) {
    let file = File::create(folder().join(name)).expect("a file");
    let mut packed = GzEncoder::new(file, Compression::best());
    packed.write_all(content).expect("written");
    packed.finish().expect("written");
}

/// The body of a response. geth sends long ones in chunks: a length in hex in a line, the bytes,
/// and an empty line.
fn without_chunks(body: String) -> String {
    if body.starts_with('{') {
        return body;
    }
    let (mut rest, mut whole) = (body.as_str(), String::new());
    while let Some((length, after)) = rest.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).expect("the length of a chunk");
        whole += &after[..length];
        rest = &after[length + 2..];
    }
    whole
}

#[test]
#[ignore = "needs geth: GETH names its program"]
fn record_the_answers_of_geth() {
    let program = std::env::var("GETH").expect("GETH=PROGRAM");
    let genesis = serde_json::to_string(&scene::genesis()).expect("JSON") + "\n";
    let net = node_of(&genesis, Vec::new());
    let blocks = scene::blocks(&net);
    std::fs::create_dir_all(folder()).expect("a folder");
    std::fs::write(folder().join("genesis.json"), genesis).expect("written");
    pack("blocks.rlp.gz", &blocks);

    let data = tempfile::tempdir().expect("a temporary folder");
    let plain = data.path().join("blocks.rlp");
    std::fs::write(&plain, blocks).expect("written");
    for (word, file) in [("init", folder().join("genesis.json")), ("import", plain)] {
        let status = command(&program, data.path()).arg(word).arg(file).status();
        assert!(status.expect("geth starts").success(), "geth {word}");
    }
    let geth = start(&program, data.path());
    let ask = |method: &str, params: &Value| {
        let question = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let body = http_client::post(geth.address, &question.to_string());
        serde_json::from_str::<Value>(&without_chunks(body)).expect("JSON")
    };
    let head = ask("eth_getBlockByNumber", &json!(["latest", false]));
    let expected = json!(net.view().head_hash());
    assert_eq!(head["result"]["hash"], expected, "geth has the whole chain");
    let answers: Vec<_> = scene::questions(&net)
        .into_iter()
        .map(|(method, params)| {
            let mut answer = ask(method, &params);
            let members = answer.as_object_mut().expect("an object");
            members.retain(|name, _| matches!(name.as_str(), "result" | "error"));
            answer["method"] = json!(method);
            answer["params"] = params;
            answer.to_string()
        })
        .collect();
    pack(
        "answers.json.gz",
        format!("[\n{}\n]\n", answers.join(",\n")).as_bytes(),
    );
}
