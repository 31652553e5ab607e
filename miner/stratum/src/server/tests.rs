//! Our pool's words, heard by our miner's session and by hand.

use ethash::{Schedule, Solution};
use serde_json::json;

use super::*;
use crate::client::{self, Event, Login, Outcome};

fn settings() -> Settings {
    Settings {
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

/// A miner and a pool that hear each other.
struct Pair {
    miner: client::Session,
    pool: Session,
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
            miner: client::Session::new(dialect, login, Schedule::Ethash),
            pool: Session::new(settings()),
        }
    }

    /// Lets both speak until both are silent; gives what each has brought about.
    fn talk(&mut self) -> (Vec<Event>, Vec<Asked>) {
        let (mut events, mut asked) = (Vec::new(), Vec::new());
        loop {
            let (up, down) = (self.miner.take_output(), self.pool.take_output());
            if up.is_empty() && down.is_empty() {
                return (events, asked);
            }
            for line in up.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                asked.extend(self.pool.receive(line).expect("our miner speaks well"));
            }
            for line in down.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                events.extend(self.miner.receive(line).expect("our pool speaks well"));
            }
        }
    }

    fn log_in(&mut self) {
        let (_, asked) = self.talk();
        let [
            Asked::Login {
                id,
                user,
                worker,
                password,
            },
        ] = &asked[..]
        else {
            panic!("got {asked:?}, expected a login");
        };
        assert_eq!(
            (user.as_str(), worker.as_deref(), password.as_str()),
            ("0xwallet", Some("rig"), "x")
        );
        assert_eq!(self.pool.admit(id, user, worker.as_deref()), Some(0));
        let (events, _) = self.talk();
        assert!(events.contains(&Event::LoggedIn), "{events:?}");
    }

    fn job(&mut self, number: u64, package: &WorkPackage, share_boundary: &B256) -> client::Job {
        self.pool.announce(&Job {
            number,
            package,
            share_boundary,
            clean: true,
        });
        let (mut events, _) = self.talk();
        match events.pop() {
            Some(Event::Job(job)) if events.is_empty() => job,
            other => panic!("got {other:?} after {events:?}, expected one job"),
        }
    }
}

#[test]
fn both_sides_of_every_dialect_understand_each_other() {
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
            assert_eq!((job.package.epoch, job.clean), (package.epoch, true), "{dialect}");
            let near = |boundary: &B256| f64::from(ethash::U256::from_be_bytes(boundary.0));
            assert!(
                (near(&job.package.boundary) / near(&boundary) - 1.0).abs() < 1e-15,
                "{dialect}"
            );
            let pow_nonce = job.extranonce.prefix() | 0x1234_5678;
            let solution = Solution {
                header_hash: package.header_hash,
                pow_nonce,
                mix_hash: B256::repeat_byte(4),
            };
            let id = pair.miner.submit(&job, &solution).expect("few wait");
            let (_, asked) = pair.talk();
            let Some(Asked::Share(claim)) = asked.iter().find(|asked| matches!(asked, Asked::Share(_)))
            else {
                panic!("{dialect}: got {asked:?}, expected a share");
            };
            assert_eq!((claim.pow_nonce, claim.worker), (pow_nonce, 0), "{dialect}");
            match &claim.job {
                JobName::Number(got) => assert_eq!(*got, Some(number), "{dialect}"),
                JobName::Header(got) => assert_eq!(*got, package.header_hash, "{dialect}"),
            }
            assert_eq!(claim.mix_hash.is_some(), dialect == Dialect::EthProxy);
            pair.pool.accept(&claim.id);
            let (events, _) = pair.talk();
            let outcome = Outcome::Accepted;
            assert_eq!(events, [Event::Answer { id, outcome }], "{dialect}");
        }
    }
}

#[test]
fn refusals_reach_the_miner_as_what_they_are() {
    for dialect in Dialect::ALL {
        for (refusal, stale) in [
            (Refusal::Stale, true),
            (Refusal::UnknownJob, true),
            (Refusal::Duplicate, false),
            (Refusal::LowDifficulty, false),
            (Refusal::BadNonce, false),
            (Refusal::TooMany, false),
            (Refusal::Internal, false),
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
            pair.pool.refuse(&json!(id), refusal);
            let (events, _) = pair.talk();
            let [Event::Answer { outcome, .. }] = &events[..] else {
                panic!("{dialect} {refusal:?}: got {events:?}");
            };
            match outcome {
                Outcome::Stale(reason) if stale => assert_eq!(reason.message, refusal.words()),
                Outcome::Rejected(reason) if !stale => assert_eq!(reason.message, refusal.words()),
                other => panic!("{dialect} {refusal:?}: got {other:?}"),
            }
        }
        let mut pair = Pair::new(dialect);
        pair.log_in();
        pair.pool.accept_stale(&json!(3));
        assert!(!pair.pool.take_output().is_empty());
    }
}

fn pool_hears(pool: &mut Session, message: Value) -> Result<Option<Asked>, MessageError> {
    pool.receive(message.to_string().as_bytes())
}

/// The one answer of the pool.
fn answer(pool: &mut Session) -> Value {
    serde_json::from_slice(&pool.take_output()).expect("one line")
}

#[test]
fn nobody_works_before_the_login() {
    let mut pool = Session::new(settings());
    pool_hears(
        &mut pool,
        json!({"id": 1, "method": "mining.subscribe", "params": ["m", "EthereumStratum/1.0.0"]}),
    )
    .expect("read");
    assert_eq!(answer(&mut pool)["result"][1], "af4c");
    let submit = json!({"id": 2, "method": "mining.submit", "params": ["a.b", "1", "000000000001"]});
    assert_eq!(pool_hears(&mut pool, submit.clone()), Ok(None));
    assert_eq!(answer(&mut pool)["error"][0], 24);
    assert_eq!(pool.admit(&json!(3), "a", Some("b")), Some(0));
    answer(&mut pool);
    assert!(matches!(pool_hears(&mut pool, submit), Ok(Some(Asked::Share(_)))));
    let stranger = json!({"id": 4, "method": "mining.submit", "params": ["x.y", "1", "000000000001"]});
    assert_eq!(pool_hears(&mut pool, stranger), Ok(None));
    assert_eq!(answer(&mut pool)["error"][0], 24);
    // A share outside the session's own nonces.
    let foreign = json!({"id": 5, "method": "mining.submit", "params": ["a.b", "1", "0000000000000001"]});
    assert!(pool_hears(&mut pool, foreign).is_err());
    assert_eq!(answer(&mut pool)["error"][1], "Bad nonce", "and nothing else");
}

#[test]
fn bad_logins_and_first_words_are_errors() {
    for first in [
        json!({"id": 1, "method": "mining.subscribe", "params": ["m"]}),
        json!({"id": 1, "method": "mining.authorize", "params": ["a", "b"]}),
        json!({"id": 1, "method": "eth_getWork"}),
        json!({"id": 1, "method": "mining.hello", "params": {"proto": "EthereumStratum/9"}}),
        json!({"id": 1, "method": "GET / HTTP/1.1"}),
    ] {
        let mut pool = Session::new(settings());
        assert!(pool_hears(&mut pool, first.clone()).is_err(), "{first}");
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
        let mut pool = Session::new(settings());
        let login = json!({"id": 1, "method": "eth_submitLogin", "params": [bad, "x"]});
        assert!(pool_hears(&mut pool, login.clone()).is_err(), "{login}");
        assert!(!pool.is_logged_in());
    }
}

#[test]
fn a_session_of_many_workers_is_bounded() {
    let mut pool = Session::new(settings());
    pool_hears(
        &mut pool,
        json!({"id": 0, "method": "mining.hello", "params": {"proto": "EthereumStratum/2.0.0"}}),
    )
    .expect("read");
    for worker in 0..WORKERS_MAX {
        let name = worker.to_string();
        assert_eq!(pool.admit(&json!(1), "a", Some(&name)), Some(worker));
    }
    assert_eq!(pool.admit(&json!(1), "a", Some("0")), Some(0), "known already");
    assert_eq!(pool.admit(&json!(1), "a", Some("more")), None);
    let rate = json!({"id": 2, "method": "mining.hashrate", "params": ["500000", "w63"]});
    assert_eq!(
        pool_hears(&mut pool, rate),
        Ok(Some(Asked::Hashrate {
            worker: 63,
            rate: 0x50_0000
        }))
    );
    let unknown = json!({"id": 2, "method": "mining.hashrate", "params": ["500000", "w64"]});
    assert_eq!(pool_hears(&mut pool, unknown), Ok(None));
    assert_eq!(
        pool_hears(&mut pool, json!({"method": "mining.bye"})),
        Ok(Some(Asked::Bye))
    );
}
