//! Roots, hashes and seal of a real block of the public network.
//!
//! The block is in `tests/vectors/transactions.json`. The state before it is not public, so its
//! execution cannot be tested.

use chain::ChainSpec;
use chain::rules::body::transactions_root;
use chain::rules::seal::{SealCheck, SealCheckError};
use chain::trie::ordered_root;
use ethash::{LightCaches, SealError};
use primitives::{
    B256, Block, Header, Receipt, ReceiptForm, ReceiptOutcome, Transaction, TxRules, U256, uncles_hash,
};
use serde_json::Value;

use crate::common::hex;

fn vectors() -> Value {
    let text = include_str!("../../../../tests/vectors/transactions.json");
    serde_json::from_str(text).expect("the vectors are JSON")
}

fn bytes(value: &Value) -> Vec<u8> {
    let digits = value.as_str().expect("a string").trim_start_matches("0x");
    if digits.len() % 2 == 1 {
        hex(&format!("0{digits}"))
    } else {
        hex(digits)
    }
}

fn number(value: &Value) -> u64 {
    u64::try_from(U256::from_be_slice(&bytes(value))).expect("64 bits")
}

fn hash(value: &Value) -> B256 {
    B256::from_slice(&bytes(value))
}

fn real_block() -> (Value, Block) {
    let vectors = vectors();
    let real = vectors["realBlock"].clone();
    let header = Header {
        parent_hash: hash(&real["parentHash"]),
        uncles_hash: hash(&real["sha3Uncles"]),
        beneficiary: primitives::Address::from_slice(&bytes(&real["miner"])),
        state_root: hash(&real["stateRoot"]),
        transactions_root: hash(&real["transactionsRoot"]),
        receipts_root: hash(&real["receiptsRoot"]),
        logs_bloom: Default::default(),
        difficulty: U256::from_be_slice(&bytes(&real["difficulty"])),
        number: number(&real["number"]),
        gas_limit: number(&real["gasLimit"]),
        gas_used: number(&real["gasUsed"]),
        timestamp: number(&real["timestamp"]),
        extra_data: bytes(&real["extraData"]).into(),
        mix_hash: hash(&real["mixHash"]),
        pow_nonce: number(&real["nonce"]),
    };
    let only = vectors["transactions"]
        .as_array()
        .and_then(|all| all.iter().find(|one| one["name"] == "system-tx-nonce-294972"))
        .expect("the block's only transaction");
    let transaction = Transaction::decode_stored(&bytes(&only["raw"]), TxRules::Moac).expect("decodes");
    let block = Block {
        header,
        transactions: vec![transaction],
        uncles: Vec::new(),
    };
    (real, block)
}

#[test]
fn roots_hash_and_size_of_a_real_block() {
    let (real, block) = real_block();
    assert_eq!(
        transactions_root(&block.transactions),
        block.header.transactions_root
    );
    assert_eq!(uncles_hash(&block.uncles), block.header.uncles_hash);
    assert_eq!(block.hash(), hash(&real["hash"]));
    assert_eq!(block.header.header_hash(), hash(&real["powHash"]));
    assert_eq!(block.size() as u64, number(&real["size"]));
    let receipt = Receipt::new(ReceiptOutcome::Status(true), 0, Vec::new());
    let receipts_root = |form| ordered_root([receipt.encode(form)]);
    assert_eq!(receipts_root(ReceiptForm::Five), block.header.receipts_root);
    assert_ne!(receipts_root(ReceiptForm::Four), block.header.receipts_root);
}

#[test]
fn the_seal_of_a_real_block_is_valid_and_altered_seals_are_not() {
    let (real, block) = real_block();
    let spec = ChainSpec::dev();
    assert_eq!(
        spec.schedule.seed_hash(block.header.number),
        hash(&real["seedHash"])
    );
    let seals = SealCheck::Ethash(LightCaches::new());
    let check = |change: &dyn Fn(&mut Header)| {
        let mut header = block.header.clone();
        change(&mut header);
        seals.check_seal(&spec, &header)
    };
    check(&|_| ()).expect("the real seal");
    let is_invalid = |result: Result<(), SealCheckError>| matches!(result, Err(SealCheckError::Seal(_)));
    assert!(is_invalid(check(&|header| header.pow_nonce += 1)));
    assert!(is_invalid(check(&|header| header.timestamp += 1)));
    let mix = check(&|header| header.mix_hash.0[31] ^= 1);
    assert!(
        matches!(
            mix,
            Err(SealCheckError::Seal(
                SealError::MixHash(_) | SealError::AboveBoundary { .. }
            ))
        ),
        "{mix:?}"
    );
}
