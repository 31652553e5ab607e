//! The kinds of subscriptions: new heads, logs, pending transactions, the state of a download.

use std::sync::Arc;

use chain::View;
use chain::pool::PendingHashes;
use inbound::{ClientId, QuotaPermit};
use serde::Serialize;

use super::{ChangeSignal, SubscriptionSource};
use crate::error::RpcResult;
use crate::facts::SyncStatus;
use crate::feeds::{BlockChange, Feeds, HeadCursor};
use crate::json::Json;
use crate::logs_filter::LogCriteria;
use crate::modules::NameStyle;
use crate::objects::{BlockObject, TransactionObject, shown_hash};
use crate::types::{Data, Quantity};

/// Most pending hashes read from the pool at once.
const HASHES_MAX: usize = 1024;
/// Bytes of a subscription without its criteria.
const SUBSCRIPTION_LEN: usize = 512;

/// What a subscription sends for each block that joins or leaves the canonical chain.
pub(crate) trait BlockResults: Send {
    /// Bytes of criteria beside the value itself.
    fn criteria_len(&self) -> usize;

    /// Appends the results for `change` to `out`.
    fn append(&self, feeds: &Feeds, view: &View, change: &BlockChange, out: &mut Vec<Json>) -> RpcResult<()>;
}

/// Follows the head of the chain and sends the results `R` for each changed block.
pub(crate) struct HeadSource<R> {
    feeds: Arc<Feeds>,
    cursor: HeadCursor,
    results: R,
    _permit: QuotaPermit,
}

impl<R: BlockResults> HeadSource<R> {
    pub(crate) fn new(feeds: &Arc<Feeds>, client: ClientId, results: R) -> RpcResult<Self> {
        Ok(Self {
            cursor: feeds.cursor()?,
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

    fn pull(&mut self, len_max: usize, out: &mut Vec<Json>) -> RpcResult<bool> {
        if self.feeds.is_current(&self.cursor) {
            return Ok(false);
        }
        let (unseen, view) = self.feeds.changes_since(&self.cursor)?;
        let (mut taken, mut len) = (0, 0);
        for change in &unseen.changes {
            if len >= len_max {
                break;
            }
            let before = out.len();
            self.results.append(&self.feeds, &view, change, out)?;
            len += out[before..]
                .iter()
                .map(|result| result.text().len())
                .sum::<usize>();
            taken += 1;
        }
        self.cursor = unseen.cursor_after(taken, &view)?;
        Ok(!self.feeds.is_current(&self.cursor))
    }
}

/// The header of each block that becomes canonical.
pub(crate) struct NewHeads;

impl BlockResults for NewHeads {
    fn criteria_len(&self) -> usize {
        0
    }

    fn append(&self, feeds: &Feeds, view: &View, change: &BlockChange, out: &mut Vec<Json>) -> RpcResult<()> {
        if let BlockChange::Applied(id) = change
            && let Some(header) = feeds.header(view, id)?
        {
            out.push(Json::write(&BlockObject::new_head(&header, id.hash))?);
        }
        Ok(())
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

    fn append(&self, feeds: &Feeds, view: &View, change: &BlockChange, out: &mut Vec<Json>) -> RpcResult<()> {
        let logs = feeds.logs(view, change.block())?;
        logs.write(&self.criteria, change.is_removal(), self.name_style, &mut |log| {
            out.push(Json::write(log)?);
            Ok(())
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
            cursor: feeds.chain().pool().pending_cursor(),
            _permit: permit,
        })
    }
}

impl SubscriptionSource for PendingSource {
    fn signal(&self) -> ChangeSignal {
        ChangeSignal::Count(self.feeds.pending_signal())
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
            let pooled = pool.get(hash);
            let result = match pooled {
                Some(pooled) if self.full => Json::write(&TransactionObject::new(
                    &pooled.transaction,
                    pooled.sender,
                    None,
                    self.name_style,
                ))?,
                // The transaction was mined or replaced meanwhile. A client that wants whole
                // pending transactions has no use for it.
                None if self.full => continue,
                Some(pooled) => Json::write(&Data(shown_hash(&pooled.transaction, self.name_style)))?,
                None => Json::write(&Data(self.feeds.shown_hash(hash, self.name_style)?))?,
            };
            len += result.text().len();
            out.push(result);
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

/// What a client is sent about a download: `false` at its end.
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

    fn pull(&mut self, _: usize, out: &mut Vec<Json>) -> RpcResult<bool> {
        let status = self.feeds.sync_status();
        if status.is_some() != self.was_syncing {
            self.was_syncing = status.is_some();
            let result = match status {
                None => SyncResult::Done(false),
                Some(SyncStatus {
                    starting_block,
                    highest_block,
                }) => SyncResult::Begun {
                    syncing: true,
                    status: SyncProgress {
                        starting_block: Quantity(starting_block),
                        current_block: Quantity(self.feeds.view()?.head_number()),
                        highest_block: Quantity(highest_block),
                    },
                },
            };
            out.push(Json::write(&result)?);
        }
        Ok(false)
    }
}
