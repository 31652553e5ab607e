//! `vnode export --format parquet`: writes tables of blocks, transactions, receipts, logs and
//! traces.

use std::path::Path;
use std::sync::atomic::Ordering;

use chain::ChainSpec;
use chain::query_limit::CancelFlag;
use chain::trace::CallFrame;
use chain::view::StoredBlock;
use etl::{
    BlockRange, EtlError, EtlTable, ExportRequest, ExportSummary, NoSuchTable, SourceError, TableSource,
};
use node::commands::{ChainSource, CommandError, RunningChain, export_range, stop_flag};
use node::progress::{CommandProgress, ProgressUnits};
use node::{VnodeOptions, print_line};
use primitives::{B256, Receipt};

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
    let opened = ChainSource::open(options)?;
    let (first, last) = export_range(first, last, opened.head()?)?;
    let (running, source): (_, &dyn TableSource) = match &opened {
        ChainSource::Here { view, .. } => ("", &**view),
        ChainSource::Running(chain) => (" of the running node", &AskedTables(chain)),
    };
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
    let summary = etl::export(source, &request, &mut |done: &ExportSummary| {
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
        "exported {blocks} blocks of {range}{running} ({skipped} were there already): {files} files, {rows} rows, {bytes} bytes in {seconds:.2} s: {:.1} blocks/s, {:.0} rows/s",
        blocks as f64 / seconds,
        rows as f64 / seconds,
        range = request.range,
    ));
    Ok(())
}

/// The chain of a running node as a source of tables.
struct AskedTables<'a>(&'a RunningChain);

fn outside(error: CommandError) -> SourceError {
    SourceError::Outside(Box::new(error))
}

impl TableSource for AskedTables<'_> {
    fn spec(&self) -> &ChainSpec {
        self.0.spec()
    }

    fn canonical_hash(&self, number: u64) -> Result<Option<B256>, SourceError> {
        self.0.canonical_hash(number).map_err(outside)
    }

    fn block(&self, number: u64) -> Result<Option<StoredBlock>, SourceError> {
        self.0.block(number).map_err(outside)
    }

    fn receipts(&self, block: &StoredBlock) -> Result<Vec<Receipt>, SourceError> {
        self.0.receipts(block).map_err(outside)
    }

    /// The node says so itself when it is asked for the first trace.
    fn require_traces(&self, _: u64) -> Result<(), SourceError> {
        Ok(())
    }

    fn call_trees(
        &self,
        block: &StoredBlock,
        _: &CancelFlag,
    ) -> Result<Vec<(usize, CallFrame)>, SourceError> {
        self.0.call_trees(block).map_err(outside)
    }
}
