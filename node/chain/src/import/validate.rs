//! The checks of a block that need no execution: header, seal, body.
//!
//! The rules themselves are in [`crate::rules`].

use primitives::{Address, Header};
use store::{BlockBody, BlockReads, HeaderRecord};

use super::block::{CandidateBlock, CheckedBlock};
use super::{ImportError, Importer};
use crate::rules;

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
        self.check_header(&block.header, &parent.header, now)?;
        self.check_seal(candidate)?;
        let senders = self.check_body(source, candidate)?;
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

    fn check_header(&self, header: &Header, parent: &Header, now: Option<u64>) -> Result<(), ImportError> {
        Ok(rules::check_header(&self.spec, header, parent, now)?)
    }

    fn check_seal(&self, candidate: &CandidateBlock<'_>) -> Result<(), ImportError> {
        if !candidate.seal_checked {
            self.seals.check(&self.spec, &candidate.block.header)?;
        }
        Ok(())
    }

    /// Checks the body. Returns the sender of each transaction.
    fn check_body(
        &self,
        source: &impl BlockReads,
        candidate: &CandidateBlock<'_>,
    ) -> Result<Vec<Address>, ImportError> {
        match candidate.senders {
            Some(senders) => Ok(senders.to_vec()),
            None => Ok(rules::body::check_body(
                &self.spec,
                &self.seals,
                source,
                candidate.block,
            )?),
        }
    }
}
