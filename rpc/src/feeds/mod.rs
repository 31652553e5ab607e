//! What happens on a node, for those who follow it: heads, their logs, pending transactions, sync.
//!
//! Followers hold cursors, not queues: what has happened lies here once, within bounds, and each
//! reads it at its own pace. One thread takes the chain's events in and looks at what tells of
//! itself by no event. Knows neither filters nor subscriptions.

mod cursor;
mod journal;
mod logs;

use std::io;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use chain::chain::HeadEvent;
use chain::import::BlockId;
use chain::pool::PendingHashes;
use chain::{Chain, View};
use crossbeam_channel::{Receiver, RecvTimeoutError};
use primitives::{B256, Header};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

pub(crate) use cursor::{Cursor, Step, Way};
pub(crate) use logs::BlockLogs;

use self::journal::HeadJournal;
use self::logs::LogCache;
use crate::block_cache::BlockCache;
use crate::error::{RpcError, RpcResult, failure};
use crate::facts::{NodeFacts, SyncStatus};
use crate::modules::Dialect;
use crate::objects::shown_hash;

/// How often the pool and the state of the download are looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// Most bytes that the criteria of all followers take up together.
const CRITERIA_LEN_MAX: usize = 64 << 20;

/// The node's feeds.
pub(crate) struct Feeds {
    chain: Chain,
    facts: Arc<dyn NodeFacts + Send + Sync>,
    blocks: Arc<BlockCache>,
    heads: HeadJournal,
    logs: LogCache,
    /// How many transactions have become pending.
    pending: watch::Sender<u64>,
    /// Whether a download is under way.
    syncing: watch::Sender<bool>,
    criteria: Arc<Semaphore>,
}

impl std::fmt::Debug for Feeds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Feeds")
            .field("heads", &self.heads)
            .finish_non_exhaustive()
    }
}

/// The room that a follower's criteria take up.
pub(crate) type CriteriaRoom = OwnedSemaphorePermit;

impl Feeds {
    /// Begins to follow `chain`. The thread ends with the last handle of these feeds.
    ///
    /// # Errors
    /// If no thread can be started.
    pub(crate) fn start(
        chain: Chain,
        facts: Arc<dyn NodeFacts + Send + Sync>,
        blocks: Arc<BlockCache>,
    ) -> io::Result<Arc<Self>> {
        let events = chain.subscribe();
        let syncing = watch::Sender::new(facts.sync_status().is_some());
        let feeds = Arc::new(Self {
            chain,
            facts,
            blocks,
            heads: HeadJournal::new(),
            logs: LogCache::default(),
            pending: watch::Sender::new(0),
            syncing,
            criteria: Arc::new(Semaphore::new(CRITERIA_LEN_MAX)),
        });
        let weak = Arc::downgrade(&feeds);
        std::thread::Builder::new()
            .name("feeds".to_owned())
            .spawn(move || follow(&weak, &events))?;
        Ok(feeds)
    }

    /// Reserves room for criteria of `len` bytes.
    ///
    /// # Errors
    /// −32000 where others have taken it.
    pub(crate) fn reserve(&self, len: usize) -> RpcResult<CriteriaRoom> {
        let len = u32::try_from(len).unwrap_or(u32::MAX);
        Arc::clone(&self.criteria).try_acquire_many_owned(len).map_err(|_| {
            RpcError::refused(format!(
                "the criteria of all filters and subscriptions would be longer than {CRITERIA_LEN_MAX} bytes"
            ))
        })
    }

    /// A cursor at the head.
    pub(crate) fn cursor(&self) -> RpcResult<Cursor> {
        Cursor::now(&self.heads, || self.view())
    }

    /// Whether nothing has happened since `cursor`.
    pub(crate) fn is_current(&self, cursor: &Cursor) -> bool {
        cursor.is_current(&self.heads)
    }

    /// The next part of the way from `cursor` to the head, and a view that has all its blocks.
    pub(crate) fn way(&self, cursor: &Cursor) -> RpcResult<(Way, View)> {
        let next = self.heads.next();
        let view = self.view()?;
        Ok((cursor.way(&self.heads, next, &view)?, view))
    }

    /// Tells of every change of the head.
    pub(crate) fn heads_signal(&self) -> watch::Receiver<u64> {
        self.heads.signal()
    }

    /// The logs of a block that is or was canonical.
    pub(crate) fn logs(&self, view: &View, id: &BlockId) -> RpcResult<Arc<BlockLogs>> {
        self.logs.get(view, id)
    }

    /// The header of a block that is or was canonical; `None` where it was deleted.
    pub(crate) fn header(&self, view: &View, id: &BlockId) -> RpcResult<Option<Header>> {
        cursor::header(view, id)
    }

    /// What became pending since `cursor`: at most `max` hashes. The pool keeps the last
    /// [`chain::pool::PENDING_FEED_MAX`] of them, so a follower who comes too late goes on with the
    /// oldest of those.
    pub(crate) fn pending_since(&self, cursor: u64, max: usize) -> PendingHashes {
        let news = self.chain.pool().pending_since(cursor, max);
        if news.missed > 0 {
            tracing::debug!(
                missed = news.missed,
                "a follower of pending transactions came too late for some"
            );
        }
        news
    }

    /// Tells of every hash that becomes pending.
    pub(crate) fn pending_signal(&self) -> watch::Receiver<u64> {
        self.pending.subscribe()
    }

    /// Tells of the begin and the end of a download.
    pub(crate) fn sync_signal(&self) -> watch::Receiver<bool> {
        self.syncing.subscribe()
    }

    /// How far a download is.
    pub(crate) fn sync_status(&self) -> Option<SyncStatus> {
        self.facts.sync_status()
    }

    /// The hash of a transaction that was pending, as a dialect shows it: from the pool, or from
    /// the block that has it by now.
    pub(crate) fn shown_hash(&self, hash: &B256, dialect: Dialect) -> RpcResult<B256> {
        if dialect == Dialect::Native {
            return Ok(*hash);
        }
        if let Some(waiting) = self.chain.pool().get(hash) {
            return Ok(shown_hash(&waiting.transaction, dialect));
        }
        let view = self.view()?;
        let Some((block, index)) = view.transaction_place(hash).map_err(failure)? else {
            return Ok(*hash);
        };
        let known = self.blocks.by_hash(&self.chain, &view, &block)?;
        let shown = known.and_then(|known| known.hashes(dialect).get(index).copied());
        Ok(shown.unwrap_or(*hash))
    }

    /// The chain followed.
    pub(crate) fn chain(&self) -> &Chain {
        &self.chain
    }

    /// The chain as it is now.
    pub(crate) fn view(&self) -> RpcResult<View> {
        self.chain.view().map_err(failure)
    }

    /// Looks at what sends no events.
    fn look(&self) {
        let pending = self.chain.pool().pending_cursor();
        self.pending
            .send_if_modified(|last| std::mem::replace(last, pending) != pending);
        let syncing = self.facts.sync_status().is_some();
        self.syncing
            .send_if_modified(|last| std::mem::replace(last, syncing) != syncing);
    }
}

/// Takes events in until the chain or the feeds are gone.
fn follow(feeds: &Weak<Feeds>, events: &Receiver<Arc<HeadEvent>>) {
    let mut looked = Instant::now();
    loop {
        let event = events.recv_timeout(LOOK_INTERVAL.saturating_sub(looked.elapsed()));
        let Some(feeds) = feeds.upgrade() else { return };
        match event {
            Ok(event) => feeds.heads.push(event),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        if looked.elapsed() >= LOOK_INTERVAL {
            feeds.look();
            looked = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests;
