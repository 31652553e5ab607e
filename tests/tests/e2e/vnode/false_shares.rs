//! Miners that send false shares to the node's Stratum server: they cost the node little processor
//! time, they are cut off, and honest miners go on. Also logins without shares.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use e2e::stratum::RawConnection;
use e2e::wait::wait_for;
use e2e::{MinerProcess, Vnode, note};
use serde_json::{Value, json};

/// The length of the attack.
const ATTACK_TIME: Duration = Duration::from_secs(10);
/// Connections of the attack.
const ATTACKERS: u64 = 20;
/// Shares per second of each connection. A hundred lines a second are allowed.
const SHARES_PER_SECOND: f64 = 95.0;
/// Pause before an attacker connects again.
const RECONNECT_PAUSE: Duration = Duration::from_millis(100);

/// The shares of all attackers together.
#[derive(Debug, Default)]
struct AttackCounts {
    sent: AtomicU64,
    answered: AtomicU64,
    cut_off: AtomicU64,
}

/// Sends random nonces for `time`, and connects again as often as the server closes the connection.
fn attack(address: SocketAddr, attacker: u64, time: Duration, counts: &AttackCounts) {
    let end = Instant::now() + time;
    let mut nonce = attacker << 40;
    while Instant::now() < end {
        // An error means that the server has closed the connection.
        let _ = attack_once(address, &mut nonce, end, counts);
        if Instant::now() < end {
            counts.cut_off.fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(RECONNECT_PAUSE);
        }
    }
}

fn attack_once(
    address: SocketAddr,
    nonce: &mut u64,
    end: Instant,
    counts: &AttackCounts,
) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_millis(10)))?;
    stream.set_write_timeout(Some(Duration::from_secs(1)))?;
    let name = format!("false.w{nonce}");
    let subscribe = json!({"id": 1, "method": "mining.subscribe", "params": ["x", "EthereumStratum/1.0.0"]});
    let login = json!({"id": 2, "method": "mining.authorize", "params": [name, ""]});
    stream.write_all(format!("{subscribe}\n{login}\n").as_bytes())?;
    let mut received: Vec<u8> = Vec::new();
    let mut buffer = vec![0; 16 * 1024];
    let mut job = None::<String>;
    let mut sent_until = Instant::now();
    while Instant::now() < end {
        match stream.read(&mut buffer) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(len) => received.extend_from_slice(&buffer[..len]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(error) => return Err(error),
        }
        while let Some(len) = received.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = received.drain(..=len).collect();
            let message: Value = serde_json::from_slice(&line)?;
            if message["method"] == "mining.notify" {
                job = message["params"][0].as_str().map(str::to_owned);
            } else if message["id"].as_u64() >= Some(100) {
                counts.answered.fetch_add(1, Ordering::Relaxed);
            }
        }
        let Some(job) = &job else {
            sent_until = Instant::now();
            continue;
        };
        while sent_until < Instant::now() {
            sent_until += Duration::from_secs_f64(1.0 / SHARES_PER_SECOND);
            *nonce += 1;
            let params = json!([name, job, format!("{:012x}", *nonce & 0xffff_ffff_ffff)]);
            let share = json!({"id": 100 + *nonce, "method": "mining.submit", "params": params});
            stream.write_all(format!("{share}\n").as_bytes())?;
            counts.sent.fetch_add(1, Ordering::Relaxed);
        }
    }
    Ok(())
}

#[test]
fn false_shares_cost_little_and_their_address_is_banned() {
    let node = Vnode::with_stratum(&["--minerthreads", "0"]);
    // The first share waits for the light cache. It is not part of the figures.
    let mut first = RawConnection::connect(node.stratum());
    let job = first.log_in("first");
    first.call(&json!({"id": 9, "method": "mining.submit", "params": ["first", job, "000000000000"]}));
    drop(first);

    let counts = AttackCounts::default();
    let (before, started) = (node.cpu_time(), Instant::now());
    std::thread::scope(|scope| {
        for attacker in 1..=ATTACKERS {
            let (address, counts) = (node.stratum(), &counts);
            scope.spawn(move || attack(address, attacker, ATTACK_TIME, counts));
        }
    });
    let (used, took) = (node.cpu_time() - before, started.elapsed());
    let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let (sent, answered, cut_off) = (read(&counts.sent), read(&counts.answered), read(&counts.cut_off));
    note(&format!(
        "{ATTACKERS} connections with random nonces: the node used {used:.2?} of processor time in {took:.1?}; \
         {sent} shares sent, {answered} answered, {cut_off} connections closed"
    ));
    // The bound counts the shares that an address may have hashed at once and in this time, and a
    // few that are refused without a hash.
    assert!(answered < 400, "{answered} shares were answered");
    assert!(used < took / 4, "the node used {used:?} in {took:?}");
    let status = node.stratum_figures();
    assert!(status["cut_off"].as_u64() > Some(0), "{status}");
    assert!(status["ban_refusals"].as_u64() > Some(0), "{status}");
    assert_eq!(status["banned_addresses"], 1, "{status}");
    RawConnection::connect(node.stratum()).wait_for_end();
}

#[test]
fn a_miner_at_the_address_of_false_shares_goes_on() {
    let node = Vnode::with_stratum(&["--minerthreads", "0"]);
    let miner = MinerProcess::start([
        "stratum",
        &format!("stratum2+tcp://honest.rig@{}", node.stratum()),
    ]);
    let accepted = |status: &Value| status["accepted"].as_u64().unwrap_or_default();
    // Most shares of the address are good, so it is not banned for the others.
    miner.wait_for_status("many shares", |status| accepted(status) >= 60);
    let counts = AttackCounts::default();
    attack(node.stratum(), 1, Duration::from_secs(20), &counts);
    let status = node.stratum_figures();
    note(&format!("beside a miner: {counts:?}"));
    assert!(counts.cut_off.load(Ordering::Relaxed) > 0, "{counts:?}, {status}");
    assert_eq!(status["banned_addresses"], 0, "{status}");
    let before = accepted(&miner.status());
    miner.wait_for_status("further shares", |status| accepted(status) > before);
    let workers = node.stratum_figures()["workers"].clone();
    let workers = workers.as_array().expect("a list");
    let honest = workers.iter().find(|worker| worker["worker"] == "honest.rig");
    assert_eq!(
        honest.map(|worker| &worker["connections"]),
        Some(&json!(1)),
        "{workers:?}"
    );
}

#[test]
fn logins_do_not_fill_the_log() {
    const LOGINS: u64 = 200;
    let node = Vnode::with_stratum(&["--minerthreads", "0"]);
    for number in 0..LOGINS {
        RawConnection::connect(node.stratum()).log_in(&format!("short.w{number}"));
    }
    let status = wait_for("the connections to end", || {
        Some(node.stratum_figures()).filter(|status| status["connections"] == 0)
    });
    assert_eq!(status["connections_total"], LOGINS, "{status}");
    assert_eq!(
        status["workers"],
        json!([]),
        "logins without a share leave no statistics"
    );
    let lines = node.log().matches("worker connected").count();
    assert!((1..=20).contains(&lines), "{lines} lines for {LOGINS} logins");
}
