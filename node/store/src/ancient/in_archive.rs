//! Parts of old blocks that the archive has in place of the blocks file.

use primitives::B256;

use super::BlockPart;
use crate::StoreError;
use crate::archive::ArchiveError;
use crate::blocks_file::AncientFile;
use crate::codec::block_key;
use crate::part_rows::{encode_receipts, encode_senders, split_body};
use crate::row_error::RowError;
use crate::source::Source;

/// The row of a part that the archive has.
pub(super) fn read_part(
    file: &AncientFile,
    part: BlockPart,
    number: u64,
    hash: &B256,
) -> Result<Vec<u8>, StoreError> {
    let failed = |reason: String| StoreError::Archive { number, reason };
    let archive = file
        .archive()
        .get()
        .ok_or_else(|| failed("no folder was given".to_owned()))?;
    let row = match part {
        BlockPart::Body => archive.body_with_senders(number, hash).map(|body| {
            body.map(|body| {
                let mut row = encode_senders(&body.senders);
                row.extend_from_slice(&body.rlp);
                row
            })
        }),
        BlockPart::Receipts => archive
            .receipts(number, hash)
            .map(|receipts| receipts.map(|receipts| encode_receipts(&receipts))),
    };
    row.map_err(|error| failed(error.to_string()))?
        .ok_or_else(|| failed("no file of the folder has its number".to_owned()))
}

/// Whether the archive has the same body and receipts as the rows of the canonical block `number`.
/// `false` also if the archive cannot be read: then the store keeps the block itself.
pub(super) fn has_block(source: &impl Source, number: u64, hash: &B256) -> Result<bool, StoreError> {
    let Some(archive) = source.ancient_file().archive().get() else {
        return Ok(false);
    };
    let read = || -> Result<_, ArchiveError> {
        let Some(body) = archive.body(number, hash)? else {
            return Ok(None);
        };
        let receipts = archive.receipts(number, hash)?;
        Ok(receipts.map(|receipts| (body, encode_receipts(&receipts))))
    };
    let Ok(Some((body, receipts))) = read() else {
        return Ok(false);
    };
    let key = block_key(number, hash);
    let same_body = source.with(BlockPart::Body.table(), &key, |row| {
        let (senders, _) = split_body(row)?;
        Ok::<_, RowError>(row[size_of::<u32>() + senders.len()..] == body)
    })?;
    let same_receipts = source.with(BlockPart::Receipts.table(), &key, |row| row == receipts)?;
    // A damaged row is reported by whoever encodes it.
    Ok(matches!(same_body, Some(Ok(true))) && same_receipts == Some(true))
}
