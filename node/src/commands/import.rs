//! `vnode import`: imports blocks from a file or a pipe.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use chain::View;
use chain::block_files::{BlockFiles, ReadFiles};
use chain::era1::{Era1Index, era1_files};
use chain::import::Importer;
use chain::import::stream_import::{StreamImportError, StreamImportProgress, import_blocks};
use chain::rules::seal::SealCheck;
use chain::stream::BlockStreamError;
use ethash::LightCaches;
use store::{BlockReads, Store, StoreError};

use super::error::CommandError;
use super::output_file::is_standard;
use super::stop_flag::stop_flag;
use crate::progress::{CommandProgress, ProgressUnits};

use crate::data_directory::{DataDirectory, OpenPurpose};
use crate::options::VnodeOptions;
use crate::output::print_line;

/// Imports the blocks of files and folders that are not stored yet.
/// `batch` is the memory for the blocks that share a commit, in MiB.
pub(super) fn run(options: &VnodeOptions, paths: &[PathBuf], batch: usize) -> Result<(), CommandError> {
    let mut inputs = Inputs::default();
    paths.iter().try_for_each(|path| inputs.add(path))?;
    let directory = DataDirectory::open(options, OpenPurpose::Run)?;
    inputs.skip_stored(&directory.store)?;
    let stop = stop_flag()?;
    let seals = SealCheck::Ethash(LightCaches::new());
    let importer = Importer::new(directory.store.clone(), directory.spec.clone(), seals)
        .with_limits(options.fork_limits())
        .keeping(options.state.unwrap_or_default())
        .with_batch_bytes(batch.saturating_mul(1 << 20));
    let mut progress = CommandProgress::new(options, "import", ProgressUnits::Bytes, inputs.bytes);
    let mut done = StreamImportProgress::default();
    let skipped = inputs.skipped_blocks;
    let files = inputs.paths.into_iter().map(|(path, _)| path).collect();
    let source = BlockFiles::new(files, inputs.skipped_bytes, Box::new(open));
    let read = source.read_files();
    let mut result = import_blocks(&importer, Box::new(source), &stop, |now| {
        done = *now;
        let seconds = progress.seconds();
        progress.update(now.read_bytes, || rates(now, seconds));
    });
    if skipped > 0 && matches!(result, Err(StreamImportError::Empty)) {
        result = Ok(());
    }
    let seconds = progress.finish();
    let head = View::new(&directory.store, directory.spec.clone());
    let StreamImportProgress {
        blocks,
        transactions,
        gas,
        known,
        ..
    } = done;
    print_line(&format!(
        "imported {blocks} blocks, {transactions} transactions, {gas} gas in {seconds:.2} s: {}; {} were already stored; {}",
        rates(&done, seconds),
        known + skipped,
        head_text(&head),
    ));
    first_error(&paths[0], &read, result, head)
}

/// The files to be read.
#[derive(Default)]
struct Inputs {
    /// Each with whether it was found in a folder.
    paths: Vec<(PathBuf, bool)>,
    /// Bytes of all files; 0 if that is unknown.
    bytes: u64,
    /// Bytes of the files that need not be read.
    skipped_bytes: u64,
    /// Blocks in the files that need not be read.
    skipped_blocks: u64,
}

impl Inputs {
    /// Adds a file, or the Era1 files of a folder.
    fn add(&mut self, path: &Path) -> Result<(), CommandError> {
        let failed = |source| CommandError::Read {
            path: path.to_owned(),
            source,
        };
        if is_standard(path) {
            self.paths.push((path.to_owned(), false));
            return Ok(());
        }
        let metadata = std::fs::metadata(path).map_err(failed)?;
        if !metadata.is_dir() {
            self.bytes += metadata.len();
            self.paths.push((path.to_owned(), false));
            return Ok(());
        }
        let files = era1_files(path).map_err(failed)?;
        if files.is_empty() {
            let path = path.to_owned();
            return Err(CommandError::NoFiles { path });
        }
        for file in files {
            self.bytes += std::fs::metadata(&file).map_err(failed)?.len();
            self.paths.push((file, true));
        }
        Ok(())
    }

    /// Leaves out the files of folders whose last block is stored, so that an import goes on where
    /// it ended.
    fn skip_stored(&mut self, store: &Store) -> Result<(), CommandError> {
        let view = store.snapshot()?;
        let mut kept = Vec::new();
        for (path, is_in_folder) in std::mem::take(&mut self.paths) {
            // A file without an index is read, and its fault is named then.
            let index = is_in_folder.then(|| Era1Index::open(&path)).and_then(Result::ok);
            let last = index.and_then(|index| Some((index.last_hash().ok()?, index)));
            match last {
                Some((hash, index)) if view.block_number(&hash)?.is_some() => {
                    self.skipped_blocks += index.last() - index.first() + 1;
                    self.skipped_bytes += std::fs::metadata(&path).map_or(0, |metadata| metadata.len());
                }
                _ => kept.push((path, is_in_folder)),
            }
        }
        self.paths = kept;
        Ok(())
    }
}

fn head_text(head: &Result<View, StoreError>) -> String {
    match head {
        Ok(view) => format!("the head is block {} {}", view.head_number(), view.head_hash()),
        Err(_) => "the head cannot be read".to_owned(),
    }
}

/// The error of the import, with the file in which it was found. If there is none, the error of
/// reading the head afterwards. `given` is the first path of the command.
fn first_error(
    given: &Path,
    read: &ReadFiles,
    imported: Result<(), StreamImportError>,
    head: Result<View, StoreError>,
) -> Result<(), CommandError> {
    imported.map_err(|error| {
        let path = match error.block() {
            Some(number) => read.with_block(number),
            None => read.last(),
        };
        let path = path.unwrap_or_else(|| given.to_owned());
        match error {
            // The offset says nothing if nothing was read.
            StreamImportError::Stream(BlockStreamError::Read { offset: 0, source }) => {
                CommandError::Read { path, source }
            }
            error => CommandError::Import {
                path,
                error: Box::new(error),
            },
        }
    })?;
    head?;
    Ok(())
}

fn rates(done: &StreamImportProgress, seconds: f64) -> String {
    format!(
        "{:.1} blocks/s, {:.2} Mgas/s",
        (done.blocks + done.pending) as f64 / seconds,
        done.gas as f64 / seconds / 1e6
    )
}

/// Opens `path` for reading.
fn open(path: &Path) -> std::io::Result<Box<dyn Read + Send>> {
    if is_standard(path) {
        return Ok(Box::new(std::io::stdin()));
    }
    Ok(Box::new(File::open(path)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unreadable_head_does_not_hide_why_the_import_ended() {
        let closed = || StoreError::Closed {
            path: "of the test".into(),
        };
        let check = |imported, expected: &str| {
            let error = first_error(
                Path::new("blocks.rlp"),
                &ReadFiles::default(),
                imported,
                Err(closed()),
            )
            .unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
        };
        check(Err(StreamImportError::Empty), "there is no block in the stream");
        check(Ok(()), "was closed after a failure");
        assert_eq!(head_text(&Err(closed())), "the head cannot be read");
    }
}
