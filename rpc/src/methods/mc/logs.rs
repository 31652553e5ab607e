//! Logs by contract and topics (interface 4.6).
//!
//! Written straight into the answer as they are found, so that a long answer is refused before
//! it is made. What matches is decided by the package `chain`.

use chain::View;
use chain::logs::{FoundLog, LogError, LogQuery};
use primitives::B256;

use super::lookup::pending;
use crate::error::{RpcError, RpcResult};
use crate::logs_filter::{LogFilter, LogSpan, NumberRange};
use crate::node::{Node, failure};
use crate::objects::{LogObject, TransactionPlace, shown_hash};
use crate::params::Dialect;
use crate::table::{Json, Method};

/// The rows of this topic.
pub(super) fn methods() -> Vec<Method<Node>> {
    vec![
        Method::heavy("mc_getLogs", |node, params| {
            let (filter,) = params.parse()?;
            find(node, &filter, params.dialect())
        })
        .says("filter: LogFilter -> Log[]", "All logs that a filter wants."),
    ]
}

/// Every log that the filter wants, in the order of the chain.
pub(super) fn find(node: &Node, filter: &LogFilter, dialect: Dialect) -> RpcResult {
    let view = node.view()?;
    let limits = node.settings.log_limits;
    let mut answer = Answer::new(node, &view, dialect);
    match filter.span {
        LogSpan::Block(hash) => of_block(hash, &filter.query, &mut answer)?,
        LogSpan::Range { from, to } => {
            let range = NumberRange::resolve(from, to, view.head_number())?;
            let search = view.logs(range.first..=range.last, &filter.query, limits);
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
fn of_block(hash: B256, query: &LogQuery, answer: &mut Answer<'_>) -> RpcResult<()> {
    let view = answer.view;
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
struct Answer<'v> {
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
    fn new(node: &Node, view: &'v View, dialect: Dialect) -> Self {
        Self {
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
                let transaction = self.view.transaction_of_log(found).map_err(failure)?;
                let shown = shown_hash(&transaction, self.dialect);
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
