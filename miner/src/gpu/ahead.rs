//! The dataset of the epoch to come, made between the batches of the search.
//!
//! It takes memory for a second dataset, so it may be refused; then the switch makes it, as ever. Knows no
//! schedule: whoever does says which epoch comes.

use std::sync::Arc;

use ethash::LightCache;

use super::dataset::{Making, Progress, allocate};
use super::device::Gpu;
use super::searcher::Loaded;
use super::{GpuError, GpuOptions};

/// See the module.
pub(crate) struct Ahead {
    pub(crate) cache: Arc<LightCache>,
    state: State,
}

enum State {
    Making(Box<Making>),
    /// Whole, with its kernel.
    Ready(Box<Loaded>),
    /// It could not be made. Kept, so that nobody tries again and again.
    Refused,
}

/// What there is of a dataset when its epoch begins.
pub(crate) enum Begun {
    Nothing,
    Part(Box<Making>),
    Whole(Box<Loaded>),
}

impl Ahead {
    /// Begins the dataset of `cache`, in slices of `slice_nodes`.
    pub(crate) fn begin(
        gpu: &Gpu,
        options: &GpuOptions,
        cache: &Arc<LightCache>,
        slice_nodes: Option<u32>,
    ) -> Result<Self, GpuError> {
        let pages = allocate(gpu, options, "next dataset", cache.dataset_items())?;
        let making = Making::begin(gpu, options, cache, pages, 0, slice_nodes)?;
        Ok(Self {
            cache: Arc::clone(cache),
            state: State::Making(Box::new(making)),
        })
    }

    /// Stands for a dataset that could not be made.
    pub(crate) fn refused(cache: &Arc<LightCache>) -> Self {
        Self {
            cache: Arc::clone(cache),
            state: State::Refused,
        }
    }

    /// Whether it is that of `cache`.
    pub(crate) fn is_of(&self, cache: &LightCache) -> bool {
        self.cache.seed_hash() == cache.seed_hash()
            && self.cache.dataset_items() == cache.dataset_items()
            && self.cache.rows() == cache.rows()
    }

    /// How far it is; `None` where it was refused.
    pub(crate) fn progress(&self) -> Option<Progress> {
        match &self.state {
            State::Making(making) => Some(making.progress()),
            State::Ready(loaded) => Some(Progress {
                items_done: loaded.dataset.plan.rows,
                items_total: loaded.dataset.plan.rows,
            }),
            State::Refused => None,
        }
    }

    /// Gives the device a little more of it to do, without waiting.
    ///
    /// # Errors
    /// When the device is gone. Whatever else fails makes this dataset a refused one.
    pub(crate) fn go_on(&mut self, gpu: &Gpu, options: &GpuOptions) -> Result<(), GpuError> {
        let State::Making(making) = &mut self.state else {
            return Ok(());
        };
        let made = match making.go_on_beside(gpu) {
            Ok(false) => return Ok(()),
            Ok(true) => {
                let State::Making(making) = std::mem::replace(&mut self.state, State::Refused) else {
                    return Ok(());
                };
                Loaded::new(gpu, options, &self.cache, making.into_pages())
            }
            Err(error) => Err(error),
        };
        match made {
            Ok(loaded) => self.state = State::Ready(Box::new(loaded)),
            Err(error) if error.needs_rebuild() => return Err(error),
            Err(error) => {
                tracing::warn!(adapter = %gpu.info.name, "the next dataset is made at the switch: {error}");
                self.state = State::Refused;
            }
        }
        Ok(())
    }

    /// What there is.
    pub(crate) fn take(self) -> Begun {
        match self.state {
            State::Making(making) => Begun::Part(making),
            State::Ready(loaded) => Begun::Whole(loaded),
            State::Refused => Begun::Nothing,
        }
    }
}
