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

use super::fields::{bytes, data, fixed, hash_text, hex_text, member, text, uint, uint64};
use super::forks::spec_of_fork;

pub(super) fn rlp(request: &Value) -> Result<Value, String> {
    if request.get("rlp").is_some() {
        let item = RlpItem::decode_exact(&data(request, "rlp")?).map_err(|error| error.to_string())?;
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

fn value_item(value: &Value) -> Result<RlpItem, String> {
    match value {
        Value::Array(values) => Ok(RlpItem::List(
            values.iter().map(value_item).collect::<Result<_, _>>()?,
        )),
        other => Ok(RlpItem::Bytes(bytes(other)?)),
    }
}

pub(super) fn trie(request: &Value) -> Result<Value, String> {
    let secure = member(request, "secure")?
        .as_bool()
        .ok_or("secure: expected true or false")?;
    let ops = member(request, "ops")?
        .as_array()
        .ok_or("ops: expected an array")?;
    let mut trie = Trie::in_memory();
    for op in ops {
        let [key, value] = op.as_array().map(Vec::as_slice).unwrap_or_default() else {
            return Err(format!("ops: got {op}, expected [key, value or null]"));
        };
        let key = bytes(key)?;
        let key = if secure { keccak256(&key).to_vec() } else { key };
        let result = if value.is_null() {
            trie.remove(&NoNodes, &key)
        } else {
            trie.insert(&NoNodes, &key, &bytes(value)?)
        };
        result.map_err(|error| error.to_string())?;
    }
    Ok(json!({ "root": hash_text(trie.root()) }))
}

pub(super) fn ethash(caches: &LightCaches, request: &Value) -> Result<Value, String> {
    let number = uint64(request, "number")?;
    let header = B256::from(fixed::<32>(request, "header")?);
    let nonce = u64::from_be_bytes(fixed::<8>(request, "nonce")?);
    let epoch = ethash::Schedule::Ethash.epoch(number);
    let cache = caches.get(epoch).map_err(|error| error.to_string())?;
    let hash = cache.hash(&header, nonce);
    Ok(json!({ "mix": hash_text(hash.mix_hash), "result": hash_text(hash.final_hash) }))
}

pub(super) fn difficulty(request: &Value) -> Result<Value, String> {
    let spec = spec_of_fork(text(request, "fork")?)?;
    let input = DifficultyInput {
        number: uint64(request, "number")?,
        timestamp: uint64(request, "timestamp")?,
        parent_timestamp: uint64(request, "parentTimestamp")?,
        parent_difficulty: uint(request, "parentDifficulty")?,
        parent_uncles: member(request, "parentUncles")?
            .as_bool()
            .ok_or("parentUncles: expected true or false")?,
    };
    Ok(json!({ "difficulty": format!("{:#x}", next(&spec, &input)) }))
}

pub(super) fn keystore(request: &Value) -> Result<Value, String> {
    let file = member(request, "json")?.to_string();
    let key =
        keystore::decrypt(file.as_bytes(), text(request, "password")?).map_err(|error| error.to_string())?;
    Ok(json!({ "key": hex_text(*key.to_bytes()) }))
}

pub(super) fn tx(request: &Value) -> Result<Value, String> {
    let mut spec = spec_of_fork(text(request, "fork")?)?;
    if request.get("chainId").is_some_and(|id| !id.is_null()) {
        spec.chain_id = uint64(request, "chainId")?;
    }
    let raw = data(request, "raw")?;
    let transaction = Transaction::decode_raw(&raw, spec.tx_rules()).map_err(|error| error.to_string())?;
    let rules = spec.rules_at(0);
    chain::evm::execute::admit(&transaction, rules).map_err(|error| error.to_string())?;
    let sender = sender(&spec, 0, &transaction).map_err(|error| error.to_string())?;
    let creates = transaction.to.is_none();
    if creates && rules.has(Rule::Eip3860) && transaction.input.len() > INIT_CODE_BYTES_MAX {
        return Err(format!(
            "code that creates a contract: got {} bytes, expected at most {INIT_CODE_BYTES_MAX}",
            transaction.input.len()
        ));
    }
    let expected = intrinsic_gas(rules, &transaction.input, creates, &transaction.access_list);
    if transaction.gas < expected {
        return Err(format!(
            "gas: got {}, expected at least the intrinsic gas {expected}",
            transaction.gas
        ));
    }
    Ok(json!({ "hash": hash_text(transaction.hash()), "sender": hex_text(sender) }))
}
