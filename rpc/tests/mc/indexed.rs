//! The index by address: searches with it find what searches without it find, and more.

use std::time::{Duration, Instant};

use history::{AddressIndex, BlockTouches, IndexBuilder};
use primitives::{Address, keccak256};
use serde_json::{Value, json};

use crate::mc::calls::{deploy, deploy_code, word};
use crate::mc::harness::{BENEFICIARY, Net, account};

/// An account that block 0 does not have.
const STRANGER: &str = "0x00000000000000000000000000000000000000ab";

/// An account that only gets tokens.
const HOLDER: Address = Address::repeat_byte(0x44);

/// The code of a token: each call logs a transfer of 7 from account 0 to [`HOLDER`], and returns 7.
fn token() -> String {
    let topic = keccak256("Transfer(address,address,uint256)");
    let from = &account(0)[2..];
    format!("600760005273{HOLDER:x}73{from}7f{topic:x}60206000a360206000f3")
}

/// Waits until the builder has the head, and checks the index.
fn wait_for_head(net: &Net, index: &AddressIndex) {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let view = net.view();
        let next = index.read().expect("a reader").next();
        let is_built = next == view.head_number() + 1
            && history::canonical_end(&view, &index.read().expect("a reader")).expect("an end") == next;
        if is_built {
            assert_eq!(history::check(&view, index).expect("a check"), [""; 0]);
            return;
        }
        assert!(Instant::now() < end, "index: got {next} blocks");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The answers of the searches.
fn answers(net: &Net, contract: &str) -> Vec<Value> {
    let search =
        |address: &str, method: &str, block: u64, size: u64| net.ok(method, json!([address, block, size]));
    let (before, after) = ("ots_searchTransactionsBefore", "ots_searchTransactionsAfter");
    let mut answers = Vec::new();
    for address in [contract, &account(0), STRANGER] {
        for (method, block, size) in [(before, 0, 3), (before, 4, 100), (after, 0, 3), (after, 2, 100)] {
            answers.push(search(address, method, block, size));
        }
        for filter in [
            json!({"fromBlock": "0x0", "toAddress": [address]}),
            json!({"fromBlock": "0x0", "fromAddress": [address]}),
            json!({"fromBlock": "0x2", "fromAddress": [account(0)], "toAddress": [address], "after": 1, "count": 2}),
        ] {
            answers.push(net.ok("trace_filter", json!([filter])));
        }
    }
    let miner = json!([{"fromBlock": "0x1", "toBlock": "0x3", "toAddress": [BENEFICIARY]}]);
    answers.push(net.ok("trace_filter", miner));
    answers
}

#[test]
fn searches_by_the_index_find_the_same_and_tokens() {
    let net = Net::indexed();
    let (contract, _) = deploy(&net);
    for value in 1..=3_u64 {
        net.send(json!({"to": contract, "data": word(value)}));
        net.send(json!({"to": STRANGER, "value": "0x7"}));
        net.mine();
        net.mine();
    }
    let index = net.index();
    let expected = answers(&net, &contract);
    let builder = IndexBuilder::start(net.chain.clone(), index.clone()).expect("a thread");
    wait_for_head(&net, &index);
    assert_eq!(answers(&net, &contract), expected);

    // Blocks that are newer than the index count, too, and a killed builder goes on.
    drop(builder);
    let token = deploy_code(&net, &token());
    let call = net.send(json!({"to": token}));
    net.mine();
    let sent = |net: &Net, address: &str| {
        net.ok("ots_searchTransactionsBefore", json!([address, 0, 1]))["txs"][0]["hash"].clone()
    };
    assert_eq!(sent(&net, &account(0)), json!(call));
    let builder = IndexBuilder::start(net.chain.clone(), index.clone()).expect("a thread");
    wait_for_head(&net, &index);
    assert_eq!(sent(&net, &account(0)), json!(call));
    // Nobody changed the contract's account, so only the index knows of this call.
    assert_eq!(sent(&net, &format!("{token:#x}")), json!(call));
    let holder = format!("{HOLDER:#x}");
    let balances =
        json!([{"token": format!("{token:#x}"), "balance": "0x7", "decimals": "0x7", "symbol": null}]);
    assert_eq!(net.ok("vnode_tokenBalances", json!([holder])), balances);

    let (code, text) = Net::start().error("vnode_tokenBalances", &json!([holder]).to_string());
    assert!(code == -32000 && text.contains("--index address"), "{text}");

    // Blocks that are taken back leave no rows.
    net.ok("debug_setHead", json!([net.view().head_number() - 1]));
    net.ok("anvil_dropTransaction", json!([call]));
    net.mine();
    wait_for_head(&net, &index);
    assert_eq!(net.ok("vnode_tokenBalances", json!([holder])), json!([]));
    drop(builder);
}

/// An index that differs from the chain is noticed.
#[test]
fn the_check_finds_wrong_rows() {
    let net = Net::indexed();
    net.send(json!({"to": account(5), "value": "0x7"}));
    net.mine();
    let index = net.index();
    let view = net.view();
    let hash = |number| view.canonical_hash(number).expect("a read").expect("a block");
    let empty = |number| (hash(number), BlockTouches::default());
    index.append(&[empty(0), empty(1)]).expect("added");
    let faults = history::check(&view, &index).expect("a check");
    assert_eq!(
        faults,
        ["block 1: its accounts are not those of its transactions"]
    );
    index.take_back(1).expect("taken back");
    index.append(&[empty(0)]).expect("added");
    let faults = history::check(&view, &index).expect("a check");
    assert!(
        faults[0].starts_with("indexed blocks: got 2, of which the first 1 are canonical"),
        "{faults:?}"
    );
}
