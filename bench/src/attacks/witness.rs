//! The witnesses who must be served while a node is attacked: a client of JSON-RPC, and a peer.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use network::testing::Entropy;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{sleep, timeout};

use super::played::{BLOCK_0, PlayedNode};
use super::scene::AttackTarget;
use crate::Failure;

/// The time between two questions of a witness.
const ASK_INTERVAL: Duration = Duration::from_millis(25);
/// Longest time for an answer. It counts as the time of an answer that does not come.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest head of an HTTP answer, in bytes.
const HEAD_LEN_MAX: usize = 4096;

/// The times of the answers that a witness got.
#[derive(Clone, Debug, Default)]
pub struct WitnessTimes {
    /// In the order of the questions. A question without an answer has the longest time.
    pub times: Vec<Duration>,
    /// The number of questions without an answer.
    pub lost: u64,
}

impl WitnessTimes {
    /// The time within which so many percent of the answers came.
    pub fn percentile(&self, percent: usize) -> Duration {
        let mut sorted = self.times.clone();
        sorted.sort_unstable();
        let at = sorted.len() * percent / 100;
        let last = sorted.len().saturating_sub(1);
        sorted.get(at.min(last)).copied().unwrap_or(ANSWER_TIMEOUT)
    }

    /// The median.
    pub fn median(&self) -> Duration {
        self.percentile(50)
    }

    /// The longest time.
    pub fn longest(&self) -> Duration {
        self.percentile(100)
    }

    async fn count(&mut self, answer: impl Future<Output = Result<(), Failure>>) -> bool {
        let begun = Instant::now();
        if matches!(timeout(ANSWER_TIMEOUT, answer).await, Ok(Ok(()))) {
            self.times.push(begun.elapsed());
            return true;
        }
        self.times.push(ANSWER_TIMEOUT);
        self.lost += 1;
        false
    }
}

/// Connects to `address` from the address `source` of this machine.
pub(super) async fn connect(source: IpAddr, address: SocketAddr) -> Result<TcpStream, Failure> {
    let socket = TcpSocket::new_v4()?;
    // A connection to loopback from elsewhere would not come back.
    if !address.ip().is_loopback() {
        socket.bind((source, 0).into())?;
    }
    let stream = socket.connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Posts `body` as JSON, on a connection that stays open. Returns the body of the answer.
pub(super) async fn post(stream: &mut TcpStream, body: &str) -> Result<String, Failure> {
    let request = format!(
        "POST / HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await?;
    let head = read_head(stream).await?.to_lowercase();
    let len = head
        .split("content-length: ")
        .nth(1)
        .ok_or("an answer without a length")?;
    let len: usize = len.split("\r\n").next().unwrap_or_default().parse()?;
    let mut answer = vec![0; len];
    stream.read_exact(&mut answer).await?;
    Ok(String::from_utf8(answer)?)
}

/// Reads the head of an HTTP answer, to its last byte.
pub(super) async fn read_head(stream: &mut TcpStream) -> Result<String, Failure> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
        if head.len() > HEAD_LEN_MAX {
            return Err("a head without an end".into());
        }
    }
    Ok(String::from_utf8(head)?)
}

/// Asks for the number of the head over HTTP until `end`.
pub async fn watch_by_rpc(target: AttackTarget, end: Instant) -> WitnessTimes {
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"mc_blockNumber","params":[]}"#;
    let source = target.sources.witness(0);
    let (mut seen, mut open) = (WitnessTimes::default(), None);
    while Instant::now() < end {
        let answer = async {
            if open.is_none() {
                open = Some(connect(source, target.rpc).await?);
            }
            let stream = open.as_mut().ok_or("no connection")?;
            let answer = post(stream, body).await?;
            answer
                .contains("result")
                .then_some(())
                .ok_or_else(|| answer.into())
        };
        if !seen.count(answer).await {
            open = None;
        }
        sleep(ASK_INTERVAL).await;
    }
    seen
}

/// Asks for block 0 as a peer until `end`.
pub async fn watch_as_peer(target: AttackTarget, mut entropy: Entropy, end: Instant) -> WitnessTimes {
    let mut visits = 1;
    let (mut seen, mut open) = (WitnessTimes::default(), None);
    while Instant::now() < end {
        let answer = async {
            if open.is_none() {
                let source = target.sources.witness(visits);
                visits += 1;
                open = Some(PlayedNode::join(&target.contact, target.family, source, &mut entropy).await?);
            }
            let peer = open.as_mut().ok_or("no connection")?;
            peer.header(BLOCK_0).await.map(drop)
        };
        if !seen.count(answer).await {
            open = None;
        }
        sleep(ASK_INTERVAL).await;
    }
    seen
}
