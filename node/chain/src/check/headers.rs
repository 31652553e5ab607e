//! Checks what is kept beside the canonical chain: the list of side blocks, headers without bodies,
//! and the best header chain.

use std::collections::HashSet;

use primitives::B256;
use store::{BareHeader, BlockReads, HeaderReads, SideBlock, Snapshot, StoreError, TableId, meta_key};

use super::{CheckError, CheckFault, StoreCheck, guarded};

/// Checks these rows. `sides` are the stored blocks that are not canonical.
pub(super) fn check(check: &mut StoreCheck<'_>, sides: &[(u64, B256)]) -> Result<(), CheckError> {
    let view = check.view;
    let parts = [
        guarded(TableId::SideBlockList.name(), || side_list(view, sides)),
        guarded(TableId::HashToBareHeader.name(), || {
            let (count, faults) = bare_headers(view)?;
            check.summary.bare_headers = count;
            Ok(faults)
        }),
        guarded(TableId::BestNumberToHash.name(), || best_chain(view)),
        guarded("reorganization", || reorganization(view)),
    ];
    for part in parts {
        check.faults(part.unwrap_or_else(|fault| vec![fault]));
    }
    check.progress("headers without bodies", check.summary.bare_headers, 0)
}

fn side_list(view: &Snapshot, sides: &[(u64, B256)]) -> Result<Vec<CheckFault>, StoreError> {
    let mut faults = Vec::new();
    let mut missing: HashSet<(u64, B256)> = sides.iter().copied().collect();
    for SideBlock {
        number,
        hash,
        parent,
        total_difficulty,
    } in view.side_blocks()?
    {
        let key = [number.to_be_bytes().as_slice(), hash.as_slice()].concat();
        let mut fault = |reason: &str| faults.push(CheckFault::row(TableId::SideBlockList, &key, reason));
        if !missing.remove(&(number, hash)) {
            fault("there is no such side block");
            continue;
        }
        // The check of blocks has reported a header that cannot be read.
        if let Ok(Some(record)) = view.header(number, &hash)
            && (record.header.parent_hash != parent || record.total_difficulty != total_difficulty)
        {
            fault("parent or total difficulty is not that of the block");
        }
    }
    let what = "row in the list of side blocks";
    let lacks = |(number, hash)| CheckFault::BlockLacks { number, hash, what };
    faults.extend(missing.into_iter().map(lacks));
    Ok(faults)
}

fn bare_headers(view: &Snapshot) -> Result<(u64, Vec<CheckFault>), StoreError> {
    let (mut rows, mut faults) = (Vec::new(), Vec::new());
    view.for_each_bare_header(|hash, bare| rows.push((hash, bare)))?;
    for (
        hash,
        BareHeader {
            header,
            total_difficulty,
        },
    ) in &rows
    {
        let mut fault = |reason: String| {
            faults.push(CheckFault::row(
                TableId::HashToBareHeader,
                hash.as_slice(),
                reason,
            ))
        };
        if header.hash() != *hash {
            fault(format!(
                "hash of the header: got {}, expected {hash}",
                header.hash()
            ));
        }
        if view.block_number(hash)?.is_some() {
            fault("the block is stored".to_owned());
        }
        match view.known_header(&header.parent_hash)? {
            None => fault(format!("no parent {}", header.parent_hash)),
            Some(parent) => {
                let expected = parent.total_difficulty.saturating_add(header.difficulty);
                if *total_difficulty != expected {
                    fault(format!(
                        "total difficulty: got {total_difficulty}, expected {expected}"
                    ));
                }
                if parent.header.number.checked_add(1) != Some(header.number) {
                    fault(format!(
                        "number {} on a parent {}",
                        header.number, parent.header.number
                    ));
                }
            }
        }
    }
    Ok((rows.len() as u64, faults))
}

fn best_chain(view: &Snapshot) -> Result<Vec<CheckFault>, StoreError> {
    let mut faults = Vec::new();
    let mut rows = view.best_hashes_beside_chain(0, usize::MAX)?;
    let fault = |got: String, expected: String| CheckFault::Meta {
        what: "best header",
        got,
        expected,
    };
    let Some((number, hash)) = view.best_header()? else {
        if let Some((number, hash)) = rows.last() {
            let got = format!("block {number} ({hash}) in {}", TableId::BestNumberToHash.name());
            faults.push(fault(got, "none, since the head is the best header".to_owned()));
        }
        return Ok(faults);
    };
    let head = view.head_block()?.map(|head| head.record.total_difficulty);
    let best = view.known_header(&hash)?;
    let is_heavier = best.is_some_and(|best| Some(best.total_difficulty) > head);
    if !is_heavier {
        faults.push(fault(
            format!("block {number} ({hash})"),
            "a known header that is heavier than the head".to_owned(),
        ));
    }
    // Each row is the parent of the one above, and the lowest builds on the canonical chain.
    let mut expected = (number, hash);
    while let Some(row) = rows.pop() {
        if row != expected {
            let text = |(number, hash)| format!("block {number} ({hash})");
            faults.push(fault(text(row), text(expected)));
            return Ok(faults);
        }
        let Some(known) = view
            .known_header(&row.1)?
            .filter(|known| known.header.number == row.0)
        else {
            faults.push(fault(
                format!("block {} ({})", row.0, row.1),
                "a known header".to_owned(),
            ));
            return Ok(faults);
        };
        expected = (row.0.saturating_sub(1), known.header.parent_hash);
    }
    if view.canonical_hash(expected.0)? != Some(expected.1) {
        faults.push(fault(
            format!("a chain on block {} ({})", expected.0, expected.1),
            "a chain on a canonical block".to_owned(),
        ));
    }
    Ok(faults)
}

/// The fault of the row that tells where a reorganization was going.
fn reorganization(view: &Snapshot) -> Result<Vec<CheckFault>, StoreError> {
    let Some(open) = view.open_reorganization()? else {
        return Ok(Vec::new());
    };
    let mut faults = Vec::new();
    for (number, hash) in [open.target, open.old_head] {
        if view.header(number, &hash)?.is_none() {
            let reason = format!("no block {number} ({hash})");
            faults.push(CheckFault::row(TableId::Meta, meta_key::REORGANIZATION, reason));
        }
    }
    Ok(faults)
}
