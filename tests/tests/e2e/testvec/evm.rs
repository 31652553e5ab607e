//! `vnode testvec statetest`, `t8n` and `b11r`, with the command lines of geth's `evm`.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

/// Stores 1, calls nothing, stores what the call left in memory, writes a log.
const CODE: &str =
    "0x6001600255600060006000600060006000600062010000f1506020600020600055600160005260206000a000";
const SENDER_KEY: &str = "0x45a915e4d060149eb4365960e6a7a45f334393093061116b197e3240065ff2d8";
const SENDER: &str = "0xa94f5374fce5edbc8e2a8697c15331677e6ebf0b";
const CONTRACT: &str = "0x00000000000000000000000000000000000000f1";

fn evm(directory: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(e2e::vnode_path());
    command.arg("testvec").args(arguments).current_dir(directory);
    command.output().expect("vnode runs")
}

fn json_of(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(bytes)))
}

fn env() -> Value {
    json!({
        "currentCoinbase": "0xc94f5374fce5edbc8e2a8697c15331677e6ebf0b",
        "currentDifficulty": "0x20000",
        "currentGasLimit": "0x750a163df65e8a",
        "currentNumber": "1",
        "currentTimestamp": "1000",
    })
}

fn pre() -> Value {
    json!({
        SENDER: { "balance": "0x5ffd4878be161d74", "code": "0x", "nonce": "0xac", "storage": {} },
        CONTRACT: { "balance": "0x0", "nonce": "0x1", "code": CODE, "storage": { "0x05": "0x07" } },
    })
}

fn write(directory: &Path, name: &str, value: &Value) {
    std::fs::write(directory.join(name), value.to_string()).expect("a file is written");
}

fn transactions() -> Value {
    let tx = |nonce: u64, to: Value, input: &str, gas: u64| {
        json!({
            "nonce": format!("{nonce:#x}"), "to": to, "input": input, "gas": format!("{gas:#x}"),
            "gasPrice": "0x2", "value": "0x0", "v": "0x0", "r": "0x0", "s": "0x0", "secretKey": SENDER_KEY,
        })
    };
    json!([
        tx(0xac, json!(CONTRACT), "0x", 0x30000),
        tx(0xad, Value::Null, "0x60006000f3", 0x20000),
        tx(0xae, json!(CONTRACT), "0x", 0x5300),
    ])
}

/// The outputs on standard output.
const TO_STDOUT: [&str; 3] = [
    "--output.result=stdout",
    "--output.alloc=stdout",
    "--output.body=stdout",
];

#[test]
fn transitions_are_those_of_the_specification() {
    let Some(python) = e2e::clients::python() else {
        return;
    };
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = |name: &str| directory.path().join(name).display().to_string();
    write(directory.path(), "alloc.json", &pre());
    write(directory.path(), "env.json", &env());
    write(directory.path(), "txs.json", &transactions());
    for fork in [
        "Frontier",
        "Homestead",
        "EIP150",
        "EIP158",
        "Byzantium",
        "ConstantinopleFix",
        "Istanbul",
        "Berlin",
    ] {
        let mut arguments = vec![
            "t8n".to_owned(),
            format!("--state.fork={fork}"),
            "--state.reward=5000000000000000000".to_owned(),
            format!("--input.alloc={}", path("alloc.json")),
            format!("--input.env={}", path("env.json")),
            format!("--input.txs={}", path("txs.json")),
        ];
        arguments.extend(TO_STDOUT.map(str::to_owned));
        let texts: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let ours = json_of(&evm(directory.path(), &texts).stdout);
        let theirs = python.run("transition.py", &json!({ "arguments": arguments }));
        for member in [
            "stateRoot",
            "txRoot",
            "receiptsRoot",
            "logsHash",
            "logsBloom",
            "gasUsed",
        ] {
            assert_eq!(
                ours["result"][member], theirs["result"][member],
                "{fork}: {member}"
            );
        }
        assert_eq!(ours["body"], theirs["body"], "{fork}");
    }
}

#[test]
fn a_transition_follows_another_by_pipe_and_by_rlp() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let place = directory.path();
    write(place, "alloc.json", &pre());
    write(place, "env.json", &env());
    write(place, "txs.json", &transactions());
    // By default the outputs are files.
    let done = evm(
        place,
        &[
            "t8n",
            "--state.fork=Berlin",
            "--output.basedir=out",
            "--output.body=txs.rlp",
            "--trace",
        ],
    );
    assert!(done.status.success(), "{done:?}");
    let read = |name: &str| json_of(&std::fs::read(place.join("out").join(name)).expect("a file"));
    let result = read("result.json");
    assert_eq!(result["receipts"][0]["status"], "0x1");
    assert_eq!(result["receipts"][2]["status"], "0x0", "the gas is too little");
    let hash = result["receipts"][0]["transactionHash"].as_str().expect("a hash");
    let trace = std::fs::read_to_string(place.join(format!("out/trace-0-{hash}.jsonl"))).expect("a trace");
    let first = json_of(trace.lines().next().expect("a line").as_bytes());
    assert_eq!(
        first,
        json!({ "pc": 0, "op": 0x60, "gas": "0x2adf8", "gasCost": "0x3", "memSize": 0, "stack": [],
            "depth": 1, "refund": 0, "opName": "PUSH1" })
    );
    // The raw transactions give the same; on the state afterwards all are refused.
    let again = evm(
        place,
        &[
            "t8n",
            "--state.fork=Berlin",
            "--input.txs=out/txs.rlp",
            "--output.result=stdout",
            "--output.alloc=",
        ],
    );
    assert_eq!(json_of(&again.stdout)["result"]["stateRoot"], result["stateRoot"]);
    let late = evm(
        place,
        &[
            "t8n",
            "--state.fork=Berlin",
            "--input.alloc=out/alloc.json",
            "--output.result=stdout",
            "--output.alloc=",
        ],
    );
    let late = json_of(&late.stdout);
    let rejected = late["result"]["rejected"].as_array().expect("a list");
    assert_eq!(rejected.len(), 3);
    assert_eq!(rejected[0]["index"], 0);
    assert!(
        rejected[0]["error"]
            .as_str()
            .is_some_and(|text| text.starts_with("nonce too low: address 0xa94f5374")
                || text.starts_with("nonce too low: address 0xa94f5374Fce5")),
        "{rejected:?}"
    );
    // Exit codes are geth's.
    assert_eq!(
        evm(place, &["t8n", "--state.fork=Nowhere"]).status.code(),
        Some(3)
    );
    assert_eq!(
        evm(place, &["t8n", "--input.alloc=missing.json"]).status.code(),
        Some(11)
    );
    std::fs::write(place.join("bad.json"), "{").expect("a file is written");
    assert_eq!(
        evm(place, &["t8n", "--input.alloc=bad.json"]).status.code(),
        Some(10)
    );
}

#[test]
fn uncles_are_paid_as_geth_pays_them() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let place = directory.path();
    let (miner, one, two) = ["aa", "bb", "cc"]
        .map(|byte| format!("0x{}", byte.repeat(20)))
        .into();
    let mut env = env();
    env["currentCoinbase"] = json!(miner);
    env["ommers"] = json!([{ "delta": 1, "address": one }, { "delta": 2, "address": two }]);
    write(place, "alloc.json", &json!({}));
    write(place, "env.json", &env);
    write(place, "txs.json", &json!([]));
    let done = evm(
        place,
        &[
            "t8n",
            "--state.fork=Berlin",
            "--state.reward=128",
            "--output.alloc=stdout",
            "--output.result=",
        ],
    );
    let alloc = &json_of(&done.stdout)["alloc"];
    assert_eq!(alloc[&miner]["balance"], "0x88");
    assert_eq!(alloc[&one]["balance"], "0x70");
    assert_eq!(alloc[&two]["balance"], "0x60");
}

#[test]
fn state_tests_pass_or_say_why() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let place = directory.path();
    let zero = format!("0x{}", "0".repeat(64));
    let mut test = json!({ "a_call": {
        "env": env(), "pre": pre(),
        "transaction": { "nonce": "0xac", "to": CONTRACT, "data": ["0x"], "gasLimit": ["0x30000", "0x5300"],
            "gasPrice": "0x2", "value": ["0x0"], "secretKey": SENDER_KEY },
        "post": { "Berlin": [{ "hash": zero, "logs": zero, "indexes": { "data": 0, "gas": 0, "value": 0 } }] },
    }});
    write(place, "test.json", &test);
    // Flags may stand before the command, as fuzzers write them.
    let run = evm(
        place,
        &["--json", "--noreturndata", "--nomemory", "statetest", "test.json"],
    );
    let result = json_of(&run.stdout);
    assert_eq!(result[0]["pass"], false);
    let root = result[0]["stateRoot"].as_str().expect("a root");
    assert_eq!(
        result[0]["error"],
        format!(
            "post state root mismatch: got {}, want {}",
            &root[2..],
            &zero[2..]
        )
    );
    let lines = String::from_utf8(run.stderr).expect("UTF-8");
    let lines: Vec<Value> = lines.lines().map(|line| json_of(line.as_bytes())).collect();
    let [steps @ .., end, last] = &lines[..] else {
        panic!("{lines:?}")
    };
    assert_eq!(last, &json!({ "stateRoot": root }));
    assert!(end["gasUsed"].is_string() && end["output"] == "", "{end}");
    let calls: Vec<&Value> = steps.iter().filter(|step| step["opName"] == "CALL").collect();
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0]["stack"].as_array().map(Vec::len), Some(8));
    assert!(
        steps
            .iter()
            .all(|step| step["depth"] == 1 && step["memSize"].is_u64())
    );
    // A failure takes all gas: 0x30000 without the 53,016 of a creation with one byte.
    let mut failing = test.clone();
    failing["a_call"]["transaction"]["to"] = json!("");
    failing["a_call"]["transaction"]["data"] = json!(["0xed"]);
    write(place, "failing.json", &failing);
    let lines = evm(place, &["--json", "statetest", "failing.json"]).stderr;
    let lines = String::from_utf8(lines).expect("UTF-8");
    let end = json_of(lines.lines().nth(1).expect("a line after the step").as_bytes());
    assert_eq!(end["gasUsed"], "0x230e8", "{end}");
    // The names of files may come on standard input. With the right root the test passes.
    test["a_call"]["post"]["Berlin"][0]["hash"] = json!(root);
    test["a_call"]["post"]["Berlin"][0]["logs"] = json!(null);
    write(place, "test.json", &test);
    let mut child = Command::new(e2e::vnode_path())
        .args(["testvec", "statetest"])
        .current_dir(place)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("vnode runs");
    std::io::Write::write_all(&mut child.stdin.take().expect("piped"), b"test.json\n").expect("vnode reads");
    let output = child.wait_with_output().expect("vnode ends");
    assert_eq!(json_of(&output.stdout)[0]["pass"], true);
}

#[test]
fn a_block_is_made_of_its_parts() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let place = directory.path();
    let header = json!({
        "parentHash": format!("0x{}", "11".repeat(32)), "stateRoot": format!("0x{}", "22".repeat(32)),
        "number": "0x1", "gasLimit": "0x1388", "difficulty": "0x20", "timestamp": "0x5",
    });
    write(place, "header.json", &header);
    write(place, "txs.rlp", &json!("0xc0"));
    let block = json_of(&evm(place, &["b11r", "--output.block=stdout"]).stdout);
    let rlp = block["rlp"].as_str().expect("RLP");
    let decoded = super::answers("rlp", &format!("{}\n", json!({ "rlp": rlp })));
    let parts = decoded[0]["value"].as_array().expect("a list");
    assert_eq!(parts[0].as_array().map(Vec::len), Some(15));
    assert_eq!(parts[0][3], header["stateRoot"]);
    assert_eq!((&parts[1], &parts[2]), (&json!([]), &json!([])));
    // A sealed one has the work that its header asks for.
    let sealed = json_of(&evm(place, &["b11r", "--output.block=stdout", "--seal.ethash"]).stdout);
    let sealed = super::answers("rlp", &format!("{}\n", json!({ "rlp": sealed["rlp"] })));
    assert_ne!(sealed[0]["value"][0][13], parts[0][13], "the mix hash");
}
