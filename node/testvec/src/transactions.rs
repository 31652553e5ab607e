//! The transactions of `t8n`: objects of JSON, signed or with a key, or a list in RLP.

use chain::ChainSpec;
use chain::spec::Rule;
use primitives::rlp::RlpItem;
use primitives::{DecodeError, SecretKey, Transaction, TxForm, U256, UnsignedTransaction};
use serde_json::Value;

use super::error::TestVectorError;
use super::fields::{bytes, optional_address, uint, uint64, wrong};
use super::state::access_list;

/// A transaction, or the reason why it is none under the rules.
pub(super) type TransactionInput = Result<Transaction, DecodeError>;

/// The transactions of a list in RLP.
pub(super) fn from_rlp(spec: &ChainSpec, text: &str) -> Result<Vec<TransactionInput>, TestVectorError> {
    let raw = bytes(&Value::from(text.trim()))?;
    match RlpItem::decode_exact(&raw).map_err(TestVectorError::refused)? {
        RlpItem::List(items) => items
            .iter()
            .map(|item| match item {
                RlpItem::Bytes(raw) => decode(spec, raw),
                list => decode(spec, &list.encode()),
            })
            .collect(),
        RlpItem::Bytes(_) => Err(TestVectorError::value("a string", "a list of transactions")),
    }
}

/// The transactions of an array; null is an empty one.
pub(super) fn from_json(spec: &ChainSpec, list: &Value) -> Result<Vec<TransactionInput>, TestVectorError> {
    if list.is_null() {
        return Ok(Vec::new());
    }
    let list = list
        .as_array()
        .ok_or_else(|| TestVectorError::value(list, "an array of transactions"))?;
    let one =
        |(index, tx)| read(spec, tx).map_err(|error: TestVectorError| error.in_member(format!("[{index}]")));
    list.iter().enumerate().map(one).collect()
}

/// A transaction with a fee of its own is a fault of the question under rules that have them:
/// this node has no such rules, and an answer without the transaction would mislead.
fn decode(spec: &ChainSpec, raw: &[u8]) -> Result<TransactionInput, TestVectorError> {
    match raw.first() {
        Some(kind @ 2..=4) if spec.rules_at(0).has(Rule::Eip1559) => Err(TestVectorError::value(
            format!("a transaction of type {kind}"),
            "one without a type, or of type 1",
        )),
        _ => Ok(Transaction::decode_raw(raw, spec.tx_rules())),
    }
}

fn read(spec: &ChainSpec, tx: &Value) -> Result<TransactionInput, TestVectorError> {
    let kind = match tx.get("type") {
        None | Some(Value::Null) if tx["accessList"].is_array() => 1,
        None | Some(Value::Null) => 0,
        Some(_) => uint64(tx, "type")?,
    };
    if kind > 1 {
        return decode(spec, &[kind as u8]);
    }
    let named = |names: [&'static str; 2]| {
        let found = names.into_iter().find(|name| !tx[*name].is_null());
        found.ok_or_else(|| TestVectorError::Missing(names[0].to_owned()))
    };
    let unsigned = UnsignedTransaction {
        tx_nonce: uint64(tx, "nonce")?,
        gas_price: uint(tx, "gasPrice")?,
        gas: uint64(tx, named(["gas", "gasLimit"])?)?,
        to: optional_address(tx, "to")?,
        value: uint(tx, "value")?,
        input: named(["input", "data"])
            .map_or(Ok(Vec::new()), |name| bytes(&tx[name]))?
            .into(),
        access_list: access_list(tx)?.unwrap_or_default(),
        ..Default::default()
    };
    let part = |name| {
        if tx[name].is_null() {
            Ok(U256::ZERO)
        } else {
            uint(tx, name)
        }
    };
    let (v, r, s) = (part("v")?, part("r")?, part("s")?);
    let form = if kind == 1 {
        TxForm::AccessList
    } else {
        TxForm::Ethereum
    };
    let key = &tx["secretKey"];
    if key.is_null() || !(r.is_zero() && s.is_zero()) {
        // The raw form is made as if for signing, and gets the given signature.
        let blank = SecretKey::from_bytes(&[1; 32]).map_err(TestVectorError::refused)?;
        let signed = unsigned.sign(&blank, chain_id(spec, tx)?, form);
        let raw = Transaction { v, r, s, ..signed }.encode_raw();
        return decode(spec, &raw);
    }
    let key = SecretKey::from_bytes(&bytes(key)?)
        .map_err(|error| TestVectorError::refused(error).in_member("secretKey"))?;
    let protected = tx["protected"].as_bool().unwrap_or(true) && spec.rules_at(0).has(Rule::Eip155);
    Ok(Ok(match form {
        TxForm::Ethereum if !protected => unsigned.sign_unprotected(&key),
        form => unsigned.sign(&key, chain_id(spec, tx)?, form),
    }))
}

/// The chain id of a transaction; by default the chain's.
fn chain_id(spec: &ChainSpec, tx: &Value) -> Result<u64, TestVectorError> {
    let given = !tx["chainId"].is_null();
    let id = if given {
        uint64(tx, "chainId")?
    } else {
        spec.chain_id
    };
    if id == 0 {
        return Err(wrong("chainId", id, "more than 0"));
    }
    Ok(id)
}
