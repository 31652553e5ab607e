//! A second bookkeeper: follows every balance from block bodies, receipts and rewards.
//!
//! Knows the development network's genesis, its reward of two coins and the interface; knows
//! nothing of the node's state. It follows plain transfers, creations and calls that move
//! value from sender to receiver only, which is all that the tests send.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::call::Caller;
use crate::quantity::{data, quantity, to_quantity};

/// Smallest units in a coin.
pub const COIN: u128 = 1_000_000_000_000_000_000;
/// What each of the ten accounts has in block 0.
pub const FUNDED: u128 = 1_000_000 * COIN;
/// What a block is worth to its miner, beside fees.
pub const REWARD: u128 = 2 * COIN;

/// Balances by address, in lower case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    balances: BTreeMap<String, u128>,
    next: u128,
}

impl Ledger {
    /// The balances of block 0, where `accounts` are funded.
    pub fn genesis(accounts: &[String]) -> Self {
        let balances = accounts
            .iter()
            .map(|account| (account.to_lowercase(), FUNDED))
            .collect();
        Self { balances, next: 1 }
    }

    /// What `address` should have.
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
            .unwrap_or_else(|| panic!("{address} pays {amount} of {balance}"));
    }

    /// Follows the chain up to block `number` and compares all balances there.
    ///
    /// # Panics
    /// When a balance differs.
    #[track_caller]
    pub fn check(&mut self, node: &Caller, number: u128) {
        while self.next <= number {
            self.follow(node, self.next);
            self.next += 1;
        }
        for (address, expected) in &self.balances {
            let got = quantity(&node.rpc("mc_getBalance", json!([address, to_quantity(number)])));
            assert_eq!(got, *expected, "balance of {address} at block {number}");
        }
    }

    fn follow(&mut self, node: &Caller, number: u128) {
        let block = node.rpc("mc_getBlockByNumber", json!([to_quantity(number), true]));
        let miner = data(&block["miner"], 20).to_owned();
        for transaction in block["transactions"].as_array().expect("a list") {
            self.follow_transaction(node, transaction, &miner);
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

    fn follow_transaction(&mut self, node: &Caller, transaction: &Value, miner: &str) {
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
