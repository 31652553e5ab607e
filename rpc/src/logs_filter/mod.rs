//! The options object of log filters (docs/interface.md, 2.6).
//!
//! Reads the object. The package `chain` decides which logs match. The field `blockHash`, which
//! takes the place of a range of blocks, is what Ethereum's libraries send.

mod criteria;

use chain::logs::LogQuery;
use primitives::{B256, LOG_TOPICS_MAX};

pub(crate) use criteria::LogCriteria;

use crate::decode::{FromParam, ParamFields, WrittenAddress};
use crate::error::{RpcError, RpcResult};
use crate::types::{BlockRef, ParamError};
use crate::wire_type::WireType;

/// A log filter: which blocks, and which of their logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFilter {
    /// The blocks to search.
    pub(crate) span: LogSpan,
    /// The logs that match.
    pub query: LogQuery,
}

/// The blocks of a log filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogSpan {
    /// Canonical blocks.
    Range {
        /// The first block.
        from: BlockRef,
        /// The last block.
        to: BlockRef,
    },
    /// One block, canonical or not.
    Block(B256),
}

impl LogSpan {
    /// Refuses a range that ends before it starts, whatever block is the head.
    ///
    /// A range with a tag may be backwards for one head and not for another: it starts above the
    /// head, or ends below it. Such a range contains no block yet, or none any more, and is not
    /// refused. `geth` draws the line at the same place.
    ///
    /// # Errors
    /// −32000 for a range that never contains a block.
    pub(crate) fn check(&self) -> RpcResult<()> {
        match self {
            Self::Range { from, to } if is_never_forwards(*from, *to) => Err(RpcError::refused(
                "invalid from and to block combination: from > to",
            )),
            Self::Range { .. } | Self::Block(_) => Ok(()),
        }
    }
}

/// Whether a range from `from` to `to` is backwards on every chain.
const fn is_never_forwards(from: BlockRef, to: BlockRef) -> bool {
    use BlockRef::{Earliest, Finalized, Latest, Number, Pending, Safe};
    match (from, to) {
        (Number(first), Number(last)) => first > last,
        (Number(first), Earliest) => first > 0,
        (Pending, Earliest | Latest | Safe | Finalized) => true,
        _ => false,
    }
}

/// A range of blocks with numbers in place of tags. It is empty if `first` is above `last`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NumberRange {
    /// The first block.
    pub first: u64,
    /// The last block. It may be above the head.
    pub last: u64,
    /// Whether the pending block is within the range.
    pub pending: bool,
}

impl NumberRange {
    /// Replaces the tags by numbers. `head` is the number of the head block.
    pub(crate) fn resolve(from: BlockRef, to: BlockRef, head: u64) -> Self {
        let above = head.saturating_add(1);
        // A range names no block by its hash, see `LogFilter`.
        let number = |at: BlockRef| at.number(head).unwrap_or(above);
        let (first, last) = (number(from), number(to));
        let names_pending = from == BlockRef::Pending || to == BlockRef::Pending;
        Self {
            first,
            last,
            pending: names_pending && first <= above && above <= last,
        }
    }
}

/// The end of a range that names none: the highest block. A range that starts at the pending block
/// ends there too, because it would contain nothing otherwise.
fn default_end(from: Option<BlockRef>) -> BlockRef {
    match from {
        Some(BlockRef::Pending) => BlockRef::Pending,
        _ => BlockRef::default(),
    }
}

/// A value, or an array of alternatives. Empty if absent.
struct OneOrMany<T>(Vec<T>);

impl<T: FromParam> FromParam for OneOrMany<T> {
    const TYPE: WireType = WireType::OneOf(&[T::TYPE, WireType::Array(&T::TYPE)]);

    fn from_json(json: &str) -> Result<Self, ParamError> {
        if json.starts_with('[') {
            Vec::from_json(json).map(Self)
        } else {
            T::from_json(json).map(|value| Self(vec![value]))
        }
    }

    fn absent() -> Option<Self> {
        Some(Self(Vec::new()))
    }
}

/// The topics that match at a position: a value, or an array of alternatives. It is empty if any
/// topic matches: if it is absent, an empty array, or has null among the alternatives.
struct TopicAlternatives(Vec<B256>);

impl FromParam for TopicAlternatives {
    const TYPE: WireType = WireType::Named("TOPIC");

    fn from_json(json: &str) -> Result<Self, ParamError> {
        let OneOrMany(alternatives) = OneOrMany::<Option<B256>>::from_json(json)?;
        let all: Option<Vec<_>> = alternatives.into_iter().collect();
        Ok(Self(all.unwrap_or_default()))
    }

    fn absent() -> Option<Self> {
        Some(Self(Vec::new()))
    }
}

impl FromParam for LogFilter {
    const TYPE: WireType = WireType::Named("LogFilter");

    fn from_json(json: &str) -> Result<Self, ParamError> {
        let fields = ParamFields::read(json)?;
        let from: Option<BlockRef> = fields.get("fromBlock")?;
        let to: Option<BlockRef> = fields.get("toBlock")?;
        for (name, end) in [("fromBlock", from), ("toBlock", to)] {
            if let Some(BlockRef::Hash { .. }) = end {
                return Err(ParamError::Rule(format!(
                    "field {name}: got the hash of a block, expected a number or a tag: blockHash names one block"
                )));
            }
        }
        let span = match fields.get("blockHash")? {
            None => LogSpan::Range {
                from: from.unwrap_or_default(),
                to: to.unwrap_or_else(|| default_end(from)),
            },
            Some(hash) if from.is_none() && to.is_none() => LogSpan::Block(hash),
            Some(_) => {
                return Err(ParamError::Rule(
                    "blockHash excludes fromBlock and toBlock".to_owned(),
                ));
            }
        };
        let OneOrMany(addresses) = fields.get::<OneOrMany<WrittenAddress>>("address")?;
        let addresses = addresses.into_iter().map(|address| address.0).collect();
        let topics: Vec<TopicAlternatives> = fields.get::<Option<_>>("topics")?.unwrap_or_default();
        if topics.len() > LOG_TOPICS_MAX {
            return Err(ParamError::Field {
                name: "topics",
                reason: Box::new(ParamError::TooMany {
                    got: topics.len(),
                    max: LOG_TOPICS_MAX,
                }),
            });
        }
        let topics = topics.into_iter().map(|TopicAlternatives(set)| set).collect();
        Ok(Self {
            span,
            query: LogQuery::new(addresses, topics),
        })
    }
}

#[cfg(test)]
mod tests {
    use primitives::Address;
    use serde_json::{Value, json};

    use super::*;
    use crate::types::data;

    const HERE: Address = Address::repeat_byte(1);
    const THERE: Address = Address::repeat_byte(2);
    const A: B256 = B256::repeat_byte(0xa);
    const B: B256 = B256::repeat_byte(0xb);

    fn read(json: &Value) -> Result<LogFilter, ParamError> {
        LogFilter::from_json(&json.to_string())
    }

    #[track_caller]
    fn check_query(json: Value, addresses: &[Address], topics: &[&[B256]]) {
        let topics = topics.iter().map(|set| set.to_vec()).collect();
        let expected = LogQuery::new(addresses.to_vec(), topics);
        assert_eq!(read(&json).expect("a filter").query, expected, "{json}");
    }

    #[test]
    fn addresses_and_topics() {
        let (here, there) = (data(HERE), data(THERE));
        let (a, b) = (data(A), data(B));
        check_query(json!({}), &[], &[]);
        check_query(json!({"address": null, "topics": null}), &[], &[]);
        check_query(json!({"address": here}), &[HERE], &[]);
        check_query(json!({"address": [here, there]}), &[HERE, THERE], &[]);
        check_query(json!({"address": [], "topics": []}), &[], &[]);
        check_query(json!({"topics": [a]}), &[], &[&[A]]);
        check_query(json!({"topics": [null, b]}), &[], &[&[], &[B]]);
        check_query(json!({"topics": [a, b]}), &[], &[&[A], &[B]]);
        check_query(json!({"topics": [[a, b], [a, b]]}), &[], &[&[A, B], &[A, B]]);
        check_query(json!({"topics": [[], a], "address": here}), &[HERE], &[&[], &[A]]);
        check_query(json!({"topics": [[a, null], b]}), &[], &[&[], &[B]]);
    }

    #[test]
    fn spans() {
        let check = |json: Value, expected| assert_eq!(read(&json).map(|filter| filter.span), expected);
        let range = |from, to| Ok(LogSpan::Range { from, to });
        check(json!({}), range(BlockRef::Latest, BlockRef::Latest));
        check(
            json!({"fromBlock": "earliest", "toBlock": "pending"}),
            range(BlockRef::Earliest, BlockRef::Pending),
        );
        check(
            json!({"fromBlock": "0x10", "toBlock": null}),
            range(BlockRef::Number(16), BlockRef::Latest),
        );
        check(
            json!({"fromBlock": "pending"}),
            range(BlockRef::Pending, BlockRef::Pending),
        );
        check(
            json!({"fromBlock": "pending", "toBlock": "latest"}),
            range(BlockRef::Pending, BlockRef::Latest),
        );
        check(json!({"blockHash": data(A)}), Ok(LogSpan::Block(A)));
        check(
            json!({"blockHash": data(A), "toBlock": "0x1"}),
            Err(ParamError::Rule(
                "blockHash excludes fromBlock and toBlock".to_owned(),
            )),
        );
    }

    #[test]
    fn errors_name_the_field() {
        let check = |json: Value, expected: &str| {
            assert_eq!(read(&json).expect_err("no filter").to_string(), expected);
        };
        check(json!([]), "got an array, expected an object");
        check(
            json!({"fromBlock": "0x"}),
            "field fromBlock: expected a block number, a hash of 32 bytes, or one of earliest, latest, pending, safe, finalized: expected at least one hex digit after 0x",
        );
        check(
            json!({"address": data(A)}),
            "field address: got 32 bytes, expected 20 bytes",
        );
        check(
            json!({"address": [data(HERE), 5]}),
            "field address: element 1: got a number, expected a hex string",
        );
        check(
            json!({"topics": [null, [data(A), data(HERE)]]}),
            "field topics: element 1: element 1: got 20 bytes, expected 32 bytes",
        );
        check(
            json!({"topics": [null, null, null, null, null]}),
            "field topics: got 5 members, expected at most 4",
        );
        check(
            json!({"topics": data(A)}),
            "field topics: got a string, expected an array",
        );
    }

    #[test]
    fn ranges_resolve_on_the_head() {
        use BlockRef::{Earliest, Latest, Number, Pending};
        let check = |from, to, expected: (u64, u64, bool)| {
            let range = NumberRange::resolve(from, to, 7);
            assert_eq!(
                (range.first, range.last, range.pending),
                expected,
                "{from:?} to {to:?}"
            );
        };
        check(Latest, Latest, (7, 7, false));
        check(Earliest, Latest, (0, 7, false));
        check(Number(3), Number(99), (3, 99, false));
        check(Earliest, Pending, (0, 8, true));
        check(Pending, Pending, (8, 8, true));
        check(Pending, Number(99), (8, 99, true));
        check(Pending, Number(6), (8, 6, false));
        check(Number(99), Pending, (99, 8, false));
        check(Number(99), Number(100), (99, 100, false));
        check(Latest, Number(6), (7, 6, false));
        check(Number(99), Latest, (99, 7, false));
        assert!(NumberRange::resolve(Pending, Pending, u64::MAX).pending);
    }

    #[test]
    fn only_a_range_that_is_always_backwards_is_refused() {
        use BlockRef::{Earliest, Latest, Number, Pending};
        let refused = [
            (Number(4), Number(3)),
            (Number(1), Earliest),
            (Pending, Latest),
            (Pending, Earliest),
        ];
        let all = [
            Earliest,
            Number(0),
            Number(1),
            Number(3),
            Number(4),
            Latest,
            Pending,
        ];
        let mut count = 0;
        for from in all {
            for to in all {
                let checked = LogSpan::Range { from, to }.check();
                let number = |at| match at {
                    Number(number) => Some(number),
                    Earliest => Some(0),
                    _ => None,
                };
                let is_refused = refused.contains(&(from, to))
                    || matches!((number(from), number(to)), (Some(from), Some(to)) if from > to);
                assert_eq!(checked.is_err(), is_refused, "{from:?} to {to:?}");
                count += usize::from(is_refused);
                if is_refused {
                    // No head makes it a range.
                    for head in 0..9 {
                        let range = NumberRange::resolve(from, to, head);
                        assert!(range.first > range.last, "{from:?} to {to:?} at {head}");
                    }
                }
            }
        }
        assert_eq!(count, 11);
        assert_eq!(LogSpan::Block(A).check(), Ok(()));
        let backwards = LogSpan::Range {
            from: Pending,
            to: Latest,
        };
        let error = backwards.check().expect_err("backwards");
        assert_eq!(error.code(), -32000);
        assert_eq!(
            error.message(),
            "invalid from and to block combination: from > to"
        );
    }
}
