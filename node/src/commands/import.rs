//! `vnode import`: imports blocks from a file or a pipe.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use chain::View;
use chain::import::Importer;
use chain::import::bulk::{BulkProgress, import_stream};
use chain::rules::body::SealCheck;
use ethash::LightCaches;

use super::error::CommandError;
use super::output_file::is_standard;
use super::progress::{CommandProgress, ProgressUnits};
use super::stop;
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
    let stop = stop::flag()?;
    let seals = SealCheck::Ethash(LightCaches::new());
    let importer = Importer::new(directory.store.clone(), directory.spec.clone(), seals);
    let mut progress = CommandProgress::new(options, "import", ProgressUnits::Bytes, bytes);
    let mut done = BulkProgress::default();
    let result = import_stream(&importer, input, &stop, |now| {
        done = *now;
        let seconds = progress.seconds();
        progress.update(now.bytes, || rates(now, seconds));
    });
    let seconds = progress.finish();
    let head = View::new(&directory.store, directory.spec.clone())?;
    let BulkProgress {
        blocks,
        transactions,
        gas,
        known,
        ..
    } = done;
    print_line(&format!(
        "imported {blocks} blocks, {transactions} transactions, {gas} gas in {seconds:.2} s: {}; {known} were already stored; the head is block {} {}",
        rates(&done, seconds),
        head.head_number(),
        head.head_hash()
    ));
    result.map_err(|error| CommandError::Import {
        path: file.to_owned(),
        error: Box::new(error),
    })
}

fn rates(done: &BulkProgress, seconds: f64) -> String {
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
