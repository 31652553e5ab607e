//! The basic types of the chain: transactions, headers, blocks, receipts and logs, with their RLP,
//! hashes and signatures.
//!
//! RLP is decoded strictly: each value has exactly one accepted encoding (see [`rlp`]). Knows
//! bytes, hashes and secp256k1. Knows no rule that needs a block number or a state (forks, gas,
//! balances, nonces), and no trie, seal, storage or JSON.

mod address_text;
mod block;
mod enode;
mod error;
mod header;
mod key;
mod panic;
mod receipt;
pub mod rlp;
mod transaction;
mod units;

pub use alloy_primitives::utils::{format_ether, parse_ether};
pub use alloy_primitives::{
    Address, B64, B256, B512, Bloom, BloomInput, Bytes, U64, U256, address, b256, bytes, hex, keccak256, uint,
};
pub use alloy_rlp::Encodable;

pub use address_text::{AddressTextError, parse_address};
pub use block::{Block, uncles_hash};
pub use enode::{Enode, EnodeError};
pub use error::DecodeError;
pub use header::Header;
pub use key::{
    EcdsaSignature, KeyError, SECP256K1_HALF_ORDER, SECP256K1_ORDER, SecretKey, SignatureError,
    compress_public_key, ethereum_message_digest, expand_public_key, recover, recover_public_key,
    signed_message_digest,
};
pub use panic::{PanicMessage, catch_panic};
pub use receipt::{LOG_TOPICS_MAX, Log, Receipt, ReceiptForm, ReceiptOutcome, logs_bloom};
pub use transaction::{
    ACCESS_LIST_TX_TYPE, AccessListEntry, CLASSIC_V_BIT, LEGACY_TX_TYPE, NATIVE_CHAIN_ID_BOUND,
    SYSTEM_CALL_DATA, SYSTEM_GAS_PRICE, SYSTEM_SYSCNT, Transaction, TxForm, TxRules, UnsignedTransaction,
};
pub use units::ShaAmount;

/// The sender of every system transaction. No key is known for it.
pub const SYSTEM_SENDER: Address = address!("0x0000000000000000000000000000000000000064");

/// The system contract, the recipient of every system transaction.
pub const SYSTEM_CONTRACT: Address = address!("0x0000000000000000000000000000000000000065");

/// The `uncles_hash` of a header without uncles: Keccak-256 of the empty RLP list.
pub const EMPTY_UNCLES_HASH: B256 =
    b256!("0x1dcc4de8dec75d7aab85b567b6ccd41ad312451b948a7413f0a142fd40d49347");

/// The root of an empty trie: Keccak-256 of the empty RLP string.
pub const EMPTY_ROOT: B256 = b256!("0x56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421");

/// The code hash of an account without code: Keccak-256 of no bytes.
pub const EMPTY_CODE_HASH: B256 = b256!("0xc5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_hashes_are_hashes_of_empty_values() {
        assert_eq!(EMPTY_UNCLES_HASH, keccak256([0xc0]));
        assert_eq!(EMPTY_ROOT, keccak256([0x80]));
        assert_eq!(EMPTY_CODE_HASH, keccak256([]));
        assert_eq!(EMPTY_UNCLES_HASH, uncles_hash(&[]));
    }
}
