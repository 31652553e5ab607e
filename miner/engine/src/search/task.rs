//! The input and the output of an engine.

use ethash::{Solution, WorkPackage};

use super::nonces::NonceSpace;

/// Work for an engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchTask {
    /// The header and the boundary.
    pub work: WorkPackage,
    /// The nonces that may be used.
    pub nonces: NonceSpace,
    /// Whether the search continues after a solution. Pools accept many solutions of one job.
    pub repeat: bool,
}

impl From<WorkPackage> for SearchTask {
    /// A task that ends with its first solution and may use every nonce.
    fn from(work: WorkPackage) -> Self {
        Self {
            work,
            nonces: NonceSpace::default(),
            repeat: false,
        }
    }
}

/// A solution. It was checked with the light cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundSolution {
    /// The solution.
    pub solution: Solution,
    /// The device that found it: an index into
    /// [`EngineStatus::devices`](crate::EngineStatus::devices).
    pub device: usize,
}
