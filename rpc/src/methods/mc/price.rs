//! The suggested gas price: the median of what the transactions of the last blocks paid, and at
//! least the lowest price that the pool accepts. On an application chain gas is free.

use primitives::U256;

use crate::error::{RpcResult, failure};
use crate::node::Node;

/// The number of blocks that are read, from the head down.
const SAMPLE_BLOCKS: u64 = 10;
/// The price in sha if these blocks have no transaction: 18 Gsha.
const PRICE_DEFAULT: u64 = 18_000_000_000;
/// The highest suggested price in sha: 500 Gsha.
const PRICE_MAX: u64 = 500_000_000_000;

/// `mc_gasPrice`, in sha.
pub(in crate::methods) fn gas_price(node: &Node) -> RpcResult<U256> {
    if node.application.is_some() {
        return Ok(U256::ZERO);
    }
    let view = node.view()?;
    let head = view.head_hash();
    // The floor is read each time, because it may change while the head stays the same.
    let floor = node.chain.pool().price_floor();
    if let Some((at, price)) = *node.gas_price.lock()
        && at == head
    {
        return Ok(price.max(floor));
    }
    let mut prices = Vec::new();
    for number in (0..=view.head_number()).rev().take(SAMPLE_BLOCKS as usize) {
        if let Some(block) = view.block(number).map_err(failure)? {
            prices.extend(
                block
                    .body
                    .transactions
                    .iter()
                    .map(|transaction| transaction.gas_price),
            );
        }
    }
    let price = suggested(&mut prices);
    *node.gas_price.lock() = Some((head, price));
    Ok(price.max(floor))
}

/// The median of `prices`, at most [`PRICE_MAX`].
fn suggested(prices: &mut [U256]) -> U256 {
    let price = match prices.len() {
        0 => U256::from(PRICE_DEFAULT),
        len => *prices.select_nth_unstable((len - 1) / 2).1,
    };
    price.min(U256::from(PRICE_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        let check = |prices: &[u64], expected: u64| {
            let mut prices: Vec<_> = prices.iter().map(|price| U256::from(*price)).collect();
            assert_eq!(suggested(&mut prices), U256::from(expected), "{prices:?}");
        };
        check(&[], PRICE_DEFAULT);
        check(&[7], 7);
        check(&[9, 1], 1);
        check(&[5, 100, 1], 5);
        check(&[PRICE_MAX + 1, PRICE_MAX + 2], PRICE_MAX);
    }
}
