//! The unit of money: amounts are counted in sha and displayed in coins.
//!
//! Knows arithmetic only.

use std::fmt;

use alloy_primitives::U256;

/// An amount in sha, the smallest unit: 10^18 sha are one native token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShaAmount(pub U256);

impl ShaAmount {
    /// Zero.
    pub const ZERO: Self = Self(U256::ZERO);

    /// One native token.
    pub const COIN: Self = Self(U256::from_limbs([1_000_000_000_000_000_000, 0, 0, 0]));

    /// The largest amount that the type can hold.
    pub const MAX: Self = Self(U256::MAX);

    /// An amount of whole tokens. Cannot overflow, because 2^64 * 10^18 is below 2^124.
    pub fn from_coins(coins: u64) -> Self {
        Self(Self::COIN.0 * U256::from(coins))
    }

    /// The sum, or `None` above [`Self::MAX`].
    pub fn checked_add(self, other: Self) -> Option<Self> {
        self.0.checked_add(other.0).map(Self)
    }

    /// The difference, or `None` below zero.
    pub fn checked_sub(self, other: Self) -> Option<Self> {
        self.0.checked_sub(other.0).map(Self)
    }

    /// The product with a number, for example price times gas; `None` above [`Self::MAX`].
    pub fn checked_mul(self, factor: u64) -> Option<Self> {
        self.0.checked_mul(U256::from(factor)).map(Self)
    }
}

impl From<U256> for ShaAmount {
    fn from(sha: U256) -> Self {
        Self(sha)
    }
}

impl From<u64> for ShaAmount {
    fn from(sha: u64) -> Self {
        Self(U256::from(sha))
    }
}

impl From<ShaAmount> for U256 {
    fn from(amount: ShaAmount) -> Self {
        amount.0
    }
}

/// The exact amount in coins, without zeros at the end: `1`, `0.000000000000000001`.
impl fmt::Display for ShaAmount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (coins, sha) = self.0.div_rem(Self::COIN.0);
        if sha.is_zero() {
            return f.pad(&coins.to_string());
        }
        let digits = format!("{:0>18}", sha.to_string());
        f.pad(&format!("{coins}.{}", digits.trim_end_matches('0')))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(sha: U256, shown: &str) {
        assert_eq!(ShaAmount(sha).to_string(), shown);
    }

    #[test]
    fn amounts_are_displayed_in_coins() {
        check(U256::ZERO, "0");
        check(U256::from(1), "0.000000000000000001");
        check(ShaAmount::COIN.0, "1");
        check(U256::from(20_000_000_000u64), "0.00000002");
        check(ShaAmount::from_coins(150_000_000).0, "150000000");
        check(
            ShaAmount::from_coins(2).0 + U256::from(5u64 * 10u64.pow(17)),
            "2.5",
        );
        check(
            U256::MAX,
            "115792089237316195423570985008687907853269984665640564039457.584007913129639935",
        );
        assert_eq!(format!("{:>5}", ShaAmount::COIN), "    1");
    }

    #[test]
    fn sums_do_not_wrap() {
        let one = ShaAmount::from(1);
        assert_eq!(ShaAmount::MAX.checked_add(one), None);
        assert_eq!(ShaAmount::ZERO.checked_sub(one), None);
        assert_eq!(ShaAmount::MAX.checked_mul(2), None);
        assert_eq!(one.checked_add(one), Some(ShaAmount::from(2)));
        assert_eq!(ShaAmount::from(2).checked_sub(one), Some(one));
        assert_eq!(one.checked_mul(7), Some(ShaAmount::from(7)));
    }
}
