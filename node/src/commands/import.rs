//! `vnode import`: imports blocks from a file or a pipe.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use chain::View;
use chain::block_files::{BlockFiles, ReadFiles};
use chain::era1::{Era1Index, era1_files};
use chain::import::Importer;
use chain::import::stream_import::{StreamImportError, StreamImportProgress, import_blocks};
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
use crate::seals::SealChecker;

/// Imports the blocks of files and folders that are not stored yet.
/// `batch` is the memory for the blocks that share a commit, in MiB.
pub(super) fn run(options: &VnodeOptions, paths: &[PathBuf], batch: usize) -> Result<(), CommandError> {
    let seals = SealChecker::new(options, LightCaches::new())?;
    let imported = import_with(options, paths, batch, &seals);
    // A driver whose threads still work when the program ends may crash.
    seals.close();
    imported
}

/// As [`run`], with this check of seals.
fn import_with(
    options: &VnodeOptions,
    paths: &[PathBuf],
    batch: usize,
    seals: &SealChecker,
) -> Result<(), CommandError> {
    let mut inputs = Inputs::default();
    paths.iter().try_for_each(|path| inputs.add(path))?;
    let directory = DataDirectory::open(options, OpenPurpose::Run)?;
    inputs.skip_stored(&directory.store)?;
    let stop = stop_flag()?;
    let importer = Importer::new(directory.store.clone(), directory.spec.clone(), seals.check())
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
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use chain::chain::BlockOrder;
    use chain::rules::seal::SealCheck;
    use chain::{Chain, ChainConfig, ChainSpec};
    use clap::Parser;
    use engine::SealCounts;
    use ethash::{B256, Epoch};
    use primitives::Block;

    use super::*;

    /// Blocks of the test chain, fewer than a chunk of an import has.
    const BLOCKS: u64 = 16;

    fn small_caches() -> LightCaches {
        LightCaches::with_sizes(1024, 32_768)
    }

    fn options(arguments: &[&str]) -> VnodeOptions {
        VnodeOptions::parse_from(["vnode", "--dev", "--verbosity", "0"].iter().chain(arguments))
    }

    /// Blocks of the development network from block 1 on, with seals of a small dataset.
    fn sealed_blocks() -> Vec<Block> {
        let config = ChainConfig {
            spec: Arc::new(ChainSpec::dev()),
            seals: SealCheck::Ethash(small_caches()),
            forks: Default::default(),
            pool: Default::default(),
            beneficiary: Default::default(),
            extra_data: Default::default(),
            states: Default::default(),
        };
        let chain = Chain::open(Store::in_memory().expect("a store"), config).expect("a chain");
        let first = chain.view().expect("a view").head().header.timestamp + 10;
        let blocks = (0..BLOCKS).map(|number| {
            let order = BlockOrder {
                timestamp: Some(first + 10 * number),
                ..Default::default()
            };
            let made = chain.make_block(order).expect("a block");
            let stored = chain.view().expect("a view").block(made.number);
            Block {
                header: stored
                    .expect("the store works")
                    .expect("it is stored")
                    .record
                    .header,
                transactions: Vec::new(),
                uncles: Vec::new(),
            }
        });
        let blocks = blocks.collect();
        chain.stop();
        blocks
    }

    /// Imports blocks into a new folder, as the command does.
    fn import(seals: &SealChecker, blocks: &[Block], home: &Path) -> Result<(), String> {
        let _ = std::fs::remove_dir_all(home);
        std::fs::create_dir(home).expect("a folder");
        let file = home.join("blocks.rlp");
        let bytes: Vec<u8> = blocks.iter().flat_map(Block::encode).collect();
        std::fs::write(&file, bytes).expect("written");
        let options = options(&["--datadir", home.to_str().expect("text")]);
        import_with(&options, &[file], 64, seals).map_err(|error| error.to_string())
    }

    #[test]
    fn an_import_has_its_seals_checked_by_a_card() {
        if engine::gpu::list_adapters().is_empty() {
            assert!(std::env::var_os("REQUIRE_GPU").is_none(), "there is no adapter");
            eprintln!("skipped: no graphics adapter");
            return;
        }
        let options = options(&["--verify.device", "gpu:0"]);
        let seals = SealChecker::new(&options, small_caches()).expect("the first adapter");
        let SealCheck::OnDevice(caches, device) = seals.check() else {
            panic!("a card was asked for");
        };
        // The import is so short that it would end before the dataset is there.
        let cache = caches.get(Epoch::ethash(0)).expect("a small cache");
        let start = Instant::now();
        while device.mix_hashes(&cache, 30_000, &[[7; 8]; 8]).is_none() {
            assert!(start.elapsed() < Duration::from_secs(60), "{device:?}");
            std::thread::sleep(Duration::from_millis(2));
        }
        let home = tempfile::tempdir().expect("a folder");
        let home = home.path().join("d");
        let blocks = sealed_blocks();
        let before = seals.counts().by_card;
        assert_eq!(import(&seals, &blocks, &home), Ok(()));
        let expected = SealCounts {
            by_card: before + BLOCKS,
            ..SealCounts::default()
        };
        assert_eq!(seals.counts(), expected);

        // A wrong mix hash whose final hash meets the boundary, and one whose final hash does not.
        let boundary = ethash::boundary(&blocks[9].header.difficulty);
        let header_hash = blocks[9].header.header_hash();
        let nonce = blocks[9].header.pow_nonce;
        let mix = (0u64..).map(|number| B256::left_padding_from(&number.to_be_bytes()));
        let mixes = mix.map(|mix| (ethash::final_hash(&header_hash, nonce, &mix) <= boundary, mix));
        let found = |below| {
            mixes
                .clone()
                .find(|(is_below, _)| *is_below == below)
                .map(|(_, mix)| mix)
        };
        for (mix, reason) in [
            (found(true), "mix hash: got"),
            (found(false), "above the boundary"),
        ] {
            let mut wrong = blocks.clone();
            wrong[9].header.mix_hash = mix.expect("there is one");
            let error = import(&seals, &wrong, &home).expect_err("a wrong seal");
            let hash = wrong[9].hash().to_string();
            assert!(
                error.contains("block 10") && error.contains(&hash) && error.contains(reason),
                "{error}"
            );
        }
        // A closed card leaves all to the processor.
        seals.close();
        let before = seals.counts().by_card;
        assert_eq!(import(&seals, &blocks, &home), Ok(()));
        let after = seals.counts();
        assert_eq!((after.by_card, after.failures), (before, 0));
        assert!(after.by_processor >= BLOCKS, "{after:?}");
    }

    #[test]
    fn without_a_check_of_seals_only_wrong_seals_are_taken() {
        let checker = |arguments: &[&str]| {
            SealChecker::new(&options(arguments), small_caches()).expect("no card is asked for")
        };
        let (checked, unchecked) = (checker(&[]), checker(&["--fakepow"]));
        let home = tempfile::tempdir().expect("a folder");
        let home = home.path().join("d");
        let mut blocks = sealed_blocks();
        let last = blocks.last_mut().expect("a block");
        last.header.mix_hash = B256::ZERO;
        let error = import(&checked, &blocks, &home).expect_err("a wrong seal");
        assert!(error.contains("block 16"), "{error}");
        assert_eq!(import(&unchecked, &blocks, &home), Ok(()));
        let last = blocks.last_mut().expect("a block");
        last.header.difficulty += primitives::U256::from(1);
        let error = import(&unchecked, &blocks, &home).expect_err("a wrong difficulty");
        assert!(error.contains("difficulty"), "{error}");
    }

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
