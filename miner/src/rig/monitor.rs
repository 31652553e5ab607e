//! One look at everything: engine, answers, sensors. What is shown, served and logged is made from
//! it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::client::{Ledger, LedgerStatus, ShareCounts};
use crate::engine::Engine;
use crate::rig::metrics;
use crate::sensors::{Reading, Sensors};
use crate::status::Status;
use crate::telemetry::{DeviceState, DeviceStatus, EngineStatus};

/// A rig as it is at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Since the start.
    pub uptime: Duration,
    /// The searchers.
    pub engine: EngineStatus,
    /// Answers, endpoints, the job.
    pub ledger: LedgerStatus,
    /// Device by device.
    pub devices: Vec<DeviceReport>,
}

/// A device as it is at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceReport {
    /// Rates, counts, state.
    pub status: DeviceStatus,
    /// What became of its solutions.
    pub shares: ShareCounts,
    /// Its sensors.
    pub reading: Reading,
}

/// Looks at a rig.
#[derive(Debug)]
pub struct Monitor {
    started: Instant,
    engine: Mutex<Option<Engine>>,
    ledger: Arc<Ledger>,
    sensors: Sensors,
}

impl Monitor {
    /// A monitor of these.
    pub fn new(engine: Engine, ledger: Arc<Ledger>) -> Self {
        Self {
            started: Instant::now(),
            engine: Mutex::new(Some(engine)),
            ledger,
            sensors: Sensors::start(),
        }
    }

    /// Hashes per second, all devices.
    pub fn hashrate(&self) -> f64 {
        self.engine.lock().as_ref().map_or(0.0, Engine::hashrate)
    }

    /// The searchers alone, which costs little.
    pub(super) fn engine_status(&self) -> EngineStatus {
        self.engine
            .lock()
            .as_ref()
            .map(Engine::status)
            .unwrap_or_default()
    }

    /// Everything.
    pub fn report(&self) -> Report {
        let engine = self.engine_status();
        let ledger = self.ledger.status();
        let device = |(index, status): (usize, &DeviceStatus)| DeviceReport {
            status: status.clone(),
            shares: ledger.devices.get(index).copied().unwrap_or_default(),
            reading: self.sensors.read(status),
        };
        Report {
            uptime: self.started.elapsed(),
            devices: engine.devices.iter().enumerate().map(device).collect(),
            engine,
            ledger,
        }
    }

    /// Ends the search.
    pub(super) fn stop_engine(&self) {
        let engine = self.engine.lock().take();
        if let Some(engine) = engine {
            engine.stop();
        }
    }
}

impl Status for Monitor {
    fn json(&self) -> Value {
        self.report().to_json()
    }

    fn metrics(&self) -> String {
        metrics::page(&self.report())
    }

    fn health(&self) -> (bool, &'static str) {
        health(&self.engine_status(), self.ledger.status().active().is_some())
    }
}

/// A rig is well while it searches, and in the moment between a solution and the work after it.
fn health(engine: &EngineStatus, connected: bool) -> (bool, &'static str) {
    let searching = |device: &DeviceStatus| matches!(device.state, DeviceState::Searching { .. });
    let waiting =
        |device: &DeviceStatus| matches!(device.state, DeviceState::Waiting) && device.hashrate > 0.0;
    if engine.devices.iter().any(searching) {
        (true, "searching")
    } else if connected && engine.devices.iter().any(waiting) {
        (true, "between two jobs")
    } else {
        (false, "not searching")
    }
}

impl Report {
    /// The share of answered solutions that came too late, from 0 to 1; `None` before there was
    /// any.
    pub fn stale_share(&self) -> Option<f64> {
        self.ledger.total().stale_share()
    }

    /// The share of hits that the check on the CPU refused, from 0 to 1; `None` before there was
    /// any.
    pub fn invalid_share(&self) -> Option<f64> {
        share(
            self.engine.hardware_errors,
            self.engine.solutions + self.engine.hardware_errors,
        )
    }

    /// The report for programs. What is not known is null.
    pub fn to_json(&self) -> Value {
        let total = self.ledger.total();
        let job = self.ledger.job.map(|job| {
            json!({
                "header_hash": job.header_hash.to_string(),
                "epoch": job.epoch,
                "number": job.number,
                "difficulty": job.difficulty.to_string(),
            })
        });
        let endpoints = self.ledger.endpoints.iter().map(|endpoint| {
            json!({
                "url": endpoint.url,
                "active": endpoint.active,
                "connections": endpoint.connections,
                "failures": endpoint.failures,
                "last_error": endpoint.last_error,
            })
        });
        let answer_ms = self.ledger.last_answer.map(|time| time.as_secs_f64() * 1e3);
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "uptime_s": self.uptime.as_secs(),
            "hashrate": self.engine.hashrate,
            "hashes": self.engine.hashes,
            "found": self.engine.solutions,
            "accepted": total.accepted,
            "stale": total.stale,
            "rejected": total.rejected,
            "lost": total.lost,
            "invalid": self.engine.hardware_errors,
            "stale_share": self.stale_share(),
            "invalid_share": self.invalid_share(),
            "endpoint": self.ledger.active().map(|endpoint| &endpoint.url),
            "endpoints": endpoints.collect::<Vec<_>>(),
            "jobs": self.ledger.jobs,
            "job": job,
            "last_answer_ms": answer_ms,
            "devices": self.devices.iter().map(DeviceReport::to_json).collect::<Vec<_>>(),
        })
    }
}

impl DeviceReport {
    fn to_json(&self) -> Value {
        let Self {
            status,
            shares,
            reading,
        } = self;
        let (state, epoch, reason) = state_words(&status.state);
        let dataset = status
            .dataset
            .map(|dataset| json!({"epoch": dataset.epoch, "done": dataset.done, "total": dataset.total}));
        json!({
            "device": status.name,
            "name": status.label,
            "pci_bus": status.pci_bus,
            "state": state,
            "epoch": epoch,
            "reason": reason,
            "hashrate": status.hashrate,
            "average": status.average,
            "hashes": status.hashes,
            "found": status.solutions,
            "accepted": shares.accepted,
            "stale": shares.stale,
            "rejected": shares.rejected,
            "lost": shares.lost,
            "invalid": status.hardware_errors,
            "stale_share": shares.stale_share(),
            "invalid_share": share(status.hardware_errors, status.solutions + status.hardware_errors),
            "dataset": dataset,
            "temperature_c": reading.temperature_c,
            "power_w": reading.power_w,
            "fan_percent": reading.fan_percent,
        })
    }
}

/// A state's word, its epoch and its reason.
pub(crate) fn state_words(state: &DeviceState) -> (&'static str, Option<u32>, Option<&str>) {
    match state {
        DeviceState::Waiting => ("waiting", None, None),
        DeviceState::Preparing { epoch } => ("preparing", Some(*epoch), None),
        DeviceState::Searching { epoch } => ("searching", Some(*epoch), None),
        DeviceState::Recovering { reason } => ("recovering", None, Some(reason)),
        DeviceState::Failed { reason } => ("failed", None, Some(reason)),
    }
}

fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::client::EndpointStatus;
    use crate::telemetry::DatasetProgress;

    #[test]
    fn a_rig_is_well_while_it_searches_and_between_two_jobs() {
        let mut engine = sample().engine;
        assert_eq!(health(&engine, true), (true, "searching"));
        engine.devices[0].state = DeviceState::Waiting;
        assert_eq!(health(&engine, true), (true, "between two jobs"));
        assert!(!health(&engine, false).0, "there is no connection");
        engine.devices[0].hashrate = 0.0;
        assert!(!health(&engine, true).0, "it has not searched for ten seconds");
    }

    /// A rig with a busy card and a broken one.
    pub(crate) fn sample() -> Report {
        let device = |index: usize, state: DeviceState| DeviceStatus {
            name: format!("gpu:{index}"),
            label: "Some \"Card\"\\".into(),
            pci_bus: None,
            hashrate: 2.5e7,
            average: 2.4e7,
            hashes: 1_000_000,
            solutions: 9,
            hardware_errors: 1,
            state,
            dataset: None,
        };
        let mut devices = vec![
            device(0, DeviceState::Searching { epoch: 3 }),
            device(
                1,
                DeviceState::Failed {
                    reason: "lost".into(),
                },
            ),
        ];
        devices[1].dataset = Some(DatasetProgress {
            epoch: 3,
            done: 1,
            total: 4,
        });
        let engine = EngineStatus {
            hashrate: 5e7,
            hashes: 2_000_000,
            solutions: 18,
            hardware_errors: 2,
            devices: devices.clone(),
        };
        let shares = ShareCounts {
            accepted: 7,
            stale: 1,
            rejected: 0,
            lost: 1,
        };
        let ledger = LedgerStatus {
            devices: vec![shares],
            endpoints: vec![EndpointStatus {
                url: "http://a:8545".into(),
                active: true,
                connections: 2,
                failures: 1,
                last_error: Some("down".into()),
            }],
            ..LedgerStatus::default()
        };
        let reading = Reading {
            temperature_c: Some(61.0),
            ..Reading::default()
        };
        let report = |(index, status)| DeviceReport {
            status,
            shares: ledger.devices.get(index).copied().unwrap_or_default(),
            reading,
        };
        Report {
            uptime: Duration::from_secs(100),
            devices: devices.into_iter().enumerate().map(report).collect(),
            engine,
            ledger,
        }
    }

    #[test]
    fn the_report_has_every_figure_or_null() {
        let report = sample();
        let json = report.to_json();
        assert_eq!((&json["accepted"], &json["invalid"]), (&json!(7), &json!(2)));
        assert_eq!(json["stale_share"], json!(0.125));
        assert_eq!(json["invalid_share"], json!(0.1));
        assert_eq!(json["endpoint"], "http://a:8545");
        let [busy, broken] = [&json["devices"][0], &json["devices"][1]];
        assert_eq!((&busy["state"], &busy["epoch"]), (&json!("searching"), &json!(3)));
        assert_eq!(
            (&broken["state"], &broken["reason"]),
            (&json!("failed"), &json!("lost"))
        );
        assert_eq!(broken["dataset"]["total"], 4);
        assert_eq!(
            (&busy["stale_share"], &busy["invalid_share"]),
            (&json!(0.125), &json!(0.1))
        );
        assert!(broken["stale_share"].is_null(), "{broken}");
        assert_eq!(
            (&busy["temperature_c"], &busy["power_w"]),
            (&json!(61.0), &Value::Null)
        );
        assert!(json.get("job").is_some_and(Value::is_null));
        let none = Report {
            ledger: LedgerStatus::default(),
            engine: EngineStatus::default(),
            ..report
        };
        assert_eq!((none.stale_share(), none.invalid_share()), (None, None));
    }
}
