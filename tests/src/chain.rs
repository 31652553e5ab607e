//! The calls that most tests make.

use serde_json::{Value, json};

use crate::call::Caller;
use crate::quantity::{data, quantity, to_quantity};
use crate::wait::{wait_for, wait_to_reach};

impl Caller {
    /// Number of the head.
    #[track_caller]
    pub fn head(&self) -> u128 {
        quantity(&self.rpc("mc_blockNumber", json!([])))
    }

    /// Block `number` with transaction hashes; null if there is no such block.
    #[track_caller]
    pub fn block(&self, number: u128) -> Value {
        self.rpc("mc_getBlockByNumber", json!([to_quantity(number), false]))
    }

    /// The head block with transaction hashes.
    #[track_caller]
    pub fn head_block(&self) -> Value {
        self.rpc("mc_getBlockByNumber", json!(["latest", false]))
    }

    /// Balance of `address` at the head.
    #[track_caller]
    pub fn balance(&self, address: &str) -> u128 {
        quantity(&self.rpc("mc_getBalance", json!([address, "latest"])))
    }

    /// The accounts that the node signs for.
    #[track_caller]
    pub fn accounts(&self) -> Vec<String> {
        let accounts = self.rpc("mc_accounts", json!([]));
        let list = accounts
            .as_array()
            .unwrap_or_else(|| panic!("got {accounts}, expected a list"));
        list.iter().map(|account| data(account, 20).to_owned()).collect()
    }

    /// Sends a transaction from an account of the node. Returns its hash.
    #[track_caller]
    pub fn send(&self, transaction: Value) -> String {
        data(&self.rpc("mc_sendTransaction", json!([transaction])), 32).to_owned()
    }

    /// Waits until the transaction `hash` is mined. Returns its receipt.
    #[track_caller]
    pub fn receipt(&self, hash: &str) -> Value {
        wait_for("a receipt", || {
            let receipt = self.rpc("mc_getTransactionReceipt", json!([hash]));
            (!receipt.is_null()).then_some(receipt)
        })
    }

    /// Waits until the head has at least the number `number`. Returns the number of the head.
    #[track_caller]
    pub fn wait_for_head(&self, number: u128) -> u128 {
        wait_to_reach("the number of the head", number, || self.head())
    }
}
