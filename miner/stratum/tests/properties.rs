//! Any bytes from a socket, split anywhere: both sides return values and never panic.

use ethash::{Schedule, Solution};
use proptest::prelude::*;
use serde_json::{Value, json};
use stratum::client::{ClientSession, Login, PoolEvent};
use stratum::server::{MinerRequest, ServerSession, ServerSettings};
use stratum::{Dialect, Extranonce, LINE_LEN_MAX, LineBuffer, boundary_of_difficulty};

fn login() -> Login {
    Login {
        user: "u".into(),
        worker: Some("w".into()),
        password: "x".into(),
        agent: "a".into(),
        host: "h".into(),
        port: 1,
    }
}

fn pool() -> ServerSession {
    ServerSession::new(ServerSettings {
        agent: "a".into(),
        silence_secs_max: 60,
        errors_max: 5,
        extranonce: Extranonce::new(1, 2),
        session: 1,
    })
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[0-9a-fx]{0,70}".prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
        Just(json!(ethash::seed_hash(1).to_string())),
        Just(json!("EthereumStratum/2.0.0")),
        Just(json!("EthereumStratum/1.0.0")),
    ];
    leaf.prop_recursive(3, 24, 6, |inner| {
        let names = prop_oneof![
            Just("proto"),
            Just("encoding"),
            Just("timeout"),
            Just("epoch"),
            Just("target"),
            Just("algo"),
            Just("extranonce"),
            Just("host"),
            Just("port"),
            Just("code"),
            Just("message"),
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((names, inner), 0..5).prop_map(|members| {
                Value::Object(
                    members
                        .into_iter()
                        .map(|(name, value)| (name.to_owned(), value))
                        .collect(),
                )
            }),
        ]
    })
}

fn any_message() -> impl Strategy<Value = Value> {
    let method = prop_oneof![
        Just("mining.notify"),
        Just("mining.set"),
        Just("mining.set_difficulty"),
        Just("mining.set_extranonce"),
        Just("mining.set_target"),
        Just("mining.reconnect"),
        Just("client.reconnect"),
        Just("client.show_message"),
        Just("client.get_version"),
        Just("mining.hello"),
        Just("mining.subscribe"),
        Just("mining.authorize"),
        Just("mining.submit"),
        Just("mining.hashrate"),
        Just("eth_submitLogin"),
        Just("eth_submitWork"),
        Just("eth_getWork"),
        Just("eth_submitHashrate"),
        Just("mining.noop"),
        Just("nonsense"),
    ];
    let id = prop_oneof![(0_u64..12).prop_map(Value::from), any_json()];
    (
        id,
        prop::option::of(method),
        any_json(),
        any_json(),
        any_json(),
        any::<bool>(),
    )
        .prop_map(|(id, method, params, result, error, clean)| {
            let mut message = json!({"id": id, "params": params});
            if let Some(method) = method {
                message["method"] = json!(method);
            } else {
                message["result"] = result;
                message["error"] = if clean { Value::Null } else { error };
            }
            message
        })
}

/// Nested lines are read by both sides on a thread with an eighth of the usual stack. A line is at
/// most [`LINE_LEN_MAX`] long. 127 levels are the most that `serde_json` follows.
#[test]
fn nested_lines_need_little_stack() {
    let lists = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let objects = |depth: usize| format!("{}1{}", r#"{"a":"#.repeat(depth), "}".repeat(depth));
    let read_all = move || {
        for depth in [20, 126, 127, 128, LINE_LEN_MAX / 8] {
            for nested in [lists(depth - 2), objects(depth - 2), lists(LINE_LEN_MAX / 2)] {
                for line in [
                    format!(r#"{{"id":{nested}}}"#),
                    format!(r#"{{"id":1,"method":"mining.subscribe","params":{nested}}}"#),
                    format!(r#"{{"id":1,"method":"mining.submit","params":["u",{nested}]}}"#),
                    format!(r#"{{"id":1,"method":"mining.notify","params":{nested}}}"#),
                    format!(r#"{{"id":1,"result":{nested}}}"#),
                    format!(r#"{{"id":1,"error":{nested}}}"#),
                    nested.clone(),
                ] {
                    let _ = pool().receive(line.as_bytes());
                    for dialect in Dialect::ALL {
                        let mut session = ClientSession::new(dialect, login(), Schedule::Ethash);
                        let _ = session.receive(line.as_bytes());
                    }
                }
            }
        }
    };
    let thread = std::thread::Builder::new().stack_size(256 * 1024);
    thread
        .spawn(read_all)
        .expect("a thread")
        .join()
        .expect("no panic");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn lines_do_not_depend_on_how_the_bytes_are_split(bytes in prop::collection::vec(prop_oneof![3 => any::<u8>(), 1 => Just(b'\n')], 0..600), cut in 1_usize..50) {
        let collect = |size: usize| {
            let mut buffer = LineBuffer::default();
            let mut lines: Vec<Vec<u8>> = Vec::new();
            for piece in bytes.chunks(size) {
                buffer.push(piece);
                while let Some(line) = buffer.next_line().expect("short lines") {
                    lines.push(line.to_vec());
                }
            }
            lines
        };
        prop_assert_eq!(collect(cut), collect(usize::MAX));
    }

    #[test]
    fn a_miner_survives_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200), dialect in 0_usize..3) {
        let mut session = ClientSession::new(Dialect::ALL[dialect], login(), Schedule::Ethash);
        let _ = session.receive(&bytes);
        let _ = pool().receive(&bytes);
    }

    #[test]
    fn a_miner_survives_any_pool(messages in prop::collection::vec(any_message(), 1..30), dialect in 0_usize..3) {
        let mut session = ClientSession::new(Dialect::ALL[dialect], login(), Schedule::Etchash { fork_block: 60_000 });
        for message in &messages {
            let Ok(events) = session.receive(message.to_string().as_bytes()) else { continue };
            for event in events {
                if let PoolEvent::Job(job) = event {
                    prop_assert_eq!(job.package.seed_hash, job.package.epoch.seed_hash());
                    let solution = Solution { header_hash: job.package.header_hash, pow_nonce: job.extranonce.prefix(), mix_hash: job.package.header_hash };
                    session.submit(&job, &solution).expect("few wait");
                }
            }
            let output = session.take_output();
            prop_assert!(output.is_empty() || output.ends_with(b"\n"));
            prop_assert!(output.len() < 8 * LINE_LEN_MAX);
        }
    }

    #[test]
    fn a_pool_survives_any_miner(messages in prop::collection::vec(any_message(), 1..30)) {
        let mut session = pool();
        for message in &messages {
            if let Ok(Some(MinerRequest::Login { id, user, worker, .. })) = session.receive(message.to_string().as_bytes()) {
                session.admit(&id, &user, worker.as_deref());
            }
            for line in session.take_output().split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                let answer: Value = serde_json::from_slice(line).expect("answers are JSON");
                prop_assert!(!answer["id"].is_null(), "{}", answer);
            }
        }
    }

    #[test]
    fn nonces_come_back_through_any_extranonce(text in "[0-9a-f]{0,12}", nonce in any::<u64>()) {
        let extranonce: Extranonce = text.parse().expect("hexadecimal digits");
        prop_assert_eq!(extranonce.to_string(), text);
        let whole = match extranonce.bits() {
            0 => nonce,
            bits => extranonce.prefix() | nonce >> bits,
        };
        prop_assert!(extranonce.holds(whole));
        prop_assert_eq!(extranonce.nonce(&extranonce.tail(whole)), Some(whole));
    }

    #[test]
    fn more_difficulty_is_a_lower_boundary(first in 1e-12_f64..1e18, factor in 1.0_f64..1e6) {
        let low = boundary_of_difficulty(first).expect("above zero");
        let high = boundary_of_difficulty(first * factor).expect("above zero");
        prop_assert!(high <= low);
    }
}
