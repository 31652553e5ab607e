//! Values of accounts and slots after each block, while blocks are written and taken back.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use proptest::prelude::*;

use super::*;
use crate::Store;

prop_compose! {
    pub(super) fn version()(
        incarnation: u32,
        record in proptest::option::of((any::<u64>(), any::<[u8; 32]>(), any::<Option<[u8; 32]>>(), any::<Option<[u8; 32]>>())),
    ) -> AccountVersion {
        AccountVersion {
            incarnation,
            account: record.map(|(tx_nonce, balance, root, code)| AccountRecord {
                tx_nonce,
                balance: U256::from_be_bytes(balance),
                storage_root: root.map_or(EMPTY_ROOT, B256::from),
                code_hash: code.map_or(EMPTY_CODE_HASH, B256::from),
            }),
        }
    }
}

proptest! {
    #[test]
    fn account_versions_round_trip(version in version()) {
        prop_assert_eq!(AccountVersion::decode(&version.to_bytes()).unwrap(), version);
        let bytes = version.to_bytes();
        let mut reader = RowReader::new(&bytes);
        AccountVersion::skip(&mut reader).unwrap();
        prop_assert!(reader.is_empty());
    }

    #[test]
    fn bad_accounts_are_errors_and_never_a_panic(value: Vec<u8>) {
        let _ = AccountVersion::decode(&value);
        let _ = decode_slot_value(&value);
    }

    #[test]
    fn every_past_state_is_read_and_blocks_are_taken_back(
        blocks in proptest::collection::vec(proptest::collection::btree_map(0u8..4, (any::<bool>(), proptest::collection::btree_map(0u8..3, 0u8..3, 0..3)), 0..4), 1..90),
    ) {
        let store = Store::in_memory().unwrap();
        let mut model = ModelState::default();
        let mut states = vec![(model.clone(), rows(&store))];
        let mut changes: BTreeMap<Address, Vec<u64>> = BTreeMap::new();
        for (number, block) in (1..).zip(&blocks) {
            let changed = model.apply(number, block);
            for change in &changed {
                changes.entry(change.address).or_default().push(number);
            }
            write(&store, |tables| tables.put_state(number, &changed));
            states.push((model.clone(), rows(&store)));
        }
        let view = store.snapshot().unwrap();
        for (number, (model, _)) in (0..).zip(&states) {
            model.check(&view, number);
        }
        for number in 0..=blocks.len() as u64 + 1 {
            for (address, changes) in &changes {
                let after = changes.iter().copied().find(|block| *block > number);
                prop_assert_eq!(view.account_change_after(address, number).unwrap(), after);
                let before = changes.iter().copied().rev().find(|block| *block < number);
                prop_assert_eq!(view.account_change_before(address, number).unwrap(), before);
            }
            prop_assert_eq!(view.account_change_after(&Address::repeat_byte(0xff), number).unwrap(), None);
            prop_assert_eq!(view.account_change_before(&Address::repeat_byte(0xff), number).unwrap(), None);
        }
        for number in (1..=blocks.len() as u64).rev() {
            write(&store, |tables| {
                let changes = tables.changes(number)?;
                tables.revert_state(number, &changes)
            });
            let (model, expected) = &states[number as usize - 1];
            prop_assert!(rows(&store) == *expected, "block {} was taken back", number);
            model.check(&store.snapshot().unwrap(), number);
        }
    }
}

/// Accounts and slots, held in maps.
#[derive(Clone, Default)]
struct ModelState {
    accounts: BTreeMap<u8, AccountVersion>,
    slots: BTreeMap<(u8, u32, u8), U256>,
}

impl ModelState {
    /// Makes the changes of a block: for each account whether it is destroyed, and its slots.
    fn apply(&mut self, number: u64, block: &BTreeMap<u8, (bool, BTreeMap<u8, u8>)>) -> Vec<AccountWrite> {
        let mut changed = Vec::new();
        for (account, (destroyed, slots)) in block.iter().rev() {
            let entry = self.accounts.entry(*account).or_default();
            if *destroyed {
                *entry = AccountVersion {
                    account: None,
                    incarnation: entry.incarnation + 1,
                };
            } else {
                entry.account = Some(AccountRecord {
                    tx_nonce: number,
                    ..AccountRecord::default()
                });
            }
            let version = *entry;
            let slots = slots.iter().filter(|_| !destroyed);
            let slots: Vec<_> = slots
                .map(|(slot, value)| {
                    self.slots
                        .insert((*account, version.incarnation, *slot), U256::from(*value));
                    SlotWrite::new(U256::from(*slot), U256::from(*value))
                })
                .collect();
            changed.push(AccountWrite {
                address: Address::repeat_byte(*account),
                key: AccountKey::of(&Address::repeat_byte(*account)),
                version,
                slots,
            });
        }
        changed
    }

    fn check(&self, view: &impl StateReads, number: u64) {
        for account in 0..4 {
            let got = view.account_at(&Address::repeat_byte(account), number).unwrap();
            let expected = self.accounts.get(&account).copied().unwrap_or_default();
            assert_eq!(got, expected, "account {account} at {number}");
            for (incarnation, slot) in (0..5).flat_map(|one| (0..3).map(move |two| (one, two))) {
                let address = Address::repeat_byte(account);
                let got = view
                    .slot_at(&address, incarnation, &U256::from(slot), number)
                    .unwrap();
                let expected = self.slots.get(&(account, incarnation, slot));
                assert_eq!(
                    got,
                    expected.copied().unwrap_or_default(),
                    "slot {slot} at {number}"
                );
            }
        }
    }
}

fn rows(store: &Store) -> BTreeMap<(&'static str, Vec<u8>), Vec<u8>> {
    let view = store.snapshot().unwrap();
    let mut rows = BTreeMap::new();
    for table in TableId::ALL {
        view.scan(table, &[], |key, value| {
            rows.insert((table.name(), key.to_vec()), value.to_vec());
            ControlFlow::Continue(())
        })
        .unwrap();
    }
    rows
}

fn write(store: &Store, work: impl FnOnce(&mut Tables<'_>) -> Result<(), StoreError>) {
    let batch = store.batch().unwrap();
    batch.write(work).unwrap();
    batch.commit().unwrap();
}

#[test]
fn a_missing_or_foreign_list_of_changes_is_an_error() {
    let store = Store::in_memory().unwrap();
    let address = Address::repeat_byte(7);
    let change = |tx_nonce| AccountWrite {
        address,
        key: AccountKey::of(&address),
        version: AccountVersion {
            account: Some(AccountRecord {
                tx_nonce,
                ..AccountRecord::default()
            }),
            incarnation: 0,
        },
        slots: Vec::new(),
    };
    write(&store, |tables| {
        tables.put_state(1, &[change(1)])?;
        tables.put_state(2, &[change(2)])?;
        tables.put(TableId::BlockToChanges, &2u64.to_be_bytes(), &[0, 0])
    });
    let error = store.snapshot().unwrap().account_at(&address, 1).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("the row lacks a change of account_by_hash "),
        "{error}"
    );
    write(&store, |tables| {
        tables.delete(TableId::BlockToChanges, &2u64.to_be_bytes())
    });
    let error = store.snapshot().unwrap().account_at(&address, 1).unwrap_err();
    assert!(error.to_string().contains("row is missing"), "{error}");
    let now = store.snapshot().unwrap().account_at(&address, 2).unwrap();
    assert_eq!(now.account.map(|account| account.tx_nonce), Some(2));
}

#[test]
fn changed_code_is_an_error() {
    let store = Store::in_memory().unwrap();
    let hash = primitives::keccak256(b"code");
    write(&store, |tables| tables.put_code(&hash, b"cxde"));
    let error = store.snapshot().unwrap().code(&hash).unwrap_err();
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
}
