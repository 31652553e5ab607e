//! The searcher: one adapter, one dataset, batches of nonces in flight.
//!
//! Takes work and returns hits; that a hit solves anything is for the caller to check on the CPU. Knows
//! neither chain nor network nor the other searchers.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ethash::{B256, ITEM_WORDS, LightCache};

use super::adapter::{self, AdapterInfo};
use super::batch::{BatchInFlight, GpuHit, GpuWork};
use super::check::{self, CheckSample};
use super::dataset::{
    DatasetGeneration, GenerationProgress, LoadedEpoch, NextDataset, PreparedDataset, allocate, check_range,
    items,
};
use super::device::GpuDevice;
use super::dispatch_size::DispatchSizer;
use super::error::GpuError;
use super::kernel_form::KernelForm;
use super::options::GpuOptions;
use super::params::boundary_top;
use super::pipeline::check_workgroup;

/// Nonces in the first batch, before anything is known of the device.
const FIRST_BATCH: u32 = 1024;
/// Most nonces in a batch.
const BATCH_MAX: u32 = 1 << 30;
/// A batch holds at most this many times the hashes that one solution takes on average: further hits
/// of the same work are of no use.
const SOLUTIONS_PER_BATCH: u64 = 4;
/// Nonces in a batch, however easy the work.
const EASY_BATCH_MIN: u64 = 4096;

/// A finished batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchReport {
    /// The work it was launched for, which need not be the newest.
    pub work: GpuWork,
    /// Its first nonce.
    pub first_nonce: u64,
    /// Its nonces; all of them were hashed.
    pub count: u32,
    /// Hits in it, also those beyond the result slots.
    pub found: u32,
    /// Hits for which there was a slot, in the order of their nonces.
    pub hits: Vec<GpuHit>,
    /// From the end of the batch before, or its own launch, to its end.
    pub elapsed: Duration,
}

/// A nonce searcher on one adapter.
pub struct GpuSearcher {
    /// Before `loaded` and `gpu`, so that nothing is dropped while a batch uses it.
    in_flight: VecDeque<BatchInFlight>,
    pub(crate) loaded: Option<LoadedEpoch>,
    next: Option<NextDataset>,
    pub(crate) gpu: GpuDevice,
    pub(crate) options: GpuOptions,
    work: Option<GpuWork>,
    next_nonce: u64,
    /// Nonces of the work for which no batch was launched yet.
    nonces_left: u64,
    sizer: DispatchSizer,
    /// Nodes in a slice of a dataset, once known.
    slice_nodes: Option<u32>,
    last_end: Instant,
}

impl GpuSearcher {
    /// Opens adapter `index` of [`list_adapters`](super::list_adapters).
    ///
    /// # Errors
    /// When there is no such adapter, the kernel asked for does not run on it, or its driver refuses.
    pub fn new(index: usize, options: GpuOptions) -> Result<Self, GpuError> {
        Self::on(adapter::adapter(index)?, options)
    }

    /// Opens an adapter that was listed before, wherever it stands in the list by now: a card that is gone
    /// moves up those after it.
    ///
    /// # Errors
    /// [`GpuError::AdapterAbsent`] when it is not there, else as for [`new`](Self::new).
    pub fn find(adapter: &AdapterInfo, options: GpuOptions) -> Result<Self, GpuError> {
        Self::on(adapter::find(adapter)?, options)
    }

    fn on(adapter: (wgpu::Adapter, AdapterInfo), options: GpuOptions) -> Result<Self, GpuError> {
        let gpu = open(adapter, &options)?;
        Ok(Self {
            in_flight: VecDeque::new(),
            loaded: None,
            next: None,
            sizer: batch_sizer(&options),
            gpu,
            options,
            work: None,
            next_nonce: 0,
            nonces_left: 0,
            slice_nodes: None,
            last_end: Instant::now(),
        })
    }

    /// The adapter.
    pub fn adapter(&self) -> &AdapterInfo {
        &self.gpu.info
    }

    /// The light cache whose dataset is on the device.
    pub fn cache(&self) -> Option<&Arc<LightCache>> {
        self.loaded.as_ref().map(|loaded| &loaded.cache)
    }

    /// Buffers that the dataset on the device is spread over, 0 without a dataset.
    pub fn dataset_pages(&self) -> u32 {
        self.loaded
            .as_ref()
            .map_or(0, |loaded| loaded.dataset.layout.pages)
    }

    /// How the adapter is used now.
    pub fn options(&self) -> &GpuOptions {
        &self.options
    }

    /// Hashes per second, as last measured.
    pub fn hash_rate(&self) -> Option<f64> {
        self.sizer.rate()
    }

    /// Brings the dataset of `cache` to the device, generated there, and checks samples of it against the CPU.
    ///
    /// What [`prepare`](Self::prepare) has made of it is used. The dataset before is freed first, for two
    /// rarely fit. Results of batches under way and the work are dropped. `progress` is told after each slice
    /// of 50 ms or so; a break from it cancels.
    ///
    /// # Errors
    /// After any error there is no dataset on the device.
    pub fn set_epoch(
        &mut self,
        cache: &Arc<LightCache>,
        progress: &mut dyn FnMut(GenerationProgress) -> ControlFlow<()>,
    ) -> Result<(), GpuError> {
        self.work = None;
        self.in_flight.clear();
        self.loaded = None;
        let prepared = match self.next.take() {
            Some(next) if next.is_of(cache) => next.into_prepared(),
            _ => PreparedDataset::Nothing,
        };
        // Freed memory returns only when the device is polled.
        let freed = self.gpu.submit("end of the dataset before", |_| {})?;
        self.gpu.wait("end of the dataset before", &freed)?;

        let (gpu, options) = (&self.gpu, &self.options);
        let loaded = match prepared {
            PreparedDataset::Complete(loaded) => *loaded,
            prepared => {
                let mut generation = match prepared {
                    PreparedDataset::Part(generation) => *generation,
                    _ => {
                        let pages = allocate(gpu, options, "dataset", cache.dataset_items())?;
                        DatasetGeneration::begin(gpu, options, cache, pages, 0, self.slice_nodes)?
                    }
                };
                generation.finish(gpu, progress)?;
                self.slice_nodes = Some(generation.slice_nodes());
                LoadedEpoch::new(gpu, options, cache, generation.into_pages())?
            }
        };
        self.sizer = batch_sizer(&self.options);
        check::items_and_hashes(&self.gpu, &loaded, self.options.workgroup_size)?;
        self.loaded = Some(loaded);
        Ok(())
    }

    /// Begins the dataset of the epoch to come, which [`next_batch`](Self::next_batch) goes on with between
    /// batches. Does nothing where it has begun, or was refused, before.
    ///
    /// # Errors
    /// When there is no room for it; it is not tried again then.
    pub fn prepare(&mut self, cache: &Arc<LightCache>) -> Result<(), GpuError> {
        if self.next.as_ref().is_some_and(|next| next.is_of(cache)) {
            return Ok(());
        }
        // The one before goes first: there is no room for three.
        self.next = None;
        match NextDataset::begin(&self.gpu, &self.options, cache, self.slice_nodes) {
            Ok(next) => {
                self.next = Some(next);
                Ok(())
            }
            Err(error) => {
                self.next = Some(NextDataset::refused(cache));
                Err(error)
            }
        }
    }

    /// How far the dataset of the epoch to come is; `None` where there is none.
    pub fn prepared(&self) -> Option<GenerationProgress> {
        self.next.as_ref().and_then(NextDataset::progress)
    }

    /// Compiles another form of the search kernel for the dataset on the device. Ends the search under way.
    ///
    /// # Errors
    /// When the adapter cannot run it; the kernel before is kept then.
    pub fn set_kernel(&mut self, kernel: KernelForm, workgroup_size: u32) -> Result<(), GpuError> {
        self.stop()?;
        let options = GpuOptions {
            kernel,
            workgroup_size,
            ..self.options.clone()
        };
        runs_on(&self.gpu.info, kernel)?;
        check_workgroup(workgroup_size, &self.gpu.limits)?;
        if let Some(loaded) = &mut self.loaded {
            loaded.set_kernel(&self.gpu, &options)?;
        }
        // A dataset that waits has the kernel of before.
        self.next = None;
        self.sizer = batch_sizer(&options);
        self.options = options;
        Ok(())
    }

    /// Sets for how long batches occupy the device from now on.
    pub fn set_target_batch(&mut self, target_batch: Duration) {
        self.options.target_batch = target_batch;
        self.sizer = batch_sizer(&self.options);
    }

    /// Sets what the batches launched from now on search.
    ///
    /// Batches under way are for the work before; together they last the target time, and their reports
    /// name their own work.
    pub fn set_work(&mut self, work: GpuWork) {
        self.work = Some(work);
        self.next_nonce = work.start_nonce;
        self.nonces_left = work.nonces;
    }

    /// Ends the search: no further batch is batch, and those under way are not reported.
    ///
    /// # Errors
    /// When the device is lost or hangs.
    pub fn stop(&mut self) -> Result<(), GpuError> {
        self.work = None;
        while let Some(batch) = self.in_flight.pop_front() {
            self.finish(batch)?;
        }
        Ok(())
    }

    /// Hashes per second of a search without hits, measured for `time` and over one batch at least, once
    /// `warm_up` is over. The search goes on.
    ///
    /// # Errors
    /// As for [`next_batch`](Self::next_batch).
    pub fn hashrate(&mut self, warm_up: Duration, time: Duration) -> Result<f64, GpuError> {
        // No hash is at or below zero, so every batch is searched to its end.
        self.set_work(GpuWork {
            id: 0,
            header_hash: B256::ZERO,
            boundary: B256::ZERO,
            start_nonce: 0,
            nonces: u64::MAX,
        });
        let start = Instant::now();
        while start.elapsed() < warm_up {
            self.next_batch()?;
        }
        let (start, mut hashes) = (Instant::now(), 0);
        while hashes == 0 || start.elapsed() < time {
            hashes += u64::from(self.next_batch()?.count);
        }
        Ok(hashes as f64 / start.elapsed().as_secs_f64())
    }

    /// Waits for the oldest batch under way and keeps the device busy with further ones.
    ///
    /// # Errors
    /// [`GpuError::NoWork`] before [`set_work`](Self::set_work) and after the last of the work's nonces,
    /// [`GpuError::NoDataset`] before
    /// [`set_epoch`](Self::set_epoch), and what the device does.
    pub fn next_batch(&mut self) -> Result<BatchReport, GpuError> {
        self.fill()?;
        let batch = self.in_flight.pop_front().ok_or(GpuError::NoWork)?;
        let exact = !self.gpu.is_finished(&batch.submission)?;
        let report = self.finish(batch)?;
        self.sizer.record(report.count, report.elapsed, exact);
        // The device is busy again before the caller looks at the hits.
        self.fill()?;
        if let Some(next) = &mut self.next {
            next.advance(&self.gpu, &self.options)?;
        }
        Ok(report)
    }

    /// Searches exactly `count` nonces from `work.start_nonce` on and returns all hits.
    ///
    /// For tests, benchmarks and checks: unlike [`next_batch`](Self::next_batch) it leaves the device idle
    /// between batches, and repeats those that had more hits than slots. Ends the search under way.
    ///
    /// # Errors
    /// As [`next_batch`](Self::next_batch).
    pub fn search(&mut self, work: GpuWork, count: u64) -> Result<Vec<GpuHit>, GpuError> {
        self.stop()?;
        let mut hits = Vec::new();
        let mut done = 0;
        while done < count {
            let left = u32::try_from(count - done).unwrap_or(u32::MAX);
            let report = self.whole_batch(
                work,
                work.start_nonce.wrapping_add(done),
                left.min(self.sizer.size()),
            )?;
            self.sizer.record(report.count, report.elapsed, true);
            done += u64::from(report.count);
            hits.extend(report.hits);
        }
        Ok(hits)
    }

    /// One batch of at most `count` nonces, shortened until its hits fit the slots.
    fn whole_batch(&mut self, work: GpuWork, first: u64, mut count: u32) -> Result<BatchReport, GpuError> {
        loop {
            let batch = self.launch(work, first, count)?;
            let report = self.finish(batch)?;
            if report.found as usize <= report.hits.len() {
                return Ok(report);
            }
            // No more hits than nonces, so this ends at the latest when there is a slot for each.
            count = (count / 2).max(1);
        }
    }

    /// Compares the hashes of `sample` with what the device finds. Ends the search under way.
    ///
    /// # Errors
    /// When a hash is wrong, and errors of the device.
    pub(crate) fn check_hashes(&mut self, sample: &CheckSample) -> Result<(), GpuError> {
        self.stop()?;
        let loaded = self.loaded.as_ref().ok_or(GpuError::NoDataset)?;
        check::hashes(&self.gpu, loaded, sample)
    }

    /// Copies dataset items to the host, as the 32 words of each.
    ///
    /// # Errors
    /// When there is no dataset, or it has no such items.
    pub fn read_items(&self, first: u32, count: u32) -> Result<Vec<[u32; ITEM_WORDS]>, GpuError> {
        let loaded = self.loaded.as_ref().ok_or(GpuError::NoDataset)?;
        loaded.read_items(&self.gpu, first, count)
    }

    /// Generates part of the dataset of `cache` beside the one on the device, and returns it.
    ///
    /// The kernel is the one of [`set_epoch`](Self::set_epoch); only the window is smaller.
    ///
    /// # Errors
    /// When the dataset has no such items, and what the device does.
    pub fn generate_items(
        &self,
        cache: &LightCache,
        first: u32,
        count: u32,
    ) -> Result<Vec<[u32; ITEM_WORDS]>, GpuError> {
        check_range(first, count, cache.dataset_items())?;
        if count == 0 {
            return Ok(Vec::new());
        }
        let window = allocate(&self.gpu, &self.options, "window of the dataset", count)?;
        let mut generation =
            DatasetGeneration::begin(&self.gpu, &self.options, cache, window, first, self.slice_nodes)?;
        generation.finish(&self.gpu, &mut |_| ControlFlow::Continue(()))?;
        let window = generation.into_pages();
        Ok(items(&window.read(&self.gpu, 0, count)?))
    }

    /// Makes the device unusable, as a reset of its driver would. For drills.
    pub fn destroy_device(&self) {
        self.gpu.destroy();
    }

    /// Launches batches until as many are under way as the options ask for.
    fn fill(&mut self) -> Result<(), GpuError> {
        let Some(work) = self.work else { return Ok(()) };
        while self.in_flight.len() < self.options.in_flight.max(1) && self.nonces_left > 0 {
            let left = u32::try_from(self.nonces_left).unwrap_or(u32::MAX);
            let count = batch_size(self.sizer.size(), &work.boundary).min(left);
            let batch = self.launch(work, self.next_nonce, count)?;
            self.in_flight.push_back(batch);
            self.next_nonce = self.next_nonce.wrapping_add(count.into());
            self.nonces_left -= u64::from(count);
        }
        Ok(())
    }

    fn launch(&mut self, work: GpuWork, first: u64, count: u32) -> Result<BatchInFlight, GpuError> {
        let loaded = self.loaded.as_mut().ok_or(GpuError::NoDataset)?;
        let buffers = loaded.take_buffers(&self.gpu, &self.options)?;
        buffers.launch(&self.gpu, loaded.kernel(), work, first, count)
    }

    fn finish(&mut self, batch: BatchInFlight) -> Result<BatchReport, GpuError> {
        let (work, first_nonce, count) = (batch.work, batch.first_nonce, batch.count);
        let start = batch.start.max(self.last_end);
        let (results, buffers) = batch.finish(&self.gpu)?;
        if let Some(loaded) = self.loaded.as_mut() {
            loaded.return_buffers(buffers);
        }
        self.last_end = Instant::now();
        Ok(BatchReport {
            work,
            first_nonce,
            count,
            found: results.found,
            hits: results.hits,
            elapsed: self.last_end - start,
        })
    }
}

/// Opens the adapter with what any form of the kernel needs of it.
fn open(adapter: (wgpu::Adapter, AdapterInfo), options: &GpuOptions) -> Result<GpuDevice, GpuError> {
    let (_, info) = &adapter;
    runs_on(info, options.kernel)?;
    let features = if KernelForm::Shuffle.runs_on(info) {
        wgpu::Features::SUBGROUP
    } else {
        wgpu::Features::empty()
    };
    let gpu = GpuDevice::open(adapter, features, options.timeout)?;
    check_workgroup(options.workgroup_size, &gpu.limits)?;
    Ok(gpu)
}

fn runs_on(info: &AdapterInfo, form: KernelForm) -> Result<(), GpuError> {
    if form.runs_on(info) {
        return Ok(());
    }
    Err(GpuError::AdapterTooSmall {
        what: "subgroup_min_size",
        got: info.subgroup_size.into(),
        needed: KernelForm::LANES_PER_HASH.into(),
    })
}

/// The batches in flight together last the target time, so that new work waits no longer than that.
fn batch_sizer(options: &GpuOptions) -> DispatchSizer {
    let in_flight = u32::try_from(options.in_flight).unwrap_or(u32::MAX).max(1);
    let each = options.target_batch / in_flight;
    DispatchSizer::new(each, options.workgroup_size, FIRST_BATCH, BATCH_MAX)
}

/// The steered size, less where the boundary makes a few hits likely long before.
fn batch_size(steered: u32, boundary: &B256) -> u32 {
    let hashes_per_solution = u64::MAX / boundary_top(boundary).saturating_add(1);
    let useful = hashes_per_solution
        .saturating_mul(SOLUTIONS_PER_BATCH)
        .max(EASY_BATCH_MIN);
    u32::try_from(useful).unwrap_or(u32::MAX).min(steered)
}

#[cfg(test)]
impl GpuSearcher {
    /// Uses the kernel with `from` replaced by `to` in its text, like the output of a bad compiler.
    pub(crate) fn spoil_kernel(&mut self, from: &str, to: &str) {
        let loaded = self.loaded.as_mut().expect("a dataset is loaded");
        loaded.spoil_kernel(&self.gpu, &self.options, from, to);
    }

    /// Makes the dataset of the epoch to come a refused one, as an error on the way would.
    pub(crate) fn refuse_next(&mut self) {
        let next = self.next.take().expect("the next dataset has begun");
        self.next = Some(NextDataset::refused(&next.cache));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn easy_work_gets_small_batches_and_hard_work_full_ones() {
        let boundary = |difficulty: u64| ethash::boundary(&ethash::U256::from(difficulty));
        assert_eq!(batch_size(50_000_000, &boundary(512)), 4096);
        assert_eq!(batch_size(50_000_000, &boundary(131_072)) / 1000, 524);
        assert_eq!(batch_size(50_000_000, &boundary(1 << 40)), 50_000_000);
        assert_eq!(batch_size(1024, &boundary(1)), 1024);
        assert_eq!(batch_size(1024, &B256::ZERO), 1024);
    }
}
