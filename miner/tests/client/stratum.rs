//! Pools in every dialect: login, jobs, shares, and everything that pools do besides.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ethash::{B256, Epoch};
use miner::client::{ClientConfig, Ending};
use serde_json::json;
use stratum::boundary_of_difficulty;

use crate::harness::{Client, config};
use crate::pool::Pool;

fn header(mark: u8) -> B256 {
    B256::repeat_byte(mark)
}

/// So easy that any hash is a share.
const EASY: f64 = 1e-12;

/// A client and a pool that has logged it in by EthereumStratum/1.0.0 and given job 1.
fn first_dialect() -> (Client, Pool, crate::pool::Talk<std::net::TcpStream>) {
    let pool = Pool::listen();
    let client = Client::start(config(&[pool.url("stratum2+tcp")]));
    let mut talk = pool.accept();
    talk.log_in_first("af4c");
    talk.difficulty_first(EASY);
    talk.job_first("1", header(1), true);
    client.task(header(1));
    (client, pool, talk)
}

#[test]
fn shares_are_counted_by_their_answers() {
    let (client, _pool, mut talk) = first_dialect();
    let nonce = 0xaf4c_0000_0000_0001;
    let answers = [
        json!({"result": true, "error": null}),
        json!({"result": false, "error": [21, "Job not found", null]}),
        json!({"result": false, "error": [23, "Low difficulty", null]}),
    ];
    for (place, answer) in answers.into_iter().enumerate() {
        client.find(place, header(1), nonce + place as u64);
        let submit = talk.expect("mining.submit");
        assert_eq!(
            submit["params"],
            json!(["0xwallet.rig", "1", format!("00000000000{}", place + 1)])
        );
        let mut answer = answer;
        answer["id"] = submit["id"].clone();
        talk.say(&answer);
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
fn a_share_on_its_way_at_the_end_is_answered_first() {
    let (client, _pool, mut talk) = first_dialect();
    client.find(0, header(1), 0xaf4c_0000_0000_0001);
    client.tell_to_stop();
    let submit = talk.expect("mining.submit");
    talk.yes(&submit);
    let ledger = std::sync::Arc::clone(&client.ledger);
    assert_eq!(client.ending(), Ending::Stopped);
    assert_eq!(ledger.status().total().accepted, 1, "{:?}", ledger.status());
}

#[test]
fn a_pool_is_told_no_rate_before_there_is_one() {
    let pool = Pool::listen();
    let asked = AtomicU64::new(0);
    // Nothing is hashed yet when it is first looked.
    let rate = move || asked.fetch_add(1, Ordering::Relaxed) * 1000;
    let client = Client::start_at(config(&[pool.url("stratum2+tcp")]), rate);
    let mut talk = pool.accept();
    talk.log_in_first("af4c");
    talk.difficulty_first(EASY);
    talk.job_first("1", header(1), true);
    client.task(header(1));
    let report = talk.expect("eth_submitHashrate");
    let told = report["params"][0].as_str().unwrap_or_default();
    assert_eq!(
        u64::from_str_radix(told.trim_start_matches("0x"), 16),
        Ok(1000),
        "{report}"
    );
}

#[test]
fn difficulty_and_extranonce_hold_from_the_next_job_on() {
    let (client, _pool, mut talk) = first_dialect();
    talk.difficulty_first(2.0);
    talk.say(&json!({"id": null, "method": "mining.set_extranonce", "params": ["beef01"]}));
    talk.job_first("2", header(1), false);
    let task =
        client.task_where(|task| task.work.boundary == boundary_of_difficulty(2.0).expect("above zero"));
    assert_eq!(task.work.header_hash, header(1), "the same header, made harder");
    assert!(
        task.repeat && task.nonces.contains(0xbeef_0100_0000_0000) && !task.nonces.contains(0xaf4c << 48)
    );
    // A share of the old extranonce is still one of the old job.
    client.find(0, header(1), 0xaf4c_0000_0000_0009);
    let submit = talk.expect("mining.submit");
    assert_eq!(
        (&submit["params"][1], &submit["params"][2]),
        (&json!("1"), &json!("000000000009"))
    );
    talk.yes(&submit);
    // One that misses the new boundary is not even sent.
    client.find(0, header(1), 0xbeef_0100_0000_0009);
    client.wait_until("the miss", |status| status.total().stale == 1);
    client.wait_until("the hit", |status| status.total().accepted == 1);
}

#[test]
fn clean_jobs_end_the_jobs_before() {
    let (client, _pool, mut talk) = first_dialect();
    talk.job_first("2", header(2), false);
    client.task(header(2));
    client.find(0, header(1), 0xaf4c_0000_0000_0001);
    let submit = talk.expect("mining.submit");
    assert_eq!(submit["params"][1], "1", "the old job's shares still count");
    talk.yes(&submit);
    talk.job_first("3", header(3), true);
    client.task(header(3));
    client.find(0, header(1), 0xaf4c_0000_0000_0002);
    client.wait_until("the old share", |status| status.total().stale == 1);
    client.find(0, header(3), 0xaf4c_0000_0000_0003);
    assert_eq!(talk.expect("mining.submit")["params"][1], "3");
}

#[test]
fn the_second_dialect_works_over_a_socket() {
    let pool = Pool::listen();
    let client = Client::start(config(&[pool.url("stratum3+tcp")]));
    let mut talk = pool.accept();
    let hello = talk.expect("mining.hello");
    assert_eq!(hello["params"]["host"], "127.0.0.1");
    talk.say(&json!({"id": hello["id"], "result": {"proto": "EthereumStratum/2.0.0", "encoding": "plain", "resume": "0", "timeout": "2", "maxerrors": "5", "node": "x"}}));
    let subscribe = talk.expect("mining.subscribe");
    talk.say(&json!({"id": subscribe["id"], "result": "s-1"}));
    let authorize = talk.expect("mining.authorize");
    talk.say(&json!({"id": authorize["id"], "result": "w-9"}));
    let target = "ff".repeat(32);
    talk.say(&json!({"method": "mining.set", "params": {"epoch": "2", "target": target, "algo": "ethash", "extranonce": "af4c"}}));
    talk.say(&json!({"method": "mining.notify", "params": ["a1", "ea61", format!("{:x}", header(1)), "1"]}));
    let task = client.task(header(1));
    assert_eq!(
        (task.work.epoch, task.work.number),
        (Epoch::ethash(2), Some(60_001))
    );
    client.find(0, header(1), 0xaf4c_0000_0000_00ff);
    let submit = talk.expect("mining.submit");
    assert_eq!(submit["params"], json!(["a1", "0000000000ff", "w-9"]));
    talk.say(&json!({"id": submit["id"], "error": {"code": 202, "message": "Stale"}}));
    client.wait_until("a stale share", |status| status.total().stale == 1);
    // The pool bears two seconds of silence; in half of that something is said.
    loop {
        let said = talk.hear().expect("the miner stays");
        if said["method"] == "mining.noop" {
            break;
        }
    }
    drop(client);
    while let Some(said) = talk.hear() {
        assert_ne!(said["method"], "mining.submit");
    }
}

#[test]
fn the_proxy_dialect_works_over_a_socket() {
    let pool = Pool::listen();
    let client = Client::start(config(&[pool.url("stratum1+tcp")]));
    let mut talk = pool.accept();
    let login = talk.expect("eth_submitLogin");
    assert_eq!(
        (&login["params"], &login["worker"]),
        (&json!(["0xwallet", "secret"]), &json!("rig"))
    );
    talk.yes(&login);
    let get_work = talk.expect("eth_getWork");
    let work = |mark| {
        let boundary = B256::repeat_byte(0xff);
        json!([header(mark), Epoch::ethash(0).seed_hash(), boundary].map(|hash: B256| hash.to_string()))
    };
    talk.say(&json!({"id": get_work["id"], "jsonrpc": "2.0", "result": work(1)}));
    client.task(header(1));
    talk.say(&json!({"id": 0, "jsonrpc": "2.0", "result": work(2)}));
    client.task(header(2));
    client.find(0, header(2), 77);
    let submit = talk.expect("eth_submitWork");
    assert_eq!(submit["params"][0], "0x000000000000004d");
    assert_eq!(submit["params"][1], header(2).to_string());
    talk.say(&json!({"id": submit["id"], "jsonrpc": "2.0", "result": true}));
    client.wait_until("the share", |status| status.total().accepted == 1);
}

#[test]
fn the_dialect_is_found_out_and_remembered() {
    let pool = Pool::listen();
    let client = Client::start(config(&[pool.url("stratum+tcp")]));
    // Refused, hung up on, then understood.
    let mut talk = pool.accept();
    let hello = talk.expect("mining.hello");
    talk.say(&json!({"id": hello["id"], "error": {"code": -3, "message": "Method not found"}}));
    drop(pool.accept());
    let log_in = |talk: &mut crate::pool::Talk<_>| {
        let login = talk.expect("eth_submitLogin");
        talk.yes(&login);
        let get_work = talk.expect("eth_getWork");
        let work =
            [header(1), Epoch::ethash(0).seed_hash(), B256::repeat_byte(0xff)].map(|hash| hash.to_string());
        talk.say(&json!({"id": get_work["id"], "result": work}));
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
    let (client, pool, mut talk) = first_dialect();
    let other = Pool::listen();
    let away =
        |host: &str, port: u16| json!({"id": null, "method": "client.reconnect", "params": [host, port, 0]});
    talk.say(&away("127.0.0.1", other.address.port()));
    let mut there = other.accept();
    there.log_in_first("00");
    there.difficulty_first(EASY);
    there.job_first("1", header(2), true);
    client.task(header(2));
    assert_eq!(client.status().endpoints[0].failures, 0, "that was no failure");
    // Anybody on the way could say this: nobody is sent to another site.
    there.say(&away("pool.evil.example", 1));
    let mut back = pool.accept();
    back.log_in_first("00");
    back.job_first("1", header(3), true);
    client.task(header(3));
    assert_eq!(client.status().endpoints[0].failures, 1);
}

#[test]
fn a_lost_pool_is_taken_up_again() {
    let (client, pool, mut talk) = first_dialect();
    client.find(0, header(1), 0xaf4c_0000_0000_0001);
    talk.expect("mining.submit");
    drop(talk);
    client.pause();
    client.wait_until("the share is lost", |status| status.total().lost == 1);
    let mut talk = pool.accept();
    talk.log_in_first("af4c");
    talk.job_first("2", header(2), true);
    client.task(header(2));
}

#[test]
fn garbage_ends_the_connection_and_nothing_else() {
    for garbage in [
        b"\x00\xff\xfe garbage\n".to_vec(),
        b"{\"id\":null,\"method\":\"mining.notify\",\"params\":[]}\n".to_vec(),
        b"{\"id\":null,\"method\":\"mining.set_difficulty\",\"params\":[-1]}\n".to_vec(),
        vec![b'x'; 100_000],
        b"[]\n".to_vec(),
    ] {
        let (client, pool, mut talk) = first_dialect();
        talk.say_bytes(&garbage);
        let mut talk = pool.accept();
        talk.log_in_first("af4c");
        talk.job_first("2", header(2), true);
        client.task(header(2));
        assert_eq!(client.status().endpoints[0].failures, 1);
    }
}

#[test]
fn half_open_connections_are_noticed() {
    // A pool that takes connections and says nothing.
    let pool = Pool::listen();
    let quick = |url: String, patience: u64| ClientConfig {
        response_timeout: Duration::from_millis(patience),
        ..config(&[url])
    };
    let client = Client::start(ClientConfig {
        max_wait: Some(Duration::from_millis(300)),
        ..quick(pool.url("stratum2+tcp"), 100)
    });
    match client.ending() {
        Ending::NoConnection { last, .. } => assert!(last.contains("a login not within"), "{last}"),
        other => panic!("got {other:?}"),
    }
    // One that answers no share any more.
    let pool = Pool::listen();
    let client = Client::start(quick(pool.url("stratum2+tcp"), 1000));
    let mut talk = pool.accept();
    talk.log_in_first("af4c");
    talk.difficulty_first(EASY);
    talk.job_first("1", header(1), true);
    client.task(header(1));
    client.find(0, header(1), 0xaf4c_0000_0000_0001);
    let mut again = pool.accept();
    again.log_in_first("af4c");
    assert_eq!(client.status().total().lost, 1);
}

#[test]
fn a_refused_login_is_tried_elsewhere() {
    let (closed, open) = (Pool::listen(), Pool::listen());
    let client = Client::start(config(&[closed.url("stratum2+tcp"), open.url("stratum2+tcp")]));
    let mut talk = closed.accept();
    let subscribe = talk.expect("mining.subscribe");
    talk.say(&json!({"id": subscribe["id"], "result": [["mining.notify", "1"], "00"], "error": null}));
    let authorize = talk.expect("mining.authorize");
    talk.say(&json!({"id": authorize["id"], "result": null, "error": [24, "Unauthorized", null]}));
    let mut talk = open.accept();
    talk.log_in_first("00");
    talk.job_first("1", header(1), true);
    client.task(header(1));
    let status = client.status();
    let reason = status.endpoints[0].last_error.clone().unwrap_or_default();
    assert!(
        reason.contains("login of 0xwallet.rig refused: Unauthorized"),
        "{reason}"
    );
    assert!(status.endpoints[1].active);
}
