//! The way in which a graphics adapter gets its search kernel.

use super::cache::TuningCache;
use crate::dataset::DatasetPolicy;

/// The way in which a graphics adapter gets its search kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum KernelPolicy {
    /// The adapter uses the kernel in its options.
    #[default]
    Fixed,
    /// The adapter uses the fastest kernel. The kernel is read from the cache, if there is one, or
    /// else measured for a few seconds on the first dataset.
    Measured(Option<TuningCache>),
}

impl KernelPolicy {
    /// Returns a policy that measures. The choice is stored beside the dataset files, or in the
    /// cache folder of the user if there are no dataset files.
    pub fn measured(dataset: &DatasetPolicy) -> Self {
        Self::Measured(match dataset {
            DatasetPolicy::Disk(folder) => Some(TuningCache::in_folder(folder)),
            DatasetPolicy::Never | DatasetPolicy::Memory => TuningCache::in_user_cache(),
        })
    }
}
