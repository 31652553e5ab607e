//! `vnode testvec` with this project's own vectors: each request must give the expected reply, in
//! order.
//!
//! The replies of the kinds `rlp`, `trie`, `ethash`, `difficulty` and `tx` are published values or
//! computed by hand. The replies of `state` come from this code after it had passed the public
//! suites; they detect changes.

mod evm;

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::Value;

/// Runs `vnode testvec kind` with `input`. Returns the lines of its output.
fn answers(kind: &str, input: &str) -> Vec<Value> {
    let mut child = Command::new(e2e::vnode_path())
        .args(["testvec", kind])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("vnode starts");
    child
        .stdin
        .take()
        .expect("piped")
        .write_all(input.as_bytes())
        .expect("vnode reads");
    let output = child.wait_with_output().expect("vnode ends");
    assert!(output.status.success(), "{}", output.status);
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    text.lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

#[test]
fn own_vectors() {
    let file = include_str!("../../../vectors/testvec.json");
    let cases: Vec<Value> = serde_json::from_str(file).expect("JSON");
    let mut kinds: Vec<&str> = cases.iter().filter_map(|case| case["kind"].as_str()).collect();
    kinds.dedup();
    for kind in kinds {
        let own: Vec<&Value> = cases.iter().filter(|case| case["kind"] == kind).collect();
        let input: String = own.iter().map(|case| format!("{}\n", case["request"])).collect();
        let replies = answers(kind, &input);
        assert_eq!(replies.len(), own.len(), "{kind}");
        for (case, reply) in own.into_iter().zip(replies) {
            if case["refused"] == true {
                assert!(reply["error"].is_string(), "{case}: {reply}");
            } else {
                assert_eq!(reply, case["reply"], "{case}");
            }
        }
    }
}

#[test]
fn after_a_bad_request_the_next_one_is_answered() {
    let input = "no json\n\n{}\n{\"rlp\": 5}\n{\"rlp\": \"0x80\"}\n";
    let replies = answers("rlp", input);
    assert_eq!(replies.len(), 4);
    assert!(
        replies[..3].iter().all(|reply| reply["error"].is_string()),
        "{replies:?}"
    );
    assert_eq!(replies[3], serde_json::json!({ "value": "0x" }));
    for kind in ["trie", "ethash", "difficulty", "keystore", "tx", "state", "block"] {
        let replies = answers(kind, "{}\n[]\n{\"fork\": 1, \"secure\": true, \"ops\": [1]}\n");
        assert!(
            replies.iter().all(|reply| reply["error"].is_string()),
            "{kind}: {replies:?}"
        );
    }
}
