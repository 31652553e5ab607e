//! The kinds of subscriptions: new heads, logs, pending transactions, the state of a download,
//! work.

use std::sync::Arc;

use chain::View;
use chain::pool::PendingHashes;
use daemon::{ClientId, QuotaPermit};
use primitives::B256;
use serde::Serialize;
use tokio::sync::watch;

use super::{ChangeSignal, PulledResults, SubscriptionSource};
use crate::error::RpcResult;
use crate::facts::SyncStatus;
use crate::feeds::{BlockChange, Feeds, HeadCursor};
use crate::logs_filter::LogCriteria;
use crate::modules::NameStyle;
use crate::objects::{BlockObject, TransactionObject, shown_hash, work_values};
use crate::types::{Data, Quantity};

/// Most pending hashes read from the pool at once.
const HASHES_MAX: usize = 1024;
/// Bytes of a subscription without its criteria.
const SUBSCRIPTION_LEN: usize = 512;

/// The notifications of a subscription for each block that joins or leaves the canonical chain.
pub(crate) trait BlockResults: Send {
    /// Bytes of criteria beside the value itself.
    fn criteria_len(&self) -> usize;

    /// Adds the results for `change` to `out`, from position `from` on. Returns the position of the
    /// first that found no place, `None` if all did. The first position of a block is 0.
    fn append(
        &self,
        feeds: &Feeds,
        view: &View,
        change: &BlockChange,
        from: usize,
        out: &mut PulledResults,
    ) -> RpcResult<Option<usize>>;
}

/// Follows the head of the chain and sends the results `R` for each changed block.
///
/// The results of a block may take several pulls. They are sent to their end even if the block has
/// left the chain by then. The block's removal comes after them.
pub(crate) struct HeadSource<R> {
    feeds: Arc<Feeds>,
    cursor: HeadCursor,
    /// The last change before the cursor, if some of its results are not sent, and the position of
    /// the first of them.
    unfinished: Option<(BlockChange, usize)>,
    results: R,
    _permit: QuotaPermit,
}

impl<R: BlockResults> HeadSource<R> {
    pub(crate) fn new(feeds: &Arc<Feeds>, client: ClientId, results: R) -> RpcResult<Self> {
        Ok(Self {
            cursor: feeds.cursor()?,
            unfinished: None,
            _permit: feeds.reserve(client, SUBSCRIPTION_LEN + results.criteria_len())?,
            feeds: Arc::clone(feeds),
            results,
        })
    }
}

impl<R: BlockResults> SubscriptionSource for HeadSource<R> {
    fn signal(&self) -> ChangeSignal {
        ChangeSignal::Count(self.feeds.heads_signal())
    }

    fn pull(&mut self, out: &mut PulledResults) -> RpcResult<bool> {
        if let Some((change, from)) = self.unfinished {
            let view = self.feeds.view()?;
            let rest = self.results.append(&self.feeds, &view, &change, from, out)?;
            self.unfinished = rest.map(|from| (change, from));
            if rest.is_some() {
                return Ok(true);
            }
        }
        if self.feeds.is_current(&self.cursor) {
            return Ok(false);
        }
        let (unseen, view) = self.feeds.changes_since(&self.cursor)?;
        let (mut taken, mut unfinished) = (0, None);
        for change in &unseen.changes {
            if out.is_full() || unfinished.is_some() {
                break;
            }
            let rest = self.results.append(&self.feeds, &view, change, 0, out)?;
            unfinished = rest.map(|from| (*change, from));
            taken += 1;
        }
        self.cursor = unseen.cursor_after(taken, &view)?;
        self.unfinished = unfinished;
        Ok(unfinished.is_some() || !self.feeds.is_current(&self.cursor))
    }
}

/// The header of each block that becomes canonical.
pub(crate) struct NewHeads;

impl BlockResults for NewHeads {
    fn criteria_len(&self) -> usize {
        0
    }

    fn append(
        &self,
        feeds: &Feeds,
        view: &View,
        change: &BlockChange,
        from: usize,
        out: &mut PulledResults,
    ) -> RpcResult<Option<usize>> {
        if let BlockChange::Applied(id) = change
            && let Some(header) = feeds.header(view, id)?
            && !out.add(&BlockObject::new_head(&header, id.hash))?
        {
            return Ok(Some(from));
        }
        Ok(None)
    }
}

/// Each log that matches the criteria. If its block is taken back, it is sent again, marked as
/// removed.
pub(crate) struct MatchingLogs {
    pub(crate) criteria: LogCriteria,
    pub(crate) name_style: NameStyle,
}

impl BlockResults for MatchingLogs {
    fn criteria_len(&self) -> usize {
        self.criteria.len()
    }

    fn append(
        &self,
        feeds: &Feeds,
        view: &View,
        change: &BlockChange,
        from: usize,
        out: &mut PulledResults,
    ) -> RpcResult<Option<usize>> {
        let logs = feeds.logs(view, change.block())?;
        let removed = change.is_removal();
        logs.write(&self.criteria, removed, self.name_style, from, &mut |log| {
            out.add(log)
        })
    }
}

/// Each transaction that becomes pending: its hash, or the whole transaction.
pub(crate) struct PendingSource {
    feeds: Arc<Feeds>,
    full: bool,
    name_style: NameStyle,
    cursor: u64,
    _permit: QuotaPermit,
}

impl PendingSource {
    pub(crate) fn new(
        feeds: &Arc<Feeds>,
        client: ClientId,
        full: bool,
        name_style: NameStyle,
    ) -> RpcResult<Self> {
        let permit = feeds.reserve(client, SUBSCRIPTION_LEN)?;
        Ok(Self {
            feeds: Arc::clone(feeds),
            full,
            name_style,
            cursor: feeds.pending_cursor(),
            _permit: permit,
        })
    }
}

impl SubscriptionSource for PendingSource {
    fn signal(&self) -> ChangeSignal {
        ChangeSignal::Count(self.feeds.pending_signal())
    }

    fn pull(&mut self, out: &mut PulledResults) -> RpcResult<bool> {
        let PendingHashes {
            hashes, cursor: next, ..
        } = self.feeds.pending_since(self.cursor, HASHES_MAX);
        for (taken, hash) in hashes.iter().enumerate() {
            let pooled = self.feeds.pooled(hash);
            let is_added = match pooled {
                Some(pooled) if self.full => out.add(&TransactionObject::new(
                    &pooled.transaction,
                    pooled.sender,
                    None,
                    self.name_style,
                ))?,
                // The transaction was mined or replaced meanwhile. A client that wants whole
                // pending transactions has no use for it.
                None if self.full => continue,
                Some(pooled) => out.add(&Data(shown_hash(&pooled.transaction, self.name_style)))?,
                None => out.add(&Data(self.feeds.shown_hash(hash, self.name_style)?))?,
            };
            if !is_added {
                self.cursor = next - (hashes.len() - taken) as u64;
                return Ok(true);
            }
        }
        self.cursor = next;
        Ok(hashes.len() == HASHES_MAX)
    }
}

/// The begin and the end of a download of the chain.
pub(crate) struct SyncSource {
    feeds: Arc<Feeds>,
    was_syncing: bool,
    _permit: QuotaPermit,
}

/// The notification about a download: `false` at its end.
#[derive(Serialize)]
#[serde(untagged)]
enum SyncResult {
    Done(bool),
    Begun { syncing: bool, status: SyncProgress },
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SyncProgress {
    starting_block: Quantity,
    current_block: Quantity,
    highest_block: Quantity,
}

impl SyncSource {
    pub(crate) fn new(feeds: &Arc<Feeds>, client: ClientId) -> RpcResult<Self> {
        Ok(Self {
            was_syncing: feeds.sync_status().is_some(),
            _permit: feeds.reserve(client, SUBSCRIPTION_LEN)?,
            feeds: Arc::clone(feeds),
        })
    }
}

impl SubscriptionSource for SyncSource {
    fn signal(&self) -> ChangeSignal {
        ChangeSignal::State(self.feeds.sync_signal())
    }

    fn pull(&mut self, out: &mut PulledResults) -> RpcResult<bool> {
        let status = self.feeds.sync_status();
        let is_syncing = status.is_some();
        if is_syncing != self.was_syncing {
            let result = match status {
                None => SyncResult::Done(false),
                Some(SyncStatus {
                    starting_block,
                    highest_block,
                    ..
                }) => SyncResult::Begun {
                    syncing: true,
                    status: SyncProgress {
                        starting_block: Quantity(starting_block),
                        current_block: Quantity(self.feeds.view()?.head_number()),
                        highest_block: Quantity(highest_block),
                    },
                },
            };
            if !out.add(&result)? {
                return Ok(true);
            }
            self.was_syncing = is_syncing;
        }
        Ok(false)
    }
}

/// Each new work for miners, beginning with the present one.
pub(crate) struct NewWorkSource {
    feeds: Arc<Feeds>,
    /// Keeps the node making work.
    signal: watch::Receiver<u64>,
    sent: Option<B256>,
    _permit: QuotaPermit,
}

impl NewWorkSource {
    pub(crate) fn new(feeds: &Arc<Feeds>, client: ClientId) -> RpcResult<Self> {
        Ok(Self {
            _permit: feeds.reserve(client, SUBSCRIPTION_LEN)?,
            signal: feeds.work_signal(),
            sent: None,
            feeds: Arc::clone(feeds),
        })
    }
}

impl SubscriptionSource for NewWorkSource {
    fn signal(&self) -> ChangeSignal {
        ChangeSignal::Count(self.signal.clone())
    }

    fn pull(&mut self, out: &mut PulledResults) -> RpcResult<bool> {
        let Some(work) = self.feeds.latest_work() else {
            return Ok(false);
        };
        if self.sent == Some(work.header_hash) {
            return Ok(false);
        }
        if !out.add(&work_values(&work, NameStyle::Ethereum))? {
            return Ok(true);
        }
        self.sent = Some(work.header_hash);
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use chain::Chain;
    use primitives::Block;

    use super::*;
    use crate::caller::remote_client;
    use crate::test_node::{LoneNode, next_block, open_chain};

    /// Imports an empty block on the head. `tag` makes it differ from other blocks there.
    fn extend(chain: &Chain, tag: u8) -> Block {
        let block = next_block(chain, &[tag]);
        chain.import(block.clone()).expect("a good block");
        block
    }

    /// Several results for each block: its first byte, the direction, and a number.
    struct Several(usize);

    impl BlockResults for Several {
        fn criteria_len(&self) -> usize {
            0
        }

        fn append(
            &self,
            _: &Feeds,
            _: &View,
            change: &BlockChange,
            from: usize,
            out: &mut PulledResults,
        ) -> RpcResult<Option<usize>> {
            let id = change.block();
            for index in from..self.0 {
                let result = (id.number, id.hash[0], change.is_removal(), index);
                if !out.add(&result)? {
                    return Ok(Some(index));
                }
            }
            Ok(None)
        }
    }

    /// A block leaves the chain when a part of its results is sent. The rest of them is still sent,
    /// then those of its removal, then those of the new blocks.
    #[test]
    fn a_block_is_sent_to_its_end_before_it_is_taken_back() {
        let (chain, other) = (open_chain(), open_chain());
        let feeds = Feeds::start(chain.clone(), None, Arc::new(LoneNode), Arc::default()).expect("a thread");
        let mut source = HeadSource::new(&feeds, remote_client(1), Several(5)).expect("a source");
        let mut sent = Vec::new();
        let mut pull = |sent: &mut Vec<String>| {
            // Three results have a place.
            let mut out = PulledResults::new(2 * super::super::NOTIFICATION_LEN + 100);
            let has_more = source.pull(&mut out).expect("nothing fails");
            assert!(out.results.len() <= 3, "got {} results", out.results.len());
            let texts = out.results.into_iter().map(|result| result.into_text().to_vec());
            sent.extend(texts.map(|text| String::from_utf8(text).expect("text")));
            has_more
        };
        let first = extend(&chain, 1);
        let branch = [extend(&other, 2), extend(&other, 3)];
        let begun = Instant::now();
        while !pull(&mut sent) {
            assert!(
                begun.elapsed() < Duration::from_secs(20),
                "the event does not come"
            );
        }
        assert_eq!(sent.len(), 3, "a part of the block");
        for block in &branch {
            chain.import(block.clone()).expect("a good block");
        }
        while sent.len() < 20 {
            pull(&mut sent);
            assert!(begun.elapsed() < Duration::from_secs(20), "got {sent:?}");
        }
        let results = |block: &Block, removed: bool| {
            let (number, byte) = (block.header.number, block.hash()[0]);
            (0..5).map(move |index| format!("[{number},{byte},{removed},{index}]"))
        };
        let expected: Vec<_> = results(&first, false)
            .chain(results(&first, true))
            .chain(results(&branch[0], false))
            .chain(results(&branch[1], false))
            .collect();
        assert_eq!(sent, expected);
    }
}
