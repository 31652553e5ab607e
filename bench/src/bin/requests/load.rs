//! The load: HTTP connections with keep-alive, each with one request at a time.
//!
//! One thread drives all connections. It only finds the end of an answer and checks that it is no
//! error, so that most of the machine is free for the server.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bench::Failure;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Longest time for an answer; then the run fails.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);
/// Number of bytes at the start of an answer that are searched for an error.
const ERROR_SEARCH_LEN: usize = 64;

/// HTTP requests that are sent in turn.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    messages: Arc<[Vec<u8>]>,
}

/// The result of one turn.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sample {
    /// HTTP requests per second.
    pub(crate) rate: f64,
    /// Half of the answers arrived within this time.
    pub(crate) p50: Duration,
    /// 99 % of the answers arrived within this time.
    pub(crate) p99: Duration,
}

impl Sample {
    /// The median of several turns by rate. The rate is multiplied by `batch`, so that it counts
    /// the requests of batches.
    pub(crate) fn median(samples: &[Self], batch: usize) -> Self {
        let mut sorted = samples.to_vec();
        sorted.sort_by(|a, b| a.rate.total_cmp(&b.rate));
        let middle = sorted[sorted.len() / 2];
        Self {
            rate: middle.rate * batch as f64,
            ..middle
        }
    }

    /// The median over all rounds of a rate divided by the `base`'s rate in the same round.
    pub(crate) fn median_ratio(samples: &[Self], base: &[Self]) -> f64 {
        let pairs = samples.iter().zip(base);
        let mut ratios: Vec<f64> = pairs.map(|(sample, base)| sample.rate / base.rate).collect();
        ratios.sort_by(f64::total_cmp);
        ratios[ratios.len() / 2]
    }
}

impl Load {
    /// One request in each message.
    pub(crate) fn single(requests: &[(&str, Value)]) -> Self {
        let messages = requests.iter().map(|request| message(&body(request, 1)));
        Self {
            messages: messages.collect(),
        }
    }

    /// A batch of `size` requests in each message.
    pub(crate) fn batch(requests: &[(&str, Value)], size: usize) -> Self {
        let messages = (0..requests.len()).map(|start| {
            let members = (0..size).map(|index| body(&requests[(start + index) % requests.len()], index));
            message(&Value::Array(members.collect()))
        });
        Self {
            messages: messages.collect(),
        }
    }

    /// The same messages with a bearer token.
    pub(crate) fn with_token(&self, token: &str) -> Self {
        let header = format!("\r\nAuthorization: Bearer {token}");
        let add = |message: &Vec<u8>| {
            let line = message
                .windows(2)
                .position(|end| end == b"\r\n")
                .unwrap_or_default();
            [&message[..line], header.as_bytes(), &message[line..]].concat()
        };
        Self {
            messages: self.messages.iter().map(add).collect(),
        }
    }

    /// The body of the answer to the first message.
    pub(crate) fn first_answer(&self, address: SocketAddr) -> Result<Vec<u8>, Failure> {
        runtime()?.block_on(async {
            let mut connection = Connection::open(address).await?;
            let answer = connection.call(&self.messages[0]).await?;
            Ok(connection.input[answer].to_vec())
        })
    }

    /// Sends the messages to `address` for `time`.
    pub(crate) fn run(
        &self,
        address: SocketAddr,
        connections: usize,
        time: Duration,
    ) -> Result<Sample, Failure> {
        runtime()?.block_on(async {
            let mut running = Vec::new();
            for index in 0..connections {
                let connection = Connection::open(address).await?;
                running.push((index, connection));
            }
            let started = Instant::now();
            let tasks = running.into_iter().map(|(index, connection)| {
                tokio::spawn(drive(connection, self.messages.clone(), index, started, time))
            });
            let mut latencies = Vec::new();
            for task in tasks.collect::<Vec<_>>() {
                latencies.extend(task.await??);
            }
            let elapsed = started.elapsed();
            latencies.sort_unstable();
            let at = |share: f64| {
                let index = (latencies.len() as f64 * share) as usize;
                latencies.get(index).copied().unwrap_or_default()
            };
            Ok(Sample {
                rate: latencies.len() as f64 / elapsed.as_secs_f64(),
                p50: at(0.5),
                p99: at(0.99),
            })
        })
    }
}

fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("runtime: {error}").into())
}

fn body((method, params): &(&str, Value), id: usize) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

fn message(body: &Value) -> Vec<u8> {
    let body = body.to_string();
    format!(
        "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

async fn drive(
    mut connection: Connection,
    messages: Arc<[Vec<u8>]>,
    start: usize,
    started: Instant,
    time: Duration,
) -> Result<Vec<Duration>, Failure> {
    let mut latencies = Vec::with_capacity(1 << 12);
    let mut at = start;
    while started.elapsed() < time {
        let sent = Instant::now();
        connection.call(&messages[at % messages.len()]).await?;
        latencies.push(sent.elapsed());
        at += 1;
    }
    Ok(latencies)
}

struct Connection {
    stream: TcpStream,
    input: Vec<u8>,
}

impl Connection {
    async fn open(address: SocketAddr) -> Result<Self, Failure> {
        let stream = TcpStream::connect(address)
            .await
            .map_err(|error| format!("{address}: {error}"))?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            input: Vec::with_capacity(1 << 16),
        })
    }

    /// Sends a message and reads the answer. Returns the range of the body in `input`.
    async fn call(&mut self, message: &[u8]) -> Result<std::ops::Range<usize>, Failure> {
        tokio::time::timeout(ANSWER_TIMEOUT, self.exchange(message))
            .await
            .map_err(|_| format!("no answer within {ANSWER_TIMEOUT:?}"))?
    }

    async fn exchange(&mut self, message: &[u8]) -> Result<std::ops::Range<usize>, Failure> {
        self.input.clear();
        self.stream
            .write_all(message)
            .await
            .map_err(|error| format!("sending: {error}"))?;
        let range = loop {
            let read = self
                .stream
                .read_buf(&mut self.input)
                .await
                .map_err(|error| format!("reading: {error}"))?;
            if read == 0 {
                return Err("the server closed the connection".into());
            }
            if let Some(range) = body_range(&self.input)?
                && self.input.len() >= range.end
            {
                break range;
            }
        };
        let head = &self.input[range.start..range.end.min(range.start + ERROR_SEARCH_LEN)];
        if head.windows(7).any(|part| part == b"\"error\"") {
            return Err(format!("got {}, expected no error", String::from_utf8_lossy(head)).into());
        }
        Ok(range)
    }
}

/// The range of the body; `None` if the header is not complete yet.
fn body_range(input: &[u8]) -> Result<Option<std::ops::Range<usize>>, Failure> {
    let Some(end) = input.windows(4).position(|part| part == b"\r\n\r\n") else {
        return Ok(None);
    };
    let header = std::str::from_utf8(&input[..end])?;
    if !header.starts_with("HTTP/1.1 200") {
        return Err(format!("got {header}, expected HTTP/1.1 200").into());
    }
    let length = header.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length")
            .then(|| value.trim().parse::<usize>())
    });
    match length {
        Some(Ok(length)) => Ok(Some(end + 4..end + 4 + length)),
        _ => Err(format!("got {header}, expected a content-length").into()),
    }
}
