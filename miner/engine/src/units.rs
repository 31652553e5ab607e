//! Numbers with units, for people.

use std::time::Duration;

use ethash::B256;

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

/// A large number, such as `4.29 G`.
pub fn large_text(number: f64) -> String {
    let (value, unit) = match number {
        number if number >= 1e15 => (number / 1e15, " P"),
        number if number >= 1e12 => (number / 1e12, " T"),
        number if number >= 1e9 => (number / 1e9, " G"),
        number if number >= 1e6 => (number / 1e6, " M"),
        number if number >= 1e3 => (number / 1e3, " k"),
        number => return format!("{number:.0}"),
    };
    format!("{value:.2}{unit}")
}

/// The first eight digits of a hash, such as `0x1a2b3c4d`. A log has the whole hash at level debug.
pub fn short_hash(hash: &B256) -> String {
    format!(
        "0x{:08x}",
        u32::from_be_bytes([hash[0], hash[1], hash[2], hash[3]])
    )
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
        let large = |number, expected| assert_eq!(large_text(number), expected);
        large(512.0, "512");
        large(4.294e9, "4.29 G");
        large(5e16, "50.00 P");
        assert_eq!(short_hash(&B256::repeat_byte(0xab)), "0xabababab");
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
