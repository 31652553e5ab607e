//! The events of a node for its followers: heads, logs, pending transactions, the sync state.
//!
//! Followers are filters and subscriptions. They hold cursors, not queues: the events are kept here
//! once, within bounds, and each follower reads them at its own pace. One thread receives the
//! chain's events, polls the states that send no events, and runs chores. This module knows neither
//! filters nor subscriptions.

mod cursor;
mod journal;
mod logs;

use std::io;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use chain::chain::HeadEvent;
use chain::import::BlockId;
use chain::pool::{PendingHashes, PooledTransaction};
use chain::{Chain, View};
use crossbeam_channel::{Receiver, RecvTimeoutError};
use daemon::{ClientId, Quota, QuotaPermit};
use ethash::WorkPackage;
use parking_lot::Mutex;
use primitives::{B256, Header};
use tokio::sync::watch;

pub(crate) use cursor::{BlockChange, HeadCursor, UnseenChanges};
pub(crate) use logs::BlockLogs;

use self::journal::HeadJournal;
use self::logs::LogCache;
use crate::application::ApplicationPool;
use crate::block_cache::BlockCache;
use crate::error::{RpcError, RpcResult, failure};
use crate::facts::{NodeFacts, SyncStatus};
use crate::limits::CLIENT_SHARE_PERCENT;
use crate::modules::NameStyle;
use crate::objects::shown_hash;

/// The time between two polls of the pool and of the state of the download, and between two runs of
/// chores.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Most bytes that the criteria of all followers may take together.
const CRITERIA_LEN_MAX: usize = 64 << 20;

/// The node's feeds.
pub(crate) struct Feeds {
    chain: Chain,
    /// The pool of an application chain; `None` on a base chain, whose chain has its pool.
    application: Option<Arc<dyn ApplicationPool>>,
    facts: Arc<dyn NodeFacts + Send + Sync>,
    blocks: Arc<BlockCache>,
    heads: HeadJournal,
    logs: LogCache,
    /// The number of transactions that have become pending.
    pending: watch::Sender<u64>,
    /// Whether the chain is being downloaded.
    syncing: watch::Sender<bool>,
    /// The work for miners, while somebody follows it.
    work: watch::Sender<u64>,
    latest_work: Mutex<Option<WorkPackage>>,
    /// The bytes of criteria.
    criteria: Quota,
    chores: Mutex<Vec<Chore>>,
}

/// Work that is due now and then. It returns whether it is to be run again.
pub(crate) type Chore = Box<dyn Fn() -> bool + Send>;

impl std::fmt::Debug for Feeds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Feeds")
            .field("heads", &self.heads)
            .finish_non_exhaustive()
    }
}

impl Feeds {
    /// Starts to follow `chain`. `application` is the pool of an application chain. The thread ends
    /// when the last handle of these feeds is dropped.
    ///
    /// # Errors
    /// If no thread can be started.
    pub(crate) fn start(
        chain: Chain,
        application: Option<Arc<dyn ApplicationPool>>,
        facts: Arc<dyn NodeFacts + Send + Sync>,
        blocks: Arc<BlockCache>,
    ) -> io::Result<Arc<Self>> {
        let events = chain.subscribe();
        let syncing = watch::Sender::new(facts.sync_status().is_some());
        let feeds = Arc::new(Self {
            chain,
            application,
            facts,
            blocks,
            heads: HeadJournal::new(),
            logs: LogCache::default(),
            pending: watch::Sender::new(0),
            syncing,
            work: watch::Sender::new(0),
            latest_work: Mutex::default(),
            criteria: Quota::new(CRITERIA_LEN_MAX, CLIENT_SHARE_PERCENT),
            chores: Mutex::default(),
        });
        let weak = Arc::downgrade(&feeds);
        std::thread::Builder::new()
            .name("feeds".to_owned())
            .spawn(move || follow(&weak, &events))?;
        Ok(feeds)
    }

    /// Reserves memory for criteria of `len` bytes of a follower of `client`.
    ///
    /// # Errors
    /// −32000 if the client would have more than its share.
    pub(crate) fn reserve(&self, client: ClientId, len: usize) -> RpcResult<QuotaPermit> {
        self.criteria.take(client, len).map_err(|error| {
            RpcError::refused(format!(
                "too many filters and subscriptions: bytes of their criteria: {error}"
            ))
        })
    }

    /// Changes which part of the memory for criteria one client over the network may have.
    pub(crate) fn set_client_share(&self, percent: usize) {
        self.criteria.set_share(percent);
    }

    /// Runs `chore` several times a second, until it returns `false`. It must be short.
    pub(crate) fn add_chore(&self, chore: Chore) {
        self.chores.lock().push(chore);
    }

    pub(crate) fn cursor(&self) -> RpcResult<HeadCursor> {
        HeadCursor::now(&self.heads, || self.view())
    }

    /// Whether the head has not changed since `cursor`.
    pub(crate) fn is_current(&self, cursor: &HeadCursor) -> bool {
        cursor.is_current(&self.heads)
    }

    /// The next changes between `cursor` and the head, and a view that has all their blocks.
    pub(crate) fn changes_since(&self, cursor: &HeadCursor) -> RpcResult<(UnseenChanges, View)> {
        let next = self.heads.next();
        let view = self.view()?;
        Ok((cursor.changes(&self.heads, next, &view)?, view))
    }

    /// A receiver that changes with every change of the head.
    pub(crate) fn heads_signal(&self) -> watch::Receiver<u64> {
        self.heads.signal()
    }

    /// The logs of a block that is or was canonical.
    pub(crate) fn logs(&self, view: &View, id: &BlockId) -> RpcResult<Arc<BlockLogs>> {
        self.logs.get(view, id)
    }

    /// The header of a block that is or was canonical. `None` if the block was deleted.
    pub(crate) fn header(&self, view: &View, id: &BlockId) -> RpcResult<Option<Header>> {
        cursor::header(view, id)
    }

    /// The hashes of at most `max` transactions that have become pending since `cursor`.
    ///
    /// The pool keeps the last [`chain::pool::PENDING_FEED_MAX`] hashes. A follower further behind
    /// goes on with the oldest of them.
    pub(crate) fn pending_since(&self, cursor: u64, max: usize) -> PendingHashes {
        let pending = match &self.application {
            Some(application) => application.pending_since(cursor, max),
            None => self.chain.pool().pending_since(cursor, max),
        };
        if pending.missed > 0 {
            tracing::debug!(
                missed = pending.missed,
                "a follower of pending transactions was too slow and misses some"
            );
        }
        pending
    }

    /// The cursor of the next transaction that becomes pending.
    pub(crate) fn pending_cursor(&self) -> u64 {
        match &self.application {
            Some(application) => application.pending_cursor(),
            None => self.chain.pool().pending_cursor(),
        }
    }

    /// A transaction that waits in the pool.
    pub(crate) fn pooled(&self, hash: &B256) -> Option<PooledTransaction> {
        match &self.application {
            Some(application) => application.get(hash),
            None => self.chain.pool().get(hash),
        }
    }

    /// A receiver that changes with every transaction that becomes pending.
    pub(crate) fn pending_signal(&self) -> watch::Receiver<u64> {
        self.pending.subscribe()
    }

    /// A receiver that changes when a download of the chain begins or ends.
    pub(crate) fn sync_signal(&self) -> watch::Receiver<bool> {
        self.syncing.subscribe()
    }

    /// The progress of the download, if there is one.
    pub(crate) fn sync_status(&self) -> Option<SyncStatus> {
        self.facts.sync_status()
    }

    /// The hash that `name_style` shows for a transaction that was pending. The transaction is read
    /// from the pool, or from the block that contains it by now.
    pub(crate) fn shown_hash(&self, hash: &B256, name_style: NameStyle) -> RpcResult<B256> {
        if name_style == NameStyle::Native {
            return Ok(*hash);
        }
        if let Some(pooled) = self.pooled(hash) {
            return Ok(shown_hash(&pooled.transaction, name_style));
        }
        let view = self.view()?;
        for (block, index) in view.transaction_positions(hash).map_err(failure)? {
            let known = self.blocks.by_hash(&self.chain, &view, &block)?;
            let shown = known
                .filter(|known| known.has_transaction(index, hash))
                .and_then(|known| known.hashes(name_style).get(index).copied());
            if let Some(shown) = shown {
                return Ok(shown);
            }
        }
        Ok(*hash)
    }

    /// A receiver that changes when there is other work for miners. While there is a receiver, the
    /// node makes work.
    pub(crate) fn work_signal(&self) -> watch::Receiver<u64> {
        self.work.subscribe()
    }

    /// The work for miners when somebody last followed it.
    pub(crate) fn latest_work(&self) -> Option<WorkPackage> {
        self.latest_work.lock().clone()
    }

    /// The chain as it is now.
    pub(crate) fn view(&self) -> RpcResult<View> {
        self.chain.view().map_err(failure)
    }

    /// Polls the states that send no events, and runs the chores.
    fn poll(&self) {
        self.chores.lock().retain(|chore| chore());
        let pending = self.pending_cursor();
        self.pending
            .send_if_modified(|last| std::mem::replace(last, pending) != pending);
        if self.work.receiver_count() > 0 {
            // The request keeps the node making work.
            let work = self.chain.work().current();
            let mut latest = self.latest_work.lock();
            if latest.as_ref().map(|work| work.header_hash) != work.as_ref().map(|work| work.header_hash) {
                *latest = work;
                self.work.send_modify(|count| *count += 1);
            }
        }
        let syncing = self.facts.sync_status().is_some();
        self.syncing
            .send_if_modified(|last| std::mem::replace(last, syncing) != syncing);
    }
}

/// Receives events until the chain or the feeds are dropped.
fn follow(feeds: &Weak<Feeds>, events: &Receiver<Arc<HeadEvent>>) {
    let mut polled = Instant::now();
    loop {
        let event = events.recv_timeout(POLL_INTERVAL.saturating_sub(polled.elapsed()));
        let Some(feeds) = feeds.upgrade() else { return };
        match event {
            Ok(event) => feeds.heads.push(event),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        if polled.elapsed() >= POLL_INTERVAL {
            feeds.poll();
            polled = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests;
