//! `vnode import`: blocks from a file or pipe into the data directory.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use chain::View;
use chain::import::Importer;
use chain::import::bulk::{BulkProgress, import_stream};
use chain::rules::body::SealCheck;
use ethash::LightCaches;

use super::directory::{Directory, Purpose};
use super::progress::{Progress, Units};
use super::sink::is_standard;
use super::{CommandError, say, stop};
use crate::options::VnodeOptions;

/// Imports the blocks of `file` that are not there yet.
pub(super) fn run(options: &VnodeOptions, file: &Path) -> Result<(), CommandError> {
    let (input, bytes) = open(file).map_err(|source| CommandError::Read {
        path: file.to_owned(),
        source,
    })?;
    let directory = Directory::open(options, Purpose::Run)?;
    let stop = stop::flag()?;
    let seals = SealCheck::Ethash(LightCaches::new());
    let importer = Importer::new(directory.store.clone(), directory.spec.clone(), seals);
    let mut progress = Progress::new(options, "import", Units::Bytes, bytes);
    let mut done = BulkProgress::default();
    let result = import_stream(&importer, input, &stop, |now| {
        done = *now;
        let seconds = progress.seconds();
        progress.at(now.bytes, || rates(now, seconds));
    });
    let seconds = progress.end();
    let head = View::new(&directory.store, directory.spec.clone())?;
    let BulkProgress {
        blocks,
        transactions,
        gas,
        known,
        ..
    } = done;
    say(&format!(
        "imported {blocks} blocks, {transactions} transactions, {gas} gas in {seconds:.2} s: {}; {known} were there; the head is block {} {}",
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

/// Opens a file, with its length where it has one.
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
