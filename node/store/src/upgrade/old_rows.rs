//! The rows of layout 4, and how they become new ones.
//!
//! Accounts stood under their addresses, slots under address, incarnation and number, whether the
//! head state had them or not. A row began with twice the length of its list of blocks, plus 1 if
//! older changes were elsewhere; the list and the value were as they are now.

use primitives::{Address, B256, U256};

use super::sorter::SortedRow;
use crate::codec::{RowReader, push_number, read_number, take};
use crate::row_error::RowError;
use crate::state::{AccountKey, StateKind, is_present, slot_hash};
use crate::{TableId, codec};

/// An old table.
pub(super) struct OldTable {
    /// The name in the file.
    pub(super) name: &'static str,
    /// The name of its rows, for the progress.
    pub(super) what: &'static str,
    pub(super) kind: OldKind,
}

/// The kind of an old row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OldKind {
    Account,
    Slot,
    History,
    DeadStorage,
}

impl OldKind {
    /// The new tables that the rows go to.
    pub(super) const fn targets(self) -> &'static [TableId] {
        match self {
            Self::Account => &[TableId::Account, TableId::GoneAccount],
            Self::Slot => &[TableId::Storage, TableId::GoneStorage],
            Self::History => &[TableId::StateHistory],
            Self::DeadStorage => &[TableId::DeadStorage],
        }
    }
}

/// The tables that are rewritten.
pub(super) const OLD_TABLES: [OldTable; 4] = [
    OldTable {
        name: "account",
        what: "accounts",
        kind: OldKind::Account,
    },
    OldTable {
        name: "storage",
        what: "slots",
        kind: OldKind::Slot,
    },
    OldTable {
        name: "state_history",
        what: "older changes",
        kind: OldKind::History,
    },
    OldTable {
        name: "dead_storage",
        what: "destroyed storages",
        kind: OldKind::DeadStorage,
    },
];

/// The old table of trie nodes, which are built again.
pub(super) const TRIE_TABLE: &str = "path_to_trie_node";

/// The table with this name in the old layout.
pub(super) fn old_table_by_name(name: &[u8]) -> Result<&'static str, RowError> {
    let old = OLD_TABLES.iter().map(|table| table.name).chain([TRIE_TABLE]);
    // All other tables are as they were.
    let same = TableId::ALL.into_iter().map(TableId::name);
    old.chain(same)
        .find(|known| known.as_bytes() == name)
        .ok_or_else(|| RowError::UnknownTable {
            name: String::from_utf8_lossy(name).into_owned(),
        })
}

/// Makes new rows of old ones.
#[derive(Default)]
pub(super) struct Converter {
    /// The address that was hashed last: the slots of a storage follow each other.
    last: Option<(Address, AccountKey)>,
}

impl Converter {
    fn account(&mut self, address: &[u8]) -> AccountKey {
        let address = Address::from_slice(address);
        match self.last {
            Some((last, key)) if last == address => key,
            _ => {
                let key = AccountKey::of(&address);
                self.last = Some((address, key));
                key
            }
        }
    }

    /// The new row of an old one.
    pub(super) fn convert(&mut self, kind: OldKind, key: &[u8], value: &[u8]) -> Result<SortedRow, RowError> {
        let mut reader = RowReader::new(key);
        let row = match kind {
            OldKind::Account => {
                let address = reader.take(20)?;
                let key = self.account(address).0.to_vec();
                state_row(StateKind::Account, key, address, value)?
            }
            OldKind::Slot => {
                let (key, slot) = self.slot(&mut reader)?;
                state_row(StateKind::Slot, key, &slot.to_be_bytes_trimmed_vec(), value)?
            }
            OldKind::History => {
                let [of_slot] = reader.array()?;
                let owner = match of_slot {
                    0 => self.account(reader.take(20)?).0.to_vec(),
                    _ => self.slot(&mut reader)?.0,
                };
                SortedRow {
                    table: TableId::StateHistory,
                    key: [&[of_slot], owner.as_slice(), reader.take(8)?].concat(),
                    value: value.to_vec(),
                }
            }
            OldKind::DeadStorage => {
                let account = self.account(reader.take(20)?);
                SortedRow {
                    table: TableId::DeadStorage,
                    key: account.storage(reader.u32()?).to_bytes().to_vec(),
                    value: value.to_vec(),
                }
            }
        };
        reader.finish()?;
        Ok(row)
    }

    /// Reads the old key of a slot. Returns the new one and the number.
    fn slot(&mut self, reader: &mut RowReader<'_>) -> Result<(Vec<u8>, U256), RowError> {
        let account = self.account(reader.take(20)?);
        let incarnation = reader.u32()?;
        let slot = U256::from_be_bytes(reader.array::<32>()?);
        let hash: B256 = slot_hash(&slot);
        Ok((account.storage(incarnation).slot(hash).to_bytes().to_vec(), slot))
    }
}

/// The new row of an account or a slot.
fn state_row(kind: StateKind, key: Vec<u8>, preimage: &[u8], old: &[u8]) -> Result<SortedRow, RowError> {
    let mut value = old;
    let front = read_number(&mut value)?;
    let list = take(&mut value, front / 2)?;
    let mut row = Vec::with_capacity(old.len() + 34);
    push_number(&mut row, list.len() as u64 * 4 + 2 + front % 2);
    row.extend_from_slice(list);
    match kind {
        StateKind::Account => row.extend_from_slice(preimage),
        StateKind::Slot => codec::push_uint(&mut row, U256::from_be_slice(preimage)),
    }
    row.extend_from_slice(value);
    let table = if is_present(kind, value) {
        kind.present()
    } else {
        kind.gone()
    };
    Ok(SortedRow {
        table,
        key,
        value: row,
    })
}
