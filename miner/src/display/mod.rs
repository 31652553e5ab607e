//! Shows a rig: a live table in a terminal, log lines elsewhere.
//!
//! Table and log share the terminal: the log lines appear above the table. The values come from a
//! [`RigReport`]; nothing is measured here.

mod chart;
mod lines;
mod table;

use std::convert::Infallible;
use std::time::Duration;

use daemon::Screen;
use engine::monitor::RigReport;
use tokio::time::{MissedTickBehavior, interval};

use crate::monitor::RigMonitor;

pub use chart::{Bar, Chart, ChartGroup};

/// Time between two updates of the table.
const REDRAW_EVERY: Duration = Duration::from_secs(1);

/// Shows the reports of `monitor`: in a table if `screen` has one, otherwise in log lines every
/// `log_every`. Never returns.
pub(crate) async fn show(screen: &Screen, monitor: &RigMonitor, log_every: Duration) -> Infallible {
    let every = if screen.is_live() { REDRAW_EVERY } else { log_every };
    let mut ticks = interval(every.max(Duration::from_millis(100)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first tick comes at once, when there is nothing to show yet.
    ticks.tick().await;
    loop {
        ticks.tick().await;
        let report = monitor.report();
        if screen.is_live() {
            screen.draw(&table::rows(&report, screen.width(), screen.colours()));
        } else {
            lines::log_speed(&report);
        }
    }
}

/// Logs the totals since the start, when a rig ends.
pub(crate) fn log_totals(report: &RigReport) {
    lines::log_totals(report);
}
