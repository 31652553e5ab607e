//! One batch of nonces on the device: its buffers, its launch and its results.
//!
//! Each batch has its own buffers and remembers the work it was launched for. So several batches
//! can be in flight, and a result is never attributed to newer work.

use std::time::Instant;

use ethash::B256;

use super::device::{BufferReadback, GpuDevice};
use super::error::GpuError;
use super::params::{SearchHit, SearchParams, SearchResultsHeader};
use super::pipeline::KernelPipeline;

/// Work for the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuWork {
    /// A number that the caller chooses. It is returned with the results.
    pub id: u64,
    /// The hash of the header without its seal.
    pub header_hash: B256,
    /// 2^256 / difficulty. The device compares only the top 64 bits.
    pub boundary: B256,
    /// The first nonce. The nonce after the highest number is 0.
    pub start_nonce: u64,
    /// The number of nonces, from the first on, that may be hashed for this work.
    pub nonces: u64,
}

/// A nonce whose final hash is not above the boundary in its top 64 bits.
///
/// The caller must compute the hash on the CPU and compare all 256 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuHit {
    /// The nonce.
    pub pow_nonce: u64,
    /// The mix hash that the device computed.
    pub mix_hash: B256,
}

/// The buffers of one batch.
pub(crate) struct BatchBuffers {
    parameters: wgpu::Buffer,
    results: wgpu::Buffer,
    readback: wgpu::Buffer,
    output: wgpu::BindGroup,
}

/// A batch in flight.
pub(crate) struct BatchInFlight {
    pub(crate) work: GpuWork,
    pub(crate) first_nonce: u64,
    pub(crate) count: u32,
    pub(crate) start: Instant,
    pub(crate) submission: wgpu::SubmissionIndex,
    pub(crate) buffers: BatchBuffers,
    readback: BufferReadback,
}

/// The results of a batch.
pub(crate) struct BatchResults {
    /// The number of hits.
    pub(crate) found: u32,
    /// The hits that had a free slot, in the order of their nonces from `first_nonce` on.
    pub(crate) hits: Vec<GpuHit>,
}

impl BatchBuffers {
    /// Allocates the buffers of one batch, with slots for `result_slots` hits.
    pub(crate) fn new(gpu: &GpuDevice, kernel: &KernelPipeline, result_slots: u32) -> Result<Self, GpuError> {
        use wgpu::BufferUsages as Usage;
        let bytes =
            size_of::<SearchResultsHeader>() as u64 + u64::from(result_slots) * size_of::<SearchHit>() as u64;
        let no_nonces = SearchParams::new(&B256::ZERO, &B256::ZERO, 0, 0);
        let parameters = gpu.uniform("search parameters", bytemuck::bytes_of(&no_nonces))?;
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

    /// Launches a batch of `count` nonces from `first_nonce` on.
    pub(crate) fn launch(
        self,
        gpu: &GpuDevice,
        kernel: &KernelPipeline,
        work: GpuWork,
        first_nonce: u64,
        count: u32,
    ) -> Result<BatchInFlight, GpuError> {
        let params = SearchParams::new(&work.header_hash, &work.boundary, first_nonce, count);
        gpu.queue()
            .write_buffer(&self.parameters, 0, bytemuck::bytes_of(&params));
        let submission = gpu.submit("search batch", |encoder| {
            encoder.clear_buffer(&self.results, 0, Some(size_of::<SearchResultsHeader>() as u64));
            kernel.dispatch(gpu, encoder, &self.output, count);
            encoder.copy_buffer_to_buffer(&self.results, 0, &self.readback, 0, self.readback.size());
        })?;
        let readback = BufferReadback::start(&self.readback);
        Ok(BatchInFlight {
            work,
            first_nonce,
            count,
            start: Instant::now(),
            submission,
            buffers: self,
            readback,
        })
    }
}

impl BatchInFlight {
    /// Waits for the batch. Returns its results, and its buffers for another batch.
    pub(crate) fn finish(self, gpu: &GpuDevice) -> Result<(BatchResults, BatchBuffers), GpuError> {
        gpu.wait("search batch", &self.submission)?;
        let mut results = self.readback.take(gpu, &self.buffers.readback, parse)?;
        // Invocations take slots in any order.
        let first_nonce = self.first_nonce;
        results
            .hits
            .sort_unstable_by_key(|hit| hit.pow_nonce.wrapping_sub(first_nonce));
        Ok((results, self.buffers))
    }
}

/// Parses a result buffer. The length of the buffer limits the number of hits, whatever the device
/// counted.
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

    /// Returns a result buffer that counts `found` hits. It has two slots with the mix hashes 1 and
    /// 2.
    fn buffer(found: u32) -> Vec<u8> {
        let mut bytes = vec![0; 16 + 2 * 48];
        bytes[..4].copy_from_slice(&found.to_le_bytes());
        bytes[16] = 1;
        bytes[16 + 48] = 2;
        bytes
    }

    #[test]
    fn only_stored_hits_are_parsed() {
        for (found, stored) in [(0, 0), (1, 1), (2, 2), (3, 2), (u32::MAX, 2)] {
            let results = parse(&buffer(found));
            assert_eq!(results.found, found);
            let first_bytes: Vec<_> = results.hits.iter().map(|hit| hit.mix_hash[0]).collect();
            assert_eq!(first_bytes, [1, 2][..stored]);
        }
    }
}
