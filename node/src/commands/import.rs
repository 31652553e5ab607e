//! `vnode import`: imports blocks from a file or a pipe.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use chain::View;
use chain::import::Importer;
use chain::import::stream_import::{StreamImportError, StreamImportProgress, import_stream};
use chain::rules::seal::SealCheck;
use ethash::LightCaches;
use store::StoreError;

use super::error::CommandError;
use super::output_file::is_standard;
use super::progress::{CommandProgress, ProgressUnits};
use super::stop_flag::stop_flag;

use crate::data_directory::{DataDirectory, OpenPurpose};
use crate::options::VnodeOptions;
use crate::output::print_line;

/// Imports the blocks of `file` that are not stored yet.
pub(super) fn run(options: &VnodeOptions, file: &Path) -> Result<(), CommandError> {
    let (input, bytes) = open(file).map_err(|source| CommandError::Read {
        path: file.to_owned(),
        source,
    })?;
    let directory = DataDirectory::open(options, OpenPurpose::Run)?;
    let stop = stop_flag()?;
    let seals = SealCheck::Ethash(LightCaches::new());
    let importer = Importer::new(directory.store.clone(), directory.spec.clone(), seals)
        .with_limits(options.fork_limits())
        .keeping(options.state.unwrap_or_default());
    let mut progress = CommandProgress::new(options, "import", ProgressUnits::Bytes, bytes);
    let mut done = StreamImportProgress::default();
    let result = import_stream(&importer, input, &stop, |now| {
        done = *now;
        let seconds = progress.seconds();
        progress.update(now.bytes, || rates(now, seconds));
    });
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
        "imported {blocks} blocks, {transactions} transactions, {gas} gas in {seconds:.2} s: {}; {known} were already stored; {}",
        rates(&done, seconds),
        head_text(&head),
    ));
    first_error(file, result, head)
}

fn head_text(head: &Result<View, StoreError>) -> String {
    match head {
        Ok(view) => format!("the head is block {} {}", view.head_number(), view.head_hash()),
        Err(_) => "the head cannot be read".to_owned(),
    }
}

/// The error of the import. If there is none, the error of reading the head afterwards.
fn first_error(
    file: &Path,
    imported: Result<(), StreamImportError>,
    head: Result<View, StoreError>,
) -> Result<(), CommandError> {
    imported.map_err(|error| CommandError::Import {
        path: file.to_owned(),
        error: Box::new(error),
    })?;
    head?;
    Ok(())
}

fn rates(done: &StreamImportProgress, seconds: f64) -> String {
    format!(
        "{:.1} blocks/s, {:.2} Mgas/s",
        done.blocks as f64 / seconds,
        done.gas as f64 / seconds / 1e6
    )
}

/// Opens `path` for reading. Returns its length in bytes, too; 0 if the length is unknown.
fn open(path: &Path) -> std::io::Result<(Box<dyn Read + Send>, u64)> {
    if is_standard(path) {
        return Ok((Box::new(std::io::stdin()), 0));
    }
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return Err(std::io::ErrorKind::IsADirectory.into());
    }
    Ok((Box::new(file), metadata.len()))
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
            let error = first_error(Path::new("blocks.rlp"), imported, Err(closed())).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
        };
        check(Err(StreamImportError::Empty), "there is no block in the stream");
        check(Ok(()), "was closed after a failure");
        assert_eq!(head_text(&Err(closed())), "the head cannot be read");
    }
}
