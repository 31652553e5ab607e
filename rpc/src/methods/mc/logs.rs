//! Logs by contract and topics (docs/interface.md, 4.6).
//!
//! The logs are written into the answer as they are found, so that an answer that becomes too long
//! is refused early. Which logs match is decided by the package `chain`.

use std::ops::RangeInclusive;
use std::sync::Arc;

use chain::View;
use chain::logs::{FoundLog, LogError, LogQuery};
use chain::rules::order::ExecutionOrder;
use primitives::{B256, Receipt, Transaction};

use super::lookup::pending;
use crate::block_cache::CachedBlock;
use crate::budget::query_limit;
use crate::error::{RpcError, RpcResult, failure};
use crate::json::{Json, JsonArray, JsonOf};
use crate::logs_filter::{LogFilter, LogSpan, NumberRange};
use crate::modules::NameStyle;
use crate::node::Node;
use crate::objects::{LogObject, TransactionPlace, shown_hash};
use crate::table::{InlineError, Method, ReadScope};

/// Up to this many blocks are searched one by one, without the index.
const FEW_BLOCKS: u64 = 4;
/// A block with more receipts is not searched on a network thread.
const INLINE_RECEIPTS_MAX: usize = 1024;

/// Logs as JSON.
type LogsJson = JsonOf<[LogObject<'static>]>;

/// The rows of this topic.
pub(super) fn methods() -> Vec<Method<Node>> {
    vec![Method::brief("mc_getLogs", ["filter"], logs).summary("Returns all logs that match a filter.")]
}

/// `mc_getLogs`.
fn logs(
    node: &Node,
    (filter,): (LogFilter,),
    scope: ReadScope,
    name_style: NameStyle,
) -> Result<LogsJson, InlineError> {
    find_logs(node, &filter, scope, name_style)
}

/// Every log that matches the filter, in the order of the chain.
pub(super) fn find_logs(
    node: &Node,
    filter: &LogFilter,
    scope: ReadScope,
    name_style: NameStyle,
) -> Result<LogsJson, InlineError> {
    filter.span.check()?;
    let view = node.view()?;
    let mut answer = LogsAnswer::new(node, &view, name_style);
    match filter.span {
        LogSpan::Block(hash) => add_block(hash, &filter.query, &mut answer, scope)?,
        LogSpan::Range { from, to } => {
            let range = NumberRange::resolve(from, to, view.head_number());
            add_range(range, &filter.query, &mut answer, scope)?;
        }
    }
    Ok(answer.finish()?)
}

/// Adds the logs of a range of canonical blocks, and of the pending block if it is within the
/// range.
fn add_range(
    range: NumberRange,
    query: &LogQuery,
    answer: &mut LogsAnswer<'_>,
    scope: ReadScope,
) -> Result<(), InlineError> {
    if scope == ReadScope::Memory && range.pending {
        return Err(InlineError::Deferred);
    }
    let (node, view) = (answer.node, answer.view);
    let limits = node.settings.log_limits;
    let (first, last) = (range.first, range.last.min(view.head_number()));
    let count = last.checked_sub(first).map_or(0, |more| more.saturating_add(1));
    if count <= FEW_BLOCKS.min(limits.range_max).min(limits.blocks_read_max) {
        add_few_blocks(first..=last, query, answer, scope)?;
    } else if scope == ReadScope::Memory {
        return Err(InlineError::Deferred);
    } else {
        let search = view.logs(range.first..=range.last, query, limits);
        let search = search.map_err(log_error)?;
        for log in search.limited_by(query_limit(node.settings.logs_timeout)) {
            answer.push_found(&log.map_err(log_error)?)?;
        }
    }
    if range.pending {
        let draft = pending(node, view)?;
        for placed in query.select(&draft.executed.receipts) {
            answer.push(&LogObject::pending(placed.log))?;
        }
    }
    Ok(())
}

/// Adds the logs of a few canonical blocks. They are searched one by one, because recent blocks are
/// often in memory.
fn add_few_blocks(
    numbers: RangeInclusive<u64>,
    query: &LogQuery,
    answer: &mut LogsAnswer<'_>,
    scope: ReadScope,
) -> Result<(), InlineError> {
    let blooms = query.bloom_test();
    for number in numbers {
        let missing = || failure(format_args!("no block {number} on the chain"));
        let hash = answer.view.canonical_hash(number).map_err(failure)?;
        let cached = find_block(answer, &hash.ok_or_else(missing)?, scope)?.ok_or_else(missing)?;
        if blooms.may_match(&cached.block.header.logs_bloom) {
            let receipts = find_receipts(answer, &cached, scope)?;
            let receipts = receipts.ok_or_else(|| failure(format_args!("block {number} has no receipts")))?;
            add_receipts(&cached, &receipts, query, answer)?;
        }
    }
    Ok(())
}

/// Adds the logs of one block, canonical or not.
fn add_block(
    hash: B256,
    query: &LogQuery,
    answer: &mut LogsAnswer<'_>,
    scope: ReadScope,
) -> Result<(), InlineError> {
    let cached = find_block(answer, &hash, scope)?;
    let cached = cached.ok_or_else(|| RpcError::refused(format!("unknown block {hash}")))?;
    let receipts = find_receipts(answer, &cached, scope)?;
    let receipts = receipts.ok_or_else(|| {
        RpcError::refused(format!(
            "block {hash} is not canonical and was not executed: it has no logs yet"
        ))
    })?;
    Ok(add_receipts(&cached, &receipts, query, answer)?)
}

fn find_block(
    answer: &LogsAnswer<'_>,
    hash: &B256,
    scope: ReadScope,
) -> Result<Option<Arc<CachedBlock>>, InlineError> {
    let blocks = &answer.node.blocks;
    match scope {
        ReadScope::Memory => Ok(Some(blocks.cached(hash).ok_or(InlineError::Deferred)?)),
        ReadScope::Store => Ok(blocks.by_hash(&answer.node.chain, answer.view, hash)?),
    }
}

/// The receipts of `block`. Returns `None` if the block was not executed.
fn find_receipts(
    answer: &LogsAnswer<'_>,
    block: &CachedBlock,
    scope: ReadScope,
) -> Result<Option<Arc<Vec<Receipt>>>, InlineError> {
    let (blocks, id) = (&answer.node.blocks, block.id());
    match scope {
        ReadScope::Memory => {
            let receipts = blocks.cached_receipts(&id.hash).ok_or(InlineError::Deferred)?;
            if receipts.len() > INLINE_RECEIPTS_MAX {
                return Err(InlineError::Deferred);
            }
            Ok(Some(receipts))
        }
        ReadScope::Store => Ok(blocks.receipts(&answer.node.chain, answer.view, &id)?),
    }
}

/// Adds the matching logs of `receipts`, which are those of `block`.
fn add_receipts(
    block: &CachedBlock,
    receipts: &[Receipt],
    query: &LogQuery,
    answer: &mut LogsAnswer<'_>,
) -> RpcResult<()> {
    let id = block.id();
    let hashes = block.hashes(answer.name_style);
    let order = ExecutionOrder::of(answer.node.chain.spec(), id.number, &block.block.transactions);
    for placed in query.select(receipts) {
        let transaction = order.transaction_of(placed.receipt_index);
        let place = TransactionPlace {
            block_hash: id.hash,
            block_number: id.number,
            index: transaction.unwrap_or(0),
        };
        let hash = match transaction {
            Some(index) => hashes.get(index).copied(),
            // A system transaction that the block does not contain is shown as if it stood first.
            None => Some(Transaction::system(id.number.saturating_sub(1)).hash()),
        };
        let hash = hash.ok_or_else(|| failure(format_args!("block {} has too many receipts", id.hash)))?;
        answer.push(&LogObject::new(placed.log, placed.log_index, hash, place, false))?;
    }
    Ok(())
}

/// An error about a bound names the option that changes the bound.
fn log_error(error: LogError) -> RpcError {
    let (option, advice) = match error {
        LogError::Store(error) => return failure(error),
        LogError::Stopped(stop) => {
            return RpcError::refused(format!(
                "{stop}: ask for less at once, or start the node with a larger --rpc.logs.timeout"
            ));
        }
        LogError::NotKept { .. } => return RpcError::refused(error.to_string()),
        LogError::Results { .. } => ("maxresults", "ask for fewer"),
        LogError::Range { .. } => ("maxrange", "ask in parts"),
        LogError::BlocksRead { .. } => ("maxblocks", "ask for less at once"),
    };
    RpcError::refused(format!(
        "{error}: {advice}, or start the node with a larger --rpc.logs.{option}"
    ))
}

/// A JSON array of logs that is being written.
struct LogsAnswer<'v> {
    node: &'v Node,
    view: &'v View,
    name_style: NameStyle,
    json: JsonArray,
    count: u64,
    count_max: u64,
    len_max: usize,
    /// The transaction of the last log: its own hash, and the hash it is shown with.
    last: Option<(B256, B256)>,
}

impl<'v> LogsAnswer<'v> {
    fn new(node: &'v Node, view: &'v View, name_style: NameStyle) -> Self {
        Self {
            node,
            view,
            name_style,
            json: JsonArray::new(),
            count: 0,
            count_max: node.settings.log_limits.results_max,
            len_max: node.settings.response_len_max,
            last: None,
        }
    }

    /// The hash that the log's transaction is shown with. It is the same as in the receipt.
    fn transaction_hash(&mut self, found: &FoundLog) -> RpcResult<B256> {
        let stored = found.transaction_hash;
        match self.last {
            Some((last, shown)) if last == stored => Ok(shown),
            _ if self.name_style == NameStyle::Native => Ok(stored),
            _ => {
                let cached = self.node.blocks.cached(&found.block.hash);
                let cached = cached.and_then(|cached| {
                    let hashes = cached.hashes(self.name_style);
                    hashes.get(found.transaction_index).copied()
                });
                let shown = match cached {
                    Some(shown) => shown,
                    None => {
                        let transaction = self.view.transaction_of_log(found).map_err(failure)?;
                        shown_hash(&transaction, self.name_style)
                    }
                };
                self.last = Some((stored, shown));
                Ok(shown)
            }
        }
    }

    fn push_found(&mut self, found: &FoundLog) -> RpcResult<()> {
        let place = TransactionPlace {
            block_hash: found.block.hash,
            block_number: found.block.number,
            index: found.transaction_index,
        };
        let hash = self.transaction_hash(found)?;
        self.push(&LogObject::new(&found.log, found.log_index, hash, place, false))
    }

    fn push(&mut self, log: &LogObject<'_>) -> RpcResult<()> {
        if self.count == self.count_max {
            return Err(log_error(LogError::Results { max: self.count_max }));
        }
        self.count += 1;
        let len_max = self.len_max;
        self.json.push(log).map_err(|error| {
            if error != RpcError::too_long("", len_max) {
                return error;
            }
            RpcError::refused(format!(
                "the logs are longer than {len_max} bytes: ask for less at once, or start the node with a larger --rpc.maxresponse"
            ))
        })
    }

    fn finish(self) -> RpcResult<LogsJson> {
        self.json.finish().map(Json::from_text).map(JsonOf::trust)
    }
}
