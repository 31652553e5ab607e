//! The source of the CPU's full dataset.

use std::path::PathBuf;

/// The source of the full dataset of the CPU threads. A graphics adapter always generates its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DatasetPolicy {
    /// There is no full dataset. The CPU hashes from the light cache.
    #[default]
    Never,
    /// The dataset is generated in memory, in the background.
    Memory,
    /// The dataset is read from this folder. If it is not there, it is generated and written there.
    Disk(PathBuf),
}
