//! Filters (interface 2.6, 3.1): what a client asks for again and again, under a random id.
//!
//! A filter holds a cursor into the node's feeds and its criteria, nothing that grows; one that is
//! not polled for a time is gone. How its answers are read from the chain is in `feeds`; the
//! methods are in `methods/mc/filters.rs`.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::error::{RpcError, RpcResult};
use crate::feeds::{CriteriaRoom, Cursor, Feeds, Step};
use crate::ids::random_id;
use crate::json::{Json, JsonArray};
use crate::logs_filter::{LogCriteria, LogFilter};
use crate::modules::Dialect;
use crate::types::Data;

/// Default of [`FilterLimits::filters_max`].
pub const FILTERS_MAX: usize = 100_000;
/// Default of [`FilterLimits::idle_timeout`]: 5 minutes.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(5 * 60);
/// Default of [`FilterLimits::answer_len_max`]: 16 MiB.
pub const ANSWER_LEN_MAX: usize = 16 << 20;
/// Bytes that a filter takes up without its criteria.
const FILTER_LEN: usize = 256;
/// Most pending hashes in one answer; the rest comes with the next.
const HASHES_MAX: usize = 16_384;
/// In each such part of the idle time, what is idle is looked for once.
const SWEEPS_PER_TIMEOUT: u32 = 8;

/// The bounds that filters keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterLimits {
    /// Most filters at the same time.
    pub filters_max: usize,
    /// A filter that is not polled for this long is removed.
    pub idle_timeout: Duration,
    /// Changes are given up to this many bytes, a block's always together; the rest comes with the
    /// next poll.
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
    book: Mutex<Book>,
}

#[derive(Debug)]
struct Book {
    filters: HashMap<u128, Arc<Filter>>,
    /// When what is idle was last looked for.
    swept: Instant,
}

/// One filter. Its state is locked while a poll reads the chain, and never the book with it: polls
/// of one filter wait for each other, those of others do not.
#[derive(Debug)]
struct Filter {
    polled: Mutex<Instant>,
    state: Mutex<State>,
    _room: CriteriaRoom,
}

/// What a filter follows, and up to where it has.
#[derive(Debug)]
enum State {
    Logs(Arc<LogCriteria>, Cursor),
    Blocks(Cursor),
    Pending(u64),
}

impl Filters {
    /// No filters yet.
    pub(crate) fn new(feeds: Arc<Feeds>, limits: FilterLimits) -> Self {
        let book = Book {
            filters: HashMap::new(),
            swept: Instant::now(),
        };
        Self {
            feeds,
            limits,
            book: Mutex::new(book),
        }
    }

    /// A filter of the logs to come that `criteria` want.
    pub(crate) fn add_logs(&self, criteria: LogCriteria, now: Instant) -> RpcResult<u128> {
        criteria.check_range(self.feeds.view()?.head_number())?;
        let len = criteria.len();
        let cursor = self.feeds.cursor()?;
        self.add(State::Logs(Arc::new(criteria), cursor), len, now)
    }

    /// A filter of the blocks to come.
    pub(crate) fn add_blocks(&self, now: Instant) -> RpcResult<u128> {
        self.add(State::Blocks(self.feeds.cursor()?), 0, now)
    }

    /// A filter of the transactions that will be pending.
    pub(crate) fn add_pending(&self, now: Instant) -> RpcResult<u128> {
        let cursor = self.feeds.chain().pool().pending_cursor();
        self.add(State::Pending(cursor), 0, now)
    }

    fn add(&self, state: State, criteria_len: usize, now: Instant) -> RpcResult<u128> {
        let filter = Arc::new(Filter {
            polled: Mutex::new(now),
            state: Mutex::new(state),
            _room: self.feeds.reserve(FILTER_LEN + criteria_len)?,
        });
        let id = random_id()?;
        let mut book = self.book.lock();
        let is_due =
            now.saturating_duration_since(book.swept) >= self.limits.idle_timeout / SWEEPS_PER_TIMEOUT;
        if is_due || book.filters.len() >= self.limits.filters_max {
            book.swept = now;
            book.filters.retain(|_, filter| !self.is_idle(filter, now));
        }
        if book.filters.len() >= self.limits.filters_max {
            return Err(RpcError::refused(format!(
                "too many filters: at most {} at the same time",
                self.limits.filters_max
            )));
        }
        book.filters.insert(id, filter);
        Ok(id)
    }

    /// Removes a filter; whether it was there.
    pub(crate) fn remove(&self, id: u128, now: Instant) -> bool {
        let removed = self.book.lock().filters.remove(&id);
        removed.is_some_and(|filter| !self.is_idle(&filter, now))
    }

    /// How many filters there are, idle ones that nobody has asked for yet included.
    pub fn len(&self) -> usize {
        self.book.lock().filters.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What has happened since the last poll: logs, block hashes or transaction hashes.
    pub(crate) fn changes(&self, id: u128, dialect: Dialect, now: Instant) -> RpcResult<Json> {
        let filter = self.get(id, now)?;
        *filter.polled.lock() = now;
        match &mut *filter.state.lock() {
            State::Pending(cursor) => self.pending(cursor, dialect),
            State::Blocks(cursor) => self.blocks(cursor),
            State::Logs(wanted, cursor) => self.logs(wanted, cursor, dialect),
        }
    }

    /// What a log filter asks for, as a question about the blocks that are there.
    pub(crate) fn log_filter(&self, id: u128, now: Instant) -> RpcResult<LogFilter> {
        let filter = self.get(id, now)?;
        match &*filter.state.lock() {
            State::Logs(wanted, _) => Ok(wanted.filter()),
            State::Blocks(_) | State::Pending(_) => Err(RpcError::refused(
                "the filter is no log filter: poll it with getFilterChanges",
            )),
        }
    }

    fn get(&self, id: u128, now: Instant) -> RpcResult<Arc<Filter>> {
        let mut book = self.book.lock();
        match book.filters.get(&id) {
            Some(filter) if !self.is_idle(filter, now) => Ok(Arc::clone(filter)),
            Some(_) => {
                book.filters.remove(&id);
                Err(not_found())
            }
            None => Err(not_found()),
        }
    }

    fn is_idle(&self, filter: &Filter, now: Instant) -> bool {
        now.saturating_duration_since(*filter.polled.lock()) >= self.limits.idle_timeout
    }

    fn pending(&self, cursor: &mut u64, dialect: Dialect) -> RpcResult<Json> {
        let news = self.feeds.pending_since(*cursor, HASHES_MAX);
        let shown = news
            .hashes
            .iter()
            .map(|hash| self.feeds.shown_hash(hash, dialect).map(Data));
        let answer = Json::write(&shown.collect::<RpcResult<Vec<_>>>()?)?;
        *cursor = news.cursor;
        Ok(answer)
    }

    fn blocks(&self, cursor: &mut Cursor) -> RpcResult<Json> {
        let (way, _) = self.feeds.way(cursor)?;
        let applied = way.steps.iter().filter_map(|step| match step {
            Step::Applied(id) => Some(Data(id.hash)),
            Step::Removed(_) => None,
        });
        let answer = Json::write(&applied.collect::<Vec<_>>())?;
        *cursor = way.end;
        Ok(answer)
    }

    fn logs(&self, wanted: &LogCriteria, cursor: &mut Cursor, dialect: Dialect) -> RpcResult<Json> {
        let mut out = JsonArray::new();
        let (way, view) = self.feeds.way(cursor)?;
        let mut taken = 0;
        for step in &way.steps {
            if out.len() > self.limits.answer_len_max {
                break;
            }
            taken += 1;
            let (id, removed) = match step {
                Step::Removed(id) => (id, true),
                Step::Applied(id) => (id, false),
            };
            if wanted.covers(id.number) {
                let logs = self.feeds.logs(&view, id)?;
                logs.write(wanted, removed, dialect, &mut |log| out.push(log))?;
            }
        }
        *cursor = way.stopped(taken, &view)?;
        Ok(Json::from_text(out.finish()))
    }
}

fn not_found() -> RpcError {
    RpcError::refused("filter not found")
}
