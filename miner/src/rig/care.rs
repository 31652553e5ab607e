//! Watches over a rig once a second: heat, the hours of cheap power, and work in vain.
//!
//! The modules `heat`, `hours` and `fruitless` decide; this one carries it out.

use std::time::Duration;

use engine::RestCause;
use tokio::sync::Notify;
use tokio::time::sleep;

use super::events::{EventCommand, EventWatch, RigEvent};
use super::fruitless::{FruitlessStep, FruitlessWatch, FruitlessWork};
use super::heat::{HeatChange, HeatLimits, HeatWatch};
use super::hours::{RestHours, TimeOfDay};
use crate::monitor::RigMonitor;

/// Time between two checks.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// The dangers that a rig is protected from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CareConfig {
    /// Cards that are too hot rest.
    pub heat: Option<HeatLimits>,
    /// The rig rests at these hours.
    pub hours: Option<RestHours>,
    /// A device that finds nothing although it should have found so many solutions works in vain.
    /// `None`: that is not watched.
    pub fruitless_after: Option<f64>,
    /// Whether the rig ends if nothing has helped a device that works in vain.
    pub ends_if_fruitless: bool,
    /// The command that is run for each event. `None`: none is.
    pub on_event: Option<String>,
}

/// Watches over the rig of `monitor`. Returns the reason if the rig is to end. `reconnect` makes
/// the client connect anew.
pub(super) async fn watch(monitor: &RigMonitor, config: CareConfig, reconnect: &Notify) -> String {
    let mut heat = HeatWatch::default();
    let mut fruitless = config.fruitless_after.map(FruitlessWatch::new);
    let (mut events, command) = (EventWatch::default(), EventCommand::new(config.on_event));
    let mut rested = false;
    loop {
        sleep(CHECK_EVERY).await;
        let report = monitor.report();
        events.check(&report).iter().for_each(|event| command.run(event));
        if let Some(limits) = config.heat {
            for (index, change) in heat.check(&report.devices, limits) {
                let name = &report.devices[index].status.name;
                if let HeatChange::Rest { temperature_c } = change {
                    command.run(&RigEvent::new("too_hot", name, format!("{temperature_c} °C")));
                }
                apply_heat(monitor, index, name, change, limits);
            }
        }
        if let Some(hours) = config.hours {
            let rests = hours.contain(TimeOfDay::now());
            // A device that was added meanwhile rests, too.
            for index in 0..report.devices.len() {
                monitor.set_rest(index, RestCause::Hours, rests);
            }
            if rests && !rested {
                tracing::info!("the rig rests until {}, because power is dear", hours.resume_at);
            } else if rested && !rests {
                tracing::info!("the rig goes on until {}", hours.pause_at);
            }
            rested = rests;
        }
        let works = fruitless.as_mut().map(|watch| watch.check(&report));
        for work in works.unwrap_or_default() {
            let is_last = apply_fruitless(monitor, &work, reconnect);
            if is_last {
                command.run(&RigEvent::new("fruitless", "", work.reason.to_string()));
            }
            if is_last && config.ends_if_fruitless {
                return work.reason.to_string();
            }
        }
    }
}

fn apply_heat(monitor: &RigMonitor, index: usize, name: &str, change: HeatChange, limits: HeatLimits) {
    match change {
        HeatChange::Rest { temperature_c } => {
            monitor.set_rest(index, RestCause::Heat, true);
            tracing::warn!(
                device = name,
                temperature_c,
                "too hot: it rests until it has {} °C",
                limits.start_c
            );
        }
        HeatChange::GoOn { temperature_c } => {
            monitor.set_rest(index, RestCause::Heat, false);
            tracing::info!(device = name, temperature_c, "cool again: it goes on");
        }
        HeatChange::Unknown => {
            tracing::warn!(
                device = name,
                "--tstop has no effect: the system does not show the temperature"
            );
        }
    }
}

/// Returns whether only a person can help.
fn apply_fruitless(monitor: &RigMonitor, work: &FruitlessWork, reconnect: &Notify) -> bool {
    let FruitlessWork { step, device, reason } = work;
    match step {
        FruitlessStep::Reconnect => {
            tracing::warn!("{reason}: the miner connects anew");
            reconnect.notify_one();
        }
        FruitlessStep::Restart => {
            tracing::warn!("{reason}, also after a new connection: its cards begin anew");
            monitor.restart(*device);
        }
        FruitlessStep::Say => {
            tracing::error!("{reason}, also after a new connection and a new start of its cards");
        }
    }
    *step == FruitlessStep::Say
}
