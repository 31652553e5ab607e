//! Measures what a device does: light cache, dataset, hash rate, and what its memory can deliver at
//! best. A figure that was not measured is absent. No figure is estimated.
//!
//! Needs no work, no node and no file. Formats the figures for people and for programs. The caller
//! decides where they go. Two programs call it: `miner bench`, and `hashes` of the package `bench`,
//! which compares implementations and kernels.

mod gpu;
mod report;
pub mod thorough;

use std::hint::black_box;
use std::ops::ControlFlow;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::MinerError;
use engine::ProgressReporter;
use engine::dataset::Dataset;
use engine::gpu::{GpuOptions, KernelRequest, list_adapters};
use engine::rates;
use engine::{DeviceChoice, DeviceParseError, EpochRefusal, check_bench_memory};
use ethash::{B256, CacheError, Epoch, FullDataset, ITEM_BYTES, LIGHT_IN_FLIGHT, LightCache, SEARCH_GROUP};

use report::BYTES_PER_HASH;
pub use report::{BenchFigures, BenchReport, DeviceKind};

/// Longest measurement of a memory figure. These figures are steady, so a short time is enough.
const CEILING_TIME_MAX: Duration = Duration::from_secs(2);

/// The devices to measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BenchDevices {
    /// The CPU and every adapter, including software adapters.
    All,
    /// The devices that an engine would select.
    Selected(DeviceChoice),
}

impl FromStr for BenchDevices {
    type Err = DeviceParseError;

    fn from_str(text: &str) -> Result<Self, DeviceParseError> {
        if text == "all" {
            Ok(Self::All)
        } else {
            text.parse().map(Self::Selected)
        }
    }
}

/// The settings of a benchmark.
#[derive(Clone, Debug)]
pub struct BenchConfig {
    /// The devices to measure.
    pub devices: BenchDevices,
    /// The epoch of Ethash.
    pub epoch: u32,
    /// Number of items of an artificial dataset. With `None` the dataset is that of the epoch.
    pub items: Option<u64>,
    /// The time for which each hash rate is measured.
    pub time: Duration,
    /// Number of CPU threads. 0 counts as 1.
    pub threads: usize,
    /// Whether the full dataset is left out, and with it the graphics adapters.
    pub light_only: bool,
    /// The search kernel.
    pub kernel: KernelRequest,
    /// The other settings of graphics adapters.
    pub gpu: GpuOptions,
}

impl BenchConfig {
    /// The time for which each memory figure is measured.
    fn ceiling_time(&self) -> Duration {
        (self.time / 2).min(CEILING_TIME_MAX)
    }
}

/// The reasons why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The epoch has no light cache.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// A device does not exist.
    #[error(transparent)]
    Device(#[from] MinerError),
    /// There is too little memory for the epoch.
    #[error("epoch {epoch} cannot be measured here: {reason}")]
    Memory {
        /// The epoch.
        epoch: u32,
        /// The part that is too small.
        reason: EpochRefusal,
    },
}

/// Measures what `config` asks for. If a device fails, its figures contain the reason. `note` gets
/// the report after each step, with the figures so far.
///
/// # Errors
/// If the epoch has no light cache or does not fit into memory, or a requested device does not
/// exist.
pub fn run(config: &BenchConfig, note: &mut dyn FnMut(&BenchReport)) -> Result<BenchReport, BenchError> {
    let (cpu, adapters) = match &config.devices {
        BenchDevices::All => (true, list_adapters()),
        BenchDevices::Selected(choice) => {
            let selection = choice.select_here()?;
            (selection.cpu, selection.adapters)
        }
    };
    if config.items.is_none() && sizes_exist(config.epoch) {
        let (epoch, full) = (config.epoch, !config.light_only);
        check_bench_memory(Epoch::ethash(epoch), &adapters, cpu, full)
            .map_err(|reason| BenchError::Memory { epoch, reason })?;
    }
    let cache = Arc::new(light_cache(config.epoch, config.items)?);
    let mut report = BenchReport {
        epoch: config.epoch,
        cache_bytes: cache.as_bytes().len() as u64,
        dataset_bytes: cache.dataset_bytes(),
        devices: Vec::new(),
    };
    note(&report);
    let devices = cpu.then_some(None).into_iter().chain(adapters.iter().map(Some));
    for device in devices {
        let index = report.devices.len();
        report.devices.push(BenchFigures::default());
        let mut note_figures = |figures: &BenchFigures| {
            report.devices[index].clone_from(figures);
            note(&report);
        };
        let figures = match device {
            None => measure_cpu(config, &cache, &mut note_figures),
            Some(adapter) => gpu::measure(config, &cache, adapter, &mut note_figures),
        };
        note_figures(&figures);
    }
    Ok(report)
}

/// Whether the epoch has sizes. If not, making its light cache gives the error.
fn sizes_exist(epoch: u32) -> bool {
    ethash::dataset_bytes(epoch).is_ok()
}

/// Builds the light cache of an epoch. With `items`, its dataset has this many items.
///
/// # Errors
/// If the epoch has no light cache, or the number of items is not possible.
pub fn light_cache(epoch: u32, items: Option<u64>) -> Result<LightCache, CacheError> {
    let real = Epoch::ethash(epoch);
    match items {
        None => LightCache::build(real),
        Some(items) => {
            let cache_bytes = ethash::cache_bytes(epoch)?;
            LightCache::with_sizes(
                real.seed_hash(),
                cache_bytes,
                items.saturating_mul(ITEM_BYTES as u64),
            )
        }
    }
}

fn measure_cpu(
    config: &BenchConfig,
    cache: &LightCache,
    note: &mut dyn FnMut(&BenchFigures),
) -> BenchFigures {
    let threads = config.threads.max(1);
    let mut figures = BenchFigures {
        device: "cpu".into(),
        name: cpu_name(),
        threads: Some(threads),
        light_cache_seconds: Some(cache.build_time().as_secs_f64()),
        ..BenchFigures::default()
    };
    note(&figures);
    figures.light_hashrate = Some(rates::rate(threads, config.time, |first, end| {
        search_light(cache, first, end)
    }));
    note(&figures);
    if config.light_only {
        return figures;
    }
    let mut progress = ProgressReporter::new(format!("generating the dataset of epoch {}", config.epoch));
    let dataset = Dataset::generate(cache, threads, &mut |done, total| {
        progress.report(done, total);
        ControlFlow::Continue(())
    });
    let seconds = progress.end().as_secs_f64();
    match dataset {
        Ok(dataset) => {
            figures.dataset_seconds = Some(seconds);
            figures.dataset_sum_u64 = Some(ethash::sum_u64(dataset.words()));
            note(&figures);
            let full = dataset.view();
            figures.hashrate = Some(rates::rate(threads, config.time, |first, end| {
                search_full(&full, first, end)
            }));
            note(&figures);
            measure_memory(&mut figures, config, cache, dataset.words());
        }
        Err(error) => figures.error = Some(error.to_string()),
    }
    figures
}

/// Measures what the memory can deliver at best, on the tables that were hashed from.
fn measure_memory(figures: &mut BenchFigures, config: &BenchConfig, cache: &LightCache, dataset: &[u32]) {
    let (threads, time) = (config.threads.max(1), config.ceiling_time());
    figures.random_read_bytes_per_second = rates::item_read_rate(dataset, threads, time);
    // The rows are aligned as words. If they were not, the figure would be absent.
    figures.cache_read_bytes_per_second = bytemuck::try_cast_slice(cache.as_bytes())
        .ok()
        .and_then(|rows| rates::row_read_rate(rows, threads, time));
    figures.copy_bytes_per_second = rates::copy_rate(threads, time);
}

/// Hashes nonces from the light cache, group by group, from `first` on until `end`. Returns their
/// number.
fn search_light(cache: &LightCache, first: u64, end: Instant) -> u64 {
    let mut hashes = 0;
    while Instant::now() < end {
        let nonces: [u64; LIGHT_IN_FLIGHT] = core::array::from_fn(|i| first + hashes + i as u64);
        black_box(cache.hash_many(&B256::ZERO, nonces));
        hashes += LIGHT_IN_FLIGHT as u64;
    }
    hashes
}

/// Hashes nonces from the full dataset in one stream, from `first` on until `end`. Returns their
/// number.
pub fn search_full(dataset: &FullDataset<'_>, first: u64, end: Instant) -> u64 {
    let (mut begun, mut hashes) = (0, 0);
    dataset.search(
        &B256::ZERO,
        || {
            let nonces = core::array::from_fn(|i| first + begun + i as u64);
            begun += SEARCH_GROUP as u64;
            (Instant::now() < end).then_some(nonces)
        },
        |_, done| {
            hashes += done.len() as u64;
            black_box(done);
        },
    );
    hashes
}

/// Returns the name of the processor, or its architecture if the system does not tell the name.
fn cpu_name() -> String {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"));
    let name = line
        .and_then(|line| line.split_once(':'))
        .map(|(_, name)| name.trim().to_owned());
    name.unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn figures_that_are_not_measured_are_null() {
        let config = BenchConfig {
            devices: BenchDevices::Selected(DeviceChoice::Cpu),
            epoch: 0,
            items: None,
            time: Duration::from_millis(50),
            threads: 2,
            light_only: true,
            kernel: KernelRequest::default(),
            gpu: GpuOptions::default(),
        };
        let report = run(&config, &mut |_| {}).expect("the CPU is always there");
        let json = report.to_json();
        let device = &json[0];
        assert_eq!(device["cache_bytes"], 16_776_896);
        assert!(
            device["light_hashrate"].as_f64().is_some_and(|rate| rate > 1.0),
            "{json}"
        );
        assert!(
            device["light_cache_seconds"]
                .as_f64()
                .is_some_and(|seconds| seconds > 0.0),
            "{json}"
        );
        for absent in [
            "dataset_seconds",
            "hashrate",
            "share_of_ceiling",
            "dataset_sum_u64",
            "error",
        ] {
            assert!(
                device.get(absent).is_some_and(Value::is_null),
                "{absent} of {json}"
            );
        }
        let text = report.to_string();
        assert!(text.contains("cpu (") && !text.contains("full dataset"), "{text}");
    }

    #[test]
    fn absent_devices_and_epochs_are_errors() {
        let config = |devices: &str, epoch| BenchConfig {
            devices: devices.parse().expect("a device"),
            epoch,
            items: None,
            time: Duration::ZERO,
            threads: 1,
            light_only: true,
            kernel: KernelRequest::default(),
            gpu: GpuOptions::default(),
        };
        assert!(matches!(
            run(&config("cpu", u32::MAX), &mut |_| {}),
            Err(BenchError::Cache(_))
        ));
        let far = run(&config("gpu:4000000", 0), &mut |_| {});
        assert!(matches!(
            far,
            Err(BenchError::Device(MinerError::NoAdapter {
                wanted: Some(4_000_000),
                ..
            }))
        ));
        // The light cache alone would take minutes.
        let huge = BenchConfig {
            light_only: false,
            ..config("cpu", 9_999)
        };
        let huge = run(&huge, &mut |_| panic!("nothing is measured"));
        assert!(
            matches!(huge, Err(BenchError::Memory { epoch: 9_999, .. })),
            "{huge:?}"
        );
        assert!("cuda".parse::<BenchDevices>().is_err());
        assert_eq!("all".parse(), Ok(BenchDevices::All));
    }
}
