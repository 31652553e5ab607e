//! Ethereum's methods at the path of a MicroChain, by a chain with block 0 and a pool of its own.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};

use chain::Chain;
use chain::application::ApplicationRules;
use chain::call::CallRequest;
use chain::genesis::ensure_genesis;
use chain::pool::{PendingFeed, PendingHashes, PoolContent, PooledTransaction};
use primitives::{Address, B256, Bytes, Transaction, TxForm, U256, UnsignedTransaction};
use rpc::types::data;
use rpc::{ApplicationPool, Node, RpcError, RpcResult};
use serde_json::{Value, json};
use store::Store;

use super::harness::{CHAIN, DAPP, TestScs, UNKNOWN, user};

/// Tokens of the owner, who is the user.
const SUPPLY: u64 = 1000;

const fn rules(owner: Address) -> ApplicationRules {
    ApplicationRules {
        address: CHAIN,
        owner,
        supply: U256::from_limbs([SUPPLY, 0, 0, 0]),
        withdrawal_min: U256::ZERO,
    }
}

/// Takes everything but creations.
#[derive(Default)]
struct OnePool(Mutex<Option<PooledTransaction>>, Mutex<PendingFeed>);

impl ApplicationPool for OnePool {
    fn submit(&self, transaction: Transaction) -> RpcResult<()> {
        if transaction.to.is_none() {
            return Err(RpcError::refused("creations are refused"));
        }
        let pooled = PooledTransaction {
            hash: transaction.hash(),
            transaction: Arc::new(transaction),
            sender: user().address(),
            order: 0,
        };
        self.1.lock().expect("no panic").push(pooled.hash);
        *self.0.lock().expect("no panic") = Some(pooled);
        Ok(())
    }

    fn content(&self) -> PoolContent {
        PoolContent::default()
    }

    fn get(&self, hash: &B256) -> Option<PooledTransaction> {
        let pooled = self.0.lock().expect("no panic").clone()?;
        let is_it = pooled.hash == *hash || pooled.transaction.ethereum_hash() == Some(*hash);
        is_it.then_some(pooled)
    }

    fn next_nonce(&self, account: &Address) -> Option<u64> {
        (*account == user().address()).then_some(4)
    }

    fn pending_cursor(&self) -> u64 {
        self.1.lock().expect("no panic").cursor()
    }

    fn pending_since(&self, cursor: u64, max: usize) -> PendingHashes {
        self.1.lock().expect("no panic").since(cursor, max)
    }

    fn check_call(&self, request: &CallRequest) -> RpcResult<()> {
        match request.to {
            Some(DAPP) => Err(RpcError::refused("no Dapp")),
            _ => Ok(()),
        }
    }
}

/// The node of the MicroChain.
pub(crate) fn node() -> Arc<Node> {
    let spec = Arc::new(rules(user().address()).spec(100, Bytes::new()));
    let store = Store::in_memory().expect("a store in memory");
    ensure_genesis(&store, &spec).expect("block 0");
    let chain = Chain::follower(store, spec).expect("a follower");
    let node = Node::of_application(chain, Arc::new(OnePool::default()), "scs/test".to_owned());
    Arc::new(node.expect("a thread"))
}

/// Sends a request, and returns status and body of the response.
fn exchange(address: SocketAddr, method: &str, path: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).expect("the server listens");
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).expect("the server reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("the server answers");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a response");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    (status.expect("a status"), body.to_owned())
}

fn answer(scs: &TestScs, path: &str, method: &str, params: &Value) -> Value {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
    let (status, body) = exchange(scs.address(), "POST", path, &body);
    assert_eq!(status, 200, "{body}");
    serde_json::from_str(&body).expect("JSON")
}

fn ok(scs: &TestScs, method: &str, params: Value) -> Value {
    let mut answer = answer(scs, &format!("/chain/{CHAIN:#x}"), method, &params);
    assert!(answer.get("error").is_none(), "{method} {params}: {answer}");
    answer["result"].take()
}

fn error(scs: &TestScs, method: &str, params: Value) -> String {
    let answer = answer(scs, &format!("/chain/{CHAIN:#x}"), method, &params);
    let message = answer["error"]["message"].as_str();
    message.unwrap_or_else(|| panic!("{method}: {answer}")).to_owned()
}

#[test]
fn a_wallet_finds_a_chain_of_its_own() {
    let scs = TestScs::start();
    let id = rules(user().address()).chain_id(100);
    assert_eq!(ok(&scs, "eth_chainId", json!([])), json!(format!("{id:#x}")));
    assert_eq!(ok(&scs, "net_version", json!([])), json!(id.to_string()));
    assert_eq!(ok(&scs, "web3_clientVersion", json!([])), json!("scs/test"));
    assert_eq!(ok(&scs, "eth_gasPrice", json!([])), json!("0x0"));
    assert_eq!(ok(&scs, "eth_accounts", json!([])), json!([]));
    let account = data(user().address());
    for at in ["latest", "pending", "safe"] {
        assert_eq!(ok(&scs, "eth_getBalance", json!([account, at])), json!("0x3e8"));
        assert_eq!(
            ok(&scs, "eth_getBlockByNumber", json!([at, false]))["number"],
            "0x0"
        );
    }
    assert_eq!(
        ok(&scs, "eth_getTransactionCount", json!([account, "latest"])),
        json!("0x0")
    );
    assert_eq!(
        ok(&scs, "eth_getTransactionCount", json!([account, "pending"])),
        json!("0x4")
    );
    // At least what Ethereum would take, because libraries sign with no less.
    let transfer = json!([{"from": account, "to": data(UNKNOWN), "value": "0x1"}]);
    assert_eq!(ok(&scs, "eth_estimateGas", transfer), json!("0x5208"));
    let call = json!([{"from": account, "to": data(DAPP), "data": "0x01"}]);
    assert_eq!(error(&scs, "eth_estimateGas", call), "no Dapp");
    let filter = ok(&scs, "eth_newBlockFilter", json!([]));
    assert_eq!(ok(&scs, "eth_getFilterChanges", json!([filter])), json!([]));
    assert_eq!(ok(&scs, "eth_getLogs", json!([{}])), json!([]));
    // CHAINID is the one that the wallet signs for.
    let code = "0x4660005260206000f3";
    let word = ok(&scs, "eth_call", json!([{"data": code}, "latest"]));
    assert_eq!(word, json!(format!("0x{id:064x}")));
}

#[test]
fn a_wallet_sends_and_finds_what_it_sent() {
    let scs = TestScs::start();
    let id = rules(user().address()).chain_id(100);
    let unsigned = UnsignedTransaction {
        to: Some(UNKNOWN),
        value: U256::from(7),
        gas: 21_000,
        ..Default::default()
    };
    let sent = unsigned.sign(&user(), id, TxForm::Classic);
    let hash = data(sent.ethereum_hash().expect("a wallet's"));
    let raw = data(sent.encode_raw());
    let filter = ok(&scs, "eth_newPendingTransactionFilter", json!([]));
    assert_eq!(ok(&scs, "eth_sendRawTransaction", json!([raw])), json!(hash));
    let pending = ok(&scs, "eth_getFilterChanges", json!([filter]));
    assert_eq!(pending, json!([hash]), "the pool of the MicroChain feeds it");
    let found = ok(&scs, "eth_getTransactionByHash", json!([hash]));
    assert_eq!(
        (&found["hash"], &found["blockHash"]),
        (&json!(hash), &Value::Null)
    );
    assert_eq!(ok(&scs, "eth_getTransactionReceipt", json!([hash])), Value::Null);
    let creation = UnsignedTransaction { to: None, ..unsigned };
    let creation = creation.sign(&user(), id, TxForm::Classic).encode_raw();
    let reason = error(&scs, "eth_sendRawTransaction", json!([data(creation)]));
    assert_eq!(reason, "creations are refused");
    for got in [1, 2] {
        let raw = format!("0x0{got}c0");
        let typed = error(&scs, "eth_sendRawTransaction", json!([raw]));
        let expected = format!("transaction type: got {got}, expected 0");
        assert!(
            typed.starts_with(&expected) && typed.contains("gasPrice"),
            "{typed}"
        );
    }
    // So that libraries choose type 0 themselves.
    let head = ok(&scs, "eth_getBlockByNumber", json!(["latest", false]));
    assert_eq!(head.get("baseFeePerGas"), None);
}

#[test]
fn each_path_has_its_methods() {
    let scs = TestScs::start();
    let chain = format!("/chain/{CHAIN:#x}");
    let is_missing =
        |path: &str, method: &str| answer(&scs, path, method, &json!([]))["error"]["code"] == -32601;
    assert!(is_missing("/", "eth_chainId") && is_missing(&chain, "scs_getSCSId"));
    assert!(is_missing(&chain, "eth_getWork") && is_missing(&chain, "debug_setHead"));
    assert!(is_missing(&chain, "txpool_status"), "not among the modules");
    assert!(!is_missing(&chain, "debug_getBlockRlp"));
    let request = r#"{"jsonrpc":"2.0","id":1,"method":"eth_chainId","params":[]}"#;
    let status = |method, path: &str| exchange(scs.address(), method, path, request).0;
    assert_eq!(status("POST", &format!("/chain/{CHAIN}")), 200, "any case");
    for unknown in [format!("/chain/{UNKNOWN:#x}"), "/chain/0x12".to_owned()] {
        assert_eq!(status("POST", &unknown), 404, "{unknown}");
    }
    for elsewhere in ["/chain/", "/chain", "/elsewhere", &format!("{chain}/more")] {
        assert_eq!(status("POST", elsewhere), 404, "{elsewhere}");
        assert_eq!(status("GET", elsewhere), 404, "{elsewhere}");
    }
    assert_eq!(status("GET", &chain), 200);
    assert_eq!(status("PUT", &chain), 405);
}
