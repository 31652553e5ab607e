//! Our miner and our node's Stratum server, in every dialect.

use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use e2e::clients::python;
use e2e::http;
use e2e::miner::{Found, Work, search};
use e2e::process::Signal;
use e2e::quantity::data;
use e2e::wait::wait_for;
use e2e::{Rig, Vnode};
use serde_json::{Value, json};

/// A node that searches nothing itself, with a Stratum server and its status.
fn node(more: &[&str]) -> Vnode {
    let mut arguments = vec![
        "--stratum",
        "--stratumport",
        "0",
        "--stratum.status",
        "127.0.0.1:0",
    ];
    arguments.extend(more);
    Vnode::dev(arguments)
}

fn server_status(node: &Vnode) -> Value {
    let answer = http::get(node.stratum_status(), "/status").expect("the status is served");
    serde_json::from_str(&answer.body).expect("the status is JSON")
}

#[test]
fn shares_between_two_blocks_count_and_so_does_the_speed() {
    let node = node(&[]);
    let rig = Rig::start(["stratum", &format!("stratum2+tcp://w.r:x@{}", node.stratum())]);
    node.wait_for_head(3);
    // On this chain a rig spends most of its time waiting for the next second, with a job that was sealed.
    let status = rig.wait_for_status("many shares", |status| status["accepted"].as_u64() >= Some(20));
    let count = |what: &str| status[what].as_u64().unwrap_or_default();
    assert!(count("stale") * 4 < count("accepted"), "{status}");
    wait_for("the rig's speed in that of the node", || {
        let rate = node.rpc("mc_hashrate", json!([]));
        (rate != "0x0").then_some(())
    });
    assert!(server_status(&node)["workers"][0]["reported_hashrate"].as_u64() > Some(0));
}

#[test]
fn every_dialect_seals_blocks() {
    // Without --mine: miners that connect are demand enough.
    let node = node(&[]);
    let mut names = Vec::new();
    for (place, scheme) in ["stratum1", "stratum2", "stratum3", "stratum"]
        .into_iter()
        .enumerate()
    {
        let before = node.head();
        let name = format!("0xwallet.rig{place}");
        let url = format!("{scheme}+tcp://{name}:x@{}", node.stratum());
        let rig = Rig::start(["stratum", &url]);
        node.wait_for_head(before + 2);
        let status = rig.wait_for_status("two shares", |status| status["accepted"].as_u64() >= Some(2));
        assert_eq!(
            (&status["rejected"], &status["invalid"]),
            (&json!(0), &json!(0)),
            "{scheme}"
        );
        let ended = rig.end(Signal::Interrupt);
        assert_eq!(ended.status.code(), Some(0), "{scheme}: {}", ended.stderr);
        names.push(name);
    }
    let status = wait_for("all miners to be gone", || {
        Some(server_status(&node)).filter(|status| status["connections"] == 0)
    });
    let workers = status["workers"].as_array().expect("a list");
    for name in &names {
        let worker = workers
            .iter()
            .find(|worker| worker["worker"] == json!(name))
            .expect("a worker");
        assert!(
            worker["accepted"].as_u64() >= Some(2) && worker["blocks"].as_u64() >= Some(2),
            "{worker}"
        );
        assert_eq!(
            (&worker["rejected"], &worker["connections"]),
            (&json!(0), &json!(0)),
            "{worker}"
        );
    }
    let blocks: u64 = workers
        .iter()
        .filter_map(|worker| worker["blocks"].as_u64())
        .sum();
    assert_eq!(u128::from(blocks), node.head(), "every block has its worker");
    let metrics = http::get(node.stratum_status(), "/metrics").expect("served").body;
    assert!(
        metrics.contains("stratum_blocks_total{worker=\"0xwallet.rig0\"}"),
        "{metrics}"
    );
    let Some(clients) = python() else { return };
    let last = node.head() as u64;
    clients.run(
        "check_seals.py",
        &json!({"url": node.url(), "first": 1, "last": last}),
    );
}

#[test]
fn a_miner_fails_over_between_stratum_and_comes_back_to_a_node() {
    let (first, second) = (node(&[]), node(&[]));
    let urls = [&first, &second].map(|node| format!("stratum2+tcp://a.b@{}", node.stratum()));
    let rig = Rig::start(["stratum", &urls[0], &urls[1], "--retry-max", "1"]);
    first.wait_for_head(1);
    first.end(Signal::Terminate);
    second.wait_for_head(1);
    let status = rig.status();
    assert_eq!(status["endpoints"][1]["active"], json!(true), "{status}");
}

#[test]
fn logins_need_the_password_where_there_is_one() {
    let node = node(&["--stratum.password", "sesame"]);
    let url = |password: &str| format!("stratum+tcp://a.b:{password}@{}", node.stratum());
    let refused = Rig::start(["stratum", &url("wrong"), "--max-wait", "0.2"]).wait();
    assert_eq!(refused.status.code(), Some(3), "{}", refused.stderr);
    assert!(refused.stderr.contains("Invalid login"), "{}", refused.stderr);
    let _rig = Rig::start(["stratum", &url("sesame")]);
    node.wait_for_head(1);
    assert!(server_status(&node)["bad_logins"].as_u64() >= Some(1));
}

/// A connection by hand.
struct Hand(BufReader<TcpStream>);

impl Hand {
    fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("the server listens");
        stream
            .set_read_timeout(Some(Duration::from_secs(30)))
            .expect("a socket");
        Self(BufReader::new(stream))
    }

    fn say(&mut self, bytes: &[u8]) -> bool {
        self.0.get_mut().write_all(bytes).is_ok()
    }

    /// The next line; `None` when the server has hung up.
    fn hear(&mut self) -> Option<Value> {
        let mut line = String::new();
        match self.0.read_line(&mut line) {
            Ok(0) | Err(_) => None,
            Ok(_) => Some(serde_json::from_str(&line).unwrap_or_else(|_| panic!("got {line:?}"))),
        }
    }

    /// Reads until the server hangs up.
    fn wait_for_end(&mut self) {
        while self.hear().is_some() {}
    }

    fn ask(&mut self, request: &Value) -> Value {
        assert!(self.say(format!("{request}\n").as_bytes()));
        loop {
            let answer = self.hear().expect("an answer");
            if answer["id"] == request["id"] {
                return answer;
            }
        }
    }
}

#[test]
fn rude_miners_end_their_own_connection_only() {
    let node = node(&["--stratum.maxconnections", "8"]);
    let mut good = Hand::connect(node.stratum());
    let subscribed =
        good.ask(&json!({"id": 1, "method": "mining.subscribe", "params": ["x", "EthereumStratum/1.0.0"]}));
    assert_eq!(subscribed["result"][1].as_str().map(str::len), Some(4));
    assert_eq!(
        good.ask(&json!({"id": 2, "method": "mining.authorize", "params": ["a.b", "x"]}))["result"],
        true
    );

    for rude in [
        b"\x00\xff\n".repeat(20),
        vec![b'x'; 100_000],
        b"{\"id\":1,\"method\":\"mining.authorize\",\"params\":[\"a\",\"b\"]}\n".repeat(20),
        b"GET / HTTP/1.1\r\nhost: x\r\n\r\nx\r\nx\r\nx\r\nx\r\nx\r\nx\r\nx\r\n".to_vec(),
        b"{\"id\":1,\"method\":\"mining.noop\"}\n".repeat(2000),
        b"{\"a\":".repeat(3000),
    ] {
        let mut hand = Hand::connect(node.stratum());
        hand.say(&rude);
        hand.say(b"\n");
        hand.wait_for_end();
    }
    // More than there are places for: the rest is turned away at once.
    let mut crowd: Vec<_> = (0..12).map(|_| Hand::connect(node.stratum())).collect();
    for hand in crowd.iter_mut().skip(7) {
        hand.wait_for_end();
    }
    drop(crowd);
    // A good miner notices nothing of it.
    let work = wait_for("a job", || {
        good.hear().filter(|said| said["method"] == "mining.notify")
    });
    let wrong =
        json!({"id": 9, "method": "mining.submit", "params": ["a.b", work["params"][0], "000000000000"]});
    let answers = [good.ask(&wrong), good.ask(&wrong)];
    for answer in answers {
        assert_eq!(answer["result"], false, "{answer}");
    }
    let gone = json!({"id": 10, "method": "mining.submit", "params": ["a.b", "ffffffff", "000000000000"]});
    assert_eq!(good.ask(&gone)["error"][0], 21);
    let status = server_status(&node);
    assert!(
        status["bad_messages"].as_u64() >= Some(8) && status["turned_away"].as_u64() >= Some(1),
        "{status}"
    );
    node.end(Signal::Terminate);
    good.wait_for_end();
}

#[test]
fn shares_that_come_all_at_once_are_all_judged() {
    let node = node(&[]);
    let mut miner = Hand::connect(node.stratum());
    let work = proxy_work(&mut miner);
    let wrong = search(&work, 1, false);
    let shares: String = (0..60).map(|id| proxy_share(100 + id, &wrong, id)).collect();
    assert!(miner.say(shares.as_bytes()));
    let mut answered = 0;
    while answered < 60 {
        let said = miner.hear().expect("an answer");
        if said["id"].as_u64() < Some(100) {
            continue;
        }
        // The mix belongs to the first nonce, and no such hash is low enough but by chance.
        let words = said["error"]["message"].as_str().unwrap_or_default();
        assert!(["Low difficulty share", "Bad nonce"].contains(&words), "{said}");
        answered += 1;
    }
}

#[test]
fn a_share_that_seals_counts_though_its_miner_hangs_up() {
    let node = node(&[]);
    let mut miner = Hand::connect(node.stratum());
    let work = proxy_work(&mut miner);
    let (wrong, right) = (search(&work, 1, false), search(&work, 1, true));
    let mut shares: String = (0..15).map(|id| proxy_share(100 + id, &wrong, 0)).collect();
    shares += &proxy_share(200, &right, 0);
    assert!(miner.say(shares.as_bytes()));
    let stream = miner.0.get_ref();
    stream.shutdown(Shutdown::Write).expect("it is open");
    node.wait_for_head(1);
    let status = wait_for("the worker's block", || {
        let status = server_status(&node);
        (status["workers"][0]["blocks"] == 1).then_some(status)
    });
    assert_eq!(status["workers"][0]["connections"], 0, "{status}");
}

/// Logs in by eth-proxy and asks for work.
fn proxy_work(miner: &mut Hand) -> Work {
    let login = json!({"id": 1, "jsonrpc": "2.0", "method": "eth_submitLogin", "params": ["a.b", "x"]});
    assert_eq!(miner.ask(&login)["result"], true);
    let work = wait_for("work", || {
        let answer = miner.ask(&json!({"id": 2, "jsonrpc": "2.0", "method": "eth_getWork", "params": []}));
        answer["result"].as_array().cloned()
    });
    let part = |index: usize| data(&work[index], 32).parse().expect("checked: 32 bytes");
    Work {
        header_hash: part(0),
        seed_hash: part(1),
        boundary: part(2),
    }
}

/// The line that hands in `found` with a nonce `more` beyond its own.
fn proxy_share(id: u64, found: &Found, more: u64) -> String {
    let Found {
        header_hash,
        pow_nonce,
        mix_hash,
    } = found;
    let nonce = format!("{:#018x}", pow_nonce + more);
    let share = json!({
        "id": id, "jsonrpc": "2.0", "method": "eth_submitWork",
        "params": [nonce, header_hash.to_string(), mix_hash.to_string()],
    });
    format!("{share}\n")
}
