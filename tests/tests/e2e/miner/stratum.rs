//! The binary `miner` and the Stratum server of a node, in every dialect.

use std::collections::BTreeSet;
use std::net::Shutdown;

use e2e::clients::python;
use e2e::http;
use e2e::process::EndSignal;
use e2e::quantity::data;
use e2e::stratum::RawConnection;
use e2e::wait::wait_for;
use e2e::work::{RpcSolution, RpcWork, search};
use e2e::{MinerProcess, Vnode};
use serde_json::json;

#[test]
fn shares_between_two_blocks_and_the_hashrate_count() {
    let node = Vnode::with_stratum(&[]);
    let miner = MinerProcess::start(["stratum", &format!("stratum2+tcp://w.r:x@{}", node.stratum())]);
    node.wait_for_head(3);
    // On this chain a block is sealed quickly. Until the next second the miner then has a job whose
    // block is already sealed.
    let status = miner.wait_for_status("many shares", |status| status["accepted"].as_u64() >= Some(20));
    let count = |what: &str| status[what].as_u64().unwrap_or_default();
    assert!(count("stale") * 4 < count("accepted"), "{status}");
    wait_for("the hashrate of the miner in that of the node", || {
        let rate = node.rpc("mc_hashrate", json!([]));
        (rate != "0x0").then_some(())
    });
    assert!(node.stratum_figures()["workers"][0]["reported_hashrate"].as_u64() > Some(0));
}

#[test]
fn every_dialect_seals_blocks() {
    // Without --mine the node makes work because miners are connected.
    let node = Vnode::with_stratum(&[]);
    let mut names = Vec::new();
    for (index, scheme) in ["stratum1", "stratum2", "stratum3", "stratum"]
        .into_iter()
        .enumerate()
    {
        let before = node.head();
        let name = format!("0xwallet.rig{index}");
        let url = format!("{scheme}+tcp://{name}:x@{}", node.stratum());
        let miner = MinerProcess::start(["stratum", &url]);
        node.wait_for_head(before + 2);
        let status = miner.wait_for_status("two shares", |status| status["accepted"].as_u64() >= Some(2));
        assert_eq!(
            (&status["rejected"], &status["invalid"]),
            (&json!(0), &json!(0)),
            "{scheme}"
        );
        let ended = miner.end(EndSignal::Interrupt);
        assert_eq!(ended.status.code(), Some(0), "{scheme}: {}", ended.stderr);
        names.push(name);
    }
    let status = wait_for("all miners to disconnect", || {
        Some(node.stratum_figures()).filter(|status| status["connections"] == 0)
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
fn a_miner_fails_over_between_stratum_servers() {
    let (first, second) = (Vnode::with_stratum(&[]), Vnode::with_stratum(&[]));
    let urls = [&first, &second].map(|node| format!("stratum2+tcp://a.b@{}", node.stratum()));
    let miner = MinerProcess::start(["stratum", &urls[0], &urls[1], "--retry-max", "1"]);
    first.wait_for_head(1);
    first.end(EndSignal::Terminate);
    second.wait_for_head(1);
    let status = miner.status();
    assert_eq!(status["endpoints"][1]["active"], json!(true), "{status}");
}

#[test]
fn logins_need_the_password_if_one_is_set() {
    let node = Vnode::with_stratum(&["--stratum.password", "sesame"]);
    let url = |password: &str| format!("stratum+tcp://a.b:{password}@{}", node.stratum());
    let refused = MinerProcess::start(["stratum", &url("wrong"), "--max-wait", "2"]).wait();
    assert_eq!(refused.status.code(), Some(3), "{}", refused.stderr);
    assert!(refused.stderr.contains("Invalid login"), "{}", refused.stderr);
    let _miner = MinerProcess::start(["stratum", &url("sesame")]);
    node.wait_for_head(1);
    assert!(node.stratum_figures()["bad_logins"].as_u64() >= Some(1));
}

#[test]
fn bad_miners_lose_only_their_own_connection() {
    let node = Vnode::with_stratum(&["--stratum.maxconnections", "8"]);
    let mut good = RawConnection::connect(node.stratum());
    let subscribed =
        good.call(&json!({"id": 1, "method": "mining.subscribe", "params": ["x", "EthereumStratum/1.0.0"]}));
    assert_eq!(subscribed["result"][1].as_str().map(str::len), Some(4));
    assert_eq!(
        good.call(&json!({"id": 2, "method": "mining.authorize", "params": ["a.b", "x"]}))["result"],
        true
    );

    for bytes in [
        b"\x00\xff\n".repeat(20),
        vec![b'x'; 100_000],
        b"{\"id\":1,\"method\":\"mining.authorize\",\"params\":[\"a\",\"b\"]}\n".repeat(20),
        b"GET / HTTP/1.1\r\nhost: x\r\n\r\nx\r\nx\r\nx\r\nx\r\nx\r\nx\r\nx\r\n".to_vec(),
        b"{\"id\":1,\"method\":\"mining.noop\"}\n".repeat(2000),
        b"{\"a\":".repeat(3000),
    ] {
        let mut bad = RawConnection::connect(node.stratum());
        bad.send(&bytes);
        bad.send(b"\n");
        bad.wait_for_end();
    }
    // For connections above the limit others make room: those without a login, the oldest first.
    let mut connections: Vec<_> = (0..12).map(|_| RawConnection::connect(node.stratum())).collect();
    for connection in connections.iter_mut().take(5) {
        connection.wait_for_end();
    }
    let newest = connections.last_mut().expect("the newest connection");
    newest.log_in("c.d");
    drop(connections);
    // The good miner is not affected.
    let work = wait_for("a job", || {
        good.receive()
            .filter(|message| message["method"] == "mining.notify")
    });
    let wrong =
        json!({"id": 9, "method": "mining.submit", "params": ["a.b", work["params"][0], "000000000000"]});
    let answers = [good.call(&wrong), good.call(&wrong)];
    for answer in answers {
        assert_eq!(answer["result"], false, "{answer}");
    }
    let unknown_job =
        json!({"id": 10, "method": "mining.submit", "params": ["a.b", "ffffffff", "000000000000"]});
    assert_eq!(good.call(&unknown_job)["error"][0], 21);
    let status = node.stratum_figures();
    assert!(
        status["bad_messages"].as_u64() >= Some(8) && status["displaced"].as_u64() >= Some(5),
        "{status}"
    );
    node.end(EndSignal::Terminate);
    good.wait_for_end();
}

#[test]
fn shares_that_arrive_together_are_all_answered() {
    // Fewer than those for which a connection is closed, and more than may be hashed at once.
    const SHARES: u64 = 24;
    let node = Vnode::with_stratum(&[]);
    let mut miner = RawConnection::connect(node.stratum());
    let job = miner.log_in("a.b");
    let shares: String = (0..SHARES)
        .map(|id| {
            let share = json!({
                "id": 100 + id, "method": "mining.submit", "params": ["a.b", job, format!("{id:012x}")],
            });
            format!("{share}\n")
        })
        .collect();
    assert!(miner.send(shares.as_bytes()));
    let mut answered = BTreeSet::new();
    while answered.len() < SHARES as usize {
        let answer = miner.receive().expect("an answer");
        if answer["id"].as_u64() < Some(100) {
            continue;
        }
        // A nonce can be good enough by chance.
        let message = answer["error"][1].as_str().unwrap_or("accepted");
        assert!(
            ["Low difficulty share", "accepted"].contains(&message),
            "{answer}"
        );
        assert!(answered.insert(answer["id"].as_u64()), "answered twice: {answer}");
    }
}

#[test]
fn a_share_that_seals_counts_if_its_miner_disconnects() {
    let node = Vnode::with_stratum(&[]);
    let mut miner = RawConnection::connect(node.stratum());
    let work = proxy_work(&mut miner);
    let (wrong, right) = (search(&work, 1, false), search(&work, 1, true));
    let mut shares: String = (0..15).map(|id| proxy_share(100 + id, &wrong, 0)).collect();
    shares += &proxy_share(200, &right, 0);
    assert!(miner.send(shares.as_bytes()));
    miner.shut_down(Shutdown::Write);
    node.wait_for_head(1);
    let status = wait_for("the worker's block", || {
        let status = node.stratum_figures();
        (status["workers"][0]["blocks"] == 1).then_some(status)
    });
    assert_eq!(status["workers"][0]["connections"], 0, "{status}");
}

/// Logs in with the dialect eth-proxy and gets work.
fn proxy_work(miner: &mut RawConnection) -> RpcWork {
    let login = json!({"id": 1, "jsonrpc": "2.0", "method": "eth_submitLogin", "params": ["a.b", "x"]});
    assert_eq!(miner.call(&login)["result"], true);
    let work = wait_for("work", || {
        let answer = miner.call(&json!({"id": 2, "jsonrpc": "2.0", "method": "eth_getWork", "params": []}));
        answer["result"].as_array().cloned()
    });
    let part = |index: usize| data(&work[index], 32).parse().expect("checked: 32 bytes");
    RpcWork {
        header_hash: part(0),
        seed_hash: part(1),
        boundary: part(2),
    }
}

/// The line that submits `solution` with a nonce that is higher by `offset`.
fn proxy_share(id: u64, solution: &RpcSolution, offset: u64) -> String {
    let RpcSolution {
        header_hash,
        pow_nonce,
        mix_hash,
    } = solution;
    let nonce = format!("{:#018x}", pow_nonce + offset);
    let share = json!({
        "id": id, "jsonrpc": "2.0", "method": "eth_submitWork",
        "params": [nonce, header_hash.to_string(), mix_hash.to_string()],
    });
    format!("{share}\n")
}
