//! Writes an Era1 file.

use std::io::Write;

use primitives::{B256, Block, Receipt, ReceiptForm, U256};

use super::FILE_BLOCKS_MAX;
use super::accumulator::accumulator;
use super::entry::{EntryType, push_compressed, push_entry};

/// Writes the blocks of one file, in order.
#[derive(Debug)]
pub struct Era1Writer<W> {
    out: W,
    form: ReceiptForm,
    written: u64,
    first: u64,
    blocks: Vec<(B256, U256)>,
    offsets: Vec<u64>,
    buffer: Vec<u8>,
}

impl<W: Write> Era1Writer<W> {
    /// Begins a file. `form` is how the chain encodes its receipts.
    ///
    /// # Errors
    /// The error of `out`.
    pub fn new(out: W, form: ReceiptForm) -> std::io::Result<Self> {
        let mut writer = Self {
            out,
            form,
            written: 0,
            first: 0,
            blocks: Vec::new(),
            offsets: Vec::new(),
            buffer: Vec::new(),
        };
        push_entry(&mut writer.buffer, EntryType::Version, &[])?;
        writer.flush_buffer()?;
        Ok(writer)
    }

    /// Appends a block, which must be the child of the one before. `total_difficulty` includes the
    /// block's own.
    ///
    /// # Errors
    /// The error of `out`, or [`std::io::ErrorKind::InvalidInput`] if the file is full.
    pub fn add(
        &mut self,
        block: &Block,
        receipts: &[Receipt],
        total_difficulty: U256,
    ) -> std::io::Result<()> {
        if self.blocks.len() as u64 >= FILE_BLOCKS_MAX {
            return Err(std::io::ErrorKind::InvalidInput.into());
        }
        if self.blocks.is_empty() {
            self.first = block.header.number;
        }
        self.blocks.push((block.hash(), total_difficulty));
        self.offsets.push(self.written);
        let mut body = Vec::new();
        let parts: [&dyn alloy_rlp::Encodable; 2] = [&block.transactions, &block.uncles];
        alloy_rlp::encode_list::<_, dyn alloy_rlp::Encodable>(&parts, &mut body);
        let items: Vec<u8> = receipts
            .iter()
            .flat_map(|receipt| receipt.encode_item(self.form))
            .collect();
        let mut list = Vec::with_capacity(items.len() + 9);
        let header = alloy_rlp::Header {
            list: true,
            payload_length: items.len(),
        };
        header.encode(&mut list);
        list.extend_from_slice(&items);
        push_compressed(&mut self.buffer, EntryType::Header, &block.header.encode())?;
        push_compressed(&mut self.buffer, EntryType::Body, &body)?;
        push_compressed(&mut self.buffer, EntryType::Receipts, &list)?;
        let total = total_difficulty.to_le_bytes::<32>();
        push_entry(&mut self.buffer, EntryType::TotalDifficulty, &total)?;
        self.flush_buffer()
    }

    /// Writes accumulator and index. Returns the output.
    ///
    /// # Errors
    /// The error of the output.
    pub fn finish(mut self) -> std::io::Result<W> {
        let root = accumulator(&self.blocks);
        push_entry(&mut self.buffer, EntryType::Accumulator, root.as_slice())?;
        let start = self.written + self.buffer.len() as u64;
        let mut index = self.first.to_le_bytes().to_vec();
        for offset in &self.offsets {
            // The index stands behind every block, so the difference is negative.
            index.extend_from_slice(&offset.wrapping_sub(start).to_le_bytes());
        }
        index.extend_from_slice(&(self.offsets.len() as u64).to_le_bytes());
        push_entry(&mut self.buffer, EntryType::Index, &index)?;
        self.flush_buffer()?;
        Ok(self.out)
    }

    fn flush_buffer(&mut self) -> std::io::Result<()> {
        self.out.write_all(&self.buffer)?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}
