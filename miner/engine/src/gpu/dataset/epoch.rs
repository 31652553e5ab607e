//! A dataset on the device together with the kernel that searches it.

use std::sync::Arc;

use ethash::{B256, ITEM_BYTES, ITEM_WORDS, LightCache};

use crate::gpu::batch::{BatchBuffers, GpuHit, GpuWork};
use crate::gpu::device::GpuDevice;
use crate::gpu::error::GpuError;
use crate::gpu::options::GpuOptions;
use crate::gpu::pages::PagedBuffer;
use crate::gpu::pipeline::{KernelPipeline, KernelSource};
use crate::gpu::seeds::SeedKernel;
use crate::gpu::shaders::{search_entry, search_module};

/// Everything on the device that belongs to one epoch.
pub(crate) struct LoadedEpoch {
    pub(crate) cache: Arc<LightCache>,
    pub(crate) dataset: PagedBuffer,
    kernel: KernelPipeline,
    /// The buffers of batches that are not in flight.
    free: Vec<BatchBuffers>,
    /// The kernel that computes mix hashes of given seeds, once it was needed.
    seeds: Option<SeedKernel>,
}

impl LoadedEpoch {
    /// Compiles the search kernel for `dataset` and allocates the buffers of its batches.
    pub(crate) fn new(
        gpu: &GpuDevice,
        options: &GpuOptions,
        cache: &Arc<LightCache>,
        dataset: PagedBuffer,
    ) -> Result<Self, GpuError> {
        let wgsl = search_module(options.kernel, dataset.layout.pages);
        let kernel = compile(gpu, options, &dataset, wgsl)?;
        Ok(Self {
            free: batch_buffers(gpu, options, &kernel)?,
            cache: Arc::clone(cache),
            dataset,
            kernel,
            seeds: None,
        })
    }

    /// Replaces the search kernel by the one that `options` name. After an error the old kernel is
    /// kept.
    pub(crate) fn set_kernel(&mut self, gpu: &GpuDevice, options: &GpuOptions) -> Result<(), GpuError> {
        let wgsl = search_module(options.kernel, self.dataset.layout.pages);
        self.set_module(gpu, options, wgsl)
    }

    fn set_module(&mut self, gpu: &GpuDevice, options: &GpuOptions, wgsl: String) -> Result<(), GpuError> {
        let kernel = compile(gpu, options, &self.dataset, wgsl)?;
        self.free = batch_buffers(gpu, options, &kernel)?;
        self.kernel = kernel;
        Ok(())
    }

    /// Takes the buffers of a batch, or allocates new ones if all are in flight.
    pub(crate) fn take_buffers(
        &mut self,
        gpu: &GpuDevice,
        options: &GpuOptions,
    ) -> Result<BatchBuffers, GpuError> {
        // Buffers are lost only if their batch fails together with the device.
        match self.free.pop() {
            Some(buffers) => Ok(buffers),
            None => BatchBuffers::new(gpu, &self.kernel, options.result_slots.max(1)),
        }
    }

    /// Returns the buffers of a finished batch.
    pub(crate) fn return_buffers(&mut self, buffers: BatchBuffers) {
        self.free.push(buffers);
    }

    pub(crate) const fn kernel(&self) -> &KernelPipeline {
        &self.kernel
    }

    /// Runs one batch of `count` nonces and returns all its hits, sorted by nonce.
    ///
    /// The batch has a result slot for each nonce. The device should have no other batch in flight.
    pub(crate) fn search_batch(
        &self,
        gpu: &GpuDevice,
        work: GpuWork,
        count: u32,
    ) -> Result<Vec<GpuHit>, GpuError> {
        let buffers = BatchBuffers::new(gpu, &self.kernel, count)?;
        let batch = buffers.launch(gpu, &self.kernel, work, work.start_nonce, count)?;
        let (results, _) = batch.finish(gpu)?;
        Ok(results.hits)
    }

    /// Returns the mix hashes of `seeds`, in the same order.
    pub(crate) fn mix_hashes(
        &mut self,
        gpu: &GpuDevice,
        options: &GpuOptions,
        seeds: &[[u64; 8]],
    ) -> Result<Vec<B256>, GpuError> {
        let kernel = match &mut self.seeds {
            Some(kernel) => kernel,
            none => none.insert(SeedKernel::new(gpu, options, &self.dataset)?),
        };
        kernel.mix_hashes(gpu, seeds)
    }

    /// Copies dataset items to the host, as the 32 words of each.
    ///
    /// # Errors
    /// [`GpuError::OutOfRange`] if the dataset has no such items, and errors of the device.
    pub(crate) fn read_items(
        &self,
        gpu: &GpuDevice,
        first: u32,
        count: u32,
    ) -> Result<Vec<[u32; ITEM_WORDS]>, GpuError> {
        check_range(first, count, self.dataset.layout.rows)?;
        Ok(items(&self.dataset.read(gpu, first, count)?))
    }
}

fn compile(
    gpu: &GpuDevice,
    options: &GpuOptions,
    dataset: &PagedBuffer,
    wgsl: String,
) -> Result<KernelPipeline, GpuError> {
    let layout = &dataset.layout;
    let source = KernelSource {
        entry: search_entry(options.kernel),
        wgsl,
        constants: &[
            ("DATASET_ITEMS", layout.rows.into()),
            ("DATASET_PAGE_ROWS", layout.page_rows.into()),
        ],
        workgroup_size: options.workgroup_size,
        has_counter: false,
        runtime_checks: options.runtime_checks,
    };
    KernelPipeline::new(gpu, &source, dataset)
}

fn batch_buffers(
    gpu: &GpuDevice,
    options: &GpuOptions,
    kernel: &KernelPipeline,
) -> Result<Vec<BatchBuffers>, GpuError> {
    (0..options.in_flight.max(1))
        .map(|_| BatchBuffers::new(gpu, kernel, options.result_slots.max(1)))
        .collect()
}

/// Fails unless items `first` to `first + count` exist in a dataset of `items` items.
pub(crate) const fn check_range(first: u32, count: u32, items: u32) -> Result<(), GpuError> {
    match first.checked_add(count) {
        Some(end) if end <= items => Ok(()),
        _ => Err(GpuError::OutOfRange { first, count, items }),
    }
}

/// Splits the bytes of dataset items into the words of each.
pub(crate) fn items(bytes: &[u8]) -> Vec<[u32; ITEM_WORDS]> {
    bytes
        .chunks_exact(ITEM_BYTES)
        .map(bytemuck::pod_read_unaligned)
        .collect()
}

#[cfg(test)]
impl LoadedEpoch {
    /// Uses the kernel with `from` replaced by `to` in its text, like the output of a bad compiler.
    pub(crate) fn spoil_kernel(&mut self, gpu: &GpuDevice, options: &GpuOptions, from: &str, to: &str) {
        let right = search_module(options.kernel, self.dataset.layout.pages);
        let wrong = right.replace(from, to);
        assert!(wrong != right, "the kernel contains {from}");
        self.set_module(gpu, options, wrong)
            .expect("the changed kernel is valid");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_end_within_the_dataset() {
        assert_eq!(check_range(250, 6, 256), Ok(()));
        for (first, count) in [(250, 7), (257, 0), (u32::MAX, 2)] {
            let error = GpuError::OutOfRange {
                first,
                count,
                items: 256,
            };
            assert_eq!(check_range(first, count, 256), Err(error));
        }
    }
}
