//! The suggested gas price: what the last blocks' transactions paid, in the middle.

use primitives::U256;

use crate::error::RpcResult;
use crate::node::{Node, failure};

/// How many blocks, from the head down, are looked at.
const BLOCKS: u64 = 10;
/// The price where these blocks have no transaction: 18 Gsha.
const DEFAULT: u64 = 18_000_000_000;
/// Never suggested more than this: 500 Gsha.
const CAP: u64 = 500_000_000_000;

/// `mc_gasPrice`, in sha.
pub(super) fn gas_price(node: &Node) -> RpcResult<U256> {
    let view = node.view()?;
    let head = view.head_hash();
    if let Some((at, price)) = *node.gas_price.lock()
        && at == head
    {
        return Ok(price);
    }
    let mut prices = Vec::new();
    for number in (0..=view.head_number()).rev().take(BLOCKS as usize) {
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
    let price = suggested(&mut prices, node.chain.spec().gas_price_min);
    *node.gas_price.lock() = Some((head, price));
    Ok(price)
}

/// The median of `prices`, at most the cap, at least `floor`.
fn suggested(prices: &mut [U256], floor: U256) -> U256 {
    let price = match prices.len() {
        0 => U256::from(DEFAULT),
        len => *prices.select_nth_unstable((len - 1) / 2).1,
    };
    price.min(U256::from(CAP)).max(floor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        let check = |prices: &[u64], floor: u64, expected: u64| {
            let mut prices: Vec<_> = prices.iter().map(|price| U256::from(*price)).collect();
            let price = suggested(&mut prices, U256::from(floor));
            assert_eq!(price, U256::from(expected), "{prices:?}");
        };
        check(&[], 0, DEFAULT);
        check(&[], DEFAULT + 1, DEFAULT + 1);
        check(&[7], 0, 7);
        check(&[9, 1], 0, 1);
        check(&[5, 100, 1], 0, 5);
        check(&[5, 100, 1], 6, 6);
        check(&[CAP + 1, CAP + 2], 0, CAP);
    }
}
