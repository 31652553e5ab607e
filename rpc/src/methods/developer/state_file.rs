//! States as anvil writes them: `anvil_dumpState` gives one, `anvil_loadState` lays one over the
//! head.
//!
//! The form is JSON, compressed with gzip. Only the accounts are in it: this node cannot put
//! another chain's blocks into its own. Each account that a state changes gets a block of its own,
//! and more if it has many slots.

use std::collections::BTreeMap;
use std::io::{Read, Write};

use chain::View;
use chain::developer::DeveloperChange;
use chain::state::{AccountOverride, StorageOverride};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use primitives::{B256, Bytes, U256, keccak256};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::developer;
use crate::budget::reserve_values;
use crate::decode::{FromParam, WrittenAddress};
use crate::developer::DeveloperError;
use crate::error::{RpcError, RpcResult, failure};
use crate::methods::debug::{WholeAccount, whole_state};
use crate::methods::mc::Word;
use crate::node::Node;
use crate::table::Method;
use crate::types::{Count, Data, ParamError, Quantity};

/// The most bytes of a state as JSON.
const STATE_BYTES_MAX: usize = 64 << 20;
/// Bytes that are read at a time.
const PART_BYTES: usize = 1 << 20;
/// The most accounts of a state that is loaded.
const ACCOUNTS_MAX: usize = 10_000;
/// The most slots of one block.
const SLOTS_MAX: usize = 10_000;
/// The first bytes of what gzip writes.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// The rows of this topic.
pub(super) fn methods() -> Vec<Method<Node>> {
    let dump = "Returns the accounts of the head as anvil writes them: JSON, compressed with gzip.";
    let load = "Lays a state of anvil_dumpState over the head, in a block for each account that changes. \
                Other accounts stay.";
    vec![
        Method::heavy("anvil_dumpState", [], dump_state).summary(dump),
        Method::heavy("hardhat_dumpState", [], dump_state).summary(dump),
        Method::heavy("anvil_loadState", ["state"], load_state).summary(load),
        Method::heavy("hardhat_loadState", ["state"], load_state).summary(load),
    ]
}

#[derive(Serialize)]
struct WrittenState {
    /// Null: the values of the next block are not part of the state here.
    block: Option<u64>,
    accounts: BTreeMap<String, WrittenStateAccount>,
    /// Null: whoever loads the state keeps its own blocks.
    best_block_number: Option<u64>,
}

#[derive(Serialize)]
struct WrittenStateAccount {
    nonce: u64,
    balance: Quantity<U256>,
    code: Data,
    storage: BTreeMap<String, Data<B256>>,
}

/// `anvil_dumpState`.
fn dump_state(node: &Node) -> RpcResult<Data> {
    developer(node)?;
    let view = node.view()?;
    let mut accounts = BTreeMap::new();
    for WholeAccount { account, slots, code } in whole_state(node, &view, view.head_number())? {
        let storage = slots
            .iter()
            .map(|slot| (slot.name(), Data(B256::from(slot.value))));
        let written = WrittenStateAccount {
            nonce: account.account.tx_nonce,
            balance: Quantity(account.account.balance),
            code: Data(code),
            storage: storage.collect(),
        };
        accounts.insert(account.name(), written);
    }
    let state = WrittenState {
        block: None,
        accounts,
        best_block_number: None,
    };
    let text = serde_json::to_vec(&state).map_err(failure)?;
    reserve_values(text.len())?;
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(&text).map_err(failure)?;
    encoder.finish().map(Data).map_err(failure)
}

#[derive(Deserialize)]
struct LoadedState<'a> {
    #[serde(borrow)]
    accounts: BTreeMap<String, LoadedAccount<'a>>,
}

#[derive(Deserialize)]
struct LoadedAccount<'a> {
    #[serde(borrow)]
    nonce: &'a RawValue,
    #[serde(borrow)]
    balance: &'a RawValue,
    #[serde(borrow)]
    code: &'a RawValue,
    #[serde(borrow, default)]
    storage: BTreeMap<String, &'a RawValue>,
}

/// `anvil_loadState`. Nothing is changed if any part of the state cannot be read.
fn load_state(node: &Node, (Data(bytes),): (Data,)) -> RpcResult<bool> {
    let developer = developer(node)?;
    let text = unpacked(&bytes)?;
    for account in read_state(&text)? {
        for change in changes(&node.view()?, account)? {
            developer.change(change).map_err(DeveloperError::into_rpc)?;
        }
    }
    Ok(true)
}

/// The error of a state that cannot be read.
fn bad_state(reason: impl std::fmt::Display) -> RpcError {
    RpcError::invalid_argument(0, format_args!("state: {reason}"))
}

/// The JSON of a state. anvil also takes what is not compressed.
fn unpacked(bytes: &[u8]) -> RpcResult<Vec<u8>> {
    let mut text = Vec::new();
    let mut reader: Box<dyn Read + '_> = if bytes.starts_with(&GZIP_MAGIC) {
        Box::new(GzDecoder::new(bytes))
    } else {
        Box::new(bytes)
    };
    loop {
        reserve_values(PART_BYTES)?;
        let mut part = reader.by_ref().take(PART_BYTES as u64);
        if part.read_to_end(&mut text).map_err(bad_state)? == 0 {
            return Ok(text);
        }
        if text.len() > STATE_BYTES_MAX {
            return Err(bad_state(format_args!(
                "got more than {STATE_BYTES_MAX} bytes of JSON, expected at most as many"
            )));
        }
    }
}

/// The accounts of a state with all values that it gives them.
fn read_state(text: &[u8]) -> RpcResult<Vec<DeveloperChange>> {
    let state: LoadedState<'_> = serde_json::from_slice(text).map_err(bad_state)?;
    if state.accounts.len() > ACCOUNTS_MAX {
        let got = state.accounts.len();
        return Err(bad_state(format_args!(
            "got {got} accounts, expected at most {ACCOUNTS_MAX}"
        )));
    }
    let accounts = state.accounts.into_iter();
    accounts
        .map(|(name, account)| {
            read_account(&name, &account)
                .map_err(|reason| bad_state(format_args!("account {name}: {reason}")))
        })
        .collect()
}

fn read_account(name: &str, account: &LoadedAccount<'_>) -> Result<DeveloperChange, ParamError> {
    let word = |json: &str| Word::from_json(json).map(|word| word.0);
    let slots = account
        .storage
        .iter()
        .map(|(slot, value)| -> Result<_, ParamError> {
            let slot = word(&format!("\"{slot}\""))?;
            Ok((slot, word(value.get())?))
        });
    Ok(DeveloperChange {
        address: WrittenAddress::decode(name)?.0,
        values: AccountOverride {
            tx_nonce: Some(Count::from_json(account.nonce.get())?.0),
            balance: Some(Quantity::<U256>::from_json(account.balance.get())?.0),
            code: Some(Bytes::from(Data::<Vec<u8>>::from_json(account.code.get())?.0)),
            storage: StorageOverride::Change(slots.collect::<Result<_, _>>()?),
        },
    })
}

/// The changes that give an account the values of a state. None if it has them all.
fn changes(view: &View, wanted: DeveloperChange) -> RpcResult<Vec<DeveloperChange>> {
    let (address, number) = (wanted.address, view.head_number());
    let found = view
        .account(&address, number)
        .map_err(failure)?
        .unwrap_or_default();
    let mut values = AccountOverride {
        tx_nonce: wanted.values.tx_nonce.filter(|nonce| *nonce != found.tx_nonce),
        balance: wanted.values.balance.filter(|balance| *balance != found.balance),
        code: wanted
            .values
            .code
            .filter(|code| keccak256(code) != found.code_hash),
        storage: StorageOverride::Keep,
    };
    let mut slots = Vec::new();
    if let StorageOverride::Change(all) = wanted.values.storage {
        for (slot, value) in all {
            if view.slot(&address, &slot, number).map_err(failure)? != value {
                slots.push((slot, value));
            }
        }
    }
    let mut parts = slots.chunks(SLOTS_MAX);
    if let Some(first) = parts.next() {
        values.storage = StorageOverride::Change(first.to_vec());
    }
    let mut changes = Vec::new();
    if values != AccountOverride::default() {
        changes.push(DeveloperChange { address, values });
    }
    changes.extend(parts.map(|part| DeveloperChange {
        address,
        values: AccountOverride {
            storage: StorageOverride::Change(part.to_vec()),
            ..AccountOverride::default()
        },
    }));
    Ok(changes)
}
