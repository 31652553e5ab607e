//! Log queries by contract and topics, on a chain that is mined, restarted, exported and imported.

use e2e::contract::{CHANGED, creation_code, set, word};
use e2e::process::EndSignal;
use e2e::{Launch, Vnode, data, quantity, to_quantity};
use serde_json::{Value, json};

use crate::vnode::offline::run_ok;

/// Checks the values in the logs of the contract, over the whole chain, with several filters.
#[track_caller]
fn check_values(node: &Vnode, contract: &str, sender: &str, expected: &[u128]) {
    for filter in [
        json!({"address": contract}),
        json!({"topics": [CHANGED]}),
        json!({"topics": [null, sender]}),
        json!({"topics": [[CHANGED, word(1)], sender], "address": [contract]}),
    ] {
        let mut filter = filter;
        filter["fromBlock"] = json!("earliest");
        let logs = node.rpc("mc_getLogs", json!([filter]));
        let values: Vec<&Value> = logs
            .as_array()
            .expect("a list")
            .iter()
            .map(|log| &log["data"])
            .collect();
        let expected: Vec<_> = expected.iter().map(|value| json!(word(*value))).collect();
        assert_eq!(values, expected.iter().collect::<Vec<_>>(), "{filter}");
    }
}

#[test]
fn logs_are_found_after_restarts_and_after_an_import() {
    const VALUES: [u128; 3] = [7, 8, 9];
    let (home, other) = (
        tempfile::tempdir().expect("home"),
        tempfile::tempdir().expect("home"),
    );
    let node = Launch::dev(["--mine"]).data(home.path()).start();
    let from = node.accounts()[2].clone();
    let sender = format!("0x{:0>64}", &from[2..]);
    let created = node.receipt(&node.send(json!({"from": from, "data": creation_code(), "gas": "0x7a120"})));
    let contract = data(&created["contractAddress"], 20).to_owned();
    let mut logs = Vec::new();
    for value in VALUES {
        let receipt = node.receipt(&node.send(json!({"from": from, "to": contract, "data": set(value)})));
        logs.extend(receipt["logs"].as_array().expect("a list").clone());
    }
    let all = json!([{"fromBlock": created["blockNumber"], "address": contract}]);
    assert_eq!(
        node.rpc("mc_getLogs", all.clone()),
        json!(logs),
        "the logs of the receipts"
    );
    let third = quantity(&logs[2]["blockNumber"]);
    let one = json!([{"fromBlock": to_quantity(third), "toBlock": to_quantity(third)}]);
    assert_eq!(node.rpc("mc_getLogs", one), json!([logs[2]]));
    let of_block = json!([{"blockHash": logs[0]["blockHash"]}]);
    assert_eq!(node.rpc("mc_getLogs", of_block), json!([logs[0]]));
    node.end(EndSignal::Kill);

    // After a crash, with a limit that the query exceeds.
    let node = Launch::dev(["--rpc.logs.maxresults", "2"])
        .data(home.path())
        .start();
    let refused = node.refused("mc_getLogs", all.clone(), -32000);
    assert!(
        refused.contains("more than 2 logs") && refused.contains("--rpc.logs.maxresults"),
        "{refused}"
    );
    node.end(EndSignal::Terminate);
    let node = Launch::dev([] as [&str; 0]).data(home.path()).start();
    check_values(&node, &contract, &sender, &VALUES);
    node.end(EndSignal::Terminate);

    let file = other.path().join("blocks");
    let file = file.to_str().expect("a path in ASCII");
    run_ok(home.path(), &["export", file]);
    run_ok(other.path(), &["import", file, "--dev"]);
    for folder in [home.path(), other.path()] {
        run_ok(folder, &["db", "check"]);
    }
    let node = Launch::dev([] as [&str; 0]).data(other.path()).start();
    check_values(&node, &contract, &sender, &VALUES);
    assert_eq!(node.rpc("mc_getLogs", all), json!(logs));
}
