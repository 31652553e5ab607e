//! The log object. Source: docs/interface.md, 2.5.

use primitives::{Address, B256, Log};
use serde::{Serialize, Serializer};

use super::TransactionPlace;
use crate::types::{Data, Quantity};
use crate::wire_type::{Described, WireType};

/// A log as JSON.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LogObject<'a> {
    removed: bool,
    log_index: Option<Quantity<usize>>,
    transaction_index: Option<Quantity<usize>>,
    transaction_hash: Option<Data<B256>>,
    block_hash: Option<Data<B256>>,
    block_number: Option<Quantity>,
    address: Data<&'a Address>,
    data: Data<&'a [u8]>,
    topics: TopicList<'a>,
}

impl Described for LogObject<'_> {
    const TYPE: WireType = WireType::Named("Log");
}

impl<'a> LogObject<'a> {
    /// Shows the log with the index `index` in its block. `transaction_hash` and `place` are those
    /// of its transaction. `removed` says that a reorganization has taken the log back.
    pub(crate) fn new(
        log: &'a Log,
        index: usize,
        transaction_hash: B256,
        place: TransactionPlace,
        removed: bool,
    ) -> Self {
        Self {
            removed,
            log_index: Some(Quantity(index)),
            transaction_index: Some(Quantity(place.index)),
            transaction_hash: Some(Data(transaction_hash)),
            block_hash: Some(Data(place.block_hash)),
            block_number: Some(Quantity(place.block_number)),
            ..Self::pending(log)
        }
    }

    /// Shows a log of the pending block. It has no place yet.
    pub(crate) fn pending(log: &'a Log) -> Self {
        Self {
            removed: false,
            log_index: None,
            transaction_index: None,
            transaction_hash: None,
            block_hash: None,
            block_number: None,
            address: Data(&log.address),
            data: Data(&log.data),
            topics: TopicList(&log.topics),
        }
    }
}

#[derive(Clone, Debug)]
struct TopicList<'a>(&'a [B256]);

impl Serialize for TopicList<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(Data))
    }
}
