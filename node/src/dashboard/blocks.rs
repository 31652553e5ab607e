//! A block as a row of a table.

use chain::View;
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
