//! Fixtures for the tests of other packages.

use std::time::Duration;

use crate::client_stats::{ClientStatus, EndpointStatus, ShareCounts};
use crate::monitor::{DeviceReport, RigReport};
use crate::sensors::SensorReading;
use crate::telemetry::{DatasetProgress, DeviceState, DeviceStatus, EngineStatus, SelfCheckCounts};

/// A rig with one card that searches and one that has failed.
pub fn sample_report() -> RigReport {
    let device = |index: usize, state: DeviceState| DeviceStatus {
        name: format!("gpu:{index}"),
        label: "Some \"Card\"\\".into(),
        pci_bus: None,
        hashrate: 2.5e7,
        average: 2.4e7,
        hashes: 1_000_000,
        solutions: 9,
        since_solution: Some(Duration::from_secs(15)),
        hardware_errors: 1,
        checks: SelfCheckCounts {
            passed: 40,
            failed: 2 * index as u64,
        },
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
        unknown: 2,
    };
    let client = ClientStatus {
        devices: vec![shares],
        endpoints: vec![EndpointStatus {
            url: "http://a:8545".into(),
            active: true,
            connections: 2,
            failures: 1,
            last_error: Some("down".into()),
            skipped: 3,
        }],
        ..ClientStatus::default()
    };
    let reading = SensorReading {
        temperature_c: Some(61.0),
        ..SensorReading::default()
    };
    let report = |(index, status)| DeviceReport {
        status,
        shares: client.devices.get(index).copied().unwrap_or_default(),
        reading,
    };
    RigReport {
        uptime: Duration::from_secs(100),
        devices: devices.into_iter().enumerate().map(report).collect(),
        engine,
        client,
    }
}
