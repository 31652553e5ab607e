//! What a person at the rig sees: a live table in a terminal, plain lines elsewhere.
//!
//! Table and log share the terminal: a line of the log pushes the table down. Figures come from a
//! [`Report`]; nothing is computed here.

mod chart;
mod lines;
mod screen;
mod table;
mod units;

use std::convert::Infallible;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use crate::rig::{Monitor, Report};

pub use chart::{Bar, Chart, Group};
pub use screen::Screen;
pub use units::{byte_rate_text, rate_text};

/// Between two pictures of the table.
const REDRAW_EVERY: Duration = Duration::from_secs(1);

/// Shows what `monitor` sees, by a table where `screen` has one, else by a line each `log_every`.
/// Never ends.
pub(crate) async fn show(screen: &Screen, monitor: &Monitor, log_every: Duration) -> Infallible {
    let every = if screen.is_live() { REDRAW_EVERY } else { log_every };
    let mut ticks = interval(every.max(Duration::from_millis(100)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first tick comes at once, before there is anything to tell.
    ticks.tick().await;
    loop {
        ticks.tick().await;
        let report = monitor.report();
        if screen.is_live() {
            screen.draw(&table::rows(&report, screen.width(), screen.colours()));
        } else {
            lines::speed(&report);
        }
    }
}

/// The last line of the log: what the rig has done.
pub(crate) fn sum_up(report: &Report) {
    lines::sum_up(report);
}
