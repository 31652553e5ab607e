//! The changes of a block in the state: keys, and the values before the block.
//!
//! The row of [`TableId::BlockToChanges`](crate::TableId::BlockToChanges), packed as
//! [`crate::compression`] says:
//!
//! - number of accounts (LEB128), then for each account, ascending: address (20) and the account
//!   before the block, encoded as in its own row;
//! - for each account with changed slots: its index in the list above, the incarnation of its
//!   storage and the number of slots (LEB128 each), then for each slot, ascending: slot and the
//!   value before the block, each with a length byte and without leading zero bytes.
//!
//! Knows bytes and values only.

use std::ops::Range;

use primitives::{Address, U256};

use super::{AccountKey, AccountVersion, SlotKey, slot_hash};
use crate::codec::{RowReader, push_number, push_uint};
use crate::compression::{pack, unpack};
use crate::row_error::RowError;

/// The changes of one block, with the values before it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StateChanges {
    /// Accounts that the block changed, ascending, as they were before it.
    pub accounts: Vec<(Address, AccountVersion)>,
    /// Slots that the block changed, ascending by account and slot.
    pub slots: Vec<SlotChange>,
}

/// A slot that a block changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotChange {
    /// The account that owns the slot. It is among the changed accounts of the block.
    pub address: Address,
    /// The incarnation that the storage belongs to.
    pub incarnation: u32,
    /// The slot.
    pub slot: U256,
    /// The value before the block.
    pub before: U256,
}

impl SlotChange {
    /// Address, incarnation and slot. Slots are sorted by these.
    pub const fn key(&self) -> (Address, u32, U256) {
        (self.address, self.incarnation, self.slot)
    }

    /// The key of the slot's row.
    pub fn row_key(&self) -> SlotKey {
        let owner = AccountKey::of(&self.address).storage(self.incarnation);
        owner.slot(slot_hash(&self.slot))
    }

    const fn owner(&self) -> (Address, u32) {
        (self.address, self.incarnation)
    }
}

/// The changes of a block while its row is made. Block 0 may have a million accounts, so what was
/// before is kept as the row has it.
#[derive(Default)]
pub(super) struct ChangesBefore {
    /// In any order, with the place of the account before the block in `versions`.
    accounts: Vec<(Address, Range<u32>)>,
    /// Equal versions that follow each other are here once, such as those before block 0.
    versions: Vec<u8>,
    /// In any order.
    pub(super) slots: Vec<SlotChange>,
}

impl ChangesBefore {
    /// The changes of a block that changes about so many accounts.
    pub(super) fn with_capacity(accounts: usize) -> Self {
        Self {
            accounts: Vec::with_capacity(accounts),
            ..Self::default()
        }
    }

    pub(super) fn add_account(&mut self, address: Address, before: &AccountVersion) {
        let start = self.versions.len();
        before.encode(&mut self.versions);
        let (older, version) = self.versions.split_at(start);
        let place = match self.accounts.last() {
            Some((_, last)) if older[bytes_at(last)] == *version => {
                self.versions.truncate(start);
                last.clone()
            }
            _ => {
                let fits = "gas bounds a block's changes, and all before block 0 are one version";
                let place = |at: usize| u32::try_from(at).expect(fits);
                place(start)..place(self.versions.len())
            }
        };
        self.accounts.push((address, place));
    }

    pub(super) fn encode(mut self) -> Vec<u8> {
        self.accounts.sort_unstable_by_key(|(address, _)| *address);
        self.slots.sort_unstable_by_key(SlotChange::key);
        let versions = self.accounts.iter().map(|(_, before)| before.len());
        let bytes = self.accounts.len() * 20 + versions.sum::<usize>() + self.slots.len() * 40;
        let mut row = Vec::with_capacity(8 + bytes);
        push_number(&mut row, self.accounts.len() as u64);
        for (address, before) in &self.accounts {
            row.extend_from_slice(address.as_slice());
            row.extend_from_slice(&self.versions[bytes_at(before)]);
        }
        let mut index = 0;
        for slots in self.slots.chunk_by(|one, other| one.owner() == other.owner()) {
            let (address, incarnation) = slots[0].owner();
            index += self.accounts[index..].partition_point(|(other, _)| *other < address);
            debug_assert_eq!(self.accounts.get(index).map(|(other, _)| *other), Some(address));
            push_number(&mut row, index as u64);
            push_number(&mut row, incarnation.into());
            push_number(&mut row, slots.len() as u64);
            for change in slots {
                push_uint(&mut row, change.slot);
                push_uint(&mut row, change.before);
            }
        }
        // Packing takes memory of the row's size once more.
        drop(self);
        pack(&row)
    }
}

/// A place in [`ChangesBefore::versions`].
const fn bytes_at(place: &Range<u32>) -> Range<usize> {
    place.start as usize..place.end as usize
}

impl StateChanges {
    pub(super) fn decode(packed: &[u8]) -> Result<Self, RowError> {
        let mut changes = Self::default();
        let row = unpack(packed)?;
        let mut reader = RowReader::new(&row);
        for _ in 0..reader.number()? {
            changes.accounts.push(read_account(&mut reader)?);
        }
        while !reader.is_empty() {
            let group = SlotGroup::read(&mut reader)?;
            let (address, _) = group.account(&changes.accounts)?;
            for _ in 0..group.count {
                changes.slots.push(SlotChange {
                    address: *address,
                    incarnation: group.incarnation,
                    slot: reader.uint()?,
                    before: reader.uint()?,
                });
            }
        }
        let sorted = changes.accounts.is_sorted_by(|one, other| one.0 < other.0)
            && changes.slots.is_sorted_by(|one, other| one.key() < other.key());
        if !sorted {
            return Err(RowError::Order {
                field: "accounts and slots",
            });
        }
        Ok(changes)
    }

    /// The account before the block of this row; `None` if the block did not change it.
    pub(super) fn find_account(packed: &[u8], address: &Address) -> Result<Option<AccountVersion>, RowError> {
        let row = unpack(packed)?;
        let mut reader = RowReader::new(&row);
        for _ in 0..reader.number()? {
            if reader.take(20)? == address.as_slice() {
                return AccountVersion::read(&mut reader).map(Some);
            }
            AccountVersion::skip(&mut reader)?;
        }
        Ok(None)
    }

    /// The value of a slot before the block of this row; `None` if the block did not change it.
    pub(super) fn find_slot(
        packed: &[u8],
        address: &Address,
        incarnation: u32,
        slot: &U256,
    ) -> Result<Option<U256>, RowError> {
        let row = unpack(packed)?;
        let mut reader = RowReader::new(&row);
        let mut wanted = None;
        for index in 0..reader.number()? {
            if reader.take(20)? == address.as_slice() {
                wanted = Some(index);
            }
            AccountVersion::skip(&mut reader)?;
        }
        let slot = slot.to_be_bytes_trimmed_vec();
        while !reader.is_empty() {
            let group = SlotGroup::read(&mut reader)?;
            let is_owner = Some(group.index) == wanted && group.incarnation == incarnation;
            for _ in 0..group.count {
                let found = reader.uint_bytes()? == slot && is_owner;
                if found {
                    return reader.uint().map(Some);
                }
                reader.uint_bytes()?;
            }
        }
        Ok(None)
    }
}

fn read_account(reader: &mut RowReader<'_>) -> Result<(Address, AccountVersion), RowError> {
    let address = Address::from(reader.array()?);
    Ok((address, AccountVersion::read(reader)?))
}

/// The fields before the changed slots of an account.
struct SlotGroup {
    index: u64,
    incarnation: u32,
    count: u64,
}

impl SlotGroup {
    fn read(reader: &mut RowReader<'_>) -> Result<Self, RowError> {
        Ok(Self {
            index: reader.number()?,
            incarnation: reader.number32("incarnation")?,
            count: reader.number()?,
        })
    }

    fn account<'a>(
        &self,
        accounts: &'a [(Address, AccountVersion)],
    ) -> Result<&'a (Address, AccountVersion), RowError> {
        let account = usize::try_from(self.index)
            .ok()
            .and_then(|index| accounts.get(index));
        account.ok_or(RowError::NotBelow {
            field: "index of an account",
            got: self.index,
            limit: accounts.len() as u64,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::AccountRecord;
    use crate::state::tests::version;

    /// Often the one before an account is made, so that neighbours have equal versions.
    fn version_before() -> impl Strategy<Value = AccountVersion> {
        prop_oneof![Just(AccountVersion::default()), version()]
    }

    prop_compose! {
        fn state_changes()(
            accounts in proptest::collection::btree_map(any::<[u8; 20]>(), (version_before(), any::<u32>(), proptest::collection::btree_map(0u64..9, any::<u64>(), 0..4)), 0..6),
        ) -> StateChanges {
            let mut changes = StateChanges::default();
            for (address, (before, incarnation, slots)) in accounts {
                let address = Address::from(address);
                changes.accounts.push((address, before));
                changes.slots.extend(slots.into_iter().map(|(slot, value)| SlotChange {
                    address,
                    incarnation,
                    slot: U256::from(slot) << 200,
                    before: U256::from(value),
                }));
            }
            changes
        }
    }

    /// The row, made from the highest address to the lowest.
    fn encode(changes: &StateChanges) -> Vec<u8> {
        let mut before = ChangesBefore::default();
        for (address, version) in changes.accounts.iter().rev() {
            before.add_account(*address, version);
        }
        before.slots.extend(changes.slots.iter().rev());
        before.encode()
    }

    proptest! {
        #[test]
        fn changes_round_trip_and_are_found(changes in state_changes()) {
            let row = encode(&changes);
            prop_assert_eq!(&StateChanges::decode(&row).unwrap(), &changes);
            for (address, before) in &changes.accounts {
                prop_assert_eq!(StateChanges::find_account(&row, address).unwrap(), Some(*before));
            }
            for change in &changes.slots {
                let find = |incarnation, slot| StateChanges::find_slot(&row, &change.address, incarnation, &slot).unwrap();
                prop_assert_eq!(find(change.incarnation, change.slot), Some(change.before));
                prop_assert_eq!(find(change.incarnation.wrapping_add(1), change.slot), None);
                prop_assert_eq!(find(change.incarnation, change.slot + U256::from(1)), None);
            }
            let absent = Address::repeat_byte(0x5a);
            prop_assert_eq!(StateChanges::find_account(&row, &absent).unwrap(), None);
        }

        #[test]
        fn bad_rows_are_errors_and_never_a_panic(row: Vec<u8>) {
            let row = [&[0], row.as_slice()].concat();
            let _ = StateChanges::decode(&row);
            let _ = StateChanges::find_account(&row, &Address::ZERO);
            let _ = StateChanges::find_slot(&row, &Address::ZERO, 0, &U256::ZERO);
        }
    }

    #[test]
    fn the_row_of_a_full_block_is_compressed() {
        let accounts = (0..200u64).map(|index| {
            let address = Address::from_slice(&primitives::keccak256(index.to_be_bytes())[12..]);
            let account = AccountRecord {
                balance: U256::from(10).pow(U256::from(21)) + U256::from(index),
                ..AccountRecord::default()
            };
            let account = Some(account);
            (
                address,
                AccountVersion {
                    account,
                    incarnation: 0,
                },
            )
        });
        let mut changes = StateChanges {
            accounts: accounts.collect(),
            slots: Vec::new(),
        };
        changes.accounts.sort_unstable_by_key(|(address, _)| *address);
        let row = encode(&changes);
        assert!(row.len() < 200 * 27, "{} bytes", row.len());
        assert_eq!(StateChanges::decode(&row).unwrap(), changes);
        let (address, before) = changes.accounts[77];
        assert_eq!(StateChanges::find_account(&row, &address).unwrap(), Some(before));
    }

    #[test]
    fn a_count_that_the_row_cannot_hold_is_an_error() {
        let row = [0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f];
        assert!(StateChanges::decode(&row).is_err());
    }
}
