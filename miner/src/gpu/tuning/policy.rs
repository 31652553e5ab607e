//! How a graphics adapter gets its search kernel.

use super::cache::TuningCache;
use crate::dataset::DatasetPolicy;

/// How graphics adapters come to their search kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum KernelPolicy {
    /// It is the one that the options name.
    #[default]
    Fixed,
    /// It is the fastest, measured for some seconds on the first dataset, unless it is remembered there.
    Measured(Option<TuningCache>),
}

impl KernelPolicy {
    /// The fastest, remembered beside the dataset files, or in the user's cache where there are none.
    pub fn measured(dataset: &DatasetPolicy) -> Self {
        Self::Measured(match dataset {
            DatasetPolicy::Disk(folder) => Some(TuningCache::in_folder(folder)),
            DatasetPolicy::Never | DatasetPolicy::Memory => TuningCache::in_user_cache(),
        })
    }
}
