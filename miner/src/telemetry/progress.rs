//! Shows how far a dataset is: on the device's dials, and by a bar on a terminal or a line every few seconds
//! elsewhere.

use std::io::IsTerminal;
use std::sync::Arc;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use super::device::{DatasetProgress, DeviceTelemetry};

/// Between two lines of the log.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// One piece of long work, as its user sees it.
pub(crate) struct ProgressReporter {
    what: String,
    bar: Option<ProgressBar>,
    dials: Option<(Arc<DeviceTelemetry>, u32)>,
    start: Instant,
    last_line: Instant,
}

impl ProgressReporter {
    /// Work called `what`, starting now.
    pub(crate) fn new(what: String) -> Self {
        Self::shown(what, true, None)
    }

    /// The same, shown on the dials of the device it is for, and by a bar only if `bars` are wanted.
    pub(crate) fn shown(what: String, bars: bool, dials: Option<(Arc<DeviceTelemetry>, u32)>) -> Self {
        let bar = (bars && std::io::stderr().is_terminal()).then(|| {
            // The template is fixed; were it ever wrong, the plain bar would do.
            let style = ProgressStyle::with_template("{msg} {wide_bar} {percent}% {eta}")
                .unwrap_or_else(|_| ProgressStyle::default_bar());
            ProgressBar::new(0).with_style(style).with_message(what.clone())
        });
        let start = Instant::now();
        Self {
            what,
            bar,
            dials,
            start,
            last_line: start,
        }
    }

    /// `done` of `total` items are finished.
    pub(crate) fn report(&mut self, done: u32, total: u32) {
        if let Some((telemetry, epoch)) = &self.dials {
            telemetry.set_dataset(Some(DatasetProgress {
                epoch: *epoch,
                done,
                total,
            }));
        }
        if let Some(bar) = &self.bar {
            bar.set_length(total.into());
            bar.set_position(done.into());
        } else if self.last_line.elapsed() >= LINE_EVERY && done > 0 {
            self.last_line = Instant::now();
            let seconds_left = seconds_left(self.start.elapsed(), done, total);
            tracing::info!(
                percent = u64::from(done) * 100 / u64::from(total.max(1)),
                seconds_left,
                "{}",
                self.what
            );
        }
    }

    /// The work has ended; says how long it took.
    pub(crate) fn end(self) -> Duration {
        if let Some((telemetry, _)) = &self.dials {
            telemetry.set_dataset(None);
        }
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
        self.start.elapsed()
    }
}

/// Seconds until the end at the pace so far.
fn seconds_left(elapsed: Duration, done: u32, total: u32) -> u64 {
    let left = f64::from(total.saturating_sub(done)) / f64::from(done.max(1));
    (elapsed.as_secs_f64() * left).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_estimate_goes_by_the_pace_so_far() {
        let check = |elapsed, done, total, left| {
            assert_eq!(
                seconds_left(Duration::from_secs(elapsed), done, total),
                left,
                "{done} of {total}"
            );
        };
        check(10, 25, 100, 30);
        check(10, 100, 100, 0);
        check(10, 101, 100, 0);
        check(1, 0, 100, 100);
    }
}
