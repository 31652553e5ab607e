//! The parts of a contract's storage that `ChainInfo` returns (docs/scs-wire.md, 9).
//!
//! The slots are those that Solidity uses: an array has its length at the slot of the variable and
//! its elements from the slot keccak(slot) on; a long string has its bytes there.

use std::collections::BTreeMap;

use primitives::{U256, hex, keccak256};

use super::host::{ContractView, HostError};
use super::limits::{STORAGE_REQUESTS_MAX, STORAGE_SLOTS_MAX};
use crate::proto::StorageRequest;

/// Slots as 64 hex digits, and the hex digits of the RLP of their values. A slot that was asked for
/// and is zero has an empty text.
pub(super) type StorageAnswer = BTreeMap<String, String>;

/// The parts of a storage that were read.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct StorageParts {
    /// The slots.
    pub(super) slots: StorageAnswer,
    /// Slots with a value that are missing in `slots`, because only the hash of their number is
    /// known.
    pub(super) unknown: usize,
}

/// Longest string whose bytes are in the slot of the variable.
const SHORT_STRING_LEN_MAX: u64 = 31;

/// Reads the parts that the requests ask for.
///
/// # Errors
/// [`HostError::Refused`] for a request without meaning, [`HostError::TooMuch`] for too many slots.
pub(super) fn read_storage(
    view: &dyn ContractView,
    requests: &[StorageRequest],
) -> Result<StorageParts, HostError> {
    let count = requests.len();
    if count > STORAGE_REQUESTS_MAX {
        return Err(HostError::Refused(format!(
            "request: got {count}, expected at most {STORAGE_REQUESTS_MAX}"
        )));
    }
    let mut reader = StorageReader {
        view,
        answer: StorageAnswer::new(),
        unknown: 0,
    };
    for request in requests {
        reader.read(request)?;
    }
    Ok(StorageParts {
        slots: reader.answer,
        unknown: reader.unknown,
    })
}

struct StorageReader<'a> {
    view: &'a dyn ContractView,
    answer: StorageAnswer,
    unknown: usize,
}

/// A member of a struct.
#[derive(Clone, Copy)]
enum Member {
    /// One slot.
    Single,
    /// An array of single slots.
    List,
    /// A string, or bytes.
    Text,
}

impl StorageReader<'_> {
    fn read(&mut self, request: &StorageRequest) -> Result<(), HostError> {
        let members = members(&request.structformat)?;
        let key = || word("storagekey", &request.storagekey);
        match request.reqtype {
            0 => self.all(),
            1 if request.position.is_empty() => self.array(key()?, &members),
            1 => {
                let index = word("position", &request.position)?;
                self.element(data_slot(key()?), index, &members)
            }
            2 => {
                let position = word("position", &request.position)?;
                let entry = [position.to_be_bytes::<32>(), key()?.to_be_bytes::<32>()].concat();
                self.value(U256::from_be_bytes(keccak256(entry).0), &members)
            }
            3 => self.structure(key()?, &members),
            4 => self.single(key()?).map(drop),
            5 => self.text(key()?),
            got => Err(HostError::Refused(format!("reqtype: got {got}, expected 0 to 5"))),
        }
    }

    fn all(&mut self) -> Result<(), HostError> {
        let answer = &mut self.answer;
        let (mut whole, mut unknown) = (true, 0);
        self.view.visit_slots(&mut |slot, value| {
            whole = answer.len() + unknown < STORAGE_SLOTS_MAX;
            match slot {
                Some(slot) if whole => drop(answer.insert(slot_text(slot), value_text(value))),
                Some(_) => {}
                None => unknown += 1,
            }
            whole
        })?;
        // Each request for everything finds the same slots.
        self.unknown = unknown;
        if whole { Ok(()) } else { Err(too_many()) }
    }

    fn array(&mut self, key: U256, members: &[Member]) -> Result<(), HostError> {
        let len = self.single(key)?;
        let first = data_slot(key);
        // The number of slots ends this, whatever length the contract tells.
        let mut index = U256::ZERO;
        while index < len {
            self.element(first, index, members)?;
            index += U256::from(1);
        }
        Ok(())
    }

    /// The element `index` of an array whose elements begin at `first`.
    fn element(&mut self, first: U256, index: U256, members: &[Member]) -> Result<(), HostError> {
        let size = U256::from(members.len().max(1));
        let slot = first.wrapping_add(index.wrapping_mul(size));
        self.value(slot, members)
    }

    /// A struct, or without members a single slot or a string.
    fn value(&mut self, slot: U256, members: &[Member]) -> Result<(), HostError> {
        if members.is_empty() {
            self.text(slot)
        } else {
            self.structure(slot, members)
        }
    }

    fn structure(&mut self, first: U256, members: &[Member]) -> Result<(), HostError> {
        let mut slot = first;
        for member in members {
            match member {
                Member::Single => drop(self.single(slot)?),
                Member::List => {
                    let len = self.single(slot)?;
                    self.run(data_slot(slot), len)?;
                }
                Member::Text => self.text(slot)?,
            }
            slot = slot.wrapping_add(U256::from(1));
        }
        Ok(())
    }

    /// A string. A long one has twice its length and 1 in its slot, and its bytes elsewhere.
    fn text(&mut self, slot: U256) -> Result<(), HostError> {
        let value = self.single(slot)?;
        if !value.bit(0) {
            return Ok(());
        }
        let len: U256 = value >> 1;
        let is_long = len > U256::from(SHORT_STRING_LEN_MAX)
            && len <= U256::from(32 * STORAGE_SLOTS_MAX as u64)
            && !self.view.slot(&data_slot(slot))?.is_zero();
        // A number may look like the length of a string.
        if !is_long {
            return Ok(());
        }
        self.run(data_slot(slot), len.div_ceil(U256::from(32)))
    }

    /// `count` slots from `first` on.
    fn run(&mut self, first: U256, count: U256) -> Result<(), HostError> {
        let mut index = U256::ZERO;
        while index < count {
            self.single(first.wrapping_add(index))?;
            index += U256::from(1);
        }
        Ok(())
    }

    /// One slot. Returns its value.
    fn single(&mut self, slot: U256) -> Result<U256, HostError> {
        if self.answer.len() >= STORAGE_SLOTS_MAX {
            return Err(too_many());
        }
        let value = self.view.slot(&slot)?;
        self.answer.insert(slot_text(slot), value_text(value));
        Ok(value)
    }
}

fn too_many() -> HostError {
    HostError::TooMuch(format!(
        "storage: got more than {STORAGE_SLOTS_MAX} slots, expected at most {STORAGE_SLOTS_MAX}"
    ))
}

/// The slot where the elements of an array or the bytes of a string begin.
fn data_slot(slot: U256) -> U256 {
    U256::from_be_bytes(keccak256(slot.to_be_bytes::<32>()).0)
}

fn slot_text(slot: U256) -> String {
    hex::encode(slot.to_be_bytes::<32>())
}

fn value_text(value: U256) -> String {
    if value.is_zero() {
        return String::new();
    }
    hex::encode(alloy_rlp::encode(value))
}

/// A number of at most 32 bytes.
fn word(field: &'static str, bytes: &[u8]) -> Result<U256, HostError> {
    match bytes.len() {
        1..=32 => Ok(U256::from_be_slice(bytes)),
        got => Err(HostError::Refused(format!(
            "{field}: got {got} bytes, expected 1 to 32"
        ))),
    }
}

fn members(format: &[u8]) -> Result<Vec<Member>, HostError> {
    let got = format.len();
    if got > STORAGE_SLOTS_MAX {
        return Err(HostError::Refused(format!(
            "structformat: got {got} members, expected at most {STORAGE_SLOTS_MAX}"
        )));
    }
    let member = |digit: &u8| match digit {
        b'1' => Ok(Member::Single),
        b'2' => Ok(Member::List),
        b'3' => Ok(Member::Text),
        got => Err(HostError::Refused(format!(
            "structformat: got a byte {got:#04x}, expected the digits 1, 2 or 3"
        ))),
    };
    format.iter().map(member).collect()
}

#[cfg(test)]
mod tests;
