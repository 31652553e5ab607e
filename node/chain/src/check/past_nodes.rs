//! Checks the trie nodes of recent states: the rows are those of the last blocks without a gap, and
//! each has what taking the block back makes again.

use store::{BlockReads, HeaderReads, PastNodeReads, StateReads, StoreError, TableId};

use super::{CheckError, CheckFault, StoreCheck, guarded};
use crate::import::KEPT_TRIES;
use crate::state::nodes_before_block;
use crate::trie::PastTries;

const TABLE: TableId = TableId::BlockToPastNodes;

/// Checks the rows up to block `head`.
pub(super) fn check(check: &mut StoreCheck<'_>, head: u64) -> Result<(), CheckError> {
    let (view, mut tries) = (check.view, PastTries::default());
    let range = guarded(TABLE.name(), || {
        let range = view.past_nodes_range()?;
        // A reorganization that was cut short leaves the head above them.
        let is_open = view.open_reorganization()?.is_some();
        Ok::<_, StoreError>(range.filter(|(_, last)| !is_open || *last > head))
    });
    let (first, last) = match range {
        Ok(Some(range)) => range,
        Ok(None) => return Ok(()),
        Err(fault) => {
            check.faults(vec![fault]);
            return Ok(());
        }
    };
    let lowest = (head + 2).saturating_sub(KEPT_TRIES);
    if last != head || first < lowest {
        let text =
            format!("blocks: got {first} to {last}, expected the last ones up to {head}, from {lowest} on");
        check.faults(vec![CheckFault::row(TABLE, &first.to_be_bytes(), text)]);
        return Ok(());
    }
    for number in (first..=last).rev() {
        let compared = guarded(TABLE.name(), || {
            let root = |number: u64| -> Result<_, StoreError> {
                let Some(hash) = view.canonical_hash(number)? else {
                    return Ok(None);
                };
                Ok(view.header(number, &hash)?.map(|record| record.header.state_root))
            };
            let (Some(root), Some(parent_root)) = (root(number)?, root(number.saturating_sub(1))?) else {
                // The check of blocks has reported the missing block.
                return Ok(None);
            };
            let changes = view.changes(number)?;
            let expected = nodes_before_block(&tries.over(view), number, &changes, root, parent_root)?;
            let is_right = view.past_nodes(number)?.as_ref() == Some(&expected);
            tries.take_back(&changes, expected);
            Ok::<_, StoreError>(Some(is_right))
        });
        let fault = match compared {
            Ok(Some(true)) => None,
            Ok(Some(false)) => {
                let text = "nodes before the block: got others, expected what the block's changes say";
                Some(CheckFault::row(TABLE, &number.to_be_bytes(), text))
            }
            Ok(None) => return Ok(()),
            Err(fault) => Some(fault),
        };
        if let Some(fault) = fault {
            // Rows below are read through these nodes.
            check.faults(vec![fault]);
            return Ok(());
        }
        check.progress("trie nodes of recent states", last - number + 1, last - first + 1)?;
    }
    Ok(())
}
