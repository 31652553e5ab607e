//! A cursor over stored bytes, and the small encodings rows share.
//!
//! Every read is bounded and says what it wanted; nothing here panics on bad bytes.

use primitives::U256;

/// Reads fields from the front of a row.
pub(crate) struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The next `count` bytes.
    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        let got = self.rest.len();
        let (head, rest) = self
            .rest
            .split_at_checked(count)
            .ok_or_else(|| format!("row ends early: want {count} more bytes, got {got}"))?;
        self.rest = rest;
        Ok(head)
    }

    /// The next `N` bytes.
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        Ok(self.take(N)?.try_into().expect("take returns exactly N bytes"))
    }

    /// A 4-byte big-endian number.
    pub(crate) fn u32(&mut self) -> Result<u32, String> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    /// A number behind a length byte, at most 32 bytes, without leading zeros.
    pub(crate) fn uint(&mut self) -> Result<U256, String> {
        let [length] = self.array()?;
        if length > 32 {
            return Err(format!("number of {length} bytes, want at most 32"));
        }
        let bytes = self.take(usize::from(length))?;
        if bytes.first() == Some(&0) {
            return Err("number with a leading zero".to_owned());
        }
        Ok(U256::from_be_slice(bytes))
    }

    /// A number that fits 64 bits.
    pub(crate) fn uint64(&mut self) -> Result<u64, String> {
        let value = self.uint()?;
        u64::try_from(value).map_err(|_| format!("number {value} is over 64 bits"))
    }

    /// All that is left.
    pub(crate) fn remaining(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    /// An error when bytes are left.
    pub(crate) fn finish(self) -> Result<(), String> {
        match self.rest.len() {
            0 => Ok(()),
            left => Err(format!("{left} bytes too many")),
        }
    }
}

/// Appends a number as [`Cursor::uint`] reads it.
pub(crate) fn push_uint(out: &mut Vec<u8>, value: U256) {
    let bytes: [u8; 32] = value.to_be_bytes();
    let significant = &bytes[bytes.iter().position(|byte| *byte != 0).unwrap_or(32)..];
    out.push(significant.len() as u8);
    out.extend_from_slice(significant);
}

/// Block number and hash: the key of headers, bodies and receipts.
pub(crate) fn block_key(number: u64, hash: &primitives::B256) -> [u8; 40] {
    let mut key = [0; 40];
    key[..8].copy_from_slice(&number.to_be_bytes());
    key[8..].copy_from_slice(hash.as_slice());
    key
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_round_trip(bytes: [u8; 32], shift in 0usize..256) {
            let value = U256::from_be_bytes(bytes) >> shift;
            let mut row = Vec::new();
            push_uint(&mut row, value);
            let mut cursor = Cursor::new(&row);
            prop_assert_eq!(cursor.uint().unwrap(), value);
            prop_assert!(cursor.finish().is_ok());
        }

        #[test]
        fn bad_bytes_never_panic(bytes: Vec<u8>) {
            let mut cursor = Cursor::new(&bytes);
            let _ = cursor.uint();
            let _ = cursor.uint64();
            let _ = cursor.array::<20>();
            let _ = cursor.finish();
        }
    }
}
