//! Measures what a device's memory gives at best: random rows of the dataset and of the light cache, and a
//! plain copy.
//!
//! A hash is 64 random rows of the dataset and little else, so its rate is judged by these figures. They come
//! from the very buffers that are searched. Several ways of reading are measured, of which the best counts: by
//! one invocation a row and by several together; over all pages, and, since choosing among pages is work that
//! memory has no part in, page after page. Knows no hashing.

use std::collections::VecDeque;
use std::slice;
use std::time::{Duration, Instant};

use super::dataset::upload_cache;
use super::device::GpuDevice;
use super::dispatch_size::DispatchSizer;
use super::error::GpuError;
use super::pages::PagedBuffer;
use super::params::ReadParams;
use super::pipeline::{KernelPipeline, KernelSource};
use super::searcher::GpuSearcher;
use super::shaders::{PART_BYTES, RANDOM_READS_ENTRY, READS_PER_READER, random_reads_module};

/// Time of a dispatch.
const DISPATCH_TIME: Duration = Duration::from_millis(50);
/// Dispatches given to the device at once: one runs, one waits.
const IN_FLIGHT: usize = 2;
/// Invocations in a workgroup.
const WORKGROUP_SIZE: u32 = 64;
/// Invocations of the first dispatch, before anything is known of the device.
const FIRST_INVOCATIONS: u32 = 1 << 14;
/// The size of the buffers that are copied, where there is memory for two.
const COPY_BYTES: u64 = 256 << 20;
/// Smaller ones would be copied within caches.
const COPY_BYTES_MIN: u64 = 64 << 20;
/// Most copies in one submission.
const COPIES_MAX: u32 = 1024;
/// Spreads the numbers of dispatches over all seeds: 2^32 over the golden ratio, odd.
const SEED_STEP: u32 = 0x9e37_79b9;

/// What the memory of a device gives at best. `None`: it could not be measured.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Ceilings {
    /// Bytes read and bytes written by copies from buffer to buffer, together, per second.
    pub copy_bytes_per_second: Option<f64>,
    /// Bytes of random 128-byte items of the dataset per second.
    pub random_read_bytes_per_second: Option<f64>,
    /// Bytes of random 64-byte rows of the light cache per second.
    pub cache_read_bytes_per_second: Option<f64>,
}

impl GpuSearcher {
    /// Measures for `time` each, of which every way of reading has its part. Ends the search under way.
    ///
    /// # Errors
    /// [`GpuError::NoDataset`], and what the device does. Want of memory is no error: then figures are missing.
    pub fn ceilings(&mut self, time: Duration) -> Result<Ceilings, GpuError> {
        self.stop()?;
        let loaded = self.loaded.as_ref().ok_or(GpuError::NoDataset)?;
        let (gpu, checks) = (&self.gpu, self.options.runtime_checks);
        let items = best_read_rate(gpu, &loaded.dataset, checks, time)?;
        let rows = unless_refused(upload_cache(gpu, &self.options, &loaded.cache))?
            .map(|rows| best_read_rate(gpu, &rows, checks, time))
            .transpose()?;
        Ok(Ceilings {
            copy_bytes_per_second: copy_rate(gpu, time)?,
            random_read_bytes_per_second: Some(items),
            cache_read_bytes_per_second: rows,
        })
    }
}

/// `None` in place of want of memory.
fn unless_refused<T>(result: Result<T, GpuError>) -> Result<Option<T>, GpuError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(GpuError::AllocationRefused { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Bytes per second in the best way of reading. All ways together take `time`.
fn best_read_rate(
    gpu: &GpuDevice,
    table: &PagedBuffer,
    checks: bool,
    time: Duration,
) -> Result<f64, GpuError> {
    let sum = sum_buffer(gpu)?;
    let full_pages = table.full_pages();
    let mut ways = vec![slice::from_ref(table)];
    if table.layout.pages > 1 {
        // There is a full page where there are two.
        ways.push(&full_pages);
    }
    let lanes = [false, true];
    let each = time / (ways.len() * lanes.len()) as u32;
    let mut best = 0.0_f64;
    for tables in ways {
        for together in lanes {
            let reader = RandomReader::new(gpu, tables, &sum, checks, together)?;
            best = best.max(reader.rate(gpu, each)?);
        }
    }
    Ok(best)
}

fn sum_buffer(gpu: &GpuDevice) -> Result<wgpu::Buffer, GpuError> {
    use wgpu::BufferUsages as Usage;
    gpu.buffer("sum", 16, Usage::STORAGE | Usage::COPY_SRC | Usage::COPY_DST)
}

/// The kernel that reads random rows, of one table or of several in turn.
struct RandomReader {
    /// One for each table.
    kernels: Vec<KernelPipeline>,
    parameters: wgpu::Buffer,
    output: wgpu::BindGroup,
    row_bytes: u64,
    /// Invocations that share a row.
    lanes: u32,
}

impl RandomReader {
    /// ReadParams `tables` of the same size in turn, at least one; `sum` is where a sum is written that equals
    /// [`ReadParams::never`].
    fn new(
        gpu: &GpuDevice,
        tables: &[PagedBuffer],
        sum: &wgpu::Buffer,
        runtime_checks: bool,
        together: bool,
    ) -> Result<Self, GpuError> {
        let Some((first, others)) = tables.split_first() else {
            return Err(GpuError::NoDataset);
        };
        let layout = &first.layout;
        let source = KernelSource {
            entry: RANDOM_READS_ENTRY,
            wgsl: random_reads_module(layout.row_bytes, layout.pages, together),
            constants: &[
                ("TABLE_ROWS", layout.rows.into()),
                ("TABLE_PAGE_SHIFT", layout.shift.into()),
            ],
            workgroup_size: WORKGROUP_SIZE,
            runtime_checks,
        };
        let mut kernels = vec![KernelPipeline::new(gpu, &source, first)?];
        for table in others {
            kernels.push(kernels[0].over(gpu, table)?);
        }
        let parameters = gpu.uniform("reads", bytemuck::bytes_of(&ReadParams::default()))?;
        let lanes = if together {
            (layout.row_bytes / PART_BYTES as u64) as u32
        } else {
            1
        };
        Ok(Self {
            output: kernels[0].bind(gpu, &parameters, sum)?,
            kernels,
            parameters,
            row_bytes: layout.row_bytes,
            lanes,
        })
    }

    fn launch(
        &self,
        gpu: &GpuDevice,
        kernel: &KernelPipeline,
        reads: ReadParams,
        invocations: u32,
    ) -> Result<wgpu::SubmissionIndex, GpuError> {
        gpu.queue()
            .write_buffer(&self.parameters, 0, bytemuck::bytes_of(&reads));
        gpu.submit("random reads", |encoder| {
            kernel.dispatch(gpu, encoder, &self.output, invocations);
        })
    }

    /// Bytes per second.
    fn rate(&self, gpu: &GpuDevice, time: Duration) -> Result<f64, GpuError> {
        let pace = DispatchSizer::new(DISPATCH_TIME, WORKGROUP_SIZE, FIRST_INVOCATIONS, 1 << 28);
        let mut dispatches = 0_u32;
        let per_second = steady_rate(gpu, "random reads", pace, time, |invocations| {
            dispatches = dispatches.wrapping_add(1);
            let reads = ReadParams {
                first_reader: 0,
                seed: dispatches.wrapping_mul(SEED_STEP),
                // A sum is the number of its dispatch, twice, once in 2^64 times. Nobody reads it.
                never: [dispatches; 2],
            };
            let kernel = &self.kernels[dispatches as usize % self.kernels.len()];
            self.launch(gpu, kernel, reads, invocations)
        })?;
        let bytes_each = self.row_bytes * u64::from(READS_PER_READER) / u64::from(self.lanes);
        Ok(per_second * bytes_each as f64)
    }
}

/// Bytes read and written per second by copies between two buffers; `None` where there is no memory for them.
fn copy_rate(gpu: &GpuDevice, time: Duration) -> Result<Option<f64>, GpuError> {
    let Some([from, to]) = copy_buffers(gpu)? else {
        return Ok(None);
    };
    let pace = DispatchSizer::new(DISPATCH_TIME, 1, 1, COPIES_MAX);
    let per_second = steady_rate(gpu, "copies", pace, time, |copies| {
        gpu.submit("copies", |encoder| {
            for _ in 0..copies {
                encoder.copy_buffer_to_buffer(&from, 0, &to, 0, from.size());
            }
        })
    })?;
    Ok(Some(per_second * 2.0 * from.size() as f64))
}

/// Two buffers, as large as memory and limits allow.
fn copy_buffers(gpu: &GpuDevice) -> Result<Option<[wgpu::Buffer; 2]>, GpuError> {
    use wgpu::BufferUsages as Usage;
    let mut bytes = COPY_BYTES;
    while bytes >= COPY_BYTES_MIN {
        if bytes <= gpu.limits.max_buffer_size {
            let both = gpu
                .buffer("source of copies", bytes, Usage::COPY_SRC | Usage::COPY_DST)
                .and_then(|from| Ok([from, gpu.buffer("target of copies", bytes, Usage::COPY_DST)?]));
            if let Some(both) = unless_refused(both)? {
                return Ok(Some(both));
            }
        }
        bytes /= 2;
    }
    Ok(None)
}

/// Units per second over at least `time`, after a quarter of it in which their number per launch settles.
fn steady_rate(
    gpu: &GpuDevice,
    what: &'static str,
    mut pace: DispatchSizer,
    time: Duration,
    mut launch: impl FnMut(u32) -> Result<wgpu::SubmissionIndex, GpuError>,
) -> Result<f64, GpuError> {
    let mut in_flight = VecDeque::new();
    let begin = Instant::now();
    let mut last_end = begin;
    let mut counted: Option<(Instant, u64)> = None;
    loop {
        while in_flight.len() < IN_FLIGHT {
            let units = pace.size();
            in_flight.push_back((launch(units)?, units, Instant::now()));
        }
        let Some((submission, units, start)) = in_flight.pop_front() else {
            continue;
        };
        let exact = !gpu.is_finished(&submission)?;
        gpu.wait(what, &submission)?;
        let end = Instant::now();
        pace.record(units, end - start.max(last_end), exact);
        last_end = end;
        match &mut counted {
            None if end - begin >= time / 4 => counted = Some((end, 0)),
            None => {}
            Some((from, total)) => {
                *total += u64::from(units);
                let elapsed = end - *from;
                if elapsed >= time {
                    let rate = *total as f64 / elapsed.as_secs_f64().max(1e-9);
                    // What still runs would be counted with whatever is measured next.
                    for (submission, ..) in in_flight {
                        gpu.wait(what, &submission)?;
                    }
                    return Ok(rate);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::adapter::adapter;
    use super::super::fixture::first_adapter;
    use super::super::pages::PageLayout;
    use super::*;

    /// The row that read number `n` must read.
    fn row_of(n: u32, seed: u32, rows: u32) -> u32 {
        let mut x = n ^ seed;
        x = (x ^ (x >> 16)).wrapping_mul(0x7feb_352d);
        x = (x ^ (x >> 15)).wrapping_mul(0x846c_a68b);
        (x ^ (x >> 16)) % rows
    }

    /// What invocation `place` must have summed up.
    fn expected_sum(table: &[u32], row_words: usize, lanes: u32, reads: &ReadParams, place: u32) -> [u32; 4] {
        let rows = (table.len() / row_words) as u32;
        let first = (reads.first_reader + place / lanes).wrapping_mul(READS_PER_READER);
        let mut sum = [0; 4];
        for n in 0..READS_PER_READER {
            let row = row_of(first.wrapping_add(n), reads.seed, rows) as usize * row_words;
            let parts = table[row..row + row_words].as_chunks::<4>().0;
            let own = match lanes {
                1 => parts,
                _ => &parts[(place % lanes) as usize..][..1],
            };
            for part in own {
                sum = core::array::from_fn(|i| sum[i] ^ part[i]);
            }
        }
        sum
    }

    /// Compares some invocations of `kernel` over `table` with the twin.
    fn check(
        gpu: &GpuDevice,
        reader: &RandomReader,
        kernel: &KernelPipeline,
        sum_buffer: &wgpu::Buffer,
        table: &[u32],
        row_words: usize,
    ) {
        for place in [0, 13, 127] {
            let mut reads = ReadParams {
                first_reader: 77,
                seed: 0xdead_beef,
                never: [0; 2],
            };
            let sum = expected_sum(table, row_words, reader.lanes, &reads, place);
            reads.never = [sum[0] ^ sum[2], sum[1] ^ sum[3]];
            let zero = gpu
                .submit("zero", |encoder| encoder.clear_buffer(sum_buffer, 0, None))
                .unwrap();
            gpu.wait("zero", &zero).unwrap();
            let submission = reader.launch(gpu, kernel, reads, 128).unwrap();
            gpu.wait("random reads", &submission).unwrap();
            let got = gpu.read(sum_buffer, 0, 16).unwrap();
            let got: [u32; 4] = bytemuck::pod_read_unaligned(&got);
            assert_eq!(
                got, sum,
                "{row_words} words, {} lanes, place {place}",
                reader.lanes
            );
        }
    }

    #[test]
    fn every_row_is_read_that_should_be() {
        let Some(first) = first_adapter() else { return };
        let opened = adapter(first.index).unwrap();
        let gpu = GpuDevice::open(opened, wgpu::Features::empty(), Duration::from_secs(30)).unwrap();
        for (row_words, rows, max_page_rows) in [(32, 149, Some(64)), (16, 100, None)] {
            let table: Vec<u32> = (0..rows * row_words as u32)
                .map(|i| i.wrapping_mul(SEED_STEP))
                .collect();
            let layout = PageLayout::new(rows, 4 * row_words as u64, &gpu.limits, max_page_rows).unwrap();
            let pages = PagedBuffer::allocate(&gpu, "table", layout).unwrap();
            pages.upload(&gpu, "table", bytemuck::cast_slice(&table)).unwrap();
            let sum_buffer = super::sum_buffer(&gpu).unwrap();
            for together in [false, true] {
                let whole =
                    RandomReader::new(&gpu, slice::from_ref(&pages), &sum_buffer, false, together).unwrap();
                check(&gpu, &whole, &whole.kernels[0], &sum_buffer, &table, row_words);
                let full = pages.full_pages();
                assert_eq!(full.len(), if max_page_rows.is_some() { 2 } else { 0 });
                if full.is_empty() {
                    continue;
                }
                let by_page = RandomReader::new(&gpu, &full, &sum_buffer, false, together).unwrap();
                for (kernel, page) in by_page.kernels.iter().zip(table.chunks(64 * row_words)) {
                    check(&gpu, &by_page, kernel, &sum_buffer, page, row_words);
                }
            }
        }
    }
}
