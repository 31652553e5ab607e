//! Shares in percent.

/// `percent` percent of `whole`, rounded up. More than 100 percent are all of it.
pub fn percent_of(whole: usize, percent: usize) -> usize {
    let part = (whole as u128 * percent.min(100) as u128).div_ceil(100);
    usize::try_from(part).unwrap_or(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_rounded_up() {
        for (whole, percent, expected) in [
            (0, 50, 0),
            (1, 1, 1),
            (3, 50, 2),
            (1024, 50, 512),
            (7, 0, 0),
            (7, 100, 7),
            (7, 1000, 7),
            (usize::MAX, 50, usize::MAX.div_ceil(2)),
        ] {
            assert_eq!(
                percent_of(whole, percent),
                expected,
                "{percent} percent of {whole}"
            );
        }
    }
}
