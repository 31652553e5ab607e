//! What became of solutions, by device; which endpoint is used; what is searched. For whoever shows
//! it.

use std::time::Duration;

use ethash::{B256, U256};
use parking_lot::Mutex;

use super::Endpoint;
use crate::search::SearchTask;

/// Answers to solutions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShareCounts {
    /// Taken.
    pub accepted: u64,
    /// Too late: taken as such, refused as such, or not even sent.
    pub stale: u64,
    /// Refused for another reason.
    pub rejected: u64,
    /// Without an answer, for the connection broke.
    pub lost: u64,
}

impl ShareCounts {
    /// The share of answered solutions that came too late, from 0 to 1; `None` before there was
    /// any.
    pub fn stale_share(&self) -> Option<f64> {
        let answered = self.accepted + self.stale + self.rejected;
        (answered > 0).then(|| self.stale as f64 / answered as f64)
    }
}

/// An endpoint, as it has been.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointStatus {
    /// Its address, without the login.
    pub url: String,
    /// Whether it gives the work now.
    pub active: bool,
    /// Times it was connected to.
    pub connections: u64,
    /// Times a connection failed or broke.
    pub failures: u64,
    /// Why the last time.
    pub last_error: Option<String>,
}

/// What is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobStatus {
    /// The header's hash.
    pub header_hash: B256,
    /// The epoch's number.
    pub epoch: u32,
    /// The block's number, where it is known.
    pub number: Option<u64>,
    /// Hashes that a solution takes on average.
    pub difficulty: U256,
}

/// All of it, at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LedgerStatus {
    /// By device, in the engine's order. Shorter than the engine's list while devices have had no
    /// answer.
    pub devices: Vec<ShareCounts>,
    /// Endpoints, the preferred one first.
    pub endpoints: Vec<EndpointStatus>,
    /// What is searched; `None` in a pause.
    pub job: Option<JobStatus>,
    /// Jobs since the start.
    pub jobs: u64,
    /// From a solution's way out to its answer, the last time.
    pub last_answer: Option<Duration>,
}

impl LedgerStatus {
    /// The answers for all devices.
    pub fn total(&self) -> ShareCounts {
        self.devices
            .iter()
            .fold(ShareCounts::default(), |sum, counts| ShareCounts {
                accepted: sum.accepted + counts.accepted,
                stale: sum.stale + counts.stale,
                rejected: sum.rejected + counts.rejected,
                lost: sum.lost + counts.lost,
            })
    }

    /// The endpoint that gives the work.
    pub fn active(&self) -> Option<&EndpointStatus> {
        self.endpoints.iter().find(|endpoint| endpoint.active)
    }
}

/// See the module. Shared by reference.
#[derive(Debug, Default)]
pub struct Ledger {
    status: Mutex<LedgerStatus>,
}

impl Ledger {
    /// A ledger for these endpoints.
    pub fn new(endpoints: &[Endpoint]) -> Self {
        let endpoint = |endpoint: &Endpoint| EndpointStatus {
            url: endpoint.to_string(),
            active: false,
            connections: 0,
            failures: 0,
            last_error: None,
        };
        Self {
            status: Mutex::new(LedgerStatus {
                endpoints: endpoints.iter().map(endpoint).collect(),
                ..LedgerStatus::default()
            }),
        }
    }

    /// All of it, as it is now.
    pub fn status(&self) -> LedgerStatus {
        self.status.lock().clone()
    }

    fn count(&self, device: usize, change: impl FnOnce(&mut ShareCounts)) {
        let mut status = self.status.lock();
        if status.devices.len() <= device {
            status.devices.resize(device + 1, ShareCounts::default());
        }
        change(&mut status.devices[device]);
    }

    /// A solution of `device` was answered, after `took`.
    pub(super) fn answered(&self, device: usize, took: Duration, change: impl FnOnce(&mut ShareCounts)) {
        self.count(device, change);
        self.status.lock().last_answer = Some(took);
    }

    /// A solution of `device` found no way out, or came too late to be sent.
    pub(super) fn unsent(&self, device: usize, change: impl FnOnce(&mut ShareCounts)) {
        self.count(device, change);
    }

    pub(super) fn searching(&self, task: Option<&SearchTask>) {
        let mut status = self.status.lock();
        let job = task.map(|task| JobStatus {
            header_hash: task.work.header_hash,
            epoch: task.work.epoch.index,
            number: task.work.number,
            difficulty: difficulty(&task.work.boundary),
        });
        if job.is_some() && job != status.job {
            status.jobs += 1;
        }
        status.job = job;
    }

    pub(super) fn connected(&self, index: usize) {
        let mut status = self.status.lock();
        for (place, endpoint) in status.endpoints.iter_mut().enumerate() {
            endpoint.active = place == index;
        }
        if let Some(endpoint) = status.endpoints.get_mut(index) {
            endpoint.connections += 1;
        }
    }

    pub(super) fn disconnected(&self) {
        let mut status = self.status.lock();
        for endpoint in &mut status.endpoints {
            endpoint.active = false;
        }
    }

    pub(super) fn failed(&self, index: usize, reason: String) {
        if let Some(endpoint) = self.status.lock().endpoints.get_mut(index) {
            endpoint.failures += 1;
            endpoint.last_error = Some(reason);
        }
    }
}

/// 2^256 / boundary, at most 2^256 - 1.
fn difficulty(boundary: &B256) -> U256 {
    U256::from_be_bytes(ethash::boundary(&U256::from_be_bytes(boundary.0)).0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_kept_by_device_and_summed() {
        let ledger = Ledger::new(&[
            "http://a".parse().expect("good"),
            "http://b".parse().expect("good"),
        ]);
        ledger.answered(2, Duration::ZERO, |counts| counts.accepted += 1);
        ledger.answered(0, Duration::ZERO, |counts| counts.accepted += 1);
        ledger.unsent(2, |counts| counts.lost += 1);
        ledger.connected(1);
        ledger.failed(0, "down".into());
        let status = ledger.status();
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
        ledger.disconnected();
        assert_eq!(ledger.status().active(), None);
    }

    #[test]
    fn difficulty_comes_back_from_a_boundary() {
        for number in [1_u64, 512, 131_072, 1 << 40] {
            assert_eq!(
                difficulty(&ethash::boundary(&U256::from(number))),
                U256::from(number)
            );
        }
        assert_eq!(difficulty(&B256::ZERO), U256::MAX);
    }
}
