//! Names of key files: the time when the file was made, and the address of the key.
//!
//! Other clients sort and find key files by these names. If the file also contains an address, that
//! one is used.

use std::time::{Duration, SystemTime};

use primitives::{Address, hex};

/// `UTC--<time>--<address>`. The time has no colons, because some systems do not allow them in
/// names.
pub(crate) fn file_name(now: SystemTime, address: &Address) -> String {
    // A clock before 1970 gives the time 0. Nothing depends on it.
    let since_1970 = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    format!("UTC--{}--{}", utc_time(since_1970), hex::encode(address))
}

/// The address at the end of the name of a key file; `None` if there is none.
pub(crate) fn address_in(name: &str) -> Option<Address> {
    let (_, end) = name.rsplit_once("--")?;
    let digits = end.strip_suffix(".json").unwrap_or(end);
    hex::decode_to_array(digits).ok().map(Address::new)
}

fn utc_time(since_1970: Duration) -> String {
    let (seconds, nanoseconds) = (since_1970.as_secs(), since_1970.subsec_nanos());
    let (year, month, day) = date(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}-{minute:02}-{second:02}.{nanoseconds:09}Z")
}

/// Year, month and day of the day `days` after 1970-01-01, in the Gregorian calendar.
fn date(days: u64) -> (u64, u64, u64) {
    // Days are counted from 0000-03-01. Then a leap day is the last day of its year, and the
    // calendar repeats after 400 years, which are 146,097 days.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // From March on, five months together have 153 days: 31, 30, 31, 30, 31.
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_sort_by_time_and_end_with_the_address() {
        let address = Address::repeat_byte(0xab);
        let check = |nanoseconds: u64, time: &str| {
            let now = SystemTime::UNIX_EPOCH + Duration::from_nanos(nanoseconds);
            let name = file_name(now, &address);
            assert_eq!(name, format!("UTC--{time}--{}", "ab".repeat(20)));
            assert_eq!(address_in(&name), Some(address));
        };
        check(0, "1970-01-01T00-00-00.000000000Z");
        check(951_782_399_000_000_001, "2000-02-28T23-59-59.000000001Z");
        check(951_782_400_000_000_000, "2000-02-29T00-00-00.000000000Z");
        check(1_709_251_199_999_999_999, "2024-02-29T23-59-59.999999999Z");
        check(1_458_651_475_920_751_759, "2016-03-22T12-57-55.920751759Z");
        check(4_107_542_400_000_000_000, "2100-03-01T00-00-00.000000000Z");
        let early = file_name(SystemTime::UNIX_EPOCH - Duration::from_secs(9), &address);
        assert!(early.starts_with("UTC--1970-01-01T00-00-00."), "{early}");
    }

    #[test]
    fn every_day_follows_the_one_before() {
        let mut previous = date(0);
        for days in 1..200_000 {
            let (year, month, day) = date(days);
            let next_day = (previous.0, previous.1, previous.2 + 1);
            let next_month = (previous.0, previous.1 + 1, 1);
            let next_year = (previous.0 + 1, 1, 1);
            let found = (year, month, day);
            assert!(
                [next_day, next_month, next_year].contains(&found),
                "{previous:?} {found:?}"
            );
            assert!((1..=12).contains(&month) && (1..=31).contains(&day), "{found:?}");
            previous = found;
        }
        assert_eq!(previous, (2517, 7, 31));
    }

    #[test]
    fn names_of_other_clients() {
        let digits = "0102030405060708090a0b0c0d0e0f1011121314";
        let address: Address = digits.parse().expect("an address");
        for name in [
            format!("UTC--x--{digits}"),
            format!("UTC--2020--{digits}.json"),
            format!("--0x{}", digits.to_uppercase()),
        ] {
            assert_eq!(address_in(&name), Some(address), "{name}");
        }
        for name in ["key.json", "UTC--", "UTC--01", digits, "UTC--x--zz", ""] {
            assert_eq!(address_in(name), None, "{name}");
        }
    }
}
