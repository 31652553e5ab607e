//! The npm package `@grpc/grpc-js` as an SCS: the service for application chains, message by
//! message, with a contract that answers for the roles.

use e2e::clients::javascript;
use e2e::microchain::PROXY;
use serde_json::{Value, json};

use super::text;
use crate::vnode::scs_service::{CHAIN_RUNTIME, deploy, service, serving};

const IDS: [&str; 2] = [
    "0x1111111111111111111111111111111111111111",
    "0x2222222222222222222222222222222222222222",
];
#[test]
fn an_scs_of_others_is_served() {
    let Some(clients) = javascript() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let node = serving(folder.path(), "localhost:0", &[]);
    let service = service(&node);
    let (_, port) = service.rsplit_once(':').expect("a port");
    assert_eq!(node.rpc("vnode_scsService", json!([])), true);
    assert_eq!(node.rpc("vnode_serviceCfg", json!([])), format!(":{port}"));
    let enode = node.rpc("admin_nodeInfo", json!([]))["enode"].to_string();
    assert!(enode.contains(&format!("servicecfgport={port}")), "{enode}");
    let (chain, account) = (deploy(&node), node.accounts()[0].clone());
    let result = clients.run(
        "scs-service.mjs",
        &json!({
            "service": service, "url": node.url(), "chain": chain, "ids": IDS, "chainId": 100,
            "account": account, "via": PROXY,
        }),
    );
    let shaken = json!({"text": "shakereply", "sender": PROXY, "flag": false});
    assert_eq!(result["handshake"], shaken);
    let heads = result["heads"].as_array().expect("a list");
    assert!(
        heads
            .windows(2)
            .all(|two| text(&two[0]).len() <= text(&two[1]).len() && two[0] != two[1])
    );
    let node_id = text(&node.rpc("admin_nodeInfo", json!([]))["id"])
        .trim_start_matches("0x")
        .to_owned();
    let notice = json!({"status": 9, "chain": chain, "receiver": chain, "requestid": node_id});
    assert_eq!(result["notice"], notice);

    let call = &result["call"];
    let rlp = |address: &str| format!("0x94{}", &address[2..]);
    assert_eq!(
        (text(&call["sender"]), text(&call["receiver"])),
        (&*rlp(&account), &*rlp(&chain))
    );
    assert_eq!((text(&call["flag"]), text(&call["via"])), ("0x01", PROXY));
    let raw = hex::decode(&text(&call["rlp"])[2..]).expect("hex");
    assert_eq!(text(&call["hash"]), format!("{:#x}", primitives::keccak256(raw)));
    assert_eq!(result["known"], "Marked transactions");
    assert_eq!(result["found"], Value::Null);
    assert_eq!(
        result["broadcast"],
        json!({"content": "a block", "echoed": false})
    );
    let refused = json!({"code": 3, "details": "subchainid: got 1 bytes, expected 0, 20 or 21"});
    assert_eq!(result["refused"], refused);

    assert_eq!(text(&result["account"][0]), account);
    assert_eq!(result["account"].as_array().map(Vec::len), Some(8));
    let contract: Value = serde_json::from_str(text(&result["contract"])).expect("JSON");
    let code = node.rpc("mc_getCode", json!([chain, "latest"]));
    assert_eq!(text(&code), format!("0x{CHAIN_RUNTIME}"));
    assert_eq!((&contract["Balance"], &contract["Nonce"]), (&json!(0), &json!(1)));
    assert_eq!(contract["Storage"], json!({}));
    assert_eq!(
        (&result["sent"], &result["paid"]),
        (&json!("success"), &json!("0x5"))
    );
    assert!(
        text(&result["repeated"]).starts_with("nonce too low"),
        "{}",
        result["repeated"]
    );
    assert_eq!(text(&result["role"]), format!("0x{:064x}", 1));
    assert_eq!(
        (&result["kept"], &result["fetched"]),
        (&json!("success"), &json!("the block"))
    );
    assert_eq!(result["gone"], "");
    assert_eq!(
        node.rpc("txpool_status", json!([])),
        json!({"pending": "0x0", "queued": "0x0"}),
        "the transaction of the MicroChain never was in the pool"
    );
}
