//! Events of a rig, for which its owner can have a command run: lost cards and pools, heat, blocks.
//!
//! Compares reports. The command gets the event in its environment: `MINER_EVENT` has the name,
//! `MINER_SUBJECT` the device or the endpoint, `MINER_TEXT` a sentence.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use engine::DeviceState;
use engine::monitor::RigReport;

/// A rig without an endpoint for so many checks has lost its pool. A connection is often back at
/// once.
const CHECKS_UNTIL_LOST: u32 = 30;
/// The most commands that run at the same time. Events beyond them get none.
const COMMANDS_MAX: usize = 8;

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RigEvent {
    pub(super) name: &'static str,
    pub(super) subject: String,
    pub(super) text: String,
}

impl RigEvent {
    pub(super) fn new(name: &'static str, subject: &str, text: impl Into<String>) -> Self {
        Self {
            name,
            subject: subject.to_owned(),
            text: text.into(),
        }
    }
}

/// The state at the last check.
#[derive(Debug, Default)]
pub(super) struct EventWatch {
    /// Whether each device is out of use.
    lost: Vec<bool>,
    without_endpoint: u32,
    accepted: u64,
}

impl EventWatch {
    /// The events since the last check.
    pub(super) fn check(&mut self, report: &RigReport) -> Vec<RigEvent> {
        let mut events = Vec::new();
        self.lost.resize(report.devices.len(), false);
        for (lost, device) in self.lost.iter_mut().zip(&report.devices) {
            let name = &device.status.name;
            match &device.status.state {
                DeviceState::Failed { reason } | DeviceState::Recovering { reason } if !*lost => {
                    *lost = true;
                    events.push(RigEvent::new("card_lost", name, reason));
                }
                DeviceState::Searching { .. } if *lost => {
                    *lost = false;
                    events.push(RigEvent::new("card_back", name, "it searches again"));
                }
                _ => {}
            }
        }
        let active = report.client.active();
        if let Some(endpoint) = active {
            if self.without_endpoint >= CHECKS_UNTIL_LOST {
                events.push(RigEvent::new("pool_back", &endpoint.url, "it gives work again"));
            }
            self.without_endpoint = 0;
        } else {
            self.without_endpoint = self.without_endpoint.saturating_add(1);
            if self.without_endpoint == CHECKS_UNTIL_LOST {
                let preferred = report.client.endpoints.first();
                let url = preferred.map_or("", |endpoint| endpoint.url.as_str());
                let reason = preferred.and_then(|endpoint| endpoint.last_error.clone());
                events.push(RigEvent::new("pool_lost", url, reason.unwrap_or_default()));
            }
        }
        let accepted = report.client.total().accepted;
        // A share of a pool is no block.
        if accepted > self.accepted
            && let Some(node) = active.filter(|endpoint| endpoint.url.starts_with("http"))
        {
            let text = format!("{accepted} accepted since the start");
            events.push(RigEvent::new("block_found", &node.url, text));
        }
        self.accepted = accepted;
        events
    }
}

/// Runs the owner's command for events.
#[derive(Debug)]
pub(super) struct EventCommand {
    command: Option<String>,
    running: Arc<AtomicUsize>,
}

impl EventCommand {
    /// `None`: nothing is run.
    pub(super) fn new(command: Option<String>) -> Self {
        Self {
            command,
            running: Arc::default(),
        }
    }

    /// Runs the command for `event`, without waiting for its end.
    pub(super) fn run(&self, event: &RigEvent) {
        let Some(command) = &self.command else { return };
        if self.running.fetch_add(1, Ordering::Relaxed) >= COMMANDS_MAX {
            self.running.fetch_sub(1, Ordering::Relaxed);
            tracing::warn!(
                event = event.name,
                "no command: {COMMANDS_MAX} of them have not ended yet"
            );
            return;
        }
        let (shell, flag) = if cfg!(windows) {
            ("cmd", "/C")
        } else {
            ("sh", "-c")
        };
        let mut process = Command::new(shell);
        process
            .args([flag, command])
            .env("MINER_EVENT", event.name)
            .env("MINER_SUBJECT", &event.subject)
            .env("MINER_TEXT", &event.text)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let (running, name) = (Arc::clone(&self.running), event.name);
        let started = std::thread::Builder::new().name("event".into()).spawn(move || {
            match process.status() {
                Ok(status) if status.success() => {}
                Ok(status) => tracing::warn!(event = name, "the command of --on-event failed: {status}"),
                Err(error) => tracing::warn!(event = name, "the command of --on-event cannot run: {error}"),
            }
            running.fetch_sub(1, Ordering::Relaxed);
        });
        if let Err(error) = started {
            self.running.fetch_sub(1, Ordering::Relaxed);
            tracing::warn!(
                event = event.name,
                "no thread for the command of --on-event: {error}"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use engine::testing::sample_report;

    use super::*;

    #[test]
    fn lost_cards_lost_pools_and_blocks_are_events() {
        let (mut watch, mut report) = (EventWatch::default(), sample_report());
        let mut names = |report: &RigReport| -> Vec<_> {
            let events = watch.check(report);
            events
                .into_iter()
                .map(|event| (event.name, event.subject))
                .collect()
        };
        let event = |name: &'static str, subject: &str| (name, subject.to_owned());
        let first = [event("card_lost", "gpu:1"), event("block_found", "http://a:8545")];
        assert_eq!(names(&report), first);
        assert_eq!(names(&report), []);
        report.devices[1].status.state = DeviceState::Searching { epoch: 3 };
        report.client.devices[0].accepted += 1;
        report.client.endpoints[0].active = false;
        assert_eq!(
            names(&report),
            [event("card_back", "gpu:1")],
            "who gave the work is not known"
        );
        let lost: Vec<_> = (1..100).flat_map(|_| names(&report)).collect();
        assert_eq!(lost, [event("pool_lost", "http://a:8545")]);
        report.client.endpoints[0].active = true;
        assert_eq!(names(&report), [event("pool_back", "http://a:8545")]);
    }

    #[cfg(unix)]
    #[test]
    fn the_command_knows_the_event() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("event");
        let script = format!(
            "printf '%s|%s|%s' \"$MINER_EVENT\" \"$MINER_SUBJECT\" \"$MINER_TEXT\" > {0}.new && mv {0}.new {0}",
            file.display()
        );
        EventCommand::new(Some(script)).run(&RigEvent::new("too_hot", "gpu:0", "90 °C; $(exit)"));
        let start = Instant::now();
        while !file.exists() {
            assert!(
                start.elapsed() < Duration::from_secs(20),
                "the command does not run"
            );
            std::thread::sleep(Duration::from_millis(2));
        }
        assert_eq!(
            std::fs::read_to_string(file).expect("it exists"),
            "too_hot|gpu:0|90 °C; $(exit)"
        );
    }
}
