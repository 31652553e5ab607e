//! The pool's session, against the miner's session of this package and against single messages.

use ethash::{B256, Epoch, Schedule, Solution, WorkPackage};
use serde_json::{Value, json};

use super::session::WORKERS_MAX;
use super::*;
use crate::client::{ClientSession, Login, PoolEvent, PoolJob, ShareOutcome};
use crate::{Dialect, Extranonce, MessageError};

fn settings() -> ServerSettings {
    ServerSettings {
        agent: "vnode/1".into(),
        silence_secs_max: 180,
        errors_max: 5,
        extranonce: Extranonce::new(0xaf4c, 2),
        session: 7,
    }
}

fn package(header: u8, epoch: Epoch) -> WorkPackage {
    WorkPackage {
        header_hash: B256::repeat_byte(header),
        seed_hash: epoch.seed_hash(),
        boundary: ethash::boundary(&ethash::U256::from(1_u64 << 40)),
        number: Some(u64::from(epoch.index) * 30_000 + 5),
        epoch,
    }
}

/// A miner and a pool that exchange messages.
struct Pair {
    miner: ClientSession,
    pool: ServerSession,
}

impl Pair {
    fn new(dialect: Dialect) -> Self {
        let login = Login {
            user: "0xwallet".into(),
            worker: Some("rig".into()),
            password: "x".into(),
            agent: "miner/1".into(),
            host: "localhost".into(),
            port: 8008,
        };
        Self {
            miner: ClientSession::new(dialect, login, Schedule::Ethash),
            pool: ServerSession::new(settings()),
        }
    }

    /// Passes messages until both sides have nothing to send. Returns the events and the requests.
    fn talk(&mut self) -> (Vec<PoolEvent>, Vec<MinerRequest>) {
        let (mut events, mut requests) = (Vec::new(), Vec::new());
        loop {
            let (up, down) = (self.miner.take_output(), self.pool.take_output());
            if up.is_empty() && down.is_empty() {
                return (events, requests);
            }
            for line in up.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                requests.extend(self.pool.receive(line).expect("the miner sends good messages"));
            }
            for line in down.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                events.extend(self.miner.receive(line).expect("the pool sends good messages"));
            }
        }
    }

    fn log_in(&mut self) {
        let (_, requests) = self.talk();
        let [
            MinerRequest::Login {
                id,
                user,
                worker,
                password,
            },
        ] = &requests[..]
        else {
            panic!("got {requests:?}, expected a login");
        };
        assert_eq!(
            (user.as_str(), worker.as_deref(), password.as_str()),
            ("0xwallet", Some("rig"), "x")
        );
        assert_eq!(self.pool.admit(id, user, worker.as_deref()), Some(0));
        let (events, _) = self.talk();
        assert!(events.contains(&PoolEvent::LoggedIn), "{events:?}");
    }

    fn job(&mut self, number: u64, package: &WorkPackage, share_boundary: &B256) -> PoolJob {
        self.pool.announce(&AnnouncedJob {
            number,
            package,
            share_boundary,
            clean: true,
        });
        let (mut events, _) = self.talk();
        match events.pop() {
            Some(PoolEvent::Job(job)) if events.is_empty() => job,
            other => panic!("got {other:?} after {events:?}, expected one job"),
        }
    }
}

#[test]
fn both_sides_understand_each_other_in_every_dialect() {
    for dialect in Dialect::ALL {
        let mut pair = Pair::new(dialect);
        pair.log_in();
        let share_boundary = ethash::boundary(&ethash::U256::from(1_u64 << 33));
        for (number, package, boundary) in [
            (0x1f, package(1, Epoch::ethash(2)), share_boundary),
            (0x20, package(2, Epoch::ethash(2)), share_boundary),
            (
                0x21,
                package(3, Epoch::ethash(3)),
                ethash::boundary(&ethash::U256::from(99)),
            ),
        ] {
            let job = pair.job(number, &package, &boundary);
            assert_eq!(job.package.header_hash, package.header_hash, "{dialect}");
            let is_clean = dialect != Dialect::EthProxy;
            assert_eq!(
                (job.package.epoch, job.clean),
                (package.epoch, is_clean),
                "{dialect}"
            );
            let as_number = |boundary: &B256| f64::from(ethash::U256::from_be_bytes(boundary.0));
            assert!(
                (as_number(&job.package.boundary) / as_number(&boundary) - 1.0).abs() < 1e-15,
                "{dialect}"
            );
            let pow_nonce = job.extranonce.prefix() | 0x1234_5678;
            let solution = Solution {
                header_hash: package.header_hash,
                pow_nonce,
                mix_hash: B256::repeat_byte(4),
            };
            let id = pair.miner.submit(&job, &solution).expect("few wait");
            let (_, requests) = pair.talk();
            let Some(MinerRequest::Share(claim)) = requests
                .iter()
                .find(|request| matches!(request, MinerRequest::Share(_)))
            else {
                panic!("{dialect}: got {requests:?}, expected a share");
            };
            assert_eq!((claim.pow_nonce, claim.worker), (pow_nonce, 0), "{dialect}");
            match &claim.job {
                JobId::Number(got) => assert_eq!(*got, Some(number), "{dialect}"),
                JobId::Header(got) => assert_eq!(*got, package.header_hash, "{dialect}"),
            }
            assert_eq!(claim.mix_hash.is_some(), dialect == Dialect::EthProxy);
            pair.pool.accept(&claim.id);
            let (events, _) = pair.talk();
            let outcome = ShareOutcome::Accepted;
            assert_eq!(events, [PoolEvent::Answer { id, outcome }], "{dialect}");
        }
    }
}

#[test]
fn the_miner_can_tell_stale_shares_from_rejected_ones() {
    for dialect in Dialect::ALL {
        for (reason, stale) in [
            (RejectReason::Stale, true),
            (RejectReason::UnknownJob, true),
            (RejectReason::Duplicate, false),
            (RejectReason::LowDifficulty, false),
            (RejectReason::BadNonce, false),
            (RejectReason::TooMany, false),
            (RejectReason::Internal, false),
        ] {
            let mut pair = Pair::new(dialect);
            pair.log_in();
            let work = package(1, Epoch::ethash(0));
            let job = pair.job(1, &work, &work.boundary);
            let solution = Solution {
                header_hash: work.header_hash,
                pow_nonce: job.extranonce.prefix(),
                mix_hash: B256::ZERO,
            };
            let id = pair.miner.submit(&job, &solution).expect("few wait");
            pair.talk();
            pair.pool.refuse(&json!(id), reason);
            let (events, _) = pair.talk();
            let [PoolEvent::Answer { outcome, .. }] = &events[..] else {
                panic!("{dialect} {reason:?}: got {events:?}");
            };
            match outcome {
                ShareOutcome::Stale(error) if stale => assert_eq!(error.message, reason.message()),
                ShareOutcome::Rejected(error) if !stale => assert_eq!(error.message, reason.message()),
                other => panic!("{dialect} {reason:?}: got {other:?}"),
            }
        }
        let mut pair = Pair::new(dialect);
        pair.log_in();
        pair.pool.accept_stale(&json!(3));
        assert!(!pair.pool.take_output().is_empty());
    }
}

fn receive(pool: &mut ServerSession, message: Value) -> Result<Option<MinerRequest>, MessageError> {
    pool.receive(message.to_string().as_bytes())
}

/// The only answer of the pool.
fn answer(pool: &mut ServerSession) -> Value {
    serde_json::from_slice(&pool.take_output()).expect("one line")
}

#[test]
fn requests_before_the_login_are_rejected() {
    let mut pool = ServerSession::new(settings());
    receive(
        &mut pool,
        json!({"id": 1, "method": "mining.subscribe", "params": ["m", "EthereumStratum/1.0.0"]}),
    )
    .expect("read");
    assert_eq!(answer(&mut pool)["result"][1], "af4c");
    let submit = json!({"id": 2, "method": "mining.submit", "params": ["a.b", "1", "000000000001"]});
    assert_eq!(receive(&mut pool, submit.clone()), Ok(None));
    assert_eq!(answer(&mut pool)["error"][0], 24);
    assert_eq!(pool.admit(&json!(3), "a", Some("b")), Some(0));
    answer(&mut pool);
    assert!(matches!(
        receive(&mut pool, submit),
        Ok(Some(MinerRequest::Share(_)))
    ));
    let unknown_worker = json!({"id": 4, "method": "mining.submit", "params": ["x.y", "1", "000000000001"]});
    assert_eq!(receive(&mut pool, unknown_worker), Ok(None));
    assert_eq!(answer(&mut pool)["error"][0], 24);
    // The nonce does not begin with the session's extranonce.
    let wrong_nonce = json!({"id": 5, "method": "mining.submit", "params": ["a.b", "1", "0000000000000001"]});
    assert!(receive(&mut pool, wrong_nonce).is_err());
    assert_eq!(answer(&mut pool)["error"][1], "Bad nonce", "the only answer");
}

#[test]
fn a_subscription_may_name_no_dialect() {
    for params in [
        json!([]),
        json!(["m"]),
        json!(["m", null]),
        json!(["m", ""]),
        Value::Null,
    ] {
        let mut pool = ServerSession::new(settings());
        let first = json!({"id": 1, "method": "mining.subscribe", "params": params});
        assert_eq!(receive(&mut pool, first), Ok(None), "{params}");
        assert_eq!(answer(&mut pool)["result"][1], "af4c", "{params}");
        assert_eq!(pool.dialect(), Some(Dialect::EthereumStratum1), "{params}");
    }
    let mut pool = ServerSession::new(settings());
    assert_eq!(
        receive(&mut pool, json!({"id": 1, "method": "mining.subscribe"})),
        Ok(None)
    );
}

#[test]
fn bad_logins_and_first_requests_are_errors() {
    for first in [
        json!({"id": 1, "method": "mining.subscribe", "params": ["m", "EthereumStratum/9"]}),
        json!({"id": 1, "method": "mining.subscribe", "params": ["m", 5]}),
        json!({"id": 1, "method": "mining.authorize", "params": ["a", "b"]}),
        json!({"id": 1, "method": "eth_getWork"}),
        json!({"id": 1, "method": "mining.hello", "params": {"proto": "EthereumStratum/9"}}),
        json!({"id": 1, "method": "GET / HTTP/1.1"}),
    ] {
        let mut pool = ServerSession::new(settings());
        assert!(receive(&mut pool, first.clone()).is_err(), "{first}");
        assert!(!answer(&mut pool)["error"].is_null(), "{first}");
    }
    for bad in [
        json!(""),
        json!("a b"),
        json!("x".repeat(129)),
        json!(5),
        json!("a\u{7}"),
        Value::Null,
    ] {
        let mut pool = ServerSession::new(settings());
        let login = json!({"id": 1, "method": "eth_submitLogin", "params": [bad, "x"]});
        assert!(receive(&mut pool, login.clone()).is_err(), "{login}");
        assert!(!pool.is_logged_in());
    }
}

#[test]
fn the_number_of_workers_of_a_session_is_limited() {
    let mut pool = ServerSession::new(settings());
    receive(
        &mut pool,
        json!({"id": 0, "method": "mining.hello", "params": {"proto": "EthereumStratum/2.0.0"}}),
    )
    .expect("read");
    for worker in 0..WORKERS_MAX {
        let name = worker.to_string();
        assert_eq!(pool.admit(&json!(1), "a", Some(&name)), Some(worker));
    }
    assert_eq!(
        pool.admit(&json!(1), "a", Some("0")),
        Some(0),
        "already logged in"
    );
    assert_eq!(pool.admit(&json!(1), "a", Some("more")), None);
    let rate = json!({"id": 2, "method": "mining.hashrate", "params": ["500000", "w63"]});
    assert_eq!(
        receive(&mut pool, rate),
        Ok(Some(MinerRequest::Hashrate {
            worker: 63,
            rate: 0x50_0000
        }))
    );
    let unknown = json!({"id": 2, "method": "mining.hashrate", "params": ["500000", "w64"]});
    assert_eq!(receive(&mut pool, unknown), Ok(None));
    assert_eq!(
        receive(&mut pool, json!({"method": "mining.bye"})),
        Ok(Some(MinerRequest::Bye))
    );
}
