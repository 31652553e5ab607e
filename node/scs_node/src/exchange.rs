//! The least withdrawal of a MicroChain, from what its chain base says of the exchange.
//!
//! This minimum is a rule of the MicroChain (docs/microchain-design.md, 6), so all members must
//! find the same. The numbers that it follows from never change.

use primitives::U256;

/// A withdrawal must be worth so many sha: a thousandth of a coin. Its payout costs the chain base
/// up to 2.7 thousandths.
const SHA_MIN: u64 = 1_000_000_000_000_000;
/// A withdrawal never needs more than this part of all tokens.
const SUPPLY_PART_MAX: u64 = 1_000;
/// A withdrawal of a token that has no price in coins needs this part of all tokens.
const SUPPLY_PART: u64 = 1_000_000_000;
/// Decimals of an ERC-20 token, at most.
const DECIMALS_MAX: u64 = 18;

/// The exchange of a chain base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExchangeRate {
    /// Tokens for one coin.
    Coins(U256),
    /// Tokens for one ERC-20 token, and 18 less the decimals of that token.
    Tokens { rate: U256, decimals: U256 },
}

impl ExchangeRate {
    /// The least withdrawal of a MicroChain with so many tokens, in units of 10^-18.
    pub(crate) fn withdrawal_min(self, supply: U256) -> U256 {
        let part = |part: u64| supply / U256::from(part);
        let min = match self {
            Self::Coins(price) => price
                .saturating_mul(U256::from(SHA_MIN))
                .min(part(SUPPLY_PART_MAX)),
            Self::Tokens { rate, decimals } => {
                let decimals = decimals.min(U256::from(DECIMALS_MAX));
                let unit = rate.saturating_mul(U256::from(10).pow(decimals));
                unit.max(part(SUPPLY_PART))
            }
        };
        min.max(U256::from(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(tokens: u64) -> U256 {
        U256::from(tokens) * U256::from(10).pow(U256::from(18))
    }

    #[test]
    fn a_withdrawal_is_worth_a_thousandth_of_a_coin() {
        let min = |price: u64, supply| ExchangeRate::Coins(U256::from(price)).withdrawal_min(supply);
        // The published script: 10 tokens for a coin, 996 tokens.
        assert_eq!(min(10, tokens(996)), tokens(1) / U256::from(100));
        assert_eq!(min(1000, tokens(1_000_000)), tokens(1));
        // A chain whose tokens are worth less than a coin.
        assert_eq!(min(1000, tokens(10)), tokens(1) / U256::from(100));
        assert_eq!(min(0, tokens(10)), U256::from(1));
        assert_eq!(min(u64::MAX, U256::from(10)), U256::from(1));
        let whole = ExchangeRate::Coins(U256::MAX).withdrawal_min(U256::MAX);
        assert_eq!(whole, U256::MAX / U256::from(1000));
    }

    #[test]
    fn a_withdrawal_pays_at_least_one_unit_of_the_token() {
        let min = |rate: u64, decimals: u64, supply| {
            let (rate, decimals) = (U256::from(rate), U256::from(decimals));
            ExchangeRate::Tokens { rate, decimals }.withdrawal_min(supply)
        };
        // 6 decimals, 5,000 tokens at a rate of 2: a unit is 2 * 10^12.
        assert_eq!(
            min(2, 12, tokens(10_000)),
            tokens(10_000) / U256::from(1_000_000_000)
        );
        // No decimals: a unit is a whole token.
        assert_eq!(min(3, 18, tokens(3_000)), tokens(3));
        assert_eq!(min(1, u64::MAX, tokens(1)), tokens(1));
    }
}
