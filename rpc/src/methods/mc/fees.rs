//! The fees of transactions: suggestions, and the history of fees.
//!
//! No chain of this node has a base fee (EIP-1559). A transaction pays its gas price, and all of it
//! is the fee of the miner.

use std::sync::Arc;

use chain::View;
use chain::call::TIMEOUT_DEFAULT;
use chain::rules::order::ExecutionOrder;
use primitives::{Header, U256};
use serde::Serialize;

use super::lookup::stored_number;
use crate::block_cache::{BlockFees, CachedBlock};
use crate::budget::{query_limit, reserve_values};
use crate::error::{RpcError, RpcResult, failure};
use crate::node::Node;
use crate::table::{InlineError, Method, ReadScope};
use crate::types::{BlockRef, Count, Fraction, Percentile, Quantity};
use crate::wire_type::{Described, WireType};

/// The most blocks of one answer.
const BLOCKS_MAX: u64 = 1024;
/// The most blocks of an answer on the thread of a connection, if their fees are in memory. One row
/// of the store is read for each.
const MEMORY_BLOCKS_MAX: u64 = 32;
/// The same without percentiles: two rows are read for each.
const HEADER_BLOCKS_MAX: u64 = 4;
/// The most percentiles of one question.
const PERCENTILES_MAX: usize = 100;

/// The rows of this topic.
pub(super) fn methods() -> Vec<Method<Node>> {
    vec![
        Method::inline("mc_maxPriorityFeePerGas", [], priority_fee).summary(
            "Returns a suggested fee above the base fee: 0, because no block of this chain has a base fee.",
        ),
        Method::brief(
            "mc_feeHistory",
            ["blockCount", "newestBlock", "rewardPercentiles"],
            fee_history,
        )
        .summary(
            "Returns for the newest blocks which part of their gas was used, and the gas prices at \
             some percentiles of that gas. The base fees are 0.",
        ),
    ]
}

/// `mc_maxPriorityFeePerGas`.
const fn priority_fee(_: &Node) -> RpcResult<Quantity<U256>> {
    Ok(Quantity(U256::ZERO))
}

/// The answer of `mc_feeHistory`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FeeHistory {
    oldest_block: Quantity,
    #[serde(skip_serializing_if = "Option::is_none")]
    reward: Option<Vec<Vec<Quantity<U256>>>>,
    base_fee_per_gas: Vec<Quantity>,
    gas_used_ratio: Vec<Fraction>,
}

impl Described for FeeHistory {
    const TYPE: WireType = WireType::Named("FeeHistory");
}

/// `mc_feeHistory`: the blocks up to the newest one, at most [`BLOCKS_MAX`] of them. Few blocks
/// whose fees were asked for before are answered on the thread of the connection.
fn fee_history(
    node: &Node,
    (Count(count), newest, percentiles): (Count, BlockRef, Option<Vec<Percentile>>),
    scope: ReadScope,
) -> Result<FeeHistory, InlineError> {
    let percentiles = percentiles.map(check_percentiles).transpose()?;
    let view = node.view()?;
    let head = view.head_number();
    let newest = match newest {
        // The pending block has no receipts yet that anybody has paid for.
        BlockRef::Pending => head,
        at => stored_number(&view, at, "fees")?,
    };
    if newest > head {
        return Err(RpcError::refused(format!("block {newest} is above the head block {head}")).into());
    }
    let count = count.min(BLOCKS_MAX).min(newest + 1);
    let most = if percentiles.is_some() {
        MEMORY_BLOCKS_MAX
    } else {
        HEADER_BLOCKS_MAX
    };
    if scope == ReadScope::Memory && count > most {
        return Err(InlineError::Deferred);
    }
    let oldest = newest + 1 - count;
    let limit = query_limit(TIMEOUT_DEFAULT);
    let wanted = percentiles.as_ref().map_or(0, Vec::len);
    reserve_values(count as usize * (1 + wanted) * size_of::<U256>())?;
    let mut history = FeeHistory {
        oldest_block: Quantity(if count == 0 { 0 } else { oldest }),
        reward: percentiles.is_some().then(Vec::new),
        base_fee_per_gas: vec![Quantity(0); if count == 0 { 0 } else { count as usize + 1 }],
        gas_used_ratio: Vec::new(),
    };
    for number in oldest..oldest + count {
        limit.check().map_err(RpcError::refused_by)?;
        let missing = || failure(format_args!("block {number} is below the head and not stored"));
        let Some(percentiles) = &percentiles else {
            let (_, record) = view.header(number).map_err(failure)?.ok_or_else(missing)?;
            history.gas_used_ratio.push(Fraction(used_ratio(&record.header)));
            continue;
        };
        let hash = view
            .canonical_hash(number)
            .map_err(failure)?
            .ok_or_else(missing)?;
        let fees = node.blocks.fees(&node.chain, &hash, || {
            if scope == ReadScope::Memory {
                return Err(InlineError::Deferred);
            }
            let block = node
                .blocks
                .by_hash(&node.chain, &view, &hash)?
                .ok_or_else(missing)?;
            Ok(fees_of(node, &view, &block)?)
        })?;
        history.gas_used_ratio.push(Fraction(fees.used_ratio));
        if let Some(reward) = &mut history.reward {
            reward.push(at_percentiles(&fees, percentiles));
        }
    }
    Ok(history)
}

/// Refuses percentiles that are too many or not ascending.
fn check_percentiles(percentiles: Vec<Percentile>) -> RpcResult<Vec<f64>> {
    if percentiles.len() > PERCENTILES_MAX {
        return Err(RpcError::invalid_argument(
            2,
            format_args!(
                "got {} percentiles, expected at most {PERCENTILES_MAX}",
                percentiles.len()
            ),
        ));
    }
    let values: Vec<_> = percentiles.into_iter().map(|percentile| percentile.0).collect();
    match values.windows(2).find(|pair| pair[0] > pair[1]) {
        None => Ok(values),
        Some(pair) => Err(RpcError::invalid_argument(
            2,
            format_args!(
                "got {} after {}, expected ascending percentiles",
                pair[1], pair[0]
            ),
        )),
    }
}

fn used_ratio(header: &Header) -> f64 {
    header.gas_used as f64 / header.gas_limit.max(1) as f64
}

/// The gas price of each transaction that has a receipt, with the gas that was used.
fn fees_of(node: &Node, view: &View, block: &Arc<CachedBlock>) -> RpcResult<BlockFees> {
    let id = block.id();
    let receipts = node.blocks.receipts(&node.chain, view, &id)?.unwrap_or_default();
    let transactions = &block.block.transactions;
    let order = ExecutionOrder::of(node.chain.spec(), id.number, transactions);
    let mut gas_before = 0;
    let mut fees = Vec::with_capacity(receipts.len());
    for (receipt, index) in receipts.iter().zip(order.transactions()) {
        let gas_used = receipt.cumulative_gas_used.saturating_sub(gas_before);
        gas_before = receipt.cumulative_gas_used;
        if let Some(transaction) = index.and_then(|index| transactions.get(index)) {
            let price = match node.application {
                Some(_) => U256::ZERO,
                None => transaction.gas_price,
            };
            fees.push((price, gas_used));
        }
    }
    let header = &block.block.header;
    Ok(BlockFees {
        used_ratio: used_ratio(header),
        gas_used: header.gas_used,
        prices: ascending(fees),
    })
}

/// Sorts prices with the gas of each. The result has the gas of all up to each price.
fn ascending(mut fees: Vec<(U256, u64)>) -> Vec<(U256, u64)> {
    fees.sort_unstable();
    let mut sum = 0u64;
    for (_, gas) in &mut fees {
        sum = sum.saturating_add(*gas);
        *gas = sum;
    }
    fees
}

/// The price at each percentile of the used gas, when the transactions are sorted by price. Zeros
/// for a block without transactions.
fn at_percentiles(fees: &BlockFees, percentiles: &[f64]) -> Vec<Quantity<U256>> {
    let price = |percentile: &f64| {
        // Gas is far below 2^53, so this is exact enough.
        let threshold = (fees.gas_used as f64 * percentile / 100.0) as u64;
        let index = fees.prices.partition_point(|(_, gas)| *gas < threshold);
        let found = fees.prices.get(index).or_else(|| fees.prices.last());
        Quantity(found.map_or(U256::ZERO, |(price, _)| *price))
    };
    percentiles.iter().map(price).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_at_percentiles() {
        let check = |fees: &[(u64, u64)], percentiles: &[f64], expected: &[u64]| {
            let fees: Vec<_> = fees
                .iter()
                .map(|(price, gas)| (U256::from(*price), *gas))
                .collect();
            let fees = BlockFees {
                used_ratio: 0.0,
                gas_used: fees.iter().map(|(_, gas)| gas).sum(),
                prices: ascending(fees),
            };
            let expected: Vec<_> = expected
                .iter()
                .map(|price| Quantity(U256::from(*price)))
                .collect();
            assert_eq!(at_percentiles(&fees, percentiles), expected, "{percentiles:?}");
        };
        check(&[], &[0.0, 50.0, 100.0], &[0, 0, 0]);
        check(&[], &[], &[]);
        check(&[(7, 1000)], &[0.0, 100.0], &[7, 7]);
        // The cheap half of the gas, then the dear one.
        let two = [(30, 500), (10, 500)];
        check(&two, &[0.0, 50.0, 50.2, 100.0], &[10, 10, 30, 30]);
        // The dear transaction used most of the gas.
        check(&[(1, 10), (9, 90)], &[10.0, 11.0], &[1, 9]);
    }

    #[test]
    fn percentiles_ascend() {
        let check = |values: &[f64]| {
            check_percentiles(values.iter().copied().map(Percentile).collect())
                .map_err(|error| error.message().to_owned())
        };
        assert_eq!(check(&[0.0, 5.0, 5.0]), Ok(vec![0.0, 5.0, 5.0]));
        assert_eq!(
            check(&[5.0, 1.5]),
            Err("invalid argument 2: got 1.5 after 5, expected ascending percentiles".to_owned())
        );
        assert_eq!(
            check(&[1.0; 101]),
            Err("invalid argument 2: got 101 percentiles, expected at most 100".to_owned())
        );
    }
}
