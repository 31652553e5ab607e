//! The filters by id and by the time of their last poll.
//!
//! The order by time makes it cheap to remove the idle ones, so that it can be done at every
//! occasion. This module does not know what a filter is.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Filters of type `F`.
#[derive(Debug)]
pub(super) struct FilterTable<F> {
    idle_timeout: Duration,
    filters: HashMap<u128, PolledFilter<F>>,
    /// The last poll and the id of each filter. The one that is idle longest comes first.
    by_poll: BTreeSet<(Instant, u128)>,
}

#[derive(Debug)]
struct PolledFilter<F> {
    filter: Arc<F>,
    last_poll: Instant,
}

impl<F> FilterTable<F> {
    /// No filters. One that is not polled for `idle_timeout` is idle.
    pub(super) fn new(idle_timeout: Duration) -> Self {
        Self {
            idle_timeout,
            filters: HashMap::new(),
            by_poll: BTreeSet::new(),
        }
    }

    /// Adds a filter. This counts as its first poll.
    pub(super) fn insert(&mut self, id: u128, filter: Arc<F>, now: Instant) {
        self.remove(id);
        self.by_poll.insert((now, id));
        let last_poll = now;
        self.filters.insert(id, PolledFilter { filter, last_poll });
    }

    /// The filter with this id.
    pub(super) fn get(&self, id: u128) -> Option<Arc<F>> {
        let known = self.filters.get(&id)?;
        Some(Arc::clone(&known.filter))
    }

    /// The filter with this id, which is polled now.
    pub(super) fn poll(&mut self, id: u128, now: Instant) -> Option<Arc<F>> {
        let known = self.filters.get_mut(&id)?;
        self.by_poll.remove(&(known.last_poll, id));
        known.last_poll = now;
        self.by_poll.insert((now, id));
        Some(Arc::clone(&known.filter))
    }

    /// Removes the filter with this id. Returns whether there was one.
    pub(super) fn remove(&mut self, id: u128) -> bool {
        match self.filters.remove(&id) {
            Some(known) => self.by_poll.remove(&(known.last_poll, id)),
            None => false,
        }
    }

    /// Removes the idle filters.
    pub(super) fn remove_idle(&mut self, now: Instant) {
        while let Some(&(last_poll, id)) = self.by_poll.first()
            && now.saturating_duration_since(last_poll) >= self.idle_timeout
        {
            self.remove(id);
        }
    }

    /// The number of filters.
    pub(super) fn len(&self) -> usize {
        self.filters.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_filters_go_in_the_order_of_their_polls() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut table = FilterTable::new(Duration::from_secs(10));
        for id in 0..4 {
            table.insert(id, Arc::new(()), at(id as u64));
        }
        assert!(table.poll(1, at(9)).is_some());
        assert!(table.get(2).is_some(), "this is no poll");
        assert!(table.poll(9, at(9)).is_none());
        let left = |table: &mut FilterTable<()>, seconds| {
            table.remove_idle(at(seconds));
            assert_eq!(table.filters.len(), table.by_poll.len());
            (0..4).filter(|id| table.get(*id).is_some()).collect::<Vec<_>>()
        };
        assert_eq!(left(&mut table, 9), [0, 1, 2, 3]);
        assert_eq!(left(&mut table, 10), [1, 2, 3]);
        assert_eq!(left(&mut table, 12), [1, 3]);
        assert!(table.remove(3) && !table.remove(3));
        assert_eq!(left(&mut table, 18), [1]);
        assert_eq!(left(&mut table, 19), [] as [u128; 0]);
        assert_eq!(table.len(), 0);
    }

    #[test]
    fn a_filter_that_is_removed_gives_up_what_it_has() {
        let start = Instant::now();
        let mut table = FilterTable::new(Duration::from_secs(10));
        let (first, second) = (Arc::new(1), Arc::new(2));
        table.insert(7, Arc::clone(&first), start);
        table.insert(7, Arc::clone(&second), start);
        assert_eq!((Arc::strong_count(&first), Arc::strong_count(&second)), (1, 2));
        table.remove_idle(start + Duration::from_secs(10));
        assert_eq!(Arc::strong_count(&second), 1);
    }
}
