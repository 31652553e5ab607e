//! Computes the mix hashes of given seeds with the dataset on the device.
//!
//! Knows seeds and mix hashes. Whether a seal is right is not decided here.

use ethash::B256;

use super::device::{BufferReadback, GpuDevice};
use super::error::GpuError;
use super::options::GpuOptions;
use super::pages::PagedBuffer;
use super::params::SeedParams;
use super::pipeline::{KernelPipeline, KernelSource};
use super::shaders::{MIX_SEEDS_ENTRY, mix_seeds_module};

/// The most seeds of one dispatch: 4 MiB of them.
const SEEDS_MAX: usize = 1 << 16;
/// Bytes of a seed on the device. The mix hash takes the first half.
const SEED_BYTES: usize = 64;
/// Invocations in a workgroup. Small, so that few seeds reach many multiprocessors.
const WORKGROUP_SIZE: u32 = 32;

/// The kernel for one dataset, and the buffers of its last dispatch.
pub(crate) struct SeedKernel {
    kernel: KernelPipeline,
    buffers: Option<SeedBuffers>,
}

struct SeedBuffers {
    /// The number of seeds that fit.
    capacity: usize,
    parameters: wgpu::Buffer,
    seeds: wgpu::Buffer,
    readback: wgpu::Buffer,
    output: wgpu::BindGroup,
}

impl SeedKernel {
    /// Compiles the kernel for `dataset`.
    pub(crate) fn new(
        gpu: &GpuDevice,
        options: &GpuOptions,
        dataset: &PagedBuffer,
    ) -> Result<Self, GpuError> {
        let layout = &dataset.layout;
        let source = KernelSource {
            entry: MIX_SEEDS_ENTRY,
            wgsl: mix_seeds_module(layout.pages),
            constants: &[
                ("DATASET_ITEMS", layout.rows.into()),
                ("DATASET_PAGE_ROWS", layout.page_rows.into()),
            ],
            workgroup_size: WORKGROUP_SIZE,
            has_counter: false,
            runtime_checks: options.runtime_checks,
        };
        Ok(Self {
            kernel: KernelPipeline::new(gpu, &source, dataset)?,
            buffers: None,
        })
    }

    /// Returns the mix hashes of `seeds`, in the same order.
    pub(crate) fn mix_hashes(&mut self, gpu: &GpuDevice, seeds: &[[u64; 8]]) -> Result<Vec<B256>, GpuError> {
        let mut mixes = Vec::with_capacity(seeds.len());
        for seeds in seeds.chunks(SEEDS_MAX) {
            let buffers = match self.buffers.take() {
                Some(buffers) if buffers.capacity >= seeds.len() => buffers,
                _ => SeedBuffers::new(gpu, &self.kernel, seeds.len().next_power_of_two())?,
            };
            buffers.run(gpu, &self.kernel, seeds, &mut mixes)?;
            self.buffers = Some(buffers);
        }
        Ok(mixes)
    }
}

impl SeedBuffers {
    fn new(gpu: &GpuDevice, kernel: &KernelPipeline, capacity: usize) -> Result<Self, GpuError> {
        use wgpu::BufferUsages as Usage;
        let bytes = (capacity * SEED_BYTES) as u64;
        let parameters = gpu.uniform("seed parameters", bytemuck::bytes_of(&SeedParams::default()))?;
        let seeds = gpu.buffer("seeds", bytes, Usage::STORAGE | Usage::COPY_SRC | Usage::COPY_DST)?;
        let readback = gpu.buffer("mix hashes", bytes, Usage::MAP_READ | Usage::COPY_DST)?;
        let output = kernel.bind(gpu, &parameters, &seeds)?;
        Ok(Self {
            capacity,
            parameters,
            seeds,
            readback,
            output,
        })
    }

    /// Computes the mix hashes of `seeds` and appends them to `mixes`.
    fn run(
        &self,
        gpu: &GpuDevice,
        kernel: &KernelPipeline,
        seeds: &[[u64; 8]],
        mixes: &mut Vec<B256>,
    ) -> Result<(), GpuError> {
        let params = SeedParams {
            count: seeds.len() as u32,
            ..SeedParams::default()
        };
        let bytes: &[u8] = bytemuck::cast_slice(seeds);
        gpu.queue()
            .write_buffer(&self.parameters, 0, bytemuck::bytes_of(&params));
        gpu.queue().write_buffer(&self.seeds, 0, bytes);
        let submission = gpu.submit(MIX_SEEDS_ENTRY, |encoder| {
            kernel.dispatch(gpu, encoder, &self.output, params.count);
            encoder.copy_buffer_to_buffer(&self.seeds, 0, &self.readback, 0, bytes.len() as u64);
        })?;
        let readback = BufferReadback::start(&self.readback);
        gpu.wait(MIX_SEEDS_ENTRY, &submission)?;
        readback.take(gpu, &self.readback, |rows| {
            let rows = rows.chunks_exact(SEED_BYTES).take(seeds.len());
            mixes.extend(rows.map(|row| B256::from_slice(&row[..32])));
        })
    }
}
