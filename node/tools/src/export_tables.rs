//! `vnode export --format parquet`: writes tables of blocks, transactions, receipts, logs and
//! traces.

use std::path::Path;
use std::sync::atomic::Ordering;

use chain::View;
use etl::{BlockRange, EtlError, EtlTable, ExportRequest, ExportSummary, NoSuchTable};
use node::commands::{CommandError, export_range, stop_flag};
use node::data_directory::{DataDirectory, OpenPurpose};
use node::progress::{CommandProgress, ProgressUnits};
use node::{VnodeOptions, print_line};

/// An error of an export of tables.
#[derive(Debug, thiserror::Error)]
pub enum ExportTablesError {
    /// The data directory cannot be used, or the blocks are not there.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// A table is unknown.
    #[error(transparent)]
    Table(#[from] NoSuchTable),
    /// The export ended early.
    #[error(transparent)]
    Etl(#[from] EtlError),
}

/// Writes the blocks from the first (default: block 0) to the last (default: the head) to files in
/// `folder`. `tables` are which tables, and the number of blocks of a file.
///
/// # Errors
/// [`ExportTablesError`] if a file cannot be written, or the data directory cannot be read.
pub fn run(
    options: &VnodeOptions,
    folder: &Path,
    (first, last): (Option<u64>, Option<u64>),
    (tables, partition_blocks): (&[String], u64),
) -> Result<(), ExportTablesError> {
    node::commands::start(options)?;
    let result = export(options, folder, (first, last), (tables, partition_blocks));
    node::span_export::finish();
    result
}

fn export(
    options: &VnodeOptions,
    folder: &Path,
    (first, last): (Option<u64>, Option<u64>),
    (tables, partition_blocks): (&[String], u64),
) -> Result<(), ExportTablesError> {
    let directory = DataDirectory::open(options, OpenPurpose::Read).map_err(CommandError::from)?;
    let view = View::new(&directory.store, directory.spec.clone()).map_err(CommandError::from)?;
    let (first, last) = export_range(first, last, view.head_number())?;
    let mut tables = tables
        .iter()
        .map(|name| name.parse())
        .collect::<Result<Vec<EtlTable>, _>>()?;
    tables.sort_unstable();
    tables.dedup();
    let request = ExportRequest {
        directory: folder.to_owned(),
        range: BlockRange { first, last },
        tables,
        partition_blocks,
    };
    let stop = stop_flag()?;
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
