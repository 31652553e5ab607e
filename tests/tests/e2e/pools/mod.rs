//! Pool programs at a node of a network like Mordor: the calls of open-etc-pool-friends and of
//! Miningcore, as they send them, and a miner that polls `eth_getWork` over Stratum.
//!
//! The tests run one after the other, because with `FULL_DATASET=1` the dataset, which a block of
//! the lowest difficulty needs, takes all processors for a while.
//!
//! Source: docs/etc.md, 5.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use e2e::http::TestHttpClient;
use e2e::process::EndSignal;
use e2e::stratum::RawConnection;
use e2e::wait::wait_for;
use e2e::work::{RpcWork, prepare_dataset, search, search_in_dataset};
use e2e::ws::WsClient;
use e2e::{Launch, MinerProcess, Vnode, data, note, quantity};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The account of the pool, which has a balance in block 0.
const POOL: &str = "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266";
const POOL_KEY: &str = "ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";
const MINER: &str = "0x00000000000000000000000000000000000000c1";
const COIN: u128 = 1_000_000_000_000_000_000;
/// The lowest difficulty of Ethereum's family.
const DIFFICULTY: u128 = 131_072;
/// The interval at which a node that mines replaces its work by one with better transactions.
const RENEW_INTERVAL: Duration = Duration::from_secs(2);
/// The difficulty of a share.
const SHARE_DIFFICULTY: &str = "1024";

/// A genesis file in core-geth's form, with all rules of Mordor from block 0 on.
fn genesis() -> Value {
    let mut config = json!({
        "networkId": 7, "chainId": 63, "ecip1099FBlock": 0, "disposalBlock": 0, "ecip1017FBlock": 0,
        "ecip1017EraRounds": 2_000_000,
    });
    for eip in [
        "2", "7", "150", "155", "160", "161", "170", "100", "140", "198", "211", "212", "213", "214", "658",
        "145", "1014", "1052", "152", "1108", "1344", "1884", "2028", "2200", "2565", "2718", "2929", "2930",
        "3529", "3541", "3651", "3855", "3860",
    ] {
        let end = if matches!(eip, "150" | "155") {
            "Block"
        } else {
            "FBlock"
        };
        config[format!("eip{eip}{end}")] = json!(0);
    }
    json!({
        "config": config, "difficulty": "0x20000", "gasLimit": "0x7a1200",
        "alloc": {POOL: {"balance": "0x56bc75e2d63100000"}},
    })
}

/// Whether the seal of a block is searched. It takes a dataset of 1 GiB, 70 s of processor time.
fn seals_are_real() -> bool {
    std::env::var_os("FULL_DATASET").is_some()
}

/// The options of a node that mines for the pool and does not search itself.
const MINING: [&str; 8] = [
    "--mine",
    "--minerthreads",
    "0",
    "--stratum",
    "--stratumport",
    "0",
    "--stratum.difficulty",
    SHARE_DIFFICULTY,
];

/// A node of that network.
fn node(folder: &TempDir, options: &[&str]) -> Vnode {
    let file = folder.path().join("genesis.json");
    std::fs::write(&file, genesis().to_string()).expect("writable");
    let data = folder.path().join("data");
    let file = file.to_str().expect("UTF-8");
    let ended = Launch::bare(["init", file]).data(&data).run();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    let common = [
        "--rpc",
        "--rpcport",
        "0",
        "--rpcapi",
        "chain3,mc,net,personal",
        "--ws",
        "--wsport",
        "0",
        "--moacbase",
        POOL,
        "--lightkdf",
    ];
    Launch::bare([&common, options].concat()).data(&data).start()
}

/// Held by the test that runs. A test that failed leaves nothing behind that others need.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The calls of open-etc-pool-friends: the number of a request is 0, and parameters that a method
/// does not have are null.
struct OpenEtcPool(TestHttpClient);

impl OpenEtcPool {
    #[track_caller]
    fn call(&mut self, method: &str, params: Value) -> Value {
        let request = json!({"jsonrpc": "2.0", "method": method, "params": params, "id": 0});
        let answer = self.0.post(&request.to_string()).expect("an answer");
        let answer: Value = serde_json::from_str(&answer.body).expect("JSON");
        assert_eq!(answer["error"], Value::Null, "{request}: {answer}");
        answer["result"].clone()
    }
}

/// The calls of Miningcore: batches, with null for no parameters.
struct Miningcore(TestHttpClient);

impl Miningcore {
    #[track_caller]
    fn batch(&mut self, calls: &[(&str, Value)]) -> Vec<Value> {
        let requests: Vec<_> = calls
            .iter()
            .enumerate()
            .map(|(at, (method, params))| {
                json!({"jsonrpc": "2.0", "method": method, "params": params, "id": at.to_string()})
            })
            .collect();
        let answer = self.0.post(&json!(requests).to_string()).expect("an answer");
        let answers: Vec<Value> = serde_json::from_str(&answer.body).expect("a list");
        assert_eq!(answers.len(), calls.len());
        let result = |at: usize| {
            let answer = answers
                .iter()
                .find(|answer| answer["id"] == json!(at.to_string()));
            let answer = answer.expect("an answer for each request");
            assert_eq!(answer["error"], Value::Null, "{:?}: {answer}", calls[at]);
            answer["result"].clone()
        };
        (0..calls.len()).map(result).collect()
    }
}

#[test]
fn the_calls_of_pools_from_work_to_payment() {
    let _turn = turn();
    let options: &[&str] = if seals_are_real() {
        prepare_dataset();
        &MINING
    } else {
        &["--fakepow"]
    };
    let folder = tempfile::tempdir().expect("a folder");
    let node = node(&folder, options);
    let address = node.addresses()[0];
    let mut core = Miningcore(TestHttpClient::new(address));
    let mut open = OpenEtcPool(TestHttpClient::new(address));
    node.rpc("personal_importRawKey", json!([POOL_KEY, "pass"]));
    let unlocked = core.batch(&[("personal_unlockAccount", json!([POOL, "pass", null]))]);
    assert_eq!(unlocked, [json!(true)]);

    // Miningcore starts.
    let started = core.batch(&[
        ("net_version", Value::Null),
        ("eth_accounts", Value::Null),
        ("eth_coinbase", Value::Null),
        ("web3_clientVersion", Value::Null),
        ("eth_syncing", Value::Null),
        ("net_peerCount", Value::Null),
        ("eth_maxPriorityFeePerGas", Value::Null),
    ]);
    assert_eq!(started[..3], [json!("7"), json!([POOL]), json!(POOL)]);
    assert_eq!(started[4..6], [json!(false), json!("0x0")]);
    quantity(&started[6]);
    // Two payments, so that the block has something in it.
    let empty = open.call("eth_getWork", json!([]))[0].clone();
    assert!(quantity(&open.call("eth_gasPrice", Value::Null)) > 0);
    let before = quantity(&open.call("eth_getBalance", json!([POOL, "latest"])));
    assert_eq!(before, 100 * COIN);
    let hash = format!("0x{}", "5a".repeat(32));
    data(&open.call("eth_sign", json!([POOL, hash])), 65);
    let payment = json!([{"from": POOL, "to": MINER, "value": "0xde0b6b3a7640000"}]);
    let first = open.call("eth_sendTransaction", payment.clone());
    let [second] = &core.batch(&[("eth_sendTransaction", payment)])[..] else {
        panic!("one answer");
    };
    assert_eq!(
        open.call("eth_getTransactionReceipt", json!([first])),
        Value::Null
    );

    // Work. open-etc-pool parses number and difficulty of the pending block.
    let pending = wait_for("a pending block with the payments", || {
        let pending = open.call("eth_getBlockByNumber", json!(["pending", false]));
        let count = pending["transactions"].as_array().expect("a list").len();
        (count == 2).then_some(pending)
    });
    assert_eq!(quantity(&pending["number"]), 1);
    assert_eq!(quantity(&pending["difficulty"]), DIFFICULTY);
    let both_pending = Instant::now();
    wait_for("work with the payments", || {
        let answers = core.batch(&[
            ("eth_getWork", Value::Null),
            ("eth_getBlockByNumber", json!(["latest", true])),
        ]);
        assert_eq!(quantity(&answers[1]["number"]), 0);
        // Both pools read the first three members as hashes.
        let header = open.call("eth_getWork", json!([]))[0].clone();
        let is_newer = header != empty && both_pending.elapsed() > 2 * RENEW_INTERVAL;
        (is_newer && answers[0][0] == header).then_some(())
    });
    let work = node.work_after(None);
    let found = if seals_are_real() {
        search_in_dataset(&work)
    } else {
        note("the seal is not searched; FULL_DATASET=1 asks for it");
        search(&work, 1, false)
    };
    let mut heads = WsClient::connect(node.ws_address(), None).expect("a WebSocket");
    let subscription = heads.rpc("eth_subscribe", json!(["newHeads"]));
    let solution = json!([found.nonce_data(), found.header_hash, found.mix_hash]);
    assert_eq!(open.call("eth_submitWork", solution.clone()), json!(true));
    assert_eq!(core.batch(&[("eth_submitWork", solution)]), [json!(false)]);
    let message: Value = serde_json::from_str(&heads.text()).expect("JSON");
    assert_eq!(message["method"], json!("eth_subscription"));
    let params = &message["params"];
    assert_eq!(params["subscription"], subscription);
    assert_eq!(quantity(&params["result"]["number"]), 1);

    // The unlocker and the payer look at the block.
    let block = open.call("eth_getBlockByNumber", json!(["0x1", true]));
    assert_eq!(block["nonce"], found.nonce_data());
    assert_eq!(block["miner"], json!(POOL));
    assert_eq!(
        open.call("eth_getBlockByHash", json!([block["hash"], true])),
        block
    );
    let members = ["gasUsed", "gasLimit", "timestamp", "size", "totalDifficulty"];
    assert!(members.iter().all(|name| quantity(&block[*name]) > 0), "{block}");
    let transactions = block["transactions"].as_array().expect("a list");
    let (mut fees, mut hashes) = (0, Vec::new());
    for transaction in transactions {
        let receipt = open.call("eth_getTransactionReceipt", json!([transaction["hash"]]));
        assert_eq!(receipt["status"], json!("0x1"));
        assert_eq!(receipt["blockHash"], block["hash"]);
        fees += quantity(&receipt["gasUsed"]) * quantity(&transaction["gasPrice"]);
        hashes.push(transaction["hash"].clone());
    }
    assert!(fees > 0);
    assert_eq!(hashes, [first.clone(), second.clone()]);
    let receipts = core.batch(&[
        ("eth_getTransactionReceipt", json!([first])),
        ("eth_getTransactionReceipt", json!([second])),
        ("eth_getUncleByBlockNumberAndIndex", json!(["0x1", "0x0"])),
    ]);
    assert_eq!(receipts[2], Value::Null, "the block has no uncles");
    assert_eq!(receipts[1]["transactionHash"], *second);
    // The first era's reward; the pool pays the fees to itself.
    let after = quantity(&open.call("eth_getBalance", json!([POOL, "latest"])));
    assert_eq!(after, before + 5 * COIN - 2 * COIN);
    let paid = quantity(&open.call("eth_getBalance", json!([MINER, "latest"])));
    assert_eq!(paid, 2 * COIN);
    let next = wait_for("the next pending block", || {
        let pending = open.call("eth_getBlockByNumber", json!(["pending", false]));
        (quantity(&pending["number"]) == 2).then_some(pending)
    });
    assert!(quantity(&next["difficulty"]) >= DIFFICULTY);
}

#[test]
fn machines_that_poll_for_work_over_stratum() {
    let _turn = turn();
    let folder = tempfile::tempdir().expect("a folder");
    let node = node(&folder, &MINING);
    let mut machine = RawConnection::connect(node.stratum());
    let login =
        json!({"id": 1, "method": "eth_submitLogin", "params": ["0xwallet.rig", "x"], "worker": "rig"});
    assert_eq!(machine.call(&login)["result"], true);
    let mut poll = |id: u64| {
        let poll = json!({"id": id, "jsonrpc": "2.0", "method": "eth_getWork", "params": []});
        machine.call(&poll)["result"].clone()
    };
    // The first work is made after the server has begun to listen.
    wait_for("the first work", || poll(2).is_array().then_some(()));
    let answers: Vec<_> = (3..6).map(&mut poll).collect();
    assert!(answers.windows(2).all(|pair| pair[0] == pair[1]), "{answers:?}");
    let member = |at: usize| data(&answers[0][at], 32).parse().expect("32 bytes");
    let work = RpcWork {
        header_hash: member(0),
        seed_hash: member(1),
        boundary: member(2),
    };
    assert_eq!(work.header_hash, node.work_after(None).header_hash);
    let found = search(&work, 1, true);
    let params = json!([found.nonce_data(), found.header_hash, found.mix_hash]);
    let share = json!({"id": 7, "method": "eth_submitWork", "params": params, "worker": "rig"});
    assert_eq!(machine.call(&share)["result"], true);
    let again = machine.call(&json!({"id": 8, "method": "eth_submitWork", "params": params}));
    assert_ne!(again["result"], true, "a share counts once");
    let rate = json!({"id": 9, "method": "eth_submitHashrate", "params": ["0x7a120", format!("0x{}", "01".repeat(32))]});
    assert_eq!(machine.call(&rate)["result"], true);
    wait_for("the rate of the machine in that of the node", || {
        (quantity(&node.rpc("eth_hashrate", json!([]))) == 500_000).then_some(())
    });
}

/// The command of docs/guides/ethereum-classic.md for a miner of this project. Blocks of this
/// network take too long for a test, so shares must do.
#[test]
fn a_miner_finds_shares_with_etchash() {
    let _turn = turn();
    let folder = tempfile::tempdir().expect("a folder");
    let node = node(&folder, &MINING);
    let url = format!("stratum+tcp://me.rig1@{}", node.stratum());
    let etchash = ["--algo", "etchash", "--etchash-fork", "0"];
    let arguments = ["stratum", url.as_str()].into_iter().chain(etchash);
    let miner = MinerProcess::start(arguments);
    let status = miner.wait_for_status("a share", |status| status["accepted"].as_u64() >= Some(1));
    assert_eq!((&status["rejected"], &status["invalid"]), (&json!(0), &json!(0)));
    let ended = miner.end(EndSignal::Interrupt);
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
}
