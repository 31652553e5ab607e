//! `vnode testvec b11r`: makes a block from its parts, as geth's `evm b11r`. It checks no rules.

use ethash::LightCaches;
use primitives::rlp::RlpItem;
use primitives::{B256, EMPTY_ROOT, U256, keccak256, uncles_hash};
use serde_json::{Value, json};

use super::error::{TestVectorError, ToolError};
use super::fields::{bytes, hash_text, hex_text, number, wrong};
use super::places::{Outputs, ToolInputs, json_error};
use crate::options::BuilderOptions;

/// The places of the seal's two fields.
const SEAL: std::ops::Range<usize> = 13..15;

/// Runs the command.
pub(super) fn run(options: &BuilderOptions) -> Result<(), ToolError> {
    let mut inputs = ToolInputs::default();
    let header = inputs.read(&options.header, &["header"])?;
    let uncles = match options.ommers.as_str() {
        "" => Value::Null,
        place => inputs.read(place, &["ommers"])?,
    };
    let txs = inputs.read(&options.txs, &["txs"])?;
    let of_header = |error| json_error(&options.header, error);
    let of_uncles = |error| ToolError::Rlp {
        place: options.ommers.clone(),
        error,
    };
    let uncles: Vec<RlpItem> = uncles
        .as_array()
        .into_iter()
        .flatten()
        .map(list)
        .collect::<Result<_, _>>()
        .map_err(of_uncles)?;
    let txs = match &txs {
        Value::Null => RlpItem::List(Vec::new()),
        txs => list(txs).map_err(|error| ToolError::Rlp {
            place: options.txs.clone(),
            error,
        })?,
    };
    let uncles = RlpItem::List(uncles);
    let mut fields = fields(&header, &uncles).map_err(of_header)?;
    if options.seal {
        if !header["mixHash"].is_null() || !header["nonce"].is_null() {
            let got = "a header with mixHash or nonce";
            return Err(of_header(TestVectorError::value(
                got,
                "one without them, to be sealed",
            )));
        }
        seal(&header, &mut fields).map_err(of_header)?;
    }
    let header = RlpItem::List(fields);
    let hash = keccak256(header.encode());
    let rlp = RlpItem::List(vec![header, txs, uncles]).encode();
    let mut outputs = Outputs::new(options.basedir.as_deref())?;
    let block = json!({ "rlp": hex_text(rlp), "hash": hash_text(hash) });
    if options.to_block == "stdout" {
        println!("{block:#}");
        return Ok(());
    }
    outputs.put(&options.to_block, "block", block)?;
    outputs.finish();
    Ok(())
}

/// A list in RLP, as hex.
fn list(text: &Value) -> Result<RlpItem, TestVectorError> {
    match RlpItem::decode_exact(&bytes(text)?).map_err(TestVectorError::refused)? {
        list @ RlpItem::List(_) => Ok(list),
        RlpItem::Bytes(_) => Err(TestVectorError::value("a string", "a list")),
    }
}

/// The fields of the header, in their order; the base fee is the last where there is one.
fn fields(header: &Value, uncles: &RlpItem) -> Result<Vec<RlpItem>, TestVectorError> {
    let has = |name: &str| !header[name].is_null();
    let exact = |name: &str, length: usize, default: &[u8]| {
        if !has(name) {
            return Ok(RlpItem::Bytes(default.to_vec()));
        }
        let got = bytes(&header[name]).map_err(|error| error.in_member(name))?;
        if got.len() == length {
            Ok(RlpItem::Bytes(got))
        } else {
            Err(wrong(name, format!("{} bytes", got.len()), length.to_string()))
        }
    };
    let required = |name: &str, length: usize| {
        if has(name) {
            exact(name, length, &[])
        } else {
            Err(TestVectorError::Missing(name.to_owned()))
        }
    };
    let integer = |name: &str, default: Option<u64>| {
        let value = match (&header[name], default) {
            (Value::Null, Some(default)) => U256::from(default),
            (Value::Null, None) => return Err(TestVectorError::Missing(name.to_owned())),
            (value, _) => number(value).ok_or_else(|| wrong(name, value, "a number of at most 256 bits"))?,
        };
        Ok(RlpItem::Bytes(value.to_be_bytes_trimmed_vec()))
    };
    let no_uncles = match uncles {
        RlpItem::List(list) if list.is_empty() => uncles_hash(&[]),
        uncles => keccak256(uncles.encode()),
    };
    let extra = match &header["extraData"] {
        Value::Null => Vec::new(),
        value => bytes(value).map_err(|error| error.in_member("extraData"))?,
    };
    let mut fields = vec![
        exact("parentHash", 32, &[0; 32])?,
        exact("sha3Uncles", 32, no_uncles.as_slice())?,
        exact("miner", 20, &[0; 20])?,
        required("stateRoot", 32)?,
        exact("transactionsRoot", 32, EMPTY_ROOT.as_slice())?,
        exact("receiptsRoot", 32, EMPTY_ROOT.as_slice())?,
        exact("logsBloom", 256, &[0; 256])?,
        integer("difficulty", Some(0))?,
        integer("number", None)?,
        integer("gasLimit", None)?,
        integer("gasUsed", Some(0))?,
        integer("timestamp", Some(0))?,
        RlpItem::Bytes(extra),
        exact("mixHash", 32, &[0; 32])?,
        exact("nonce", 8, &[0; 8])?,
    ];
    if has("baseFeePerGas") {
        fields.push(integer("baseFeePerGas", None)?);
    }
    Ok(fields)
}

/// Searches a nonce with the light cache, and puts the seal into the header.
fn seal(header: &Value, fields: &mut [RlpItem]) -> Result<(), TestVectorError> {
    let of = |name: &str| number(&header[name]).unwrap_or_default();
    let difficulty = of("difficulty");
    let boundary = U256::MAX
        .checked_div(difficulty)
        .ok_or_else(|| wrong("difficulty", difficulty, "more than 0, to be sealed"))?;
    let unsealed = [&fields[..SEAL.start], &fields[SEAL.end..]].concat();
    let hash: B256 = keccak256(RlpItem::List(unsealed).encode());
    let number = u64::try_from(of("number")).map_err(|_| wrong("number", of("number"), "at most 64 bits"))?;
    let caches = LightCaches::default();
    let cache = caches
        .get(ethash::Schedule::Ethash.epoch(number))
        .map_err(TestVectorError::refused)?;
    let found = (0..=u64::MAX).map(|nonce| (nonce, cache.hash(&hash, nonce)));
    let mut sealed = found.filter(|(_, hash)| U256::from_be_bytes(hash.final_hash.0) <= boundary);
    if let Some((nonce, found)) = sealed.next() {
        fields[SEAL.start] = RlpItem::Bytes(found.mix_hash.to_vec());
        fields[SEAL.start + 1] = RlpItem::Bytes(nonce.to_be_bytes().to_vec());
    }
    Ok(())
}
