//! `vnode export --format parquet`: writes tables of blocks, transactions, receipts, logs and
//! traces.

use std::path::Path;
use std::sync::atomic::Ordering;

use chain::View;
use etl::{BlockRange, EtlTable, ExportRequest, ExportSummary};

use super::error::CommandError;
use super::progress::{CommandProgress, ProgressUnits};
use super::{export, stop};
use crate::data_directory::{DataDirectory, OpenPurpose};
use crate::options::VnodeOptions;
use crate::output::print_line;

/// Writes the blocks from the first (default: block 0) to the last (default: the head) to files in
/// `folder`. `tables` are which tables, and the number of blocks of a file.
pub(super) fn run(
    options: &VnodeOptions,
    folder: &Path,
    (first, last): (Option<u64>, Option<u64>),
    (tables, partition_blocks): (&[EtlTable], u64),
) -> Result<(), CommandError> {
    let directory = DataDirectory::open(options, OpenPurpose::Read)?;
    let view = View::new(&directory.store, directory.spec.clone())?;
    let (first, last) = export::range(first, last, view.head_number())?;
    let mut tables = tables.to_vec();
    tables.sort_unstable();
    tables.dedup();
    let request = ExportRequest {
        directory: folder.to_owned(),
        range: BlockRange { first, last },
        tables,
        partition_blocks,
    };
    let stop = stop::flag()?;
    let total = request.range.count();
    let mut progress = CommandProgress::new(options, "export", ProgressUnits::Items, total);
    let summary = etl::export(&view, &request, &mut |done: &ExportSummary| {
        progress.update(done.skipped + done.blocks, || {
            format!("blocks, {} files, {} rows", done.files, done.rows)
        });
        !stop.load(Ordering::Acquire)
    })?;
    let seconds = progress.finish();
    let ExportSummary {
        blocks,
        skipped,
        files,
        rows,
        bytes,
    } = summary;
    print_line(&format!(
        "exported {blocks} blocks of {range} ({skipped} were there already): {files} files, {rows} rows, {bytes} bytes in {seconds:.2} s: {:.1} blocks/s, {:.0} rows/s",
        blocks as f64 / seconds,
        rows as f64 / seconds,
        range = request.range,
    ));
    Ok(())
}
