//! Finds devices and connections that work in vain: a device that finds nothing although it should
//! have, and solutions that are all too late.
//!
//! A device that computes N hashes at difficulty D finds N / D solutions on average. If it has
//! found none although 20 were to be expected, chance is no explanation: that happens once in 500
//! million times. Knows counts only, no clock.

use core::fmt;

use engine::monitor::RigReport;
use ethash::U256;

/// So many solutions in a row that are all too late are no chance either.
const STALE_RUN_MAX: u64 = 20;
/// The shortest time in seconds that a solution takes the rig. Below it several devices race for
/// each job, and the slower one may never win, so its hashes are not counted.
const INTERVAL_MIN: f64 = 5.0;

/// The next thing to do. Each step follows if the one before has not helped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FruitlessStep {
    /// Connect to the endpoint again.
    Reconnect,
    /// Let the card begin anew, or all cards.
    Restart,
    /// Only a person can help.
    Say,
}

/// Work in vain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FruitlessWork {
    pub(super) step: FruitlessStep,
    /// The index of the device; `None` if all solutions are too late.
    pub(super) device: Option<usize>,
    /// The name of the device, and what it has not found.
    pub(super) reason: FruitlessReason,
}

/// The sign of work in vain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FruitlessReason {
    /// A device has found nothing.
    NothingFound { device: String, expected: u64 },
    /// Solutions came too late.
    AllStale { solutions: u64 },
}

impl fmt::Display for FruitlessReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NothingFound { device, expected } => {
                write!(
                    f,
                    "{device} has found nothing, although about {expected} solutions were to be expected"
                )
            }
            Self::AllStale { solutions } => write!(f, "the last {solutions} solutions were all too late"),
        }
    }
}

/// A count that leads to the next step when it is full.
#[derive(Debug, Default)]
struct Steps(u32);

impl Steps {
    const fn next(&mut self) -> FruitlessStep {
        self.0 = self.0.saturating_add(1);
        match self.0 {
            1 => FruitlessStep::Reconnect,
            2 => FruitlessStep::Restart,
            _ => FruitlessStep::Say,
        }
    }
}

#[derive(Debug, Default)]
struct DeviceLuck {
    hashes: u64,
    solutions: u64,
    /// Solutions to be expected since the last one, or since the last step.
    expected: f64,
    steps: Steps,
}

/// Compares what was found with what was to be expected.
#[derive(Debug)]
pub(super) struct FruitlessWatch {
    /// A step follows after so many expected solutions.
    limit: f64,
    devices: Vec<DeviceLuck>,
    accepted: u64,
    stale: u64,
    stale_run: u64,
    stale_steps: Steps,
}

impl FruitlessWatch {
    pub(super) fn new(limit: f64) -> Self {
        Self {
            limit,
            devices: Vec::new(),
            accepted: 0,
            stale: 0,
            stale_run: 0,
            stale_steps: Steps::default(),
        }
    }

    /// The findings since the last check.
    pub(super) fn check(&mut self, report: &RigReport) -> Vec<FruitlessWork> {
        let mut found = Vec::new();
        let difficulty = report.client.job.map(|job| job.difficulty);
        let difficulty = difficulty.map(|difficulty: U256| f64::from(difficulty).max(1.0));
        let races = difficulty.is_none_or(|difficulty| difficulty < report.engine.hashrate * INTERVAL_MIN);
        self.devices
            .resize_with(report.devices.len(), DeviceLuck::default);
        for (index, (luck, device)) in self.devices.iter_mut().zip(&report.devices).enumerate() {
            let status = &device.status;
            let hashes = status.hashes.saturating_sub(luck.hashes);
            luck.hashes = status.hashes;
            if status.solutions != luck.solutions {
                luck.solutions = status.solutions;
                luck.expected = 0.0;
                luck.steps = Steps::default();
                continue;
            }
            let Some(difficulty) = difficulty.filter(|_| !races) else {
                continue;
            };
            luck.expected += hashes as f64 / difficulty;
            if luck.expected >= self.limit {
                let expected = luck.expected as u64;
                luck.expected = 0.0;
                found.push(FruitlessWork {
                    step: luck.steps.next(),
                    device: Some(index),
                    reason: FruitlessReason::NothingFound {
                        device: status.name.clone(),
                        expected,
                    },
                });
            }
        }
        found.extend(self.check_answers(report));
        found
    }

    fn check_answers(&mut self, report: &RigReport) -> Option<FruitlessWork> {
        let total = report.client.total();
        let (accepted, stale) = (
            total.accepted > self.accepted,
            total.stale - self.stale.min(total.stale),
        );
        (self.accepted, self.stale) = (total.accepted, total.stale);
        if accepted {
            self.stale_run = 0;
            self.stale_steps = Steps::default();
            return None;
        }
        self.stale_run += stale;
        if self.stale_run < STALE_RUN_MAX {
            return None;
        }
        let solutions = std::mem::take(&mut self.stale_run);
        Some(FruitlessWork {
            step: self.stale_steps.next(),
            device: None,
            reason: FruitlessReason::AllStale { solutions },
        })
    }
}

#[cfg(test)]
mod tests {
    use engine::JobStatus;
    use engine::testing::sample_report;
    use ethash::{B256, Epoch};

    use super::*;

    /// A rig of 50 MH/s whose job takes 20 seconds on average.
    fn report() -> RigReport {
        let mut report = sample_report();
        report.client.job = Some(JobStatus {
            header_hash: B256::ZERO,
            epoch: Epoch::ethash(3),
            number: None,
            difficulty: U256::from(1_000_000_000),
        });
        report
    }

    #[test]
    fn a_device_that_finds_nothing_is_taken_up_step_by_step() {
        let (mut watch, mut report) = (FruitlessWatch::new(20.0), report());
        assert_eq!(watch.check(&report), [], "the counts of the start");
        let mut steps = Vec::new();
        // Device 1 computes 5 solutions' worth a round and finds none, device 0 finds each.
        for round in 1..=17 {
            for device in &mut report.devices {
                device.status.hashes += 5_000_000_000;
            }
            report.devices[0].status.solutions += 1;
            steps.extend(
                watch
                    .check(&report)
                    .into_iter()
                    .map(|work| (round, work.device, work.step)),
            );
        }
        let device = Some(1);
        assert_eq!(
            steps,
            [
                (4, device, FruitlessStep::Reconnect),
                (8, device, FruitlessStep::Restart),
                (12, device, FruitlessStep::Say),
                (16, device, FruitlessStep::Say),
            ]
        );
        report.devices[1].status.solutions += 1;
        watch.check(&report);
        report.devices[1].status.hashes += 20_000_000_000;
        let work = watch.check(&report);
        assert_eq!(
            work[0].step,
            FruitlessStep::Reconnect,
            "a solution begins the steps anew"
        );
        assert!(
            work[0]
                .reason
                .to_string()
                .starts_with("gpu:1 has found nothing, although about 20")
        );
    }

    #[test]
    fn a_race_for_easy_jobs_proves_nothing() {
        let (mut watch, mut report) = (FruitlessWatch::new(20.0), report());
        watch.check(&report);
        for difficulty in [None, Some(100_000_000_u64)] {
            report.client.job = report.client.job.map(|job| JobStatus {
                difficulty: U256::from(difficulty.unwrap_or(1)),
                ..job
            });
            report.devices[1].status.hashes += 1 << 50;
            assert_eq!(watch.check(&report), []);
        }
        report.client.job = None;
        report.devices[1].status.hashes += 1 << 50;
        assert_eq!(watch.check(&report), []);
    }

    #[test]
    fn solutions_that_are_all_late_are_noticed() {
        let (mut watch, mut report) = (FruitlessWatch::new(20.0), report());
        watch.check(&report);
        let mut steps = Vec::new();
        for _ in 0..60 {
            report.client.devices[0].stale += 1;
            steps.extend(
                watch
                    .check(&report)
                    .into_iter()
                    .map(|work| (work.device, work.step)),
            );
        }
        let expected = [
            FruitlessStep::Reconnect,
            FruitlessStep::Restart,
            FruitlessStep::Say,
        ];
        assert_eq!(steps, expected.map(|step| (None, step)));
        for _ in 0..100 {
            report.client.devices[0].stale += 10;
            report.client.devices[0].accepted += 1;
            assert_eq!(watch.check(&report), []);
        }
    }
}
