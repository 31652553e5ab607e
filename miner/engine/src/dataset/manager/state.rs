//! Which datasets a [`DatasetManager`](super::DatasetManager) has, and which ones it makes.

use std::sync::{Arc, Weak};
use std::thread::JoinHandle;

use ethash::{Epoch, LightCache};

use crate::dataset::full_dataset::Dataset;

#[derive(Debug, Default)]
pub(super) struct DatasetManagerState {
    /// The epoch that the searchers asked for last. Its dataset is ready, being made, or could not
    /// be made.
    pub(super) wanted: Option<Epoch>,
    /// The dataset of the wanted epoch.
    pub(super) ready: Option<Arc<Dataset>>,
    /// The latest dataset that gave a wrong hash.
    pub(super) rejected: Weak<Dataset>,
    /// Whether the dataset of the wanted epoch was rejected and the next request must begin another
    /// one.
    pub(super) needs_rebuild: bool,
    /// The next epoch, while its dataset is not begun.
    pub(super) planned: Option<NextEpoch>,
    /// The dataset of the next epoch, from the time it is begun.
    pub(super) early: Option<EarlyDataset>,
    pub(super) builder: Option<JoinHandle<()>>,
    pub(super) stopping: bool,
}

/// The epoch after `current`, with its light cache.
#[derive(Clone, Debug)]
pub(super) struct NextEpoch {
    pub(super) current: Epoch,
    pub(super) epoch: Epoch,
    pub(super) cache: Arc<LightCache>,
}

/// A dataset that is made before its epoch begins.
#[derive(Debug)]
pub(super) struct EarlyDataset {
    pub(super) target: NextEpoch,
    /// `None` while the dataset is being made.
    pub(super) dataset: Option<Arc<Dataset>>,
}

impl DatasetManagerState {
    /// Whether the dataset of `epoch` is made in advance, or was made.
    pub(super) fn has_begun_early(&self, epoch: Epoch) -> bool {
        self.early
            .as_ref()
            .is_some_and(|early| early.target.epoch == epoch)
    }

    /// Whether the dataset of `epoch` is needed and does not exist.
    pub(super) fn needs(&self, epoch: Epoch) -> bool {
        !self.stopping
            && match &self.early {
                _ if self.wanted == Some(epoch) => self.ready.is_none(),
                Some(early) if early.target.epoch == epoch => early.dataset.is_none(),
                _ => false,
            }
    }

    /// Whether `dataset` is in use, or kept for the next epoch.
    pub(super) fn keeps(&self, dataset: &Arc<Dataset>) -> bool {
        let early = self.early.as_ref().and_then(|early| early.dataset.as_ref());
        self.ready
            .iter()
            .chain(early)
            .any(|kept| Arc::ptr_eq(kept, dataset))
    }
}
