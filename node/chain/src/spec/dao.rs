//! The DAO fork's change of state: whose balances go where.
//!
//! The accounts are data of Ethereum's chain, a line each in `dao_accounts.txt`.

use primitives::{Address, address};

/// Gets what the drained accounts had.
pub(crate) const REFUND_CONTRACT: Address = address!("bf4ed7b27f1d666546e30d74d50d173d20bca754");

/// The accounts that lose their balances.
pub(crate) fn drained_accounts() -> impl Iterator<Item = Address> {
    let parse = |line: &str| line.parse().expect("a test reads every line");
    include_str!("dao_accounts.txt").lines().map(parse)
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_line_is_an_address_and_none_stands_twice() {
        let all: std::collections::HashSet<_> = super::drained_accounts().collect();
        assert_eq!(all.len(), 116);
    }
}
