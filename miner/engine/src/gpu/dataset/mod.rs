//! Datasets on the device: their generation, the one in use, and the one of the next epoch.

mod epoch;
mod generation;
mod next;

pub(super) use epoch::{LoadedEpoch, check_range, items};
pub use generation::GenerationProgress;
pub(super) use generation::{DatasetGeneration, allocate, upload_cache};
pub(super) use next::{NextDataset, PreparedDataset};
