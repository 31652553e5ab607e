//! The checks of a block that need no execution: header, seal, body.
//!
//! The rules themselves are in [`crate::rules`].

use primitives::Header;
use store::{BlockBody, BlockReads, HeaderRecord};

use super::block::{CandidateBlock, CheckedBlock};
use super::{ImportError, Importer};
use crate::measured::ImportStage;
use crate::rules::body::check_body;
use crate::rules::check_header;

impl Importer {
    /// Checks that a header follows the rules, given its parent. `latest` is the latest allowed
    /// timestamp in unix seconds.
    pub(super) fn check_header_rules(
        &self,
        header: &Header,
        parent: &Header,
        latest: Option<u64>,
    ) -> Result<(), ImportError> {
        self.check_rules_are_supported(parent.number.saturating_add(1))?;
        Ok(check_header(&self.spec, header, parent, latest)?)
    }

    /// Checks the seal and the body of a block whose header follows the rules, except for the parts
    /// that were checked already.
    ///
    /// `parent` is the block's parent. `source` has the block's ancestors.
    pub(super) fn check_seal_and_body(
        &self,
        source: &impl BlockReads,
        parent: &HeaderRecord,
        candidate: &CandidateBlock<'_>,
    ) -> Result<CheckedBlock, ImportError> {
        let block = candidate.block;
        if !candidate.seal_is_right {
            ImportStage::Seal.time(|| self.seals.check_seal(&self.spec, &block.header))?;
        }
        let senders = match candidate.senders {
            Some(senders) => senders.to_vec(),
            None => ImportStage::Body.time(|| check_body(&self.spec, &self.seals, source, block))?,
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
