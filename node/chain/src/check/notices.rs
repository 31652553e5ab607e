//! Checks the notices: each row against its own hash and its block, and the number of rows.
//!
//! No header has a root of the notices, so the content of a row is checked by the row's hash only.

use std::ops::ControlFlow;

use primitives::B256;
use store::{BlockReads, NoticeReads, Snapshot, Source, StoreError, TableId};

use super::{CheckError, CheckFault, StoreCheck, guarded};

/// Progress is reported, and the order to stop is read, once in so many rows.
const PROGRESS_ROWS: usize = 1024;

/// Checks the notices of all blocks.
pub(super) fn check(check: &mut StoreCheck<'_>) -> Result<(), CheckError> {
    let view = check.view;
    let mut keys = Vec::new();
    let scanned = guarded(TableId::BlockToNotices.name(), || {
        view.scan(TableId::BlockToNotices, &[], |key, _| {
            keys.push(key.to_vec());
            ControlFlow::Continue(())
        })
    });
    let mut faults = Vec::from_iter(scanned.err());
    match guarded("number of notice rows", || view.notice_rows()) {
        Ok(expected) if expected != keys.len() as u64 => faults.push(CheckFault::Rows {
            table: TableId::BlockToNotices.name(),
            got: keys.len() as u64,
            expected,
        }),
        Ok(_) => {}
        Err(fault) => faults.push(fault),
    }
    check.faults(faults);
    let total = keys.len();
    for (done, key) in keys.iter().enumerate() {
        let fault = guarded(TableId::BlockToNotices.name(), || row_fault(view, key));
        check.faults(fault.unwrap_or_else(Some).into_iter().collect());
        if done % PROGRESS_ROWS == 0 {
            check.progress("notices", done as u64, total as u64)?;
        }
    }
    Ok(())
}

/// The fault of the row with this key; `None` if the row is sound.
fn row_fault(view: &Snapshot, key: &[u8]) -> Result<Option<CheckFault>, StoreError> {
    let fault = |reason: String| Some(CheckFault::row(TableId::BlockToNotices, key, reason));
    let Some((number, hash)) = key.split_first_chunk::<8>().filter(|_| key.len() == 40) else {
        return Ok(fault(format!("key length: got {} bytes, expected 40", key.len())));
    };
    let (number, hash) = (u64::from_be_bytes(*number), B256::from_slice(hash));
    let notices = view.notices(number, &hash)?;
    if view.canonical_hash(number)? != Some(hash) {
        return Ok(fault("the block is not canonical".to_owned()));
    }
    // The check of blocks has reported missing receipts.
    let receipts = view.receipts(number, &hash)?.unwrap_or_default();
    let indexes = || notices.iter().map(|notice| notice.transaction_index);
    if !indexes().is_sorted() || indexes().any(|index| index as usize >= receipts.len()) {
        return Ok(fault(format!(
            "transaction indexes of the notices: got {:?}, expected ascending numbers below {}",
            indexes().collect::<Vec<_>>(),
            receipts.len()
        )));
    }
    Ok(notices
        .is_empty()
        .then(|| fault("no notices".to_owned()))
        .flatten())
}
