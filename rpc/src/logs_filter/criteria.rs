//! Which logs a follower wants (interface 2.6): a range of blocks to come, addresses, topics.
//!
//! A log filter made ready to be asked about every block. Knows no blocks; what matches is decided
//! by the package `chain`, how the options object is read is in `logs_filter`.

use chain::logs::{BloomTest, LogQuery};
use primitives::{Bloom, Log};

use super::{LogFilter, LogSpan};
use crate::decode::FromParam;
use crate::error::{RpcError, RpcResult};
use crate::types::{BlockRef, DecodeError};
use crate::wire_type::WireType;

/// Bytes that an address or topic takes up in the query and in the test of blooms.
const VALUE_LEN: usize = 96;
/// Bytes that the criteria take up without any.
const CRITERIA_LEN: usize = 128;

/// A log filter that follows the chain.
#[derive(Clone, Debug)]
pub struct LogCriteria {
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

    /// Whether the range starts after it ends, where the head is block `head`. As an end `latest`
    /// moves with the chain, above every number.
    pub fn is_backwards(&self, head: u64) -> bool {
        let from = match self.from {
            BlockRef::Earliest => 0,
            BlockRef::Number(number) => number,
            BlockRef::Latest => head,
            BlockRef::Pending => u64::MAX,
        };
        let to = match self.to {
            BlockRef::Earliest => 0,
            BlockRef::Number(number) => number,
            BlockRef::Latest => u64::MAX - 1,
            BlockRef::Pending => u64::MAX,
        };
        from > to
    }

    /// Refuses a range that starts after it ends.
    pub(crate) fn check_range(&self, head: u64) -> RpcResult<()> {
        if self.is_backwards(head) {
            return Err(RpcError::refused(
                "invalid from and to block combination: from > to",
            ));
        }
        Ok(())
    }

    /// Whether block `number`, coming now, is within the range.
    pub fn covers(&self, number: u64) -> bool {
        let starts = match self.from {
            BlockRef::Number(from) => from <= number,
            BlockRef::Earliest | BlockRef::Latest | BlockRef::Pending => true,
        };
        let ends = match self.to {
            BlockRef::Number(to) => number <= to,
            BlockRef::Earliest => number == 0,
            BlockRef::Latest | BlockRef::Pending => true,
        };
        starts && ends
    }

    /// Whether `log` is wanted, wherever it is.
    pub fn matches(&self, log: &Log) -> bool {
        self.query.matches(log)
    }

    /// Whether a block with this bloom can have a wanted log.
    pub fn may_match(&self, bloom: &Bloom) -> bool {
        self.bloom.may_match(bloom)
    }

    /// The same as a question about the blocks that are there.
    pub(crate) fn filter(&self) -> LogFilter {
        LogFilter {
            span: LogSpan::Range {
                from: self.from,
                to: self.to,
            },
            query: self.query.clone(),
        }
    }

    /// Bytes that the criteria take up.
    pub(crate) fn len(&self) -> usize {
        CRITERIA_LEN + VALUE_LEN * self.query.values()
    }
}

/// Every log to come.
impl Default for LogCriteria {
    fn default() -> Self {
        Self::new(BlockRef::Latest, BlockRef::Latest, LogQuery::default())
    }
}

impl FromParam for LogCriteria {
    const TYPE: WireType = <LogFilter as FromParam>::TYPE;

    fn from_json(json: &str) -> Result<Self, DecodeError> {
        let LogFilter { span, query } = LogFilter::from_json(json)?;
        match span {
            LogSpan::Range { from, to } => Ok(Self::new(from, to, query)),
            LogSpan::Block(_) => {
                let reason = "blockHash: a filter follows the chain; mc_getLogs takes a single block";
                Err(DecodeError::Rule(reason.to_owned()))
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
                "{topics}: no bloom hides a match"
            );
        }
    }

    /// The rows of the interface for a log with topics [A, B], and their opposites.
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
    fn ranges() {
        let range = |from: &str, to: &str| {
            read(&format!("{{\"fromBlock\":\"{from}\",\"toBlock\":\"{to}\"}}")).expect("a filter")
        };
        for (from, to, backwards) in [
            ("0x1", "0x2", false),
            ("0x2", "0x2", false),
            ("0x3", "0x2", true),
            ("earliest", "0x0", false),
            ("0x1", "earliest", true),
            ("latest", "0x5", false),
            ("0x5", "latest", false),
            ("pending", "latest", true),
            ("pending", "pending", false),
            ("latest", "0x4", false),
            ("latest", "0x3", true),
            ("latest", "earliest", true),
        ] {
            assert_eq!(range(from, to).is_backwards(4), backwards, "{from} {to}");
        }
        let some = range("0x2", "0x3");
        assert_eq!(
            [1, 2, 3, 4].map(|number| some.covers(number)),
            [false, true, true, false]
        );
        assert!(LogCriteria::default().covers(7));
        assert!(!range("earliest", "earliest").covers(1));
    }

    #[test]
    fn nonsense_is_named() {
        for (json, expected) in [
            ("[]", "want an object, got an array"),
            (r#"{"address":"0x12"}"#, "field address: want 20 bytes, got 1"),
            (
                r#"{"topics":"0x12"}"#,
                "field topics: want an array, got a string",
            ),
            (
                r#"{"topics":["0x12"]}"#,
                "field topics: element 0: want 32 bytes, got 1",
            ),
            (
                "{\"topics\":[AA,AA,AA,AA,AA]}",
                "field topics: 5 members, want at most 4",
            ),
            (
                r#"{"fromBlock":"0x01"}"#,
                "field fromBlock: want a block number or one of earliest, latest, pending: leading zero digits",
            ),
            (
                "{\"blockHash\":AA}",
                "blockHash: a filter follows the chain; mc_getLogs takes a single block",
            ),
        ] {
            assert_eq!(read(json).expect_err("refused"), expected, "{json}");
        }
    }
}
