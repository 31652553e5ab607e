//! A thousand workers on one node: each worker gets each job.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use e2e::Vnode;
use e2e::http;
use e2e::wait::{note, wait_for};
use e2e::work::{RpcWork, search};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// Number of workers; a third uses each dialect.
const WORKERS: usize = 1000;
/// Number of jobs that each worker must get.
const JOBS: usize = 4;
/// Longest time for all jobs.
const TIMEOUT: Duration = e2e::wait::SOCKET_PATIENCE;

/// The messages by which worker `index` logs in.
fn login_messages(index: usize) -> Vec<Value> {
    let name = format!("crowd.w{index}");
    match index % 3 {
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

/// The header hash in a message, if the message is a job.
fn job_header(message: &Value) -> Option<String> {
    let header = if message["method"] == "mining.notify" {
        &message["params"][2]
    } else {
        message["result"].as_array().filter(|parts| parts.len() >= 3)?;
        &message["result"][0]
    };
    header
        .as_str()
        .map(|header| header.trim_start_matches("0x").to_owned())
}

/// Runs one worker: logs in, then records the time at which each job arrives. `ready` counts the
/// workers with a job.
async fn worker(
    address: std::net::SocketAddr,
    index: usize,
    ready: Arc<AtomicUsize>,
) -> Vec<(String, Instant)> {
    let mut stream = TcpStream::connect(address).await.expect("the server listens");
    let mut text = String::new();
    for message in login_messages(index) {
        text += &format!("{message}\n");
    }
    stream.write_all(text.as_bytes()).await.expect("the server reads");
    let mut lines = BufReader::new(stream).lines();
    let mut jobs: Vec<(String, Instant)> = Vec::new();
    while jobs.len() < JOBS + 1 {
        let line = lines
            .next_line()
            .await
            .expect("a line")
            .expect("the server stays");
        let message: Value = serde_json::from_str(&line).expect("JSON");
        assert!(
            message.get("error").is_none_or(Value::is_null) || jobs.is_empty(),
            "{message}"
        );
        let Some(header) = job_header(&message) else {
            continue;
        };
        // After a change of the difficulty the same job is sent again.
        if jobs.iter().any(|(known, _)| *known == header) {
            continue;
        }
        if jobs.is_empty() {
            ready.fetch_add(1, Ordering::Relaxed);
        }
        jobs.push((header, Instant::now()));
    }
    jobs
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
                for index in 0..WORKERS {
                    workers.spawn(worker(address, index, Arc::clone(&ready)));
                }
                tokio::time::timeout(TIMEOUT, workers.join_all())
                    .await
                    .expect("every worker gets every job")
            })
        })
    };
    wait_for("a thousand logins", || {
        assert!(!crowd.is_finished(), "a worker failed");
        (ready.load(Ordering::Relaxed) == WORKERS).then_some(())
    });
    // This thread seals blocks, so that the head changes.
    let mut last = None;
    let mut pushes = Vec::new();
    for _ in 0..JOBS {
        let work: RpcWork = node.work_after(last);
        last = Some(work.header_hash);
        assert!(node.submit(&search(&work, 1, true)));
        let next = node.work_after(last);
        let status = wait_for("the push to be over", || {
            let answer = http::get(node.stratum_status(), "/status").expect("served");
            let status: Value = serde_json::from_str(&answer.body).expect("JSON");
            let all = status["last_push"]["workers"].as_u64() == Some(WORKERS as u64);
            let same = status["job"]["header_hash"] == next.header_hash.to_string();
            (all && same).then_some(status)
        });
        pushes.push(status["last_push"]["milliseconds"].as_f64().expect("a number"));
    }
    let received = crowd.join().expect("no worker panics");
    assert_eq!(received.len(), WORKERS);
    for jobs in &received {
        assert_eq!(jobs.len(), JOBS + 1);
    }
    // Time between the first and the last worker that received a job.
    let headers: Vec<_> = received[0]
        .iter()
        .skip(1)
        .map(|(header, _)| header.clone())
        .collect();
    let spreads = headers.iter().filter_map(|header| {
        let times: Vec<_> = received
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
            "{workers} workers: the last one got the job {push:.1} ms after the server, {:.1} ms after the first worker",
            spread.as_secs_f64() * 1e3
        ));
    }
}
