//! The content of the chains, and the calls that are measured.
//!
//! The transactions are signed once and sent to each node in the same blocks. So both nodes give
//! the same answers, except for the seals.

use e2e::contract;
use primitives::{Address, Bytes, SecretKey, Transaction, TxForm, U256, UnsignedTransaction};
use serde_json::{Value, json};

/// Chain id of both nodes.
pub(crate) const CHAIN_ID: u64 = 100;
const GAS_PRICE: u64 = 20_000_000_000;
/// Creates a contract that counts from 8,000 to 0, in 56,000 steps.
const LOOP: &str = "0x600d8060093d393df3611f405b600190038060035700";
/// Keys of accounts that both development networks fund.
const KEYS: [&str; 4] = [
    "ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80",
    "59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d",
    "5de4111afa1a4b94908f83103eb1f1706367c2e68ca870fc3fb9a804cdab365a",
    "7c852118294e51e653712a81e05800f419141751be58f605c371e15141b007a6",
];

/// A call with its variants, which are sent in turn.
#[derive(Debug)]
pub(crate) struct MeasuredCall {
    /// Name of the method, and what is special about the call.
    pub(crate) name: &'static str,
    /// Method and parameters of each variant.
    pub(crate) requests: Vec<(&'static str, Value)>,
}

/// The transactions of both chains, and the calls.
#[derive(Debug)]
pub(crate) struct Content {
    /// Signed transactions of block 1, block 2 and so on.
    pub(crate) blocks: Vec<Vec<Transaction>>,
    calls: Vec<MeasuredCall>,
}

impl Content {
    /// One block that creates two contracts, and `blocks` blocks in which every second transaction
    /// changes the first of them, with a log.
    pub(crate) fn new(blocks: usize, transactions: usize) -> Self {
        let keys = KEYS.map(|key| SecretKey::from_hex(key).expect("a constant"));
        let mut nonces = [0; KEYS.len()];
        let mut sign = |sender: usize, to: Option<Address>, value: u64, input: Bytes, gas: u64| {
            let tx_nonce = nonces[sender];
            nonces[sender] += 1;
            UnsignedTransaction {
                tx_nonce,
                gas_price: U256::from(GAS_PRICE),
                gas,
                to,
                value: U256::from(value),
                input,
                ..UnsignedTransaction::default()
            }
            .sign(&keys[sender], CHAIN_ID, TxForm::Classic)
        };
        let code = contract::creation_code().parse().expect("hexadecimal digits");
        let counter = Transaction::created_address(&keys[0].address(), 0);
        let long = Transaction::created_address(&keys[0].address(), 1);
        let loop_code = LOOP.parse().expect("hexadecimal digits");
        let mut all = vec![vec![
            sign(0, None, 0, code, 1_000_000),
            sign(0, None, 0, loop_code, 1_000_000),
        ]];
        for _ in 0..blocks {
            let block = (0..transactions).map(|index| {
                let sender = index % KEYS.len();
                if index % 2 == 0 {
                    let input = contract::set(index as u128 + 1)
                        .parse()
                        .expect("hexadecimal digits");
                    sign(sender, Some(counter), 0, input, 100_000)
                } else {
                    let to = keys[(sender + 1) % KEYS.len()].address();
                    sign(sender, Some(to), index as u64, Bytes::new(), 21_000)
                }
            });
            all.push(block.collect());
        }
        let calls = calls(&all, &keys, &counter, &long);
        Self { blocks: all, calls }
    }

    /// The calls that are measured.
    pub(crate) fn calls(&self) -> &[MeasuredCall] {
        &self.calls
    }
}

fn calls(
    blocks: &[Vec<Transaction>],
    keys: &[SecretKey],
    counter: &Address,
    long: &Address,
) -> Vec<MeasuredCall> {
    let numbers = || (2..=blocks.len()).map(|number| format!("{number:#x}"));
    let call = |name, method, params: Vec<Value>| MeasuredCall {
        name,
        requests: params.into_iter().map(|params| (method, params)).collect(),
    };
    let hashes = blocks[1..].iter().flatten().step_by(7);
    let hashes = hashes.filter_map(Transaction::ethereum_hash);
    vec![
        call("blockNumber", "eth_blockNumber", vec![json!([])]),
        call(
            "getBalance",
            "eth_getBalance",
            keys.iter().map(|key| json!([key.address().to_string(), "latest"])).collect(),
        ),
        call(
            "call",
            "eth_call",
            vec![json!([{"to": counter.to_string(), "data": contract::get()}, "latest"])],
        ),
        call(
            "call, 56,000 steps",
            "eth_call",
            vec![json!([{"to": long.to_string()}, "latest"])],
        ),
        call(
            "feeHistory, 10 blocks",
            "eth_feeHistory",
            vec![json!(["0xa", "latest", [25, 50, 75]])],
        ),
        call(
            "getTransactionReceipt",
            "eth_getTransactionReceipt",
            hashes.map(|hash| json!([hash.to_string()])).collect(),
        ),
        call(
            "getBlockByNumber, hashes",
            "eth_getBlockByNumber",
            numbers().map(|number| json!([number, false])).collect(),
        ),
        call(
            "getBlockByNumber, full",
            "eth_getBlockByNumber",
            numbers().map(|number| json!([number, true])).collect(),
        ),
        call(
            "getLogs, a block",
            "eth_getLogs",
            numbers()
                .map(|number| {
                    json!([{"fromBlock": number, "toBlock": number, "address": counter.to_string(), "topics": [contract::CHANGED]}])
                })
                .collect(),
        ),
    ]
}
