//! The chain that geth and this node are asked about.
//!
//! The same transactions run by the rules of four forks. The contracts are in block 0.

use primitives::{Address, address, hex};
use serde_json::{Value, json};

use crate::mc::calls::{RUNTIME, creation, word};
use crate::mc::harness::{BENEFICIARY, Net, account, quantity};

/// The first blocks of Byzantium, Constantinople and Petersburg, as in the genesis file.
const FORKS: [u64; 3] = [3, 5, 8];

/// A contract that stores and logs a word, or reverts with it.
pub(super) const STORE: Address = address!("000000000000000000000000000000000000c001");
/// Forwards its word to [`STORE`] with CALL, CALLCODE and DELEGATECALL.
pub(super) const RELAY: Address = address!("000000000000000000000000000000000000c002");
/// Calls [`STORE`] with STATICCALL, with a word and without.
const STATIC: Address = address!("000000000000000000000000000000000000c003");
/// Calls precompiled contracts.
const BUILTIN: Address = address!("000000000000000000000000000000000000c004");
/// Never ends.
const LOOP: Address = address!("000000000000000000000000000000000000c005");
/// Calls the contracts that fail, and makes calls that have too little balance.
const FAILURES: Address = address!("000000000000000000000000000000000000c006");
/// Calls the contract that its word names, twice, with 2 sha each.
const CALLER: Address = address!("000000000000000000000000000000000000c007");
/// Runs its data as init code, with CREATE.
const CREATE: Address = address!("000000000000000000000000000000000000c008");
/// Runs its data as init code, with CREATE2.
const CREATE2: Address = address!("000000000000000000000000000000000000c009");
/// Has logs with 0 to 4 topics.
const LOGS: Address = address!("000000000000000000000000000000000000c00a");
/// Reads values of the block and of the call.
const VALUES: Address = address!("000000000000000000000000000000000000c00b");
/// Uses instructions of Constantinople.
const SHIFTS: Address = address!("000000000000000000000000000000000000c00c");

/// Contracts that fail, each in another way.
const FAILING: [(Address, &str); 6] = [
    (address!("000000000000000000000000000000000000f001"), "600356"),
    (address!("000000000000000000000000000000000000f002"), "01"),
    (address!("000000000000000000000000000000000000f003"), "fe"),
    (address!("000000000000000000000000000000000000f004"), "0c"),
    (
        address!("000000000000000000000000000000000000f005"),
        "600167ffffffffffffffff52",
    ),
    (
        address!("000000000000000000000000000000000000f006"),
        "6001600060003e",
    ),
];

/// A contract of one fork, at an address of its own: `kind` and the index of the fork.
fn of_fork(kind: u8, fork: usize) -> Address {
    let mut address = Address::with_last_byte(u8::try_from(fork).expect("few forks"));
    address.0[18] = kind;
    address
}

/// Destroys itself for its caller.
const MORTAL: u8 = 0xd0;
/// Destroys itself for itself.
const SUICIDAL: u8 = 0xd1;
/// Destroys itself for an account that does not exist.
const GENEROUS: u8 = 0xd2;
/// Sets, clears and keeps slots.
const SLOTS: u8 = 0xd3;

fn call(opcode: &str, value: &str, to: Address, gas: &str) -> String {
    format!("6000600060206000{value}73{}{gas}{opcode}50", hex::encode(to))
}

/// The genesis file: all contracts, and two accounts with a balance.
pub(super) fn genesis() -> Value {
    let mut alloc = serde_json::Map::new();
    let mut add = |address: Address, code: &str, storage: Value| {
        let code = format!("0x{}", code.replace(' ', ""));
        let account = json!({"balance": "0x64", "code": code, "storage": storage});
        alloc.insert(hex::encode(address), account);
    };
    add(STORE, &RUNTIME[2..], json!({}));
    let relay = [
        call("f1", "6003", STORE, "620186a0"),
        call("f2", "6000", STORE, "620186a0"),
        call("f4", "", STORE, "620186a0"),
    ];
    add(
        RELAY,
        &format!("602060006000 37 {} 00", relay.concat()),
        json!({}),
    );
    let store = hex::encode(STORE);
    let reads = format!(
        "6020600060206000 73{store} 61ea60 fa 6000 55 6020600060006000 73{store} 61ea60 fa 50 3d 6001 55"
    );
    add(STATIC, &reads, json!({}));
    let builtin = "6001 6000 52 6020 6000 6020 6000 6000 6002 61ffff f1 50
        6020 6020 6020 6000 6001 6004 61ffff f1 50  6020 6040 6080 6000 6000 6001 61ffff f1 50
        6020 6060 6020 6000 6000 6003 61ffff f1 50  6040 6080 6040 6000 6000 6006 61ffff f1 6000 55"
        .replace('\n', "");
    add(BUILTIN, &builtin, json!({}));
    add(LOOP, "5b600056", json!({}));
    let mut failures: String = FAILING
        .iter()
        .map(|(to, _)| call("f1", "6000", *to, "6103e8"))
        .collect();
    failures += &call("f1", "68ffffffffffffffffff", STORE, "6103e8");
    failures += "6000600068fffffffffffffffffff050";
    failures += &call("f1", "6000", LOOP, "6064");
    add(FAILURES, &failures, json!({}));
    for (address, code) in FAILING {
        add(address, code, json!({}));
    }
    let again = "6000600060006000 6002 600035 61ea60 f1 50".repeat(2);
    add(CALLER, &again, json!({}));
    add(CREATE, "3660006000 37 3660006001 f0 6000 55", json!({}));
    add(CREATE2, "3660006000 37 6007 3660006001 f5 6000 55", json!({}));
    let logs = "60aa 6000 52 60206000 a0 6001 60206000 a1 6002 6001 60106008 a2 6003 6002 6001 60006000 a3
        6004 6003 6002 6001 60406000 a4"
        .replace('\n', "");
    add(LOGS, &logs, json!({}));
    let values =
        "6020600020 50 44 50 6001 43 03 40 50 34 50 5a 50 33 50 32 50 3a 50 41 50 42 50 45 50 30 31 50
        73000000000000000000000000000000000000c001 3b 50 6003 6000 6000 39 6000 51 50 01"
            .replace('\n', "");
    add(VALUES, &values, json!({}));
    add(
        SHIFTS,
        &format!("6001 6004 1b 50 6080 6001 1c 50 73{store} 3f 60ee 3f 00"),
        json!({}),
    );
    for fork in 0..=FORKS.len() {
        add(of_fork(MORTAL, fork), "33ff", json!({word(1): word(1)}));
        add(of_fork(SUICIDAL, fork), "30ff", json!({}));
        add(
            of_fork(GENEROUS, fork),
            &format!("6002 6001 55 73{} ff", hex::encode(of_fork(0xee, fork))),
            json!({word(1): word(1)}),
        );
        add(
            of_fork(SLOTS, fork),
            "6001 6001 55 6000 6001 55 6005 6002 55 6005 6002 55 6000 6003 55 6003 54 50",
            json!({word(2): word(7), word(3): word(9)}),
        );
    }
    for index in 0..2 {
        alloc.insert(
            account(index)[2..].to_owned(),
            json!({"balance": "0x56bc75e2d63100000"}),
        );
    }
    let [byzantium, constantinople, petersburg] = FORKS;
    json!({
        "config": {
            "chainId": 4711, "homesteadBlock": 0, "eip150Block": 0, "eip155Block": 0, "eip158Block": 0,
            "byzantiumBlock": byzantium, "constantinopleBlock": constantinople, "petersburgBlock": petersburg,
            "ethash": {},
        },
        "difficulty": "0x20000", "gasLimit": "0x7a1200", "nonce": "0x0000000000000042", "alloc": alloc,
    })
}

/// Runs everything by the rules of fork `fork`, in two blocks.
fn blocks_of_fork(net: &Net, fork: usize) {
    let send = |request: Value| {
        let mut request = request;
        request["gasPrice"] = json!("0x3b9aca00");
        if request.get("gas").is_none() {
            request["gas"] = json!("0x493e0");
        }
        net.send(request)
    };
    let word_of = |address: Address| json!(address.into_word());
    send(json!({"to": Address::repeat_byte(0x11), "value": "0x5"}));
    send(json!({"to": of_fork(0xea, fork), "value": "0x0", "gas": "0x5208"}));
    send(json!({"to": Address::with_last_byte(4), "value": "0x1", "data": "0x010203"}));
    send(json!({"to": STORE, "data": word(7)}));
    send(json!({"to": STORE, "data": word(0xdead)}));
    send(json!({"to": STORE, "data": word(0)}));
    send(json!({"to": STORE, "data": word(8), "gas": "0x7530"}));
    send(json!({"to": RELAY, "data": word(9), "value": "0x3"}));
    send(json!({"to": RELAY, "data": word(0xdead)}));
    send(json!({"to": STATIC, "data": word(1)}));
    send(json!({"to": BUILTIN}));
    send(json!({"to": LOOP, "gas": "0x5300"}));
    send(json!({"to": FAILURES}));
    for (failing, _) in FAILING {
        send(json!({"to": failing, "gas": "0x5400"}));
    }
    send(json!({"to": CALLER, "data": word_of(of_fork(MORTAL, fork))}));
    send(json!({"to": of_fork(SUICIDAL, fork), "value": "0x2"}));
    send(json!({"to": of_fork(GENEROUS, fork)}));
    net.mine();
    send(json!({"to": of_fork(SLOTS, fork)}));
    send(json!({"to": of_fork(SLOTS, fork)}));
    // A good contract, an empty one, one that reverts, one that is destroyed at once, one whose
    // code is too dear.
    let init_codes = [
        &creation()[2..],
        "00",
        "60aa60005260206000fd",
        "33ff",
        "611000 6000 f3",
    ];
    for init in init_codes.map(|init| init.replace(' ', "")) {
        for to in [CREATE, CREATE2] {
            send(json!({"to": to, "data": format!("0x{init}")}));
        }
        send(json!({"data": format!("0x{init}"), "value": "0x1"}));
    }
    // The same address as before.
    send(json!({"to": CREATE2, "data": creation()}));
    send(json!({"to": LOGS}));
    send(json!({"to": VALUES, "value": "0x4"}));
    send(json!({"to": SHIFTS}));
    net.mine();
}

/// Makes the chain: for each fork its transactions, and at the end a block with an uncle. Returns
/// the blocks as RLP, one after another.
pub(super) fn blocks(net: &Net) -> Vec<u8> {
    for fork in 0..=FORKS.len() {
        blocks_of_fork(net, fork);
        let next = FORKS.get(fork).copied().unwrap_or_default();
        while net.view().head_number() + 1 < next {
            net.mine();
        }
    }
    let (_, side) = net.mine_two();
    net.mine_with(&[&side]);
    (1..=net.view().head_number())
        .flat_map(|number| {
            let rlp = net.ok("debug_getRawBlock", json!([quantity(number)]));
            hex::decode(rlp.as_str().expect("DATA")).expect("hex")
        })
        .collect()
}

/// The questions to both nodes: methods with their parameters.
pub(super) fn questions(net: &Net) -> Vec<(&'static str, Value)> {
    let mut list = Vec::new();
    let bare = json!({"disableMemory": true, "disableStack": true, "disableStorage": true});
    let head = net.view().head_number();
    for number in 0..=head {
        let at = quantity(number);
        for full in [false, true] {
            list.push(("eth_getBlockByNumber", json!([at, full])));
        }
        list.push(("eth_getBlockTransactionCountByNumber", json!([at])));
        list.push(("eth_getUncleCountByBlockNumber", json!([at])));
        if number > 0 {
            list.push(("debug_traceBlockByNumber", json!([at, {"tracer": "callTracer"}])));
            list.push(("debug_traceBlockByNumber", json!([at, bare])));
        }
        let block = net.ok("eth_getBlockByNumber", json!([at, false]));
        for hash in block["transactions"].as_array().expect("hashes") {
            for method in ["eth_getTransactionByHash", "eth_getTransactionReceipt"] {
                list.push((method, json!([hash])));
            }
            list.push(("debug_traceTransaction", json!([hash])));
            for tracer in ["callTracer", "prestateTracer", "4byteTracer", "noopTracer"] {
                list.push(("debug_traceTransaction", json!([hash, {"tracer": tracer}])));
            }
        }
        // A block in the middle of it, with all options.
        if number == FORKS[1] + 1 {
            let hash = &block["transactions"][0];
            for option in ["disableMemory", "disableStack", "disableStorage"] {
                list.push(("debug_traceTransaction", json!([hash, {option: true}])));
            }
            list.push(("debug_traceTransaction", json!([hash, {"limit": 3}])));
            list.push((
                "debug_traceBlockByHash",
                json!([block["hash"], {"tracer": "prestateTracer"}]),
            ));
            for index in [0, 2] {
                let slots = json!([block["hash"], index, of_fork(SLOTS, 2), word(0), 2]);
                list.push(("debug_storageRangeAt", slots));
            }
        }
    }
    let logs = [
        json!({"fromBlock": "0x0", "toBlock": "latest"}),
        json!({"fromBlock": "0x2", "toBlock": "0x4", "address": LOGS}),
        json!({"fromBlock": "0x1", "toBlock": "latest", "topics": [[word(1), word(0x11)]]}),
        json!({"fromBlock": "0x1", "toBlock": "latest", "topics": [null, word(7)]}),
        json!({"fromBlock": "0x1", "toBlock": "latest", "address": [STORE, RELAY], "topics": [word(0x11)]}),
        json!({"fromBlock": "0x1", "toBlock": "latest", "address": RELAY, "topics": [word(5)]}),
    ];
    list.extend(logs.map(|filter| ("eth_getLogs", json!([filter]))));
    list.extend(calls());
    list.extend(accounts(head));
    list
}

/// Calls and estimates, with good and bad ends.
fn calls() -> Vec<(&'static str, Value)> {
    let from = account(0);
    let requests = [
        json!({"to": STORE}),
        json!({"from": from, "to": STORE, "data": word(7)}),
        json!({"from": from, "to": STORE, "data": word(0xdead)}),
        json!({"from": from, "to": RELAY, "data": word(7)}),
        json!({"from": from, "to": BUILTIN}),
        json!({"from": from, "to": FAILURES, "gas": "0x493e0"}),
        json!({"from": from, "to": LOOP, "gas": "0x5300"}),
        json!({"from": from, "to": FAILING[0].0, "gas": "0x5400"}),
        json!({"from": from, "to": FAILING[1].0, "gas": "0x5400"}),
        json!({"from": from, "to": FAILING[2].0, "gas": "0x5400"}),
        json!({"from": from, "to": of_fork(SLOTS, 3)}),
        json!({"from": from, "data": creation()}),
        json!({"from": from, "to": CREATE, "data": creation()}),
        json!({"from": from, "to": Address::repeat_byte(0x77), "value": "0x1"}),
        json!({"from": from, "to": STORE, "data": word(7), "gas": "0x5208"}),
    ];
    let mut list = Vec::new();
    for request in requests {
        list.push(("eth_call", json!([request, "latest"])));
        list.push(("eth_call", json!([request, "0x2"])));
        list.push(("eth_estimateGas", json!([request])));
    }
    list
}

/// Values of accounts in some blocks, and proofs in the last one.
fn accounts(head: u64) -> Vec<(&'static str, Value)> {
    let addresses = [
        STORE,
        RELAY,
        of_fork(MORTAL, 1),
        of_fork(SLOTS, 1),
        of_fork(0xee, 1),
        BENEFICIARY,
    ];
    let mut list = Vec::new();
    for address in addresses {
        for at in [0, 2, head].map(quantity) {
            for method in ["eth_getBalance", "eth_getTransactionCount", "eth_getCode"] {
                list.push((method, json!([address, at])));
            }
            for slot in ["0x0", "0x2"] {
                list.push(("eth_getStorageAt", json!([address, slot, at])));
            }
        }
        let slots = [word(0), word(1), word(2)];
        list.push(("eth_getProof", json!([address, slots, "latest"])));
    }
    list
}
