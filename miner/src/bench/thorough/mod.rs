//! `miner bench --thorough`: everything that a machine should tell about its cards and its
//! processor, by one command.
//!
//! Figures come from the most valuable to the least. Each is written to a file as it comes, so a
//! run that was ended goes on later. No figure is taken of a kernel that hashes differently from
//! the CPU.
//!
//! | subject | module |
//! |---|---|
//! | the order of figures on a card | `plan` |
//! | figures of a card | `card`, `hits`, `sensor_log` |
//! | figures of the processor | `processor` |
//! | mining for a node | `steady` |
//! | sizes of datasets | `scale` |
//! | the file of figures | `journal` |
//! | the report made from it | `report`, `tables` |

mod card;
mod clock;
mod figure;
mod hits;
mod journal;
mod plan;
mod processor;
mod report;
mod scale;
mod sensor_log;
mod steady;
mod tables;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use engine::DeviceChoice;
use engine::gpu::{AdapterInfo, KernelForm, list_adapters, search_fingerprint};
use engine::sensors::Sensors;
use ethash::InstructionSet;
use serde_json::{Value, json};

use self::card::{CardBench, DatasetId, KnownFigures};
use self::figure::{FigureError, FigureResult, merged};
use self::journal::Journal;
use self::plan::{CardFigure, FIRST_WORKGROUP, KernelPick, PlanStep, card_steps};
use self::processor::{ProcessorBench, ProcessorFigure};
use self::sensor_log::SensorLog;

pub use clock::BenchClock;
pub use journal::JournalError;
pub use scale::BenchScale;
pub use steady::SteadyNode;

/// Time between two readings of the sensors.
const SENSORS_EVERY: Duration = Duration::from_millis(250);
/// Time that a figure takes beside its measurement, such as for compiling a kernel.
const FIGURE_EXTRA: Duration = Duration::from_secs(1);
/// The commit of the source, if the build was told it.
const COMMIT: Option<&str> = option_env!("BUILD_COMMIT");

/// The rate of another miner on the same card.
#[derive(Clone, Debug, PartialEq)]
pub struct PeerRate {
    /// The name of the miner.
    pub name: String,
    /// Hashes per second.
    pub hashrate: f64,
    /// Whether the rate was published by somebody. Otherwise it was measured on this machine.
    pub published: bool,
}

/// The settings of a thorough benchmark.
#[derive(Clone, Debug)]
pub struct ThoroughConfig {
    /// The folder for the figures and the report.
    pub folder: PathBuf,
    /// The cards. With `None` all hardware adapters, or the software adapters if there are none.
    pub cards: Option<DeviceChoice>,
    /// The sizes of datasets. With `None` small ones if no hardware adapter is measured.
    pub scale: Option<BenchScale>,
    /// The time for each figure.
    pub figure_time: Duration,
    /// Number of CPU threads. 0 counts as 1.
    pub threads: usize,
    /// The node to mine for. With `None` this figure is left out.
    pub node: Option<SteadyNode>,
    /// The time to mine for the node. At most half of the time that is left.
    pub steady_time: Duration,
    /// Only figures whose key contains this text are taken.
    pub only: Option<String>,
    /// Rates of other miners.
    pub peers: Vec<PeerRate>,
}

/// The reasons why a thorough benchmark has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThoroughEnd {
    /// All figures are there, or cannot be taken here.
    Complete,
    /// The time is over. The next run goes on.
    TimeOver,
    /// The user has stopped it. The next run goes on.
    Stopped,
}

/// The reasons why a thorough benchmark cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum ThoroughError {
    /// The file of figures cannot be used.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A card does not exist.
    #[error(transparent)]
    Device(#[from] engine::MinerError),
    /// The folder has figures of another machine, driver or build.
    #[error("{}: has figures of another machine or build: got {got}, expected {expected}; use another folder", folder.display())]
    OtherMachine {
        /// The folder.
        folder: PathBuf,
        /// The machine that the folder names.
        got: String,
        /// The machine that runs now.
        expected: String,
    },
    /// The report cannot be written.
    #[error("{}: {reason}", path.display())]
    Report {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        reason: std::io::Error,
    },
}

/// Takes all figures that are not there yet, until `clock` says that it is over. Then writes the
/// report.
///
/// # Errors
/// [`ThoroughError`]. A figure that fails is no error; its record has the reason.
pub fn run(config: &ThoroughConfig, clock: &BenchClock) -> Result<ThoroughEnd, ThoroughError> {
    let adapters = chosen_adapters(config.cards.as_ref())?;
    let has_hardware = adapters.iter().any(|info| !info.software);
    let usual = if has_hardware {
        BenchScale::Full
    } else {
        BenchScale::Small
    };
    let scale = config.scale.unwrap_or(usual);
    let mut session = ThoroughRun {
        journal: Journal::open(&config.folder)?,
        config,
        clock,
        scale,
    };
    session.begin(&adapters)?;
    let end = session.take_all(&adapters);
    write_report(&config.folder)?;
    end
}

/// Writes the report from the figures in `folder`, and returns it as text.
///
/// # Errors
/// [`ThoroughError::Journal`] and [`ThoroughError::Report`].
pub fn write_report(folder: &Path) -> Result<String, ThoroughError> {
    let records = Journal::read(folder)?;
    let report = report::ThoroughReport::new(&records);
    let text = report.markdown();
    for (name, content) in [("report.md", &text), ("report.svg", &report.svg())] {
        let path = folder.join(name);
        std::fs::write(&path, content).map_err(|reason| ThoroughError::Report { path, reason })?;
    }
    Ok(text)
}

/// The cards to measure.
fn chosen_adapters(choice: Option<&DeviceChoice>) -> Result<Vec<AdapterInfo>, ThoroughError> {
    if let Some(choice) = choice {
        return Ok(choice.select_here()?.adapters);
    }
    let all = list_adapters();
    let (software, hardware): (Vec<_>, Vec<_>) = all.into_iter().partition(|info| info.software);
    Ok(if hardware.is_empty() { software } else { hardware })
}

/// A run of a thorough benchmark.
struct ThoroughRun<'a> {
    journal: Journal,
    config: &'a ThoroughConfig,
    clock: &'a BenchClock,
    scale: BenchScale,
}

impl ThoroughRun<'_> {
    /// Writes what this machine and this build are. Fails if the folder belongs to others.
    fn begin(&mut self, adapters: &[AdapterInfo]) -> Result<(), ThoroughError> {
        let identity = json!({
            "adapters": adapters.iter().map(adapter_json).collect::<Vec<_>>(),
            "cpu": super::cpu_name(),
            "instruction_set": InstructionSet::detect().to_string(),
            "kernels": search_fingerprint(),
            "scale": self.scale.name(),
            "version": env!("CARGO_PKG_VERSION"),
            "commit": COMMIT,
        });
        let old = self
            .journal
            .records()
            .iter()
            .find_map(|record| record.get("machine"));
        if let Some(old) = old.filter(|old| **old != identity) {
            return Err(ThoroughError::OtherMachine {
                folder: self.config.folder.clone(),
                got: old.to_string(),
                expected: identity.to_string(),
            });
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.journal.append(json!({
            "machine": identity,
            "threads": self.config.threads,
            "figure_seconds": self.config.figure_time.as_secs_f64(),
            "unix_time": now.as_secs(),
            "os": std::env::consts::OS,
        }))?;
        for peer in &self.config.peers {
            self.journal.append(json!({
                "peer": peer.name,
                "value": peer.hashrate,
                "unit": "H/s",
                "published": peer.published,
            }))?;
        }
        Ok(())
    }

    fn take_all(&mut self, adapters: &[AdapterInfo]) -> Result<ThoroughEnd, ThoroughError> {
        let sensors = Arc::new(Sensors::start_every(SENSORS_EVERY));
        let (scale, time, threads, clock) = (
            self.scale,
            self.config.figure_time,
            self.config.threads.max(1),
            self.clock,
        );
        let mut cards: Vec<_> = (adapters.iter())
            .map(|info| {
                let bench = CardBench::new(info.clone(), scale, time, threads, clock, &sensors);
                (format!("gpu:{}", info.index), bench)
            })
            .collect();
        let steps = if cards.is_empty() {
            vec![PlanStep::Steady]
        } else {
            card_steps(scale)
        };
        for step in steps {
            if let PlanStep::Card {
                epoch,
                large_pages,
                figure,
            } = step
            {
                let id = DatasetId { epoch, large_pages };
                for (device, card) in &mut cards {
                    if let Some(end) = self.card_figure(device, card, id, figure)? {
                        return Ok(end);
                    }
                }
                continue;
            }
            // The rig opens the cards itself.
            for (_, card) in &mut cards {
                card.close();
            }
            let first = adapters.iter().find(|info| !info.software);
            if let Some(end) = self.steady(first, &sensors)? {
                return Ok(end);
            }
        }
        drop(cards);
        self.processor()
    }

    /// Takes a figure of a card. Returns the reason if the benchmark must end.
    fn card_figure(
        &mut self,
        device: &str,
        card: &mut CardBench<'_>,
        id: DatasetId,
        figure: CardFigure,
    ) -> Result<Option<ThoroughEnd>, ThoroughError> {
        let known = known(self.journal.records(), device, id);
        let DatasetId { epoch, large_pages } = id;
        let layout = if large_pages { "/wide" } else { "" };
        let scale = self.scale.name();
        let key = format!("{device}/{scale}/e{epoch}{layout}/{}", figure_name(figure));
        let head = json!({
            "device": device,
            "epoch": epoch,
            "large_pages": large_pages,
            "what": figure_kind(figure),
        });
        self.figure(&key, &head, self.config.figure_time, |_| {
            card.take(id, figure, &known)
        })
    }

    fn processor(&mut self) -> Result<ThoroughEnd, ThoroughError> {
        let (threads, time) = (self.config.threads.max(1), self.config.figure_time);
        let mut bench = ProcessorBench::new(self.scale, time, threads, self.clock);
        for figure in processor::figures(threads) {
            let ceiling = match figure {
                ProcessorFigure::Search { memory, threads, .. } => {
                    let key = ProcessorFigure::Ceiling { memory, threads }.key(self.scale);
                    let records = self.journal.records();
                    let ceiling = records.iter().rfind(|record| record["key"] == *key);
                    ceiling.and_then(|record| record["value"].as_f64())
                }
                _ => None,
            };
            let head = json!({"device": "cpu", "epoch": 0, "what": figure.what()});
            let key = figure.key(self.scale);
            if let Some(end) = self.figure(&key, &head, time, |_| bench.take(figure, ceiling))? {
                return Ok(end);
            }
        }
        Ok(ThoroughEnd::Complete)
    }

    /// Mines for a node, with all cards, or with the processor if there is no `first` card. The
    /// record has the readings of that one.
    fn steady(
        &mut self,
        first: Option<&AdapterInfo>,
        sensors: &Arc<Sensors>,
    ) -> Result<Option<ThoroughEnd>, ThoroughError> {
        let Some(node) = &self.config.node else {
            return Ok(None);
        };
        let longest = self.clock.left().map_or(Duration::MAX, |left| left / 2);
        let time = self.config.steady_time.min(longest);
        let device = if first.is_some() {
            DeviceChoice::All
        } else {
            DeviceChoice::Cpu
        };
        let threads = self.config.threads.max(1);
        let head = json!({"device": device.to_string(), "what": "steady"});
        let rate = fastest_rate(self.journal.records());
        self.figure("steady", &head, time, |_| {
            let log = first.map(|info| SensorLog::of_card(sensors, info));
            let mined = steady::mine(node, &device, threads, rate, time)?;
            Ok(merged(mined, log.map_or_else(|| json!({}), SensorLog::end)))
        })
    }

    /// Takes one figure, unless it is there already, and records it or the reason of its failure.
    /// Returns the reason if the benchmark must end before.
    fn figure(
        &mut self,
        key: &str,
        head: &Value,
        time: Duration,
        take: impl FnOnce(&Self) -> FigureResult,
    ) -> Result<Option<ThoroughEnd>, ThoroughError> {
        let is_wanted = self
            .config
            .only
            .as_ref()
            .is_none_or(|only| key.contains(only.as_str()));
        if !is_wanted || self.journal.is_done(key) {
            return Ok(None);
        }
        if !self.clock.has(time + FIGURE_EXTRA.min(time)) {
            return Ok(Some(self.end()));
        }
        tracing::info!("{key}");
        let fields = match take(self) {
            Ok(fields) => fields,
            Err(FigureError::Stopped) => return Ok(Some(self.end())),
            Err(error) => {
                tracing::warn!("{key}: {error}");
                json!({
                    "error": error.to_string(),
                    "final": error.is_final(),
                    "wrong": error.is_wrong(),
                })
            }
        };
        let record = merged(merged(json!({"key": key}), head.clone()), fields);
        self.journal.append(record)?;
        Ok(None)
    }

    fn end(&self) -> ThoroughEnd {
        if self.clock.is_stopped() {
            ThoroughEnd::Stopped
        } else {
            ThoroughEnd::TimeOver
        }
    }
}

/// The highest rate of a search that was measured.
fn fastest_rate(records: &[Value]) -> Option<f64> {
    (records.iter())
        .filter(|record| record["unit"] == "H/s" && record["peer"].is_null())
        .filter_map(|record| record["value"].as_f64())
        .max_by(f64::total_cmp)
}

/// Returns the kind of a figure, as in the records.
const fn figure_kind(figure: CardFigure) -> &'static str {
    match figure {
        CardFigure::SmallChecks { .. } => "checks",
        CardFigure::Dataset { .. } => "dataset",
        CardFigure::Ceilings => "ceilings",
        CardFigure::Hashrate { .. } => "hashrate",
        CardFigure::Batch { .. } => "batch",
        CardFigure::Choice => "choice",
    }
}

/// The end of a figure's key.
fn figure_name(figure: CardFigure) -> String {
    let kind = figure_kind(figure);
    match figure {
        CardFigure::SmallChecks { pages } => format!("{kind}/{pages}-pages"),
        CardFigure::Dataset { form: Some(form) } => format!("{kind}/{form}"),
        CardFigure::Dataset { form: None } | CardFigure::Ceilings | CardFigure::Choice => kind.to_owned(),
        CardFigure::Batch { milliseconds } => format!("{kind}/{milliseconds}-ms"),
        CardFigure::Hashrate {
            kernel,
            workgroup_size,
        } => {
            let kernel = match kernel {
                KernelPick::This(kernel) => kernel.to_string(),
                KernelPick::Best => "best".to_owned(),
            };
            format!("{kind}/{kernel}:{workgroup_size}")
        }
    }
}

/// Returns the figures of a dataset of a card that the records have.
fn known(records: &[Value], device: &str, id: DatasetId) -> KnownFigures {
    let own = |record: &&Value| {
        record["device"] == device && record["epoch"] == id.epoch && record["large_pages"] == id.large_pages
    };
    let ceilings = |record: &&&Value| record["what"] == "ceilings" && record["value"].is_number();
    let of_dataset: Vec<_> = records.iter().filter(own).collect();
    let own_ceilings = of_dataset.iter().rfind(ceilings);
    // The light cache of another epoch is read about as fast.
    let of_card = records.iter().filter(|record| record["device"] == device);
    let any_ceilings = of_card.rev().find(|record| record["what"] == "ceilings");
    let mut rates: Vec<(f64, KernelForm, u32)> = (of_dataset.iter())
        .filter(|record| record["what"] == "hashrate")
        .filter_map(|record| {
            let kernel = KernelForm::from_name(record["kernel"].as_str()?)?;
            let size = u32::try_from(record["workgroup_size"].as_u64()?).ok()?;
            Some((record["value"].as_f64()?, kernel, size))
        })
        .collect();
    rates.sort_by(|a, b| b.0.total_cmp(&a.0));
    let usual = rates.iter().find(|(_, _, size)| *size == FIRST_WORKGROUP);
    // With large pages nothing else was measured, so the best kernel of the usual pages counts.
    let best = usual.map(|(_, kernel, _)| *kernel).or_else(|| {
        let usual_pages = DatasetId {
            large_pages: false,
            ..id
        };
        id.large_pages.then(|| known(records, device, usual_pages).best)?
    });
    KnownFigures {
        random_read: own_ceilings.and_then(|record| record["value"].as_f64()),
        cache_read: any_ceilings.and_then(|record| record["cache_read_bytes_per_second"].as_f64()),
        best,
        best_of_all: rates.first().map(|(_, kernel, size)| (*kernel, *size)),
    }
}

fn adapter_json(info: &AdapterInfo) -> Value {
    json!({
        "device": format!("gpu:{}", info.index),
        "name": info.name,
        "backend": info.backend,
        "driver": info.driver,
        "software": info.software,
        "pci_bus": info.pci_bus,
        "max_binding": info.max_binding,
        "max_buffer": info.max_buffer,
        "max_pages": info.max_pages,
        "subgroup_size": info.subgroup_size,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_kernel_is_the_fastest_on_the_same_dataset() {
        let rate = |device: &str, epoch, large_pages, kernel: &str, workgroup_size, value| {
            json!({"device": device, "epoch": epoch, "large_pages": large_pages, "what": "hashrate",
                "kernel": kernel, "workgroup_size": workgroup_size, "value": value})
        };
        let records = [
            json!({"device": "gpu:0", "epoch": 5, "large_pages": false, "what": "ceilings", "value": 8192e3,
                "cache_read_bytes_per_second": 7.0}),
            rate("gpu:0", 5, false, "lane", 64, json!(1.0)),
            rate("gpu:0", 5, false, "shuffle8", 64, json!(5.0)),
            rate("gpu:0", 5, false, "shuffle", 64, json!(3.0)),
            rate("gpu:0", 5, false, "shuffle2", 128, json!(4.0)),
            rate("gpu:0", 6, false, "group", 64, json!(9.0)),
            rate("gpu:1", 5, false, "group", 64, json!(9.0)),
            rate("gpu:0", 5, false, "group", 64, Value::Null),
        ];
        let id = DatasetId {
            epoch: 5,
            large_pages: false,
        };
        let of = known(&records, "gpu:0", id);
        assert_eq!(
            of.best,
            Some(KernelForm::Shuffle),
            "a kernel of an earlier version does not count"
        );
        assert_eq!(of.best_of_all, Some((KernelForm::Shuffle2, 128)));
        assert_eq!((of.random_read, of.cache_read), (Some(8192e3), Some(7.0)));
        let large = known(
            &records,
            "gpu:0",
            DatasetId {
                large_pages: true,
                ..id
            },
        );
        assert_eq!(
            (large.best, large.best_of_all, large.random_read),
            (of.best, None, None)
        );
        assert_eq!(known(&[], "gpu:0", id).best, None);
        let searches = [
            json!({"unit": "B/s", "value": 9.0}),
            json!({"unit": "H/s", "value": 3.0}),
            json!({"unit": "H/s", "value": 4.0}),
            json!({"unit": "H/s", "value": 5.0, "peer": "other"}),
        ];
        assert_eq!(fastest_rate(&searches), Some(4.0));
        assert_eq!(fastest_rate(&[]), None);
    }
}
