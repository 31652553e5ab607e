//! The checks of a block that need no execution: header, seal, body.
//!
//! The rules themselves are in [`crate::rules`].

use store::{BlockBody, BlockReads, HeaderRecord};

use super::block::{CandidateBlock, CheckedBlock};
use super::{ImportError, Importer};
use crate::rules::body::check_body;
use crate::rules::check_header;

impl Importer {
    /// Checks the header, the seal and the body of a block, except for the parts that were
    /// checked already.
    ///
    /// `parent` is the block's parent. `source` has the block's ancestors. `now` is the clock in
    /// unix seconds.
    pub(super) fn check_block(
        &self,
        source: &impl BlockReads,
        parent: &HeaderRecord,
        candidate: &CandidateBlock<'_>,
        now: Option<u64>,
    ) -> Result<CheckedBlock, ImportError> {
        let block = candidate.block;
        self.check_rules_are_supported(parent.header.number + 1)?;
        check_header(&self.spec, &block.header, &parent.header, now)?;
        if !candidate.seal_is_right {
            self.seals.check_seal(&self.spec, &block.header)?;
        }
        let senders = match candidate.senders {
            Some(senders) => senders.to_vec(),
            None => check_body(&self.spec, &self.seals, source, block)?,
        };
        Ok(CheckedBlock {
            hash: candidate.hash,
            record: HeaderRecord {
                header: block.header.clone(),
                total_difficulty: parent.total_difficulty + block.header.difficulty,
                executed: false,
            },
            body: BlockBody {
                transactions: block.transactions.clone(),
                senders,
                uncles: block.uncles.clone(),
            },
            is_stored: false,
        })
    }

    /// Refuses a block that follows rules which this program does not have.
    fn check_rules_are_supported(&self, number: u64) -> Result<(), ImportError> {
        match self.spec.unsupported_fork(number) {
            None => Ok(()),
            Some(rules) => Err(ImportError::UnsupportedRules {
                rules: rules.to_owned(),
            }),
        }
    }
}
