//! Shows the progress of a dataset: in the status of its device, and as a bar on a terminal. If
//! there is no terminal, the log gets a line every few seconds.

use std::io::IsTerminal;
use std::sync::Arc;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use super::device::{DatasetProgress, DeviceTelemetry};

/// Time between two lines of the log.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// Reports the progress of one long task.
pub struct ProgressReporter {
    what: String,
    bar: Option<ProgressBar>,
    device: Option<(Arc<DeviceTelemetry>, u32)>,
    start: Instant,
    last_line: Instant,
}

impl ProgressReporter {
    /// Begins a task called `what`. Its progress is shown as a bar or in the log.
    pub fn new(what: String) -> Self {
        Self::shown(what, true, None)
    }

    /// Begins a task called `what`. Its progress is also shown in the status of a device, if one is
    /// given with the number of its epoch. There is a bar only if `bars` is set.
    pub(crate) fn shown(what: String, bars: bool, device: Option<(Arc<DeviceTelemetry>, u32)>) -> Self {
        let bar = (bars && std::io::stderr().is_terminal()).then(|| {
            // The template is a constant. If it were wrong, the default bar would be used.
            let style = ProgressStyle::with_template("{msg} {wide_bar} {percent}% {eta}")
                .unwrap_or_else(|_| ProgressStyle::default_bar());
            ProgressBar::new(0).with_style(style).with_message(what.clone())
        });
        let start = Instant::now();
        Self {
            what,
            bar,
            device,
            start,
            last_line: start,
        }
    }

    /// Records that `done` of `total` items are finished.
    pub fn report(&mut self, done: u32, total: u32) {
        if let Some((telemetry, epoch)) = &self.device {
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

    /// Ends the report, and returns how long the task took.
    pub fn end(self) -> Duration {
        if let Some((telemetry, _)) = &self.device {
            telemetry.set_dataset(None);
        }
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
        self.start.elapsed()
    }
}

/// Estimates the seconds until the end from the speed so far.
fn seconds_left(elapsed: Duration, done: u32, total: u32) -> u64 {
    let left = f64::from(total.saturating_sub(done)) / f64::from(done.max(1));
    (elapsed.as_secs_f64() * left).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_estimate_assumes_the_speed_so_far() {
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
