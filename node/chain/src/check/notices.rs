//! Notices: each row against its own hash and its block, and the number of rows.
//!
//! No header answers for notices, so that a row says what the block's transactions told is
//! known from its hash alone.

use std::ops::ControlFlow;

use primitives::B256;
use store::{BlockReads, NoticeReads, Snapshot, Source, StoreError, TableId};

use super::{CheckError, CheckFault, StoreCheck, guarded};

/// Blocks between two looks whether to stop.
const REPORT_BLOCKS: usize = 1024;

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
    let mut faults = Vec::new();
    match scanned {
        Ok(Ok(())) => {}
        Ok(Err(error)) => faults.push(error.into()),
        Err(fault) => faults.push(fault),
    }
    let counted = guarded("number of notice rows", || view.notice_rows());
    match counted {
        Ok(Ok(expected)) if expected != keys.len() as u64 => faults.push(CheckFault::Rows {
            table: TableId::BlockToNotices.name(),
            got: keys.len() as u64,
            expected,
        }),
        Ok(Ok(_)) => {}
        Ok(Err(error)) => faults.push(error.into()),
        Err(fault) => faults.push(fault),
    }
    check.faults(faults);
    let total = keys.len();
    for (done, key) in keys.iter().enumerate() {
        let found = guarded(TableId::BlockToNotices.name(), || row(view, key));
        let fault = match found {
            Ok(Ok(None)) => None,
            Ok(Ok(Some(fault))) | Err(fault) => Some(fault),
            Ok(Err(error)) => Some(error.into()),
        };
        check.faults(fault.into_iter().collect());
        if done % REPORT_BLOCKS == 0 {
            check.progress("notices", done as u64, total as u64)?;
        }
    }
    Ok(())
}

/// What is wrong with the row under `key`.
fn row(view: &Snapshot, key: &[u8]) -> Result<Option<CheckFault>, StoreError> {
    let fault = |reason: String| Some(CheckFault::row(TableId::BlockToNotices, key, reason));
    let Some((number, hash)) = key.split_first_chunk::<8>().filter(|_| key.len() == 40) else {
        return Ok(fault("key is not of 40 bytes".to_owned()));
    };
    let (number, hash) = (u64::from_be_bytes(*number), B256::from_slice(hash));
    let notices = view.notices(number, &hash)?;
    if view.canonical_hash(number)? != Some(hash) {
        return Ok(fault("its block is not canonical".to_owned()));
    }
    // A block without receipts was named with the blocks.
    let receipts = view.receipts(number, &hash)?.unwrap_or_default();
    let indexes = || notices.iter().map(|notice| notice.transaction_index);
    if !indexes().is_sorted() || indexes().any(|index| index as usize >= receipts.len()) {
        return Ok(fault(format!(
            "notices of the transactions {:?}, want an order of at most {}",
            indexes().collect::<Vec<_>>(),
            receipts.len()
        )));
    }
    Ok(notices
        .is_empty()
        .then(|| fault("no notices".to_owned()))
        .flatten())
}
