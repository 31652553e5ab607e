//! The figures of a benchmark, for people and for programs.

use core::fmt;

use engine::units::{byte_rate_text, rate_text};
use ethash::{ACCESSES, DATASET_PARENTS, ITEM_BYTES};
use serde_json::{Value, json};

use crate::display::{Bar, Chart, ChartGroup};

/// Bytes of the dataset that one hash reads.
pub(super) const BYTES_PER_HASH: f64 = (ACCESSES as usize * ITEM_BYTES) as f64;

/// The kind of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceKind {
    /// The processor.
    #[default]
    Cpu,
    /// A graphics adapter.
    Gpu,
}

impl DeviceKind {
    const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Gpu => "gpu",
        }
    }
}

/// The figures of one device. `None` means that a figure was not measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BenchFigures {
    /// `cpu` or `gpu:N`.
    pub device: String,
    /// The name of the product.
    pub name: String,
    /// The kind of the device.
    pub kind: DeviceKind,
    /// Number of threads, on the CPU.
    pub threads: Option<usize>,
    /// The form of the search kernel, on an adapter.
    pub kernel: Option<String>,
    /// The workgroup size of the search kernel.
    pub workgroup_size: Option<u32>,
    /// The time to build the light cache. One CPU thread always builds it.
    pub light_cache_seconds: Option<f64>,
    /// The time to generate the full dataset.
    pub dataset_seconds: Option<f64>,
    /// Hashes per second from the light cache.
    pub light_hashrate: Option<f64>,
    /// Hashes per second from the full dataset.
    pub hashrate: Option<f64>,
    /// Bytes read plus bytes written by a plain copy.
    pub copy_bytes_per_second: Option<f64>,
    /// Bytes per second, reading random 128-byte items of the dataset.
    pub random_read_bytes_per_second: Option<f64>,
    /// Bytes per second, reading random 64-byte rows of the light cache.
    pub cache_read_bytes_per_second: Option<f64>,
    /// The wrapping sum of the little-endian 64-bit words of the dataset. It shows that the dataset
    /// is right.
    pub dataset_sum_u64: Option<u64>,
    /// The reasons why figures are absent.
    pub error: Option<String>,
}

impl BenchFigures {
    /// Returns the bytes of the dataset that the search reads per second.
    pub(crate) fn search_bytes_per_second(&self) -> Option<f64> {
        self.hashrate.map(|rate| rate * BYTES_PER_HASH)
    }

    /// Returns the bytes that the search reads, divided by those that random reads alone can get.
    pub fn share_of_ceiling(&self) -> Option<f64> {
        let ceiling = self.random_read_bytes_per_second.filter(|rate| *rate > 0.0)?;
        Some(self.search_bytes_per_second()? / ceiling)
    }

    /// Returns the seconds that the memory needs to deliver the cache rows of a dataset of `bytes`.
    /// No generation can be faster.
    pub(crate) fn dataset_floor_seconds(&self, bytes: u64) -> Option<f64> {
        let rate = self.cache_read_bytes_per_second.filter(|rate| *rate > 0.0)?;
        Some(bytes as f64 * f64::from(DATASET_PARENTS) / rate)
    }

    fn to_json(&self, report: &BenchReport) -> Value {
        let bytes = report.dataset_bytes;
        json!({
            "device": self.device,
            "name": self.name,
            "kind": self.kind.name(),
            "threads": self.threads,
            "kernel": self.kernel,
            "workgroup_size": self.workgroup_size,
            "epoch": report.epoch,
            "cache_bytes": report.cache_bytes,
            "dataset_bytes": bytes,
            "light_cache_seconds": self.light_cache_seconds,
            "dataset_seconds": self.dataset_seconds,
            "dataset_floor_seconds": self.dataset_floor_seconds(bytes),
            "light_hashrate": self.light_hashrate,
            "hashrate": self.hashrate,
            "copy_bytes_per_second": self.copy_bytes_per_second,
            "random_read_bytes_per_second": self.random_read_bytes_per_second,
            "cache_read_bytes_per_second": self.cache_read_bytes_per_second,
            "share_of_ceiling": self.share_of_ceiling(),
            "dataset_sum_u64": self.dataset_sum_u64.map(|sum| format!("{sum:#x}")),
            "error": self.error,
        })
    }

    fn rows(&self, dataset_bytes: u64) -> [(&'static str, Option<String>); 10] {
        let seconds = |value: f64| format!("{value:.3} s");
        let per_second = |value: f64| byte_rate_text(dataset_bytes as f64 / value.max(1e-9));
        let dataset = self
            .dataset_seconds
            .map(|value| format!("{value:.3} s, {}", per_second(value)));
        let kernel = self.kernel.as_ref().zip(self.workgroup_size);
        let kernel = kernel.map(|(kernel, size)| format!("{kernel} in workgroups of {size}"));
        let share = self
            .share_of_ceiling()
            .map(|share| format!("{:.1} % of random reads", share * 100.0));
        [
            ("light cache", self.light_cache_seconds.map(seconds)),
            ("from the light cache", self.light_hashrate.map(rate_text)),
            ("dataset", dataset),
            (
                "  its reads alone",
                self.dataset_floor_seconds(dataset_bytes).map(seconds),
            ),
            ("kernel", kernel),
            ("from the full dataset", self.hashrate.map(rate_text)),
            ("  at 8192 bytes a hash", share),
            (
                "random 128-byte reads",
                self.random_read_bytes_per_second.map(byte_rate_text),
            ),
            ("plain copy", self.copy_bytes_per_second.map(byte_rate_text)),
            ("error", self.error.clone()),
        ]
    }
}

impl BenchFigures {
    /// The figures for people: the device, and a line for each figure.
    pub fn lines(&self, dataset_bytes: u64) -> Vec<String> {
        let mut head = format!("{} ({})", self.device, self.name);
        if let Some(threads) = self.threads {
            head += &format!(", {threads} threads");
        }
        let rows = self.rows(dataset_bytes).into_iter();
        let rows = rows.filter_map(|(what, value)| value.map(|value| format!("  {what:<24} {value}")));
        std::iter::once(head).chain(rows).collect()
    }
}

/// The result of a benchmark.
#[derive(Clone, Debug, PartialEq)]
pub struct BenchReport {
    /// The epoch.
    pub epoch: u32,
    /// Bytes of the light cache.
    pub cache_bytes: u64,
    /// Bytes of the full dataset.
    pub dataset_bytes: u64,
    /// The figures of each device.
    pub devices: Vec<BenchFigures>,
}

impl BenchReport {
    /// Returns the report for programs, with an object for each device. Every figure has its key.
    /// Its value is null if it was not measured.
    pub fn to_json(&self) -> Value {
        self.devices.iter().map(|figures| figures.to_json(self)).collect()
    }

    /// Returns charts of the hash rates, and of the memory figures of each device.
    pub fn to_chart(&self) -> Chart {
        let mut rates = Vec::new();
        let mut memories = Vec::new();
        for figures in &self.devices {
            let device = figures.threads.map_or_else(
                || figures.device.clone(),
                |threads| format!("{}, {threads} threads", figures.device),
            );
            let bar = |label: &str, value: Option<f64>, text: fn(f64) -> String| {
                value.map(|value| Bar {
                    label: label.to_owned(),
                    value,
                    text: text(value),
                })
            };
            rates.extend(bar(&device, figures.hashrate, rate_text));
            let light = format!("{device}, light cache");
            rates.extend(bar(&light, figures.light_hashrate, rate_text));
            let mut searched = bar("search", figures.search_bytes_per_second(), byte_rate_text);
            if let (Some(bar), Some(share)) = (&mut searched, figures.share_of_ceiling()) {
                bar.text = format!("{:.1} % of random reads", share * 100.0);
            }
            let random = figures.random_read_bytes_per_second;
            let bars: Vec<_> = [
                bar("plain copy", figures.copy_bytes_per_second, byte_rate_text),
                bar("random 128-byte reads", random, byte_rate_text),
                searched.filter(|_| random.is_some()),
            ]
            .into_iter()
            .flatten()
            .collect();
            if !bars.is_empty() {
                memories.push(ChartGroup {
                    title: format!("Memory of {device}, epoch {}", self.epoch),
                    bars,
                });
            }
        }
        let mut groups = vec![ChartGroup {
            title: format!("Hash rate, epoch {}", self.epoch),
            bars: rates,
        }];
        groups.extend(memories);
        groups.retain(|group| !group.bars.is_empty());
        Chart { groups }
    }
}

impl fmt::Display for BenchReport {
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
            for line in figures.lines(*dataset_bytes) {
                write!(f, "\n{line}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> BenchReport {
        let measured = BenchFigures {
            device: "gpu:0".into(),
            name: "Card".into(),
            kind: DeviceKind::Gpu,
            kernel: Some("shuffle".into()),
            workgroup_size: Some(64),
            light_cache_seconds: Some(0.25),
            dataset_seconds: Some(0.5),
            hashrate: Some(1e8),
            copy_bytes_per_second: Some(1.024e12),
            random_read_bytes_per_second: Some(1e12),
            cache_read_bytes_per_second: Some(2.56e12),
            ..BenchFigures::default()
        };
        let failed = BenchFigures {
            device: "gpu:1".into(),
            error: Some("device lost".into()),
            ..BenchFigures::default()
        };
        BenchReport {
            epoch: 7,
            cache_bytes: 1 << 24,
            dataset_bytes: 1 << 30,
            devices: vec![measured, failed],
        }
    }

    #[test]
    fn figures_follow_from_each_other() {
        let report = report();
        let json = report.to_json();
        let [measured, failed] = [&json[0], &json[1]];
        assert_eq!(
            (&measured["kind"], &measured["epoch"]),
            (&json!("gpu"), &json!(7))
        );
        assert_eq!(measured["share_of_ceiling"], json!(0.8192));
        let floor = measured["dataset_floor_seconds"].as_f64();
        assert_eq!(floor, Some((1_u64 << 30) as f64 * 256.0 / 2.56e12));
        for absent in [
            "dataset_seconds",
            "dataset_floor_seconds",
            "hashrate",
            "copy_bytes_per_second",
            "random_read_bytes_per_second",
            "share_of_ceiling",
        ] {
            assert!(
                failed.get(absent).is_some_and(Value::is_null),
                "{absent} of {failed}"
            );
        }
        let text = report.to_string();
        assert!(
            text.contains("81.9 % of random reads") && text.contains("shuffle in workgroups of 64"),
            "{text}"
        );
        assert!(text.ends_with("device lost"), "{text}");
    }

    #[test]
    fn the_chart_shows_what_was_measured() {
        let chart = report().to_chart();
        let titles: Vec<_> = chart.groups.iter().map(|group| group.title.as_str()).collect();
        assert_eq!(titles, ["Hash rate, epoch 7", "Memory of gpu:0, epoch 7"]);
        let bars = &chart.groups[1].bars;
        assert_eq!(bars.len(), 3);
        assert_eq!(
            (bars[2].value, bars[2].text.as_str()),
            (8.192e11, "81.9 % of random reads")
        );
        let nothing = BenchReport {
            devices: vec![BenchFigures::default()],
            ..report()
        };
        assert!(nothing.to_chart().groups.is_empty());
    }
}
