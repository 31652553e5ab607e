//! How far a command is: a bar on a terminal, now and then a line in the log elsewhere.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::options::VnodeOptions;

/// How often a line goes to the log.
const LOG_INTERVAL: Duration = Duration::from_secs(8);
/// How often the bar is drawn, in hertz.
const BAR_HERTZ: u8 = 10;

/// A bar or a log.
pub(super) struct Progress {
    what: &'static str,
    bar: Option<ProgressBar>,
    started: Instant,
    logged: Instant,
    position: u64,
    total: u64,
}

impl Progress {
    /// Progress of `what`, of which there are `total` units (0: nobody knows), counted in `units`.
    pub(super) fn new(options: &VnodeOptions, what: &'static str, units: Units, total: u64) -> Self {
        let shown = std::io::stderr().is_terminal() && options.verbosity > 0 && !options.log_json;
        let now = Instant::now();
        Self {
            what,
            bar: shown.then(|| bar(units, total)),
            started: now,
            logged: now,
            position: 0,
            total,
        }
    }

    /// Says where it is; `words` are made only where they are shown.
    pub(super) fn at(&mut self, position: u64, words: impl FnOnce() -> String) {
        self.position = position;
        if let Some(bar) = &self.bar {
            bar.set_position(position);
            bar.set_message(words());
        } else if self.logged.elapsed() >= LOG_INTERVAL {
            self.logged = Instant::now();
            let part = (self.total > 0).then(|| format!("{:.1} %, ", self.percent()));
            tracing::info!("{}: {}{}", self.what, part.unwrap_or_default(), words());
        }
    }

    fn percent(&self) -> f64 {
        self.position as f64 / self.total.max(1) as f64 * 100.0
    }

    /// Says something else of which `total` are to be done.
    pub(super) fn begin(&mut self, what: &'static str, total: u64) {
        if self.what == what && self.total == total {
            return;
        }
        (self.what, self.total) = (what, total);
        if let Some(bar) = &self.bar {
            bar.set_length(total);
        }
    }

    /// Does something with the terminal free of the bar.
    pub(super) fn aside<R>(&self, work: impl FnOnce() -> R) -> R {
        match &self.bar {
            Some(bar) => bar.suspend(work),
            None => work(),
        }
    }

    /// Takes the bar away; gives the seconds since the beginning, never 0.
    pub(super) fn end(self) -> f64 {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        self.started.elapsed().as_secs_f64().max(1e-6)
    }

    /// Seconds since the beginning, never 0.
    pub(super) fn seconds(&self) -> f64 {
        self.started.elapsed().as_secs_f64().max(1e-6)
    }
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Units {
    Bytes,
    Things,
}

fn bar(units: Units, total: u64) -> ProgressBar {
    let target = ProgressDrawTarget::stderr_with_hz(BAR_HERTZ);
    let bar = ProgressBar::with_draw_target((total > 0).then_some(total), target);
    let template = match (units, total > 0) {
        (Units::Bytes, true) => "[{bar:24}] {bytes}/{total_bytes} {msg} eta {eta}",
        (Units::Bytes, false) => "{spinner} {bytes} {msg}",
        (Units::Things, _) => "[{bar:24}] {pos}/{len} {msg}",
    };
    // A template that does not parse would be a fault of this file; the plain bar shows it.
    bar.set_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}
