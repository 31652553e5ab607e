//! Walks the whole state at a height, account by account.
//!
//! The walk goes in the order of addresses and slots. It holds one row at a time, so its memory
//! does not grow with the state. It compares nothing: [`crate::check`] does that.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

use primitives::{Address, U256};
use store::{AccountRecord, StateReads, StoreError, TableId};

/// Length of an address in a key.
const ADDRESS_BYTES: usize = 20;
/// Length of address and incarnation, which stand before the slot in a key.
const OWNER_BYTES: usize = 24;
/// Length of a slot's key: address, incarnation, slot.
const SLOT_KEY_BYTES: usize = 56;

/// An account that exists at the height of the walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScannedAccount {
    /// The account's address.
    pub address: Address,
    /// The incarnation that the account's storage belongs to.
    pub incarnation: u32,
    /// Nonce, balance, code hash and storage root.
    pub account: AccountRecord,
}

/// Visits the accounts that exist after block `number`, in the order of their addresses.
///
/// # Errors
/// Any error of `visit`, and [`StoreError`] when a row cannot be read.
pub fn accounts<E: From<StoreError>>(
    source: &impl StateReads,
    number: u64,
    mut visit: impl FnMut(ScannedAccount) -> Result<(), E>,
) -> Result<(), E> {
    let mut low = vec![0; ADDRESS_BYTES];
    while let Some(key) = first_key::<ADDRESS_BYTES>(source, TableId::Account, &low)? {
        let address = Address::from(key);
        let version = source.account_at(&address, number)?;
        if let Some(account) = version.account {
            visit(ScannedAccount {
                address,
                incarnation: version.incarnation,
                account,
            })?;
        }
        low = key.to_vec();
        if !increment(&mut low) {
            break;
        }
    }
    Ok(())
}

/// Visits the slots of an account's storage that are not zero after block `number`, ascending.
///
/// # Errors
/// Any error of `visit`, and [`StoreError`] when a row cannot be read.
pub fn slots<E: From<StoreError>>(
    source: &impl StateReads,
    (address, incarnation): (Address, u32),
    number: u64,
    mut visit: impl FnMut(U256, U256) -> Result<(), E>,
) -> Result<(), E> {
    let owner = [address.as_slice(), &incarnation.to_be_bytes()].concat();
    let mut low = owner.clone();
    while let Some(key) = first_key::<SLOT_KEY_BYTES>(source, TableId::Storage, &low)? {
        if key[..OWNER_BYTES] != owner[..] {
            break;
        }
        let slot = U256::from_be_slice(&key[OWNER_BYTES..]);
        let value = source.slot_at(&address, incarnation, &slot, number)?;
        if !value.is_zero() {
            visit(slot, value)?;
        }
        low = key.to_vec();
        if !increment(&mut low) {
            break;
        }
    }
    Ok(())
}

/// Visits the accounts that exist after block `number`, each with its slots that are not zero.
///
/// The walk stops after `rows_max` accounts and slots together. Returns `false` if the state has
/// more; then not all accounts were visited.
///
/// # Errors
/// [`StoreError`] when a row cannot be read.
pub fn small_state(
    source: &impl StateReads,
    number: u64,
    rows_max: usize,
    mut visit: impl FnMut(ScannedAccount, BTreeMap<U256, U256>),
) -> Result<bool, StoreError> {
    let left = Cell::new(rows_max);
    let take = || {
        left.set(left.get().checked_sub(1).ok_or(SmallStateStop::Full)?);
        Ok::<_, SmallStateStop>(())
    };
    let walked = accounts(source, number, |account| {
        take()?;
        let mut all = BTreeMap::new();
        slots(
            source,
            (account.address, account.incarnation),
            number,
            |slot, value| {
                all.insert(slot, value);
                take()
            },
        )?;
        visit(account, all);
        Ok(())
    });
    match walked {
        Ok(()) => Ok(true),
        Err(SmallStateStop::Full) => Ok(false),
        Err(SmallStateStop::Store(error)) => Err(error),
    }
}

/// The reason why [`small_state`] stopped before the end.
enum SmallStateStop {
    /// The state has more rows than the limit.
    Full,
    Store(StoreError),
}

impl From<StoreError> for SmallStateStop {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// The smallest key that is not below `low`.
fn first_key<const N: usize>(
    source: &impl StateReads,
    table: TableId,
    low: &[u8],
) -> Result<Option<[u8; N]>, StoreError> {
    let mut found = None;
    source.scan(table, low, |key, _| {
        let got = key.len();
        let key = <[u8; N]>::try_from(key).map_err(|_| {
            StoreError::corrupt(table, key, format!("key length: got {got} bytes, expected {N}"))
        });
        found = Some(key);
        ControlFlow::Break(())
    })?;
    found.transpose()
}

/// Adds 1 to a big-endian number. Returns `false` if it overflowed.
fn increment(bytes: &mut [u8]) -> bool {
    for byte in bytes.iter_mut().rev() {
        *byte = byte.wrapping_add(1);
        if *byte != 0 {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use store::{AccountVersion, AccountWrite, Snapshot, Store};

    use super::*;

    fn version(nonce: Option<u64>, incarnation: u32) -> AccountVersion {
        AccountVersion {
            account: nonce.map(|tx_nonce| AccountRecord {
                tx_nonce,
                ..Default::default()
            }),
            incarnation,
        }
    }

    fn view() -> std::sync::Arc<Snapshot> {
        let store = Store::in_memory().unwrap();
        let batch = store.batch().unwrap();
        let [first, second, last] = [0, 7, 0xff].map(Address::repeat_byte);
        let slot = U256::from;
        batch
            .write(|tables| {
                let change = |address, version, slots: &[(U256, U256)]| AccountWrite {
                    address,
                    version,
                    slots: slots.to_vec(),
                };
                let old = version(Some(2), 0);
                tables.put_state(
                    1,
                    &[
                        change(first, version(Some(1), 0), &[]),
                        change(second, old, &[(slot(1), slot(10))]),
                    ],
                )?;
                tables.put_state(
                    2,
                    &[
                        change(second, old, &[(U256::MAX, slot(11))]),
                        change(last, version(Some(9), 0), &[(slot(1), slot(1))]),
                    ],
                )?;
                tables.put_state(3, &[change(second, version(None, 1), &[])])?;
                let new = version(Some(4), 1);
                tables.put_state(
                    4,
                    &[change(second, new, &[(slot(1), slot(12)), (slot(2), slot(13))])],
                )?;
                tables.put_state(5, &[change(second, new, &[(slot(2), U256::ZERO)])])
            })
            .unwrap();
        batch.commit().unwrap();
        store.snapshot().unwrap()
    }

    #[test]
    fn accounts_of_a_height_are_visited() {
        let view = view();
        let check = |number, expected: &[(u8, u64, u32)]| {
            let mut got = Vec::new();
            accounts::<StoreError>(&view, number, |flat| {
                got.push((flat.address[0], flat.account.tx_nonce, flat.incarnation));
                Ok(())
            })
            .unwrap();
            assert_eq!(got, expected, "at {number}");
        };
        check(0, &[]);
        check(1, &[(0, 1, 0), (7, 2, 0)]);
        check(2, &[(0, 1, 0), (7, 2, 0), (0xff, 9, 0)]);
        check(3, &[(0, 1, 0), (0xff, 9, 0)]);
        check(u64::MAX, &[(0, 1, 0), (7, 4, 1), (0xff, 9, 0)]);
    }

    #[test]
    fn slots_of_an_incarnation_at_a_height_are_visited() {
        let view = view();
        let check = |incarnation, number, expected: &[(U256, u64)]| {
            let mut got = BTreeMap::new();
            slots::<StoreError>(
                &view,
                (Address::repeat_byte(7), incarnation),
                number,
                |slot, value| {
                    got.insert(slot, value);
                    Ok(())
                },
            )
            .unwrap();
            let expected = expected
                .iter()
                .map(|(slot, value)| (*slot, U256::from(*value)))
                .collect();
            assert_eq!(got, expected, "incarnation {incarnation} at {number}");
        };
        let one = U256::from(1);
        check(0, 1, &[(one, 10)]);
        check(0, 2, &[(one, 10), (U256::MAX, 11)]);
        check(1, 4, &[(one, 12), (U256::from(2), 13)]);
        check(1, 5, &[(one, 12)]);
        check(2, 9, &[]);
    }

    #[test]
    fn an_error_of_the_visitor_ends_the_walk_and_bad_keys_are_errors() {
        let ended = accounts(&view(), 9, |_| {
            Err(StoreError::corrupt(TableId::Meta, b"", "enough"))
        });
        assert!(ended.unwrap_err().to_string().contains("enough"));
        let store = Store::in_memory().unwrap();
        let batch = store.batch().unwrap();
        batch
            .write(|tables| tables.put(TableId::Account, b"short", b""))
            .unwrap();
        batch.commit().unwrap();
        let error = accounts::<StoreError>(&store.snapshot().unwrap(), 9, |_| Ok(())).unwrap_err();
        assert!(
            error.to_string().contains("key length: got 5 bytes, expected 20"),
            "{error}"
        );
    }
}
