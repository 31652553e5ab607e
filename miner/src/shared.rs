//! What all searchers of an engine share, and the one way out for what they find.
//!
//! A hit leaves as a solution only here, after the check that its kind needs. Knows no device.

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{SendTimeoutError, Sender};
use ethash::{LightCache, PowHash, Solution};
use parking_lot::Mutex;

use crate::desk::{Desk, Job};
use crate::gauge::Gauge;
use crate::keeper::Keeper;
use crate::task::Found;

/// How long a full channel of solutions is waited for between two looks at the engine's stop.
const SEND_PATIENCE: Duration = Duration::from_millis(20);

/// See the module.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) desk: Desk,
    pub(crate) keeper: Arc<Keeper>,
    /// `None` once nothing is sent any more.
    solutions: Mutex<Option<Sender<Found>>>,
    /// Lines for whoever describes the engine; the last says what is so now.
    pub(crate) lines: Mutex<Vec<String>>,
}

impl Shared {
    pub(crate) fn new(keeper: Keeper, solutions: Sender<Found>) -> Self {
        Self {
            desk: Desk::default(),
            keeper: Arc::new(keeper),
            solutions: Mutex::new(Some(solutions)),
            lines: Mutex::default(),
        }
    }

    /// Sends a solution of `job` found by the device of `gauge`, if one is still wanted. `hash` comes from the
    /// light cache.
    pub(crate) fn solve(&self, job: &Job, gauge: &Gauge, pow_nonce: u64, hash: &PowHash) {
        if !ethash::meets_boundary(&hash.final_hash, &job.work.boundary) || !self.desk.solve(job) {
            return;
        }
        let mut found = Found {
            solution: Solution {
                header_hash: job.work.header_hash,
                pow_nonce,
                mix_hash: hash.mix_hash,
            },
            device: gauge.index,
        };
        let Some(solutions) = self.solutions.lock().clone() else {
            return;
        };
        // Counted first, so that whoever has the solution sees it counted.
        gauge.count_solution();
        // A receiver that is slow gets its solution still; one that is gone needs none.
        while !self.desk.is_stopping() {
            match solutions.send_timeout(found, SEND_PATIENCE) {
                Ok(()) => return,
                Err(SendTimeoutError::Timeout(back)) => found = back,
                Err(SendTimeoutError::Disconnected(found)) => {
                    tracing::warn!(header_hash = %found.solution.header_hash, "solution lost: nobody takes solutions");
                    return;
                }
            }
        }
    }

    /// Ends the channel of solutions, also where a thread that hangs still has a hand on this.
    pub(crate) fn close(&self) {
        self.solutions.lock().take();
    }

    /// Checks a hit that something other than the light cache found, and sends it if it is right.
    ///
    /// False when the light cache gets another mix, or a final hash that is above the boundary in the bits that
    /// the finder has compared: then whoever found it is faulty.
    pub(crate) fn check_and_solve(&self, job: &Job, gauge: &Gauge, cache: &LightCache, hit: &Hit) -> bool {
        let hash = cache.hash(&job.work.header_hash, hit.pow_nonce);
        let right = hit.mix_hash == hash.mix_hash
            && match hit.compared {
                Compared::All => ethash::meets_boundary(&hash.final_hash, &job.work.boundary),
                Compared::Top64 => hash.final_hash[..8] <= job.work.boundary[..8],
            };
        if right {
            self.solve(job, gauge, hit.pow_nonce, &hash);
        } else {
            gauge.count_hardware_error();
        }
        right
    }

    /// Adds a line to the engine's description and to the log.
    pub(crate) fn say(&self, line: String) {
        tracing::warn!("{line}");
        self.lines.lock().push(line);
    }
}

/// A nonce some device takes for a solution.
pub(crate) struct Hit {
    pub(crate) pow_nonce: u64,
    pub(crate) mix_hash: ethash::B256,
    pub(crate) compared: Compared,
}

/// How much of the final hash the finder has compared with the boundary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compared {
    All,
    /// The first eight bytes: equality there is no fault of the device.
    Top64,
}
