//! The blocks that changed an account, one after the other in either direction.

use primitives::Address;

use super::history::{
    StateRow, TABLE, history_key, history_prefix, next_older_change, read_state_row, with_list,
};
use super::{AccountKey, StateKind};
use crate::StoreError;
use crate::row_error::RowError;
use crate::source::Source;

fn row_of<T>(
    source: &impl Source,
    key: &AccountKey,
    read: impl FnMut(&StateRow<'_>) -> Result<T, RowError>,
) -> Result<Option<T>, StoreError> {
    let found = read_state_row(source, StateKind::Account, key.0.as_slice(), read)?;
    Ok(found.map(|(_, read)| read))
}

/// The first block above `number` that changed the account.
pub(super) fn change_after(
    source: &impl Source,
    address: &Address,
    number: u64,
) -> Result<Option<u64>, StoreError> {
    let key = AccountKey::of(address);
    let Some(Some(later)) = row_of(source, &key, |row| row.next_change(number))? else {
        return Ok(None);
    };
    if !later.may_be_older {
        return Ok(Some(later.block));
    }
    let older = next_older_change(source, StateKind::Account, key.0.as_slice(), number)?;
    Ok(older.or(Some(later.block)))
}

/// The last block below `number` that changed the account.
pub(super) fn change_before(
    source: &impl Source,
    address: &Address,
    number: u64,
) -> Result<Option<u64>, StoreError> {
    let Some(highest) = number.checked_sub(1) else {
        return Ok(None);
    };
    let key = AccountKey::of(address);
    let below = |blocks: Vec<u64>| blocks.into_iter().rev().find(|block| *block < number);
    let in_row = row_of(source, &key, |row| Ok((below(row.blocks()?), row.has_older())))?;
    match in_row {
        None | Some((None, false)) => Ok(None),
        Some((Some(block), _)) => Ok(Some(block)),
        Some((None, true)) => {
            let prefix = history_prefix(StateKind::Account, key.0.as_slice());
            let (low, high) = (history_key(&prefix, 0), history_key(&prefix, highest));
            let found = source.with_last(TABLE, &low, &high, |key, value| {
                with_list(&prefix, key, value, |row| {
                    let mut blocks = Vec::new();
                    row.read(&mut blocks)?;
                    Ok(below(blocks))
                })
            })?;
            Ok(found.transpose()?.flatten())
        }
    }
}
