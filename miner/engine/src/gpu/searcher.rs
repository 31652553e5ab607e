//! Searches nonces on one adapter: keeps a dataset on the device and batches of nonces in flight.
//!
//! Takes work and returns hits. The caller must check each hit on the CPU. Knows no chain, no
//! network and no other searcher.

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

/// Nonces in the first batch, when the speed of the device is unknown.
const FIRST_BATCH: u32 = 1024;
/// Largest number of nonces in a batch.
const BATCH_MAX: u32 = 1 << 30;
/// Largest size of a batch, in units of the hashes that one solution takes on average. Further hits
/// of the same work would be useless.
const SOLUTIONS_PER_BATCH: u64 = 4;
/// Size of a batch for easy work, if the limit above would make it smaller.
const EASY_BATCH_MIN: u64 = 4096;

/// The report of a finished batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchReport {
    /// The work of the batch. It may be older than the current work.
    pub work: GpuWork,
    /// The first nonce.
    pub first_nonce: u64,
    /// The number of nonces. All of them were hashed.
    pub count: u32,
    /// The number of hits, including hits without a free slot.
    pub found: u32,
    /// The hits that had a free slot, in the order of their nonces.
    pub hits: Vec<GpuHit>,
    /// The time from the end of the previous batch, or from the launch of this one, to its end.
    pub elapsed: Duration,
}

/// A nonce searcher on one adapter.
pub struct GpuSearcher {
    /// Declared before `loaded` and `gpu`, so that batches are dropped before the buffers they use.
    in_flight: VecDeque<BatchInFlight>,
    pub(crate) loaded: Option<LoadedEpoch>,
    next: Option<NextDataset>,
    pub(crate) gpu: GpuDevice,
    pub(crate) options: GpuOptions,
    work: Option<GpuWork>,
    next_nonce: u64,
    /// Number of nonces of the work that no batch has taken.
    nonces_left: u64,
    sizer: DispatchSizer,
    /// Number of nodes in a slice of a dataset generation, once known.
    slice_nodes: Option<u32>,
    last_end: Instant,
    /// The time that the check of the dataset took.
    check_time: Duration,
    /// Makes each new dataset bad after its check, like memory that goes bad later.
    #[cfg(test)]
    pub(crate) flips_a_bit_after_loading: bool,
}

impl GpuSearcher {
    /// Opens adapter `index` of [`list_adapters`](super::list_adapters).
    ///
    /// # Errors
    /// If there is no such adapter, it cannot run the requested kernel, or its driver refuses it.
    pub fn new(index: usize, options: GpuOptions) -> Result<Self, GpuError> {
        Self::on(adapter::adapter(index)?, options)
    }

    /// Opens an adapter that was listed before. Its index may have changed, because a card before
    /// it in the list may be gone.
    ///
    /// # Errors
    /// [`GpuError::AdapterAbsent`] if the adapter is no longer there, and the errors of
    /// [`new`](Self::new).
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
            check_time: Duration::ZERO,
            #[cfg(test)]
            flips_a_bit_after_loading: false,
        })
    }

    /// The properties of the adapter.
    pub const fn adapter(&self) -> &AdapterInfo {
        &self.gpu.info
    }

    /// The light cache whose dataset is on the device.
    pub fn cache(&self) -> Option<&Arc<LightCache>> {
        self.loaded.as_ref().map(|loaded| &loaded.cache)
    }

    /// The number of buffers of the dataset on the device, or 0 without a dataset.
    pub fn dataset_pages(&self) -> u32 {
        self.loaded
            .as_ref()
            .map_or(0, |loaded| loaded.dataset.layout.pages)
    }

    /// The current settings.
    pub const fn options(&self) -> &GpuOptions {
        &self.options
    }

    /// Changes settings of the next dataset and of later batches.
    pub fn change_options(&mut self, change: impl FnOnce(&mut GpuOptions)) {
        change(&mut self.options);
    }

    /// The time that the comparison with the CPU took when the dataset was loaded.
    pub(crate) const fn check_time(&self) -> Duration {
        self.check_time
    }

    /// Hashes per second, as last measured between batches.
    pub const fn last_hashrate(&self) -> Option<f64> {
        self.sizer.rate()
    }

    /// Loads the dataset of `cache`: generates it on the device, and compares samples of it with
    /// the CPU.
    ///
    /// Uses the part that [`prepare_next`](Self::prepare_next) has already generated. The previous
    /// dataset is freed first, because there is rarely memory for two. The work and the results of
    /// batches in flight are dropped. `progress` is called after each slice of about 50 ms. A break
    /// from it cancels the generation.
    ///
    /// # Errors
    /// [`GpuError::Cancelled`], and errors of the device. After any error there is no dataset on
    /// the device.
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
        // The device returns freed memory only when it is polled.
        let freed = self.gpu.submit("release of the previous dataset", |_| {})?;
        self.gpu.wait("release of the previous dataset", &freed)?;

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
        let start = Instant::now();
        check::items_and_hashes(&self.gpu, &loaded, self.options.workgroup_size)?;
        self.check_time = start.elapsed();
        self.loaded = Some(loaded);
        #[cfg(test)]
        if self.flips_a_bit_after_loading {
            self.flip_bit(3, 3, 3);
        }
        Ok(())
    }

    /// Begins the dataset of the next epoch. [`next_batch`](Self::next_batch) continues it between
    /// batches.
    ///
    /// Does nothing if this dataset was already begun or refused.
    ///
    /// # Errors
    /// If there is too little memory. Then this dataset is not tried again.
    pub fn prepare_next(&mut self, cache: &Arc<LightCache>) -> Result<(), GpuError> {
        if self.next.as_ref().is_some_and(|next| next.is_of(cache)) {
            return Ok(());
        }
        // An older one is freed first, because there is no memory for three datasets.
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

    /// Returns the progress of the dataset of the next epoch. Returns `None` if there is no such
    /// dataset.
    pub fn next_progress(&self) -> Option<GenerationProgress> {
        self.next.as_ref().and_then(NextDataset::progress)
    }

    /// Changes the search kernel for the dataset on the device. Ends the search under way.
    ///
    /// # Errors
    /// If the adapter cannot run the kernel. Then the old kernel is kept.
    pub fn set_kernel(&mut self, kernel: KernelForm, workgroup_size: u32) -> Result<(), GpuError> {
        self.stop()?;
        let options = GpuOptions {
            workgroup_size,
            kernel,
            ..self.options.clone()
        };
        runs_on(&self.gpu.info, kernel)?;
        check_workgroup(workgroup_size, &self.gpu.limits)?;
        if let Some(loaded) = &mut self.loaded {
            loaded.set_kernel(&self.gpu, &options)?;
        }
        // A finished dataset of the next epoch was compiled with the old kernel.
        self.next = None;
        self.sizer = batch_sizer(&options);
        self.options = options;
        Ok(())
    }

    /// Sets how long the batches in flight keep the device busy.
    pub fn set_target_batch(&mut self, target_batch: Duration) {
        self.options.target_batch = target_batch;
        self.sizer = batch_sizer(&self.options);
    }

    /// Sets the work of all batches launched from now on.
    ///
    /// Batches in flight still belong to the old work. All of them together last about the target
    /// time, and each report names its own work.
    pub const fn set_work(&mut self, work: GpuWork) {
        self.work = Some(work);
        self.next_nonce = work.start_nonce;
        self.nonces_left = work.nonces;
    }

    /// Ends the search. Waits for the batches in flight and drops their results.
    ///
    /// # Errors
    /// If the device is lost or hangs.
    pub fn stop(&mut self) -> Result<(), GpuError> {
        self.work = None;
        while let Some(batch) = self.in_flight.pop_front() {
            self.finish(batch)?;
        }
        Ok(())
    }

    /// Measures the hash rate of a search without hits, for `time` and at least one batch, after
    /// `warm_up`. The search continues afterwards.
    ///
    /// # Errors
    /// The errors of [`next_batch`](Self::next_batch).
    pub fn measure_hashrate(&mut self, warm_up: Duration, time: Duration) -> Result<f64, GpuError> {
        // No hash is at or below zero, so no batch has a hit.
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

    /// Waits for the oldest batch in flight and returns its report. Launches further batches, so
    /// that the device stays busy.
    ///
    /// # Errors
    /// [`GpuError::NoWork`] before [`set_work`](Self::set_work) and after the last nonce of the
    /// work, [`GpuError::NoDataset`] before [`set_epoch`](Self::set_epoch), and errors of the
    /// device.
    pub fn next_batch(&mut self) -> Result<BatchReport, GpuError> {
        self.fill()?;
        let batch = self.in_flight.pop_front().ok_or(GpuError::NoWork)?;
        let exact = !self.gpu.is_finished(&batch.submission)?;
        let report = self.finish(batch)?;
        self.sizer.record(report.count, report.elapsed, exact);
        // The device gets new batches before the caller looks at the hits.
        self.fill()?;
        if let Some(next) = &mut self.next {
            next.advance(&self.gpu, &self.options)?;
        }
        Ok(report)
    }

    /// Searches exactly `count` nonces from `work.start_nonce` on and returns all hits. Ends the
    /// search under way.
    ///
    /// For tests, benchmarks and checks. Unlike [`next_batch`](Self::next_batch), it leaves
    /// the device idle between batches, and it repeats a batch that had more hits than slots.
    ///
    /// # Errors
    /// The errors of [`next_batch`](Self::next_batch).
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

    /// Runs one batch of at most `count` nonces. Makes it smaller until all its hits have a slot.
    fn whole_batch(&mut self, work: GpuWork, first: u64, mut count: u32) -> Result<BatchReport, GpuError> {
        loop {
            let batch = self.launch(work, first, count)?;
            let report = self.finish(batch)?;
            if report.found as usize <= report.hits.len() {
                return Ok(report);
            }
            // A batch has no more hits than nonces, so this ends when the batch has one nonce or
            // earlier.
            count = (count / 2).max(1);
        }
    }

    /// Compares samples of the dataset and of the hashes with the CPU. The search under way
    /// continues: the batches in flight stay in flight.
    ///
    /// # Errors
    /// If something is wrong ([`GpuError::is_wrong_data`]), and errors of the device.
    pub(crate) fn self_check(&self) -> Result<(), GpuError> {
        let loaded = self.loaded.as_ref().ok_or(GpuError::NoDataset)?;
        check::items_and_hashes(&self.gpu, loaded, self.options.workgroup_size)
    }

    /// Compares the hashes that the device finds with `sample`. Ends the search under way.
    ///
    /// # Errors
    /// If a hash is wrong, and errors of the device.
    pub fn check_hashes(&mut self, sample: &CheckSample) -> Result<(), GpuError> {
        self.stop()?;
        let loaded = self.loaded.as_ref().ok_or(GpuError::NoDataset)?;
        check::hashes(&self.gpu, loaded, sample)
    }

    /// Returns the mix hashes of `seeds`, in the same order, as
    /// [`LightCache::hash`](ethash::LightCache::hash) computes them. Each is Keccak-512 of a header
    /// hash and a nonce ([`ethash::seed512`]).
    ///
    /// # Errors
    /// If there is no dataset, and errors of the device.
    pub fn mix_hashes(&mut self, seeds: &[[u64; 8]]) -> Result<Vec<B256>, GpuError> {
        let loaded = self.loaded.as_mut().ok_or(GpuError::NoDataset)?;
        loaded.mix_hashes(&self.gpu, &self.options, seeds)
    }

    /// Copies dataset items to the host, as the 32 words of each.
    ///
    /// # Errors
    /// If there is no dataset, when it has no such items, and errors of the device.
    pub fn read_items(&self, first: u32, count: u32) -> Result<Vec<[u32; ITEM_WORDS]>, GpuError> {
        let loaded = self.loaded.as_ref().ok_or(GpuError::NoDataset)?;
        loaded.read_items(&self.gpu, first, count)
    }

    /// Generates items of the dataset of `cache` in a separate buffer and returns them. The dataset
    /// on the device is not changed.
    ///
    /// The kernel is the same as in [`set_epoch`](Self::set_epoch).
    ///
    /// # Errors
    /// If the dataset has no such items, and errors of the device.
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

    /// Makes the device unusable, like a reset of its driver. For tests of the recovery.
    pub fn destroy_device(&self) {
        self.gpu.destroy();
    }

    /// Launches batches until the configured number is in flight.
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

/// Opens the adapter with all features that kernels use.
fn open(adapter: (wgpu::Adapter, AdapterInfo), options: &GpuOptions) -> Result<GpuDevice, GpuError> {
    let (_, info) = &adapter;
    runs_on(info, options.kernel)?;
    let features = info.kernel_features();
    let gpu = GpuDevice::open(adapter, features, options.timeout)?;
    check_workgroup(options.workgroup_size, &gpu.limits)?;
    Ok(gpu)
}

fn runs_on(info: &AdapterInfo, kernel: KernelForm) -> Result<(), GpuError> {
    kernel.missing_on(info).map_or(Ok(()), |(what, got, needed)| {
        Err(GpuError::AdapterTooSmall {
            what,
            got: got.into(),
            needed: needed.into(),
        })
    })
}

/// Returns a sizer that makes all batches in flight together last the target time.
fn batch_sizer(options: &GpuOptions) -> DispatchSizer {
    let in_flight = u32::try_from(options.in_flight).unwrap_or(u32::MAX).max(1);
    let each = options.target_batch / in_flight;
    DispatchSizer::new(each, options.workgroup_size, FIRST_BATCH, BATCH_MAX)
}

/// Returns the number of nonces in the next batch: `steered`, or less if the work is so easy that a
/// few hits come long before.
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

    /// Flips one bit of a dataset item on the device, like faulty memory.
    pub(crate) fn flip_bit(&self, item: u32, word: usize, bit: u32) {
        let loaded = self.loaded.as_ref().expect("a dataset is loaded");
        let mut words = self.read_items(item, 1).expect("an item of the dataset")[0];
        words[word] ^= 1 << bit;
        let (page, row) = loaded.dataset.layout.locate(item);
        let offset = u64::from(row) * loaded.dataset.layout.row_bytes;
        let buffer = &loaded.dataset.buffers[page as usize];
        (self.gpu.queue()).write_buffer(buffer, offset, bytemuck::bytes_of(&words));
    }

    /// Makes the dataset of the next epoch a refused one, like an error during its generation.
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
