//! Extranonces: each connection has its own, so that no two miners search the same nonces.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;
use stratum::Extranonce;

/// Length of an extranonce, in bytes.
const EXTRANONCE_BYTES: u32 = 2;

/// The extranonces, in use or free. Clones share their state.
#[derive(Clone, Debug)]
pub(crate) struct ExtranoncePool {
    state: Arc<Mutex<ExtranoncePoolState>>,
    max: usize,
}

#[derive(Debug, Default)]
struct ExtranoncePoolState {
    next: u16,
    in_use: HashSet<u16>,
}

/// The extranonce of one connection. Dropping it makes the extranonce free again.
#[derive(Debug)]
pub(crate) struct ExtranonceLease {
    number: u16,
    pool: ExtranoncePool,
}

impl ExtranoncePool {
    /// A pool for `connections_max` connections, but at most one less than there are numbers.
    pub(crate) fn new(connections_max: usize) -> Self {
        Self {
            state: Arc::default(),
            max: connections_max.clamp(1, usize::from(u16::MAX)),
        }
    }

    /// Takes a free extranonce; `None` if all are in use.
    pub(crate) fn take(&self) -> Option<ExtranonceLease> {
        let state = &mut *self.state.lock();
        if state.in_use.len() >= self.max {
            return None;
        }
        // A free number is used again as late as possible, because a miner that has lost its
        // connection may still search its nonces.
        while state.in_use.contains(&state.next) {
            state.next = state.next.wrapping_add(1);
        }
        let number = state.next;
        state.in_use.insert(number);
        state.next = number.wrapping_add(1);
        Some(ExtranonceLease {
            number,
            pool: self.clone(),
        })
    }

    /// The number of extranonces in use, which is that of open connections.
    pub(crate) fn in_use(&self) -> usize {
        self.state.lock().in_use.len()
    }
}

impl ExtranonceLease {
    /// The extranonce.
    pub(crate) fn extranonce(&self) -> Extranonce {
        Extranonce::new(self.number.into(), EXTRANONCE_BYTES)
    }
}

impl Drop for ExtranonceLease {
    fn drop(&mut self) {
        self.pool.state.lock().in_use.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take_all(pool: &ExtranoncePool) -> Vec<ExtranonceLease> {
        std::iter::from_fn(|| pool.take()).collect()
    }

    #[test]
    fn extranonces_are_unique_and_free_ones_are_used_again_late() {
        let pool = ExtranoncePool::new(3);
        let mut leases = take_all(&pool);
        let numbers: Vec<_> = leases.iter().map(|lease| lease.number).collect();
        assert_eq!(numbers, [0, 1, 2]);
        assert_eq!(pool.in_use(), 3);
        leases.remove(1);
        assert_eq!(pool.in_use(), 2);
        let lease = pool.take().expect("one is free");
        assert_eq!(lease.number, 3);
        assert!(pool.take().is_none());
        let all = ExtranoncePool::new(usize::MAX);
        assert_eq!(
            take_all(&all).len(),
            usize::from(u16::MAX),
            "one number stays free, so that the search for a free number ends"
        );
    }
}
