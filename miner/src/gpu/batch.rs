//! One batch of nonces on the device: its buffers, its launch and its results.
//!
//! Each batch has buffers of its own and keeps the work it was launched for, so that several can be under
//! way and no result is ever paired with newer work.

use std::time::Instant;

use ethash::B256;

use super::device::{BufferReadback, GpuDevice};
use super::error::GpuError;
use super::params::{SearchHit, SearchParams, SearchResultsHeader};
use super::pipeline::KernelPipeline;

/// What to search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuWork {
    /// The caller's own number of this work, which comes back with its results.
    pub id: u64,
    /// Hash of the header without its seal.
    pub header_hash: B256,
    /// 2^256 / difficulty. The device tests the top 64 bits only.
    pub boundary: B256,
    /// First nonce; the search goes upwards from there and wraps.
    pub start_nonce: u64,
    /// How many nonces from there on are this work's; no other is hashed for it.
    pub nonces: u64,
}

/// A nonce whose final hash is at or below the boundary in its top 64 bits.
///
/// The caller compares all 256 bits on the CPU before it believes the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuHit {
    /// The nonce.
    pub pow_nonce: u64,
    /// The mix the device found.
    pub mix_hash: B256,
}

/// Buffers of one batch.
pub(crate) struct BatchBuffers {
    parameters: wgpu::Buffer,
    results: wgpu::Buffer,
    readback: wgpu::Buffer,
    output: wgpu::BindGroup,
}

/// A batch under way.
pub(crate) struct BatchInFlight {
    pub(crate) work: GpuWork,
    pub(crate) first_nonce: u64,
    pub(crate) count: u32,
    pub(crate) start: Instant,
    pub(crate) submission: wgpu::SubmissionIndex,
    pub(crate) slot: BatchBuffers,
    mapping: BufferReadback,
}

/// What a batch has found.
pub(crate) struct BatchResults {
    /// All hits.
    pub(crate) found: u32,
    /// Those for which there was a slot, by nonce from `first_nonce` on.
    pub(crate) hits: Vec<GpuHit>,
}

impl BatchBuffers {
    /// Allocates the buffers of one batch with room for `result_slots` hits.
    pub(crate) fn new(gpu: &GpuDevice, kernel: &KernelPipeline, result_slots: u32) -> Result<Self, GpuError> {
        use wgpu::BufferUsages as Usage;
        let bytes =
            size_of::<SearchResultsHeader>() as u64 + u64::from(result_slots) * size_of::<SearchHit>() as u64;
        let empty = SearchParams::new(&B256::ZERO, &B256::ZERO, 0, 0);
        let parameters = gpu.uniform("job", bytemuck::bytes_of(&empty))?;
        let results = gpu.buffer(
            "results",
            bytes,
            Usage::STORAGE | Usage::COPY_SRC | Usage::COPY_DST,
        )?;
        let readback = gpu.buffer("result read-back", bytes, Usage::MAP_READ | Usage::COPY_DST)?;
        let output = kernel.bind(gpu, &parameters, &results)?;
        Ok(Self {
            parameters,
            results,
            readback,
            output,
        })
    }

    /// Starts a batch of `count` nonces from `first_nonce` on.
    pub(crate) fn launch(
        self,
        gpu: &GpuDevice,
        kernel: &KernelPipeline,
        work: GpuWork,
        first_nonce: u64,
        count: u32,
    ) -> Result<BatchInFlight, GpuError> {
        let job = SearchParams::new(&work.header_hash, &work.boundary, first_nonce, count);
        gpu.queue()
            .write_buffer(&self.parameters, 0, bytemuck::bytes_of(&job));
        let submission = gpu.submit("search batch", |encoder| {
            encoder.clear_buffer(&self.results, 0, Some(size_of::<SearchResultsHeader>() as u64));
            kernel.dispatch(gpu, encoder, &self.output, count);
            encoder.copy_buffer_to_buffer(&self.results, 0, &self.readback, 0, self.readback.size());
        })?;
        let mapping = BufferReadback::start(&self.readback);
        Ok(BatchInFlight {
            work,
            first_nonce,
            count,
            start: Instant::now(),
            submission,
            slot: self,
            mapping,
        })
    }
}

impl BatchInFlight {
    /// Waits for the batch and reads its results. The slot is free again.
    pub(crate) fn finish(self, gpu: &GpuDevice) -> Result<(BatchResults, BatchBuffers), GpuError> {
        gpu.wait("search batch", &self.submission)?;
        let mut found = self.mapping.take(gpu, &self.slot.readback, parse)?;
        // Slots are taken in any order.
        let first_nonce = self.first_nonce;
        found
            .hits
            .sort_unstable_by_key(|hit| hit.pow_nonce.wrapping_sub(first_nonce));
        Ok((found, self.slot))
    }
}

/// ReadParams a result buffer. Its length gives the number of slots, whatever the device counted.
fn parse(bytes: &[u8]) -> BatchResults {
    let (head, slots) = bytes.split_at(size_of::<SearchResultsHeader>());
    let found = bytemuck::pod_read_unaligned::<SearchResultsHeader>(head).found;
    let hits = slots
        .chunks_exact(size_of::<SearchHit>())
        .take(found as usize)
        .map(bytemuck::pod_read_unaligned::<SearchHit>)
        .map(|hit| GpuHit {
            pow_nonce: hit.nonce(),
            mix_hash: B256::from(hit.mix_hash),
        })
        .collect();
    BatchResults { found, hits }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A result buffer of two slots whose mixes are 1 and 2, and whose count is `found`.
    fn buffer(found: u32) -> Vec<u8> {
        let mut bytes = vec![0; 16 + 2 * 48];
        bytes[..4].copy_from_slice(&found.to_le_bytes());
        bytes[16] = 1;
        bytes[16 + 48] = 2;
        bytes
    }

    #[test]
    fn as_many_hits_are_read_as_were_stored() {
        for (found, stored) in [(0, 0), (1, 1), (2, 2), (3, 2), (u32::MAX, 2)] {
            let results = parse(&buffer(found));
            assert_eq!(results.found, found);
            let first_bytes: Vec<_> = results.hits.iter().map(|hit| hit.mix_hash[0]).collect();
            assert_eq!(first_bytes, [1, 2][..stored]);
        }
    }
}
