//! Ethereum's names for the methods, and the members that only their answers have.

use primitives::{TxForm, U256, UnsignedTransaction};
use rpc::methods;
use rpc::types::data;
use serde_json::{Value, json};

use crate::mc::examples::SESSION_METHODS;
use crate::mc::harness::{Net, key, quantity, transfer};

/// Every method that has an alias, with the alias.
fn aliases() -> Vec<(&'static str, String)> {
    let alias = |name: &'static str| {
        let (module, method) = name.split_once('_')?;
        let other_module = match module {
            "mc" => "eth",
            "chain3" => "web3",
            _ => return None,
        };
        Some((name, format!("{other_module}_{method}")))
    };
    let found: Vec<_> = methods::all()
        .iter()
        .filter_map(|method| alias(method.name()))
        .collect();
    assert!(found.len() > 40, "{}", found.len());
    found
}

/// More parameters than any method has. The error shows whether the method was found.
const TOO_MANY: &str = "[null,null,null,null,null,null,null,null,null,null,null]";

fn request(name: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{name}","params":{TOO_MANY}}}"#)
}

/// The error code of a method that gets too many parameters over HTTP.
fn error_code(name: &str) -> i64 {
    if SESSION_METHODS.contains(&name) {
        -32000
    } else {
        -32602
    }
}

#[test]
fn every_method_has_its_alias_alone_and_in_batches() {
    let net = Net::start();
    let batch: Vec<_> = aliases().iter().map(|(_, alias)| request(alias)).collect();
    let batch = net.post(&format!("[{}]", batch.join(",")));
    let batch: Vec<Value> = serde_json::from_str(&batch).expect("a batch");
    for ((name, alias), in_batch) in aliases().iter().zip(&batch) {
        let own: Value = serde_json::from_str(&net.post(&request(name))).expect("JSON");
        assert_eq!(own["error"]["code"], error_code(name), "{name}");
        let alone: Value = serde_json::from_str(&net.post(&request(alias))).expect("JSON");
        assert_eq!(alone, own, "{alias}");
        assert_eq!(*in_batch, own, "{alias} in a batch");
    }
}

#[test]
fn aliases_can_be_left_out() {
    let rows = methods::all()
        .into_iter()
        .map(rpc::Method::without_alias)
        .collect();
    let net = Net::with_rows(|_| (), rows);
    for (name, alias) in aliases() {
        assert_eq!(net.error(&alias, TOO_MANY).0, -32601, "{alias}");
        assert_eq!(net.error(name, TOO_MANY).0, error_code(name), "{name}");
    }
}

#[test]
fn ethereum_clients_see_ethereum_hashes() {
    let net = Net::start();
    let unsigned = UnsignedTransaction {
        gas_price: U256::from(20),
        ..transfer()
    };
    let classic = unsigned.sign(&key(4), 100, TxForm::Classic);
    let native = unsigned.sign(&key(5), 100, TxForm::Native);
    for sent in [&classic, &native] {
        net.ok("eth_sendRawTransaction", json!([data(sent.encode_raw())]));
    }
    let ethereum_hash = data(classic.ethereum_hash().expect("nine fields"));
    let (stored, native_hash) = (data(classic.hash()), data(native.hash()));
    let pending = net.ok("eth_getTransactionByHash", json!([ethereum_hash]));
    assert_eq!(
        (&pending["hash"], &pending["blockHash"]),
        (&json!(ethereum_hash), &Value::Null)
    );
    let block = net.mine();
    let ethereum_v = quantity(classic.ethereum_v().expect("nine fields"));

    for hash in [&ethereum_hash, &stored] {
        let shown = net.ok("eth_getTransactionByHash", json!([hash]));
        assert_eq!(shown["hash"], json!(ethereum_hash));
        assert_eq!(shown["v"], json!(ethereum_v));
        assert_eq!(shown["type"], "0x0");
        let receipt = net.ok("eth_getTransactionReceipt", json!([hash]));
        assert_eq!(receipt["transactionHash"], json!(ethereum_hash));
        assert_eq!(
            (&receipt["type"], &receipt["effectiveGasPrice"]),
            (&json!("0x0"), &json!("0x14"))
        );
        let receipt = net.ok("mc_getTransactionReceipt", json!([hash]));
        assert_eq!(receipt["transactionHash"], json!(stored));
        assert!(receipt.get("type").is_none() && receipt.get("effectiveGasPrice").is_none());
        let raw = net.ok("eth_getRawTransactionByHash", json!([hash]));
        assert_eq!(raw, json!(data(classic.encode_raw())));
        let raw = net.ok("mc_getRawTransactionByHash", json!([hash]));
        assert_eq!(raw, json!(data(classic.encode())));
    }
    let index = block
        .transactions
        .iter()
        .position(|tx| tx.hash() == classic.hash());
    let index = quantity(index.expect("it is in the block"));
    let by_index = json!([data(block.hash()), index]);
    let shown = net.ok("eth_getTransactionByBlockHashAndIndex", by_index);
    assert_eq!(shown["hash"], json!(ethereum_hash));

    let hashes = |method: &str, full: bool| -> Vec<Value> {
        let block = net.ok(method, json!(["latest", full]));
        let list = block["transactions"].as_array().expect("an array").clone();
        let mut hashes: Vec<_> = list
            .into_iter()
            .map(|transaction| {
                if full {
                    transaction["hash"].clone()
                } else {
                    transaction
                }
            })
            .collect();
        hashes.sort_by_key(Value::to_string);
        hashes
    };
    let sorted = |hashes: [&String; 2]| {
        let mut hashes = hashes.map(|hash| json!(hash));
        hashes.sort_by_key(Value::to_string);
        hashes
    };
    for full in [false, true] {
        assert_eq!(
            hashes("eth_getBlockByNumber", full),
            sorted([&ethereum_hash, &native_hash])
        );
        assert_eq!(
            hashes("mc_getBlockByNumber", full),
            sorted([&stored, &native_hash])
        );
    }
    // Ethereum has no form for a native transaction, so it is shown as it is.
    let shown = net.ok("eth_getTransactionByHash", json!([native_hash]));
    assert_eq!(
        (&shown["hash"], &shown["v"]),
        (&json!(native_hash), &json!(quantity(native.v)))
    );
}

#[test]
fn the_pending_block_can_show_its_number() {
    let net = Net::with(|settings| settings.pending_number = Some(true));
    net.mine();
    for method in ["mc_getBlockByNumber", "eth_getBlockByNumber"] {
        let pending = net.ok(method, json!(["pending", false]));
        assert_eq!(
            (&pending["number"], &pending["hash"], &pending["nonce"]),
            (&json!("0x2"), &Value::Null, &Value::Null)
        );
    }
    // ethers 5 and 6 cannot read a block without a number.
    let net = Net::start();
    let number = |method: &str| net.ok(method, json!(["pending", false]))["number"].clone();
    assert_eq!(number("eth_getBlockByNumber"), "0x1");
    assert_eq!(number("mc_getBlockByNumber"), Value::Null);
}
