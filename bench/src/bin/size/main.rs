//! Measures where the store stands when a chain is large: a synthetic chain with the proportions of
//! Ethereum Classic is made, and at several sizes of its state ordinary blocks are imported, with
//! all states kept and with recent ones only.
//!
//! `bench/README.md` explains the figures.

mod gauge;
mod made_chain;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use bench::Failure;
use bench::disk_bytes::disk_bytes;
use chain::genesis::ensure_genesis;
use chain::import::limits::BATCH_BYTES_DEFAULT;
use chain::import::stream_import::import_stream;
use chain::import::{Imported, Importer, KEPT_TRIES, StateRetention};
use chain::rules::seal::SealCheck;
use clap::Parser;
use store::{BlockReads, Store, StoreOptions};

use made_chain::{ACCOUNTS_A_BLOCK, BlockMaker, CONTRACTS_A_TRANSACTION};

/// Past states that the measurement with recent ones keeps. Fewer than the node's default, so that
/// the measured blocks are enough to come behind the horizon.
const RECENT_BLOCKS: u64 = 1000;

/// Accounts that a block of the second measurement makes.
const MORE_A_BLOCK: u64 = 10_000;

/// Benchmark of large states.
#[derive(Debug, Parser)]
struct Options {
    /// Accounts at which ordinary blocks are measured, ascending
    #[arg(long, value_delimiter = ',', default_value = "1000000,3000000,10000000")]
    accounts: Vec<u64>,
    /// Accounts that a full block makes
    #[arg(long, default_value_t = 100_000)]
    full: u64,
    /// Number of ordinary blocks
    #[arg(long, default_value_t = 10_000)]
    blocks: u64,
    /// Memory for cached pages of the database, in MiB
    #[arg(long, default_value_t = 256)]
    cache: usize,
    /// Memory for the blocks that share a commit, in MiB
    #[arg(long, default_value_t = BATCH_BYTES_DEFAULT >> 20)]
    batch: usize,
    /// Accounts that full blocks make at each size, in a second measurement; 0 for none
    #[arg(long, default_value_t = 1_000_000)]
    more: u64,
    /// Folder for the stores, which are removed [default: a temporary folder]
    #[arg(long)]
    directory: Option<PathBuf>,
    /// Folder of a store that stays, and that a later run with the same `--full` goes on with
    #[arg(long)]
    kept: Option<PathBuf>,
}

fn main() -> Result<(), Failure> {
    let options = Options::parse();
    let parent = options.directory.clone().unwrap_or_else(std::env::temp_dir);
    let folder = tempfile::tempdir_in(&parent)?;
    let folder = options.kept.as_deref().unwrap_or_else(|| folder.path());
    let mut maker = BlockMaker::begin(options.full)?;
    let mut accounts = {
        let store = open(&options, folder)?;
        ensure_genesis(&store, maker.spec())?;
        let full_blocks = store.snapshot()?.head()?.map_or(0, |(number, _)| number);
        maker.skip_full_blocks(full_blocks, options.full / CONTRACTS_A_TRANSACTION)
    };
    for stop in &options.accounts {
        while accounts < *stop {
            let until = (accounts + options.full.max(1_000_000)).min(*stop);
            fill(&options, folder, &mut maker, accounts, until)?;
            accounts = until;
        }
        measure(&options, &parent, folder, &maker, accounts)?;
    }
    Ok(())
}

fn open(options: &Options, path: &Path) -> Result<Store, Failure> {
    let settings = StoreOptions {
        cache_bytes: options.cache << 20,
        ..StoreOptions::default()
    };
    Ok(Store::open(path, &settings)?)
}

fn importer(store: &Store, maker: &BlockMaker) -> Importer {
    Importer::new(store.clone(), maker.spec().clone(), SealCheck::Off)
}

/// Imports full blocks. The time for making them does not count, but they leave pages in memory.
fn fill(
    options: &Options,
    path: &Path,
    maker: &mut BlockMaker,
    from: u64,
    until: u64,
) -> Result<(), Failure> {
    let store = open(options, path)?;
    let importer = importer(&store, maker);
    let before = disk_bytes()?;
    gauge::reset_peak()?;
    let (mut accounts, mut seconds) = (from, 0.0);
    while accounts < until {
        let transactions = (options.full.min(until - accounts) / CONTRACTS_A_TRANSACTION).max(1);
        let block = maker.full_block(&store, transactions)?;
        let started = Instant::now();
        import_head(&importer, &block)?;
        seconds += started.elapsed().as_secs_f64();
        accounts += transactions * CONTRACTS_A_TRANSACTION;
    }
    let made = accounts - from;
    let tables = gauge::tables(&store)?;
    let stored: u64 = tables.iter().map(|(_, _, bytes)| bytes).sum();
    drop(importer);
    drop(store);
    let files = gauge::file_bytes(path)?;
    println!(
        "full blocks to {accounts} accounts: {:.0} accounts/s, {:.0} bytes an account in tables, {:.0} on the disk, {:.0} written (making and importing), {:.2} GiB of memory",
        made as f64 / seconds,
        stored as f64 / accounts as f64,
        files.iter().sum::<u64>() as f64 / accounts as f64,
        disk_bytes()?.written_since(&before) as f64 / made as f64,
        gauge::peak_memory()? as f64 / f64::from(1 << 30),
    );
    Ok(())
}

fn import_head(importer: &Importer, block: &primitives::Block) -> Result<(), Failure> {
    match importer.import(block, None)? {
        Imported::Head { .. } => Ok(()),
        _ => Err("a block did not become the head".into()),
    }
}

/// Measures ordinary blocks, and then full ones.
fn measure(
    options: &Options,
    parent: &Path,
    path: &Path,
    maker: &BlockMaker,
    accounts: u64,
) -> Result<(), Failure> {
    let base = tempfile::tempdir_in(parent)?;
    gauge::copy_files(path, base.path())?;
    let mut maker = maker.clone();
    settle(options, base.path(), &mut maker)?;
    let base = Base {
        options,
        parent,
        path: base.path(),
        maker: &maker,
    };
    if options.blocks > 0 {
        measure_ordinary(&base, accounts)?;
    }
    let blocks = options.more / MORE_A_BLOCK;
    if blocks > 0 {
        let making = MORE_A_BLOCK / CONTRACTS_A_TRANSACTION;
        let full = base.make(blocks, |maker, store| maker.full_block(store, making))?;
        println!("{accounts} accounts: {blocks} blocks with {MORE_A_BLOCK} new accounts each");
        base.import(StateRetention::Archive, &full)?;
    }
    Ok(())
}

fn measure_ordinary(base: &Base<'_>, accounts: u64) -> Result<(), Failure> {
    let options = base.options;
    let ordinary = base.make(options.blocks, |maker, store| maker.ordinary_block(store))?;
    println!(
        "{accounts} accounts: {} blocks with {} transactions and {:.0} new accounts; one by one, a commit each: {:.0} blocks/s",
        ordinary.blocks,
        ordinary.transactions,
        options.blocks as f64 * ACCOUNTS_A_BLOCK,
        options.blocks as f64 / ordinary.seconds,
    );
    base.import(StateRetention::Archive, &ordinary)?;
    let recent = StateRetention::Recent {
        blocks: RECENT_BLOCKS,
    };
    base.import(recent, &ordinary)
}

/// Imports ordinary blocks until no block before them is recent, so that the nodes of past tries
/// which full blocks leave do not count.
fn settle(options: &Options, path: &Path, maker: &mut BlockMaker) -> Result<(), Failure> {
    let store = open(options, path)?;
    let importer = importer(&store, maker);
    for _ in 0..=KEPT_TRIES {
        import_head(&importer, &maker.ordinary_block(&store)?)?;
    }
    Ok(())
}

/// A store that measurements begin with, each on a copy.
struct Base<'a> {
    options: &'a Options,
    parent: &'a Path,
    path: &'a Path,
    maker: &'a BlockMaker,
}

/// Blocks in a file, and what it took to import them one by one when they were made.
struct Made {
    file: tempfile::NamedTempFile,
    blocks: u64,
    transactions: u64,
    seconds: f64,
}

impl Base<'_> {
    fn copy(&self) -> Result<tempfile::TempDir, Failure> {
        let copy = tempfile::tempdir_in(self.parent)?;
        gauge::copy_files(self.path, copy.path())?;
        Ok(copy)
    }

    /// Makes blocks on a copy, where each is imported by a commit of its own.
    fn make(
        &self,
        blocks: u64,
        next: impl Fn(&mut BlockMaker, &Store) -> Result<primitives::Block, Failure>,
    ) -> Result<Made, Failure> {
        let copy = self.copy()?;
        let mut maker = self.maker.clone();
        let store = open(self.options, copy.path())?;
        let importer = importer(&store, &maker);
        let file = tempfile::NamedTempFile::new_in(self.parent)?;
        let mut out = BufWriter::new(file.as_file());
        let (mut transactions, mut seconds) = (0, 0.0);
        for _ in 0..blocks {
            let block = next(&mut maker, &store)?;
            out.write_all(&block.encode())?;
            transactions += block.transactions.len() as u64;
            let started = Instant::now();
            import_head(&importer, &block)?;
            seconds += started.elapsed().as_secs_f64();
        }
        out.flush()?;
        drop(out);
        Ok(Made {
            file,
            blocks,
            transactions,
            seconds,
        })
    }

    /// Imports blocks into a copy, and prints what that costs.
    fn import(&self, states: StateRetention, made: &Made) -> Result<(), Failure> {
        let copy = self.copy()?;
        if states != StateRetention::Archive {
            prune(self.options, copy.path(), self.maker)?;
        }
        import_blocks(self.options, copy.path(), self.maker, states, made)
    }
}

/// Imports the blocks of a file, as `vnode import` does, and prints what that costs.
fn import_blocks(
    options: &Options,
    path: &Path,
    maker: &BlockMaker,
    states: StateRetention,
    made: &Made,
) -> Result<(), Failure> {
    let store = open(options, path)?;
    let tables = gauge::tables(&store)?;
    gauge::forget_files(path)?;
    let importer = importer(&store, maker)
        .keeping(states)
        .with_batch_bytes(options.batch << 20);
    let files = gauge::file_bytes(path)?;
    let input = Box::new(File::open(made.file.path())?);
    gauge::reset_peak()?;
    let before = disk_bytes()?;
    let started = Instant::now();
    import_stream(&importer, input, &AtomicBool::new(false), |_| ())?;
    let seconds = started.elapsed().as_secs_f64();
    let peak = gauge::peak_memory()?;
    let tables_after = gauge::tables(&store)?;
    drop(importer);
    drop(store);
    let after = disk_bytes()?;
    let written = after.written_since(&before) as f64;
    let grown: i64 = tables
        .iter()
        .zip(&tables_after)
        .map(|((_, _, before), (_, _, after))| *after as i64 - *before as i64)
        .sum();
    let blocks = made.blocks as f64;
    let old_blocks = gauge::file_bytes(path)?[2] - files[2];
    let kept = grown as f64 + old_blocks as f64;
    println!(
        "  {states:?}: {:.0} blocks/s, {:.0} transactions/s; a block: {:.0} bytes kept, {:.0} written ({:.1} times), {:.0} read; {:.2} GiB of memory",
        blocks / seconds,
        made.transactions as f64 / seconds,
        kept / blocks,
        written / blocks,
        written / kept,
        after.read_since(&before) as f64 / blocks,
        peak as f64 / f64::from(1 << 30),
    );
    for ((name, rows, bytes), (_, rows_after, bytes_after)) in tables.iter().zip(&tables_after) {
        let rows = *rows_after as i64 - *rows as i64;
        let bytes = *bytes_after as i64 - *bytes as i64;
        if bytes.unsigned_abs() >= made.blocks {
            println!(
                "    {name:<24} {:>8.2} rows a block, {:>8.0} bytes a block",
                rows as f64 / blocks,
                bytes as f64 / blocks,
            );
        }
    }
    Ok(())
}

/// Removes all past states but the last, and prints what that saves.
fn prune(options: &Options, path: &Path, maker: &BlockMaker) -> Result<(), Failure> {
    let store = open(options, path)?;
    let bytes = |store: &Store| -> Result<u64, Failure> {
        Ok(gauge::tables(store)?.iter().map(|(_, _, bytes)| bytes).sum())
    };
    let before = bytes(&store)?;
    let importer = importer(&store, maker).keeping(StateRetention::Recent { blocks: 0 });
    let started = Instant::now();
    importer.prune(&AtomicBool::new(false), |_| ())?;
    let seconds = started.elapsed().as_secs_f64();
    println!(
        "  past states removed in {seconds:.1} s: {before} bytes in tables before, {} after",
        bytes(&store)?
    );
    Ok(())
}
