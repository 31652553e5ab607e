//! The accounts of the DAO fork's irregular state change.
//!
//! The fork block moves the balances of the accounts in `dao_accounts.txt`, one per line, to the
//! refund contract. Source: EIP-779.

use primitives::{Address, address};

/// Receives the balances of the drained accounts.
pub(crate) const REFUND_CONTRACT: Address = address!("bf4ed7b27f1d666546e30d74d50d173d20bca754");

/// The accounts that lose their balances.
pub(crate) fn drained_accounts() -> impl Iterator<Item = Address> {
    let parse = |line: &str| line.parse().expect("a unit test parses every line");
    include_str!("dao_accounts.txt").lines().map(parse)
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_line_is_an_address_and_no_address_is_repeated() {
        let all: std::collections::HashSet<_> = super::drained_accounts().collect();
        assert_eq!(all.len(), 116);
    }
}
