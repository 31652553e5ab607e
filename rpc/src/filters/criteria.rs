//! Which logs a filter wants (interface 2.6): a range of blocks, addresses, topics by position.
//!
//! Knows how the options object is read and what matches; knows no blocks. Positions that are not
//! given match anything, so a filter without criteria matches every log.

use primitives::{Address, B256, Bloom, BloomInput, LOG_TOPICS_MAX, Log};

use crate::decode::{Fields, FromParam};
use crate::types::{BlockRef, DecodeError};

/// The options object of a log filter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogFilter {
    /// First block.
    pub from: BlockRef,
    /// Last block.
    pub to: BlockRef,
    /// Addresses, one of which a log must come from; any where there are none.
    pub addresses: Vec<Address>,
    /// For each position the topics one of which must be there; any where there are none.
    pub topics: Vec<Vec<B256>>,
}

impl LogFilter {
    /// Whether the range starts after it ends. `latest` and `pending` lie above every number.
    pub fn is_backwards(&self) -> bool {
        let rank = |at: BlockRef| match at {
            BlockRef::Earliest => 0,
            BlockRef::Number(number) => number,
            BlockRef::Latest | BlockRef::Pending => u64::MAX,
        };
        rank(self.from) > rank(self.to)
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
        (self.addresses.is_empty() || self.addresses.contains(&log.address))
            && self.topics.len() <= log.topics.len()
            && self
                .topics
                .iter()
                .zip(&log.topics)
                .all(|(wanted, topic)| wanted.is_empty() || wanted.contains(topic))
    }

    /// Whether a block with this bloom can have a wanted log.
    pub fn may_match(&self, bloom: &Bloom) -> bool {
        let has = |bytes: &[u8]| bloom.contains_input(BloomInput::Raw(bytes));
        (self.addresses.is_empty() || self.addresses.iter().any(|address| has(address.as_slice())))
            && self
                .topics
                .iter()
                .all(|wanted| wanted.is_empty() || wanted.iter().any(|topic| has(topic.as_slice())))
    }

    /// Bytes that the criteria take up.
    pub(crate) fn len(&self) -> usize {
        let topics: usize = self.topics.iter().map(|wanted| 24 + 32 * wanted.len()).sum();
        20 * self.addresses.len() + topics
    }
}

impl FromParam for LogFilter {
    fn from_json(json: &str) -> Result<Self, DecodeError> {
        let fields = Fields::read(json)?;
        if fields.json("blockHash").is_some_and(|json| json != "null") {
            let reason = "blockHash: a filter follows the chain; mc_getLogs takes a single block";
            return Err(DecodeError::Rule(reason.to_owned()));
        }
        let Alternatives(addresses) = fields.get::<Option<_>>("address")?.unwrap_or_default();
        let positions: Vec<Option<Alternatives<B256>>> =
            fields.get::<Option<_>>("topics")?.unwrap_or_default();
        if positions.len() > LOG_TOPICS_MAX {
            return Err(DecodeError::Field {
                name: "topics",
                reason: Box::new(DecodeError::TooMany {
                    got: positions.len(),
                    max: LOG_TOPICS_MAX,
                }),
            });
        }
        Ok(Self {
            from: fields.get("fromBlock")?,
            to: fields.get("toBlock")?,
            addresses: addresses.unwrap_or_default(),
            topics: positions
                .into_iter()
                .map(|position| position.and_then(|Alternatives(any)| any).unwrap_or_default())
                .collect(),
        })
    }
}

/// One value or an array of them; `None` where a null among them stands for anything.
struct Alternatives<T>(Option<Vec<T>>);

impl<T> Default for Alternatives<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: FromParam> FromParam for Alternatives<T> {
    fn from_json(json: &str) -> Result<Self, DecodeError> {
        if json.starts_with('[') {
            let any: Vec<Option<T>> = FromParam::from_json(json)?;
            return Ok(Self(any.into_iter().collect()));
        }
        T::from_json(json).map(|one| Self(Some(vec![one])))
    }
}

#[cfg(test)]
mod tests {
    use primitives::{Bytes, logs_bloom};

    use super::*;

    const A: B256 = B256::repeat_byte(0xaa);
    const B: B256 = B256::repeat_byte(0xbb);
    const C: B256 = B256::repeat_byte(0xcc);

    fn read(json: &str) -> Result<LogFilter, String> {
        let json = json
            .replace("AA", &format!("\"{A}\""))
            .replace("BB", &format!("\"{B}\""))
            .replace("CC", &format!("\"{C}\""));
        LogFilter::from_json(&json).map_err(|error| error.to_string())
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
            ("latest", "0x5", true),
            ("0x5", "latest", false),
            ("pending", "latest", false),
            ("latest", "earliest", true),
        ] {
            assert_eq!(range(from, to).is_backwards(), backwards, "{from} {to}");
        }
        let some = range("0x2", "0x3");
        assert_eq!(
            [1, 2, 3, 4].map(|number| some.covers(number)),
            [false, true, true, false]
        );
        assert!(LogFilter::default().covers(7));
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
            assert_eq!(read(json), Err(expected.to_owned()), "{json}");
        }
    }
}
