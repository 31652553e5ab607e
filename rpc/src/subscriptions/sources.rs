//! What there is to subscribe to: new heads, logs, pending transactions, the state of a download.

use std::sync::Arc;

use chain::pool::PendingHashes;
use serde::Serialize;

use super::{Signal, Source};
use crate::error::RpcResult;
use crate::facts::SyncStatus;
use crate::feeds::{CriteriaRoom, Cursor, Feeds, Step, Way};
use crate::json::Json;
use crate::logs_filter::LogCriteria;
use crate::modules::Dialect;
use crate::objects::{BlockObject, TransactionObject, shown_hash};
use crate::types::{Data, Quantity};

/// Most pending hashes looked at in one go.
const HASHES_MAX: usize = 1024;

/// The header of each block that becomes canonical.
pub(crate) struct Heads {
    feeds: Arc<Feeds>,
    cursor: Cursor,
    _room: CriteriaRoom,
}

impl Heads {
    pub(crate) fn new(feeds: &Arc<Feeds>) -> RpcResult<Self> {
        Ok(Self {
            cursor: feeds.cursor()?,
            _room: feeds.reserve(size_of::<Self>())?,
            feeds: Arc::clone(feeds),
        })
    }
}

impl Source for Heads {
    fn signal(&self) -> Signal {
        Signal::Count(self.feeds.heads_signal())
    }

    fn pull(&mut self, len_max: usize, out: &mut Vec<Json>) -> RpcResult<bool> {
        if self.feeds.is_current(&self.cursor) {
            return Ok(false);
        }
        let (way, view) = self.feeds.way(&self.cursor)?;
        let taken = take_steps(&way, len_max, |step| {
            let Step::Applied(id) = step else { return Ok(0) };
            let Some(header) = self.feeds.header(&view, id)? else {
                return Ok(0);
            };
            let result = Json::write(&BlockObject::new_head(&header, id.hash))?;
            let len = result.as_bytes().len();
            out.push(result);
            Ok(len)
        })?;
        self.cursor = way.stopped(taken, &view)?;
        Ok(!self.feeds.is_current(&self.cursor))
    }
}

/// Each log that a filter wants, and again, marked so, where it is taken back.
pub(crate) struct Logs {
    feeds: Arc<Feeds>,
    filter: LogCriteria,
    dialect: Dialect,
    cursor: Cursor,
    _room: CriteriaRoom,
}

impl Logs {
    pub(crate) fn new(feeds: &Arc<Feeds>, filter: LogCriteria, dialect: Dialect) -> RpcResult<Self> {
        Ok(Self {
            cursor: feeds.cursor()?,
            _room: feeds.reserve(size_of::<Self>() + filter.len())?,
            feeds: Arc::clone(feeds),
            filter,
            dialect,
        })
    }
}

impl Source for Logs {
    fn signal(&self) -> Signal {
        Signal::Count(self.feeds.heads_signal())
    }

    fn pull(&mut self, len_max: usize, out: &mut Vec<Json>) -> RpcResult<bool> {
        if self.feeds.is_current(&self.cursor) {
            return Ok(false);
        }
        let (way, view) = self.feeds.way(&self.cursor)?;
        let taken = take_steps(&way, len_max, |step| {
            let (id, removed) = match step {
                Step::Removed(id) => (id, true),
                Step::Applied(id) => (id, false),
            };
            let mut len = 0;
            let logs = self.feeds.logs(&view, id)?;
            logs.write(&self.filter, removed, self.dialect, &mut |log| {
                let result = Json::write(log)?;
                len += result.as_bytes().len();
                out.push(result);
                Ok(())
            })?;
            Ok(len)
        })?;
        self.cursor = way.stopped(taken, &view)?;
        Ok(!self.feeds.is_current(&self.cursor))
    }
}

/// Takes steps until their results fill `len_max` bytes; gives how many.
fn take_steps(
    way: &Way,
    len_max: usize,
    mut take: impl FnMut(&Step) -> RpcResult<usize>,
) -> RpcResult<usize> {
    let mut len = 0;
    for (taken, step) in way.steps.iter().enumerate() {
        if len >= len_max {
            return Ok(taken);
        }
        len += take(step)?;
    }
    Ok(way.steps.len())
}

/// Each transaction that becomes pending: its hash, or all of it.
pub(crate) struct Pending {
    feeds: Arc<Feeds>,
    full: bool,
    dialect: Dialect,
    cursor: u64,
    _room: CriteriaRoom,
}

impl Pending {
    pub(crate) fn new(feeds: &Arc<Feeds>, full: bool, dialect: Dialect) -> RpcResult<Self> {
        let room = feeds.reserve(size_of::<Self>())?;
        Ok(Self {
            feeds: Arc::clone(feeds),
            full,
            dialect,
            cursor: feeds.chain().pool().pending_cursor(),
            _room: room,
        })
    }
}

impl Source for Pending {
    fn signal(&self) -> Signal {
        Signal::Count(self.feeds.pending_signal())
    }

    fn pull(&mut self, len_max: usize, out: &mut Vec<Json>) -> RpcResult<bool> {
        let pool = self.feeds.chain().pool();
        let PendingHashes {
            hashes, cursor: next, ..
        } = self.feeds.pending_since(self.cursor, HASHES_MAX);
        let mut len = 0;
        for (taken, hash) in hashes.iter().enumerate() {
            if len >= len_max {
                self.cursor = next - (hashes.len() - taken) as u64;
                return Ok(true);
            }
            let waiting = pool.get(hash);
            let result = match waiting {
                Some(waiting) if self.full => Json::write(&TransactionObject::new(
                    &waiting.transaction,
                    waiting.sender,
                    None,
                    self.dialect,
                ))?,
                // It was mined meanwhile, or replaced: of no use any more to who wants all of it.
                None if self.full => continue,
                Some(waiting) => Json::write(&Data(shown_hash(&waiting.transaction, self.dialect)))?,
                None => Json::write(&Data(self.feeds.shown_hash(hash, self.dialect)?))?,
            };
            len += result.as_bytes().len();
            out.push(result);
        }
        self.cursor = next;
        Ok(hashes.len() == HASHES_MAX)
    }
}

/// The begin and the end of a download of the chain.
pub(crate) struct Syncing {
    feeds: Arc<Feeds>,
    was: bool,
    _room: CriteriaRoom,
}

/// What is told of a download: false at its end.
#[derive(Serialize)]
#[serde(untagged)]
enum SyncNews {
    Done(bool),
    Begun { syncing: bool, status: SyncObject },
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SyncObject {
    starting_block: Quantity,
    current_block: Quantity,
    highest_block: Quantity,
}

impl Syncing {
    pub(crate) fn new(feeds: &Arc<Feeds>) -> RpcResult<Self> {
        Ok(Self {
            was: feeds.sync_status().is_some(),
            _room: feeds.reserve(size_of::<Self>())?,
            feeds: Arc::clone(feeds),
        })
    }
}

impl Source for Syncing {
    fn signal(&self) -> Signal {
        Signal::State(self.feeds.sync_signal())
    }

    fn pull(&mut self, _: usize, out: &mut Vec<Json>) -> RpcResult<bool> {
        let status = self.feeds.sync_status();
        if status.is_some() != self.was {
            self.was = status.is_some();
            let news = match status {
                None => SyncNews::Done(false),
                Some(SyncStatus {
                    starting_block,
                    highest_block,
                }) => SyncNews::Begun {
                    syncing: true,
                    status: SyncObject {
                        starting_block: Quantity(starting_block),
                        current_block: Quantity(self.feeds.view()?.head_number()),
                        highest_block: Quantity(highest_block),
                    },
                },
            };
            out.push(Json::write(&news)?);
        }
        Ok(false)
    }
}
