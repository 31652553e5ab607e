//! The state that all searchers of an engine share: the current work, its nonces, and the way out
//! for solutions.
//!
//! | subject | module |
//! |---|---|
//! | work in, solutions out | `task` |
//! | which searcher tries which nonces | `nonces` |
//! | the work that is searched now | `current_job` |
//! | check and delivery of solutions | `context` |
//! | pauses between batches | `intensity` |
//!
//! Knows no device and no dataset.

mod context;
mod current_job;
mod intensity;
mod nonces;
mod task;

pub(crate) use context::{CandidateSolution, ComparedBits, SearchContext};
pub(crate) use current_job::SearchJob;
pub(crate) use intensity::CpuThrottle;
pub use intensity::{Intensity, IntensityError};
pub(crate) use nonces::NonceCursor;
pub use nonces::NonceSpace;
pub use task::{FoundSolution, SearchTask};
