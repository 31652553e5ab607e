//! The answers of a VNODE that were refused, for the operator.

use std::time::{Duration, Instant};

use metrics::counter;
use parking_lot::Mutex;

use super::error::ProofRefusal;

/// An answer that was refused is shown for so long.
const REFUSAL_SHOWN: Duration = Duration::from_secs(600);

/// The shortest time between two lines of the log.
const LOG_PAUSE: Duration = Duration::from_secs(10);

/// The answers of the VNODE about the base chain that were refused.
#[derive(Debug, Default)]
pub(crate) struct BaseRefusals(Mutex<Option<LastRefusal>>);

#[derive(Debug)]
struct LastRefusal {
    at: Instant,
    reason: String,
    /// The time of the last line of the log, and its reason.
    logged: (Instant, String),
}

impl BaseRefusals {
    /// Notes a refused answer. The same one is logged again after the time for which it is shown,
    /// another one after a pause.
    pub(crate) fn note(&self, refusal: &ProofRefusal) {
        counter!("scs_base_refusals_total").increment(1);
        let (at, reason) = (Instant::now(), refusal.to_string());
        let mut last = self.0.lock();
        let is_told = last.as_ref().is_some_and(|last| {
            let pause = match last.logged.1 == reason {
                true => REFUSAL_SHOWN,
                false => LOG_PAUSE,
            };
            last.logged.0.elapsed() < pause
        });
        let logged = match last.take() {
            Some(last) if is_told => last.logged,
            _ => {
                tracing::error!(%reason, "the VNODE is not believed: this SCS votes for nothing and credits nothing that it cannot check");
                (at, reason.clone())
            }
        };
        *last = Some(LastRefusal { at, reason, logged });
    }

    /// The refusal of the last ten minutes, if there was one.
    pub(crate) fn last(&self) -> Option<String> {
        let last = self.0.lock();
        let recent = last.as_ref().filter(|last| last.at.elapsed() < REFUSAL_SHOWN);
        recent.map(|last| last.reason.clone())
    }
}
