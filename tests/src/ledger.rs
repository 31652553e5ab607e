//! A ledger that computes every balance independently, from block bodies, receipts and rewards.
//!
//! The ledger knows block 0 of the development network, the block reward of two coins and the
//! JSON-RPC interface, but not the state of the node. It covers transfers, creations and calls that
//! move value only from the sender to the receiver; the tests send no others.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::call::Caller;
use crate::quantity::{data, quantity, to_quantity};

/// One coin in the smallest unit.
pub const COIN: u128 = 1_000_000_000_000_000_000;
/// Balance of each of the ten accounts in block 0.
pub const FUNDED: u128 = 1_000_000 * COIN;
/// Reward for a block, without fees.
pub const REWARD: u128 = 2 * COIN;

/// The beneficiary of a node that mines; no account of the node, and not funded.
pub const MINER: &str = "0x00000000000000000000000000000000000000aa";
/// A receiver with no balance; no account of the node.
pub const STRANGER: &str = "0x00000000000000000000000000000000000000bb";

/// Balances by address, in lower case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BalanceLedger {
    balances: BTreeMap<String, u128>,
    /// Number of the next block to apply.
    next: u128,
}

impl BalanceLedger {
    /// The balances of block 0, in which `accounts` are funded.
    pub fn genesis(accounts: &[String]) -> Self {
        let balances = accounts
            .iter()
            .map(|account| (account.to_lowercase(), FUNDED))
            .collect();
        Self { balances, next: 1 }
    }

    /// The balance that `address` should have.
    pub fn balance(&self, address: &str) -> u128 {
        self.balances.get(&address.to_lowercase()).copied().unwrap_or(0)
    }

    fn gain(&mut self, address: &str, amount: u128) {
        *self.balances.entry(address.to_lowercase()).or_default() += amount;
    }

    fn pay(&mut self, address: &str, amount: u128) {
        let balance = self.balances.entry(address.to_lowercase()).or_default();
        *balance = balance
            .checked_sub(amount)
            .unwrap_or_else(|| panic!("balance of {address}: got {balance}, expected at least {amount}"));
    }

    /// Applies the blocks up to `number` and compares all balances at that block.
    ///
    /// # Panics
    /// If a balance differs.
    #[track_caller]
    pub fn check(&mut self, node: &Caller, number: u128) {
        while self.next <= number {
            self.apply_block(node, self.next);
            self.next += 1;
        }
        for (address, expected) in &self.balances {
            let got = quantity(&node.rpc("mc_getBalance", json!([address, to_quantity(number)])));
            assert_eq!(got, *expected, "balance of {address} at block {number}");
        }
    }

    fn apply_block(&mut self, node: &Caller, number: u128) {
        let block = node.rpc("mc_getBlockByNumber", json!([to_quantity(number), true]));
        let miner = data(&block["miner"], 20).to_owned();
        for transaction in block["transactions"].as_array().expect("a list") {
            self.apply_transaction(node, transaction, &miner);
        }
        self.gain(&miner, REWARD);
        let uncles = block["uncles"].as_array().expect("a list").len();
        for index in 0..uncles {
            let params = json!([to_quantity(number), to_quantity(index as u128)]);
            let uncle = node.rpc("mc_getUncleByBlockNumberAndIndex", params);
            let distance = number - quantity(&uncle["number"]);
            self.gain(data(&uncle["miner"], 20), REWARD * (8 - distance) / 8);
            self.gain(&miner, REWARD / 32);
        }
    }

    fn apply_transaction(&mut self, node: &Caller, transaction: &Value, miner: &str) {
        let receipt = node.rpc("mc_getTransactionReceipt", json!([transaction["hash"]]));
        let from = data(&transaction["from"], 20);
        let fee = quantity(&receipt["gasUsed"]) * quantity(&transaction["gasPrice"]);
        self.pay(from, fee);
        self.gain(miner, fee);
        if quantity(&receipt["status"]) == 1 {
            let to = if transaction["to"].is_null() {
                &receipt["contractAddress"]
            } else {
                &transaction["to"]
            };
            let value = quantity(&transaction["value"]);
            self.pay(from, value);
            self.gain(data(to, 20), value);
        }
    }
}
