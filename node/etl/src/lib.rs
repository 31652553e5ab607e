//! Writes blocks, transactions, receipts, logs and traces as Parquet files, for engines that are
//! made for large questions.
//!
//! [`export`] divides a range of blocks into partitions. Each partition has a file for each table.
//! Rows are made on all processors, files are written by the calling thread. A file gets its name
//! when it is complete, so an export can be interrupted at any time and goes on where it was. The
//! same command exports the blocks that are new, and those that a reorganization has changed.
//!
//! This package reads a [`TableSource`], such as a view of a store. It knows no options, no signals
//! and no sockets. The columns are described in docs/parquet.md.

mod column;
mod file;
mod folder;
mod range;
mod rows;
mod source;
mod table;

pub use range::BlockRange;
pub use source::{SourceError, TableSource};
pub use table::{EtlTable, NoSuchTable};

use std::path::{Path, PathBuf};

use chain::parallel::for_each_in_order;
use chain::query_limit::CancelFlag;
use parquet::errors::ParquetError;
use primitives::B256;

use file::{FileFacts, TableFile};
use folder::Missing;
use rows::{BlockLink, append_block};
use source::no_block;
use table::TableRows;

/// The usual number of blocks of a partition.
pub const PARTITION_BLOCKS_DEFAULT: u64 = 10_000;
/// The number of blocks whose rows a thread makes at a time.
const TASK_BLOCKS: u64 = 16;

/// The tables, the blocks and the folder of an export.
#[derive(Clone, Debug)]
pub struct ExportRequest {
    /// The folder; it is made if it does not exist.
    pub directory: PathBuf,
    /// The blocks, none of which is above the head.
    pub range: BlockRange,
    /// The tables.
    pub tables: Vec<EtlTable>,
    /// Files end at the multiples of this number of blocks.
    pub partition_blocks: u64,
}

/// The figures of an export.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExportSummary {
    /// Blocks with at least one table that was not there.
    pub blocks: u64,
    /// Blocks that were in the folder already.
    pub skipped: u64,
    /// New files.
    pub files: u64,
    /// New rows.
    pub rows: u64,
    /// Bytes of the new files.
    pub bytes: u64,
}

/// The reason why an export failed. The files that were complete stay.
#[derive(Debug, thiserror::Error)]
pub enum EtlError {
    /// The source does not give what is asked of it.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The chain of the source changed while it was read.
    #[error("block {0}: the chain was reorganized meanwhile; to continue, give the same command again")]
    Reorganized(u64),
    /// A folder cannot be read or changed.
    #[error("{}: {source}", path.display())]
    Folder {
        /// The folder or file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The error of the Parquet library.
        source: ParquetError,
    },
    /// The folder has files of another chain.
    #[error("{}: block 0: got {got}, expected {expected}", path.display())]
    OtherChain {
        /// The file.
        path: PathBuf,
        /// The file's block 0.
        got: B256,
        /// The chain's block 0.
        expected: B256,
    },
    /// A file has some of the blocks of a partition, and others.
    #[error(
        "{}: blocks: got {got}, expected none beyond {expected}: export a range that contains both, or remove the file",
        path.display()
    )]
    Overlap {
        /// The file.
        path: PathBuf,
        /// Its blocks.
        got: BlockRange,
        /// The blocks of the partition.
        expected: BlockRange,
    },
    /// The export was cancelled.
    #[error("interrupted; to continue, give the same command again")]
    Cancelled,
}

impl EtlError {
    fn folder(path: &Path, source: std::io::Error) -> Self {
        Self::Folder {
            path: path.to_owned(),
            source,
        }
    }

    fn write(path: &Path, source: ParquetError) -> Self {
        Self::Write {
            path: path.to_owned(),
            source,
        }
    }
}

/// A piece of work: some blocks of a partition.
struct ExportTask {
    /// The index of the partition.
    partition: usize,
    blocks: BlockRange,
}

/// The blocks of a partition. A source outside this process may change its chain between them.
#[derive(Default)]
struct PartitionChain {
    before: Option<B256>,
    last: u64,
    last_hash: B256,
}

impl PartitionChain {
    /// The blocks of a partition whose file says that it ends with block `last`.
    const fn until(last: u64, last_hash: B256) -> Self {
        Self {
            before: None,
            last,
            last_hash,
        }
    }

    fn push(&mut self, number: u64, link: BlockLink) -> Result<(), EtlError> {
        let before = self.before.replace(link.hash);
        let follows = before.is_none_or(|before| before == link.parent);
        match follows && (number < self.last || link.hash == self.last_hash) {
            true => Ok(()),
            false => Err(EtlError::Reorganized(number)),
        }
    }
}

/// Exports what `request` names. `progress` is called with what was done so far, and stops the
/// export by returning `false`.
///
/// # Errors
/// [`EtlError`]; another call goes on where this one ended.
pub fn export(
    source: &dyn TableSource,
    request: &ExportRequest,
    progress: &mut dyn FnMut(&ExportSummary) -> bool,
) -> Result<ExportSummary, EtlError> {
    let hash = |number| -> Result<B256, EtlError> {
        let hash = source.canonical_hash(number)?;
        Ok(hash.ok_or_else(|| no_block(number))?)
    };
    let genesis = hash(0)?;
    let ranges = request.range.parts(request.partition_blocks);
    let missing = folder::missing(source, genesis, &request.directory, &request.tables, ranges)?;
    let traced = |one: &&Missing| one.tables.iter().any(|(table, _)| *table == EtlTable::Traces);
    if let Some(first) = missing.iter().find(traced) {
        source.require_traces(first.range.first)?;
    }
    let mut summary = ExportSummary::default();
    let wanted: u64 = missing.iter().map(|one| one.range.count()).sum();
    summary.skipped = request.range.count() - wanted;

    let tasks = missing.iter().enumerate().flat_map(|(partition, one)| {
        one.range
            .parts(TASK_BLOCKS)
            .map(move |blocks| ExportTask { partition, blocks })
    });
    let cancelled = CancelFlag::default();
    let work = |task: ExportTask| {
        let tables = missing[task.partition].tables.iter();
        let mut rows: Vec<_> = tables.map(|(table, _)| TableRows::new(*table)).collect();
        let blocks = task.blocks.first..=task.blocks.last;
        let links = blocks.map(|number| append_block(source, number, &mut rows, &cancelled));
        let links = links.collect::<Result<Vec<_>, _>>()?;
        Ok::<_, SourceError>((task, rows, links))
    };
    let mut open: Vec<(PathBuf, TableFile)> = Vec::new();
    let mut chain = PartitionChain::default();
    let result = for_each_in_order(tasks, work, |made| {
        let (task, rows, links) = made?;
        let partition = &missing[task.partition];
        if task.blocks.first == partition.range.first {
            let facts = FileFacts {
                genesis,
                range: partition.range,
                last_hash: hash(partition.range.last)?,
            };
            chain = PartitionChain::until(facts.range.last, facts.last_hash);
            for (table, _) in &partition.tables {
                let path = folder::path(&request.directory, *table, partition.range);
                let file = TableFile::create(&path, *table, &facts);
                let file = file.map_err(|source| EtlError::write(&path, source))?;
                open.push((path, file));
            }
        }
        for (number, link) in (task.blocks.first..).zip(links) {
            chain.push(number, link)?;
        }
        for ((path, file), rows) in open.iter_mut().zip(rows) {
            file.append(rows)
                .map_err(|source| EtlError::write(path, source))?;
        }
        summary.blocks += task.blocks.count();
        if task.blocks.last == partition.range.last {
            for ((path, file), (_, replaced)) in std::mem::take(&mut open).into_iter().zip(&partition.tables)
            {
                let (rows, bytes) = file.finish().map_err(|source| EtlError::write(&path, source))?;
                replaced.iter().try_for_each(|path| folder::remove(path))?;
                summary.files += 1;
                summary.rows += rows;
                summary.bytes += bytes;
            }
        }
        if progress(&summary) {
            Ok(())
        } else {
            Err(EtlError::Cancelled)
        }
    });
    // Nothing waits for the blocks that other threads still run.
    cancelled.cancel();
    result.map(|()| summary)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_two_chains_do_not_share_a_file() {
        let link = |parent: u8, hash: u8| BlockLink {
            parent: B256::repeat_byte(parent),
            hash: B256::repeat_byte(hash),
        };
        let check = |links: &[BlockLink]| {
            let mut chain = PartitionChain::until(6, B256::repeat_byte(6));
            let each = (5..).zip(links);
            each.map(|(number, link)| chain.push(number, *link))
                .find_map(Result::err)
                .map(|error| error.to_string())
        };
        assert_eq!(check(&[link(4, 5), link(5, 6)]), None);
        let error = |number| {
            Some(format!(
                "block {number}: the chain was reorganized meanwhile; to continue, give the same command again"
            ))
        };
        // The second block has another parent, and the last one is not the one that the file names.
        assert_eq!(check(&[link(4, 5), link(9, 6)]), error(6));
        assert_eq!(check(&[link(4, 5), link(5, 7)]), error(6));
    }
}
