//! Notices: what the transactions of the canonical blocks told the application chains.
//!
//! No root in a header answers for them. So each row begins with the hash of its key and its
//! rest, and the number of rows is kept: altered, moved and lost rows are found. What a notice
//! means is not known here.

use alloy_rlp::Encodable;
use primitives::rlp::Reader;
use primitives::{Address, B256, Bytes, DecodeError, keccak256};

use crate::batch::Tables;
use crate::codec::{Cursor, block_key};
use crate::source::Source;
use crate::tables::meta_key;
use crate::{StoreError, TableId};

/// Something that a transaction told the application chains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Place of the transaction in its block.
    pub transaction_index: u32,
    /// The account that told it.
    pub caller: Address,
    /// What it told.
    pub input: Bytes,
}

impl Encodable for Notice {
    fn encode(&self, out: &mut dyn alloy_rlp::BufMut) {
        let fields: [&dyn Encodable; 3] = [&self.transaction_index, &self.caller, &self.input];
        alloy_rlp::encode_list::<_, dyn Encodable>(&fields, out);
    }
}

fn row_hash(key: &[u8], rlp: &[u8]) -> B256 {
    keccak256([key, rlp].concat())
}

fn encode(key: &[u8], notices: &[Notice]) -> Vec<u8> {
    let mut rlp = Vec::new();
    alloy_rlp::encode_list::<_, Notice>(notices, &mut rlp);
    [row_hash(key, &rlp).as_slice(), &rlp].concat()
}

fn decode(key: &[u8], row: &[u8]) -> Result<Vec<Notice>, String> {
    let mut cursor = Cursor::new(row);
    let expected = B256::from(cursor.array::<32>()?);
    let rlp = cursor.remaining();
    let got = row_hash(key, rlp);
    if got != expected {
        return Err(format!("hash of the row {got}, want {expected}"));
    }
    let notice = |rlp: &[u8]| {
        let mut fields = Reader::open(rlp, "notice")?;
        fields.expect_count("notice", 3, "3")?;
        Ok((
            fields.u64("transaction index")?,
            fields.address("caller")?,
            fields.bytes("input")?,
        ))
    };
    let error = |error: DecodeError| error.to_string();
    let mut list = Reader::open(rlp, "notices").map_err(error)?;
    let mut notices = Vec::new();
    while !list.is_empty() {
        let (index, caller, input) = list.raw("notice").and_then(notice).map_err(error)?;
        notices.push(Notice {
            transaction_index: u32::try_from(index)
                .map_err(|_| format!("transaction index {index} is over 32 bits"))?,
            caller,
            input,
        });
    }
    Ok(notices)
}

/// Reads of notices.
pub trait NoticeReads: Source {
    /// The notices of a canonical block, in the order in which they were given.
    ///
    /// # Errors
    /// [`StoreError`] when the medium fails or the row is corrupt.
    fn notices(&self, number: u64, hash: &B256) -> Result<Vec<Notice>, StoreError> {
        let key = block_key(number, hash);
        let notices = self
            .with(TableId::BlockToNotices, &key, |row| decode(&key, row))?
            .transpose()
            .map_err(|reason| StoreError::corrupt(TableId::BlockToNotices, &key, reason))?;
        Ok(notices.unwrap_or_default())
    }

    /// How many canonical blocks have notices, as was counted when they were written.
    ///
    /// # Errors
    /// [`StoreError`] when the medium fails or the row is corrupt.
    fn notice_rows(&self) -> Result<u64, StoreError> {
        let row = self.get(TableId::Meta, meta_key::NOTICE_ROWS)?;
        let Some(row) = row else { return Ok(0) };
        let bytes: [u8; 8] = row.as_slice().try_into().map_err(|_| {
            let reason = format!("want 8 bytes, got {}", row.len());
            StoreError::corrupt(TableId::Meta, meta_key::NOTICE_ROWS, reason)
        })?;
        Ok(u64::from_be_bytes(bytes))
    }
}

impl<S: Source> NoticeReads for S {}

impl Tables<'_> {
    /// Writes the notices of a block that becomes canonical. None leave no row.
    ///
    /// # Errors
    /// [`StoreError`] when the medium fails, or the number of rows is corrupt.
    pub fn put_notices(&mut self, number: u64, hash: &B256, notices: &[Notice]) -> Result<(), StoreError> {
        if notices.is_empty() {
            return Ok(());
        }
        let key = block_key(number, hash);
        let rows = self.notice_rows()?.saturating_add(1);
        self.put(TableId::Meta, meta_key::NOTICE_ROWS, &rows.to_be_bytes())?;
        self.put(TableId::BlockToNotices, &key, &encode(&key, notices))
    }

    /// Removes the notices of a block that is canonical no more.
    ///
    /// # Errors
    /// [`StoreError`] when the medium fails, or the number of rows is corrupt.
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

    fn notices() -> Vec<Notice> {
        let notice = |transaction_index, input: &'static [u8]| Notice {
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
    fn every_other_row_and_every_other_key_is_an_error() {
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
        // A good hash over what no notices are.
        let bad = |rlp: &[u8]| decode(&key, &[row_hash(&key, rlp).as_slice(), rlp].concat());
        assert!(bad(&[0x80]).is_err());
        assert!(bad(&[0xc1, 0xc0]).is_err());
    }
}
