//! Which datasets a keeper has, makes and is to make.

use std::sync::{Arc, Weak};
use std::thread::JoinHandle;

use ethash::{Epoch, LightCache};

use crate::dataset::full_dataset::Dataset;

#[derive(Debug, Default)]
pub(super) struct DatasetManagerState {
    /// The epoch of the dataset that is there, on its way or given up.
    pub(super) wanted: Option<Epoch>,
    pub(super) ready: Option<Arc<Dataset>>,
    /// The latest that gave a wrong hash.
    pub(super) rejected: Weak<Dataset>,
    /// It was of the epoch that is wanted, and nothing takes its place yet.
    pub(super) is_due_anew: bool,
    /// What is to be made ahead and is not begun yet.
    pub(super) coming: Option<NextEpoch>,
    /// What is made ahead, and that dataset once it is there.
    pub(super) ahead: Option<(NextEpoch, Option<Arc<Dataset>>)>,
    pub(super) builder: Option<JoinHandle<()>>,
    pub(super) stopping: bool,
}

/// The epoch that comes after `present`.
#[derive(Clone, Debug)]
pub(super) struct NextEpoch {
    pub(super) present: Epoch,
    pub(super) epoch: Epoch,
    pub(super) cache: Arc<LightCache>,
}

impl DatasetManagerState {
    pub(super) fn is_ahead(&self, epoch: Epoch) -> bool {
        self.ahead.as_ref().is_some_and(|(ahead, _)| ahead.epoch == epoch)
    }

    /// Whether the dataset of `epoch` is wanted and not there.
    pub(super) fn lacks(&self, epoch: Epoch) -> bool {
        !self.stopping
            && match &self.ahead {
                _ if self.wanted == Some(epoch) => self.ready.is_none(),
                Some((ahead, dataset)) if ahead.epoch == epoch => dataset.is_none(),
                _ => false,
            }
    }

    /// Whether `dataset` is the one that is there for an epoch.
    pub(super) fn keeps(&self, dataset: &Arc<Dataset>) -> bool {
        let ahead = self.ahead.as_ref().and_then(|(_, ahead)| ahead.as_ref());
        self.ready
            .iter()
            .chain(ahead)
            .any(|kept| Arc::ptr_eq(kept, dataset))
    }
}
