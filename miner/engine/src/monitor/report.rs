//! The state of a rig at one moment: what the table, the log and the status page show.

use std::time::Duration;

use serde_json::{Value, json};

use crate::client_stats::{ClientStatus, ShareCounts};
use crate::sensors::{SensorReading, SlowdownCause};
use crate::telemetry::{DeviceState, DeviceStatus, EngineStatus};

/// The state of a rig at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct RigReport {
    /// Time since the start.
    pub uptime: Duration,
    /// Hashrate and counts of the engine.
    pub engine: EngineStatus,
    /// Answers to solutions, endpoints, and the current job.
    pub client: ClientStatus,
    /// The devices, in the engine's order.
    pub devices: Vec<DeviceReport>,
}

/// The state of a device at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceReport {
    /// Hashrate, counts and state.
    pub status: DeviceStatus,
    /// Answers to its solutions.
    pub shares: ShareCounts,
    /// Temperature, power and fan.
    pub reading: SensorReading,
}

impl RigReport {
    /// The fraction of answered solutions that were too late, from 0 to 1. `None` if there are no
    /// answers.
    pub fn stale_share(&self) -> Option<f64> {
        self.client.total().stale_share()
    }

    /// The fraction of hits that the check on the CPU has refused, from 0 to 1. `None` if there are
    /// no hits.
    pub fn invalid_share(&self) -> Option<f64> {
        fraction(
            self.engine.hardware_errors,
            self.engine.solutions + self.engine.hardware_errors,
        )
    }

    /// The report as JSON. Unknown values are null.
    pub fn to_json(&self) -> Value {
        let total = self.client.total();
        let job = self.client.job.map(|job| {
            json!({
                "header_hash": job.header_hash.to_string(),
                "epoch": job.epoch.index,
                "epoch_first": job.epoch.first_block(),
                "epoch_blocks": job.epoch.length(),
                "number": job.number,
                "difficulty": job.difficulty.to_string(),
            })
        });
        let endpoints = self.client.endpoints.iter().map(|endpoint| {
            json!({
                "url": endpoint.url,
                "active": endpoint.active,
                "connections": endpoint.connections,
                "failures": endpoint.failures,
                "last_error": endpoint.last_error,
                "skipped": endpoint.skipped,
            })
        });
        let answer_ms = self.client.last_answer.map(|time| time.as_secs_f64() * 1e3);
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
            "unknown": total.unknown,
            "invalid": self.engine.hardware_errors,
            "stale_share": self.stale_share(),
            "invalid_share": self.invalid_share(),
            "endpoint": self.client.active().map(|endpoint| &endpoint.url),
            "endpoints": endpoints.collect::<Vec<_>>(),
            "jobs": self.client.jobs,
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
        let (state, epoch, reason) = state_parts(&status.state);
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
            "since_found_s": status.since_solution.map(|time| time.as_secs()),
            "accepted": shares.accepted,
            "stale": shares.stale,
            "rejected": shares.rejected,
            "lost": shares.lost,
            "unknown": shares.unknown,
            "invalid": status.hardware_errors,
            "stale_share": shares.stale_share(),
            "invalid_share": fraction(status.hardware_errors, status.solutions + status.hardware_errors),
            "checks": {"passed": status.checks.passed, "failed": status.checks.failed},
            "dataset": dataset,
            "temperature_c": reading.temperature_c,
            "power_w": reading.power_w,
            "fan_percent": reading.fan_percent,
            "core_mhz": reading.core_mhz,
            "memory_mhz": reading.memory_mhz,
            "core_busy_percent": reading.core_busy_percent,
            "memory_busy_percent": reading.memory_busy_percent,
            "slowed_by": reading.slowed_by.map(SlowdownCause::name),
        })
    }
}

/// The name of a state, its epoch and its reason.
fn state_parts(state: &DeviceState) -> (&'static str, Option<u32>, Option<&str>) {
    match state {
        DeviceState::Waiting => ("waiting", None, None),
        DeviceState::Preparing { epoch } => ("preparing", Some(*epoch), None),
        DeviceState::Searching { epoch } => ("searching", Some(*epoch), None),
        DeviceState::Resting { cause } => ("resting", None, Some(cause.name())),
        DeviceState::Recovering { reason } => ("recovering", None, Some(reason)),
        DeviceState::Failed { reason } => ("failed", None, Some(reason)),
    }
}

fn fraction(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::sample_report;

    #[test]
    fn the_report_has_every_figure_or_null() {
        let report = sample_report();
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
        assert_eq!(broken["checks"], json!({"passed": 40, "failed": 2}));
        assert_eq!(
            (&json["unknown"], &json["endpoints"][0]["skipped"]),
            (&json!(2), &json!(3))
        );
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
        let empty = RigReport {
            client: ClientStatus::default(),
            engine: EngineStatus::default(),
            ..report
        };
        assert_eq!((empty.stale_share(), empty.invalid_share()), (None, None));
    }
}
