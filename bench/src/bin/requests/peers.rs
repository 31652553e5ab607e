//! The servers that are measured: `vnode`, anvil and the bare handler. Each is a process that ends
//! when its value is dropped.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bench::Failure;
use e2e::Caller;
use e2e::Vnode;
use e2e::address::free_address;
use e2e::work::{RpcWork, search};
use serde_json::{Value, json};

use crate::content::{CHAIN_ID, Content, MeasuredCall};
use crate::load::Load;

/// Longest time for a server to start, and for transactions to arrive.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// The token of the requests to a node that has tokens.
pub(crate) const TOKEN: &str = "the-token-of-the-benchmark";

/// The gas limit at which a block holds the content.
const TARGET_GAS_LIMIT: &[&str] = &["--targetgaslimit", "30000000"];

/// Work that has not changed for this time includes all transactions of the pool. The node replaces
/// work at most every two seconds.
const SETTLED: Duration = Duration::from_millis(2500);

/// A server that is measured.
#[derive(Debug)]
pub(crate) struct RunningServer {
    name: &'static str,
    address: SocketAddr,
    process: Process,
}

#[derive(Debug)]
enum Process {
    Node(Box<Vnode>),
    Child(Child),
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Self::Child(child) = self {
            // The process may have ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl RunningServer {
    /// Name of the server.
    pub(crate) const fn name(&self) -> &'static str {
        self.name
    }

    /// Address of the server.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Resident memory in MiB; `None` if the system does not report it.
    pub(crate) fn memory(&self) -> Option<u64> {
        let id = match &self.process {
            Process::Node(node) => node.id(),
            Process::Child(child) => child.id(),
        };
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        let kibibytes: u64 = line.trim().trim_end_matches(" kB").parse().ok()?;
        Some(kibibytes >> 10)
    }
}

/// Starts a node of the development network with the content. The blocks are mined by this program,
/// so that each has the intended transactions.
pub(crate) fn start_vnode(content: &Content) -> Result<RunningServer, Failure> {
    fill(content, Vnode::dev(TARGET_GAS_LIMIT.iter().copied()))
}

/// A further node, which is compared with the first one.
#[derive(Debug)]
pub(crate) struct Variant {
    /// The difference of this node.
    name: String,
    pub(crate) server: RunningServer,
    /// Its clients send [`TOKEN`].
    pub(crate) has_token: bool,
    /// Holds the file of tokens.
    _folder: Option<tempfile::TempDir>,
}

impl Variant {
    /// Returns the difference of this node.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

/// Starts the further nodes: with `tokens` tokens, unless that is 0, with `metrics`, and with the
/// export of spans.
pub(crate) fn start_variants(
    content: &Content,
    tokens: usize,
    metrics: bool,
    otlp: bool,
) -> Result<Vec<Variant>, Failure> {
    let mut variants = Vec::new();
    if tokens > 0 {
        variants.push(start_guarded(content, tokens)?);
    }
    if metrics {
        variants.push(start_observed(content)?);
    }
    if otlp {
        variants.push(start_traced(content)?);
    }
    Ok(variants)
}

/// A node with `count` tokens, of which the last one is [`TOKEN`]. Requests without a token are
/// served, too, because the content is sent without one.
fn start_guarded(content: &Content, count: usize) -> Result<Variant, Failure> {
    let mut text = "[anonymous]\nmodules = [\"*\"]\n".to_owned();
    for index in 1..=count {
        let secret = match index {
            last if last == count => TOKEN.to_owned(),
            other => format!("token-number-{other:06}"),
        };
        text += &format!("[[token]]\nname = \"t{index}\"\nsecret = \"{secret}\"\nmodules = [\"mc\"]\n");
    }
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("tokens.toml");
    std::fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))?;
    let path = file.to_str().ok_or("a folder without a plain name")?;
    Ok(Variant {
        name: format!("{count} tokens"),
        server: fill(
            content,
            Vnode::dev([TARGET_GAS_LIMIT, &["--rpc.tokens", path]].concat()),
        )?,
        has_token: true,
        _folder: Some(folder),
    })
}

/// A node with metrics, which are read once a second for as long as the program runs.
fn start_observed(content: &Content) -> Result<Variant, Failure> {
    let address = free_address();
    let text = address.to_string();
    let server = fill(
        content,
        Vnode::dev([TARGET_GAS_LIMIT, &["--metrics", &text]].concat()),
    )?;
    read_metrics(address)?;
    std::thread::spawn(move || {
        // The node ends before this program does.
        while read_metrics(address).is_ok() {
            std::thread::sleep(Duration::from_secs(1));
        }
    });
    Ok(Variant {
        name: "metrics".to_owned(),
        server,
        has_token: false,
        _folder: None,
    })
}

fn read_metrics(address: SocketAddr) -> Result<(), Failure> {
    let answer = e2e::http::get(address, "/metrics").map_err(|error| format!("{address}: {error}"))?;
    match answer.status {
        200 => Ok(()),
        status => Err(format!("{address}: got status {status}, expected 200").into()),
    }
}

/// A node that makes spans for a collector that is away: what the node itself does for spans.
fn start_traced(content: &Content) -> Result<Variant, Failure> {
    let url = format!("http://{}", free_address());
    let options = [TARGET_GAS_LIMIT, &["--otlp", &url]].concat();
    Ok(Variant {
        name: "spans".to_owned(),
        server: fill(content, Vnode::dev(options))?,
        has_token: false,
        _folder: None,
    })
}

/// Mines the content.
fn fill(content: &Content, node: Vnode) -> Result<RunningServer, Failure> {
    for (index, transactions) in content.blocks.iter().enumerate() {
        for transaction in transactions {
            send(&node, transaction)?;
        }
        let work = settled_work(&node)?;
        node.submit(&search(&work, 0, true));
        let number = index as u128 + 1;
        node.wait_for_head(number);
        let block = node.block(number);
        let got = block["transactions"].as_array().map_or(0, Vec::len);
        if got != transactions.len() {
            return Err(format!(
                "block {number}: got {got} transactions, expected {}",
                transactions.len()
            )
            .into());
        }
    }
    let address = node.addresses()[0];
    Ok(RunningServer {
        name: "vnode",
        address,
        process: Process::Node(Box::new(node)),
    })
}

/// Waits for work with all transactions that were sent: the work changes with the pool, and then
/// stays the same.
fn settled_work(node: &Vnode) -> Result<RpcWork, Failure> {
    let mut work = node.work_after(None);
    let (started, mut since) = (Instant::now(), Instant::now());
    while since.elapsed() < SETTLED {
        if started.elapsed() > START_TIMEOUT {
            return Err("the work does not stop changing".into());
        }
        std::thread::sleep(SETTLED / 20);
        let now = node.work_after(None);
        if now != work {
            (work, since) = (now, Instant::now());
        }
    }
    Ok(work)
}

/// Starts anvil with the content.
pub(crate) fn start_anvil(path: &Path, content: &Content) -> Result<RunningServer, Failure> {
    let address = free_address();
    let child = Command::new(path)
        .args([
            "--silent",
            "--no-mining",
            "--hardfork",
            "istanbul",
            "--gas-limit",
            "30000000",
        ])
        .args([
            "--chain-id",
            &CHAIN_ID.to_string(),
            "--port",
            &address.port().to_string(),
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .map_err(|error| format!("{}: {error}", path.display()))?;
    let server = RunningServer {
        name: "anvil",
        address,
        process: Process::Child(child),
    };
    let caller = Caller::new(address);
    let started = Instant::now();
    while caller.try_rpc("eth_blockNumber", json!([])).is_err() {
        if started.elapsed() > START_TIMEOUT {
            return Err(format!("{} does not answer", path.display()).into());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    for (index, transactions) in content.blocks.iter().enumerate() {
        for transaction in transactions {
            send(&caller, transaction)?;
        }
        rpc(&caller, "evm_mine", json!([]))?;
        let block = rpc(
            &caller,
            "eth_getBlockByNumber",
            json!([format!("{:#x}", index + 1), false]),
        )?;
        let got = block["transactions"].as_array().map_or(0, Vec::len);
        if got != transactions.len() {
            return Err(format!(
                "block of anvil: got {got} transactions, expected {}",
                transactions.len()
            )
            .into());
        }
    }
    Ok(server)
}

fn send(node: &Caller, transaction: &primitives::Transaction) -> Result<(), Failure> {
    let raw = format!("0x{}", hex(&transaction.encode_raw()));
    rpc(node, "eth_sendRawTransaction", json!([raw])).map(drop)
}

fn rpc(node: &Caller, method: &str, params: Value) -> Result<Value, Failure> {
    node.try_rpc(method, params)
        .map_err(|error| format!("{method}: {error}").into())
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a string cannot fail");
        text
    })
}

/// Starts the bare handler, which returns `answer`.
pub(crate) fn start_bare(answer: &[u8]) -> Result<RunningServer, Failure> {
    let this = std::env::current_exe()?;
    let mut child = Command::new(this)
        .arg("--bare")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("the bare handler: {error}"))?;
    let input = child.stdin.take();
    let output = child.stdout.take();
    let process = Process::Child(child);
    let failed = || "the bare handler does not start".to_owned();
    input.ok_or_else(failed)?.write_all(answer)?;
    let mut line = String::new();
    BufReader::new(output.ok_or_else(failed)?).read_line(&mut line)?;
    Ok(RunningServer {
        name: "bare",
        address: line.trim().parse().map_err(|_| failed())?,
        process,
    })
}

/// Waits until an overloaded server answers again.
pub(crate) fn wait_until_idle(server: &RunningServer) -> Result<(), Failure> {
    let caller = Caller::new(server.address);
    let started = Instant::now();
    while caller.try_rpc("eth_blockNumber", json!([])).is_err() {
        if started.elapsed() > 4 * START_TIMEOUT {
            return Err(format!("{} does not answer any more", server.name).into());
        }
        std::thread::sleep(Duration::from_secs(1));
    }
    Ok(())
}

/// Checks that both nodes give the same answer to a call, as far as their chains are the same.
pub(crate) fn compare(
    node: &RunningServer,
    anvil: Option<&RunningServer>,
    call: &MeasuredCall,
) -> Result<(), Failure> {
    let Some(anvil) = anvil else { return Ok(()) };
    let load = Load::single(&call.requests);
    let result = |server: &RunningServer| -> Result<Value, Failure> {
        let answer: Value = serde_json::from_slice(&load.first_answer(server.address)?)?;
        Ok(answer["result"].clone())
    };
    let (ours, theirs) = (result(node)?, result(anvil)?);
    // Fees, seals and timestamps differ between the chains; results of execution do not.
    let shape = |value: &Value| match value {
        Value::Object(object) => object
            .iter()
            .filter(|(key, _)| ["transactions", "logs", "status", "to", "from"].contains(&key.as_str()))
            .map(|(key, value)| {
                (
                    key.clone(),
                    value
                        .as_array()
                        .map_or_else(|| value.clone(), |list| json!(list.len())),
                )
            })
            .collect::<serde_json::Map<_, _>>()
            .into(),
        Value::Array(list) => json!(list.len()),
        other => json!(other.as_str().map(|text| text.len().min(20))),
    };
    if shape(&ours) == shape(&theirs) {
        return Ok(());
    }
    Err(format!(
        "{}: got {ours} from vnode, expected {theirs} as from anvil",
        call.name
    )
    .into())
}
