//! Filters, which clients poll for changes by a random id. Sources: docs/interface.md, 2.6;
//! docs/interface.md, 3.1.
//!
//! A filter holds its criteria and a cursor into the node's feeds, nothing that grows. A filter
//! that is not polled for a time is removed: before anything else that is done with filters, and
//! several times a second. So an idle filter takes the room of no other. One client has at most a
//! share of the filters and of the memory for criteria (`quota`). `feeds` reads the changes from
//! the chain. The methods are in `methods/mc/filters.rs`.

mod table;

use std::sync::Arc;
use std::time::{Duration, Instant};

use daemon::{ClientId, Quota, QuotaPermit};
use parking_lot::Mutex;

use self::table::FilterTable;
use crate::error::{RpcError, RpcResult};
use crate::feeds::{BlockChange, Feeds, HeadCursor};
use crate::ids::random_id;
use crate::json::{Json, JsonArray};
use crate::limits::CLIENT_SHARE_PERCENT;
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

/// The bounds of filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterLimits {
    /// Most filters at the same time.
    pub filters_max: usize,
    /// The part of the filters, and of the memory for criteria, that one client over the network
    /// may have, in percent of what no other client has.
    pub client_share_percent: usize,
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
            client_share_percent: CLIENT_SHARE_PERCENT,
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
    /// The number of filters.
    places: Quota,
    table: Arc<Mutex<FilterTable<Filter>>>,
}

/// One filter. Its state is locked while a poll reads the chain. The table is never locked
/// meanwhile. So polls of the same filter wait for each other, and polls of different filters do
/// not.
#[derive(Debug)]
struct Filter {
    state: Mutex<FilterState>,
    _place: QuotaPermit,
    _criteria: QuotaPermit,
}

/// The source of a filter, and the position in it.
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
        feeds.set_client_share(limits.client_share_percent);
        let table = Arc::new(Mutex::new(FilterTable::new(limits.idle_timeout)));
        let followed = Arc::downgrade(&table);
        feeds.add_chore(Box::new(move || match followed.upgrade() {
            Some(table) => {
                table.lock().remove_idle(Instant::now());
                true
            }
            None => false,
        }));
        Self {
            feeds,
            places: Quota::new(limits.filters_max, limits.client_share_percent),
            limits,
            table,
        }
    }

    /// Adds a filter of the logs to come that match `criteria`. Returns its id.
    pub(crate) fn add_logs(&self, client: ClientId, criteria: LogCriteria, now: Instant) -> RpcResult<u128> {
        criteria.check_range()?;
        let len = criteria.len();
        let cursor = self.feeds.cursor()?;
        self.add(client, FilterState::Logs(Arc::new(criteria), cursor), len, now)
    }

    /// Adds a filter of the blocks to come. Returns its id.
    pub(crate) fn add_blocks(&self, client: ClientId, now: Instant) -> RpcResult<u128> {
        self.add(client, FilterState::Blocks(self.feeds.cursor()?), 0, now)
    }

    /// Adds a filter of the transactions that will become pending. Returns its id.
    pub(crate) fn add_pending(&self, client: ClientId, now: Instant) -> RpcResult<u128> {
        let cursor = self.feeds.pending_cursor();
        self.add(client, FilterState::Pending(cursor), 0, now)
    }

    fn add(
        &self,
        client: ClientId,
        state: FilterState,
        criteria_len: usize,
        now: Instant,
    ) -> RpcResult<u128> {
        // Idle filters make room first, whether or not there is room for the new one afterwards.
        self.remove_idle(now);
        let place = self.places.take(client, 1);
        let filter = Arc::new(Filter {
            state: Mutex::new(state),
            _place: place.map_err(|error| RpcError::refused(format!("too many filters: {error}")))?,
            _criteria: self.feeds.reserve(client, FILTER_LEN + criteria_len)?,
        });
        let id = random_id()?;
        self.table.lock().insert(id, filter, now);
        Ok(id)
    }

    /// Removes the filters that were not polled for too long. Their room is free afterwards.
    pub(crate) fn remove_idle(&self, now: Instant) {
        self.table.lock().remove_idle(now);
    }

    /// Removes a filter. Returns whether it existed.
    pub(crate) fn remove(&self, id: u128, now: Instant) -> bool {
        let mut table = self.table.lock();
        table.remove_idle(now);
        table.remove(id)
    }

    /// The number of filters, including idle ones that are not removed yet.
    pub fn len(&self) -> usize {
        self.table.lock().len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The changes since the last poll: logs, block hashes or transaction hashes.
    pub(crate) fn changes(&self, id: u128, name_style: NameStyle, now: Instant) -> RpcResult<Json> {
        let filter = {
            let mut table = self.table.lock();
            table.remove_idle(now);
            table.poll(id, now).ok_or_else(not_found)?
        };
        match &mut *filter.state.lock() {
            FilterState::Pending(cursor) => self.pending(cursor, name_style),
            FilterState::Blocks(cursor) => self.blocks(cursor),
            FilterState::Logs(criteria, cursor) => self.logs(criteria, cursor, name_style),
        }
    }

    /// The criteria of a log filter, as a query over the existing blocks.
    pub(crate) fn log_filter(&self, id: u128, now: Instant) -> RpcResult<LogFilter> {
        let filter = {
            let mut table = self.table.lock();
            table.remove_idle(now);
            table.get(id).ok_or_else(not_found)?
        };
        match &*filter.state.lock() {
            FilterState::Logs(criteria, _) => Ok(criteria.filter()),
            FilterState::Blocks(_) | FilterState::Pending(_) => Err(RpcError::refused(
                "the filter is not a log filter: poll it with getFilterChanges",
            )),
        }
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
                logs.write(criteria, change.is_removal(), name_style, 0, &mut |log| {
                    out.push(log).map(|()| true)
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
