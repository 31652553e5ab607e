//! The kinds of test vectors that need no chain: RLP, tries, Ethash, difficulty, key files,
//! transactions.

use chain::evm::{INIT_CODE_BYTES_MAX, intrinsic_gas};
use chain::rules::body::sender;
use chain::rules::difficulty::{DifficultyInput, difficulty as next};
use chain::spec::Rule;
use chain::trie::{NoNodes, Trie};
use ethash::LightCaches;
use primitives::rlp::RlpItem;
use primitives::{B256, Transaction, keccak256};
use serde_json::{Value, json};

use super::error::TestVectorError;
use super::fields::{
    array, boolean, bytes, data, fixed, hash_text, hex_text, member, text, uint, uint64, wrong,
};
use super::forks::spec_of_fork;

pub(super) fn rlp(request: &Value) -> Result<Value, TestVectorError> {
    if request.get("rlp").is_some() {
        let item = RlpItem::decode_exact(&data(request, "rlp")?).map_err(TestVectorError::refused)?;
        return Ok(json!({ "value": item_value(&item) }));
    }
    let item = value_item(member(request, "value")?)?;
    Ok(json!({ "rlp": hex_text(item.encode()) }))
}

fn item_value(item: &RlpItem) -> Value {
    match item {
        RlpItem::Bytes(bytes) => json!(hex_text(bytes)),
        RlpItem::List(items) => items.iter().map(item_value).collect(),
    }
}

fn value_item(value: &Value) -> Result<RlpItem, TestVectorError> {
    match value {
        Value::Array(values) => Ok(RlpItem::List(
            values.iter().map(value_item).collect::<Result<_, _>>()?,
        )),
        other => Ok(RlpItem::Bytes(bytes(other)?)),
    }
}

pub(super) fn trie(request: &Value) -> Result<Value, TestVectorError> {
    let secure = boolean(request, "secure")?;
    let ops = array(request, "ops")?;
    let mut trie = Trie::in_memory();
    for op in ops {
        let [key, value] = op.as_array().map(Vec::as_slice).unwrap_or_default() else {
            return Err(wrong("ops", op, "[key, value or null]"));
        };
        let key = bytes(key)?;
        let key = if secure { keccak256(&key).to_vec() } else { key };
        let result = if value.is_null() {
            trie.remove(&NoNodes, &key)
        } else {
            trie.insert(&NoNodes, &key, &bytes(value)?)
        };
        result.map_err(TestVectorError::refused)?;
    }
    Ok(json!({ "root": hash_text(trie.root()) }))
}

pub(super) fn ethash(caches: &LightCaches, request: &Value) -> Result<Value, TestVectorError> {
    let number = uint64(request, "number")?;
    let header = B256::from(fixed::<32>(request, "header")?);
    let nonce = u64::from_be_bytes(fixed::<8>(request, "nonce")?);
    let epoch = ethash::Schedule::Ethash.epoch(number);
    let cache = caches.get(epoch).map_err(TestVectorError::refused)?;
    let hash = cache.hash(&header, nonce);
    Ok(json!({ "mix": hash_text(hash.mix_hash), "result": hash_text(hash.final_hash) }))
}

pub(super) fn difficulty(request: &Value) -> Result<Value, TestVectorError> {
    let spec = spec_of_fork(text(request, "fork")?)?;
    let input = DifficultyInput {
        number: uint64(request, "number")?,
        timestamp: uint64(request, "timestamp")?,
        parent_timestamp: uint64(request, "parentTimestamp")?,
        parent_difficulty: uint(request, "parentDifficulty")?,
        parent_uncles: boolean(request, "parentUncles")?,
    };
    Ok(json!({ "difficulty": format!("{:#x}", next(&spec, &input)) }))
}

pub(super) fn keystore(request: &Value) -> Result<Value, TestVectorError> {
    let file = member(request, "json")?.to_string();
    let key =
        keystore::decrypt(file.as_bytes(), text(request, "password")?).map_err(TestVectorError::refused)?;
    Ok(json!({ "key": hex_text(*key.to_bytes()) }))
}

pub(super) fn tx(request: &Value) -> Result<Value, TestVectorError> {
    let mut spec = spec_of_fork(text(request, "fork")?)?;
    if request.get("chainId").is_some_and(|id| !id.is_null()) {
        spec.chain_id = uint64(request, "chainId")?;
    }
    let raw = data(request, "raw")?;
    let transaction = Transaction::decode_raw(&raw, spec.tx_rules()).map_err(TestVectorError::refused)?;
    let rules = spec.rules_at(0);
    chain::evm::execute::admit(&transaction, rules).map_err(TestVectorError::refused)?;
    let sender = sender(&spec, 0, &transaction).map_err(TestVectorError::refused)?;
    let creates = transaction.to.is_none();
    if creates && rules.has(Rule::Eip3860) && transaction.input.len() > INIT_CODE_BYTES_MAX {
        return Err(wrong(
            "code that creates a contract",
            format!("{} bytes", transaction.input.len()),
            format!("at most {INIT_CODE_BYTES_MAX}"),
        ));
    }
    let expected = intrinsic_gas(rules, &transaction.input, creates, &transaction.access_list);
    if transaction.gas < expected {
        return Err(wrong(
            "gas",
            transaction.gas,
            format!("at least the intrinsic gas {expected}"),
        ));
    }
    Ok(json!({ "hash": hash_text(transaction.hash()), "sender": hex_text(sender) }))
}
