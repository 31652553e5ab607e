//! The rows of bodies and receipts, as far as the files with old blocks need them, too.
//!
//! Knows transactions and uncles only as bytes.

use alloy_rlp::Encodable;
use primitives::rlp::RlpReader;
use primitives::{Address, LEGACY_TX_TYPE, Receipt, ReceiptOutcome};

use crate::codec::RowReader;
use crate::row_error::RowError;

/// The senders as the row of a body begins with them. The RLP list of transactions and uncles
/// follows.
pub(crate) fn encode_senders(senders: &[Address]) -> Vec<u8> {
    let mut row = (senders.len() as u32).to_be_bytes().to_vec();
    for sender in senders {
        row.extend_from_slice(sender.as_slice());
    }
    row
}

/// Splits the row of a body: the bytes of the senders, and the lists of transactions and uncles.
pub(crate) fn split_body(row: &[u8]) -> Result<(&[u8], RlpReader<'_>), RowError> {
    let mut reader = RowReader::new(row);
    let count = reader.u32()? as usize;
    let senders = reader.take(count.saturating_mul(20))?;
    Ok((senders, RlpReader::open(reader.remaining(), "body")?))
}

/// The row of a block's receipts.
pub(crate) fn encode_receipts(receipts: &[Receipt]) -> Vec<u8> {
    /// A receipt in its stored form, without the bloom. That of a typed transaction has the type as
    /// a fourth field. One with an output has the type and the output.
    struct StoredReceipt<'a>(&'a Receipt);
    impl Encodable for StoredReceipt<'_> {
        fn encode(&self, out: &mut dyn alloy_rlp::BufMut) {
            let outcome: &[u8] = match &self.0.outcome {
                ReceiptOutcome::Status(false) => &[],
                ReceiptOutcome::Status(true) => &[1],
                ReceiptOutcome::Root(root) => root.as_slice(),
            };
            let fields: [&dyn Encodable; 5] = [
                &outcome,
                &self.0.cumulative_gas_used,
                &self.0.logs,
                &self.0.tx_type,
                &self.0.output,
            ];
            let count = match (self.0.output.is_empty(), self.0.tx_type) {
                (true, LEGACY_TX_TYPE) => 3,
                (true, _) => 4,
                (false, _) => 5,
            };
            alloy_rlp::encode_list::<_, dyn Encodable>(&fields[..count], out);
        }
    }
    let mut row = Vec::new();
    let stored: Vec<_> = receipts.iter().map(StoredReceipt).collect();
    alloy_rlp::encode_list::<_, StoredReceipt<'_>>(&stored, &mut row);
    row
}
