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
use chain::genesis::ensure_genesis;
use chain::import::limits::BATCH_BYTES_DEFAULT;
use chain::import::stream_import::import_stream;
use chain::import::{Imported, Importer, StateRetention};
use chain::rules::seal::SealCheck;
use clap::Parser;
use store::{Store, StoreOptions};

use made_chain::{ACCOUNTS_A_BLOCK, BlockMaker, CONTRACTS_A_TRANSACTION};

/// Past states that the measurement with recent ones keeps. Fewer than the node's default, so that
/// the measured blocks are enough to come behind the horizon.
const RECENT_BLOCKS: u64 = 1000;

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
    /// Folder for the stores, which are removed [default: a temporary folder]
    #[arg(long)]
    directory: Option<PathBuf>,
}

fn main() -> Result<(), Failure> {
    let options = Options::parse();
    let parent = options.directory.clone().unwrap_or_else(std::env::temp_dir);
    let folder = tempfile::tempdir_in(&parent)?;
    let mut maker = BlockMaker::begin()?;
    ensure_genesis(&open(&options, folder.path())?, maker.spec())?;
    let mut accounts = 0;
    for stop in &options.accounts {
        while accounts < *stop {
            let until = (accounts + 1_000_000).min(*stop);
            fill(&options, folder.path(), &mut maker, accounts, until)?;
            accounts = until;
        }
        measure(&options, &parent, folder.path(), &maker, accounts)?;
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
    let before = gauge::disk_bytes()?;
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
        (gauge::disk_bytes()?.written - before.written) as f64 / made as f64,
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

/// Makes ordinary blocks on a copy of the store, and imports them into two other copies.
fn measure(
    options: &Options,
    parent: &Path,
    path: &Path,
    maker: &BlockMaker,
    accounts: u64,
) -> Result<(), Failure> {
    let blocks = tempfile::NamedTempFile::new_in(parent)?;
    let (transactions, seconds) = {
        let scratch = tempfile::tempdir_in(parent)?;
        gauge::copy_files(path, scratch.path())?;
        make_blocks(options, scratch.path(), maker, blocks.path())?
    };
    println!(
        "{accounts} accounts: {} blocks with {transactions} transactions and {:.0} new accounts; one by one, a commit each: {:.0} blocks/s",
        options.blocks,
        options.blocks as f64 * ACCOUNTS_A_BLOCK,
        options.blocks as f64 / seconds,
    );
    let all_states = tempfile::tempdir_in(parent)?;
    gauge::copy_files(path, all_states.path())?;
    let archive = StateRetention::Archive;
    import_blocks(
        options,
        all_states.path(),
        maker,
        archive,
        blocks.path(),
        transactions,
    )?;
    let recent_states = tempfile::tempdir_in(parent)?;
    gauge::copy_files(path, recent_states.path())?;
    prune(options, recent_states.path(), maker)?;
    let recent = StateRetention::Recent {
        blocks: RECENT_BLOCKS,
    };
    import_blocks(
        options,
        recent_states.path(),
        maker,
        recent,
        blocks.path(),
        transactions,
    )
}

/// Makes and imports ordinary blocks one by one, and writes them into `file`. Returns how many
/// transactions they have, and the seconds of the imports.
fn make_blocks(
    options: &Options,
    path: &Path,
    maker: &BlockMaker,
    file: &Path,
) -> Result<(u64, f64), Failure> {
    let mut maker = maker.clone();
    let store = open(options, path)?;
    let importer = importer(&store, &maker);
    let mut out = BufWriter::new(File::create(file)?);
    let (mut transactions, mut seconds) = (0, 0.0);
    for _ in 0..options.blocks {
        let block = maker.ordinary_block(&store)?;
        out.write_all(&block.encode())?;
        transactions += block.transactions.len() as u64;
        let started = Instant::now();
        import_head(&importer, &block)?;
        seconds += started.elapsed().as_secs_f64();
    }
    out.flush()?;
    Ok((transactions, seconds))
}

/// Imports the blocks of a file, as `vnode import` does, and prints what that costs.
fn import_blocks(
    options: &Options,
    path: &Path,
    maker: &BlockMaker,
    states: StateRetention,
    file: &Path,
    transactions: u64,
) -> Result<(), Failure> {
    let store = open(options, path)?;
    let tables = gauge::tables(&store)?;
    gauge::forget_files(path)?;
    let importer = importer(&store, maker)
        .keeping(states)
        .with_batch_bytes(options.batch << 20);
    let files = gauge::file_bytes(path)?;
    let input = Box::new(File::open(file)?);
    gauge::reset_peak()?;
    let before = gauge::disk_bytes()?;
    let started = Instant::now();
    import_stream(&importer, input, &AtomicBool::new(false), |_| ())?;
    let seconds = started.elapsed().as_secs_f64();
    let peak = gauge::peak_memory()?;
    let tables_after = gauge::tables(&store)?;
    drop(importer);
    drop(store);
    let after = gauge::disk_bytes()?;
    let grown: i64 = tables
        .iter()
        .zip(&tables_after)
        .map(|((_, _, before), (_, _, after))| *after as i64 - *before as i64)
        .sum();
    let blocks = options.blocks as f64;
    let old_blocks = gauge::file_bytes(path)?[2] - files[2];
    let kept = grown as f64 + old_blocks as f64;
    println!(
        "  {states:?}: {:.0} blocks/s, {:.0} transactions/s; a block: {:.0} bytes kept, {:.0} written ({:.1} times), {:.0} read; {:.2} GiB of memory",
        blocks / seconds,
        transactions as f64 / seconds,
        kept / blocks,
        (after.written - before.written) as f64 / blocks,
        (after.written - before.written) as f64 / kept,
        (after.read - before.read) as f64 / blocks,
        peak as f64 / f64::from(1 << 30),
    );
    for ((name, rows, bytes), (_, rows_after, bytes_after)) in tables.iter().zip(&tables_after) {
        let rows = *rows_after as i64 - *rows as i64;
        let bytes = *bytes_after as i64 - *bytes as i64;
        if bytes.unsigned_abs() >= options.blocks {
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
