//! The encoding of headers, bodies and receipts in their rows.
//!
//! The layouts are in the list of tables. A decoder never panics.

use alloy_rlp::Encodable;
use primitives::rlp::RlpReader;
use primitives::{
    ACCESS_LIST_TX_TYPE, Address, DecodeError, Header, Log, Receipt, ReceiptOutcome, Transaction, TxRules,
    U256,
};

use super::{BlockBody, HeaderRecord, TransactionPosition};
use crate::codec::{RowReader, push_number};
use crate::part_rows::{encode_senders, split_body};
use crate::row_error::RowError;

impl HeaderRecord {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut row = self.total_difficulty.to_be_bytes::<32>().to_vec();
        row.push(u8::from(self.executed));
        Encodable::encode(&self.header, &mut row);
        row
    }

    pub(crate) fn decode(row: &[u8]) -> Result<Self, RowError> {
        let mut reader = RowReader::new(row);
        let total_difficulty = U256::from_be_bytes(reader.array::<32>()?);
        let [executed] = reader.array()?;
        if executed > 1 {
            return Err(RowError::Value {
                field: "executed",
                got: executed.into(),
                expected: "0 or 1",
            });
        }
        let header = Header::decode(reader.remaining())?;
        Ok(Self {
            header,
            total_difficulty,
            executed: executed == 1,
        })
    }
}

pub(super) fn encode_positions(positions: &[TransactionPosition]) -> Vec<u8> {
    let mut row = Vec::with_capacity(8);
    for position in positions {
        push_number(&mut row, position.block_number);
        push_number(&mut row, position.index.into());
    }
    row
}

pub(super) fn decode_positions(row: &[u8]) -> Result<Vec<TransactionPosition>, RowError> {
    let mut reader = RowReader::new(row);
    let mut positions = Vec::with_capacity(1);
    while !reader.is_empty() {
        positions.push(TransactionPosition {
            block_number: reader.number()?,
            index: reader.number32("index")?,
        });
    }
    if positions.is_empty() || !positions.is_sorted_by(|one, other| one < other) {
        return Err(RowError::Order {
            field: "positions (at least one)",
        });
    }
    Ok(positions)
}

pub(super) fn encode_body(body: &BlockBody) -> Vec<u8> {
    let mut row = encode_senders(&body.senders);
    let parts: [&dyn Encodable; 2] = [&body.transactions, &body.uncles];
    alloy_rlp::encode_list::<_, dyn Encodable>(&parts, &mut row);
    row
}

pub(super) fn decode_body(row: &[u8], rules: TxRules) -> Result<BlockBody, RowError> {
    let (senders, mut parts) = split_body(row)?;
    let senders: Vec<_> = senders.chunks_exact(20).map(Address::from_slice).collect();
    parts.expect_count("body", 2, "2")?;
    let transactions = decode_entries(parts.list("transactions")?, |rlp| {
        Transaction::decode_item(rlp, rules)
    })?;
    let uncles = decode_entries(parts.list("uncles")?, Header::decode)?;
    if transactions.len() != senders.len() {
        return Err(RowError::Differs {
            field: "senders",
            got: senders.len() as u64,
            expected: transactions.len() as u64,
        });
    }
    Ok(BlockBody {
        transactions,
        senders,
        uncles,
    })
}

pub(super) fn decode_receipts(row: &[u8]) -> Result<Vec<Receipt>, RowError> {
    let receipts = RlpReader::open(row, "receipts")?;
    decode_entries(receipts, |rlp| {
        let mut fields = RlpReader::open(rlp, "receipt")?;
        let count = fields.count("receipt")?;
        if !(3..=5).contains(&count) {
            return Err(DecodeError::FieldCount {
                what: "receipt",
                got: count,
                expected: "3 to 5",
            });
        }
        let outcome = match fields.slice("outcome")? {
            [] => ReceiptOutcome::Status(false),
            [1] => ReceiptOutcome::Status(true),
            _ => {
                // Read again as a root, which checks the length.
                let mut again = RlpReader::open(rlp, "receipt")?;
                ReceiptOutcome::Root(again.fixed("outcome")?)
            }
        };
        let cumulative_gas_used = fields.u64("cumulative gas")?;
        let mut list = fields.list("logs")?;
        let mut logs = Vec::new();
        while !list.is_empty() {
            logs.push(Log::decode(list.raw("log")?)?);
        }
        let receipt = Receipt::new(outcome, cumulative_gas_used, logs);
        if count == 3 {
            return Ok(receipt);
        }
        let receipt = match (fields.slice("type")?, count) {
            ([ACCESS_LIST_TX_TYPE], _) => receipt.with_type(ACCESS_LIST_TX_TYPE),
            ([], 5) => receipt,
            (other, _) => {
                return Err(DecodeError::Typed {
                    got: other.first().copied().unwrap_or_default(),
                    expected: "type 0x01 in a fourth field, or none before an output",
                });
            }
        };
        if count == 4 {
            return Ok(receipt);
        }
        Ok(receipt.with_output(fields.bytes("output")?))
    })
}

/// Decodes every entry of `list`.
fn decode_entries<T>(
    mut list: RlpReader<'_>,
    decode: impl Fn(&[u8]) -> Result<T, DecodeError>,
) -> Result<Vec<T>, RowError> {
    let mut entries = Vec::new();
    while !list.is_empty() {
        entries.push(list.raw("entry").and_then(&decode)?);
    }
    Ok(entries)
}
