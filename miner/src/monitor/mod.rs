//! Observes a rig: collects the state of engine, client and sensors in one report, and serves it as
//! status, metrics and dashboard.

mod costs;
mod metrics;

use std::sync::Arc;
use std::time::{Duration, Instant};

use daemon::ClientId;
use daemon::status::{PageFuture, StatusSource, status_page};
use engine::dashboard::DashboardSource;
use engine::monitor::{DeviceObserver, RigReport};
use engine::{ClientStats, DeviceState, DeviceStatus, Engine, EngineStatus, EpochRefusal, RestCause};
use ethash::Epoch;
use parking_lot::Mutex;
use serde_json::Value;

use self::costs::DayBalance;
use crate::api::ApiSource;

pub use costs::CostConfig;

/// Observes a rig.
#[derive(Debug)]
pub(crate) struct RigMonitor {
    started: Instant,
    engine: Mutex<Option<Engine>>,
    client: Arc<ClientStats>,
    devices: DeviceObserver,
    /// The temperatures at which a card goes on and rests.
    heat_limits: Option<(f64, f64)>,
    costs: CostConfig,
    /// The price of power now, if it changes with time.
    power_price: Mutex<Option<f64>>,
}

impl RigMonitor {
    /// A monitor of `engine` and of the client that writes `client`. `heat_limits` are the
    /// temperatures at which a card goes on and rests.
    pub(crate) fn new(
        engine: Engine,
        client: Arc<ClientStats>,
        heat_limits: Option<(f64, f64)>,
        costs: CostConfig,
    ) -> Self {
        Self {
            started: Instant::now(),
            engine: Mutex::new(Some(engine)),
            client,
            devices: DeviceObserver::start(),
            heat_limits,
            costs,
            power_price: Mutex::default(),
        }
    }

    /// Sets the price of power for now. `None`: it does not change with time.
    pub(crate) fn set_power_price(&self, price: Option<f64>) {
        *self.power_price.lock() = price;
    }

    /// The balance of a day; `None` without prices.
    fn day(&self, report: &RigReport) -> Option<DayBalance> {
        self.costs.day(*self.power_price.lock(), report)
    }

    /// The status as JSON.
    fn status_json(&self) -> Value {
        let report = self.report();
        let mut status = report.to_json();
        status["day"] = self.day(&report).map_or(Value::Null, DayBalance::to_json);
        status
    }

    /// The hashrate of all devices in hashes per second.
    pub(crate) fn hashrate(&self) -> f64 {
        self.engine.lock().as_ref().map_or(0.0, Engine::hashrate)
    }

    /// Checks whether the engine can search `epoch`. The error says what is missing.
    pub(crate) fn check_epoch(&self, epoch: Epoch) -> Result<(), EpochRefusal> {
        match self.engine.lock().as_ref() {
            Some(engine) => engine.check_epoch(epoch),
            None => Err(EpochRefusal::Ended),
        }
    }

    /// The state of the engine only, which is cheap to collect.
    pub(crate) fn engine_status(&self) -> EngineStatus {
        self.engine
            .lock()
            .as_ref()
            .map(Engine::status)
            .unwrap_or_default()
    }

    /// Collects the whole report.
    pub(crate) fn report(&self) -> RigReport {
        let engine = self.engine_status();
        let client = self.client.status();
        RigReport {
            uptime: self.started.elapsed(),
            devices: self.devices.reports(&engine.devices, &client.devices),
            engine,
            client,
        }
    }

    /// Makes device `index` rest for `cause`, or ends that rest. Returns whether that is a change.
    pub(crate) fn set_rest(&self, index: usize, cause: RestCause, rests: bool) -> bool {
        let engine = self.engine.lock();
        engine
            .as_ref()
            .is_some_and(|engine| engine.set_rest(index, cause, rests))
    }

    /// Notes that device `index` has made no progress for `time`, although it should have; `None`:
    /// it does again.
    pub(crate) fn set_hung(&self, index: usize, time: Option<Duration>) {
        if let Some(engine) = self.engine.lock().as_ref() {
            engine.set_hung(index, time);
        }
    }

    /// Makes cards begin anew. With `index` only that device.
    pub(crate) fn restart(&self, index: Option<usize>) {
        if let Some(engine) = self.engine.lock().as_ref() {
            engine.restart(index);
        }
    }

    /// Stops the engine.
    pub(crate) fn stop_engine(&self) {
        let engine = self.engine.lock().take();
        if let Some(engine) = engine {
            engine.stop();
        }
    }
}

impl StatusSource for RigMonitor {
    fn json(&self) -> Value {
        self.status_json()
    }

    fn metrics(&self) -> String {
        let report = self.report();
        metrics::page(&report, self.day(&report).as_ref())
    }

    fn health(&self) -> (bool, &'static str) {
        health(&self.engine_status(), self.client.status().active().is_some())
    }
}

impl ApiSource for RigMonitor {
    fn report(&self) -> RigReport {
        self.report()
    }

    fn heat_limits(&self) -> Option<(f64, f64)> {
        self.heat_limits
    }

    fn restart(&self) {
        tracing::info!("all cards begin anew, as the API was asked");
        self.restart(None);
    }

    fn pause(&self, index: usize, pause: bool) -> bool {
        self.set_rest(index, RestCause::Asked, pause);
        index < self.engine_status().devices.len()
    }
}

impl DashboardSource for RigMonitor {
    fn status(&self) -> Value {
        let mut status = self.status_json();
        status["program"] = "miner".into();
        status
    }

    fn rates(&self) -> Vec<(String, f64)> {
        let devices = self.engine_status().devices.into_iter();
        devices.map(|device| (device.name, device.hashrate)).collect()
    }

    /// Metrics and health, as at the address of the status.
    fn other_page<'a>(&'a self, path: &'a str, _: ClientId) -> Option<PageFuture<'a>> {
        matches!(path, "/metrics" | "/health").then(|| {
            let page = status_page(path, self);
            Box::pin(std::future::ready(page)) as PageFuture<'a>
        })
    }
}

/// Whether the rig is healthy, with the reason. It is healthy while a device searches or rests, and
/// while a connected client waits for the work after a solution.
fn health(engine: &EngineStatus, connected: bool) -> (bool, &'static str) {
    let searching = |device: &DeviceStatus| matches!(device.state, DeviceState::Searching { .. });
    let waiting =
        |device: &DeviceStatus| matches!(device.state, DeviceState::Waiting) && device.hashrate > 0.0;
    let resting = |device: &DeviceStatus| matches!(device.state, DeviceState::Resting { .. });
    if engine.devices.iter().any(searching) {
        (true, "searching")
    } else if connected && engine.devices.iter().any(waiting) {
        (true, "between two jobs")
    } else if engine.devices.iter().any(resting) {
        (true, "resting")
    } else {
        (false, "not searching")
    }
}

#[cfg(test)]
mod tests {
    use engine::testing::sample_report;

    use super::*;

    #[test]
    fn a_rig_is_healthy_while_it_searches_and_between_two_jobs() {
        let mut engine = sample_report().engine;
        assert_eq!(health(&engine, true), (true, "searching"));
        engine.devices[0].state = DeviceState::Waiting;
        assert_eq!(health(&engine, true), (true, "between two jobs"));
        assert!(!health(&engine, false).0, "not connected");
        engine.devices[0].hashrate = 0.0;
        assert!(!health(&engine, true).0, "no hashes for ten seconds");
        engine.devices[0].state = DeviceState::Resting {
            cause: RestCause::Heat,
        };
        assert_eq!(health(&engine, true), (true, "resting"));
    }
}
