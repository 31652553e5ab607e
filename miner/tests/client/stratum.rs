//! Pools in every dialect: login, jobs, shares, reconnection, errors.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use engine::EpochRefusal;
use ethash::{B256, Epoch};
use miner::client::ClientConfig;
use miner::client::testing::{ClientClock, ClientEnd};
use serde_json::json;
use stratum::boundary_of_difficulty;

use crate::harness::{Client, WAIT_MAX, config};
use crate::pool::ScriptedPool;

const fn header(mark: u8) -> B256 {
    B256::repeat_byte(mark)
}

/// A difficulty so low that every hash is a share.
const EASY: f64 = 1e-12;

/// A client that is logged in to a pool with EthereumStratum/1.0.0 and has job 1.
fn ethereum_stratum1() -> (Client, ScriptedPool, crate::pool::Talk<std::net::TcpStream>) {
    let pool = ScriptedPool::listen();
    let client = Client::start(config(&[pool.url("stratum2+tcp")]));
    let mut talk = pool.accept();
    talk.ethereum_stratum1_login("af4c");
    talk.ethereum_stratum1_difficulty(EASY);
    talk.ethereum_stratum1_job("1", header(1), true);
    client.task(header(1));
    (client, pool, talk)
}

#[test]
fn shares_are_counted_by_their_answers() {
    let (client, _pool, mut talk) = ethereum_stratum1();
    let nonce = 0xaf4c_0000_0000_0001;
    let answers = [
        json!({"result": true, "error": null}),
        json!({"result": false, "error": [21, "Job not found", null]}),
        json!({"result": false, "error": [23, "Low difficulty", null]}),
    ];
    for (i, answer) in answers.into_iter().enumerate() {
        client.find(i, header(1), nonce + i as u64);
        let submit = talk.expect("mining.submit");
        assert_eq!(
            submit["params"],
            json!(["0xwallet.rig", "1", format!("00000000000{}", i + 1)])
        );
        let mut answer = answer;
        answer["id"] = submit["id"].clone();
        talk.send(&answer);
    }
    client.wait_until("three answers", |status| {
        let total = status.total();
        total.accepted + total.stale + total.rejected == 3
    });
    let devices = client.status().devices;
    assert_eq!(
        (devices[0].accepted, devices[1].stale, devices[2].rejected),
        (1, 1, 1)
    );
}

#[test]
fn the_client_waits_for_answers_before_it_ends() {
    let (client, _pool, mut talk) = ethereum_stratum1();
    client.find(0, header(1), 0xaf4c_0000_0000_0001);
    client.tell_to_stop();
    let submit = talk.expect("mining.submit");
    talk.accept_request(&submit);
    let stats = std::sync::Arc::clone(&client.stats);
    assert_eq!(client.end(), ClientEnd::Stopped);
    assert_eq!(stats.status().total().accepted, 1, "{:?}", stats.status());
}

#[test]
fn a_hashrate_of_zero_is_not_reported() {
    let pool = ScriptedPool::listen();
    let calls = AtomicU64::new(0);
    // The first call returns 0.
    let rate = move || calls.fetch_add(1, Ordering::Relaxed) * 1000;
    let client = Client::start_at(config(&[pool.url("stratum2+tcp")]), rate);
    let mut talk = pool.accept();
    talk.ethereum_stratum1_login("af4c");
    talk.ethereum_stratum1_difficulty(EASY);
    talk.ethereum_stratum1_job("1", header(1), true);
    client.task(header(1));
    let report = talk.expect("eth_submitHashrate");
    let reported = report["params"][0].as_str().unwrap_or_default();
    assert_eq!(
        u64::from_str_radix(reported.trim_start_matches("0x"), 16),
        Ok(1000),
        "{report}"
    );
}

#[test]
fn difficulty_and_extranonce_apply_from_the_next_job_on() {
    let (client, _pool, mut talk) = ethereum_stratum1();
    talk.ethereum_stratum1_difficulty(2.0);
    talk.send(&json!({"id": null, "method": "mining.set_extranonce", "params": ["beef01"]}));
    talk.ethereum_stratum1_job("2", header(1), false);
    let task =
        client.task_where(|task| task.work.boundary == boundary_of_difficulty(2.0).expect("above zero"));
    assert_eq!(task.work.header_hash, header(1), "the same header, made harder");
    assert!(
        task.repeat && task.nonces.contains(0xbeef_0100_0000_0000) && !task.nonces.contains(0xaf4c << 48)
    );
    // A share with the old extranonce belongs to the old job.
    client.find(0, header(1), 0xaf4c_0000_0000_0009);
    let submit = talk.expect("mining.submit");
    assert_eq!(
        (&submit["params"][1], &submit["params"][2]),
        (&json!("1"), &json!("000000000009"))
    );
    talk.accept_request(&submit);
    // A share above the new boundary is not sent.
    client.find(0, header(1), 0xbeef_0100_0000_0009);
    client.wait_until("the miss", |status| status.total().stale == 1);
    client.wait_until("the hit", |status| status.total().accepted == 1);
}

#[test]
fn clean_jobs_end_the_jobs_before() {
    let (client, _pool, mut talk) = ethereum_stratum1();
    talk.ethereum_stratum1_job("2", header(2), false);
    client.task(header(2));
    client.find(0, header(1), 0xaf4c_0000_0000_0001);
    let submit = talk.expect("mining.submit");
    assert_eq!(submit["params"][1], "1", "shares of the old job still count");
    talk.accept_request(&submit);
    talk.ethereum_stratum1_job("3", header(3), true);
    client.task(header(3));
    client.find(0, header(1), 0xaf4c_0000_0000_0002);
    client.wait_until("the old share", |status| status.total().stale == 1);
    client.find(0, header(3), 0xaf4c_0000_0000_0003);
    assert_eq!(talk.expect("mining.submit")["params"][1], "3");
}

#[test]
fn ethereum_stratum2_works_over_a_socket() {
    let pool = ScriptedPool::listen();
    let client = Client::start(config(&[pool.url("stratum3+tcp")]));
    let mut talk = pool.accept();
    let hello = talk.expect("mining.hello");
    assert_eq!(hello["params"]["host"], "127.0.0.1");
    talk.send(&json!({"id": hello["id"], "result": {"proto": "EthereumStratum/2.0.0", "encoding": "plain", "resume": "0", "timeout": "2", "maxerrors": "5", "node": "x"}}));
    let subscribe = talk.expect("mining.subscribe");
    talk.send(&json!({"id": subscribe["id"], "result": "s-1"}));
    let authorize = talk.expect("mining.authorize");
    talk.send(&json!({"id": authorize["id"], "result": "w-9"}));
    let target = "ff".repeat(32);
    talk.send(&json!({"method": "mining.set", "params": {"epoch": "2", "target": target, "algo": "ethash", "extranonce": "af4c"}}));
    talk.send(&json!({"method": "mining.notify", "params": ["a1", "ea61", format!("{:x}", header(1)), "1"]}));
    let task = client.task(header(1));
    assert_eq!(
        (task.work.epoch, task.work.number),
        (Epoch::ethash(2), Some(60_001))
    );
    client.find(0, header(1), 0xaf4c_0000_0000_00ff);
    let submit = talk.expect("mining.submit");
    assert_eq!(submit["params"], json!(["a1", "0000000000ff", "w-9"]));
    talk.send(&json!({"id": submit["id"], "error": {"code": 202, "message": "Stale"}}));
    client.wait_until("a stale share", |status| status.total().stale == 1);
    // The pool allows two seconds of silence. The client sends something after half of that.
    loop {
        let message = talk.receive().expect("the miner stays");
        if message["method"] == "mining.noop" {
            break;
        }
    }
    drop(client);
    while let Some(message) = talk.receive() {
        assert_ne!(message["method"], "mining.submit");
    }
}

#[test]
fn eth_proxy_works_over_a_socket() {
    let pool = ScriptedPool::listen();
    let client = Client::start(config(&[pool.url("stratum1+tcp")]));
    let mut talk = pool.accept();
    let login = talk.expect("eth_submitLogin");
    assert_eq!(
        (&login["params"], &login["worker"]),
        (&json!(["0xwallet", "secret"]), &json!("rig"))
    );
    talk.accept_request(&login);
    let get_work = talk.expect("eth_getWork");
    let work = |mark| {
        let boundary = B256::repeat_byte(0xff);
        json!([header(mark), Epoch::ethash(0).seed_hash(), boundary].map(|hash: B256| hash.to_string()))
    };
    talk.send(&json!({"id": get_work["id"], "jsonrpc": "2.0", "result": work(1)}));
    client.task(header(1));
    talk.send(&json!({"id": 0, "jsonrpc": "2.0", "result": work(2)}));
    client.task(header(2));
    client.find(0, header(2), 77);
    let submit = talk.expect("eth_submitWork");
    assert_eq!(submit["params"][0], "0x000000000000004d");
    assert_eq!(submit["params"][1], header(2).to_string());
    talk.send(&json!({"id": submit["id"], "jsonrpc": "2.0", "result": true}));
    client.wait_until("the share", |status| status.total().accepted == 1);
    // The pool decides whether a share of the work before counts.
    client.find(0, header(1), 78);
    let submit = talk.expect("eth_submitWork");
    assert_eq!(submit["params"][1], header(1).to_string());
    talk.send(&json!({"id": submit["id"], "jsonrpc": "2.0", "result": false}));
    client.wait_until("its answer", |status| status.total().rejected == 1);
}

#[test]
fn the_dialect_is_found_and_remembered() {
    let pool = ScriptedPool::listen();
    let client = Client::start(config(&[pool.url("stratum+tcp")]));
    // The pool refuses the first dialect, hangs up on the second, and speaks the third.
    let mut talk = pool.accept();
    let hello = talk.expect("mining.hello");
    talk.send(&json!({"id": hello["id"], "error": {"code": -3, "message": "Method not found"}}));
    drop(pool.accept());
    let log_in = |talk: &mut crate::pool::Talk<_>| {
        let login = talk.expect("eth_submitLogin");
        talk.accept_request(&login);
        let get_work = talk.expect("eth_getWork");
        let work =
            [header(1), Epoch::ethash(0).seed_hash(), B256::repeat_byte(0xff)].map(|hash| hash.to_string());
        talk.send(&json!({"id": get_work["id"], "result": work}));
    };
    let mut talk = pool.accept();
    log_in(&mut talk);
    client.task(header(1));
    drop(talk);
    log_in(&mut pool.accept());
    client.task(header(1));
}

#[test]
fn a_miner_reconnects_where_it_is_asked_to() {
    let (client, pool, mut talk) = ethereum_stratum1();
    let other = ScriptedPool::listen();
    let away =
        |host: &str, port: u16| json!({"id": null, "method": "client.reconnect", "params": [host, port, 0]});
    talk.send(&away("127.0.0.1", other.address.port()));
    let mut other_talk = other.accept();
    other_talk.ethereum_stratum1_login("00");
    other_talk.ethereum_stratum1_difficulty(EASY);
    other_talk.ethereum_stratum1_job("1", header(2), true);
    client.task(header(2));
    assert_eq!(
        client.status().endpoints[0].failures,
        0,
        "a reconnection is not a failure"
    );
    // The client does not follow to another site: anybody could have changed the message on its
    // way.
    other_talk.send(&away("pool.evil.example", 1));
    let mut first_talk = pool.accept();
    first_talk.ethereum_stratum1_login("00");
    first_talk.ethereum_stratum1_job("1", header(3), true);
    client.task(header(3));
    assert_eq!(client.status().endpoints[0].failures, 1);
}

#[test]
fn a_pool_whose_connection_broke_is_used_again() {
    let (client, pool, mut talk) = ethereum_stratum1();
    client.find(0, header(1), 0xaf4c_0000_0000_0001);
    talk.expect("mining.submit");
    drop(talk);
    client.pause();
    client.wait_until("the share is lost", |status| status.total().lost == 1);
    let mut talk = pool.accept();
    talk.ethereum_stratum1_login("af4c");
    talk.ethereum_stratum1_job("2", header(2), true);
    client.task(header(2));
}

#[test]
fn odd_messages_are_skipped_and_counted() {
    let (client, _pool, mut talk) = ethereum_stratum1();
    let odd = [
        &b"\x00\xff\xfe garbage\n"[..],
        b"[]\n",
        b"{\"id\":[1],\"result\":true}\n",
        b"{\"id\":null,\"method\":\"mining.notify\",\"params\":[]}\n",
        b"{\"id\":null,\"method\":\"mining.notify\",\"params\":[\"1\",\"ab\",\"cd\",true]}\n",
        b"{\"id\":null,\"method\":\"mining.set_difficulty\",\"params\":[-1]}\n",
        b"{\"id\":null,\"method\":\"mining.dance\",\"params\":7}\n",
        b"{\"id\":null,\"method\":{}}\n",
    ];
    for line in odd {
        talk.send_bytes(line);
    }
    talk.ethereum_stratum1_job("2", header(2), true);
    client.task(header(2));
    client.find(0, header(2), 0xaf4c_0000_0000_0001);
    let submit = talk.expect("mining.submit");
    talk.accept_request(&submit);
    client.wait_until("the share", |status| status.total().accepted == 1);
    let endpoint = client.status().endpoints[0].clone();
    assert_eq!(
        (endpoint.skipped, endpoint.failures, endpoint.connections),
        (odd.len() as u64, 0, 1)
    );
}

#[test]
fn only_a_flood_of_odd_messages_or_a_lost_border_of_lines_ends_the_session() {
    let odd_notice = b"{\"id\":null,\"method\":\"mining.notify\",\"params\":[]}\n";
    for (flood, reason) in [
        (odd_notice.repeat(101), "odd messages: got 101 within a minute"),
        (b"garbage\n".repeat(17), "odd messages: got 17 in a row"),
        (vec![b'x'; 100_000], "a line of more than"),
    ] {
        let (client, pool, mut talk) = ethereum_stratum1();
        talk.send_bytes(&flood);
        let mut talk = pool.accept();
        talk.ethereum_stratum1_login("af4c");
        talk.ethereum_stratum1_job("2", header(2), true);
        client.task(header(2));
        let endpoint = client.status().endpoints[0].clone();
        assert_eq!(endpoint.failures, 1);
        let got = endpoint.last_error.unwrap_or_default();
        assert!(got.contains(reason), "{got}");
    }
}

#[test]
fn a_share_whose_answer_cannot_be_read_counts_as_unknown() {
    let pool = ScriptedPool::listen();
    let client = Client::start(ClientConfig {
        response_timeout: Duration::from_millis(300),
        ..config(&[pool.url("stratum2+tcp")])
    });
    let mut talk = pool.accept();
    talk.ethereum_stratum1_login("af4c");
    talk.ethereum_stratum1_difficulty(EASY);
    talk.ethereum_stratum1_job("1", header(1), true);
    client.task(header(1));
    // The answer says neither yes nor no.
    client.find(0, header(1), 0xaf4c_0000_0000_0001);
    let submit = talk.expect("mining.submit");
    talk.send(&json!({"id": submit["id"], "result": {"status": "what"}, "error": null}));
    client.wait_until("the first share", |status| status.total().unknown == 1);
    // The answer has a bad id, so nobody knows whose answer it is.
    client.find(1, header(1), 0xaf4c_0000_0000_0002);
    let submit = talk.expect("mining.submit");
    talk.send(&json!({"id": [submit["id"]], "result": true, "error": null}));
    client.wait_until("the second share", |status| status.total().unknown == 2);
    let status = client.status();
    assert_eq!((status.devices[0].unknown, status.devices[1].unknown), (1, 1));
    assert_eq!((status.total().lost, status.endpoints[0].failures), (0, 0));
    // A share without any answer still ends the session.
    client.find(0, header(1), 0xaf4c_0000_0000_0003);
    talk.expect("mining.submit");
    pool.accept();
    client.wait_until("the third share", |status| status.total().lost == 1);
}

#[test]
fn a_share_that_cannot_be_submitted_counts_as_lost() {
    const PENDING_MAX: u64 = 1024;
    let pool = ScriptedPool::listen();
    let client = Client::start(ClientConfig {
        report_every: None,
        ..config(&[pool.url("stratum2+tcp")])
    });
    let mut talk = pool.accept();
    talk.ethereum_stratum1_login("af4c");
    talk.ethereum_stratum1_difficulty(EASY);
    talk.ethereum_stratum1_job("1", header(1), true);
    client.task(header(1));
    // The pool answers none of them, so the last one is not sent.
    for nonce in 0..=PENDING_MAX {
        client.find(0, header(1), 0xaf4c_0000_0000_0000 | nonce);
    }
    client.wait_until("all shares", |status| status.total().lost == PENDING_MAX + 1);
}

/// Time after which a pool without new work is left, and a little more.
const TOO_LONG: Duration = Duration::from_secs(181);

#[test]
fn a_pool_of_a_slow_chain_is_connected_to_anew_without_a_pause() {
    let pool = ScriptedPool::listen();
    let clock = ClientClock::default();
    let client = Client::start(ClientConfig {
        clock: clock.clone(),
        // A wait would be longer than the test.
        first_back_off: Duration::from_secs(3600),
        last_back_off: Duration::from_secs(3600),
        report_every: None,
        ..config(&[pool.url("stratum2+tcp")])
    });
    let mut sessions = Vec::new();
    for session in 0..10 {
        let mut talk = pool.accept();
        talk.ethereum_stratum1_login("af4c");
        talk.ethereum_stratum1_difficulty(EASY);
        for job in [2 * session, 2 * session + 1] {
            talk.ethereum_stratum1_job(&job.to_string(), header(job), true);
            // No pause comes before the job.
            let task = client.tasks.recv_timeout(WAIT_MAX).expect("a task");
            assert_eq!(task.map(|task| task.work.header_hash), Some(header(job)), "{job}");
            clock.advance(Duration::from_secs(60));
        }
        clock.advance(TOO_LONG);
        sessions.push(talk);
    }
    // A share that is found before there is new work is sent to the pool of its job.
    let mut talk = pool.accept();
    client.find(0, header(19), 0xaf4c_0000_0000_0001);
    talk.ethereum_stratum1_login("af4c");
    talk.ethereum_stratum1_job("20", header(20), true);
    client.task(header(20));
    let mut last = sessions.pop().expect("ten sessions");
    assert_eq!(last.expect("mining.submit")["params"][1], "19");
}

#[test]
fn a_pool_that_is_stuck_loses_to_the_next_one_until_it_has_new_work() {
    let (stuck, other) = (ScriptedPool::listen(), ScriptedPool::listen());
    let clock = ClientClock::default();
    let client = Client::start(ClientConfig {
        clock: clock.clone(),
        ..config(&[stuck.url("stratum2+tcp"), other.url("stratum2+tcp")])
    });
    let work = |pool: &ScriptedPool, mark: u8| {
        let mut talk = pool.accept();
        talk.ethereum_stratum1_login("af4c");
        talk.ethereum_stratum1_job("1", header(mark), true);
        talk
    };
    let _first = work(&stuck, 1);
    client.task(header(1));
    clock.advance(TOO_LONG);
    let _second = work(&other, 2);
    client.task(header(2));
    for _ in 0..3 {
        let mut same = work(&stuck, 1);
        while same.receive().is_some() {}
    }
    assert!(client.status().endpoints[1].active, "{:?}", client.status());
    let _third = work(&stuck, 3);
    client.task(header(3));
    client.wait_until("the first is back", |status| status.endpoints[0].active);
}

/// Sends a job with the seed hash of `epoch`.
fn send_epoch(talk: &mut crate::pool::Talk<std::net::TcpStream>, epoch: Epoch, mark: u8) {
    send_job_of_epoch(talk, epoch, header(mark));
}

fn send_job_of_epoch(talk: &mut crate::pool::Talk<std::net::TcpStream>, epoch: Epoch, header: B256) {
    let seed = epoch.seed_hash();
    let params = json!(["1", format!("{seed:x}"), format!("{header:x}"), true]);
    talk.send(&json!({"id": null, "method": "mining.notify", "params": params}));
}

#[test]
fn a_far_epoch_reaches_the_engine_only_in_a_new_session() {
    let (client, pool, mut talk) = ethereum_stratum1();
    send_epoch(&mut talk, Epoch::ethash(2), 2);
    client.task(header(2));
    send_epoch(&mut talk, Epoch::ethash(700), 3);
    let mut talk = pool.accept();
    let error = client.status().endpoints[0]
        .last_error
        .clone()
        .unwrap_or_default();
    assert!(
        error.contains("epoch: got 700 with 700 seed steps, expected 0 to 4 seed steps"),
        "{error}"
    );
    // A pool that changes between chains begins the new session with the other chain.
    talk.ethereum_stratum1_login("af4c");
    send_epoch(&mut talk, Epoch::ethash(700), 4);
    let task =
        client.task_where(|task| task.work.header_hash != header(1) && task.work.header_hash != header(2));
    assert_eq!(
        (task.work.header_hash, task.work.epoch),
        (header(4), Epoch::ethash(700))
    );
}

#[test]
fn epochs_that_cannot_be_searched_are_refused_with_a_reason() {
    let pool = ScriptedPool::listen();
    let check = |epoch: Epoch| {
        if epoch.index < 900 {
            Ok(())
        } else {
            Err(EpochRefusal::Dataset {
                bytes: 9,
                available: 8,
                device: "gpu:0".into(),
            })
        }
    };
    let client = Client::start_with_check(config(&[pool.url("stratum2+tcp")]), check);
    for (epoch, reason) in [
        (32_639, "epoch: got 32639, expected at most 4095"),
        (
            1000,
            "epoch 1000 cannot be searched here: its dataset has 9 bytes, and the largest memory for it is 8 bytes",
        ),
    ] {
        let failures = client.status().endpoints[0].failures;
        let mut talk = pool.accept();
        talk.ethereum_stratum1_login("af4c");
        send_epoch(&mut talk, Epoch::ethash(epoch), 1);
        client.wait_until("the refusal", |status| status.endpoints[0].failures > failures);
        let got = client.status().endpoints[0]
            .last_error
            .clone()
            .unwrap_or_default();
        assert!(got.contains(reason), "{got}");
    }
    let mut talk = pool.accept();
    talk.ethereum_stratum1_login("af4c");
    send_epoch(&mut talk, Epoch::ethash(899), 2);
    let task = client.task_where(|_| true);
    assert_eq!(task.work.header_hash, header(2), "no refused job came before");
}

#[test]
fn half_open_connections_are_noticed() {
    // A pool that accepts connections and sends nothing.
    let pool = ScriptedPool::listen();
    let quick = |url: String, patience: u64| ClientConfig {
        response_timeout: Duration::from_millis(patience),
        ..config(&[url])
    };
    let client = Client::start(ClientConfig {
        max_wait: Some(Duration::from_millis(300)),
        ..quick(pool.url("stratum2+tcp"), 100)
    });
    match client.end() {
        ClientEnd::NoConnection { last, .. } => assert!(last.contains("waiting for a login"), "{last}"),
        other => panic!("got {other:?}"),
    }
    // A pool that no longer answers shares.
    let pool = ScriptedPool::listen();
    let client = Client::start(quick(pool.url("stratum2+tcp"), 1000));
    let mut talk = pool.accept();
    talk.ethereum_stratum1_login("af4c");
    talk.ethereum_stratum1_difficulty(EASY);
    talk.ethereum_stratum1_job("1", header(1), true);
    client.task(header(1));
    client.find(0, header(1), 0xaf4c_0000_0000_0001);
    let mut again = pool.accept();
    again.ethereum_stratum1_login("af4c");
    assert_eq!(client.status().total().lost, 1);
}

#[test]
fn after_a_refused_login_the_next_pool_is_used() {
    let (closed, open) = (ScriptedPool::listen(), ScriptedPool::listen());
    let client = Client::start(config(&[closed.url("stratum2+tcp"), open.url("stratum2+tcp")]));
    let mut talk = closed.accept();
    let subscribe = talk.expect("mining.subscribe");
    talk.send(&json!({"id": subscribe["id"], "result": [["mining.notify", "1"], "00"], "error": null}));
    let authorize = talk.expect("mining.authorize");
    talk.send(&json!({"id": authorize["id"], "result": null, "error": [24, "Unauthorized", null]}));
    let mut talk = open.accept();
    talk.ethereum_stratum1_login("00");
    talk.ethereum_stratum1_job("1", header(1), true);
    client.task(header(1));
    let status = client.status();
    let reason = status.endpoints[0].last_error.clone().unwrap_or_default();
    assert!(
        reason.contains("login of 0xwallet.rig refused: Unauthorized"),
        "{reason}"
    );
    assert!(status.endpoints[1].active);
}

#[test]
fn a_rig_that_works_in_vain_connects_anew() {
    let (client, pool, mut talk) = ethereum_stratum1();
    client.reconnect.notify_one();
    let mut again = pool.accept();
    again.ethereum_stratum1_login("af4c");
    again.ethereum_stratum1_job("2", header(2), true);
    client.task(header(2));
    let endpoint = client.status().endpoints[0].clone();
    let reason = endpoint.last_error.unwrap_or_default();
    assert!(
        endpoint.connections == 2 && reason.contains("new connection"),
        "{reason}"
    );
    while talk.receive().is_some() {}
}

/// Each connection has another extranonce, difficulty and epoch, and ends after one share.
#[test]
fn a_thousand_reconnections_lose_no_solution() {
    const CONNECTIONS: u64 = 1000;
    let pool = ScriptedPool::listen();
    let back_off = Duration::from_millis(1);
    let client = Client::start(ClientConfig {
        first_back_off: back_off,
        last_back_off: back_off,
        ..config(&[pool.url("stratum2+tcp")])
    });
    for connection in 0..CONNECTIONS {
        let mut talk = pool.accept();
        let extranonce = connection as u16;
        talk.ethereum_stratum1_login(&format!("{extranonce:04x}"));
        talk.ethereum_stratum1_difficulty(EASY * (1 + connection % 3) as f64);
        let header = B256::from(ethash::U256::from(connection + 1).to_be_bytes());
        send_job_of_epoch(&mut talk, Epoch::ethash((connection % 2) as u32), header);
        let task = client.task(header);
        let nonce = u64::from(extranonce) << 48 | 7;
        assert!(task.nonces.contains(nonce) && !task.nonces.contains(nonce ^ 1 << 63));
        client.find(0, header, nonce);
        let submit = talk.expect("mining.submit");
        talk.accept_request(&submit);
        client.wait_until("the answer", |status| status.total().accepted == connection + 1);
    }
    let total = client.status().total();
    assert_eq!((total.accepted, total.lost, total.stale), (CONNECTIONS, 0, 0));
}
