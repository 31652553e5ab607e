//! The answers of a VNODE that were refused, for the operator.

use std::time::{Duration, Instant};

use metrics::counter;
use parking_lot::Mutex;

use super::error::ProofRefusal;

/// An answer that was refused is shown for so long.
const REFUSAL_SHOWN: Duration = Duration::from_secs(600);

/// The answers of the VNODE about the base chain that were refused.
#[derive(Debug, Default)]
pub(crate) struct BaseRefusals(Mutex<Option<(Instant, String)>>);

impl BaseRefusals {
    /// Notes a refused answer. The same one is logged again when it is not shown any more.
    pub(crate) fn note(&self, refusal: &ProofRefusal) {
        counter!("scs_base_refusals_total").increment(1);
        let reason = refusal.to_string();
        let is_told = self.last().is_some_and(|last| last == reason);
        if !is_told {
            tracing::error!(%reason, "the VNODE is not believed: this SCS votes for nothing and credits nothing that it cannot check");
            *self.0.lock() = Some((Instant::now(), reason));
        }
    }

    /// The refusal of the last ten minutes, if there was one.
    pub(crate) fn last(&self) -> Option<String> {
        let last = self.0.lock();
        let recent = last.as_ref().filter(|(at, _)| at.elapsed() < REFUSAL_SHOWN);
        recent.map(|(_, reason)| reason.clone())
    }
}
