//! JSON-RPC 2.0, clause by clause: every transport gives the same answers.

use rpc::Limits;

use crate::server::clients::unix::{AllServers, Transport};
use crate::server::harness::{ANSWER, CALL};

fn limits() -> Limits {
    Limits {
        batch_len_max: 4,
        body_len_max: 4 << 20,
        ..Limits::default()
    }
}

/// Sends each message over every transport and compares the answers. `""` stands for no answer.
async fn check(cases: &[(&str, &str)]) {
    let servers = AllServers::start(limits()).await;
    for transport in Transport::ALL {
        let mut client = servers.connect(transport).await;
        for (message, expected) in cases {
            let answer = client.ask(message).await;
            assert_eq!(
                answer,
                *expected,
                "{transport:?}: {}",
                &message[..message.len().min(200)]
            );
        }
    }
}

fn error(id: &str, code: i32, message: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"{message}"}}}}"#)
}

#[tokio::test]
async fn ids_are_echoed_as_sent() {
    let ids = [
        "1",
        "0",
        "-7",
        "1.50",
        "123456789012345678901234567890123456789",
        "\"\"",
        "\"a b\"",
        "\"\\u00e4\\n\"",
        "null",
    ];
    let cases: Vec<_> = ids
        .map(|id| {
            (
                CALL.replace("\"id\":1", &format!("\"id\":{id}")),
                ANSWER.replace("\"id\":1", &format!("\"id\":{id}")),
            )
        })
        .into();
    let cases: Vec<_> = cases
        .iter()
        .map(|(ask, answer)| (ask.as_str(), answer.as_str()))
        .collect();
    check(&cases).await;
    for bad in ["true", "[1]", "{}"] {
        let got = match bad {
            "true" => "a Boolean",
            "[1]" => "an array",
            _ => "an object",
        };
        let refused = error(
            "null",
            -32600,
            &format!("invalid request: id: got {got}, expected a string, a number or null"),
        );
        check(&[(&CALL.replace("\"id\":1", &format!("\"id\":{bad}")), &refused)]).await;
    }
}

#[tokio::test]
async fn notifications_are_not_answered() {
    let notification = r#"{"jsonrpc":"2.0","method":"net_version"}"#;
    check(&[
        (notification, ""),
        (r#"{"jsonrpc":"2.0","method":"no_such"}"#, ""),
        (r#"{"jsonrpc":"2.0","method":"chain3_sha3","params":[7]}"#, ""),
        (&format!("[{notification},{notification}]"), ""),
        (&format!("[{notification},{CALL}]"), &format!("[{ANSWER}]")),
    ])
    .await;
}

#[tokio::test]
async fn batches_keep_their_order_and_a_bad_member_spoils_no_other() {
    let bad = error(
        "null",
        -32600,
        "invalid request: got a number, expected an object",
    );
    let unknown = error("2", -32601, "the method mc_no does not exist/is not available");
    let params = error("3", -32602, "too many arguments, want at most 0");
    check(&[
        (
            &format!(
                r#"[7,{{"jsonrpc":"2.0","id":2,"method":"mc_no"}},{{"jsonrpc":"2.0","id":3,"method":"net_version","params":[1]}},{CALL}]"#
            ),
            &format!("[{bad},{unknown},{params},{ANSWER}]"),
        ),
        (&format!(" [ {CALL} ] "), &format!("[{ANSWER}]")),
        ("[]", &error("null", -32600, "invalid request: empty batch")),
        (
            "[1,1,1,1,1]",
            &error("null", -32600, "invalid request: batch: got 5 requests, expected at most 4"),
        ),
        (
            &format!(r#"[{{"jsonrpc":"2.0","id":2,"method":"eth_slow"}},{CALL}]"#),
            &format!(r#"[{{"jsonrpc":"2.0","id":2,"result":"slow"}},{ANSWER}]"#),
        ),
    ])
    .await;
}

#[tokio::test]
async fn invalid_requests_name_the_reason() {
    let refused = |id: &str, reason: &str| error(id, -32600, &format!("invalid request: {reason}"));
    check(&[
        ("{}", &refused("null", "missing jsonrpc")),
        (
            r#"{"id":1,"method":"net_version"}"#,
            &refused("1", "missing jsonrpc"),
        ),
        (
            r#"{"jsonrpc":"1.0","id":8,"method":"net_version"}"#,
            &refused("8", r#"jsonrpc: expected \"2.0\""#),
        ),
        (
            r#"{"jsonrpc":"2.0","id":"x"}"#,
            &refused("\"x\"", "missing method"),
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":5}"#,
            &refused("1", "method: got a number, expected a string"),
        ),
        (
            "7",
            &refused("null", "expected an object, or an array of objects"),
        ),
        (
            "\"x\"",
            &refused("null", "expected an object, or an array of objects"),
        ),
        (
            "null",
            &refused("null", "expected an object, or an array of objects"),
        ),
    ])
    .await;
}

#[tokio::test]
async fn parameters() {
    let with = |params: &str| CALL.replace("\"params\":[]", params);
    check(&[
        (&CALL.replace(",\"params\":[]", ""), ANSWER),
        (&with("\"params\":null"), ANSWER),
        (&with("\"params\":[]"), ANSWER),
        (
            &with("\"params\":[0]"),
            &error("1", -32602, "too many arguments, want at most 0"),
        ),
        (
            &with(r#""params":{"a":1}"#),
            &error("1", -32602, "params: got an object, expected an array"),
        ),
        (
            &with("\"params\":7"),
            &error("1", -32602, "params: got a number, expected an array"),
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"chain3_sha3"}"#,
            &error("1", -32602, "missing value for required argument 0"),
        ),
        // The method name is checked before the parameters.
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"mc_no","params":{}}"#,
            &error("1", -32601, "the method mc_no does not exist/is not available"),
        ),
    ])
    .await;
}

#[tokio::test]
async fn invalid_json_is_a_parse_error_with_a_null_id() {
    let servers = AllServers::start(limits()).await;
    let parse_error = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse error: "#;
    for transport in Transport::ALL {
        for text in [
            "{\"a\":tru}",
            "nonsense",
            "{\"id\":1,}",
            "[1,]",
            "{\"jsonrpc\":\"2.0\" \"id\":1}",
        ] {
            let mut client = servers.connect(transport).await;
            let answer = client.ask(text).await;
            assert!(answer.starts_with(parse_error), "{transport:?} {text}: {answer}");
            assert_eq!(
                client.ask(CALL).await,
                ANSWER,
                "{transport:?}: the connection stays open"
            );
        }
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        let answer = servers.connect(transport).await.ask(&deep).await;
        let expected = error("null", -32700, "parse error: nested deeper than 64 levels");
        assert!(
            answer.ends_with("nested deeper than 64 levels\"}}"),
            "{transport:?}: {answer}"
        );
        assert_eq!(answer.len(), expected.len());
    }
}

#[tokio::test]
async fn huge_members_are_handled() {
    let digits = "9".repeat(1_000_000);
    let members = "1,".repeat(1_000_000);
    let members = members.trim_end_matches(',');
    check(&[
        // A member that nobody reads may be huge.
        (
            &CALL.replace("\"params\":[]", &format!("\"params\":[],\"x\":{digits}")),
            ANSWER,
        ),
        (
            &CALL.replace("\"params\":[]", &format!("\"params\":[{digits}]")),
            &error("1", -32602, "too many arguments, want at most 0"),
        ),
        (
            &format!(r#"{{"jsonrpc":"2.0","id":1,"method":"mc_long","params":[{digits}]}}"#),
            &error(
                "1",
                -32602,
                "invalid argument 0: expected a whole number of at most 64 bits",
            ),
        ),
        (
            &format!("[{members}]"),
            &error(
                "null",
                -32600,
                "invalid request: batch: got 1000000 requests, expected at most 4",
            ),
        ),
        (
            &format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"mc_{}"}}"#,
                "x".repeat(1_000_000)
            ),
            &error(
                "1",
                -32601,
                &format!(
                    "the method mc_{}… does not exist/is not available",
                    "x".repeat(61)
                ),
            ),
        ),
    ])
    .await;
}

#[tokio::test]
async fn modules_that_are_not_enabled_are_unknown() {
    let hidden = error(
        "1",
        -32601,
        "the method admin_secret does not exist/is not available",
    );
    let servers = AllServers::start(limits()).await;
    let ask = r#"{"jsonrpc":"2.0","id":1,"method":"admin_secret"}"#;
    for transport in [Transport::Http, Transport::Ws] {
        assert_eq!(
            servers.connect(transport).await.ask(ask).await,
            hidden,
            "{transport:?}"
        );
    }
    let answer = servers.connect(Transport::Ipc).await.ask(ask).await;
    assert_eq!(answer, r#"{"jsonrpc":"2.0","id":1,"result":"secret"}"#);
}
