//! `vnode export`: writes canonical blocks as a stream of RLP, which `vnode import` reads.

use std::io::Write;
use std::path::Path;
use std::sync::atomic::Ordering;

use chain::View;
use primitives::{B256, Block};
use store::{StoreError, TableId};

use super::chain_source::ChainSource;
use super::error::CommandError;
use super::output_file::{OutputFile, is_standard};
use super::stop_flag::stop_flag;
use crate::progress::{CommandProgress, ProgressUnits};

use crate::options::VnodeOptions;
use crate::output::print_line;

/// Writes the blocks from `first` (default: block 0) to `last` (default: the head) to `file`.
pub(super) fn run(
    options: &VnodeOptions,
    file: &Path,
    (first, last): (Option<u64>, Option<u64>),
) -> Result<(), CommandError> {
    let blocks = ChainSource::open(options)?;
    let head = blocks.head()?;
    let (first, last) = export_range(first, last, head)?;
    let stop = stop_flag()?;
    let write = |source| CommandError::Write {
        path: file.to_owned(),
        source,
    };
    let mut output = OutputFile::open(file).map_err(write)?;
    let total = (last - first).saturating_add(1);
    let mut progress = CommandProgress::new(options, "export", ProgressUnits::Items, total);
    let mut bytes = 0;
    let mut last_hash = None;
    for number in first..=last {
        if stop.load(Ordering::Acquire) {
            return Err(CommandError::Interrupted);
        }
        let rlp = rlp(&blocks, number, &mut last_hash)?;
        output.write_all(&rlp).map_err(write)?;
        bytes += rlp.len() as u64;
        progress.update(number - first + 1, || format!("blocks, {bytes} bytes"));
    }
    output.finish().map_err(write)?;
    let seconds = progress.finish();
    let summary = format!(
        "exported {total} blocks, {first} to {last}, {bytes} bytes in {seconds:.2} s: {:.1} blocks/s",
        total as f64 / seconds
    );
    if is_standard(file) {
        eprintln!("{summary}");
    } else {
        print_line(&summary);
    }
    Ok(())
}

/// The RLP of the block at `number`. `last` is the hash of the block before it: blocks of a running
/// node must follow each other, because its chain may be reorganized between two calls.
fn rlp(blocks: &ChainSource, number: u64, last: &mut Option<B256>) -> Result<Vec<u8>, CommandError> {
    match blocks {
        ChainSource::Here { view, .. } => Ok(block(view, number)?.encode()),
        ChainSource::Running(chain) => {
            let (block, rlp) = chain.raw_block(number)?;
            let before = last.replace(block.hash());
            match before.is_none_or(|before| before == block.header.parent_hash) {
                true => Ok(rlp),
                false => Err(CommandError::Reorganized(number)),
            }
        }
    }
}

/// The first and the last block to export.
pub fn export_range(first: Option<u64>, last: Option<u64>, head: u64) -> Result<(u64, u64), CommandError> {
    let first = first.unwrap_or(0);
    if let Some(got) = [Some(first), last]
        .into_iter()
        .flatten()
        .find(|number| *number > head)
    {
        return Err(CommandError::AboveHead { got, head });
    }
    let last = last.unwrap_or(head);
    if first > last {
        return Err(CommandError::Range { first, last });
    }
    Ok((first, last))
}

/// The canonical block at `number`. Its header is compared with the stored hash.
pub(super) fn block(view: &View, number: u64) -> Result<Block, StoreError> {
    let missing = |reason: String| StoreError::corrupt(TableId::NumberToHash, &number.to_be_bytes(), reason);
    let stored = view
        .block(number)?
        .ok_or_else(|| missing("no such block".to_owned()))?;
    let block = Block {
        header: stored.record.header,
        transactions: stored.body.transactions,
        uncles: stored.body.uncles,
    };
    let got = block.hash();
    if got == stored.hash {
        Ok(block)
    } else {
        Err(missing(format!(
            "header hash: got {got}, expected {}",
            stored.hash
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_end_at_the_head() {
        let check = |first, last, expected: Result<(u64, u64), &str>| {
            let got = export_range(first, last, 10).map_err(|error| error.to_string());
            assert_eq!(got, expected.map_err(str::to_owned));
        };
        check(None, None, Ok((0, 10)));
        check(Some(3), None, Ok((3, 10)));
        check(Some(3), Some(3), Ok((3, 3)));
        check(Some(10), Some(10), Ok((10, 10)));
        check(
            Some(4),
            Some(3),
            Err("first block: got 4, expected at most the last block 3"),
        );
        check(Some(11), None, Err("block: got 11, expected at most the head 10"));
        check(
            Some(0),
            Some(12),
            Err("block: got 12, expected at most the head 10"),
        );
        check(
            Some(u64::MAX),
            Some(0),
            Err("block: got 18446744073709551615, expected at most the head 10"),
        );
    }
}
