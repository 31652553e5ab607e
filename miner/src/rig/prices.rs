//! The prices of power by time, from a file that others may rewrite while the rig runs.
//!
//! Each line has the start of a period and the price from then on, separated by blanks. Empty lines
//! and what follows a `#` do not count. Either every start is a time of the day in the time zone of
//! this machine (`07:00 0.31`), and the prices hold every day; or every start is a moment in UTC
//! (`2026-11-28T07:00Z 0.31`), as of a power exchange. Starts rise. The last moment's price holds
//! as long as the period before it, or for an hour if there is no other.

use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use super::hours::TimeOfDay;

/// The largest file that is read. A year of quarters of an hour has a third of it.
const FILE_LEN_MAX: u64 = 4 << 20;
/// The period of a price that stands alone, in seconds.
const ONLY_PERIOD_SECS: u64 = 3600;

/// The reasons why a file of prices cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PriceFileError {
    /// The file cannot be read.
    #[error("{}: {reason}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        reason: io::Error,
    },
    /// The file is too long.
    #[error("{}: got {got} bytes, expected at most {FILE_LEN_MAX}", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
        /// Its length.
        got: u64,
    },
    /// A line cannot be used.
    #[error("{}: line {line}: got {got:?}, expected {expected}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The number of the line, from 1.
        line: usize,
        /// The line, or its beginning.
        got: String,
        /// The form of a good line.
        expected: &'static str,
    },
    /// No line has a price.
    #[error("{}: got no line with a price, expected HH:MM PRICE or YYYY-MM-DDTHH:MMZ PRICE", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
}

/// A moment, as UTC and as the time of the day in the time zone of this machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct PriceMoment {
    pub(super) unix_secs: u64,
    pub(super) time_of_day: TimeOfDay,
}

impl PriceMoment {
    /// The time of this machine's clock.
    pub(super) fn now() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        Self {
            unix_secs: since.map_or(0, |since| since.as_secs()),
            time_of_day: TimeOfDay::now(),
        }
    }
}

/// The prices of a file.
#[derive(Clone, Debug, PartialEq)]
enum PriceTable {
    /// Starts of periods, every day.
    Daily(Vec<(TimeOfDay, f64)>),
    /// Starts in seconds since 1970, and the end of the last period.
    Dated(Vec<(u64, f64)>, u64),
}

/// The length and the time of the last change of a file; `None` if there is no such file.
type FileStamp = Option<(u64, Option<SystemTime>)>;

/// The prices of power, which follow their file.
#[derive(Clone, Debug, PartialEq)]
pub struct PowerPrices {
    path: PathBuf,
    stamp: FileStamp,
    table: PriceTable,
}

/// The result of a look at the prices.
#[derive(Debug)]
pub(super) struct PriceReading {
    /// The price now; `None` if the file has none for this moment.
    pub(super) price: Option<f64>,
    /// Set if the file has changed. After an error the prices are those from before.
    pub(super) change: Option<Result<(), PriceFileError>>,
}

impl PowerPrices {
    /// Reads the prices of the file at `path`.
    ///
    /// # Errors
    /// [`PriceFileError`] if the file cannot be used.
    pub fn open(path: &Path) -> Result<Self, PriceFileError> {
        let stamp = stamp(path);
        let table = read(path)?;
        Ok(Self {
            path: path.to_owned(),
            stamp,
            table,
        })
    }

    /// The price at `now`. Reads the file again if it has changed.
    pub(super) fn check(&mut self, now: PriceMoment) -> PriceReading {
        let stamp = stamp(&self.path);
        let change = (stamp != self.stamp).then(|| {
            self.stamp = stamp;
            read(&self.path).map(|table| self.table = table)
        });
        PriceReading {
            price: self.table.at(now),
            change,
        }
    }
}

impl PriceTable {
    fn at(&self, now: PriceMoment) -> Option<f64> {
        let (starts, is_known) = match self {
            // Before the first start of the day the last price of the day before holds.
            Self::Daily(prices) => {
                let next = prices.partition_point(|(start, _)| *start <= now.time_of_day);
                let current = prices[..next].last().or_else(|| prices.last());
                return current.map(|(_, price)| *price);
            }
            Self::Dated(prices, end) => (prices, now.unix_secs < *end),
        };
        let next = starts.partition_point(|(start, _)| *start <= now.unix_secs);
        let current = starts[..next].last().filter(|_| is_known);
        current.map(|(_, price)| *price)
    }
}

fn stamp(path: &Path) -> FileStamp {
    let metadata = fs::metadata(path).ok();
    metadata.map(|metadata: Metadata| (metadata.len(), metadata.modified().ok()))
}

fn read(path: &Path) -> Result<PriceTable, PriceFileError> {
    let unreadable = |reason| PriceFileError::Read {
        path: path.to_owned(),
        reason,
    };
    let got = fs::metadata(path).map_err(unreadable)?.len();
    if got > FILE_LEN_MAX {
        return Err(PriceFileError::TooLong {
            path: path.to_owned(),
            got,
        });
    }
    parse(path, &fs::read_to_string(path).map_err(unreadable)?)
}

fn parse(path: &Path, text: &str) -> Result<PriceTable, PriceFileError> {
    let (mut daily, mut dated) = (Vec::new(), Vec::new());
    for (index, whole) in text.lines().enumerate() {
        let bad = |expected| PriceFileError::Line {
            path: path.to_owned(),
            line: index + 1,
            got: whole.chars().take(60).collect(),
            expected,
        };
        let mut words = whole.split('#').next().unwrap_or_default().split_whitespace();
        let Some(start) = words.next() else { continue };
        let price = words.next().and_then(|word| word.parse::<f64>().ok());
        // Prices of an exchange may be negative.
        let price = price.filter(|price| price.abs() <= 1e9 && words.next().is_none());
        let price = price.ok_or_else(|| bad("a start and a price, such as 07:00 0.31"))?;
        if let Ok(start) = start.parse::<TimeOfDay>() {
            if daily.last().is_some_and(|(before, _)| *before >= start) {
                return Err(bad("a later start than in the line before"));
            }
            daily.push((start, price));
        } else {
            let start = utc_secs(start).ok_or_else(|| bad("a start as HH:MM or as YYYY-MM-DDTHH:MMZ"))?;
            if dated.last().is_some_and(|(before, _)| *before >= start) {
                return Err(bad("a later start than in the line before"));
            }
            dated.push((start, price));
        }
        if !daily.is_empty() && !dated.is_empty() {
            return Err(bad("a start of the same form as in the lines before"));
        }
    }
    let end = match dated[..] {
        [] => None,
        [(only, _)] => Some(only + ONLY_PERIOD_SECS),
        [.., (before, _), (last, _)] => Some(last + (last - before)),
    };
    match end {
        Some(end) => Ok(PriceTable::Dated(dated, end)),
        None if daily.is_empty() => Err(PriceFileError::Empty {
            path: path.to_owned(),
        }),
        None => Ok(PriceTable::Daily(daily)),
    }
}

/// Seconds since 1970 of a moment such as `2026-11-28T07:00Z`. `None` if the text is none, or is
/// before 1970.
fn utc_secs(text: &str) -> Option<u64> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let time: TimeOfDay = time.parse().ok()?;
    let mut parts = date.split('-').map(|part| {
        let is_number = part.bytes().all(|byte| byte.is_ascii_digit());
        part.parse::<u64>().ok().filter(|_| is_number)
    });
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    let is_leap = |year: u64| year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    let february = 28 + u64::from(is_leap(year));
    let months = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let month_index = usize::try_from(month).ok()?.checked_sub(1)?;
    let is_date = (1970..=9999).contains(&year) && (1..=*months.get(month_index)?).contains(&day);
    if !is_date || parts.next().is_some() {
        return None;
    }
    let years: u64 = (1970..year).map(|year| 365 + u64::from(is_leap(year))).sum();
    let days = years + months[..month_index].iter().sum::<u64>() + day - 1;
    Some(days * 86_400 + u64::from(time.minutes()) * 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(unix_secs: u64, time: &str) -> PriceMoment {
        PriceMoment {
            unix_secs,
            time_of_day: time.parse().expect(time),
        }
    }

    fn table(text: &str) -> Result<PriceTable, PriceFileError> {
        parse(Path::new("prices"), text)
    }

    #[test]
    fn moments_are_seconds_since_1970() {
        for (text, expected) in [
            ("1970-01-01T00:00Z", Some(0)),
            ("2000-03-01T00:00Z", Some(951_868_800)),
            ("2024-02-29T23:59Z", Some(1_709_251_140)),
            ("2026-11-28T07:00Z", Some(1_795_849_200)),
            ("2026-02-29T00:00Z", None),
            ("1969-12-31T23:59Z", None),
            ("2026-13-01T00:00Z", None),
            ("2026-00-01T00:00Z", None),
            ("2026-11-28T07:00", None),
            ("2026-11-28 07:00Z", None),
            ("+2026-11-28T07:00Z", None),
            ("2026-11-28-1T07:00Z", None),
        ] {
            assert_eq!(utc_secs(text), expected, "{text}");
        }
    }

    #[test]
    fn a_price_holds_until_the_next_start() {
        let daily = table("# cents\n07:00 31 # dear\n\n22:30 12.5\n").expect("good");
        for (time, expected) in [
            ("00:00", 12.5),
            ("06:59", 12.5),
            ("07:00", 31.0),
            ("22:29", 31.0),
            ("23:59", 12.5),
        ] {
            assert_eq!(daily.at(at(0, time)), Some(expected), "{time}");
        }
        let dated = table("1970-01-02T00:00Z 5\n1970-01-02T02:00Z -1\n").expect("good");
        for (secs, expected) in [
            (86_399, None),
            (86_400, Some(5.0)),
            (93_599, Some(5.0)),
            (93_600, Some(-1.0)),
            (100_799, Some(-1.0)),
            (100_800, None),
        ] {
            assert_eq!(dated.at(at(secs, "00:00")), expected, "{secs}");
        }
        let only = table("1970-01-01T01:00Z 5").expect("good");
        assert_eq!(
            [3599, 3600, 7199, 7200].map(|secs| only.at(at(secs, "00:00"))),
            [None, Some(5.0), Some(5.0), None]
        );
    }

    #[test]
    fn other_files_are_refused_with_the_line() {
        for (text, expected) in [
            ("", "no line with a price"),
            ("# nothing\n", "no line with a price"),
            ("07:00", "line 1: got \"07:00\", expected a start and a price"),
            ("07:00 1\n08:00 cheap", "line 2: got \"08:00 cheap\""),
            ("07:00 NaN", "expected a start and a price"),
            ("07:00 1 2", "expected a start and a price"),
            (
                "07:00 1\n07:00 2",
                "line 2: got \"07:00 2\", expected a later start",
            ),
            ("7 1", "expected a start as HH:MM or"),
            (
                "07:00 1\n2026-11-28T07:00Z 2",
                "line 2: got \"2026-11-28T07:00Z 2\", expected a start of the same form",
            ),
        ] {
            let error = table(text).expect_err(text).to_string();
            assert!(error.contains(expected), "{text:?}: {error}");
        }
    }

    #[test]
    fn a_file_is_followed_and_a_bad_one_changes_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("prices");
        assert!(matches!(
            PowerPrices::open(&path),
            Err(PriceFileError::Read { .. })
        ));
        fs::write(&path, "00:00 1\n12:00 2\n").expect("written");
        let mut prices = PowerPrices::open(&path).expect("good");
        let mut look = |time| {
            let PriceReading { price, change } = prices.check(at(0, time));
            (
                price,
                change.map(|change| change.map_err(|error| error.to_string())),
            )
        };
        assert_eq!(look("01:00"), (Some(1.0), None));
        assert_eq!(look("12:00"), (Some(2.0), None));
        fs::write(&path, "00:00 30\n").expect("written");
        assert_eq!(look("12:00"), (Some(30.0), Some(Ok(()))));
        assert_eq!(look("12:00"), (Some(30.0), None));
        fs::write(&path, "00:00 thirty\n").expect("written");
        let (price, change) = look("12:00");
        let error = change.expect("it has changed").expect_err("it is bad");
        assert!(
            price == Some(30.0) && error.contains("line 1: got \"00:00 thirty\""),
            "{error}"
        );
        assert_eq!(look("12:00"), (Some(30.0), None), "said once");
        fs::remove_file(&path).expect("removed");
        let (price, change) = look("12:00");
        assert!(price == Some(30.0) && change.is_some_and(|change| change.is_err()));
        fs::write(&path, "00:00 7\n").expect("written");
        assert_eq!(look("12:00"), (Some(7.0), Some(Ok(()))), "it is back");
        fs::write(&path, "x".repeat(FILE_LEN_MAX as usize + 1)).expect("written");
        let (_, change) = look("12:00");
        let error = change.expect("it has changed").expect_err("it is too long");
        assert!(
            error.contains("got 4194305 bytes, expected at most 4194304"),
            "{error}"
        );
    }
}
