//! What the log says of a block that was taken.

use super::BlockOrigin;
use crate::import::Imported;
use primitives::Block;
use std::time::Duration;

pub(super) fn block(block: &Block, origin: BlockOrigin, imported: &Imported, took: Duration) {
    let header = &block.header;
    let (number, hash) = (header.number, block.hash());
    let (txs, gas, miner) = (block.transactions.len(), header.gas_used, header.beneficiary);
    let took_ms = took.as_secs_f64() * 1000.0;
    let what = match (origin, imported) {
        (_, Imported::Known) => return,
        (BlockOrigin::Sealed, Imported::Side) => "sealed a side block",
        (BlockOrigin::Sealed, Imported::Head { .. }) => "sealed a block",
        (BlockOrigin::Imported, Imported::Side) => "imported a side block",
        (BlockOrigin::Imported, Imported::Head { .. }) => "imported a block",
    };
    tracing::info!(number, %hash, txs, gas, %miner, took_ms = format!("{took_ms:.1}"), "{what}");
    if let Imported::Head { reverted, applied } = imported
        && !reverted.is_empty()
    {
        let (dropped, added) = (reverted.len(), applied.len());
        tracing::warn!(dropped, added, "reorganization");
    }
}
