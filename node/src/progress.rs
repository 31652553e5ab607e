//! Shows the progress of a command: as a bar on a terminal, otherwise as a line in the log from
//! time to time.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::options::VnodeOptions;

/// Time between two lines in the log.
const LOG_INTERVAL: Duration = Duration::from_secs(8);
/// Most redraws of the bar per second.
const BAR_HERTZ: u8 = 10;

/// Progress of one command.
pub struct CommandProgress {
    /// The present work, as the log names it.
    phase: &'static str,
    bar: Option<ProgressBar>,
    started: Instant,
    last_logged: Instant,
    position: u64,
    total: u64,
}

impl CommandProgress {
    /// Starts with the phase `phase`, which has `total` of `units` to process; 0 if that is
    /// unknown.
    pub fn new(options: &VnodeOptions, phase: &'static str, units: ProgressUnits, total: u64) -> Self {
        let shown = std::io::stderr().is_terminal() && options.verbosity > 0 && !options.log.json;
        let now = Instant::now();
        Self {
            phase,
            bar: shown.then(|| bar(units, total)),
            started: now,
            last_logged: now,
            position: 0,
            total,
        }
    }

    /// Sets the position. `message` is called only if its text is shown.
    pub fn update(&mut self, position: u64, message: impl FnOnce() -> String) {
        self.position = position;
        if let Some(bar) = &self.bar {
            bar.set_position(position);
            bar.set_message(message());
        } else if self.last_logged.elapsed() >= LOG_INTERVAL {
            self.last_logged = Instant::now();
            let percent = (self.total > 0).then(|| format!("{:.1} %, ", self.percent()));
            tracing::info!("{}: {}{}", self.phase, percent.unwrap_or_default(), message());
        }
    }

    fn percent(&self) -> f64 {
        self.position as f64 / self.total.max(1) as f64 * 100.0
    }

    /// Changes to another phase, which has `total` units.
    pub fn set_phase(&mut self, phase: &'static str, total: u64) {
        if self.phase == phase && self.total == total {
            return;
        }
        self.phase = phase;
        self.total = total;
        if let Some(bar) = &self.bar {
            bar.set_length(total);
        }
    }

    /// Runs `work` while the bar is hidden, so that `work` may print.
    pub fn suspend<R>(&self, work: impl FnOnce() -> R) -> R {
        match &self.bar {
            Some(bar) => bar.suspend(work),
            None => work(),
        }
    }

    /// Removes the bar. Returns the seconds since the start, which are never 0.
    pub fn finish(self) -> f64 {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        self.seconds()
    }

    /// Seconds since the start, which are never 0.
    pub fn seconds(&self) -> f64 {
        self.started.elapsed().as_secs_f64().max(1e-6)
    }
}

/// The unit of a progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgressUnits {
    /// Bytes of a file.
    Bytes,
    /// Blocks or other items.
    Items,
}

fn bar(units: ProgressUnits, total: u64) -> ProgressBar {
    let target = ProgressDrawTarget::stderr_with_hz(BAR_HERTZ);
    let bar = ProgressBar::with_draw_target((total > 0).then_some(total), target);
    let template = match (units, total > 0) {
        (ProgressUnits::Bytes, true) => "[{bar:24}] {bytes}/{total_bytes} {msg} eta {eta}",
        (ProgressUnits::Bytes, false) => "{spinner} {bytes} {msg}",
        (ProgressUnits::Items, _) => "[{bar:24}] {pos}/{len} {msg}",
    };
    // The templates are constants that parse. If one did not, the default style would show it.
    bar.set_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}
