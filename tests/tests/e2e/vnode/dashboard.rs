//! The dashboard of a node over a socket: its figures are those of JSON-RPC, and bad requests get
//! clear errors.

use std::net::SocketAddr;

use e2e::wait::wait_for;
use e2e::{Launch, MinerProcess, Vnode, contract, http, quantity, to_quantity};
use serde_json::{Value, json};

/// An address that has nothing in block 0.
const OWNER: &str = "0x00000000000000000000000000000000000d00d1";
/// The modules that the comparisons call.
const MODULES: &str = "mc,ots,miner,txpool,net";

/// The JSON at a path of the dashboard, which must have this status code.
#[track_caller]
fn json_at(dashboard: SocketAddr, path: &str, code: u16) -> Value {
    let answer = http::get(dashboard, path).expect("served");
    assert_eq!(answer.status, code, "{path}: {}", answer.body);
    serde_json::from_str(&answer.body).unwrap_or_else(|error| panic!("{path}: {error}: {}", answer.body))
}

/// A node that mines for [`OWNER`] and has some transactions: a transfer and a contract. The node
/// has stopped mining. Returns the hashes.
fn quiet_node() -> (Vnode, Vec<String>) {
    let options = [
        "--mine",
        "--moacbase",
        OWNER,
        "--rpcapi",
        MODULES,
        "--dashboard",
        "127.0.0.1:0",
    ];
    let node = Vnode::dev(options);
    let accounts = node.accounts();
    let transfer = json!({
        "from": accounts[1], "to": accounts[2], "value": "0x2a", "gasPrice": "0x4a817c800",
    });
    let create = json!({
        "from": accounts[1], "data": contract::creation_code(), "gas": "0x4c4b40", "gasPrice": "0x3b9aca00",
    });
    let hashes = vec![node.send(transfer), node.send(create)];
    for hash in &hashes {
        node.receipt(hash);
    }
    node.rpc("miner_stop", json!([]));
    // A block that was found before may still come.
    let mut last = node.head();
    wait_for("the last block", || {
        std::thread::sleep(std::time::Duration::from_millis(1500));
        let now = node.head();
        let is_quiet = now == last;
        last = now;
        is_quiet.then_some(())
    });
    (node, hashes)
}

#[test]
fn the_figures_are_those_of_json_rpc() {
    let (node, hashes) = quiet_node();
    let dashboard = node.dashboard();
    let head = node.head_block();
    let number = quantity(&head["number"]);

    // The address has exactly the rewards: it had nothing before, and nobody sent it anything.
    let status = wait_for("the rewards of all blocks", || {
        let status = json_at(dashboard, "/status", 200);
        let rewards = &status["node"]["rewards"];
        let is_done = rewards["complete"] == true && rewards["range"]["last"] == json!(number as u64);
        is_done.then_some(status)
    });
    let chain = &status["node"];
    let rewards = &chain["rewards"];
    assert_eq!(rewards["total"], node.balance(OWNER).to_string(), "{rewards}");
    assert_eq!(rewards["blocks"], json!(number as u64), "{rewards}");
    let fees: u128 = rewards["fees"]
        .as_str()
        .expect("digits")
        .parse()
        .expect("a number");
    let paid: u128 = hashes
        .iter()
        .map(|hash| {
            let price = node.rpc("mc_getTransactionByHash", json!([hash]))["gasPrice"].take();
            quantity(&node.receipt(hash)["gasUsed"]) * quantity(&price)
        })
        .sum();
    assert_eq!(fees, paid, "{rewards}");

    let shown = &chain["head"];
    assert_eq!(shown["number"], json!(number as u64));
    assert_eq!(shown["hash"], head["hash"]);
    assert_eq!(
        shown["difficulty"].as_str().map(str::to_owned),
        Some(quantity(&head["difficulty"]).to_string())
    );
    assert_eq!(chain["sync"]["stage"], "idle");
    assert_eq!(chain["peers"], json!({"inbound": 0, "outbound": 0}));
    assert_eq!(chain["pool"], json!({"pending": 0, "queued": 0}));
    assert_eq!(
        (&chain["mining"], &chain["stratum"]),
        (&json!(false), &Value::Null)
    );
    assert_eq!(chain["network"]["network_id"], 100);
    let rows = chain["blocks"].as_array().expect("rows");
    assert_eq!(rows.len() as u128, (number + 1).min(12));
    for row in rows {
        let at = u128::from(row["number"].as_u64().expect("a number"));
        let block = node.block(at);
        assert_eq!(row["hash"], block["hash"], "{row}");
        assert_eq!(
            json!(row["transactions"]),
            json!(block["transactions"].as_array().map(Vec::len))
        );
        assert_eq!(row["own"], json!(at > 0), "{row}");
        if at > 0 {
            assert_eq!(row["finder"], "cpu", "{row}");
            let details = node.rpc("ots_getBlockDetails", json!([to_quantity(at)]));
            let income = quantity(&details["issuance"]["blockReward"]) + quantity(&details["totalFees"]);
            assert_eq!(row["income"], income.to_string(), "{row}");
        }
    }

    for hash in &hashes {
        let shown = json_at(dashboard, &format!("/explorer/transaction/{hash}"), 200);
        assert_eq!(
            shown["transaction"],
            node.rpc("mc_getTransactionByHash", json!([hash]))
        );
        let receipt = node.receipt(hash);
        assert_eq!(shown["receipt"], receipt);
        let at = quantity(&receipt["blockNumber"]);
        assert_eq!(shown["block_time"], node.block(at)["timestamp"]);
        let block = node.rpc("mc_getBlockByNumber", json!([to_quantity(at), true]));
        let hash = block["hash"].as_str().expect("a hash");
        for name in [at.to_string(), format!("{at:#x}"), hash.to_owned()] {
            let shown = json_at(dashboard, &format!("/explorer/block/{name}"), 200);
            assert_eq!(shown["block"], block, "{name}");
            let payment = node.rpc("mc_getBlockReward", json!([to_quantity(at)]));
            assert_eq!(
                (&shown["payment"], &payment["status"]),
                (&payment, &json!("canonical"))
            );
        }
    }

    let sender = &node.accounts()[1];
    let account = json_at(dashboard, &format!("/explorer/account/{sender}"), 200);
    assert_eq!(
        account["balance"],
        node.rpc("mc_getBalance", json!([sender, "latest"]))
    );
    assert_eq!(quantity(&account["nonce"]), 2);
    let search = node.rpc("ots_searchTransactionsBefore", json!([sender, 0, 25]));
    assert_eq!(account["transactions"], search);
    assert_eq!(search["txs"].as_array().map(Vec::len), Some(2), "{search}");
    let created = node.receipt(&hashes[1])["contractAddress"].take();
    let created = created.as_str().expect("an address");
    let contract = json_at(dashboard, &format!("/explorer/account/{created}"), 200);
    let code = contract::runtime_code().trim_start_matches("0x");
    assert_eq!(contract["code_bytes"], json!(code.len() / 2));
    assert_eq!(contract["code"], json!(format!("0x{code}")));
    assert_eq!(
        contract["tokens"],
        Value::Null,
        "the node has no index by address"
    );
    let calls = json_at(dashboard, &format!("/explorer/calls/{}", hashes[1]), 200);
    assert_eq!(calls["calls"][0]["action"]["from"], json!(sender), "{calls}");

    let page = json_at(dashboard, "/explorer/blocks/latest", 200);
    assert_eq!(
        (&page["head"], &page["blocks"][0]["hash"]),
        (&json!(number as u64), &head["hash"])
    );
    let first = json_at(dashboard, "/explorer/blocks/0", 200);
    assert_eq!(first["blocks"].as_array().map(Vec::len), Some(1), "{first}");
}

#[test]
fn bad_requests_get_clear_errors() {
    let node = Vnode::dev(["--dashboard", "127.0.0.1:0"]);
    let dashboard = node.dashboard();
    let long = "7".repeat(300);
    let no_hash = "0x".to_owned() + &"zz".repeat(32);
    let unknown = "0x".to_owned() + &"ab".repeat(32);
    for (path, code, words) in [
        (
            "/explorer/block/99",
            404,
            "there is no block \"0x63\"; the head is block 0",
        ),
        ("/explorer/block/18446744073709551615", 404, "there is no block"),
        (
            "/explorer/block/18446744073709551616",
            400,
            "expected a block number up to",
        ),
        (
            &format!("/explorer/block/{long}"),
            400,
            "expected a block number up to",
        ),
        ("/explorer/block/-1", 400, "got -1, expected a block number"),
        (
            "/explorer/block/pending",
            400,
            "got pending, expected a block number",
        ),
        (&format!("/explorer/block/{no_hash}"), 400, "invalid argument 0"),
        (&format!("/explorer/block/{unknown}"), 404, "there is no block"),
        (
            &format!("/explorer/transaction/{unknown}"),
            404,
            "there is no transaction",
        ),
        ("/explorer/transaction/0x12", 400, "invalid argument 0"),
        (
            &format!("/explorer/calls/{unknown}"),
            404,
            "there is no transaction",
        ),
        ("/explorer/calls/0x12", 400, "invalid argument 0"),
        ("/explorer/transaction/%22", 400, "invalid argument 0"),
        ("/explorer/account/0x12", 400, "invalid argument 0"),
        ("/explorer/account/bob", 400, "invalid argument 0"),
        (
            &format!("/explorer/account/{OWNER}/before/x"),
            400,
            "expected a block number",
        ),
        ("/explorer/blocks/x", 400, "expected a block number"),
    ] {
        let answer = json_at(dashboard, path, code);
        let message = answer["error"]
            .as_str()
            .unwrap_or_else(|| panic!("{path}: {answer}"));
        assert!(message.contains(words), "{path}: {message}");
        assert!(message.len() < 400, "{path}: {message}");
    }
    // A number above the head shows the blocks up to the head.
    let blocks = json_at(dashboard, "/explorer/blocks/99999999", 200);
    assert_eq!(blocks["blocks"][0]["number"], 0, "{blocks}");
    for (method, path, host, code, words) in [
        ("GET", "/nothing", "localhost", 404, "paths:"),
        (
            "GET",
            "/explorer/money/7",
            "localhost",
            404,
            "/explorer/account/ADDRESS",
        ),
        ("GET", "/explorer/block", "localhost", 404, "paths:"),
        ("POST", "/status", "localhost", 405, "GET and HEAD only"),
        (
            "DELETE",
            "/explorer/block/0",
            "localhost",
            405,
            "GET and HEAD only",
        ),
        ("GET", "/", "rebound.example", 403, "host not allowed"),
        (
            "GET",
            "/explorer/block/0",
            "rebound.example:80",
            403,
            "host not allowed",
        ),
        ("GET", "/", "localhost:8580", 200, "<!doctype html>"),
    ] {
        let answer = http::request(dashboard, method, path, host).expect("an answer");
        assert_eq!(answer.status, code, "{method} {path} {host}");
        assert!(
            answer.body.contains(words),
            "{method} {path} {host}: {}",
            answer.body
        );
    }
    let taken = Launch::dev(["--dashboard", &dashboard.to_string()]).run();
    assert_eq!(taken.status.code(), Some(1), "{}", taken.stderr);
    let words = format!("cannot listen on {dashboard}: address already in use: --dashboard {dashboard}");
    assert!(taken.stderr.contains(&words), "{}", taken.stderr);
}

#[test]
fn workers_and_their_blocks_are_shown() {
    let node = Vnode::with_stratum(&["--stratum.difficulty", "500", "--dashboard", "127.0.0.1:0"]);
    let dashboard = node.dashboard();
    let nobody = json_at(dashboard, "/status", 200);
    assert_eq!(nobody["devices"], json!([]), "{nobody}");
    assert_eq!(nobody["node"]["stratum"]["workers"], json!([]), "{nobody}");
    // The name is text, whatever it looks like.
    let url = format!("stratum+tcp://0xwallet@{}", node.stratum());
    let miner = MinerProcess::start(["stratum", &url, "-u", "0xwallet.rig-7"]);
    let found = wait_for("a block of the worker", || {
        let status = json_at(dashboard, "/status", 200);
        let blocks = status["node"]["blocks"].as_array()?;
        let is_found = blocks.iter().any(|block| block["finder"] == "0xwallet");
        is_found.then_some(status)
    });
    let worker = &found["node"]["stratum"]["workers"][0];
    let same = &node.stratum_figures()["workers"][0];
    assert_eq!(worker["worker"], same["worker"], "{worker}");
    assert!(worker["accepted"].as_u64() > Some(0), "{worker}");
    assert_eq!(found["node"]["stratum"]["workers_known"], 1);
    let history = wait_for("a point of the history", || {
        let history = json_at(dashboard, "/history/hour", 200);
        (history["points"].as_u64() > Some(0)).then_some(history)
    });
    assert_eq!(history["series"][0]["name"], "stratum", "{history}");
    drop(miner);
}
