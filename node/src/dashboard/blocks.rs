//! Blocks as rows of tables: canonical ones, and those of this node that lost the race.

use chain::View;
use chain::fate::BlockFate;
use chain::import::BlockId;
use chain::rules::payment::{BlockPayment, block_fees};
use chain::view::StoredBlock;
use primitives::{Address, U256};
use serde_json::{Value, json};
use store::StoreError;

/// The row of a block. `own` is the address that is paid for the blocks of this node.
///
/// # Errors
/// [`StoreError`] if the receipts cannot be read.
pub(super) fn block_row(view: &View, block: &StoredBlock, own: Option<Address>) -> Result<Value, StoreError> {
    let header = &block.record.header;
    let (rewards, fees) = miner_income(view, block)?;
    Ok(json!({
        "number": header.number,
        "hash": block.hash.to_string(),
        "time_s": header.timestamp,
        "miner": header.beneficiary.to_string(),
        "own": own == Some(header.beneficiary) && header.number > 0,
        "extra": extra_text(&header.extra_data),
        "transactions": block.body.transactions.len(),
        "uncles": block.body.uncles.len(),
        "gas_used": header.gas_used,
        "gas_limit": header.gas_limit,
        "difficulty": header.difficulty.to_string(),
        "income": (rewards + fees).to_string(),
    }))
}

/// The income of a block's miner, in sha: rewards, with those for including uncles; and fees.
///
/// # Errors
/// [`StoreError`] if the receipts cannot be read.
pub(super) fn miner_income(view: &View, block: &StoredBlock) -> Result<(U256, U256), StoreError> {
    let (spec, number) = (view.spec(), block.record.header.number);
    let rewards = BlockPayment::of(spec, number, &block.body.uncles).miner;
    let fees = if block.body.transactions.is_empty() {
        U256::ZERO
    } else {
        let receipts = view.receipts(&block.id())?.unwrap_or_default();
        block_fees(spec, number, &block.body.transactions, &receipts)
    };
    Ok((rewards, fees))
}

/// The most rows of [`lost_races`].
const LOST_RACES_MAX: usize = 20;

/// Rows of those blocks among `sealed` that are not canonical, the newest first: what became of
/// each, and what it paid, in sha.
///
/// # Errors
/// [`StoreError`] if the store fails.
pub(super) fn lost_races(view: &View, sealed: &[BlockId]) -> Result<Vec<Value>, StoreError> {
    let mut rows = Vec::new();
    for id in sealed.iter().rev() {
        if rows.len() == LOST_RACES_MAX {
            break;
        }
        let Some(known) = view.known_header(&id.hash)? else {
            continue;
        };
        let fate = view.block_fate(&id.hash, &known.header)?;
        let (reward, uncle_of) = match fate {
            BlockFate::Canonical => continue,
            BlockFate::Uncle { nephew, reward } => (reward, Some(nephew.number)),
            BlockFate::Side | BlockFate::Lost => (U256::ZERO, None),
        };
        rows.push(json!({
            "number": id.number,
            "hash": id.hash.to_string(),
            "time_s": known.header.timestamp,
            "fate": fate.name(),
            "uncle_of": uncle_of,
            "reward": reward.to_string(),
        }));
    }
    Ok(rows)
}

/// The extra data as text if it is readable text, otherwise in hex digits.
fn extra_text(extra: &[u8]) -> String {
    match std::str::from_utf8(extra) {
        Ok(text) if !text.chars().any(char::is_control) => text.to_owned(),
        _ => rpc::types::data(extra),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extra_data_is_text_or_digits() {
        assert_eq!(extra_text("vnode/1 ü".as_bytes()), "vnode/1 ü");
        assert_eq!(extra_text(&[0xff, 1]), "0xff01");
        assert_eq!(extra_text(b"a\nb"), "0x610a62");
        assert_eq!(extra_text(b""), "");
    }
}
