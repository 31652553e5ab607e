//! The dataset of the next epoch. It is generated between the batches of the search.
//!
//! The next dataset needs memory of its own. If the device refuses that memory, the dataset is
//! generated when the epoch changes. Knows no schedule: the caller says which epoch comes next.

use std::sync::Arc;

use ethash::LightCache;

use super::epoch::LoadedEpoch;
use super::generation::{DatasetGeneration, GenerationProgress, allocate};
use crate::gpu::device::GpuDevice;
use crate::gpu::error::GpuError;
use crate::gpu::options::GpuOptions;

/// The dataset of the next epoch, in whatever state it is.
pub(crate) struct NextDataset {
    pub(crate) cache: Arc<LightCache>,
    state: NextDatasetState,
}

enum NextDatasetState {
    Generating(Box<DatasetGeneration>),
    /// Complete, with its kernel.
    Ready(Box<LoadedEpoch>),
    /// The dataset could not be made. This state is kept so that it is not tried again.
    Refused,
}

/// The part of a dataset that exists when its epoch begins.
pub(crate) enum PreparedDataset {
    Nothing,
    Part(Box<DatasetGeneration>),
    Complete(Box<LoadedEpoch>),
}

impl NextDataset {
    /// Begins to generate the dataset of `cache`. `slice_nodes` is the size of a slice, if it is
    /// known.
    pub(crate) fn begin(
        gpu: &GpuDevice,
        options: &GpuOptions,
        cache: &Arc<LightCache>,
        slice_nodes: Option<u32>,
    ) -> Result<Self, GpuError> {
        let pages = allocate(gpu, options, "next dataset", cache.dataset_items())?;
        let generation = DatasetGeneration::begin(gpu, options, cache, pages, 0, slice_nodes)?;
        Ok(Self {
            cache: Arc::clone(cache),
            state: NextDatasetState::Generating(Box::new(generation)),
        })
    }

    /// Makes a placeholder for a dataset that could not be made.
    pub(crate) fn refused(cache: &Arc<LightCache>) -> Self {
        Self {
            cache: Arc::clone(cache),
            state: NextDatasetState::Refused,
        }
    }

    /// Whether this is the dataset of `cache`.
    pub(crate) fn is_of(&self, cache: &LightCache) -> bool {
        self.cache.seed_hash() == cache.seed_hash()
            && self.cache.dataset_items() == cache.dataset_items()
            && self.cache.rows() == cache.rows()
    }

    /// Returns the progress, or `None` if the dataset was refused.
    pub(crate) fn progress(&self) -> Option<GenerationProgress> {
        match &self.state {
            NextDatasetState::Generating(generation) => Some(generation.progress()),
            NextDatasetState::Ready(loaded) => Some(GenerationProgress {
                items_done: loaded.dataset.layout.rows,
                items_total: loaded.dataset.layout.rows,
            }),
            NextDatasetState::Refused => None,
        }
    }

    /// Gives the device the next slice of this dataset, without waiting.
    ///
    /// # Errors
    /// If the device is lost. After any other failure this dataset counts as refused.
    pub(crate) fn advance(&mut self, gpu: &GpuDevice, options: &GpuOptions) -> Result<(), GpuError> {
        let NextDatasetState::Generating(generation) = &mut self.state else {
            return Ok(());
        };
        let loaded = match generation.advance_during_search(gpu) {
            Ok(false) => return Ok(()),
            Ok(true) => {
                let state = std::mem::replace(&mut self.state, NextDatasetState::Refused);
                let NextDatasetState::Generating(generation) = state else {
                    return Ok(());
                };
                LoadedEpoch::new(gpu, options, &self.cache, generation.into_pages())
            }
            Err(error) => Err(error),
        };
        match loaded {
            Ok(loaded) => self.state = NextDatasetState::Ready(Box::new(loaded)),
            Err(error) if error.needs_rebuild() => return Err(error),
            Err(error) => {
                tracing::warn!(
                    adapter = %gpu.info.name,
                    "the next dataset will be generated when its epoch begins: {error}"
                );
                self.state = NextDatasetState::Refused;
            }
        }
        Ok(())
    }

    /// Returns what exists of the dataset.
    pub(crate) fn into_prepared(self) -> PreparedDataset {
        match self.state {
            NextDatasetState::Generating(generation) => PreparedDataset::Part(generation),
            NextDatasetState::Ready(loaded) => PreparedDataset::Complete(loaded),
            NextDatasetState::Refused => PreparedDataset::Nothing,
        }
    }
}
