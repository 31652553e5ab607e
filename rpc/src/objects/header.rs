//! The header object: a block (interface 2.2) without its body, as subscriptions tell of it.

use primitives::{Address, B256, Bloom, Header, U256};
use serde::Serialize;

use crate::types::{Data, Quantity};

/// A header as JSON.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HeaderObject<'a> {
    number: Quantity,
    hash: Data<B256>,
    parent_hash: Data<B256>,
    nonce: Data<[u8; 8]>,
    mix_hash: Data<B256>,
    #[serde(rename = "sha3Uncles")]
    uncles_hash: Data<B256>,
    logs_bloom: Data<&'a Bloom>,
    transactions_root: Data<B256>,
    state_root: Data<B256>,
    receipts_root: Data<B256>,
    miner: Data<Address>,
    difficulty: Quantity<U256>,
    extra_data: Data<&'a [u8]>,
    gas_limit: Quantity,
    gas_used: Quantity,
    timestamp: Quantity,
}

impl<'a> HeaderObject<'a> {
    /// Shows `header`, whose hash is `hash`.
    pub fn new(header: &'a Header, hash: B256) -> Self {
        Self {
            number: Quantity(header.number),
            hash: Data(hash),
            parent_hash: Data(header.parent_hash),
            nonce: Data(header.pow_nonce.to_be_bytes()),
            mix_hash: Data(header.mix_hash),
            uncles_hash: Data(header.uncles_hash),
            logs_bloom: Data(&header.logs_bloom),
            transactions_root: Data(header.transactions_root),
            state_root: Data(header.state_root),
            receipts_root: Data(header.receipts_root),
            miner: Data(header.beneficiary),
            difficulty: Quantity(header.difficulty),
            extra_data: Data(&header.extra_data),
            gas_limit: Quantity(header.gas_limit),
            gas_used: Quantity(header.gas_used),
            timestamp: Quantity(header.timestamp),
        }
    }
}
