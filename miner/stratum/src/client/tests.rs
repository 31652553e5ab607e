//! Sessions with scripted pools, line by line. The lines are based on the samples in the
//! specifications.

use std::time::Duration;

use ethash::{B256, Epoch, Schedule, Solution, WorkPackage};
use serde_json::{Value, json};

use super::answer::share_outcome;
use super::session::PENDING_MAX;
use super::*;
use crate::message::StratumMessage;
use crate::{Dialect, Extranonce};

fn login() -> Login {
    Login {
        user: "0xwallet".into(),
        worker: Some("rig".into()),
        password: "x".into(),
        agent: "miner/1".into(),
        host: "pool.example".into(),
        port: 1234,
    }
}

/// A session and the pool that the test plays.
struct Talk(ClientSession);

impl Talk {
    fn new(dialect: Dialect) -> Self {
        Self(ClientSession::new(dialect, login(), Schedule::Ethash))
    }

    fn sent(&mut self) -> Vec<Value> {
        let text = String::from_utf8(self.0.take_output()).expect("UTF-8");
        text.lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect()
    }

    fn receive(&mut self, message: Value) -> Vec<PoolEvent> {
        let line = message.to_string();
        self.0
            .receive(line.as_bytes())
            .unwrap_or_else(|error| panic!("{line}: {error}"))
    }

    fn receive_error(&mut self, message: Value) -> ClientSessionError {
        self.0
            .receive(message.to_string().as_bytes())
            .expect_err("the session must end")
    }

    fn job(&mut self, message: Value) -> PoolJob {
        match self.receive(message).pop() {
            Some(PoolEvent::Job(job)) => job,
            other => panic!("got {other:?}, expected a job"),
        }
    }
}

const HEADER: &str = "645cf20198c2f3861e947d4f67e3ab63b7b2e24dcc9095bd9123e7b33371f6cc";

fn seed(epoch: u32) -> String {
    Epoch::ethash(epoch).seed_hash().to_string()
}

fn solution(header: &str, pow_nonce: u64) -> Solution {
    Solution {
        header_hash: header.parse().expect("a hash"),
        pow_nonce,
        mix_hash: B256::repeat_byte(7),
    }
}

#[test]
fn ethereum_stratum1_from_login_to_share() {
    let mut talk = Talk::new(Dialect::EthereumStratum1);
    assert_eq!(
        talk.sent(),
        [json!({"id": 1, "method": "mining.subscribe", "params": ["miner/1", "EthereumStratum/1.0.0"]})]
    );
    let subscribed = json!([["mining.notify", "ae68", "EthereumStratum/1.0.0"], "a2eea0"]);
    assert_eq!(
        talk.receive(json!({"id": 1, "result": subscribed, "error": null})),
        []
    );
    assert_eq!(
        talk.sent(),
        [
            json!({"id": 2, "method": "mining.extranonce.subscribe", "params": []}),
            json!({"id": 3, "method": "mining.authorize", "params": ["0xwallet.rig", "x"]}),
        ]
    );
    // Not every pool knows extranonce subscriptions.
    assert_eq!(
        talk.receive(json!({"id": 2, "result": null, "error": [20, "Not supported", null]})),
        []
    );
    assert_eq!(
        talk.receive(json!({"id": 3, "result": true, "error": null})),
        [PoolEvent::LoggedIn]
    );
    talk.receive(json!({"id": null, "method": "mining.set_difficulty", "params": [2]}));
    let notify = |id: &str, header: &str| json!({"id": null, "method": "mining.notify", "params": [id, seed(3), header, true]});
    let job = talk.job(notify("bf0488aa", HEADER));
    assert_eq!(job.package.epoch, Epoch::ethash(3));
    assert_eq!(
        job.package.boundary,
        crate::boundary_of_difficulty(2.0).expect("above zero")
    );
    assert!(job.clean && job.extranonce.to_string() == "a2eea0");

    let id = talk
        .0
        .submit(&job, &solution(HEADER, 0xa2ee_a0cf_ae7d_f760))
        .expect("few wait");
    assert_eq!(
        talk.sent(),
        [json!({"id": id, "method": "mining.submit", "params": ["0xwallet.rig", "bf0488aa", "cfae7df760"]})]
    );
    assert_eq!(talk.0.shares_waiting(), 1);
    let answer = talk.receive(json!({"id": id, "result": true, "error": null}));
    assert_eq!(
        answer,
        [PoolEvent::Answer {
            id,
            outcome: ShareOutcome::Accepted
        }]
    );
    assert_eq!(talk.0.shares_waiting(), 0);

    // Both apply from the next job on.
    talk.receive(json!({"id": null, "method": "mining.set_extranonce", "params": ["af4c"]}));
    talk.receive(json!({"id": null, "method": "mining.set_difficulty", "params": [0.5]}));
    let next = talk.job(notify("bf0488ab", HEADER));
    assert_eq!(next.extranonce.to_string(), "af4c");
    assert_eq!(
        next.package.boundary,
        crate::boundary_of_difficulty(0.5).expect("above zero")
    );
}

#[test]
fn ethereum_stratum2_from_login_to_share() {
    let mut talk = Talk::new(Dialect::EthereumStratum2);
    let hello =
        json!({"agent": "miner/1", "host": "pool.example", "port": "4d2", "proto": "EthereumStratum/2.0.0"});
    assert_eq!(
        talk.sent(),
        [json!({"id": 1, "method": "mining.hello", "params": hello})]
    );
    talk.receive(json!({"id": 1, "result": {"proto": "EthereumStratum/2.0.0", "encoding": "plain", "resume": "0", "timeout": "b4", "maxerrors": "5", "node": "x"}}));
    assert_eq!(talk.0.silence_max(), Some(Duration::from_secs(180)));
    assert_eq!(talk.sent(), [json!({"id": 2, "method": "mining.subscribe"})]);
    talk.receive(json!({"id": 2, "result": "s-12345"}));
    assert_eq!(
        talk.sent(),
        [json!({"id": 3, "method": "mining.authorize", "params": ["0xwallet.rig", "x"]})]
    );
    assert_eq!(
        talk.receive(json!({"id": 3, "result": "w-123"})),
        [PoolEvent::LoggedIn]
    );

    let notify = json!({"method": "mining.notify", "params": ["bf0488aa", "6526d5", HEADER, "0"]});
    assert!(
        matches!(talk.receive(notify.clone())[..], [PoolEvent::Note(_)]),
        "there was no mining.set yet"
    );
    let target = "0112e0be826d694b2e62d01511f12a6061fbaec8bc02357593e70e52ba";
    talk.receive(json!({"method": "mining.set", "params": {"epoch": "dc", "target": target, "algo": "ethash", "extranonce": "af4c"}}));
    let job = talk.job(notify);
    assert_eq!(job.package.epoch, Epoch::ethash(220));
    assert_eq!(job.package.boundary.to_string(), format!("0x{target:0>64}"));
    assert_eq!(job.package.number, Some(6_629_077));
    assert!(!job.clean);
    let id = talk
        .0
        .submit(&job, &solution(HEADER, 0xaf4c_6876_5fcc_d712))
        .expect("few wait");
    assert_eq!(
        talk.sent(),
        [json!({"id": id, "method": "mining.submit", "params": ["bf0488aa", "68765fccd712", "w-123"]})]
    );
    assert_eq!(
        talk.receive(json!({"id": id})),
        [PoolEvent::Answer {
            id,
            outcome: ShareOutcome::Accepted
        }]
    );

    // An empty text removes the extranonce. Members that are missing keep their values.
    talk.receive(json!({"method": "mining.set", "params": {"extranonce": ""}}));
    let job = talk.job(json!({"method": "mining.notify", "params": ["2", "1", HEADER, "1"]}));
    assert_eq!(
        (job.extranonce, job.package.epoch),
        (Extranonce::default(), Epoch::ethash(220))
    );
    assert_eq!(job.package.number, None, "block 1 belongs to another epoch");

    talk.0.report_hashrate(0x50_0000, &B256::ZERO);
    talk.0.keep_alive();
    talk.0.say_bye();
    assert_eq!(
        talk.sent(),
        [
            json!({"id": 5, "method": "mining.hashrate", "params": ["500000", "w-123"]}),
            json!({"id": 6, "method": "mining.noop"}),
            json!({"method": "mining.bye"}),
        ]
    );
}

#[test]
fn eth_proxy_from_login_to_share() {
    let mut talk = Talk::new(Dialect::EthProxy);
    assert_eq!(
        talk.sent(),
        [
            json!({"id": 1, "jsonrpc": "2.0", "method": "eth_submitLogin", "params": ["0xwallet", "x"], "worker": "rig"})
        ]
    );
    assert_eq!(
        talk.receive(json!({"id": 1, "jsonrpc": "2.0", "result": true})),
        [PoolEvent::LoggedIn]
    );
    assert_eq!(talk.sent()[0]["method"], "eth_getWork");
    let header = format!("0x{HEADER}");
    let job = talk.job(json!({"id": 2, "jsonrpc": "2.0", "result": [header, seed(1), "0xffff", "0x7531"]}));
    assert_eq!(
        (job.package.epoch, job.package.number),
        (Epoch::ethash(1), Some(30_001))
    );
    assert_eq!(job.package.boundary, boundary_of("ffff"));
    // The next jobs come without a request.
    let next = talk.job(json!({"id": 0, "jsonrpc": "2.0", "result": [seed(9), seed(0), "0x00ff"]}));
    assert_eq!(
        (next.package.epoch, next.package.boundary),
        (Epoch::ethash(0), boundary_of("ff"))
    );
    let id = talk.0.submit(&job, &solution(HEADER, 0x1234)).expect("few wait");
    let sent = talk.sent();
    assert_eq!(sent[0]["params"][0], "0x0000000000001234");
    assert_eq!(
        (&sent[0]["params"][1], &sent[0]["worker"]),
        (&json!(header), &json!("rig"))
    );
    let answer = talk.receive(json!({"id": id, "jsonrpc": "2.0", "result": false}));
    assert!(
        matches!(
            answer[..],
            [PoolEvent::Answer {
                outcome: ShareOutcome::Rejected(_),
                ..
            }]
        ),
        "{answer:?}"
    );
}

fn boundary_of(digits: &str) -> B256 {
    format!("0x{digits:0>64}").parse().expect("hex")
}

#[test]
fn answers_to_shares_are_classified() {
    let check = |dialect, answer: Value, expected: &str| {
        let error = StratumMessage::parse(answer.to_string().as_bytes()).expect("an object");
        let got = format!("{:?}", share_outcome(dialect, error.error, &error.result));
        assert!(
            got.starts_with(expected),
            "{answer}: got {got}, expected {expected}"
        );
    };
    let [second, first] = [Dialect::EthereumStratum2, Dialect::EthereumStratum1];
    check(second, json!({"id": 1}), "Accepted");
    check(
        second,
        json!({"id": 1, "error": {"code": 202, "message": "Stale"}}),
        "AcceptedStale",
    );
    check(
        second,
        json!({"id": 1, "error": {"code": 404, "message": "Job not found"}}),
        "Stale",
    );
    check(
        second,
        json!({"id": 1, "error": {"code": 406, "message": "Bad nonce"}}),
        "Rejected",
    );
    check(first, json!({"id": 1, "result": true, "error": null}), "Accepted");
    check(
        first,
        json!({"id": 1, "result": false, "error": [21, "x", null]}),
        "Stale",
    );
    check(
        first,
        json!({"id": 1, "result": null, "error": [23, "Low difficulty", null]}),
        "Rejected",
    );
    check(Dialect::EthProxy, json!({"id": 1, "result": false}), "Rejected");
    check(
        first,
        json!({"id": 1, "result": true, "error": false}),
        "Accepted",
    );
    for unclear in [
        json!(null),
        json!("OK"),
        json!(1),
        json!([true]),
        json!({"status": "OK"}),
    ] {
        check(first, json!({"id": 1, "result": unclear}), "Unknown");
        check(Dialect::EthProxy, json!({"id": 1, "result": unclear}), "Unknown");
    }
    check(second, json!({"id": 1, "result": "x"}), "Unknown");
}

#[test]
fn refusals_are_of_the_dialect_or_of_the_login() {
    for (dialect, answer) in [
        (
            Dialect::EthereumStratum2,
            json!({"id": 1, "error": {"code": 400, "message": "Bad"}}),
        ),
        (Dialect::EthereumStratum2, json!({"id": 1, "result": true})),
        (
            Dialect::EthereumStratum1,
            json!({"id": 1, "result": false, "error": [20, "Bad", null]}),
        ),
        (Dialect::EthereumStratum1, json!({"id": 999, "error": "Bad"})),
        (
            Dialect::EthProxy,
            json!({"id": 1, "error": {"code": -3, "message": "Method not found"}}),
        ),
    ] {
        let error = Talk::new(dialect).receive_error(answer.clone());
        assert!(
            matches!(error, ClientSessionError::OtherDialect { .. }),
            "{dialect} {answer}: {error}"
        );
    }
    let refused = Talk::new(Dialect::EthProxy)
        .receive_error(json!({"id": 1, "error": {"code": -1, "message": "Invalid login"}}));
    assert_eq!(
        refused.to_string(),
        "login of 0xwallet.rig refused: Invalid login (-1)"
    );
    let mut talk = Talk::new(Dialect::EthereumStratum1);
    talk.receive(json!({"id": 1, "result": [["mining.notify", "1"]], "error": null}));
    let refused = talk.receive_error(json!({"id": 3, "result": false, "error": [24, "Unauthorized", null]}));
    assert!(
        matches!(refused, ClientSessionError::LoginRefused { .. }),
        "{refused}"
    );
}

#[test]
fn pools_ask_questions_and_ask_to_reconnect() {
    let mut talk = Talk::new(Dialect::EthereumStratum1);
    talk.sent();
    let reconnect = |host: Option<&str>, port, wait| PoolEvent::Reconnect {
        host: host.map(Into::into),
        port,
        wait: Duration::from_secs(wait),
    };
    let receive = |talk: &mut Talk, method: &str, params: Value| {
        talk.receive(json!({"id": null, "method": method, "params": params}))
    };
    assert_eq!(
        receive(&mut talk, "client.reconnect", json!(["a.example", 3333, 7])),
        [reconnect(Some("a.example"), Some(3333), 7)]
    );
    assert_eq!(
        receive(&mut talk, "client.reconnect", json!(["", "99999"])),
        [reconnect(None, None, 0)]
    );
    let second = json!({"host": "b.example", "port": "d80", "resume": "1"});
    assert_eq!(
        receive(&mut talk, "mining.reconnect", second),
        [reconnect(Some("b.example"), Some(0xd80), 0)]
    );
    assert_eq!(
        receive(&mut talk, "client.reconnect", Value::Null),
        [reconnect(None, None, 0)]
    );
    talk.receive(json!({"id": 77, "method": "client.get_version", "params": []}));
    skipped(talk.receive(json!({"id": "x", "method": "client.dance", "params": []})));
    let sent = talk.sent();
    assert_eq!(sent[0], json!({"id": 77, "result": "miner/1", "error": null}));
    assert_eq!(sent[1]["error"][1], "Method not found");
}

/// The error of a message that was skipped.
fn skipped(events: Vec<PoolEvent>) -> (String, bool) {
    match &events[..] {
        [PoolEvent::Skipped { reason, is_notice }] => (reason.to_string(), *is_notice),
        other => panic!("got {other:?}, expected a skipped message"),
    }
}

#[test]
fn odd_messages_are_skipped_and_change_nothing() {
    let mut talk = Talk::new(Dialect::EthereumStratum1);
    talk.receive(json!({"id": 1, "result": [["mining.notify", "1"], "af4c"], "error": null}));
    talk.receive(json!({"id": 3, "result": true, "error": null}));
    let notify = json!({"method": "mining.notify", "params": ["1", seed(3), HEADER, true]});
    let before = talk.job(notify.clone());
    talk.sent();
    for (odd, reason, is_notice) in [
        (json!([]), "expected a JSON object", false),
        (json!({"id": [1], "result": true}), "id: got [1]", false),
        (json!({"id": 5, "method": {}}), "method: got {}", false),
        (json!({"id": 999, "result": true}), "id: got 999", false),
        (json!({"id": null, "result": true}), "id: got null", false),
        (
            json!({"method": "mining.dance"}),
            "method: got \"mining.dance\"",
            true,
        ),
        (json!({"method": "mining.set", "params": {}}), "method", true),
        (
            json!({"method": "mining.set_difficulty", "params": [0]}),
            "difficulty",
            true,
        ),
        (
            json!({"method": "mining.set_difficulty", "params": {"x": 1}}),
            "difficulty",
            true,
        ),
        (
            json!({"method": "mining.set_difficulty", "params": ["x"]}),
            "difficulty",
            true,
        ),
        (
            json!({"method": "mining.set_target", "params": [[]]}),
            "target",
            true,
        ),
        (
            json!({"method": "mining.set_extranonce", "params": ["xyz"]}),
            "extranonce",
            true,
        ),
        (
            json!({"method": "mining.notify", "params": ["1", HEADER, HEADER, true]}),
            "seed hash",
            true,
        ),
        (
            json!({"method": "mining.notify", "params": ["1", seed(0), "00", true]}),
            "header hash",
            true,
        ),
        (
            json!({"method": "mining.notify", "params": [[], seed(0), HEADER, true]}),
            "job id",
            true,
        ),
        (json!({"method": "mining.notify"}), "seed hash", true),
    ] {
        let (got, got_is_notice) = skipped(talk.receive(odd.clone()));
        assert!(got.contains(reason), "{odd}: {got}");
        assert_eq!(got_is_notice, is_notice, "{odd}");
    }
    assert_eq!(talk.sent(), [Value::Null; 0], "notifications get no answer");
    for line in [&b"\x00\xff\xfe garbage"[..], b"{", b"HTTP/1.1 400 Bad Request"] {
        let (got, _) = skipped(talk.0.receive(line).expect("the session goes on"));
        assert!(got.contains("expected JSON"), "{got}");
    }
    assert_eq!(talk.job(notify), before);
}

#[test]
fn a_set_without_the_algorithm_keeps_it() {
    let mut talk = Talk::new(Dialect::EthereumStratum2);
    talk.receive(json!({"id": 1, "result": {"proto": "EthereumStratum/2.0.0", "timeout": "soon"}}));
    let notify = json!({"method": "mining.notify", "params": ["1", "ea61", HEADER, "1"]});
    for (set, expected) in [
        (
            json!({"epoch": "2", "target": "ff", "extranonce": "af4c"}),
            Epoch::ethash(2),
        ),
        (json!({"epoch": "3", "algo": "etchash"}), Epoch::etchash(3)),
        (json!({"epoch": "4"}), Epoch::etchash(4)),
        (json!({"epoch": "5", "algo": "ethash"}), Epoch::ethash(5)),
        (json!({"epoch": "6"}), Epoch::ethash(6)),
    ] {
        talk.receive(json!({"method": "mining.set", "params": set}));
        assert_eq!(talk.job(notify.clone()).package.epoch, expected, "{set}");
    }
}

#[test]
fn a_bad_member_of_a_set_changes_no_other() {
    let mut talk = Talk::new(Dialect::EthereumStratum2);
    talk.receive(json!({"id": 1, "result": {"proto": "EthereumStratum/2.0.0", "timeout": "soon"}}));
    assert_eq!(talk.0.silence_max(), None, "the login does not need the time");
    let good = json!({"epoch": "2", "target": "ff", "extranonce": "af4c"});
    talk.receive(json!({"method": "mining.set", "params": good}));
    let notify = json!({"method": "mining.notify", "params": ["1", "ea61", HEADER, "1"]});
    let before = talk.job(notify.clone());
    for bad in [
        json!({"extranonce": "00", "target": "01", "algo": "progpow"}),
        json!({"extranonce": "00", "target": "01", "epoch": "ffffffff"}),
        json!({"extranonce": "00", "target": 7, "epoch": "3"}),
        json!({"extranonce": [], "target": "01", "epoch": "3"}),
        json!([]),
    ] {
        skipped(talk.receive(json!({"method": "mining.set", "params": bad})));
        assert_eq!(talk.job(notify.clone()), before, "{bad}");
    }
}

#[test]
fn a_bad_job_of_eth_proxy_is_skipped() {
    let mut talk = Talk::new(Dialect::EthProxy);
    talk.receive(json!({"id": 1, "result": true}));
    for bad in [
        json!({"id": 2, "result": [HEADER]}),
        json!({"id": 0, "result": ["", seed(0), "ff"]}),
    ] {
        assert!(skipped(talk.receive(bad)).0.contains("hash"));
    }
    talk.job(json!({"id": 0, "result": [seed(9), seed(0), "0xff"]}));
}

#[test]
fn an_answer_to_the_login_that_cannot_be_read_ends_the_session() {
    let mut talk = Talk::new(Dialect::EthereumStratum1);
    let error = talk.receive_error(json!({"id": 1, "result": true}));
    assert!(matches!(error, ClientSessionError::Message(_)), "{error}");
}

#[test]
fn an_answer_may_have_its_id_as_a_text_and_can_be_given_up() {
    let mut talk = Talk::new(Dialect::EthProxy);
    talk.receive(json!({"id": "1", "result": true}));
    assert!(talk.0.is_logged_in());
    let job = talk.job(json!({"id": 2, "result": [seed(9), seed(0), "0xff"]}));
    let id = talk.0.submit(&job, &solution(HEADER, 1)).expect("few wait");
    talk.0.forget(id);
    assert_eq!(talk.0.shares_waiting(), 0);
    assert!(
        skipped(talk.receive(json!({"id": id, "result": true})))
            .0
            .starts_with("id: got")
    );
}

#[test]
fn a_pool_may_ignore_reports_and_still_gets_shares() {
    let job = PoolJob {
        id: "1".into(),
        package: WorkPackage {
            header_hash: B256::ZERO,
            seed_hash: Epoch::ethash(0).seed_hash(),
            boundary: B256::ZERO,
            number: None,
            epoch: Epoch::ethash(0),
        },
        extranonce: Extranonce::default(),
        clean: true,
    };
    for dialect in Dialect::ALL {
        let mut talk = Talk::new(dialect);
        for rate in 0..3000 {
            talk.0.report_hashrate(rate, &B256::ZERO);
            talk.0.keep_alive();
        }
        let id = talk.0.submit(&job, &solution(HEADER, 1)).expect("no share waits");
        // The answers to the last two reports are late, and none of them is that of the share.
        let sent = talk.sent();
        let reports = sent.iter().filter(|message| {
            let method = message["method"].as_str();
            method.is_some_and(|method| method.ends_with("ashrate"))
        });
        for report in reports.rev().take(2) {
            let answer = talk.receive(json!({"id": report["id"], "result": true}));
            assert_eq!(answer, [], "{dialect}: {report}");
        }
        let answer = talk.receive(json!({"id": id, "result": true}));
        assert!(
            matches!(answer[..], [PoolEvent::Answer { .. }]),
            "{dialect}: {answer:?}"
        );
    }
}

#[test]
fn a_pool_that_does_not_answer_is_an_error() {
    let mut talk = Talk::new(Dialect::EthProxy);
    talk.receive(json!({"id": 1, "result": true}));
    let job = talk.job(json!({"id": 2, "result": [seed(9), seed(0), "0xff"]}));
    let mut ids = std::collections::HashSet::new();
    let error = loop {
        match talk.0.submit(&job, &solution(HEADER, 1)) {
            Ok(id) => assert!(ids.insert(id), "{id} is given twice"),
            Err(error) => break error,
        }
    };
    assert_eq!(
        error,
        ClientSessionError::Unanswered {
            got: PENDING_MAX,
            max: PENDING_MAX
        }
    );
}
