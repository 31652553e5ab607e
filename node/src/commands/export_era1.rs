//! `vnode export --format era1`: writes canonical blocks as a folder of Era1 files.
//!
//! A file ends with the last block before a multiple of 8,192, so file N has the blocks from 8,192
//! times N on. Each file is written completely or not at all. The name has the root of the file's
//! blocks, so a file that is there already has the same blocks and is not written again.

use std::path::Path;
use std::sync::atomic::Ordering;

use chain::View;
use chain::era1::accumulator::accumulator;
use chain::era1::{Era1Name, Era1Writer, FILE_BLOCKS_MAX};
use chain::import::BlockId;
use store::{StoreError, TableId};

use super::error::CommandError;
use super::export::{block, export_range};
use super::output_file::OutputFile;
use super::stop_flag::stop_flag;
use crate::progress::{CommandProgress, ProgressUnits};

use crate::data_directory::{DataDirectory, OpenPurpose};
use crate::options::VnodeOptions;
use crate::output::print_line;

/// Writes the blocks from `first` (default: block 0) to `last` (default: the head) to `folder`.
pub(super) fn run(
    options: &VnodeOptions,
    folder: &Path,
    (first, last): (Option<u64>, Option<u64>),
) -> Result<(), CommandError> {
    let directory = DataDirectory::open(options, OpenPurpose::Read)?;
    let view = View::new(&directory.store, directory.spec.clone())?;
    let (first, last) = export_range(first, last, view.head_number())?;
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
        if write_file(&view, folder, begin..=end)? {
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
    view: &View,
    folder: &Path,
    numbers: std::ops::RangeInclusive<u64>,
) -> Result<bool, CommandError> {
    let first = *numbers.start();
    let mut headers = Vec::new();
    for number in numbers {
        let (hash, record) = view
            .header(number)?
            .ok_or_else(|| missing(number, "no such block"))?;
        headers.push((hash, record.total_difficulty));
    }
    let name = Era1Name::new(&view.spec().name, first, &accumulator(&headers));
    let path = folder.join(name.to_string());
    if path.exists() {
        return Ok(false);
    }
    let failed = |source| CommandError::Write {
        path: path.clone(),
        source,
    };
    let output = OutputFile::open(&path).map_err(failed)?;
    let mut file = Era1Writer::new(output, view.spec().receipt_form()).map_err(failed)?;
    for (number, (hash, total_difficulty)) in (first..).zip(headers) {
        let receipts = view
            .receipts(&BlockId { number, hash })?
            .ok_or_else(|| missing(number, "the receipts are missing"))?;
        file.add(&block(view, number)?, &receipts, total_difficulty)
            .map_err(failed)?;
    }
    let output = file.finish().map_err(failed)?;
    output.finish().map_err(failed)?;
    Ok(true)
}

fn missing(number: u64, reason: &str) -> StoreError {
    StoreError::corrupt(TableId::NumberToHash, &number.to_be_bytes(), reason)
}
