//! Numbers with units, for people.

use std::time::Duration;

/// A hashrate, such as `12.34 MH/s`.
pub fn rate_text(rate: f64) -> String {
    let (value, unit) = match rate {
        rate if rate >= 1e9 => (rate / 1e9, "GH/s"),
        rate if rate >= 1e6 => (rate / 1e6, "MH/s"),
        rate if rate >= 1e3 => (rate / 1e3, "kH/s"),
        rate => (rate, "H/s"),
    };
    format!("{value:.2} {unit}")
}

/// Bytes per second, such as `12.34 GB/s`.
pub fn byte_rate_text(rate: f64) -> String {
    let (value, unit) = match rate {
        rate if rate >= 1e12 => (rate / 1e12, "TB/s"),
        rate if rate >= 1e9 => (rate / 1e9, "GB/s"),
        rate => (rate / 1e6, "MB/s"),
    };
    format!("{value:.2} {unit}")
}

/// A time, such as `3:07:09`.
pub fn time_text(time: Duration) -> String {
    let seconds = time.as_secs();
    format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// A fraction as a percentage, such as `1.5 %`; a dash for `None`.
pub fn share_text(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), |share| format!("{:.1} %", share * 100.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_units() {
        let check = |rate, expected| assert_eq!(rate_text(rate), expected);
        check(0.0, "0.00 H/s");
        check(999.0, "999.00 H/s");
        check(1_500.0, "1.50 kH/s");
        check(2.5e7, "25.00 MH/s");
        check(3e9, "3.00 GH/s");
        let bytes = |rate, expected| assert_eq!(byte_rate_text(rate), expected);
        bytes(1_500_000.0, "1.50 MB/s");
        bytes(2.5e10, "25.00 GB/s");
        bytes(4.3e12, "4.30 TB/s");
        assert_eq!(time_text(Duration::from_secs(11_229)), "3:07:09");
        assert_eq!(
            (share_text(None), share_text(Some(0.125))),
            ("-".into(), "12.5 %".into())
        );
    }
}
