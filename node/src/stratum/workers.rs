//! Who has done what: shares, blocks and speed by worker.
//!
//! A worker is a name; it may have several connections, and is remembered for a while without any. Knows no
//! sockets.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Most workers that are remembered; those gone longest make room. Of more than that at once, the last to come
/// may mine and are not counted.
const WORKERS_MAX: usize = 16_384;
/// The span that a speed is computed over, in slots.
const SLOT: Duration = Duration::from_secs(60);
const SLOTS: usize = 10;

/// What a worker has done.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Worker {
    pub(super) name: String,
    pub(super) connections: u64,
    pub(super) accepted: u64,
    pub(super) stale: u64,
    pub(super) rejected: u64,
    pub(super) blocks: u64,
    /// Hashes per second, by the difficulty of its shares over the last ten minutes.
    pub(super) hashrate: f64,
    /// Hashes per second, by its own word.
    pub(super) reported: Option<u64>,
    /// Seconds since its last good share.
    pub(super) last_share_secs: Option<u64>,
}

/// What became of a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Credit {
    Accepted,
    Block,
    Stale,
    Rejected,
}

#[derive(Debug)]
struct Record {
    connections: u64,
    accepted: u64,
    stale: u64,
    rejected: u64,
    blocks: u64,
    reported: Option<u64>,
    last_share: Option<Instant>,
    /// When it first came, or came back after everything was forgotten.
    since: Instant,
    /// When its last connection ended; `None` while it has one.
    gone_at: Option<Instant>,
    /// Work of the last minutes: when each slot began, and its hashes.
    slots: VecDeque<(Instant, f64)>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Workers {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    records: HashMap<String, Record>,
    /// Workers without a connection, those gone longest first.
    gone: BTreeSet<(Instant, String)>,
}

impl Workers {
    /// A worker has logged in.
    pub(super) fn came(&self, name: &str, now: Instant) {
        let State { records, gone } = &mut *self.state.lock();
        if !records.contains_key(name) && records.len() >= WORKERS_MAX {
            let Some((_, oldest)) = gone.pop_first() else {
                return;
            };
            records.remove(&oldest);
        }
        let record = records.entry(name.to_owned()).or_insert_with(|| Record {
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

    /// One of its connections has ended.
    pub(super) fn went(&self, name: &str, now: Instant) {
        let State { records, gone } = &mut *self.state.lock();
        let Some(record) = records.get_mut(name) else {
            return;
        };
        record.connections = record.connections.saturating_sub(1);
        if record.connections == 0 && record.gone_at.is_none() {
            record.gone_at = Some(now);
            gone.insert((now, name.to_owned()));
        }
    }

    /// A share of `difficulty` hashes.
    pub(super) fn credit(&self, name: &str, credit: Credit, difficulty: f64, now: Instant) {
        let records = &mut self.state.lock().records;
        let Some(record) = records.get_mut(name) else {
            return;
        };
        match credit {
            Credit::Accepted => record.accepted += 1,
            Credit::Block => {
                record.accepted += 1;
                record.blocks += 1;
            }
            Credit::Stale => record.stale += 1,
            Credit::Rejected => record.rejected += 1,
        }
        if matches!(credit, Credit::Accepted | Credit::Block) {
            record.last_share = Some(now);
            record.add(difficulty, now);
        }
    }

    /// A worker says how fast it is.
    pub(super) fn report(&self, name: &str, rate: u64) {
        if let Some(record) = self.state.lock().records.get_mut(name) {
            record.reported = Some(rate);
        }
    }

    /// All of them, by name.
    pub(super) fn list(&self, now: Instant) -> Vec<Worker> {
        let state = self.state.lock();
        let mut workers: Vec<_> = state
            .records
            .iter()
            .map(|(name, record)| record.told(name, now))
            .collect();
        workers.sort_by(|one, other| one.name.cmp(&other.name));
        workers
    }
}

impl Record {
    fn add(&mut self, hashes: f64, now: Instant) {
        match self.slots.back_mut() {
            Some((begun, sum)) if now.saturating_duration_since(*begun) < SLOT => *sum += hashes,
            _ => self.slots.push_back((now, hashes)),
        }
        while self.slots.len() > SLOTS {
            self.slots.pop_front();
        }
    }

    fn told(&self, name: &str, now: Instant) -> Worker {
        let span = SLOT * SLOTS as u32;
        let recent = self
            .slots
            .iter()
            .filter(|(begun, _)| now.saturating_duration_since(*begun) < span);
        // Not `sum`: that of nothing is minus zero.
        let hashes = recent.fold(0.0, |sum, (_, hashes)| sum + hashes);
        // A worker that has just come is not held against its first minute of silence.
        let seconds = now
            .saturating_duration_since(self.since)
            .min(span)
            .max(SLOT)
            .as_secs_f64();
        Worker {
            name: name.to_owned(),
            connections: self.connections,
            accepted: self.accepted,
            stale: self.stale,
            rejected: self.rejected,
            blocks: self.blocks,
            hashrate: hashes / seconds,
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
    fn speeds_are_those_of_the_last_minutes() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let workers = Workers::default();
        workers.came("a.b", start);
        for second in (0..1200).step_by(10) {
            workers.credit("a.b", Credit::Accepted, 1e7, at(second));
        }
        let worker = &workers.list(at(1200))[0];
        assert!((0.9e6..=1.1e6).contains(&worker.hashrate), "{}", worker.hashrate);
        assert_eq!((worker.accepted, worker.last_share_secs), (120, Some(10)));
        let silent = workers.list(at(3000))[0].hashrate;
        assert!(silent == 0.0 && silent.is_sign_positive(), "{silent}");
        workers.credit("a.b", Credit::Block, 1.0, at(3000));
        workers.credit("a.b", Credit::Stale, 1.0, at(3000));
        workers.credit("nobody", Credit::Accepted, 1.0, at(3000));
        workers.report("a.b", 77);
        workers.went("a.b", at(3001));
        let worker = workers.list(at(3001)).remove(0);
        assert_eq!(
            (worker.accepted, worker.blocks, worker.stale, worker.connections),
            (121, 1, 1, 0)
        );
        assert_eq!(worker.reported, Some(77));
    }

    #[test]
    fn the_number_of_names_is_bounded() {
        let workers = Workers::default();
        let start = Instant::now();
        for number in 0..WORKERS_MAX + 10 {
            let now = start + Duration::from_millis(number as u64);
            workers.came(&number.to_string(), now);
            workers.went(&number.to_string(), now);
        }
        let names = workers.list(start);
        assert_eq!(names.len(), WORKERS_MAX);
        assert!(
            !names.iter().any(|worker| worker.name == "0"),
            "the oldest made room"
        );

        let workers = Workers::default();
        for number in 0..WORKERS_MAX + 10 {
            workers.came(&number.to_string(), start);
        }
        assert_eq!(workers.list(start).len(), WORKERS_MAX, "all of them connected");
        let last = (WORKERS_MAX + 9).to_string();
        workers.credit(&last, Credit::Accepted, 1.0, start);
        workers.went(&last, start);
        assert!(!workers.list(start).iter().any(|worker| worker.name == last));
        // One that came twice stays while it has a connection, and makes room after that.
        workers.came("7", start);
        workers.went("7", start);
        workers.came("a", start);
        assert!(workers.list(start).iter().any(|worker| worker.name == "7"));
        workers.went("7", start);
        workers.came("a", start);
        let names = workers.list(start);
        assert!(names.iter().any(|worker| worker.name == "a"));
        assert!(!names.iter().any(|worker| worker.name == "7"));
    }
}
