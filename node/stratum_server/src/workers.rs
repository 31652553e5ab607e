//! Statistics of the workers: shares, blocks and hashrate.
//!
//! A worker is identified by its name. It may have several connections, and its statistics are kept
//! for a while after the last one ended. Knows no sockets.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Most workers that are kept. A new worker replaces the one whose last connection ended longest
/// ago. If all have connections, a new worker can mine but has no statistics. A worker without an
/// accepted share is kept only while it has a connection.
const WORKERS_MAX: usize = 16_384;
/// Length of one slot. The hashrate is computed over the last [`SLOTS`] slots.
const SLOT: Duration = Duration::from_secs(60);
/// Number of slots.
const SLOTS: usize = 10;

/// Statistics of one worker.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WorkerStats {
    pub(crate) name: String,
    pub(crate) connections: u64,
    pub(crate) accepted: u64,
    pub(crate) stale: u64,
    pub(crate) rejected: u64,
    pub(crate) blocks: u64,
    /// Hashes per second, from the difficulty of the shares of the last ten minutes.
    pub(crate) hashrate: f64,
    /// Hashes per second, as the worker reports them.
    pub(crate) reported: Option<u64>,
    /// Seconds since the last accepted share.
    pub(crate) last_share_secs: Option<u64>,
}

/// The result of a share in the statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkerShareResult {
    Accepted,
    Block,
    Stale,
    Rejected,
}

#[derive(Debug)]
struct WorkerRecord {
    connections: u64,
    accepted: u64,
    stale: u64,
    rejected: u64,
    blocks: u64,
    reported: Option<u64>,
    last_share: Option<Instant>,
    /// The time at which the record was created.
    since: Instant,
    /// The end of the last connection; `None` while there is a connection.
    gone_at: Option<Instant>,
    /// The slots of the last minutes, the oldest first.
    slots: VecDeque<HashSlot>,
}

/// Hashes within one slot of time.
#[derive(Debug)]
struct HashSlot {
    begin: Instant,
    hashes: f64,
}

/// The statistics of all workers.
#[derive(Debug, Default)]
pub(crate) struct WorkerRegistry {
    state: Mutex<WorkerRegistryState>,
}

#[derive(Debug, Default)]
struct WorkerRegistryState {
    records: HashMap<String, WorkerRecord>,
    /// Workers without a connection; first the one whose last connection ended longest ago.
    gone: BTreeSet<(Instant, String)>,
}

impl WorkerRegistry {
    /// Records that a worker has logged in.
    pub(crate) fn connected(&self, name: &str, now: Instant) {
        let WorkerRegistryState { records, gone } = &mut *self.state.lock();
        if !records.contains_key(name) && records.len() >= WORKERS_MAX {
            let Some((_, oldest)) = gone.pop_first() else {
                return;
            };
            records.remove(&oldest);
        }
        let record = records.entry(name.to_owned()).or_insert_with(|| WorkerRecord {
            connections: 0,
            accepted: 0,
            stale: 0,
            rejected: 0,
            blocks: 0,
            reported: None,
            last_share: None,
            since: now,
            gone_at: None,
            slots: VecDeque::new(),
        });
        if let Some(at) = record.gone_at.take() {
            gone.remove(&(at, name.to_owned()));
        }
        record.connections += 1;
    }

    /// Records that a connection of the worker has ended.
    pub(crate) fn disconnected(&self, name: &str, now: Instant) {
        let WorkerRegistryState { records, gone } = &mut *self.state.lock();
        let Some(record) = records.get_mut(name) else {
            return;
        };
        record.connections = record.connections.saturating_sub(1);
        if record.connections > 0 || record.gone_at.is_some() {
            return;
        }
        if record.accepted == 0 {
            records.remove(name);
        } else {
            record.gone_at = Some(now);
            gone.insert((now, name.to_owned()));
        }
    }

    /// Counts a share of `difficulty` hashes.
    pub(crate) fn count_share(&self, name: &str, result: WorkerShareResult, difficulty: f64, now: Instant) {
        let records = &mut self.state.lock().records;
        let Some(record) = records.get_mut(name) else {
            return;
        };
        match result {
            WorkerShareResult::Accepted => record.accepted += 1,
            WorkerShareResult::Block => {
                record.accepted += 1;
                record.blocks += 1;
            }
            WorkerShareResult::Stale => record.stale += 1,
            WorkerShareResult::Rejected => record.rejected += 1,
        }
        if matches!(result, WorkerShareResult::Accepted | WorkerShareResult::Block) {
            record.last_share = Some(now);
            record.add_hashes(difficulty, now);
        }
    }

    /// Records the hashrate that a worker reports, in hashes per second.
    pub(crate) fn set_reported_rate(&self, name: &str, rate: u64) {
        if let Some(record) = self.state.lock().records.get_mut(name) {
            record.reported = Some(rate);
        }
    }

    /// Hashes per second of all workers.
    pub(crate) fn hashrate(&self, now: Instant) -> f64 {
        let state = self.state.lock();
        let rates = state.records.values().map(|record| record.hashrate(now));
        rates.fold(0.0, |sum, rate| sum + rate)
    }

    /// The statistics of all workers, sorted by name.
    pub(crate) fn list(&self, now: Instant) -> Vec<WorkerStats> {
        let state = self.state.lock();
        let mut workers: Vec<_> = state
            .records
            .iter()
            .map(|(name, record)| record.stats(name, now))
            .collect();
        workers.sort_by(|one, other| one.name.cmp(&other.name));
        workers
    }
}

impl WorkerRecord {
    fn add_hashes(&mut self, hashes: f64, now: Instant) {
        match self.slots.back_mut() {
            Some(slot) if now.saturating_duration_since(slot.begin) < SLOT => slot.hashes += hashes,
            _ => self.slots.push_back(HashSlot { begin: now, hashes }),
        }
        while self.slots.len() > SLOTS {
            self.slots.pop_front();
        }
    }

    /// Hashes per second, from the difficulty of the shares of the last ten minutes.
    fn hashrate(&self, now: Instant) -> f64 {
        let span = SLOT * SLOTS as u32;
        let recent = self
            .slots
            .iter()
            .filter(|slot| now.saturating_duration_since(slot.begin) < span);
        // `sum` would give -0.0 for no slots.
        let hashes = recent.fold(0.0, |sum, slot| sum + slot.hashes);
        // For a new worker at least one slot counts, so that its first share gives no huge
        // hashrate.
        let seconds = now
            .saturating_duration_since(self.since)
            .min(span)
            .max(SLOT)
            .as_secs_f64();
        hashes / seconds
    }

    fn stats(&self, name: &str, now: Instant) -> WorkerStats {
        WorkerStats {
            name: name.to_owned(),
            connections: self.connections,
            accepted: self.accepted,
            stale: self.stale,
            rejected: self.rejected,
            blocks: self.blocks,
            hashrate: self.hashrate(now),
            reported: self.reported,
            last_share_secs: self
                .last_share
                .map(|at| now.saturating_duration_since(at).as_secs()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashrates_cover_the_last_minutes() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let workers = WorkerRegistry::default();
        workers.connected("a.b", start);
        for second in (0..1200).step_by(10) {
            workers.count_share("a.b", WorkerShareResult::Accepted, 1e7, at(second));
        }
        let worker = &workers.list(at(1200))[0];
        assert!((0.9e6..=1.1e6).contains(&worker.hashrate), "{}", worker.hashrate);
        assert_eq!((worker.accepted, worker.last_share_secs), (120, Some(10)));
        assert_eq!(workers.hashrate(at(1200)), worker.hashrate, "one worker is all");
        let silent = workers.list(at(3000))[0].hashrate;
        assert!(silent == 0.0 && silent.is_sign_positive(), "{silent}");
        workers.count_share("a.b", WorkerShareResult::Block, 1.0, at(3000));
        workers.count_share("a.b", WorkerShareResult::Stale, 1.0, at(3000));
        workers.count_share("nobody", WorkerShareResult::Accepted, 1.0, at(3000));
        workers.set_reported_rate("a.b", 77);
        workers.disconnected("a.b", at(3001));
        let worker = workers.list(at(3001)).remove(0);
        assert_eq!(
            (worker.accepted, worker.blocks, worker.stale, worker.connections),
            (121, 1, 1, 0)
        );
        assert_eq!(worker.reported, Some(77));
    }

    #[test]
    fn a_login_without_a_share_leaves_nothing() {
        let workers = WorkerRegistry::default();
        let now = Instant::now();
        workers.connected("a", now);
        workers.connected("a", now);
        workers.disconnected("a", now);
        assert_eq!(workers.list(now).len(), 1, "it has a connection");
        workers.disconnected("a", now);
        assert!(workers.list(now).is_empty());
    }

    #[test]
    fn the_number_of_names_is_bounded() {
        let workers = WorkerRegistry::default();
        let start = Instant::now();
        for number in 0..WORKERS_MAX + 10 {
            let now = start + Duration::from_millis(number as u64);
            workers.connected(&number.to_string(), now);
            workers.count_share(&number.to_string(), WorkerShareResult::Accepted, 1.0, now);
            workers.disconnected(&number.to_string(), now);
        }
        let names = workers.list(start);
        assert_eq!(names.len(), WORKERS_MAX);
        assert!(
            !names.iter().any(|worker| worker.name == "0"),
            "the oldest was replaced"
        );

        let workers = WorkerRegistry::default();
        for number in 0..WORKERS_MAX + 10 {
            workers.connected(&number.to_string(), start);
        }
        assert_eq!(workers.list(start).len(), WORKERS_MAX, "all have connections");
        let last = (WORKERS_MAX + 9).to_string();
        workers.count_share(&last, WorkerShareResult::Accepted, 1.0, start);
        workers.disconnected(&last, start);
        assert!(!workers.list(start).iter().any(|worker| worker.name == last));
        // A worker with two connections stays until both have ended; then it can be replaced.
        workers.count_share("7", WorkerShareResult::Accepted, 1.0, start);
        workers.connected("7", start);
        workers.disconnected("7", start);
        workers.connected("a", start);
        assert!(workers.list(start).iter().any(|worker| worker.name == "7"));
        workers.disconnected("7", start);
        workers.connected("a", start);
        let names = workers.list(start);
        assert!(names.iter().any(|worker| worker.name == "a"));
        assert!(!names.iter().any(|worker| worker.name == "7"));
    }
}
