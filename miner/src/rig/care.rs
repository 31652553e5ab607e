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
use super::hours::RestHours;
use super::prices::{PowerPrices, PriceMoment, PriceReading};
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
    /// The prices of power by time. `None`: power always costs the same.
    pub prices: Option<PowerPrices>,
    /// The rig rests while power costs more than this.
    pub price_max: Option<f64>,
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
pub(super) async fn watch(monitor: &RigMonitor, mut config: CareConfig, reconnect: &Notify) -> String {
    let mut heat = HeatWatch::default();
    let mut fruitless = config.fruitless_after.map(FruitlessWatch::new);
    let (mut events, command) = (EventWatch::default(), EventCommand::new(config.on_event.take()));
    let mut power = PowerWatch::default();
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
        if config.hours.is_some() || config.prices.is_some() {
            let rests = power.check(&mut config, PriceMoment::now());
            monitor.set_power_price(power.price);
            // A device that was added meanwhile rests, too.
            for index in 0..report.devices.len() {
                monitor.set_rest(index, RestCause::Hours, rests);
            }
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

/// The hours and the prices at the last check.
#[derive(Debug, Default)]
struct PowerWatch {
    rests: bool,
    price: Option<f64>,
    /// The log says already that there is no price for the present.
    unknown_is_said: bool,
}

impl PowerWatch {
    /// Returns whether the rig is to rest, because of the hour or the price.
    fn check(&mut self, config: &mut CareConfig, now: PriceMoment) -> bool {
        let by_hour = config.hours.filter(|hours| hours.contain(now.time_of_day));
        if let Some(prices) = &mut config.prices {
            let PriceReading { price, change } = prices.check(now);
            match change {
                Some(Ok(())) => tracing::info!("the prices of power were read again"),
                Some(Err(error)) => {
                    tracing::error!("--price-file: {error}; the prices that were read before stay");
                }
                None => {}
            }
            if price.is_none() && !self.unknown_is_said {
                tracing::warn!("--price-file has no price for the present; it stops nobody from mining");
            }
            self.unknown_is_said = price.is_none();
            self.price = price;
        }
        let too_dear = self
            .price
            .zip(config.price_max)
            .filter(|(price, max)| price > max);
        let rests = by_hour.is_some() || too_dear.is_some();
        if rests != self.rests {
            match (by_hour, too_dear) {
                (Some(hours), _) => {
                    tracing::info!("the rig rests until {}, because power is dear", hours.resume_at);
                }
                (None, Some((price, max))) => {
                    tracing::info!(price, max, "the rig rests until power is cheaper");
                }
                (None, None) => tracing::info!(price = self.price, "the rig goes on"),
            }
        }
        self.rests = rests;
        rests
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

#[cfg(test)]
mod tests {
    use super::super::hours::TimeOfDay;
    use super::*;

    #[test]
    fn dear_hours_and_dear_power_make_a_rig_rest() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("prices");
        let write = |text: &str| std::fs::write(&path, text).expect("written");
        write("1970-01-01T00:00Z 0.1\n1970-01-01T01:00Z 0.3\n1970-01-01T02:00Z 0.2\n");
        let time = |text: &str| text.parse::<TimeOfDay>().expect(text);
        let mut config = CareConfig {
            hours: Some(RestHours {
                pause_at: time("00:10"),
                resume_at: time("00:20"),
            }),
            prices: Some(PowerPrices::open(&path).expect("good prices")),
            price_max: Some(0.25),
            ..CareConfig::default()
        };
        let mut power = PowerWatch::default();
        // The clock of the test: minutes since 1970.
        let mut at = |minutes: u64| {
            let time_of_day = time(&format!("{}:{:02}", minutes / 60 % 24, minutes % 60));
            let unix_secs = minutes * 60;
            let rests = power.check(
                &mut config,
                PriceMoment {
                    unix_secs,
                    time_of_day,
                },
            );
            (rests, power.price)
        };
        assert_eq!(at(9), (false, Some(0.1)));
        assert_eq!(at(10), (true, Some(0.1)), "the hour");
        assert_eq!(at(20), (false, Some(0.1)));
        assert_eq!(at(60), (true, Some(0.3)), "the price");
        write("1970-01-01T00:00Z 0.1\nfree");
        assert_eq!(at(119), (true, Some(0.3)), "a bad file changes nothing");
        assert_eq!(at(120), (false, Some(0.2)));
        assert_eq!(at(180), (false, None), "nobody knows the price");
        write("1970-01-01T03:00Z 9\n");
        assert_eq!(at(180), (true, Some(9.0)), "read again");
        assert_eq!(at(240), (false, None));
    }
}
