//! A contract that logs its input, for the tests of filters and subscriptions.

use serde_json::{Value, json};

use crate::mc::harness::Net;

/// Runtime: LOG2 with the input's first two words as topics and its third as data.
const RUNTIME: &str = "6040356000526020356000356020 6000a200";
/// Constructor: returns the 18 bytes after it as the code.
const CREATION: &str = "6012600c60003960126000f3";

/// A word of one repeated byte.
pub(crate) fn word(byte: u8) -> String {
    format!("0x{}", format!("{byte:02x}").repeat(32))
}

/// The deployed contract.
pub(crate) struct Logger {
    pub(crate) address: String,
}

impl Logger {
    /// Deploys the contract in a block of its own.
    pub(crate) fn create(net: &Net) -> Self {
        let code = format!("0x{CREATION}{}", RUNTIME.replace(' ', ""));
        let hash = net.send(json!({ "data": code, "gas": "0x30d40" }));
        net.mine();
        let receipt = net.ok("mc_getTransactionReceipt", json!([hash]));
        assert_eq!(receipt["status"], "0x1", "{receipt}");
        Self {
            address: receipt["contractAddress"]
                .as_str()
                .expect("an address")
                .to_owned(),
        }
    }

    /// Sends a transaction that logs these topics and this data. Returns its hash.
    pub(crate) fn log(&self, net: &Net, first: u8, second: u8, data: u8) -> String {
        let words: String = [first, second, data]
            .map(|byte| word(byte)[2..].to_owned())
            .concat();
        net.send(json!({ "to": self.address, "data": format!("0x{words}"), "gas": "0x186a0" }))
    }
}

/// The first data byte of each log in an array of log objects.
pub(crate) fn data_of(logs: &Value) -> Vec<u8> {
    let logs = logs
        .as_array()
        .unwrap_or_else(|| panic!("want an array, got {logs}"));
    logs.iter()
        .map(|log| u8::from_str_radix(&log["data"].as_str().expect("data")[2..4], 16).expect("digits"))
        .collect()
}
