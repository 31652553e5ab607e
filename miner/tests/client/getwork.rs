//! Nodes over getWork: work, solutions, hashrates, failover.

use std::time::{Duration, Instant};

use engine::{DeviceChoice, Engine, EngineConfig};
use ethash::{B256, Epoch, LightCaches, U256};
use miner::client::ClientConfig;
use miner::client::testing::ClientEnd;
use serde_json::{Value, json};

use crate::harness::{Client, RATE, WAIT_MAX, config};
use crate::node::{Answer, Node};

const fn header(mark: u8) -> B256 {
    B256::repeat_byte(mark)
}

/// Work of epoch 0 with this header hash.
fn work(mark: u8) -> Vec<String> {
    let boundary = B256::repeat_byte(0xff);
    [header(mark), Epoch::ethash(0).seed_hash(), boundary]
        .map(|hash| hash.to_string())
        .to_vec()
}

#[test]
fn work_comes_in_and_solutions_go_out() {
    // A node that knows only the methods with the prefix mc.
    let node = Node::start();
    node.set_work("mc_getWork", &work(1));
    node.set("mc_submitWork", Answer::Result(json!(true)));
    node.set("mc_submitHashrate", Answer::Result(json!(true)));
    let client = Client::start(config(&[node.url()]));
    let task = client.task(header(1));
    assert!(!task.repeat && task.nonces.contains(0) && task.nonces.contains(u64::MAX));
    client.find(0, header(1), 0x1234);
    client.wait_until("an answer", |status| status.total().accepted == 1);
    let mix = B256::repeat_byte(0x11).to_string();
    assert_eq!(
        node.calls("mc_submitWork"),
        [json!(["0x0000000000001234", header(1).to_string(), mix])]
    );

    // Work with four values. Each new header hash is a new task.
    let mut four = work(2);
    four.push("0x75".into());
    node.set_work("mc_getWork", &four);
    assert_eq!(client.task(header(2)).work.number, Some(0x75));
    client.find(1, header(1), 7);
    client.wait_until("an answer to stale work", |status| status.total().stale == 1);
    node.set("mc_submitWork", Answer::Result(json!(false)));
    client.find(1, header(2), 8);
    client.wait_until("a refusal", |status| status.total().rejected == 1);
    client.find(1, header(1), 9);
    client.wait_until("a refusal of stale work", |status| status.total().stale == 2);
    let status = client.status();
    assert_eq!((status.devices[0].accepted, status.devices[1].stale), (1, 2));
    assert!(status.last_answer.is_some() && status.jobs == 2, "{status:?}");

    let started = Instant::now();
    while node.calls("mc_submitHashrate").len() < 2 {
        assert!(started.elapsed() < WAIT_MAX, "no reports");
        std::thread::sleep(Duration::from_millis(5));
    }
    let reports = node.calls("mc_submitHashrate");
    assert_eq!(reports[0][0], format!("{RATE:#x}"));
    assert_eq!(reports[0][1], reports[1][1], "one id for all reports");
    assert!(reports[0][1].as_str().is_some_and(|id| id.len() == 66));
    // Many polls, but two connections: one for polls, one for submissions.
    assert!(
        node.calls("mc_getWork").len() > 5 && node.connections() == 2,
        "{}",
        node.connections()
    );
}

#[test]
fn a_refused_solution_counts_as_stale_if_the_work_is_over() {
    // Another rig of this node was faster, and this one does not know it yet.
    let node = Node::start();
    node.set_work("mc_getWork", &work(1));
    node.set("mc_submitWork", Answer::Result(json!(false)));
    let client = Client::start(config(&[node.url()]));
    client.task(header(1));
    client.find(0, header(1), 5);
    let started = Instant::now();
    while node.calls("mc_submitWork").is_empty() {
        assert!(started.elapsed() < WAIT_MAX, "never submitted");
        std::thread::sleep(Duration::from_millis(2));
    }
    node.set_work("mc_getWork", &work(2));
    client.task(header(2));
    client.wait_until("a late solution", |status| status.total().stale == 1);
    assert_eq!(client.status().total().rejected, 0);
}

#[test]
fn work_for_shares_is_searched_on_after_its_first_share() {
    let node = Node::start();
    let mut shares = work(1);
    shares[2] = ethash::boundary(&U256::from(1000)).to_string();
    node.set_work("eth_getWork", &shares);
    node.set("eth_submitWork", Answer::Result(json!(true)));
    let client = Client::start(config(&[node.url()]));
    let config = EngineConfig {
        device: DeviceChoice::Cpu,
        threads: 1,
        caches: LightCaches::with_sizes(1024, 32_768),
        ..EngineConfig::default()
    };
    let (solutions_out, solutions) = crossbeam_channel::bounded(0);
    let _engine = Engine::start(config, client.tasks.clone(), solutions_out).expect("the engine starts");
    let mut nonces = Vec::new();
    for shares in 1..=3 {
        let found = solutions.recv_timeout(WAIT_MAX).expect("another share");
        client.find(found.device, found.solution.header_hash, found.solution.pow_nonce);
        client.wait_until("an answer", |status| status.total().accepted == shares);
        nonces.push(found.solution.pow_nonce);
    }
    nonces.sort_unstable();
    nonces.dedup();
    assert_eq!(nonces.len(), 3, "each share has a nonce of its own");
    for call in node.calls("eth_submitWork") {
        assert_eq!(call[1], header(1).to_string());
    }
}

#[test]
fn a_node_that_refuses_a_second_solution_gets_one_of_each_header() {
    let node = Node::start();
    node.set_work("eth_getWork", &work(1));
    node.set("eth_submitWork", Answer::Result(json!(true)));
    let client = Client::start(config(&[node.url()]));
    assert!(!client.task(header(1)).repeat);
    client.find(0, header(1), 1);
    client.task_where(|task| task.repeat);
    node.set_work("eth_getWork", &work(2));
    assert!(client.task(header(2)).repeat, "the node gives work for shares");
    client.find(0, header(2), 1);
    client.wait_until("an answer", |status| status.total().accepted == 2);
    node.set("eth_submitWork", Answer::Result(json!(false)));
    client.find(0, header(2), 2);
    client.task_where(|task| !task.repeat);
    client.wait_until("a refusal", |status| status.total().stale == 1);
    assert_eq!(client.status().total().rejected, 0);
}

#[test]
fn the_second_node_takes_over_until_the_first_is_back() {
    let (mut first, second) = (Node::start(), Node::start());
    for (node, mark) in [(&first, 1), (&second, 2)] {
        node.set_work("eth_getWork", &work(mark));
        node.set("eth_submitWork", Answer::Result(json!(true)));
    }
    let client = Client::start(config(&[first.url(), second.url()]));
    client.task(header(1));
    assert!(second.calls("eth_getWork").is_empty(), "the second is not asked");
    first.down();
    client.task(header(2));
    client.find(0, header(2), 1);
    client.wait_until("the second's answer", |status| status.total().accepted == 1);
    let active = |client: &Client| client.status().active().map(|endpoint| endpoint.url.clone());
    assert_eq!(active(&client), Some(second.url()));

    first.set_work("eth_getWork", &work(3));
    first.up();
    client.task(header(3));
    client.wait_until("the first is back", |status| status.endpoints[0].active);
    client.find(0, header(3), 1);
    client.wait_until("the first's answer", |status| status.total().accepted == 2);
    assert_eq!(first.calls("eth_submitWork").len(), 1);
    let status = client.status();
    assert!(
        status.endpoints[0].failures > 0 && status.endpoints[0].connections == 2,
        "{status:?}"
    );
}

#[test]
fn a_solution_outlives_a_broken_connection() {
    let mut node = Node::start();
    node.set_work("eth_getWork", &work(1));
    node.set("eth_submitWork", Answer::Result(json!(true)));
    let client = Client::start(config(&[node.url()]));
    client.task(header(1));
    // The node breaks the connection instead of answering.
    node.set("eth_submitWork", Answer::Raw(Vec::new()));
    client.find(0, header(1), 5);
    let started = Instant::now();
    while node.calls("eth_submitWork").is_empty() {
        assert!(started.elapsed() < WAIT_MAX, "never submitted");
        std::thread::sleep(Duration::from_millis(2));
    }
    node.down();
    client.pause();
    node.set("eth_submitWork", Answer::Result(json!(true)));
    node.up();
    client.task(header(1));
    client.wait_until("the answer", |status| status.total().accepted == 1);
}

#[test]
fn the_engine_pauses_while_a_node_has_no_work() {
    let node = Node::start();
    node.set("eth_getWork", Answer::Error(-32_000, "mining not ready"));
    let client = Client::start(config(&[node.url()]));
    std::thread::sleep(Duration::from_millis(60));
    assert_eq!(
        client.status().active(),
        None,
        "a node without work is not connected"
    );
    node.set_work("eth_getWork", &work(1));
    client.task(header(1));
    node.set("eth_getWork", Answer::Error(-32_000, "mining not ready"));
    client.pause();
    assert_eq!(client.status().job, None);
    // After a pause the same work is given again.
    node.set_work("eth_getWork", &work(1));
    client.task(header(1));
    assert_eq!(
        client.status().endpoints[0].connections,
        1,
        "the node was never left"
    );
}

#[test]
fn bad_answers_of_a_node_are_errors_with_a_reason() {
    let html = b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\n<html>".to_vec();
    let long = [
        b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n".to_vec(),
        vec![b' '; 100_000],
    ]
    .concat();
    let other = [header(1), header(9), header(1)].map(|hash| hash.to_string());
    for (answer, reason) in [
        (Answer::Raw(html), "expected a JSON-RPC response"),
        (
            Answer::Raw(b"HTTP/1.1 403 no\r\ncontent-length: 0\r\n\r\n".to_vec()),
            "status: got 403",
        ),
        (Answer::Raw(b"\x00\xff garbage \r\n\r\n".to_vec()), "HTTP failed"),
        (Answer::Raw(Vec::new()), "HTTP failed"),
        (Answer::Raw(long), "HTTP failed"),
        (Answer::Result(Value::Null), "expected a list"),
        (Answer::Result(json!([1, 2, 3])), "seed hash"),
        (Answer::Result(json!(other)), "the seed hash of an epoch"),
        (Answer::Error(-32_601, "no such method"), "-32601"),
    ] {
        let node = Node::start();
        for method in ["eth_getWork", "mc_getWork"] {
            node.set(method, answer.clone());
        }
        let client = Client::start(ClientConfig {
            max_wait: Some(Duration::from_millis(100)),
            ..config(&[node.url()])
        });
        match client.end() {
            ClientEnd::NoConnection { last, .. } => {
                assert!(last.contains(reason), "{last}, expected {reason}")
            }
            other => panic!("got {other:?}, expected {reason}"),
        }
    }
}

#[test]
fn a_silent_node_is_left() {
    // The listener accepts connections and bytes but never answers.
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let silent = format!("http://{}", listener.local_addr().expect("bound"));
    let node = Node::start();
    node.set_work("eth_getWork", &work(1));
    let client = Client::start(ClientConfig {
        response_timeout: Duration::from_millis(100),
        ..config(&[silent, node.url()])
    });
    client.task(header(1));
    let status = client.status();
    assert!(status.endpoints[1].active, "{status:?}");
    let reason = status.endpoints[0].last_error.as_deref().unwrap_or_default();
    assert!(reason.contains("timed out after 100ms"), "{reason}");
}

#[test]
fn a_node_whose_work_never_changes_is_left() {
    let (first, second) = (Node::start(), Node::start());
    first.set_work("eth_getWork", &work(1));
    second.set_work("eth_getWork", &work(2));
    let client = Client::start(ClientConfig {
        work_timeout: Duration::from_millis(200),
        first_back_off: Duration::from_secs(60),
        last_back_off: Duration::from_secs(60),
        ..config(&[first.url(), second.url()])
    });
    client.task(header(1));
    client.task(header(2));
    let status = client.status();
    let reason = status.endpoints[0].last_error.as_deref().unwrap_or_default();
    assert!(reason.contains("new work"), "{reason}");
}

#[test]
fn a_node_that_was_stuck_is_used_again_only_with_other_work() {
    let (first, second) = (Node::start(), Node::start());
    first.set_work("eth_getWork", &work(1));
    second.set_work("eth_getWork", &work(2));
    let client = Client::start(ClientConfig {
        work_timeout: Duration::from_millis(1500),
        ..config(&[first.url(), second.url()])
    });
    client.task(header(1));
    client.task(header(2));
    let polls = first.calls("eth_getWork").len();
    let started = Instant::now();
    while first.calls("eth_getWork").len() < polls + 3 {
        assert!(started.elapsed() < WAIT_MAX, "the first is not tried again");
        std::thread::sleep(Duration::from_millis(2));
    }
    let status = client.status();
    assert_eq!(status.endpoints[0].connections, 1, "{status:?}");
    first.set_work("eth_getWork", &work(3));
    client.task(header(3));
    client.wait_until("the first is back", |status| status.endpoints[0].active);
}

#[test]
fn a_solution_found_while_polls_fail_goes_to_the_node_of_its_work() {
    let (first, second) = (Node::start(), Node::start());
    first.set_work("eth_getWork", &work(1));
    for node in [&first, &second] {
        node.set("eth_submitWork", Answer::Result(json!(true)));
    }
    let client = Client::start(config(&[first.url(), second.url()]));
    client.task(header(1));
    first.set("eth_getWork", Answer::Raw(Vec::new()));
    client.pause();
    client.find(0, header(1), 5);
    client.wait_until("the answer", |status| status.total().accepted == 1);
    assert_eq!(first.calls("eth_submitWork").len(), 1);
    assert_eq!(client.status().total().lost, 0);
}

#[test]
fn solutions_at_the_end_are_answered_or_counted_as_lost() {
    let mut node = Node::start();
    node.set_work("eth_getWork", &work(1));
    node.set("eth_submitWork", Answer::Result(json!(true)));
    let client = Client::start(config(&[node.url()]));
    client.task(header(1));
    for nonce in 0..20 {
        client.find(0, header(1), nonce);
    }
    let stats = std::sync::Arc::clone(&client.stats);
    client.tell_to_stop();
    assert_eq!(client.end(), ClientEnd::Stopped);
    assert_eq!(stats.status().total().accepted, 20, "{:?}", stats.status());

    let client = Client::start(config(&[node.url()]));
    client.task(header(1));
    node.set("eth_submitWork", Answer::Raw(Vec::new()));
    for nonce in 0..3 {
        client.find(1, header(1), nonce);
    }
    let stats = std::sync::Arc::clone(&client.stats);
    client.tell_to_stop();
    assert_eq!(client.end(), ClientEnd::Stopped);
    assert_eq!(stats.status().total().lost, 3, "{:?}", stats.status());
    node.down();
}

#[test]
fn user_and_password_are_sent() {
    let node = Node::start();
    node.set_work("eth_getWork", &work(1));
    let url = node.url().replace("http://", "http://me.too:pass%3Aword@") + "/rpc?x=1";
    let client = Client::start(config(&[url]));
    client.task(header(1));
    let head = node.head();
    assert!(head.starts_with("POST /rpc?x=1 HTTP/1.1"), "{head}");
    // me.too:pass:word
    assert!(head.contains("Basic bWUudG9vOnBhc3M6d29yZA=="), "{head}");
}

#[test]
fn odd_answers_are_skipped_and_counted() {
    let node = Node::start();
    node.set_work("eth_getWork", &work(1));
    let client = Client::start(ClientConfig {
        recheck: Duration::from_millis(40),
        ..config(&[node.url()])
    });
    client.task(header(1));
    for odd in [json!(null), json!([1, 2, 3]), json!("work")] {
        let before = client.status().endpoints[0].skipped;
        node.set("eth_getWork", Answer::Result(odd));
        client.wait_until("an odd answer", |status| status.endpoints[0].skipped > before);
    }
    node.set_work("eth_getWork", &work(2));
    let mut pauses = 0;
    loop {
        match client.tasks.recv_timeout(WAIT_MAX).expect("a task") {
            Some(task) if task.work.header_hash == header(2) => break,
            Some(_) => {}
            None => pauses += 1,
        }
    }
    let endpoint = &client.status().endpoints[0];
    assert_eq!((pauses, endpoint.failures, endpoint.connections), (0, 0, 1));
    // A node that gives nothing else is left.
    node.set("eth_getWork", Answer::Result(json!(7)));
    client.wait_until("the failure", |status| status.endpoints[0].failures > 0);
}

#[test]
fn a_solution_whose_answer_makes_no_sense_counts_as_unknown() {
    let node = Node::start();
    node.set_work("eth_getWork", &work(1));
    let client = Client::start(config(&[node.url()]));
    client.task(header(1));
    for (number, answer) in [json!(null), json!("yes"), json!({"ok": true})]
        .into_iter()
        .enumerate()
    {
        node.set("eth_submitWork", Answer::Result(answer));
        client.find(0, header(1), number as u64);
        client.wait_until("the answer", |status| status.total().unknown == number as u64 + 1);
    }
    let total = client.status().total();
    assert_eq!((total.rejected, total.stale, total.lost), (0, 0, 0));
}

#[test]
fn a_far_epoch_of_a_node_is_refused() {
    let node = Node::start();
    node.set_work("eth_getWork", &work(1));
    let client = Client::start(config(&[node.url()]));
    client.task(header(1));
    let mut far = work(2);
    far[1] = Epoch::ethash(32_639).seed_hash().to_string();
    node.set_work("eth_getWork", &far);
    client.wait_until("refusals", |status| status.endpoints[0].failures >= 3);
    let reason = client.status().endpoints[0]
        .last_error
        .clone()
        .unwrap_or_default();
    assert!(
        reason.contains("epoch: got 32639, expected at most 4095"),
        "{reason}"
    );
    node.set_work("eth_getWork", &work(3));
    let task = client.task_where(|task| task.work.header_hash != header(1));
    assert_eq!(task.work.header_hash, header(3), "no refused work came before");
}
