//! Measures what a device does: light cache, dataset, hash rate. What was not measured is absent, never
//! estimated.
//!
//! Needs no work, no node and no file. Formats figures for people and for programs; where they go is the
//! caller's business.

use core::fmt;
use std::hint::black_box;
use std::ops::ControlFlow;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ethash::{B256, Epoch, FullDataset, LightCache};
use serde_json::{Value, json};

use crate::cpu::{FULL_WIDTH, LIGHT_WIDTH};
use crate::dataset::Dataset;
use crate::gpu::{AdapterInfo, GpuError, GpuOptions, GpuSearcher, GpuWork, list_adapters};
use crate::progress::Progress;
use crate::{DeviceChoice, DeviceParseError, MinerError};

/// A device searches this long before its rate is measured: batches are still growing.
const GPU_WARM_UP: Duration = Duration::from_secs(1);

/// Which devices to measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BenchDevices {
    /// The CPU and every adapter, software ones too.
    All,
    /// What an engine would take.
    Chosen(DeviceChoice),
}

impl FromStr for BenchDevices {
    type Err = DeviceParseError;

    fn from_str(text: &str) -> Result<Self, DeviceParseError> {
        if text == "all" {
            Ok(Self::All)
        } else {
            text.parse().map(Self::Chosen)
        }
    }
}

/// What to measure.
#[derive(Clone, Debug)]
pub struct BenchConfig {
    /// On which devices.
    pub devices: BenchDevices,
    /// For which epoch of Ethash.
    pub epoch: u32,
    /// How long each hash rate is measured.
    pub time: Duration,
    /// Threads of the CPU, at least one.
    pub threads: usize,
    /// Leave out the full dataset, and with it the graphics adapters.
    pub light_only: bool,
}

/// What was measured on one device. `None`: it was not.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// `cpu` or `gpu:N`.
    pub device: String,
    /// The product's name.
    pub name: String,
    /// Threads, on the CPU.
    pub threads: Option<usize>,
    /// Building the light cache, always by one thread of the CPU.
    pub light_cache_s: Option<f64>,
    /// Generating the full dataset.
    pub dataset_s: Option<f64>,
    /// Hashes per second from the light cache.
    pub light_hashrate: Option<f64>,
    /// Hashes per second from the full dataset.
    pub full_hashrate: Option<f64>,
    /// Wrapping sum of the dataset's little-endian 64-bit words: shows that it is the right one.
    pub dataset_sum_u64: Option<u64>,
    /// Why figures are missing.
    pub error: Option<String>,
}

/// What was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The epoch.
    pub epoch: u32,
    /// Bytes of its light cache.
    pub cache_bytes: u64,
    /// Bytes of its full dataset.
    pub dataset_bytes: u64,
    /// Device by device.
    pub devices: Vec<Figures>,
}

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// There is no light cache.
    #[error(transparent)]
    Cache(#[from] ethash::CacheError),
    /// There is no such device.
    #[error(transparent)]
    Device(#[from] MinerError),
}

/// Measures what `config` asks for. A device that fails has its reason in its figures.
///
/// # Errors
/// When the epoch has no light cache or a device does not exist.
pub fn run(config: &BenchConfig) -> Result<Report, BenchError> {
    let (cpu, adapters) = match &config.devices {
        BenchDevices::All => (true, list_adapters()),
        BenchDevices::Chosen(choice) => {
            let plan = choice.plan_here()?;
            (plan.cpu, plan.adapters)
        }
    };
    let cache = Arc::new(LightCache::build(Epoch::ethash(config.epoch))?);
    let mut devices = Vec::new();
    if cpu {
        devices.push(measure_cpu(config, &cache));
    }
    devices.extend(
        adapters
            .iter()
            .map(|adapter| measure_gpu(config, &cache, adapter)),
    );
    Ok(Report {
        epoch: config.epoch,
        cache_bytes: cache.as_bytes().len() as u64,
        dataset_bytes: cache.dataset_bytes(),
        devices,
    })
}

fn measure_cpu(config: &BenchConfig, cache: &LightCache) -> Figures {
    let threads = config.threads.max(1);
    let mut figures = Figures {
        device: "cpu".into(),
        name: cpu_name(),
        threads: Some(threads),
        light_cache_s: Some(cache.build_time().as_secs_f64()),
        ..Figures::default()
    };
    figures.light_hashrate = Some(rate(threads, config.time, LIGHT_WIDTH, |first| {
        let nonces: [u64; LIGHT_WIDTH] = core::array::from_fn(|i| first.wrapping_add(i as u64));
        black_box(cache.hash_many(&B256::ZERO, nonces));
    }));
    if config.light_only {
        return figures;
    }
    let mut progress = Progress::new(format!("generating the dataset of epoch {}", config.epoch));
    let dataset = Dataset::generate(cache, threads, &mut |done, total| {
        progress.report(done, total);
        ControlFlow::Continue(())
    });
    let seconds = progress.end().as_secs_f64();
    match dataset {
        Ok(dataset) => {
            figures.dataset_s = Some(seconds);
            figures.dataset_sum_u64 = Some(sum_u64(dataset.words()));
            figures.full_hashrate = Some(full_rate(threads, config.time, &dataset.view()));
        }
        Err(error) => figures.error = Some(error.to_string()),
    }
    figures
}

fn full_rate(threads: usize, time: Duration, dataset: &FullDataset<'_>) -> f64 {
    rate(threads, time, FULL_WIDTH, |first| {
        let nonces: [u64; FULL_WIDTH] = core::array::from_fn(|i| first.wrapping_add(i as u64));
        black_box(dataset.hash_many(&B256::ZERO, nonces));
    })
}

/// Hashes per second of `threads` threads that each call `batch` with the first of `width` nonces.
fn rate(threads: usize, time: Duration, width: usize, batch: impl Fn(u64) + Sync) -> f64 {
    let start = Instant::now();
    let work = |thread: usize| {
        let mut nonce = (thread as u64) << 48;
        while start.elapsed() < time {
            batch(nonce);
            nonce += width as u64;
        }
        nonce - ((thread as u64) << 48)
    };
    let hashes: u64 = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads)
            .map(|thread| scope.spawn(move || work(thread)))
            .collect();
        // A thread that panicked has counted nothing.
        work(0)
            + others
                .into_iter()
                .map(|other| other.join().unwrap_or(0))
                .sum::<u64>()
    });
    hashes as f64 / start.elapsed().as_secs_f64()
}

fn measure_gpu(config: &BenchConfig, cache: &Arc<LightCache>, adapter: &AdapterInfo) -> Figures {
    let mut figures = Figures {
        device: format!("gpu:{}", adapter.index),
        name: adapter.name.clone(),
        light_cache_s: Some(cache.build_time().as_secs_f64()),
        ..Figures::default()
    };
    if config.light_only {
        return figures;
    }
    if let Err(error) = fill_gpu_figures(&mut figures, config, cache, adapter) {
        figures.error = Some(error.to_string());
    }
    figures
}

fn fill_gpu_figures(
    figures: &mut Figures,
    config: &BenchConfig,
    cache: &Arc<LightCache>,
    adapter: &AdapterInfo,
) -> Result<(), GpuError> {
    let mut searcher = GpuSearcher::new(adapter.index, GpuOptions::default())?;
    let mut progress = Progress::new(format!(
        "generating the dataset of epoch {} on {}",
        config.epoch, adapter.name
    ));
    let loaded = searcher.set_epoch(cache, &mut |at| {
        progress.report(at.items_done, at.items_total);
        ControlFlow::Continue(())
    });
    let seconds = progress.end().as_secs_f64();
    loaded?;
    figures.dataset_s = Some(seconds);

    // No hash is at or below zero, so every batch is searched to its end.
    searcher.set_work(GpuWork {
        id: 0,
        header_hash: B256::ZERO,
        boundary: B256::ZERO,
        start_nonce: 0,
    });
    let warm_up = Instant::now();
    while warm_up.elapsed() < GPU_WARM_UP {
        searcher.next_batch()?;
    }
    let (start, mut hashes) = (Instant::now(), 0);
    while start.elapsed() < config.time {
        hashes += u64::from(searcher.next_batch()?.count);
    }
    figures.full_hashrate = Some(hashes as f64 / start.elapsed().as_secs_f64());
    searcher.stop()
}

/// The wrapping sum of pairs of words as 64-bit numbers.
fn sum_u64(words: &[u32]) -> u64 {
    let pairs = words.as_chunks::<2>().0.iter();
    pairs.fold(0, |sum, [low, high]| {
        sum.wrapping_add(u64::from(*low) | u64::from(*high) << 32)
    })
}

/// The processor's name where the system tells it, else its architecture.
fn cpu_name() -> String {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"));
    let name = line
        .and_then(|line| line.split_once(':'))
        .map(|(_, name)| name.trim().to_owned());
    name.unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

impl Report {
    /// The report for programs: every figure has its key, and null where it was not measured.
    pub fn to_json(&self) -> Value {
        let device = |figures: &Figures| {
            json!({
                "device": figures.device,
                "name": figures.name,
                "threads": figures.threads,
                "light_cache_s": figures.light_cache_s,
                "dataset_s": figures.dataset_s,
                "light_hashrate": figures.light_hashrate,
                "full_hashrate": figures.full_hashrate,
                "dataset_sum_u64": figures.dataset_sum_u64.map(|sum| format!("{sum:#x}")),
                "error": figures.error,
            })
        };
        json!({
            "epoch": self.epoch,
            "cache_bytes": self.cache_bytes,
            "dataset_bytes": self.dataset_bytes,
            "devices": self.devices.iter().map(device).collect::<Vec<_>>(),
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            epoch,
            cache_bytes,
            dataset_bytes,
            devices,
        } = self;
        write!(
            f,
            "epoch {epoch}: light cache {cache_bytes} bytes, dataset {dataset_bytes} bytes"
        )?;
        for figures in devices {
            write!(f, "\n{} ({})", figures.device, figures.name)?;
            if let Some(threads) = figures.threads {
                write!(f, ", {threads} threads")?;
            }
            let seconds = |value: f64| format!("{value:.3} s");
            let rate = |value: f64| format!("{value:.0} H/s");
            let rows = [
                ("light cache", figures.light_cache_s.map(seconds)),
                ("dataset", figures.dataset_s.map(seconds)),
                ("from the light cache", figures.light_hashrate.map(rate)),
                ("from the full dataset", figures.full_hashrate.map(rate)),
                ("error", figures.error.clone()),
            ];
            for (what, value) in rows {
                if let Some(value) = value {
                    write!(f, "\n  {what:<22} {value}")?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_measured_is_null() {
        let config = BenchConfig {
            devices: BenchDevices::Chosen(DeviceChoice::Cpu),
            epoch: 0,
            time: Duration::from_millis(50),
            threads: 2,
            light_only: true,
        };
        let report = run(&config).expect("the CPU is always there");
        let json = report.to_json();
        let device = &json["devices"][0];
        assert_eq!(json["cache_bytes"], 16_776_896);
        assert!(
            device["light_hashrate"].as_f64().is_some_and(|rate| rate > 1.0),
            "{json}"
        );
        assert!(
            device["light_cache_s"]
                .as_f64()
                .is_some_and(|seconds| seconds > 0.0),
            "{json}"
        );
        for absent in ["dataset_s", "full_hashrate", "dataset_sum_u64", "error"] {
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
            time: Duration::ZERO,
            threads: 1,
            light_only: true,
        };
        assert!(matches!(run(&config("cpu", u32::MAX)), Err(BenchError::Cache(_))));
        let far = run(&config("gpu:4000000", 0));
        assert!(matches!(
            far,
            Err(BenchError::Device(MinerError::NoAdapter {
                wanted: Some(4_000_000),
                ..
            }))
        ));
        assert!("cuda".parse::<BenchDevices>().is_err());
        assert_eq!("all".parse(), Ok(BenchDevices::All));
    }
}
