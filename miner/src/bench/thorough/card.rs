//! Measures a card, one step of the plan at a time. Results are compared with the CPU before a rate
//! is measured.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::gpu::{
    AdapterInfo, CheckSample, GenerationForm, GpuError, GpuOptions, GpuSearcher, GpuWork, KernelForm,
    choose_kernel,
};
use engine::sensors::Sensors;
use ethash::{B256, DATASET_PARENTS, LightCache};
use serde_json::json;

use super::clock::BenchClock;
use super::figure::{FigureError, FigureResult, merged};
use super::hits::HitSample;
use super::plan::{CardFigure, FIRST_WORKGROUP, KernelPick};
use super::scale::BenchScale;
use super::sensor_log::SensorLog;
use crate::bench::BYTES_PER_HASH;

/// The time for which a card searches before its rate is measured. Its batches grow during that
/// time.
const WARM_UP: Duration = Duration::from_millis(500);
/// The time after which a dispatch counts as hung on a software adapter, which compiles kernels in
/// their first dispatch.
const SOFTWARE_TIMEOUT: Duration = Duration::from_secs(300);
/// Dataset items that are compared with the CPU.
const ITEMS_COMPARED: u32 = 1000;
/// Items that are compared side by side.
const ITEMS_TOGETHER: u32 = 8;
/// Rows of a page in the small datasets of [`CardFigure::SmallChecks`].
const SMALL_PAGE_ITEMS: u32 = 512;
/// Slices of the light cache in [`CardFigure::SmallChecks`].
const SMALL_SLICES: u32 = 3;
/// Switches to new work whose latency is averaged.
const SWITCHES: u64 = 8;

/// A dataset on a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DatasetId {
    pub(super) epoch: u32,
    pub(super) large_pages: bool,
}

/// Earlier figures of the same dataset.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct KnownFigures {
    /// Bytes per second of random reads of items, and of light cache rows.
    pub(super) random_read: Option<f64>,
    pub(super) cache_read: Option<f64>,
    /// The fastest kernel in workgroups of the first size.
    pub(super) best: Option<KernelForm>,
    /// The fastest kernel with its workgroup size.
    pub(super) best_of_all: Option<(KernelForm, u32)>,
}

/// A card that is measured.
pub(super) struct CardBench<'a> {
    info: AdapterInfo,
    scale: BenchScale,
    time: Duration,
    threads: usize,
    clock: &'a BenchClock,
    sensors: &'a Arc<Sensors>,
    searcher: Option<GpuSearcher>,
    loaded: Option<DatasetId>,
    caches: BTreeMap<u32, Arc<LightCache>>,
    samples: BTreeMap<u32, HitSample>,
}

impl<'a> CardBench<'a> {
    pub(super) const fn new(
        info: AdapterInfo,
        scale: BenchScale,
        time: Duration,
        threads: usize,
        clock: &'a BenchClock,
        sensors: &'a Arc<Sensors>,
    ) -> Self {
        Self {
            info,
            scale,
            time,
            threads,
            clock,
            sensors,
            searcher: None,
            loaded: None,
            caches: BTreeMap::new(),
            samples: BTreeMap::new(),
        }
    }

    /// Takes one figure. After a failure of the device it is opened again for the next figure.
    pub(super) fn take(&mut self, id: DatasetId, figure: CardFigure, known: &KnownFigures) -> FigureResult {
        let taken = match figure {
            CardFigure::SmallChecks { pages } => self.small_checks(pages),
            CardFigure::Dataset { form } => self.dataset(id, form, known),
            CardFigure::Ceilings => self.ceilings(id),
            CardFigure::Hashrate {
                kernel,
                workgroup_size,
            } => self.hashrate(id, kernel, workgroup_size, known),
            CardFigure::Batch { milliseconds } => self.batch(id, milliseconds, known),
            CardFigure::Choice => self.choice(id, known),
        };
        if let Err(FigureError::Gpu(error)) = &taken
            && error.needs_rebuild()
        {
            self.searcher = None;
            self.loaded = None;
        }
        taken
    }

    /// Frees the memory of the card.
    pub(super) fn close(&mut self) {
        self.searcher = None;
        self.loaded = None;
    }

    /// Compares all kernels with the CPU, on a dataset of `pages` pages of which the last is short.
    fn small_checks(&mut self, pages: u32) -> FigureResult {
        self.close();
        let items = SMALL_PAGE_ITEMS * pages - 7;
        let cache = LightCache::with_sizes(ethash::seed_hash(pages), 64 << 10, u64::from(items) * 128)
            .map_err(FigureError::other)?;
        let cache = Arc::new(cache);
        let expected: Vec<_> = (0..items).map(|item| cache.dataset_item(item)).collect();
        let sample = HitSample::new(&cache, self.threads, self.scale.nonces_compared());
        let whole = CheckSample::new(&cache, FIRST_WORKGROUP);
        let options = GpuOptions {
            max_page_items: Some(SMALL_PAGE_ITEMS),
            ..self.options()
        };
        let mut searcher = GpuSearcher::find(&self.info, options)?;
        let sliced = GenerationForm::Sliced { slices: SMALL_SLICES };
        for generation in [Some(sliced), Some(GenerationForm::Lane), None] {
            searcher.change_options(|options| options.generation = generation);
            searcher.set_epoch(&cache, &mut |_| ControlFlow::Continue(()))?;
            let got = searcher.read_items(0, items)?;
            let differing = (0..)
                .zip(got.iter().zip(&expected))
                .find(|(_, (got, expected))| got != expected);
            if let Some((item, _)) = differing {
                return Err(FigureError::Wrong(format!(
                    "item {item} of {items}, generated as {}, differs from the CPU's",
                    self.generation_name(generation)
                )));
            }
        }
        let (mut right, mut absent, mut wrong) = (Vec::new(), Vec::new(), Vec::new());
        for kernel in KernelForm::ALL {
            self.clock.check()?;
            if !kernel.runs_on(&self.info) {
                absent.push(kernel.to_string());
                continue;
            }
            searcher.set_kernel(kernel, FIRST_WORKGROUP)?;
            let compared = (searcher.check_hashes(&whole).map_err(FigureError::from))
                .and_then(|()| sample.check(&mut searcher));
            match compared {
                Ok(()) => right.push(kernel.to_string()),
                Err(FigureError::Gpu(error)) if error.needs_rebuild() => return Err(error.into()),
                Err(error) => wrong.push(format!("{kernel}: {error}")),
            }
        }
        if let Some(first) = wrong.first() {
            return Err(FigureError::Wrong(first.clone()));
        }
        Ok(json!({
            "value": right.len(),
            "unit": "kernels",
            "items_compared": items,
            "nonces_compared": sample.nonces(),
            "hits_compared": sample.hits(),
            "kernels": right,
            "absent": absent,
        }))
    }

    /// Generates the dataset and compares items.
    fn dataset(&mut self, id: DatasetId, form: Option<GenerationForm>, known: &KnownFigures) -> FigureResult {
        let log = self.sensor_log();
        let seconds = self.load(id, form)?;
        let sensors = log.end();
        let compared = self.compare_items(id)?;
        let generation = self.generation_name(form);
        let searcher = self.searcher()?;
        let bytes = searcher.cache().map_or(0, |cache| cache.dataset_bytes()) as f64;
        let gib = bytes / f64::from(1 << 30);
        let predicted = known
            .cache_read
            .map(|rate| bytes * f64::from(DATASET_PARENTS) / rate);
        Ok(merged(
            json!({
                "value": seconds,
                "unit": "s",
                "generation": generation,
                "pages": searcher.dataset_pages(),
                "dataset_bytes": bytes,
                "seconds_per_gib": seconds / gib,
                "predicted": predicted,
                "items_compared": compared,
            }),
            sensors,
        ))
    }

    fn ceilings(&mut self, id: DatasetId) -> FigureResult {
        self.ensure_loaded(id)?;
        let log = self.sensor_log();
        let time = self.time.min(Duration::from_secs(2));
        let ceilings = self.searcher()?.measure_ceilings(time)?;
        Ok(merged(
            json!({
                "value": ceilings.random_read_bytes_per_second,
                "unit": "B/s",
                // A random item is a whole line of the memory, so it should come as fast as a copy.
                "predicted": ceilings.copy_bytes_per_second,
                "copy_bytes_per_second": ceilings.copy_bytes_per_second,
                "spread_read_bytes_per_second": ceilings.spread_read_bytes_per_second,
                "cache_read_bytes_per_second": ceilings.cache_read_bytes_per_second,
                "pages": self.searcher()?.dataset_pages(),
            }),
            log.end(),
        ))
    }

    fn hashrate(&mut self, id: DatasetId, pick: KernelPick, size: u32, known: &KnownFigures) -> FigureResult {
        self.ensure_loaded(id)?;
        let pages = self.searcher()?.dataset_pages();
        let kernel = picked(pick, known)?;
        let start = Instant::now();
        self.searcher()?.set_kernel(kernel, size)?;
        let compiled = start.elapsed();
        let hits = self.compare_hits(id)?;
        let rate = self.measured_rate(known)?;
        Ok(merged(
            json!({
                "kernel": kernel.to_string(),
                "workgroup_size": size,
                "pages": pages,
                "compile_seconds": compiled.as_secs_f64(),
                "hits_compared": hits,
            }),
            rate,
        ))
    }

    /// Measures the rate of the best kernel, and how long new work waits for its first results.
    fn batch(&mut self, id: DatasetId, milliseconds: u32, known: &KnownFigures) -> FigureResult {
        self.ensure_loaded(id)?;
        let (kernel, size) = known.best_of_all.ok_or(FigureError::NothingToCompare)?;
        let searcher = self.searcher()?;
        searcher.set_kernel(kernel, size)?;
        searcher.set_target_batch(Duration::from_millis(milliseconds.into()));
        let rate = self.measured_rate(known)?;
        let searcher = self.searcher()?;
        let mut latencies = Duration::ZERO;
        for number in 1..=SWITCHES {
            // No hash meets this boundary, so every batch has its full size.
            searcher.set_work(GpuWork {
                id: number,
                header_hash: B256::repeat_byte(number as u8),
                boundary: B256::ZERO,
                start_nonce: 0,
                nonces: u64::MAX,
            });
            let start = Instant::now();
            while searcher.next_batch()?.work.id != number {}
            latencies += start.elapsed();
        }
        searcher.stop()?;
        searcher.set_target_batch(GpuOptions::default().target_batch);
        Ok(merged(
            json!({
                "kernel": kernel.to_string(),
                "workgroup_size": size,
                "target_batch_ms": milliseconds,
                "latency_ms": latencies.as_secs_f64() * 1e3 / SWITCHES as f64,
            }),
            rate,
        ))
    }

    /// Measures what the choice at start-up takes, and for how long it chooses.
    fn choice(&mut self, id: DatasetId, known: &KnownFigures) -> FigureResult {
        self.ensure_loaded(id)?;
        let clock = self.clock;
        let start = Instant::now();
        let chosen = choose_kernel(self.searcher()?, None, &|| !clock.is_over())?;
        let seconds = start.elapsed().as_secs_f64();
        let rate = self.measured_rate(known)?;
        self.searcher()?
            .set_target_batch(GpuOptions::default().target_batch);
        Ok(merged(
            json!({
                "kernel": chosen.kernel.to_string(),
                "workgroup_size": chosen.workgroup_size,
                "target_batch_ms": chosen.target_batch.map(|batch| batch.as_secs_f64() * 1e3),
                "choice_seconds": seconds,
            }),
            rate,
        ))
    }

    fn generation_name(&self, form: Option<GenerationForm>) -> String {
        form.unwrap_or_else(|| GenerationForm::usual_on(&self.info))
            .to_string()
    }

    /// Measures the rate of the kernel in use, beside what the memory lets expect.
    fn measured_rate(&mut self, known: &KnownFigures) -> FigureResult {
        self.clock.check()?;
        let (warm_up, time) = (WARM_UP.min(self.time / 2), self.time);
        let log = self.sensor_log();
        let searcher = self.searcher()?;
        let rate = searcher.measure_hashrate(warm_up, time)?;
        let sensors = log.end();
        searcher.stop()?;
        let power = sensors["power_w"].as_f64().filter(|power| *power > 0.0);
        Ok(merged(
            json!({
                "value": rate,
                "unit": "H/s",
                "predicted": known.random_read.map(|bytes| bytes / BYTES_PER_HASH),
                "share_of_ceiling": known.random_read.map(|bytes| rate * BYTES_PER_HASH / bytes),
                "hashes_per_joule": power.map(|power| rate / power),
            }),
            sensors,
        ))
    }

    fn ensure_loaded(&mut self, id: DatasetId) -> Result<(), FigureError> {
        if self.loaded != Some(id) {
            self.load(id, None)?;
        }
        Ok(())
    }

    /// Generates the dataset. Returns how many seconds the card needed.
    fn load(&mut self, id: DatasetId, form: Option<GenerationForm>) -> Result<f64, FigureError> {
        let cache = self.cache(id.epoch)?;
        let scale = self.scale;
        let clock = self.clock;
        self.loaded = None;
        let searcher = self.searcher()?;
        searcher.change_options(|options| {
            options.large_pages = id.large_pages;
            options.generation = form;
            options.max_page_items = scale.max_page_items(id.epoch);
        });
        let start = Instant::now();
        let mut generated = start;
        let loaded = searcher.set_epoch(&cache, &mut |_| {
            generated = Instant::now();
            if clock.is_over() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        match loaded {
            Err(GpuError::Cancelled { .. }) => Err(FigureError::Stopped),
            Err(error) => Err(error.into()),
            Ok(()) => {
                self.loaded = Some(id);
                Ok((generated - start).as_secs_f64())
            }
        }
    }

    /// Compares items of all pages with the CPU. Returns their number.
    fn compare_items(&mut self, id: DatasetId) -> Result<u32, FigureError> {
        let cache = self.cache(id.epoch)?;
        let items = cache.dataset_items();
        let runs = ITEMS_COMPARED / ITEMS_TOGETHER;
        let last = items.saturating_sub(ITEMS_TOGETHER);
        let searcher = self.searcher()?;
        for run in 0..runs {
            // The first and the last run are the two ends of the dataset.
            let first = (u64::from(last) * u64::from(run) / u64::from(runs - 1).max(1)) as u32;
            let count = ITEMS_TOGETHER.min(items);
            let got = searcher.read_items(first, count)?;
            for (item, got) in (first..).zip(got) {
                if got != cache.dataset_item(item) {
                    return Err(FigureError::Wrong(format!("item {item} differs from the CPU's")));
                }
            }
        }
        Ok(runs * ITEMS_TOGETHER.min(items))
    }

    /// Compares the hits of the kernel in use with the CPU. Returns their number.
    fn compare_hits(&mut self, id: DatasetId) -> Result<usize, FigureError> {
        self.clock.check()?;
        let cache = self.cache(id.epoch)?;
        let (threads, nonces) = (self.threads, self.scale.nonces_compared());
        let sample = self
            .samples
            .entry(id.epoch)
            .or_insert_with(|| HitSample::new(&cache, threads, nonces));
        let searcher = self
            .searcher
            .as_mut()
            .ok_or(FigureError::Gpu(GpuError::NoDataset))?;
        sample.check(searcher)?;
        Ok(sample.hits())
    }

    /// The light cache of an epoch.
    pub(super) fn cache(&mut self, epoch: u32) -> Result<Arc<LightCache>, FigureError> {
        if let Some(cache) = self.caches.get(&epoch) {
            return Ok(Arc::clone(cache));
        }
        let cache = Arc::new(self.scale.light_cache(epoch).map_err(FigureError::other)?);
        self.caches.insert(epoch, Arc::clone(&cache));
        Ok(cache)
    }

    fn searcher(&mut self) -> Result<&mut GpuSearcher, FigureError> {
        if self.searcher.is_none() {
            self.searcher = Some(GpuSearcher::find(&self.info, self.options())?);
        }
        self.searcher
            .as_mut()
            .ok_or(FigureError::Gpu(GpuError::NoDataset))
    }

    fn options(&self) -> GpuOptions {
        let usual = GpuOptions::default();
        GpuOptions {
            timeout: if self.info.software {
                SOFTWARE_TIMEOUT
            } else {
                usual.timeout
            },
            ..usual
        }
    }

    fn sensor_log(&self) -> SensorLog {
        SensorLog::of_card(self.sensors, &self.info)
    }
}

/// Returns the kernel that `pick` means.
fn picked(pick: KernelPick, known: &KnownFigures) -> Result<KernelForm, FigureError> {
    match pick {
        KernelPick::This(kernel) => Ok(kernel),
        KernelPick::Best => known.best.ok_or(FigureError::NothingToCompare),
    }
}
