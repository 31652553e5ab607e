//! A thousand workers on one node: every one gets every job, and soon.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use e2e::Vnode;
use e2e::http;
use e2e::miner::{Work, search};
use e2e::wait::{note, wait_for};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// Workers; a third of them in each dialect.
const WORKERS: usize = 1000;
/// Jobs that each must get.
const JOBS: usize = 4;
const PATIENCE: Duration = Duration::from_secs(60);

/// What a worker says to be let in.
fn greetings(place: usize) -> Vec<Value> {
    let name = format!("crowd.w{place}");
    match place % 3 {
        0 => vec![
            json!({"id": 1, "method": "mining.subscribe", "params": ["crowd", "EthereumStratum/1.0.0"]}),
            json!({"id": 2, "method": "mining.authorize", "params": [name, "x"]}),
        ],
        1 => vec![
            json!({"id": 1, "method": "mining.hello", "params": {"agent": "crowd", "host": "x", "port": "1", "proto": "EthereumStratum/2.0.0"}}),
            json!({"id": 2, "method": "mining.subscribe"}),
            json!({"id": 3, "method": "mining.authorize", "params": [name, "x"]}),
        ],
        _ => vec![
            json!({"id": 1, "jsonrpc": "2.0", "method": "eth_submitLogin", "params": [name, "x"]}),
            json!({"id": 2, "jsonrpc": "2.0", "method": "eth_getWork", "params": []}),
        ],
    }
}

/// The header hash of a line that tells of a job.
fn job_in(said: &Value) -> Option<String> {
    let header = if said["method"] == "mining.notify" {
        &said["params"][2]
    } else {
        said["result"].as_array().filter(|parts| parts.len() >= 3)?;
        &said["result"][0]
    };
    header
        .as_str()
        .map(|header| header.trim_start_matches("0x").to_owned())
}

/// A worker: logs in, then notes when it first hears of each header.
async fn worker(
    address: std::net::SocketAddr,
    place: usize,
    ready: Arc<AtomicUsize>,
) -> Vec<(String, Instant)> {
    let mut stream = TcpStream::connect(address).await.expect("the server listens");
    let mut text = String::new();
    for greeting in greetings(place) {
        text += &format!("{greeting}\n");
    }
    stream.write_all(text.as_bytes()).await.expect("the server reads");
    let mut lines = BufReader::new(stream).lines();
    let mut heard: Vec<(String, Instant)> = Vec::new();
    while heard.len() < JOBS + 1 {
        let line = lines
            .next_line()
            .await
            .expect("a line")
            .expect("the server stays");
        let said: Value = serde_json::from_str(&line).expect("JSON");
        assert!(
            said.get("error").is_none_or(Value::is_null) || heard.is_empty(),
            "{said}"
        );
        let Some(header) = job_in(&said) else { continue };
        // A new difficulty repeats a job.
        if heard.iter().any(|(known, _)| *known == header) {
            continue;
        }
        if heard.is_empty() {
            ready.fetch_add(1, Ordering::Relaxed);
        }
        heard.push((header, Instant::now()));
    }
    heard
}

#[test]
fn a_thousand_workers_get_every_job() {
    let node = Vnode::dev([
        "--mine",
        "--minerthreads",
        "0",
        "--stratum",
        "--stratumport",
        "0",
        "--stratum.status",
        "127.0.0.1:0",
        "--verbosity",
        "2",
    ]);
    let address = node.stratum();
    let ready = Arc::new(AtomicUsize::new(0));
    let crowd = {
        let ready = Arc::clone(&ready);
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(async {
                let mut workers = tokio::task::JoinSet::new();
                for place in 0..WORKERS {
                    workers.spawn(worker(address, place, Arc::clone(&ready)));
                }
                tokio::time::timeout(PATIENCE, workers.join_all())
                    .await
                    .expect("every worker gets every job")
            })
        })
    };
    wait_for("a thousand logins", || {
        assert!(!crowd.is_finished(), "a worker gave up");
        (ready.load(Ordering::Relaxed) == WORKERS).then_some(())
    });
    // One miner beside them seals blocks, so that heads change.
    let mut last = None;
    let mut pushes = Vec::new();
    for _ in 0..JOBS {
        let work: Work = node.work_after(last);
        last = Some(work.header_hash);
        assert!(node.submit(&search(&work, 1, true)));
        let next = node.work_after(last);
        let told = wait_for("the push to be over", || {
            let answer = http::get(node.stratum_status(), "/status").expect("served");
            let status: Value = serde_json::from_str(&answer.body).expect("JSON");
            let all = status["last_push"]["workers"].as_u64() == Some(WORKERS as u64);
            let same = status["job"]["header_hash"] == next.header_hash.to_string();
            (all && same).then_some(status)
        });
        pushes.push(told["last_push"]["milliseconds"].as_f64().expect("a number"));
    }
    let heard = crowd.join().expect("no worker panics");
    assert_eq!(heard.len(), WORKERS);
    for jobs in &heard {
        assert_eq!(jobs.len(), JOBS + 1);
    }
    // From the first worker's having a job to the last one's, as the workers saw it.
    let headers: Vec<_> = heard[0]
        .iter()
        .skip(1)
        .map(|(header, _)| header.clone())
        .collect();
    let spreads = headers.iter().filter_map(|header| {
        let times: Vec<_> = heard
            .iter()
            .flatten()
            .filter(|(other, _)| other == header)
            .map(|(_, at)| *at)
            .collect();
        Some((
            times.len(),
            times.iter().max()?.duration_since(*times.iter().min()?),
        ))
    });
    for ((workers, spread), push) in spreads.zip(&pushes) {
        note(&format!(
            "{workers} workers: the last one has the job {push:.1} ms after the desk, {:.1} ms after the first",
            spread.as_secs_f64() * 1e3
        ));
    }
}
