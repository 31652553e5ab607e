//! Logs by contract and topics (interface 4.6).
//!
//! Written straight into the answer as they are found, so that a long answer is refused before
//! it is made. What matches is decided by the package `chain`.

use chain::View;
use chain::logs::{FoundLog, LogError, LogQuery};
use primitives::B256;

use super::lookup::pending;
use crate::error::{RpcError, RpcResult};
use crate::limits::RESPONSE_LEN_MAX;
use crate::logs_filter::{LogFilter, LogSpan, NumberRange};
use crate::node::{Node, failure};
use crate::objects::{LogObject, TransactionPlace};
use crate::table::{Json, Method};

/// The rows of this topic.
pub(super) fn methods() -> Vec<Method<Node>> {
    vec![Method::heavy("mc_getLogs", |node, params| {
        let (filter,) = params.parse()?;
        find(node, &filter)
    })]
}

/// `mc_getLogs`: every log that the filter wants, in the order of the chain.
fn find(node: &Node, filter: &LogFilter) -> RpcResult {
    let view = node.view()?;
    let mut answer = Answer::new(node.log_limits.results_max);
    match filter.span {
        LogSpan::Block(hash) => of_block(&view, hash, &filter.query, &mut answer)?,
        LogSpan::Range { from, to } => {
            let range = NumberRange::resolve(from, to, view.head_number())?;
            let search = view.logs(range.first..=range.last, &filter.query, node.log_limits);
            for log in search.map_err(log_error)? {
                answer.push_found(&log.map_err(log_error)?)?;
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

/// Logs of one block, canonical or not.
fn of_block(view: &View, hash: B256, query: &LogQuery, answer: &mut Answer) -> RpcResult<()> {
    let block = view.header_by_hash(&hash).map_err(failure)?;
    let block = block.ok_or_else(|| RpcError::refused(format!("unknown block {hash}")))?;
    let id = chain::import::BlockId {
        number: block.header.number,
        hash,
    };
    let logs = view.block_logs(id, query).map_err(failure)?;
    let logs = logs.ok_or_else(|| {
        RpcError::refused(format!(
            "block {hash} lies beside the chain and was not executed: it has no logs yet"
        ))
    })?;
    logs.iter().try_for_each(|log| answer.push_found(log))
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
struct Answer {
    json: Vec<u8>,
    count: u64,
    count_max: u64,
}

impl Answer {
    fn new(count_max: u64) -> Self {
        Self {
            json: vec![b'['],
            count: 0,
            count_max,
        }
    }

    fn push_found(&mut self, found: &FoundLog) -> RpcResult<()> {
        let place = TransactionPlace {
            block_hash: found.block.hash,
            block_number: found.block.number,
            index: found.transaction_index,
        };
        let hash = found.transaction_hash;
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
        if self.json.len() > RESPONSE_LEN_MAX {
            return Err(RpcError::refused(format!(
                "the logs are longer than {RESPONSE_LEN_MAX} bytes: ask for less at once"
            )));
        }
        Ok(())
    }

    fn finish(mut self) -> Json {
        self.json.push(b']');
        Json::from_text(self.json)
    }
}
