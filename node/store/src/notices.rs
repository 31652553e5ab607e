//! Notices to application chains, which transactions of canonical blocks leave.
//!
//! No root in a block header covers the notices. So each row begins with a hash of its key and its
//! content, and the number of rows is stored too. `vnode db check` finds changed, moved and
//! missing rows by these. What a notice means is not known here.

use alloy_rlp::Encodable;
use primitives::rlp::RlpReader;
use primitives::{Address, B256, Bytes, DecodeError, keccak256};

use crate::codec::{RowReader, block_key, fixed_number};
use crate::row_error::RowError;
use crate::source::{Source, read_row};
use crate::tables::meta_key;
use crate::write_tables::Tables;
use crate::{StoreError, TableId};

/// A notice to the application chains (`notifySCS`), left by a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScsNotice {
    /// Index of the transaction in its block, from 0.
    pub transaction_index: u32,
    /// The account that left the notice.
    pub caller: Address,
    /// The content of the notice.
    pub input: Bytes,
}

impl Encodable for ScsNotice {
    fn encode(&self, out: &mut dyn alloy_rlp::BufMut) {
        let fields: [&dyn Encodable; 3] = [&self.transaction_index, &self.caller, &self.input];
        alloy_rlp::encode_list::<_, dyn Encodable>(&fields, out);
    }
}

/// Keccak-256 of the key and the RLP of the notices.
fn row_hash(key: &[u8], rlp: &[u8]) -> B256 {
    keccak256([key, rlp].concat())
}

fn encode(key: &[u8], notices: &[ScsNotice]) -> Vec<u8> {
    let mut rlp = Vec::new();
    alloy_rlp::encode_list::<_, ScsNotice>(notices, &mut rlp);
    [row_hash(key, &rlp).as_slice(), &rlp].concat()
}

fn decode(key: &[u8], row: &[u8]) -> Result<Vec<ScsNotice>, RowError> {
    let mut reader = RowReader::new(row);
    let expected = B256::from(reader.array::<32>()?);
    let rlp = reader.remaining();
    let got = row_hash(key, rlp);
    if got != expected {
        return Err(RowError::Hash { got, expected });
    }
    let notice = |rlp: &[u8]| {
        let mut fields = RlpReader::open(rlp, "notice")?;
        fields.expect_count("notice", 3, "3")?;
        Ok::<_, DecodeError>((
            fields.u64("transaction index")?,
            fields.address("caller")?,
            fields.bytes("input")?,
        ))
    };
    let mut list = RlpReader::open(rlp, "notices")?;
    let mut notices = Vec::new();
    while !list.is_empty() {
        let (index, caller, input) = list.raw("notice").and_then(notice)?;
        notices.push(ScsNotice {
            transaction_index: u32::try_from(index).map_err(|_| RowError::Overflow {
                field: "transaction index",
                bits: 32,
            })?,
            caller,
            input,
        });
    }
    Ok(notices)
}

/// Reads of notices.
pub trait NoticeReads: Source + Sized {
    /// The notices of a canonical block, in the order in which they were left.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails or the row is corrupt.
    fn notices(&self, number: u64, hash: &B256) -> Result<Vec<ScsNotice>, StoreError> {
        let key = block_key(number, hash);
        let notices = read_row(self, TableId::BlockToNotices, &key, |row| decode(&key, row))?;
        Ok(notices.unwrap_or_default())
    }

    /// The stored number of canonical blocks that have notices.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails or the row is corrupt.
    fn notice_rows(&self) -> Result<u64, StoreError> {
        let count = read_row(self, TableId::Meta, meta_key::NOTICE_ROWS, fixed_number)?;
        Ok(count.unwrap_or(0))
    }
}

impl<S: Source> NoticeReads for S {}

impl Tables<'_> {
    /// Writes the notices of a block that becomes canonical. No row is written if there are none.
    ///
    /// # Errors
    /// [`StoreError`] when the write fails or the stored number of rows is corrupt.
    pub fn put_notices(&mut self, number: u64, hash: &B256, notices: &[ScsNotice]) -> Result<(), StoreError> {
        if notices.is_empty() {
            return Ok(());
        }
        let key = block_key(number, hash);
        let rows = self.notice_rows()?.saturating_add(1);
        self.put(TableId::Meta, meta_key::NOTICE_ROWS, &rows.to_be_bytes())?;
        self.put(TableId::BlockToNotices, &key, &encode(&key, notices))
    }

    /// Removes the notices of a block that is no longer canonical.
    ///
    /// # Errors
    /// [`StoreError`] when the write fails or the stored number of rows is corrupt.
    pub fn delete_notices(&mut self, number: u64, hash: &B256) -> Result<(), StoreError> {
        let key = block_key(number, hash);
        if self.with(TableId::BlockToNotices, &key, |_| ())?.is_none() {
            return Ok(());
        }
        self.delete(TableId::BlockToNotices, &key)?;
        match self.notice_rows()?.saturating_sub(1) {
            0 => self.delete(TableId::Meta, meta_key::NOTICE_ROWS),
            rows => self.put(TableId::Meta, meta_key::NOTICE_ROWS, &rows.to_be_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Store;

    fn notices() -> Vec<ScsNotice> {
        let notice = |transaction_index, input: &'static [u8]| ScsNotice {
            transaction_index,
            caller: Address::repeat_byte(7),
            input: Bytes::from_static(input),
        };
        vec![notice(0, b""), notice(0, &[0; 80]), notice(u32::MAX, b"\x01")]
    }

    #[test]
    fn notices_round_trip_and_rows_are_counted() {
        let store = Store::in_memory().unwrap();
        let (hash, other) = (B256::repeat_byte(3), B256::repeat_byte(4));
        let batch = store.batch().unwrap();
        batch
            .write(|tables| {
                tables.put_notices(5, &hash, &notices())?;
                tables.put_notices(6, &other, &notices()[..1])?;
                tables.put_notices(7, &hash, &[])
            })
            .unwrap();
        batch.commit().unwrap();
        let view = store.snapshot().unwrap();
        assert_eq!(view.notices(5, &hash).unwrap(), notices());
        assert_eq!(view.notices(6, &other).unwrap(), notices()[..1]);
        assert_eq!(view.notices(7, &hash).unwrap(), []);
        assert_eq!(view.notice_rows().unwrap(), 2);
        let batch = store.batch().unwrap();
        batch
            .write(|tables| {
                tables.delete_notices(7, &hash)?;
                tables.delete_notices(6, &other)?;
                assert_eq!(tables.notice_rows()?, 1);
                tables.delete_notices(5, &hash)
            })
            .unwrap();
        batch.commit().unwrap();
        let view = store.snapshot().unwrap();
        assert_eq!(view.notices(5, &hash).unwrap(), []);
        assert_eq!(view.notice_rows().unwrap(), 0);
        assert_eq!(view.get(TableId::Meta, meta_key::NOTICE_ROWS).unwrap(), None);
    }

    #[test]
    fn a_changed_row_or_key_is_an_error() {
        let key = block_key(5, &B256::repeat_byte(3));
        let row = encode(&key, &notices());
        assert_eq!(decode(&key, &row).unwrap(), notices());
        for at in 0..row.len() {
            assert!(decode(&key, &row[..at]).is_err(), "cut at {at}");
            let mut altered = row.clone();
            altered[at] ^= 1;
            assert!(decode(&key, &altered).is_err(), "byte {at}");
        }
        assert!(decode(&block_key(6, &B256::repeat_byte(3)), &row).is_err());
        // The hash is right, but the content is not a list of notices.
        let bad = |rlp: &[u8]| decode(&key, &[row_hash(&key, rlp).as_slice(), rlp].concat());
        assert!(bad(&[0x80]).is_err());
        assert!(bad(&[0xc1, 0xc0]).is_err());
    }
}
