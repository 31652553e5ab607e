//! Times and counts of the chain, for the recorder of the `metrics` crate. This module does not
//! know the recorder. If there is none, each call costs a few nanoseconds.
//!
//! The names begin with `vnode_`. Their descriptions are in the package `node`, because it serves
//! them.

use std::time::{Duration, Instant};

use metrics::{counter, histogram};
use tracing::Span;

/// A part of the import of a block, in the order in which the parts are done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ImportStage {
    /// The proof of work.
    Seal,
    /// Transactions, uncles and senders.
    Body,
    /// The transactions run.
    Execute,
    /// Roots of the state and of the receipts.
    Roots,
    /// The rows are written into the transaction.
    Rows,
    /// The transaction is committed.
    Commit,
}

impl ImportStage {
    const fn name(self) -> &'static str {
        match self {
            Self::Seal => "seal",
            Self::Body => "body",
            Self::Execute => "execute",
            Self::Roots => "roots",
            Self::Rows => "rows",
            Self::Commit => "commit",
        }
    }

    /// The span of this part, for whoever follows a block.
    pub(crate) fn span(self) -> Span {
        tracing::debug_span!("import_stage", otel.name = self.name())
    }

    /// Records how long this part has taken.
    pub(crate) fn took(self, time: Duration) {
        histogram!("vnode_import_stage_seconds", "stage" => self.name()).record(time);
    }

    /// Runs this part, and records how long it takes, whether it fails or not.
    pub(crate) fn time<T>(self, run: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = self.span().in_scope(run);
        self.took(start.elapsed());
        result
    }
}

/// Blocks have come. `result` is what became of them.
pub(crate) fn blocks_came(result: &'static str, count: usize) {
    counter!("vnode_blocks_total", "result" => result).increment(count as u64);
}

/// Blocks were taken back, because another branch is heavier now.
pub(crate) fn reorganized(blocks: usize) {
    counter!("vnode_reorganizations_total").increment(1);
    histogram!("vnode_reorganization_blocks").record(blocks as f64);
}

/// A miner has handed in a solution. `result` is `accepted`, or why it was refused.
pub(crate) fn solution(result: &'static str) {
    counter!("vnode_solutions_total", "result" => result).increment(1);
}

/// New work was published for miners. `time` is how long its block took to build.
pub(crate) fn work_published(time: Duration) {
    histogram!("vnode_work_build_seconds").record(time);
}

/// A transaction was offered to the pool.
pub(crate) fn transaction_offered(taken: bool) {
    let result = if taken { "taken" } else { "refused" };
    counter!("vnode_pool_offers_total", "result" => result).increment(1);
}
