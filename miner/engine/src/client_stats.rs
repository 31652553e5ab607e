//! Counts of answered solutions by device, the state of the endpoints, and the current job. The
//! status page, the log and the table read them.

use std::time::Duration;

use ethash::{B256, Epoch, U256};
use parking_lot::Mutex;

use crate::search::SearchTask;

/// Counts of solutions by their answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShareCounts {
    /// Accepted.
    pub accepted: u64,
    /// Too late: accepted as stale, rejected as stale, or not sent because the job was over.
    pub stale: u64,
    /// Rejected for another reason.
    pub rejected: u64,
    /// Without an answer, because the connection broke.
    pub lost: u64,
    /// Sent, but the answer cannot be understood. They may count or not.
    pub unknown: u64,
}

impl ShareCounts {
    /// The fraction of answered solutions that were too late, from 0 to 1. `None` if there are no
    /// answers.
    pub fn stale_share(&self) -> Option<f64> {
        let answered = self.accepted + self.stale + self.rejected;
        (answered > 0).then(|| self.stale as f64 / answered as f64)
    }
}

/// The state and history of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointStatus {
    /// The address, without user and password.
    pub url: String,
    /// Whether the current work comes from this endpoint.
    pub active: bool,
    /// Number of successful connections.
    pub connections: u64,
    /// Number of connections that failed or broke.
    pub failures: u64,
    /// The error of the last failure.
    pub last_error: Option<String>,
    /// Number of messages that could not be understood and were skipped.
    pub skipped: u64,
}

/// The job that is being searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobStatus {
    /// The header hash.
    pub header_hash: B256,
    /// The epoch.
    pub epoch: Epoch,
    /// The block number, if it is known.
    pub number: Option<u64>,
    /// The average number of hashes until a solution is found.
    pub difficulty: U256,
}

/// The state of a client at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientStatus {
    /// Counts by device, in the engine's order. The list ends at the last device that has had an
    /// answer.
    pub devices: Vec<ShareCounts>,
    /// Endpoints in order of preference.
    pub endpoints: Vec<EndpointStatus>,
    /// The current job; `None` while the engine is paused.
    pub job: Option<JobStatus>,
    /// Number of jobs since the start.
    pub jobs: u64,
    /// Number of jobs of another epoch than the one before.
    pub epoch_changes: u64,
    /// The epoch of the last job.
    pub last_epoch: Option<Epoch>,
    /// Time from sending the last answered solution to its answer.
    pub last_answer: Option<Duration>,
}

impl ClientStatus {
    /// The sum of the counts of all devices.
    pub fn total(&self) -> ShareCounts {
        self.devices
            .iter()
            .fold(ShareCounts::default(), |sum, counts| ShareCounts {
                accepted: sum.accepted + counts.accepted,
                stale: sum.stale + counts.stale,
                rejected: sum.rejected + counts.rejected,
                lost: sum.lost + counts.lost,
                unknown: sum.unknown + counts.unknown,
            })
    }

    /// The endpoint that gives the current work.
    pub fn active(&self) -> Option<&EndpointStatus> {
        self.endpoints.iter().find(|endpoint| endpoint.active)
    }
}

/// Collects the [`ClientStatus`]. The connections write it, the displays read it.
#[derive(Debug, Default)]
pub struct ClientStats {
    status: Mutex<ClientStatus>,
}

impl ClientStats {
    /// Empty statistics for the endpoints with these addresses.
    pub fn new(urls: impl IntoIterator<Item = String>) -> Self {
        let endpoint = |url| EndpointStatus {
            url,
            active: false,
            connections: 0,
            failures: 0,
            last_error: None,
            skipped: 0,
        };
        Self {
            status: Mutex::new(ClientStatus {
                endpoints: urls.into_iter().map(endpoint).collect(),
                ..ClientStatus::default()
            }),
        }
    }

    /// The current state.
    pub fn status(&self) -> ClientStatus {
        self.status.lock().clone()
    }

    /// Changes the counts of `device`.
    pub fn count(&self, device: usize, change: impl FnOnce(&mut ShareCounts)) {
        let mut status = self.status.lock();
        if status.devices.len() <= device {
            status.devices.resize(device + 1, ShareCounts::default());
        }
        change(&mut status.devices[device]);
    }

    /// Counts an answer to a solution of `device`, which came after the time `took`.
    pub fn count_answer(&self, device: usize, took: Duration, change: impl FnOnce(&mut ShareCounts)) {
        self.count(device, change);
        self.status.lock().last_answer = Some(took);
    }

    /// Counts a solution of `device` that was not sent, or got no answer that says how it counts.
    pub fn count_unanswered(&self, device: usize, change: impl FnOnce(&mut ShareCounts)) {
        self.count(device, change);
    }

    /// Sets the current job; `None` while the engine is paused.
    pub fn set_job(&self, task: Option<&SearchTask>) {
        let mut status = self.status.lock();
        let job = task.map(|task| JobStatus {
            header_hash: task.work.header_hash,
            epoch: task.work.epoch,
            number: task.work.number,
            difficulty: difficulty(&task.work.boundary),
        });
        if job.is_some() && job != status.job {
            status.jobs += 1;
        }
        if let Some(job) = job {
            let before = status.last_epoch.replace(job.epoch);
            status.epoch_changes += u64::from(before.is_some_and(|before| before != job.epoch));
        }
        status.job = job;
    }

    /// Notes that endpoint `index` is connected and gives the work.
    pub fn set_connected(&self, index: usize) {
        let mut status = self.status.lock();
        for (i, endpoint) in status.endpoints.iter_mut().enumerate() {
            endpoint.active = i == index;
        }
        if let Some(endpoint) = status.endpoints.get_mut(index) {
            endpoint.connections += 1;
        }
    }

    /// Notes that no endpoint gives work.
    pub fn set_disconnected(&self) {
        let mut status = self.status.lock();
        for endpoint in &mut status.endpoints {
            endpoint.active = false;
        }
    }

    /// Counts a message of endpoint `index` that was skipped.
    pub fn count_skipped(&self, index: usize) {
        if let Some(endpoint) = self.status.lock().endpoints.get_mut(index) {
            endpoint.skipped += 1;
        }
    }

    /// Counts a failure of endpoint `index`.
    pub fn count_failure(&self, index: usize, reason: String) {
        if let Some(endpoint) = self.status.lock().endpoints.get_mut(index) {
            endpoint.failures += 1;
            endpoint.last_error = Some(reason);
        }
    }
}

/// The difficulty of a boundary: 2^256 / boundary, at most 2^256 - 1.
pub fn difficulty(boundary: &B256) -> U256 {
    U256::from_be_bytes(ethash::boundary(&U256::from_be_bytes(boundary.0)).0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_kept_by_device_and_summed() {
        let stats = ClientStats::new(["http://a:8545".into(), "http://b:8545".into()]);
        stats.count_answer(2, Duration::ZERO, |counts| counts.accepted += 1);
        stats.count_answer(0, Duration::ZERO, |counts| counts.accepted += 1);
        stats.count_unanswered(2, |counts| counts.lost += 1);
        stats.set_connected(1);
        stats.count_failure(0, "down".into());
        let status = stats.status();
        assert_eq!((status.total().accepted, status.total().lost), (2, 1));
        assert_eq!(
            (status.devices[1], status.devices[2].lost),
            (ShareCounts::default(), 1)
        );
        assert_eq!(
            status.active().map(|endpoint| endpoint.url.as_str()),
            Some("http://b:8545")
        );
        assert_eq!(status.endpoints[0].last_error.as_deref(), Some("down"));
        stats.set_disconnected();
        assert_eq!(stats.status().active(), None);
    }

    #[test]
    fn difficulty_follows_from_the_boundary() {
        for number in [1_u64, 512, 131_072, 1 << 40] {
            assert_eq!(
                difficulty(&ethash::boundary(&U256::from(number))),
                U256::from(number)
            );
        }
        assert_eq!(difficulty(&B256::ZERO), U256::MAX);
    }
}
