//! Logs by contract and topics (interface 4.6).
//!
//! Written straight into the answer as they are found, so that a long answer is refused before
//! it is made. What matches is decided by the package `chain`.

use std::ops::RangeInclusive;
use std::sync::Arc;

use chain::View;
use chain::logs::{FoundLog, LogError, LogQuery};
use primitives::B256;

use super::lookup::pending;
use crate::blocks::KnownBlock;
use crate::error::{RpcError, RpcResult, failure};
use crate::json::Json;
use crate::logs_filter::{LogFilter, LogSpan, NumberRange};
use crate::modules::Dialect;
use crate::node::Node;
use crate::objects::{LogObject, TransactionPlace, shown_hash};
use crate::table::{Method, Reach, Stop};

/// As many blocks are looked through one by one, without the index.
const FEW_BLOCKS: u64 = 4;
/// Most receipts that are looked through on a network thread.
const INLINE_RECEIPTS_MAX: usize = 1024;

/// The rows of this topic.
pub(super) fn methods() -> Vec<Method<Node>> {
    vec![
        Method::brief("mc_getLogs", |node, params, reach| {
            let (filter,) = params.parse()?;
            find(node, &filter, params.dialect(), reach)
        })
        .says("filter: LogFilter -> Log[]", "All logs that a filter wants."),
    ]
}

/// Every log that the filter wants, in the order of the chain.
pub(super) fn find(node: &Node, filter: &LogFilter, dialect: Dialect, reach: Reach) -> Result<Json, Stop> {
    let view = node.view()?;
    let limits = node.settings.log_limits;
    let mut answer = Answer::new(node, &view, dialect);
    match filter.span {
        LogSpan::Block(hash) => of_block(hash, &filter.query, &mut answer, reach)?,
        LogSpan::Range { from, to } => {
            let range = NumberRange::resolve(from, to, view.head_number())?;
            if reach == Reach::Memory && range.pending {
                return Err(Stop::Deferred);
            }
            let (first, last) = (range.first, range.last.min(view.head_number()));
            let count = last.checked_sub(first).map_or(0, |more| more.saturating_add(1));
            if count <= FEW_BLOCKS.min(limits.range_max).min(limits.blocks_read_max) {
                of_few(first..=last, &filter.query, &mut answer, reach)?;
            } else if reach == Reach::Memory {
                return Err(Stop::Deferred);
            } else {
                let search = view.logs(range.first..=range.last, &filter.query, limits);
                for log in search.map_err(log_error)? {
                    answer.push_found(&log.map_err(log_error)?)?;
                }
            }
            if range.pending {
                let draft = pending(node, &view)?;
                for placed in filter.query.select(&draft.executed.receipts) {
                    answer.push(&LogObject::pending(placed.log))?;
                }
            }
        }
    }
    Ok(answer.finish())
}

/// Logs of a few canonical blocks, looked through one by one: they are often in memory.
fn of_few(
    numbers: RangeInclusive<u64>,
    query: &LogQuery,
    answer: &mut Answer<'_>,
    reach: Reach,
) -> Result<(), Stop> {
    let blooms = query.bloom_test();
    for number in numbers {
        let missing = || failure(format_args!("no block {number} on the chain"));
        let hash = answer.view.canonical_hash(number).map_err(failure)?;
        let known = block(answer, &hash.ok_or_else(missing)?, reach)?.ok_or_else(missing)?;
        if blooms.may_match(&known.block.header.logs_bloom) {
            let has = of_known(&known, query, answer, reach)?;
            has.ok_or_else(|| failure(format_args!("block {number} has no receipts")))?;
        }
    }
    Ok(())
}

/// Logs of one block, canonical or not.
fn of_block(hash: B256, query: &LogQuery, answer: &mut Answer<'_>, reach: Reach) -> Result<(), Stop> {
    let known = block(answer, &hash, reach)?;
    let known = known.ok_or_else(|| RpcError::refused(format!("unknown block {hash}")))?;
    let has = of_known(&known, query, answer, reach)?;
    Ok(has.ok_or_else(|| {
        RpcError::refused(format!(
            "block {hash} lies beside the chain and was not executed: it has no logs yet"
        ))
    })?)
}

fn block(answer: &Answer<'_>, hash: &B256, reach: Reach) -> Result<Option<Arc<KnownBlock>>, Stop> {
    let blocks = &answer.node.blocks;
    match reach {
        Reach::Memory => Ok(Some(blocks.kept(hash).ok_or(Stop::Deferred)?)),
        Reach::Store => Ok(blocks.by_hash(&answer.node.chain, answer.view, hash)?),
    }
}

/// The logs of `known` that are wanted; `None` where it was not executed.
fn of_known(
    known: &KnownBlock,
    query: &LogQuery,
    answer: &mut Answer<'_>,
    reach: Reach,
) -> Result<Option<()>, Stop> {
    let (blocks, id) = (&answer.node.blocks, known.id());
    let receipts = match reach {
        Reach::Memory => blocks.kept_receipts(&id.hash).ok_or(Stop::Deferred)?,
        Reach::Store => match blocks.receipts(&answer.node.chain, answer.view, &id)? {
            Some(receipts) => receipts,
            None => return Ok(None),
        },
    };
    if reach == Reach::Memory && receipts.len() > INLINE_RECEIPTS_MAX {
        return Err(Stop::Deferred);
    }
    let hashes = known.hashes(answer.dialect);
    for placed in query.select(&receipts) {
        let place = TransactionPlace {
            block_hash: id.hash,
            block_number: id.number,
            index: placed.transaction_index,
        };
        let hash = hashes.get(place.index).copied();
        let hash = hash.ok_or_else(|| failure(format_args!("block {} has too many receipts", id.hash)))?;
        answer.push(&LogObject::new(placed.log, placed.log_index, hash, place, false))?;
    }
    Ok(Some(()))
}

/// A bound is named by the option that moves it.
fn log_error(error: LogError) -> RpcError {
    let (option, advice) = match error {
        LogError::Store(error) => return failure(error),
        LogError::Results { .. } => ("maxresults", "ask for fewer"),
        LogError::Range { .. } => ("maxrange", "ask in parts"),
        LogError::BlocksRead { .. } => ("maxblocks", "ask for less at once"),
    };
    RpcError::refused(format!(
        "{error}: {advice}, or let the node allow more by --rpc.logs.{option}"
    ))
}

/// A JSON array under way.
struct Answer<'v> {
    node: &'v Node,
    view: &'v View,
    dialect: Dialect,
    json: Vec<u8>,
    count: u64,
    count_max: u64,
    len_max: usize,
    /// The hash of the last log's transaction, and the one it is shown with.
    last: Option<(B256, B256)>,
}

impl<'v> Answer<'v> {
    fn new(node: &'v Node, view: &'v View, dialect: Dialect) -> Self {
        Self {
            node,
            view,
            dialect,
            json: vec![b'['],
            count: 0,
            count_max: node.settings.log_limits.results_max,
            len_max: node.settings.response_len_max,
            last: None,
        }
    }

    /// The transaction's hash in the caller's dialect, as in its receipt.
    fn transaction_hash(&mut self, found: &FoundLog) -> RpcResult<B256> {
        let stored = found.transaction_hash;
        match self.last {
            Some((last, shown)) if last == stored => Ok(shown),
            _ if self.dialect == Dialect::Native => Ok(stored),
            _ => {
                let known = self.node.blocks.kept(&found.block.hash);
                let known = known.and_then(|known| {
                    let hashes = known.hashes(self.dialect);
                    hashes.get(found.transaction_index).copied()
                });
                let shown = match known {
                    Some(shown) => shown,
                    None => {
                        let transaction = self.view.transaction_of_log(found).map_err(failure)?;
                        shown_hash(&transaction, self.dialect)
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
        if self.count > 0 {
            self.json.push(b',');
        }
        self.count += 1;
        serde_json::to_writer(&mut self.json, log).map_err(failure)?;
        if self.json.len() > self.len_max {
            return Err(RpcError::refused(format!(
                "the logs are longer than {} bytes: ask for less at once, or let the node allow more by --rpc.maxresponse",
                self.len_max
            )));
        }
        Ok(())
    }

    fn finish(mut self) -> Json {
        self.json.push(b']');
        Json::from_text(self.json)
    }
}
