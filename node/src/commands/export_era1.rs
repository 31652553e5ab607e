//! `vnode export --format era1`: writes canonical blocks as a folder of Era1 files.
//!
//! A file ends with the last block before a multiple of 8,192, so file N has the blocks from 8,192
//! times N on. Each file is written completely or not at all. The name has the root of the file's
//! blocks, so a file that is there already has the same blocks and is not written again.

use std::path::Path;
use std::sync::atomic::Ordering;

use chain::era1::accumulator::accumulator;
use chain::era1::{Era1Name, Era1Writer, FILE_BLOCKS_MAX};
use chain::import::BlockId;
use primitives::{B256, Block, Receipt, U256};
use store::{StoreError, TableId};

use super::chain_source::ChainSource;
use super::error::CommandError;
use super::export::{block, export_range};
use super::output_file::OutputFile;
use super::stop_flag::stop_flag;
use crate::progress::{CommandProgress, ProgressUnits};

use crate::options::VnodeOptions;
use crate::output::print_line;

/// Writes the blocks from `first` (default: block 0) to `last` (default: the head) to `folder`.
pub(super) fn run(
    options: &VnodeOptions,
    folder: &Path,
    (first, last): (Option<u64>, Option<u64>),
) -> Result<(), CommandError> {
    let chain = ChainSource::open(options)?;
    let (first, last) = export_range(first, last, chain.head()?)?;
    let stop = stop_flag()?;
    std::fs::create_dir_all(folder).map_err(|source| CommandError::Write {
        path: folder.to_owned(),
        source,
    })?;
    let total = (last - first).saturating_add(1);
    let mut progress = CommandProgress::new(options, "export", ProgressUnits::Items, total);
    let (mut begin, mut written, mut present) = (first, 0u64, 0u64);
    while begin <= last {
        if stop.load(Ordering::Acquire) {
            return Err(CommandError::Unfinished);
        }
        let end = last.min(begin - begin % FILE_BLOCKS_MAX + (FILE_BLOCKS_MAX - 1));
        if write_file(&chain, folder, begin..=end)? {
            written += 1;
        } else {
            present += 1;
        }
        progress.update(end - first + 1, || format!("blocks, {written} files"));
        begin = end + 1;
    }
    let seconds = progress.finish();
    print_line(&format!(
        "exported {total} blocks, {first} to {last}, {written} files in {seconds:.2} s: {:.1} blocks/s; {present} files were already there",
        total as f64 / seconds
    ));
    Ok(())
}

/// Writes one file. Returns `false` if it is there already.
fn write_file(
    chain: &ChainSource,
    folder: &Path,
    numbers: std::ops::RangeInclusive<u64>,
) -> Result<bool, CommandError> {
    let first = *numbers.start();
    let mut headers = Vec::new();
    for number in numbers {
        headers.push(figures(chain, number)?);
    }
    let name = Era1Name::new(&chain.spec().name, first, &accumulator(&headers));
    let path = folder.join(name.to_string());
    if path.exists() {
        return Ok(false);
    }
    let failed = |source| CommandError::Write {
        path: path.clone(),
        source,
    };
    let output = OutputFile::open(&path).map_err(failed)?;
    let mut file = Era1Writer::new(output, chain.spec().receipt_form()).map_err(failed)?;
    for (number, (hash, total_difficulty)) in (first..).zip(headers) {
        let (block, receipts) = content(chain, number, hash)?;
        file.add(&block, &receipts, total_difficulty).map_err(failed)?;
    }
    let output = file.finish().map_err(failed)?;
    output.finish().map_err(failed)?;
    Ok(true)
}

/// The hash and the total difficulty of a canonical block.
fn figures(chain: &ChainSource, number: u64) -> Result<(B256, U256), CommandError> {
    match chain {
        ChainSource::Here { view, .. } => {
            let found = view.header(number)?;
            let (hash, record) = found.ok_or_else(|| missing(number, "no such block"))?;
            Ok((hash, record.total_difficulty))
        }
        ChainSource::Running(chain) => {
            let found = chain.named(number)?;
            let found = found.ok_or(CommandError::Reorganized(number))?;
            Ok((found.hash, found.total_difficulty))
        }
    }
}

/// The block of this number and hash, with its receipts. A running node may have another block of
/// this number meanwhile.
fn content(chain: &ChainSource, number: u64, hash: B256) -> Result<(Block, Vec<Receipt>), CommandError> {
    match chain {
        ChainSource::Here { view, .. } => {
            let receipts = view.receipts(&BlockId { number, hash })?;
            let receipts = receipts.ok_or_else(|| missing(number, "the receipts are missing"))?;
            Ok((block(view, number)?, receipts))
        }
        ChainSource::Running(chain) => {
            let (block, _) = chain.raw_block(number)?;
            if block.hash() != hash {
                return Err(CommandError::Reorganized(number));
            }
            Ok((block, chain.receipts_of(number, &hash)?))
        }
    }
}

fn missing(number: u64, reason: &str) -> StoreError {
    StoreError::corrupt(TableId::NumberToHash, &number.to_be_bytes(), reason)
}
