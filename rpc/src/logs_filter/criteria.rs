//! The criteria of a log filter: a range of blocks, addresses, topics.
//! Source: docs/interface.md, 2.6.
//!
//! [`LogCriteria`] is a filter prepared for matching block after block. It knows no blocks. The
//! package `chain` decides what matches. The module above reads the options object.

use chain::logs::{BloomTest, LogQuery};
use primitives::{Bloom, Log};

use super::{LogFilter, LogSpan};
use crate::decode::FromParam;
use crate::error::RpcResult;
use crate::types::{BlockRef, ParamError};
use crate::wire_type::WireType;

/// Bytes that an address or topic takes in the query and in the bloom test.
const VALUE_LEN: usize = 96;
/// Bytes of criteria without addresses and topics.
const CRITERIA_LEN: usize = 128;

/// Selects logs of new blocks for a filter or a subscription.
#[derive(Clone, Debug)]
pub(crate) struct LogCriteria {
    from: BlockRef,
    to: BlockRef,
    query: LogQuery,
    bloom: BloomTest,
}

impl LogCriteria {
    fn new(from: BlockRef, to: BlockRef, query: LogQuery) -> Self {
        Self {
            from,
            to,
            bloom: query.bloom_test(),
            query,
        }
    }

    /// Refuses a range that ends before it starts, see [`LogSpan::check`].
    pub(crate) fn check_range(&self) -> RpcResult<()> {
        self.span().check()
    }

    const fn span(&self) -> LogSpan {
        LogSpan::Range {
            from: self.from,
            to: self.to,
        }
    }

    /// Whether the range contains block `number`, which has just become canonical.
    pub(crate) const fn covers(&self, number: u64) -> bool {
        let starts = match self.from {
            BlockRef::Number(from) => from <= number,
            BlockRef::Earliest
            | BlockRef::Latest
            | BlockRef::Pending
            | BlockRef::Safe
            | BlockRef::Finalized
            | BlockRef::Hash { .. } => true,
        };
        let ends = match self.to {
            BlockRef::Number(to) => number <= to,
            // A block is below the head by that much only long after it has become canonical.
            BlockRef::Earliest | BlockRef::Safe | BlockRef::Finalized => number == 0,
            BlockRef::Latest | BlockRef::Pending | BlockRef::Hash { .. } => true,
        };
        starts && ends
    }

    /// Whether `log` matches, whichever block it is in.
    pub(crate) fn matches(&self, log: &Log) -> bool {
        self.query.matches(log)
    }

    /// Whether a block with this bloom can contain a matching log.
    pub(crate) fn may_match(&self, bloom: &Bloom) -> bool {
        self.bloom.may_match(bloom)
    }

    /// The same criteria as a query over the existing blocks.
    pub(crate) fn filter(&self) -> LogFilter {
        LogFilter {
            span: self.span(),
            query: self.query.clone(),
        }
    }

    /// The bytes that the criteria take in memory.
    pub(crate) fn len(&self) -> usize {
        CRITERIA_LEN + VALUE_LEN * self.query.values()
    }
}

/// Matches every log of every block that comes.
impl Default for LogCriteria {
    fn default() -> Self {
        Self::new(BlockRef::Latest, BlockRef::Latest, LogQuery::default())
    }
}

impl FromParam for LogCriteria {
    const TYPE: WireType = <LogFilter as FromParam>::TYPE;

    fn from_json(json: &str) -> Result<Self, ParamError> {
        let LogFilter { span, query } = LogFilter::from_json(json)?;
        match span {
            LogSpan::Range { from, to } => Ok(Self::new(from, to, query)),
            LogSpan::Block(_) => {
                let reason = "blockHash: a filter takes a range of blocks, and mc_getLogs a single block";
                Err(ParamError::Rule(reason.to_owned()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use primitives::{Address, B256, Bytes, logs_bloom};

    use super::*;

    const A: B256 = B256::repeat_byte(0xaa);
    const B: B256 = B256::repeat_byte(0xbb);
    const C: B256 = B256::repeat_byte(0xcc);

    fn read(json: &str) -> Result<LogCriteria, String> {
        let json = json
            .replace("AA", &format!("\"{A}\""))
            .replace("BB", &format!("\"{B}\""))
            .replace("CC", &format!("\"{C}\""));
        LogCriteria::from_json(&json).map_err(|error| error.to_string())
    }

    fn log(topics: &[B256]) -> Log {
        Log {
            address: Address::repeat_byte(1),
            topics: topics.to_vec(),
            data: Bytes::new(),
        }
    }

    #[track_caller]
    fn check(topics: &str, log_topics: &[B256], expected: bool) {
        let filter = read(&format!("{{\"topics\":{topics}}}")).expect("a filter");
        let log = log(log_topics);
        assert_eq!(filter.matches(&log), expected, "{topics}");
        if expected {
            assert!(
                filter.may_match(&logs_bloom([&log])),
                "{topics}: the bloom hides a match"
            );
        }
    }

    /// Filters that match a log with topics [A, B], and filters that do not.
    /// Source: docs/interface.md, 2.6.
    #[test]
    fn topics_match_by_position() {
        for topics in [
            "[]",
            "null",
            "[AA]",
            "[null,BB]",
            "[AA,BB]",
            "[[AA,BB],[AA,BB]]",
            "[AA,null]",
            "[[],BB]",
            "[[CC,null],BB]",
        ] {
            check(topics, &[A, B], true);
        }
        for topics in [
            "[BB]",
            "[null,AA]",
            "[BB,AA]",
            "[[CC],[AA,BB]]",
            "[AA,BB,CC]",
            "[AA,BB,null]",
            "[CC]",
        ] {
            check(topics, &[A, B], false);
        }
        check("[]", &[], true);
        check("[null]", &[], false);
        check("[AA,BB,CC,AA]", &[A, B, C, A], true);
    }

    #[test]
    fn addresses_are_alternatives() {
        let one = Address::repeat_byte(1);
        let other = Address::repeat_byte(2);
        let matches = |address: String| {
            read(&format!("{{\"address\":{address}}}")).map(|filter| filter.matches(&log(&[])))
        };
        assert_eq!(matches(format!("\"{one}\"")), Ok(true));
        assert_eq!(matches(format!("[\"{other}\",\"{one}\"]")), Ok(true));
        assert_eq!(matches(format!("\"{other}\"")), Ok(false));
        assert_eq!(matches("[]".to_owned()), Ok(true));
        assert_eq!(matches("null".to_owned()), Ok(true));
        let filter = read(&format!("{{\"address\":\"{other}\"}}")).expect("a filter");
        assert!(!filter.may_match(&Bloom::ZERO));
    }

    #[test]
    fn ranges_cover_new_blocks() {
        let range = |from: &str, to: &str| {
            read(&format!("{{\"fromBlock\":\"{from}\",\"toBlock\":\"{to}\"}}")).expect("a filter")
        };
        let some = range("0x2", "0x3");
        assert_eq!(
            [1, 2, 3, 4].map(|number| some.covers(number)),
            [false, true, true, false]
        );
        assert!(LogCriteria::default().covers(7));
        assert!(!range("earliest", "earliest").covers(1));
    }

    #[test]
    fn invalid_filters_name_the_reason() {
        for (json, expected) in [
            ("[]", "got an array, expected an object"),
            (
                r#"{"address":"0x12"}"#,
                "field address: got 1 byte, expected 20 bytes",
            ),
            (
                r#"{"address":"0x5aaeb6053F3E94C9b9A09f33669435E7Ef1BeAed"}"#,
                "field address: the checksum of the address is wrong: got 0x5aaeb6053F3E94C9b9A09f33669435E7Ef1BeAed, expected 0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
            ),
            (
                r#"{"topics":"0x12"}"#,
                "field topics: got a string, expected an array",
            ),
            (
                r#"{"topics":["0x12"]}"#,
                "field topics: element 0: got 1 byte, expected 32 bytes",
            ),
            (
                "{\"topics\":[AA,AA,AA,AA,AA]}",
                "field topics: got 5 members, expected at most 4",
            ),
            (
                r#"{"fromBlock":"0x"}"#,
                "field fromBlock: expected a block number, a hash of 32 bytes, or one of earliest, latest, pending, safe, finalized: expected at least one hex digit after 0x",
            ),
            (
                "{\"blockHash\":AA}",
                "blockHash: a filter takes a range of blocks, and mc_getLogs a single block",
            ),
        ] {
            assert_eq!(read(json).expect_err("refused"), expected, "{json}");
        }
    }
}
