//! Measures what the memory of a device can deliver at best: random rows of the dataset, random
//! rows of the light cache, and a plain copy.
//!
//! A hash is little more than 64 reads of random dataset rows, so the hash rate is compared with
//! these figures. They are measured on the buffers that are searched. Several ways of reading are
//! measured, and the best one counts: each row is read by one invocation or by several together,
//! and the reads are spread over all pages or done page by page. Page by page avoids the choice of
//! the page, which costs time but no memory bandwidth. If the reads over all pages are much slower,
//! the card translates too many addresses (see `dedicated`). Knows no hashing.

use std::collections::VecDeque;
use std::slice;
use std::time::{Duration, Instant};

use super::dataset::upload_cache;
use super::device::{GpuDevice, TABLE_USAGE};
use super::dispatch_size::DispatchSizer;
use super::error::GpuError;
use super::page_layout::PageLayout;
use super::pages::PagedBuffer;
use super::params::ReadParams;
use super::pipeline::{KernelPipeline, KernelSource};
use super::searcher::GpuSearcher;
use super::shaders::{
    COPY_ENTRY, PART_BYTES, RANDOM_READS_ENTRY, READS_PER_READER, copy_module, random_reads_module,
};

/// Target time of a dispatch.
const DISPATCH_TIME: Duration = Duration::from_millis(50);
/// Number of dispatches in flight: one runs, one waits.
const IN_FLIGHT: usize = 2;
/// Invocations in a workgroup.
const WORKGROUP_SIZE: u32 = 64;
/// Invocations in the first dispatch, when the speed of the device is unknown.
const FIRST_INVOCATIONS: u32 = 1 << 14;
/// Size of the target of the copy, if there is enough memory.
const COPY_BYTES: u64 = 256 << 20;
/// Smallest size of that buffer. A smaller one would fit in caches.
const COPY_BYTES_MIN: u64 = 64 << 20;
/// Largest number of copies in one submission.
const COPIES_MAX: u32 = 1024;
/// Turns the number of a dispatch into a seed. It is 2^32 divided by the golden ratio, made odd.
const SEED_STEP: u32 = 0x9e37_79b9;

/// The best rates that the memory of a device can deliver. `None` means that the figure could not
/// be measured.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Ceilings {
    /// Bytes read plus bytes written per second, by copies from buffer to buffer. A kernel copies,
    /// or the driver, whichever is faster.
    pub copy_bytes_per_second: Option<f64>,
    /// Bytes per second, reading random 128-byte items of the dataset.
    pub random_read_bytes_per_second: Option<f64>,
    /// The same, with reads that are spread over all pages, as those of a search are.
    pub spread_read_bytes_per_second: Option<f64>,
    /// Bytes per second, reading random 64-byte rows of the light cache.
    pub cache_read_bytes_per_second: Option<f64>,
}

impl GpuSearcher {
    /// Measures each figure for `time`, which is divided among the ways of reading. Ends the search
    /// under way.
    ///
    /// # Errors
    /// [`GpuError::NoDataset`], and errors of the device. If there is too little memory, figures
    /// are missing.
    pub fn measure_ceilings(&mut self, time: Duration) -> Result<Ceilings, GpuError> {
        self.stop()?;
        let loaded = self.loaded.as_ref().ok_or(GpuError::NoDataset)?;
        let (gpu, checks) = (&self.gpu, self.options.runtime_checks);
        let items = read_rates(gpu, &loaded.dataset, checks, time)?;
        let rows = unless_refused(upload_cache(gpu, &self.options, &loaded.cache))?
            .map(|rows| read_rates(gpu, &rows, checks, time))
            .transpose()?;
        Ok(Ceilings {
            copy_bytes_per_second: copy_rate(gpu, &loaded.dataset, checks, time)?,
            random_read_bytes_per_second: Some(items.best()),
            spread_read_bytes_per_second: Some(items.spread),
            cache_read_bytes_per_second: rows.map(|rates| rates.best()),
        })
    }
}

/// Turns a refused allocation into `None`.
fn unless_refused<T>(result: Result<T, GpuError>) -> Result<Option<T>, GpuError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(GpuError::AllocationRefused { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Bytes per second of random reads.
struct ReadRates {
    /// With reads that are spread over all pages.
    spread: f64,
    /// Page by page. 0 if there is one page.
    by_page: f64,
}

impl ReadRates {
    const fn best(&self) -> f64 {
        self.spread.max(self.by_page)
    }
}

/// Measures both ways of reading. All measurements together take `time`.
fn read_rates(
    gpu: &GpuDevice,
    table: &PagedBuffer,
    checks: bool,
    time: Duration,
) -> Result<ReadRates, GpuError> {
    let sum = sum_buffer(gpu)?;
    let full_pages = table.full_pages();
    let has_pages = table.layout.pages > 1;
    let each = time / if has_pages { 4 } else { 2 };
    let rate = |tables: &[PagedBuffer]| -> Result<f64, GpuError> {
        let mut best = 0.0_f64;
        for together in [false, true] {
            let reader = RandomReader::new(gpu, tables, &sum, checks, together)?;
            best = best.max(reader.rate(gpu, each)?);
        }
        Ok(best)
    };
    Ok(ReadRates {
        spread: rate(slice::from_ref(table))?,
        // A table of several pages has at least one full page.
        by_page: if has_pages { rate(&full_pages)? } else { 0.0 },
    })
}

fn sum_buffer(gpu: &GpuDevice) -> Result<wgpu::Buffer, GpuError> {
    use wgpu::BufferUsages as Usage;
    gpu.buffer("sum", 16, Usage::STORAGE | Usage::COPY_SRC | Usage::COPY_DST)
}

/// The kernel that reads random rows, of one table or of several tables in turn.
struct RandomReader {
    /// One kernel for each table.
    kernels: Vec<KernelPipeline>,
    parameters: wgpu::Buffer,
    output: wgpu::BindGroup,
    row_bytes: u64,
    /// Invocations that share a row.
    lanes: u32,
}

impl RandomReader {
    /// Makes a reader of `tables`, which must be at least one and have the same size.
    ///
    /// The kernel writes a sum to `sum` only if that sum equals [`ReadParams::never`].
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
                ("TABLE_PAGE_ROWS", layout.page_rows.into()),
            ],
            workgroup_size: WORKGROUP_SIZE,
            has_counter: false,
            runtime_checks,
        };
        let mut kernels = vec![KernelPipeline::new(gpu, &source, first)?];
        for table in others {
            kernels.push(kernels[0].with_pages(gpu, table)?);
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

    /// Returns the bytes read per second.
    fn rate(&self, gpu: &GpuDevice, time: Duration) -> Result<f64, GpuError> {
        let sizer = DispatchSizer::new(DISPATCH_TIME, WORKGROUP_SIZE, FIRST_INVOCATIONS, 1 << 28);
        let mut dispatches = 0_u32;
        let per_second = steady_rate(gpu, "random reads", sizer, time, |invocations| {
            dispatches = dispatches.wrapping_add(1);
            let reads = ReadParams {
                first_reader: 0,
                seed: dispatches.wrapping_mul(SEED_STEP),
                // The chance that a sum equals this is 1 in 2^64, and nobody reads the sum.
                never: [dispatches; 2],
            };
            let kernel = &self.kernels[dispatches as usize % self.kernels.len()];
            self.launch(gpu, kernel, reads, invocations)
        })?;
        let bytes_each = self.row_bytes * u64::from(READS_PER_READER) / u64::from(self.lanes);
        Ok(per_second * bytes_each as f64)
    }
}

/// Returns the bytes read plus the bytes written per second, by copies of the dataset's first page.
/// Returns `None` if there is too little memory for a copy.
fn copy_rate(
    gpu: &GpuDevice,
    dataset: &PagedBuffer,
    checks: bool,
    time: Duration,
) -> Result<Option<f64>, GpuError> {
    let Some(source) = dataset.buffers.first() else {
        return Ok(None);
    };
    let Some(target) = copy_target(gpu, source.size())? else {
        return Ok(None);
    };
    let bytes = target.size();
    let copier = PageCopier::new(gpu, dataset, &target, checks)?;
    let by_kernel = copies_per_second(gpu, time / 2, |encoder| {
        copier.copy(gpu, encoder);
    })?;
    let by_driver = copies_per_second(gpu, time / 2, |encoder| {
        encoder.copy_buffer_to_buffer(source, 0, &target, 0, bytes);
    })?;
    Ok(Some(by_kernel.max(by_driver) * 2.0 * bytes as f64))
}

/// The kernel that copies the first page of a table, as far as the target goes.
struct PageCopier {
    kernel: KernelPipeline,
    output: wgpu::BindGroup,
    invocations: u32,
}

impl PageCopier {
    fn new(
        gpu: &GpuDevice,
        table: &PagedBuffer,
        target: &wgpu::Buffer,
        runtime_checks: bool,
    ) -> Result<Self, GpuError> {
        let first = table.buffers.first().ok_or(GpuError::NoDataset)?;
        let page = PagedBuffer {
            layout: PageLayout {
                rows: table.layout.rows_in(0),
                pages: 1,
                ..table.layout
            },
            buffers: vec![first.clone()],
        };
        let source = KernelSource {
            entry: COPY_ENTRY,
            wgsl: copy_module(),
            constants: &[("TABLE_PAGE_ROWS", page.layout.page_rows.into())],
            workgroup_size: WORKGROUP_SIZE,
            has_counter: false,
            runtime_checks,
        };
        let kernel = KernelPipeline::new(gpu, &source, &page)?;
        let parameters = gpu.uniform("copies", bytemuck::bytes_of(&ReadParams::default()))?;
        Ok(Self {
            output: kernel.bind(gpu, &parameters, target)?,
            kernel,
            invocations: (target.size() / PART_BYTES as u64) as u32,
        })
    }

    fn copy(&self, gpu: &GpuDevice, encoder: &mut wgpu::CommandEncoder) {
        self.kernel.dispatch(gpu, encoder, &self.output, self.invocations);
    }
}

fn copies_per_second(
    gpu: &GpuDevice,
    time: Duration,
    copy: impl Fn(&mut wgpu::CommandEncoder),
) -> Result<f64, GpuError> {
    let sizer = DispatchSizer::new(DISPATCH_TIME, 1, 1, COPIES_MAX);
    steady_rate(gpu, "copies", sizer, time, |copies| {
        gpu.submit("copies", |encoder| (0..copies).for_each(|_| copy(encoder)))
    })
}

/// Allocates the target of copies, as large as the memory allows.
fn copy_target(gpu: &GpuDevice, source_bytes: u64) -> Result<Option<wgpu::Buffer>, GpuError> {
    let mut bytes = COPY_BYTES.min(source_bytes);
    while bytes >= COPY_BYTES_MIN.min(source_bytes) {
        if let Some(buffer) = unless_refused(gpu.buffer("target of copies", bytes, TABLE_USAGE))? {
            return Ok(Some(buffer));
        }
        bytes = bytes / 2 / PART_BYTES as u64 * PART_BYTES as u64;
    }
    Ok(None)
}

/// Returns the units of work per second, measured for at least `time`. Before that, the size of the
/// launches settles for a quarter of `time`.
fn steady_rate(
    gpu: &GpuDevice,
    what: &'static str,
    mut sizer: DispatchSizer,
    time: Duration,
    mut launch: impl FnMut(u32) -> Result<wgpu::SubmissionIndex, GpuError>,
) -> Result<f64, GpuError> {
    let mut in_flight = VecDeque::new();
    let begin = Instant::now();
    let mut last_end = begin;
    let mut counted: Option<(Instant, u64)> = None;
    loop {
        while in_flight.len() < IN_FLIGHT {
            let units = sizer.size();
            in_flight.push_back((launch(units)?, units, Instant::now()));
        }
        let Some((submission, units, start)) = in_flight.pop_front() else {
            continue;
        };
        let exact = !gpu.is_finished(&submission)?;
        gpu.wait(what, &submission)?;
        let end = Instant::now();
        sizer.record(units, end - start.max(last_end), exact);
        last_end = end;
        match &mut counted {
            None if end - begin >= time / 4 => counted = Some((end, 0)),
            None => {}
            Some((from, total)) => {
                *total += u64::from(units);
                let elapsed = end - *from;
                if elapsed >= time {
                    let rate = *total as f64 / elapsed.as_secs_f64().max(1e-9);
                    // The next measurement must not count what is still running.
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
    use super::super::page_layout::PageLayout;
    use super::*;

    /// Returns the row of read number `n`.
    fn row_of(n: u32, seed: u32, rows: u32) -> u32 {
        let mut x = n ^ seed;
        x = (x ^ (x >> 16)).wrapping_mul(0x7feb_352d);
        x = (x ^ (x >> 15)).wrapping_mul(0x846c_a68b);
        (x ^ (x >> 16)) % rows
    }

    /// Computes on the CPU the sum of this invocation.
    fn expected_sum(
        table: &[u32],
        row_words: usize,
        lanes: u32,
        reads: &ReadParams,
        invocation: u32,
    ) -> [u32; 4] {
        let rows = (table.len() / row_words) as u32;
        let first = (reads.first_reader + invocation / lanes).wrapping_mul(READS_PER_READER);
        let mut sum = [0; 4];
        for n in 0..READS_PER_READER {
            let row = row_of(first.wrapping_add(n), reads.seed, rows) as usize * row_words;
            let parts = table[row..row + row_words].as_chunks::<4>().0;
            let own = match lanes {
                1 => parts,
                _ => &parts[(invocation % lanes) as usize..][..1],
            };
            for part in own {
                sum = core::array::from_fn(|i| sum[i] ^ part[i]);
            }
        }
        sum
    }

    /// Compares the sums of some invocations of `kernel` over `table` with those of the CPU.
    fn check(
        gpu: &GpuDevice,
        reader: &RandomReader,
        kernel: &KernelPipeline,
        sum_buffer: &wgpu::Buffer,
        table: &[u32],
        row_words: usize,
    ) {
        for invocation in [0, 13, 127] {
            let mut reads = ReadParams {
                first_reader: 77,
                seed: 0xdead_beef,
                never: [0; 2],
            };
            let sum = expected_sum(table, row_words, reader.lanes, &reads, invocation);
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
                "{row_words} words, {} lanes, invocation {invocation}",
                reader.lanes
            );
        }
    }

    #[test]
    fn the_kernel_copies_the_first_page() {
        let Some(first) = first_adapter() else { return };
        let opened = adapter(first.index).unwrap();
        let gpu = GpuDevice::open(opened, wgpu::Features::empty(), Duration::from_secs(30)).unwrap();
        let table: Vec<u32> = (0..149 * 32_u32).map(|i| i.wrapping_mul(SEED_STEP)).collect();
        let layout = PageLayout::new(149, 128, &gpu.limits, Some(64), false).unwrap();
        let pages = PagedBuffer::allocate(&gpu, "table", layout).unwrap();
        pages.upload(&gpu, "table", bytemuck::cast_slice(&table)).unwrap();
        for bytes in [64 * 128, 63 * 128] {
            let target = gpu.buffer("target", bytes, TABLE_USAGE).unwrap();
            let copier = PageCopier::new(&gpu, &pages, &target, false).unwrap();
            let copied = gpu.submit("copy", |encoder| copier.copy(&gpu, encoder)).unwrap();
            gpu.wait("copy", &copied).unwrap();
            let got = gpu.read(&target, 0, bytes).unwrap();
            assert_eq!(got, bytemuck::cast_slice::<_, u8>(&table)[..bytes as usize]);
        }
    }

    #[test]
    fn the_kernel_reads_the_rows_that_it_should() {
        let Some(first) = first_adapter() else { return };
        let opened = adapter(first.index).unwrap();
        let gpu = GpuDevice::open(opened, wgpu::Features::empty(), Duration::from_secs(30)).unwrap();
        for (row_words, rows, max_page_rows) in [(32, 149, Some(64)), (16, 100, None)] {
            let table: Vec<u32> = (0..rows * row_words as u32)
                .map(|i| i.wrapping_mul(SEED_STEP))
                .collect();
            let layout =
                PageLayout::new(rows, 4 * row_words as u64, &gpu.limits, max_page_rows, false).unwrap();
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
