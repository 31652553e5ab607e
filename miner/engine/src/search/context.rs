//! The state that all searchers of an engine share: the current job, and the channel of solutions.
//!
//! Every solution leaves the engine through this module, after the check that its finder needs.
//! Knows no device.

use std::time::Duration;

use crossbeam_channel::{SendTimeoutError, Sender};
use ethash::{LightCache, PowHash, Solution};
use parking_lot::Mutex;

use super::current_job::{CurrentJob, SearchJob};
use super::task::FoundSolution;
use crate::telemetry::DeviceTelemetry;

/// The time for which one attempt to send to a full channel of solutions lasts. Between two
/// attempts the sender checks whether the engine is stopping.
const SEND_PATIENCE: Duration = Duration::from_millis(20);

/// The state that all searchers of an engine share.
#[derive(Debug)]
pub(crate) struct SearchContext {
    pub(crate) current_job: CurrentJob,
    /// `None` after the channel was closed.
    solutions: Mutex<Option<Sender<FoundSolution>>>,
    /// The changes since the start of the engine, in order, for its description.
    pub(crate) messages: Mutex<Vec<String>>,
}

impl SearchContext {
    pub(crate) fn new(solutions: Sender<FoundSolution>) -> Self {
        Self {
            current_job: CurrentJob::default(),
            solutions: Mutex::new(Some(solutions)),
            messages: Mutex::default(),
        }
    }

    /// Sends a solution of `job` if its hash meets the boundary and the solution is still useful.
    ///
    /// `device` is the finder. `hash` was computed from the light cache.
    pub(crate) fn submit(&self, job: &SearchJob, device: &DeviceTelemetry, pow_nonce: u64, hash: &PowHash) {
        if !ethash::meets_boundary(&hash.final_hash, &job.work.boundary)
            || !self.current_job.accept_solution(job)
        {
            return;
        }
        let mut found = FoundSolution {
            solution: Solution {
                header_hash: job.work.header_hash,
                pow_nonce,
                mix_hash: hash.mix_hash,
            },
            device: device.index,
        };
        let Some(solutions) = self.solutions.lock().clone() else {
            return;
        };
        // The solution is counted before it is sent, so that its receiver sees it in the counts.
        device.count_solution();
        // A slow receiver still gets the solution. A stopping engine drops it.
        while !self.current_job.is_stopping() {
            match solutions.send_timeout(found, SEND_PATIENCE) {
                Ok(()) => return,
                Err(SendTimeoutError::Timeout(unsent)) => found = unsent,
                Err(SendTimeoutError::Disconnected(found)) => {
                    tracing::warn!(
                        header_hash = %found.solution.header_hash,
                        "solution lost: its receiver no longer exists"
                    );
                    return;
                }
            }
        }
    }

    /// Closes the channel of solutions, even if a hanging thread still holds this context.
    pub(crate) fn close_solutions(&self) {
        self.solutions.lock().take();
    }

    /// Checks `candidate` with the light cache, and submits it if it is right. Returns whether it
    /// is right.
    ///
    /// The hit is wrong if the light cache gives another mix hash, or a final hash above the
    /// boundary in the bits that the finder has compared. In both cases the finder is faulty.
    pub(crate) fn verify_and_submit(
        &self,
        job: &SearchJob,
        device: &DeviceTelemetry,
        cache: &LightCache,
        candidate: &CandidateSolution,
    ) -> bool {
        let hash = cache.hash(&job.work.header_hash, candidate.pow_nonce);
        let is_right = candidate.mix_hash == hash.mix_hash
            && match candidate.compared {
                ComparedBits::All => ethash::meets_boundary(&hash.final_hash, &job.work.boundary),
                ComparedBits::Top64 => hash.final_hash[..8] <= job.work.boundary[..8],
            };
        if is_right {
            self.submit(job, device, candidate.pow_nonce, &hash);
        } else {
            device.count_hardware_error();
        }
        is_right
    }

    /// Adds a line to the description of the engine and to the log.
    pub(crate) fn add_message(&self, line: String) {
        tracing::warn!("{line}");
        self.messages.lock().push(line);
    }
}

/// A nonce that a device reports as a solution.
pub(crate) struct CandidateSolution {
    pub(crate) pow_nonce: u64,
    pub(crate) mix_hash: ethash::B256,
    pub(crate) compared: ComparedBits,
}

/// The number of bits of the final hash that the finder has compared with the boundary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ComparedBits {
    All,
    /// The first eight bytes. If they equal those of the boundary, the rest may be above it without
    /// any fault of the device.
    Top64,
}
