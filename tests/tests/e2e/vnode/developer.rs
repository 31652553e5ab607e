//! The development network for people who develop contracts: blocks at once, changed accounts, and
//! what a restart, an export and a check make of them. And options from a file.

use e2e::Launch;
use e2e::contract::{creation_code, set, word};
use e2e::process::EndSignal;
use serde_json::{Value, json};

use crate::vnode::offline::{assert_contains, run_ok};

const NOBODY: &str = "0x00000000000000000000000000000000000000ab";
const APIS: &str = "chain3,mc,net,txpool,evm,hardhat,anvil,debug,trace";

#[test]
fn what_developers_change_stays() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let data = home.path().join("data");
    let start = |seal: &str| {
        // A seal is found by chance: on a busy machine the search may take longer than 30 seconds.
        let options = ["--dev.seal", seal, "--rpcapi", APIS, "--rpc.timeout", "300"];
        Launch::dev(options).data(&data).start()
    };
    let node = start("instant");
    let accounts = node.accounts();
    let created = node.rpc(
        "eth_sendTransaction",
        json!([{"from": accounts[0], "data": creation_code(), "gas": "0x7a120"}]),
    );
    let receipt = node.rpc("eth_getTransactionReceipt", json!([created]));
    assert_eq!(
        (&receipt["status"], &receipt["blockNumber"]),
        (&json!("0x1"), &json!("0x1"))
    );
    let contract = receipt["contractAddress"].clone();
    node.rpc("hardhat_setBalance", json!([NOBODY, "0xde0b6b3a7640000"]));
    node.rpc("hardhat_impersonateAccount", json!([NOBODY]));
    let sent = node.rpc(
        "eth_sendTransaction",
        json!([{"from": NOBODY, "to": contract, "data": set(7)}]),
    );
    node.rpc("anvil_setStorageAt", json!([contract, "0x5", word(9)]));
    node.rpc("evm_increaseTime", json!([100_000]));
    node.rpc("evm_mine", json!([]));
    let facts = |node: &e2e::Vnode| -> Vec<Value> {
        let last = json!(["0x5", false]);
        vec![
            node.rpc("eth_getTransactionReceipt", json!([sent])),
            node.rpc("trace_transaction", json!([sent])),
            node.rpc("eth_getStorageAt", json!([contract, "0x5", "latest"])),
            node.rpc("eth_getProof", json!([NOBODY, [], "0x5"])),
            node.rpc("eth_getBlockByNumber", last),
        ]
    };
    let before = facts(&node);
    assert_eq!(
        (&before[0]["from"], &before[0]["status"]),
        (&json!(NOBODY), &json!("0x1"))
    );
    assert_eq!(before[2], word(9));
    node.end(EndSignal::Interrupt);
    assert_contains(&run_ok(&data, &["db", "check", "--full"]), &["no faults"]);

    // After a restart it is as before. Now blocks are sealed, also those that are asked for.
    let node = start("ethash");
    assert_eq!(facts(&node), before);
    node.rpc("evm_mine", json!([]));
    let sealed = node.rpc("eth_getBlockByNumber", json!(["0x6", false]));
    assert_ne!(sealed["mixHash"], word(0));
    assert!(e2e::quantity(&sealed["timestamp"]) > e2e::quantity(&before[4]["timestamp"]));
    node.rpc(
        "eth_sendTransaction",
        json!([{"from": accounts[1], "to": NOBODY, "value": "0x1"}]),
    );
    assert_eq!(node.rpc("txpool_status", json!([]))["pending"], "0x1");
}

#[test]
fn options_from_a_file() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let data = home.path().join("data");
    let written = run_ok(
        &data,
        &["--dev", "--rpc", "--rpcport", "0", "--nodiscover", "dumpconfig"],
    );
    let file = home.path().join("vnode.toml");
    std::fs::write(&file, &written).expect("written");
    let file = file.to_str().expect("text").to_owned();
    let again = run_ok(&data, &["--config", &file, "dumpconfig"]);
    assert_eq!(again, written);
    let node = Launch::bare(["--config", &file, "--extradata", "of the file"])
        .data(&data)
        .start();
    assert_eq!(node.rpc("eth_chainId", json!([])), "0x64");
    node.end(EndSignal::Interrupt);
    std::fs::write(home.path().join("bad.toml"), "rpcport = \"many\"\n").expect("written");
    let bad = home.path().join("bad.toml");
    let ended = Launch::bare(["--config", bad.to_str().expect("text")])
        .data(&data)
        .run();
    assert_eq!(ended.status.code(), Some(2), "{}", ended.stdout);
    assert_contains(&ended.stderr, &["many", "--rpcport"]);
}
