//! Filters, which clients poll for changes by a random id. Sources: docs/interface.md, 2.6;
//! docs/interface.md, 3.1.
//!
//! A filter holds its criteria and a cursor into the node's feeds, nothing that grows. A filter
//! that is not polled for a time is removed. `feeds` reads the changes from the chain. The methods
//! are in `methods/mc/filters.rs`.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::error::{RpcError, RpcResult};
use crate::feeds::{BlockChange, CriteriaPermit, Feeds, HeadCursor};
use crate::ids::random_id;
use crate::json::{Json, JsonArray};
use crate::logs_filter::{LogCriteria, LogFilter};
use crate::modules::NameStyle;
use crate::types::Data;

/// Default of [`FilterLimits::filters_max`].
pub const FILTERS_MAX: usize = 100_000;
/// Default of [`FilterLimits::idle_timeout`]: 5 minutes.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(5 * 60);
/// Default of [`FilterLimits::answer_len_max`]: 16 MiB.
pub const ANSWER_LEN_MAX: usize = 16 << 20;
/// Bytes of a filter without its criteria.
const FILTER_LEN: usize = 256;
/// Most pending hashes in one answer. The next poll returns the rest.
const HASHES_MAX: usize = 16_384;
/// Idle filters are looked for this many times per idle timeout.
const SWEEPS_PER_TIMEOUT: u32 = 8;

/// The bounds of filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterLimits {
    /// Most filters at the same time.
    pub filters_max: usize,
    /// A filter that is not polled for this long is removed.
    pub idle_timeout: Duration,
    /// One poll returns the changes of whole blocks until they have this many bytes. The next poll
    /// returns the rest.
    pub answer_len_max: usize,
}

impl Default for FilterLimits {
    fn default() -> Self {
        Self {
            filters_max: FILTERS_MAX,
            idle_timeout: IDLE_TIMEOUT,
            answer_len_max: ANSWER_LEN_MAX,
        }
    }
}

/// The filters of a node.
#[derive(Debug)]
pub struct Filters {
    feeds: Arc<Feeds>,
    limits: FilterLimits,
    table: Mutex<FilterTable>,
}

#[derive(Debug)]
struct FilterTable {
    filters: HashMap<u128, Arc<Filter>>,
    /// When idle filters were last removed.
    last_sweep: Instant,
}

/// One filter. Its state is locked while a poll reads the chain. The table is never locked
/// meanwhile. So polls of the same filter wait for each other, and polls of different filters do
/// not.
#[derive(Debug)]
struct Filter {
    last_poll: Mutex<Instant>,
    state: Mutex<FilterState>,
    _permit: CriteriaPermit,
}

/// What a filter follows, and its position.
#[derive(Debug)]
enum FilterState {
    Logs(Arc<LogCriteria>, HeadCursor),
    Blocks(HeadCursor),
    /// The position in the pool's feed of pending transactions.
    Pending(u64),
}

impl Filters {
    /// No filters yet.
    pub(crate) fn new(feeds: Arc<Feeds>, limits: FilterLimits) -> Self {
        let table = FilterTable {
            filters: HashMap::new(),
            last_sweep: Instant::now(),
        };
        Self {
            feeds,
            limits,
            table: Mutex::new(table),
        }
    }

    /// Adds a filter of the logs to come that match `criteria`. Returns its id.
    pub(crate) fn add_logs(&self, criteria: LogCriteria, now: Instant) -> RpcResult<u128> {
        criteria.check_range()?;
        let len = criteria.len();
        let cursor = self.feeds.cursor()?;
        self.add(FilterState::Logs(Arc::new(criteria), cursor), len, now)
    }

    /// Adds a filter of the blocks to come. Returns its id.
    pub(crate) fn add_blocks(&self, now: Instant) -> RpcResult<u128> {
        self.add(FilterState::Blocks(self.feeds.cursor()?), 0, now)
    }

    /// Adds a filter of the transactions that will become pending. Returns its id.
    pub(crate) fn add_pending(&self, now: Instant) -> RpcResult<u128> {
        let cursor = self.feeds.chain().pool().pending_cursor();
        self.add(FilterState::Pending(cursor), 0, now)
    }

    fn add(&self, state: FilterState, criteria_len: usize, now: Instant) -> RpcResult<u128> {
        let filter = Arc::new(Filter {
            last_poll: Mutex::new(now),
            state: Mutex::new(state),
            _permit: self.feeds.reserve(FILTER_LEN + criteria_len)?,
        });
        let id = random_id()?;
        let mut table = self.table.lock();
        let is_sweep_due =
            now.saturating_duration_since(table.last_sweep) >= self.limits.idle_timeout / SWEEPS_PER_TIMEOUT;
        if is_sweep_due || table.filters.len() >= self.limits.filters_max {
            table.last_sweep = now;
            table.filters.retain(|_, filter| !self.is_idle(filter, now));
        }
        if table.filters.len() >= self.limits.filters_max {
            return Err(RpcError::refused(format!(
                "too many filters: at most {} at the same time",
                self.limits.filters_max
            )));
        }
        table.filters.insert(id, filter);
        Ok(id)
    }

    /// Removes a filter. Returns whether it existed.
    pub(crate) fn remove(&self, id: u128, now: Instant) -> bool {
        let removed = self.table.lock().filters.remove(&id);
        removed.is_some_and(|filter| !self.is_idle(&filter, now))
    }

    /// The number of filters, including idle ones that are not removed yet.
    pub fn len(&self) -> usize {
        self.table.lock().filters.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The changes since the last poll: logs, block hashes or transaction hashes.
    pub(crate) fn changes(&self, id: u128, name_style: NameStyle, now: Instant) -> RpcResult<Json> {
        let filter = self.get(id, now)?;
        *filter.last_poll.lock() = now;
        match &mut *filter.state.lock() {
            FilterState::Pending(cursor) => self.pending(cursor, name_style),
            FilterState::Blocks(cursor) => self.blocks(cursor),
            FilterState::Logs(criteria, cursor) => self.logs(criteria, cursor, name_style),
        }
    }

    /// The criteria of a log filter, as a query over the existing blocks.
    pub(crate) fn log_filter(&self, id: u128, now: Instant) -> RpcResult<LogFilter> {
        let filter = self.get(id, now)?;
        match &*filter.state.lock() {
            FilterState::Logs(criteria, _) => Ok(criteria.filter()),
            FilterState::Blocks(_) | FilterState::Pending(_) => Err(RpcError::refused(
                "the filter is not a log filter: poll it with getFilterChanges",
            )),
        }
    }

    fn get(&self, id: u128, now: Instant) -> RpcResult<Arc<Filter>> {
        let mut table = self.table.lock();
        match table.filters.get(&id) {
            Some(filter) if !self.is_idle(filter, now) => Ok(Arc::clone(filter)),
            Some(_) => {
                table.filters.remove(&id);
                Err(not_found())
            }
            None => Err(not_found()),
        }
    }

    fn is_idle(&self, filter: &Filter, now: Instant) -> bool {
        now.saturating_duration_since(*filter.last_poll.lock()) >= self.limits.idle_timeout
    }

    fn pending(&self, cursor: &mut u64, name_style: NameStyle) -> RpcResult<Json> {
        let pending = self.feeds.pending_since(*cursor, HASHES_MAX);
        let shown = pending
            .hashes
            .iter()
            .map(|hash| self.feeds.shown_hash(hash, name_style).map(Data));
        let answer = Json::write(&shown.collect::<RpcResult<Vec<_>>>()?)?;
        *cursor = pending.cursor;
        Ok(answer)
    }

    fn blocks(&self, cursor: &mut HeadCursor) -> RpcResult<Json> {
        let (unseen, _) = self.feeds.changes_since(cursor)?;
        let applied = unseen.changes.iter().filter_map(|change| match change {
            BlockChange::Applied(id) => Some(Data(id.hash)),
            BlockChange::Removed(_) => None,
        });
        let answer = Json::write(&applied.collect::<Vec<_>>())?;
        *cursor = unseen.end;
        Ok(answer)
    }

    fn logs(
        &self,
        criteria: &LogCriteria,
        cursor: &mut HeadCursor,
        name_style: NameStyle,
    ) -> RpcResult<Json> {
        let mut out = JsonArray::new();
        let (unseen, view) = self.feeds.changes_since(cursor)?;
        let mut taken = 0;
        for change in &unseen.changes {
            if out.len() > self.limits.answer_len_max {
                break;
            }
            taken += 1;
            let id = change.block();
            if criteria.covers(id.number) {
                let logs = self.feeds.logs(&view, id)?;
                logs.write(criteria, change.is_removal(), name_style, &mut |log| {
                    out.push(log)
                })?;
            }
        }
        *cursor = unseen.cursor_after(taken, &view)?;
        out.finish().map(Json::from_text)
    }
}

fn not_found() -> RpcError {
    RpcError::refused("filter not found")
}
