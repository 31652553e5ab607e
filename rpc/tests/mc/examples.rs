//! Runs every example of `rpc/examples.json` against a node, and compares that file and
//! `rpc/openrpc.json` with the code. `docs/methods.md` is made from the latter. If
//! `UPDATE_EXAMPLES` is set, all three files are written anew.
//!
//! Each example has its own node, always with the same chain. So the results are always the same,
//! except those that depend on chance or on the clock.

use primitives::{B256, Block, TxForm, UnsignedTransaction};
use rpc::methods;
use rpc::types::data;
use serde_json::{Map, Value, json};

use crate::mc::calls::{deploy, word};
use crate::mc::harness::{BENEFICIARY, Net, PROXY, account, key, transfer};
use crate::mc::subscriptions::Client;
use crate::shared::described::{document, is_update, read, write};
use crate::shared::reference::check_page;
use crate::shared::schema::fits;

/// Methods without an example. The description of all methods would contain itself.
pub(crate) const WITHOUT_EXAMPLE: [&str; 4] = [
    "rpc.discover",
    // Always refused.
    "anvil_setNextBlockBaseFeePerGas",
    "hardhat_setNextBlockBaseFeePerGas",
    "anvil_setChainId",
];
/// Methods whose results depend on chance or on the clock. Only the type is compared.
const VARYING: [&str; 9] = [
    "admin_backup",
    "admin_backupStatus",
    "admin_databaseStats",
    "mc_getWork",
    "mc_newBlockFilter",
    "mc_newFilter",
    "mc_newPendingTransactionFilter",
    "mc_subscribe",
    "personal_newAccount",
];
/// Methods with a random id or a temporary folder as parameter.
const WITH_RANDOM_ID: [&str; 5] = [
    "admin_backup",
    "mc_getFilterChanges",
    "mc_getFilterLogs",
    "mc_uninstallFilter",
    "mc_unsubscribe",
];
/// The text of `docs/methods.md` before the methods.
const PAGE_INTRO: &str = "All methods of `vnode`. A listener serves the modules that `--rpcapi` or `--wsapi` \
    names; the local socket serves all. Methods `mc_…` and `chain3_…` are also served by the names that \
    wallets use. A client gets this description from the node itself by `rpc.discover`, in the form of \
    [OpenRPC](https://open-rpc.org).";
/// Methods that need a connection that stays open.
pub(crate) const SESSION_METHODS: [&str; 2] = ["mc_subscribe", "mc_unsubscribe"];

/// The examples in the file.
pub(crate) struct Examples(Map<String, Value>);

impl Examples {
    pub(crate) fn read() -> Self {
        match read("examples.json") {
            Value::Object(examples) => Self(examples),
            other => panic!("examples.json: got {other}, expected an object"),
        }
    }

    pub(crate) fn get(&self, method: &str) -> Option<&Value> {
        self.0.get(method)
    }
}

/// A node with data for every method: five blocks, of which the last has an uncle; a contract with
/// a slot that is not zero; a native, a nine-field and a failed transaction; a pending and a queued
/// transaction; a refused block; a static node and a subnet.
struct ExampleNode {
    net: Net,
    /// The folder for a backup.
    folder: tempfile::TempDir,
    contract: String,
    /// The hash of a transaction in block 3 that writes and logs.
    call: String,
    block: Block,
    nephew: Block,
    /// The hash of a pending transaction.
    pending: String,
}

fn enode() -> String {
    format!("enode://{}@10.0.0.7:30333", "0e".repeat(64))
}

impl ExampleNode {
    fn new() -> Self {
        let net = Net::indexed();
        net.send(json!({"to": account(5), "value": "0xde0b6b3a7640000", "gasPrice": "0x4a817c800"}));
        net.mine();
        let (contract, _) = deploy(&net);
        let call = net.send(json!({"to": contract, "data": word(5), "gasPrice": "0x4a817c800"}));
        let classic = transfer().sign(&key(4), 100, TxForm::Classic);
        net.ok("eth_sendRawTransaction", json!([data(classic.encode_raw())]));
        net.send(json!({"to": contract, "data": word(0xdead), "gasPrice": "0x4a817c800"}));
        let block = net.mine();
        let (_, side) = net.mine_two();
        let nephew = net.mine_with(&[&side]);
        let pending = net.send(json!({"to": account(6), "value": "0x7", "gasPrice": "0x4a817c800"}));
        net.send(json!({"to": account(6), "nonce": "0x9", "gasPrice": "0x4a817c800"}));
        let mut bad = net.build(&net.view().head_hash(), b"bad", &[]);
        bad.transactions.clear();
        bad.header.transactions_root = primitives::EMPTY_ROOT;
        net.chain.import(bad).expect_err("the roots do not match");
        net.ok("admin_addPeer", json!([enode()]));
        net.ok("admin_addTrustedPeer", json!([enode()]));
        net.ok("admin_addSubnetP2P", json!([data(PROXY), 110]));
        Self {
            net,
            folder: tempfile::tempdir().expect("a temporary folder"),
            contract,
            call,
            block,
            nephew,
            pending,
        }
    }

    fn filter(&self) -> Value {
        let topics = json!([word(0x11), [word(4), word(5)]]);
        json!({"fromBlock": "0x1", "toBlock": "latest", "address": self.contract, "topics": topics})
    }

    fn request(&self) -> Value {
        json!({"from": account(0), "to": account(5), "value": "0x1", "gasPrice": "0x4a817c800", "nonce": "0x6"})
    }

    fn raw_transaction(&self) -> String {
        let unsigned = UnsignedTransaction {
            gas: 1000,
            ..transfer()
        };
        data(unsigned.sign(&key(5), 100, TxForm::Native).encode_raw())
    }

    /// The parameters of each method's example.
    fn params(&self, method: &str) -> Value {
        let block = data(self.block.hash());
        let nephew = data(self.nephew.hash());
        let contract = &self.contract;
        let message = data(b"hello");
        let signature = || key(0).sign(&primitives::signed_message_digest(b"hello")).to_rsv();
        match method {
            "chain3_sha3" => json!([message]),
            "mc_getBalance" | "mc_getTransactionCount" => json!([account(0), "0x3"]),
            "mc_getStorageAt" => json!([contract, "0x0", "latest"]),
            "mc_getCode" | "ots_hasCode" => json!([contract, "latest"]),
            "mc_getBlockByHash" => json!([block, false]),
            "mc_getBlockByNumber" => json!(["0x3", true]),
            "mc_getHeaderByHash" | "mc_getBlockTransactionCountByHash" | "ots_getBlockDetailsByHash" => {
                json!([block])
            }
            "mc_getUncleCountByBlockHash" => json!([nephew]),
            "mc_getHeaderByNumber"
            | "mc_getBlockTransactionCountByNumber"
            | "mc_getBlockReceipts"
            | "debug_dumpBlock"
            | "debug_getRawBlock"
            | "debug_getRawHeader"
            | "debug_getRawReceipts"
            | "trace_block"
            | "ots_getBlockDetails"
            | "erigon_getHeaderByNumber" => json!(["0x3"]),
            "mc_getUncleCountByBlockNumber" | "mc_getBlockReward" => json!(["0x5"]),
            "mc_getUncleByBlockHashAndIndex" => json!([nephew, "0x0"]),
            "mc_getUncleByBlockNumberAndIndex" => json!(["0x5", "0x0"]),
            "mc_getTransactionByHash"
            | "mc_getTransactionReceipt"
            | "mc_getRawTransactionByHash"
            | "debug_getRawTransaction"
            | "trace_transaction"
            | "ots_getInternalOperations"
            | "ots_getTransactionError"
            | "ots_traceTransaction"
            | "anvil_dropTransaction"
            | "hardhat_dropTransaction" => json!([self.call]),
            "mc_getTransactionByBlockHashAndIndex" | "mc_getRawTransactionByBlockHashAndIndex" => {
                json!([block, "0x1"])
            }
            "mc_getTransactionByBlockNumberAndIndex" | "mc_getRawTransactionByBlockNumberAndIndex" => {
                json!(["0x3", "0x1"])
            }
            "mc_sign" => json!([account(0), message]),
            "mc_sendTransaction" | "mc_signTransaction" | "mc_fillTransaction" => json!([self.request()]),
            "mc_sendRawTransaction" => json!([self.raw_transaction()]),
            "mc_resend" => {
                let pending = self.net.ok("mc_getTransactionByHash", json!([self.pending]));
                let request = json!({
                    "from": account(0), "to": account(6), "value": "0x7", "nonce": pending["nonce"],
                });
                json!([request, "0x5d21dba00"])
            }
            "mc_call" => json!([{"to": contract}, "latest"]),
            "mc_getProof" => json!([contract, ["0x0", word(1)], "latest"]),
            "mc_feeHistory" => json!(["0x3", "latest", [25.5, 75]]),
            "mc_signTypedData" | "mc_signTypedData_v4" => json!([account(0), typed_data()]),
            "mc_estimateGas" | "mc_createAccessList" => {
                json!([{"from": account(0), "to": contract, "data": word(6)}, "latest"])
            }
            "mc_getLogs" | "mc_newFilter" => json!([self.filter()]),
            "mc_subscribe" => json!(["logs", {"address": contract}]),
            "mc_getFilterChanges" => {
                let id = self.net.ok("mc_newBlockFilter", json!([]));
                self.net.mine();
                json!([id])
            }
            "mc_getFilterLogs" | "mc_uninstallFilter" => {
                json!([self.net.ok("mc_newFilter", json!([self.filter()]))])
            }
            "mc_submitWork" => {
                json!([
                    "0x0000000000000001",
                    data(B256::repeat_byte(1)),
                    data(B256::repeat_byte(2))
                ])
            }
            "mc_submitHashrate" => json!(["0x500000", data(B256::repeat_byte(3))]),
            "admin_addPeer" | "admin_removePeer" | "admin_addTrustedPeer" | "admin_removeTrustedPeer" => {
                json!([enode()])
            }
            "admin_backup" => json!([self.folder.path().join("backup")]),
            "admin_startWS" => json!(["localhost", 8546, "", "mc,net,chain3"]),
            "admin_startRPC" => json!(["localhost", 8545, "", "mc,net,chain3"]),
            "admin_addSubnetP2P" | "admin_removeSubnetP2P" => json!([data(PROXY), 200]),
            "personal_newAccount" => json!(["password"]),
            "personal_importRawKey" => json!([chain::spec::DEV_ACCOUNTS[7].1, "password"]),
            "personal_unlockAccount" => json!([account(0), "", 300]),
            "personal_lockAccount" | "txpool_contentFrom" => json!([account(0)]),
            "personal_sendTransaction" => json!([self.request(), ""]),
            "personal_sign" => json!([message, account(0), ""]),
            "personal_ecRecover" => json!([message, data(signature())]),
            "miner_start" => json!([2]),
            "miner_setExtra" => json!(["a text"]),
            "miner_setGasPrice" => json!(["0x3b9aca00"]),
            "miner_setMoacbase" => json!([data(BENEFICIARY)]),
            "debug_getBlockRlp" | "debug_printBlock" => json!([1]),
            "debug_traceCall" => {
                json!([{"to": contract, "data": word(7)}, "latest", {"tracer": "prestateTracer"}])
            }
            "evm_mine" => json!([{"blocks": 2}]),
            "evm_setBlockGasLimit" | "anvil_setBlockGasLimit" => json!(["0x1c9c380"]),
            // A state without accounts, which is not compressed.
            "anvil_loadState" | "hardhat_loadState" => json!([data(br#"{"accounts":{}}"#)]),
            "vnode_tokenBalances" => json!([account(5), "latest"]),
            "evm_revert" => json!([self.net.ok("evm_snapshot", json!([]))]),
            "evm_increaseTime" => json!([3600]),
            "evm_setNextBlockTimestamp" => json!(["0xee6b2800"]),
            "evm_setAutomine" | "anvil_autoImpersonateAccount" => json!([true]),
            "evm_setIntervalMining" => json!([0]),
            "hardhat_mine" | "anvil_mine" => json!(["0x2", "0x3c"]),
            "hardhat_setBalance" | "anvil_setBalance" => json!([account(7), "0xde0b6b3a7640000"]),
            "hardhat_setCode" | "anvil_setCode" => json!([account(7), "0x600160005500"]),
            "hardhat_setNonce" | "anvil_setNonce" => json!([account(7), "0x9"]),
            "hardhat_setStorageAt" | "anvil_setStorageAt" => json!([contract, "0x0", word(9)]),
            "hardhat_impersonateAccount"
            | "anvil_impersonateAccount"
            | "hardhat_stopImpersonatingAccount"
            | "anvil_stopImpersonatingAccount"
            | "ots_getContractCreator" => json!([contract]),
            "trace_filter" => json!([{"fromBlock": "0x1", "toAddress": [contract], "count": 2}]),
            "trace_get" => json!([self.call, []]),
            "trace_replayBlockTransactions" => json!(["0x1", ["trace", "stateDiff"]]),
            "trace_replayTransaction" => json!([self.call, ["trace", "stateDiff"]]),
            "trace_call" => json!([{"to": contract, "data": word(7)}, ["trace", "stateDiff"], "latest"]),
            "trace_callMany" => {
                let (write, read) = (json!({"to": contract, "data": word(7)}), json!({"to": contract}));
                json!([[[write, ["stateDiff"]], [read, ["trace"]]], "latest"])
            }
            "trace_rawTransaction" => json!([self.raw_transaction(), ["stateDiff"]]),
            "ots_getBlockTransactions" => json!(["0x3", 0, 2]),
            "ots_searchTransactionsBefore" | "ots_searchTransactionsAfter" => json!([contract, 0, 1]),
            "ots_getTransactionBySenderAndNonce" => json!([account(0), "0x2"]),
            "debug_seedHash" => json!([30_000]),
            "debug_setHead" => json!([4]),
            "debug_traceTransaction" => json!([self.call, {"limit": 15}]),
            "debug_traceBlockByNumber" => json!(["0x3", {"tracer": "callTracer"}]),
            "debug_traceBlockByHash" => json!([block, {"tracer": "callTracer"}]),
            "debug_storageRangeAt" => json!([block, 1, contract, "0x0", 10]),
            _ => json!([]),
        }
    }
}

/// Typed data that a wallet might ask to sign.
pub(crate) fn typed_data() -> Value {
    json!({
        "types": {
            "EIP712Domain": [{"name": "name", "type": "string"}, {"name": "chainId", "type": "uint256"}],
            "Order": [{"name": "maker", "type": "address"}, {"name": "amount", "type": "uint256"}],
        },
        "primaryType": "Order",
        "domain": {"name": "Exchange", "chainId": 100},
        "message": {"maker": account(0), "amount": "7"},
    })
}

/// A network that knows access lists, with the contract of the examples at the same address.
fn net_with_access_lists(contract: &str) -> Net {
    let net = Net::of_ethereums_family(0);
    net.send(json!({"to": account(5), "value": "0x1", "gasPrice": "0x4a817c800"}));
    net.mine();
    assert_eq!(deploy(&net).0, contract);
    net
}

#[test]
fn examples_are_the_answers_of_a_node() {
    let document = document(&methods::all());
    let mut examples = Examples::read();
    let described: Vec<_> = document["methods"].as_array().expect("methods").clone();
    let mut names: Vec<String> = Vec::new();
    for described in described {
        let name = described["name"].as_str().expect("a name");
        if WITHOUT_EXAMPLE.contains(&name) {
            continue;
        }
        names.push(name.to_owned());
        let node = ExampleNode::new();
        if matches!(
            name,
            "personal_unlockAccount" | "personal_sendTransaction" | "personal_sign"
        ) {
            // These methods need an account with a key file, because only such an account has a
            // password.
            node.net.ok(
                "personal_importRawKey",
                json!([chain::spec::DEV_ACCOUNTS[0].1, ""]),
            );
        }
        let mut client = SESSION_METHODS
            .contains(&name)
            .then(|| Client::connect(&node.net));
        let params = match &mut client {
            Some(client) if name == "mc_unsubscribe" => json!([client.subscribe(json!(["newHeads"]))]),
            _ => node.params(name),
        };
        let schemas = described["params"].as_array().expect("parameters");
        let required = schemas.iter().filter(|schema| schema["required"] == true);
        assert!(
            params.as_array().map_or(0, Vec::len) >= required.count(),
            "{name}: name the parameters of its example in ExampleNode::params"
        );
        for (schema, value) in schemas.iter().zip(params.as_array().expect("an array")) {
            fits(&document, &schema["schema"], value).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        // Access lists are not known on the network of the other examples.
        let net = match name {
            "mc_createAccessList" => &net_with_access_lists(&node.contract),
            _ => &node.net,
        };
        let result = match &mut client {
            None => net.ok(name, params.clone()),
            Some(client) => {
                let mut answer = client.call(name, params.clone());
                assert!(answer.get("error").is_none(), "{name}: {answer}");
                answer["result"].take()
            }
        };
        fits(&document, &described["result"]["schema"], &result)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let varies = VARYING.contains(&name);
        let is_same = |known: &Value| WITH_RANDOM_ID.contains(&name) || known["params"] == params;
        if is_update() {
            let known = examples
                .0
                .get(name)
                .filter(|known| is_same(known) && (varies || known["result"] == result));
            if known.is_none() {
                let example = json!({"params": params, "result": result});
                examples.0.insert(name.to_owned(), example);
            }
            continue;
        }
        let example = examples
            .get(name)
            .unwrap_or_else(|| panic!("{name} has no example"));
        assert!(is_same(example), "{name}: run with UPDATE_EXAMPLES=1");
        if varies {
            fits(&document, &described["result"]["schema"], &example["result"])
                .unwrap_or_else(|error| panic!("{name}: {error}"));
        } else {
            assert_eq!(example["result"], result, "{name}: run with UPDATE_EXAMPLES=1");
        }
    }
    if is_update() {
        examples.0.retain(|name, _| names.contains(name));
        write("examples.json", &Value::Object(examples.0));
    } else {
        let unknown: Vec<_> = examples.0.keys().filter(|name| !names.contains(name)).collect();
        assert!(unknown.is_empty(), "examples of unknown methods: {unknown:?}");
    }
}

#[test]
fn the_description_file_is_the_one_that_is_served() {
    // The examples are compiled in. After they have changed, the tests must run once more.
    if is_update() {
        write("openrpc.json", &document(&methods::all()));
    }
    let file = read("openrpc.json");
    assert!(
        file == document(&methods::all()),
        "rpc/openrpc.json is stale: run twice with UPDATE_EXAMPLES=1"
    );
    check_page("methods.md", PAGE_INTRO, &file);
    let net = Net::start();
    let served = net.ok("rpc.discover", json!([]));
    assert!(
        served == file,
        "rpc.discover: the answer differs from rpc/openrpc.json"
    );
    net.check_error(
        "rpc.discover",
        json!([1]),
        -32602,
        "too many arguments, want at most 0",
    );
}
