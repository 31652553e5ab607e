//! The module `vnode`: the settings of the service for application chains, and transactions for
//! such chains.

use primitives::{Address, TxForm, U256, UnsignedTransaction};
use rpc::types::data;
use serde_json::{Value, json};

use crate::mc::harness::{Net, PROXY, account, key};

#[test]
fn the_settings() {
    let net = Net::start();
    let check = |net: &Net, method: &str, expected: Value| {
        assert_eq!(net.ok(method, json!([])), expected, "{method}");
        net.check_error(method, json!([1]), -32602, "too many arguments, want at most 0");
    };
    check(&net, "vnode_address", json!(data(PROXY)));
    check(&net, "vnode_scsService", json!(true));
    check(&net, "vnode_serviceCfg", json!(":50062"));
    check(&net, "vnode_showToPublic", json!(true));
    check(&net, "vnode_vnodeIP", json!("52.1.2.3"));
    let bare = Net::without_service(|settings| settings.vnode = Default::default());
    check(&bare, "vnode_address", json!(data(Address::ZERO)));
    check(&bare, "vnode_scsService", json!(false));
    check(&bare, "vnode_vnodeIP", json!(""));
    // The port in the settings is told if the service does not run.
    let off = Net::without_service(|settings| settings.vnode.service_port = 7);
    check(&off, "vnode_scsService", json!(false));
    check(&off, "vnode_serviceCfg", json!(":7"));
    let on = Net::with(|settings| settings.vnode.service_port = 7);
    check(&on, "vnode_serviceCfg", json!(":50062"));
}

/// The errors of a transaction for an application chain: sent as an object, and sent raw.
fn errors(net: &Net, sharding_flag: u64, via: Option<Address>) -> (String, String) {
    let unsigned = UnsignedTransaction {
        gas_price: U256::from(1),
        gas: 1000,
        to: Some(key(5).address()),
        sharding_flag,
        via,
        ..Default::default()
    };
    let raw = unsigned.sign(&key(4), 100, TxForm::Native).encode_raw();
    let object = json!({
        "from": account(0), "to": account(5), "shardingFlag": format!("{sharding_flag:#x}"),
        "via": via.map_or_else(|| "0x".to_owned(), data),
    });
    let error = |method: &str, params: Value| {
        let (code, message) = net.error(method, &params.to_string());
        assert_eq!(code, -32000, "{message}");
        message
    };
    let sent = error("mc_sendTransaction", json!([object]));
    (sent, error("mc_sendRawTransaction", json!([data(raw)])))
}

#[test]
fn transactions_for_application_chains_need_their_service() {
    let net = Net::without_service(|_| ());
    let check = |net: &Net, flag, via, sent: &str, raw: &str| {
        let expected = (sent.to_owned(), raw.to_owned());
        assert_eq!(errors(net, flag, via), expected, "{flag} {via:?}");
    };
    let other = "Mismatch address between VIA and VNODE PROXY when shardingFlag set";
    for flag in 1..=3 {
        let no_service = format!(
            "shardingFlag {flag}: no service for servers of application chains runs on this node: \
             SCSService in vnodeconfig.json starts it"
        );
        check(&net, flag, Some(PROXY), &no_service, &no_service);
    }
    let running = Net::start();
    for net in [&net, &running] {
        for flag in 1..=3 {
            check(net, flag, Some(Address::repeat_byte(9)), other, "via error");
            check(net, flag, None, "Empty via with shardingFlag set", "via error");
        }
        check(net, 4, Some(PROXY), "shardingFlag error", "shardingFlag error");
        check_pool_is_empty(net);
    }
    // A node without a proxy address does not use the zero address instead.
    let bare = Net::with(|settings| settings.vnode.beneficial_address = None);
    check(&bare, 1, Some(Address::ZERO), other, "via error");
}

fn check_pool_is_empty(net: &Net) {
    assert_eq!(
        net.ok("txpool_status", json!([])),
        json!({"pending": "0x0", "queued": "0x0"})
    );
}

#[test]
fn transactions_for_application_chains_go_to_their_service() {
    let net = Net::start();
    let service = net.service.as_ref().expect("it runs");
    let last = || service.taken.lock().last().cloned().expect("one was taken");
    for flag in 1..=3_u64 {
        let unsigned = UnsignedTransaction {
            tx_nonce: flag,
            to: Some(key(5).address()),
            sharding_flag: flag,
            via: Some(PROXY),
            ..Default::default()
        };
        // Neither the nonce nor the balance is checked: account 4 has no other transaction.
        let signed = unsigned.sign(&key(4), 100, TxForm::Native);
        let raw = json!([data(signed.encode_raw())]);
        assert_eq!(
            net.ok("mc_sendRawTransaction", raw.clone()),
            json!(data(signed.hash()))
        );
        assert_eq!(last(), signed);
        net.check_error("mc_sendRawTransaction", raw, -32000, "Marked transactions");
        let object = json!({
            "from": account(0), "to": account(5), "shardingFlag": format!("{flag:#x}"), "via": data(PROXY),
            "nonce": format!("{:#x}", 70 + flag), "data": "0x01", "gas": "0x0", "gasPrice": "0x0",
        });
        let hash = net.ok("mc_sendTransaction", json!([object]));
        let sent = last();
        assert_eq!(hash, json!(data(sent.hash())));
        assert_eq!(
            (sent.sharding_flag, sent.tx_nonce, sent.gas),
            (flag, 70 + flag, 0)
        );
        assert_eq!(sent.recover_sender(true).ok(), Some(key(0).address()));
        assert_eq!(net.ok("mc_getTransactionByHash", json!([hash])), Value::Null);
    }
    check_pool_is_empty(&net);
    assert_eq!(net.mine().transactions, []);
}
