//! What all searchers of an engine share, and the one way out for what they find.
//!
//! A hit leaves as a solution only here, after the check that its kind needs. Knows no device.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crossbeam_channel::{SendTimeoutError, Sender};
use ethash::{LightCache, PowHash, Solution};
use parking_lot::Mutex;

use crate::desk::{Desk, Job};
use crate::keeper::Keeper;

/// How long a full channel of solutions is waited for between two looks at the engine's stop.
const SEND_PATIENCE: Duration = Duration::from_millis(20);

/// What an engine is doing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EngineStatus {
    /// Hashes per second over the last ten seconds, all devices.
    pub hashrate: f64,
    /// Hashes since the start.
    pub hashes: u64,
    /// Solutions found, one at most for each package.
    pub solutions: u64,
    /// Hits that the check on the CPU refused: faulty memory, device or dataset.
    pub hardware_errors: u64,
    /// Hashes per second by device.
    pub devices: Vec<(String, f64)>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) desk: Desk,
    pub(crate) keeper: Arc<Keeper>,
    pub(crate) solutions: Sender<Solution>,
    pub(crate) found: AtomicU64,
    pub(crate) hardware_errors: AtomicU64,
    /// Lines for whoever describes the engine; the last says what is so now.
    pub(crate) lines: Mutex<Vec<String>>,
}

impl Shared {
    pub(crate) fn new(keeper: Keeper, solutions: Sender<Solution>) -> Self {
        Self {
            desk: Desk::default(),
            keeper: Arc::new(keeper),
            solutions,
            found: AtomicU64::new(0),
            hardware_errors: AtomicU64::new(0),
            lines: Mutex::default(),
        }
    }

    /// Sends the solution of `job` if it is the first one. `hash` comes from the light cache.
    pub(crate) fn solve(&self, job: &Job, pow_nonce: u64, hash: &PowHash) {
        if !ethash::meets_boundary(&hash.final_hash, &job.work.boundary) || !self.desk.finish(job) {
            return;
        }
        let mut solution = Solution {
            header_hash: job.work.header_hash,
            pow_nonce,
            mix_hash: hash.mix_hash,
        };
        // Counted first, so that whoever has the solution sees it counted.
        self.found.fetch_add(1, Ordering::Relaxed);
        // A receiver that is slow gets its solution still; one that is gone needs none.
        while !self.desk.is_stopping() {
            match self.solutions.send_timeout(solution, SEND_PATIENCE) {
                Ok(()) => return,
                Err(SendTimeoutError::Timeout(back)) => solution = back,
                Err(SendTimeoutError::Disconnected(_)) => {
                    tracing::warn!(header_hash = %solution.header_hash, "solution lost: nobody takes solutions");
                    return;
                }
            }
        }
    }

    /// Checks a hit that something other than the light cache found, and sends it if it is right.
    ///
    /// False when the light cache gets another mix, or a final hash above the boundary although all of the
    /// `exact` bits were compared: then whoever found it is faulty.
    pub(crate) fn check_and_solve(&self, job: &Job, cache: &LightCache, hit: &Hit) -> bool {
        let hash = cache.hash(&job.work.header_hash, hit.pow_nonce);
        let right = hit.mix_hash == hash.mix_hash
            && match hit.compared {
                Compared::All => ethash::meets_boundary(&hash.final_hash, &job.work.boundary),
                Compared::Top64 => hash.final_hash[..8] <= job.work.boundary[..8],
            };
        if right {
            self.solve(job, hit.pow_nonce, &hash);
        } else {
            self.hardware_errors.fetch_add(1, Ordering::Relaxed);
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
