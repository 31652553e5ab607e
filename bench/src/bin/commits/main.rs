//! Measures what a commit costs in stores of several sizes: bytes written, milliseconds, and the
//! time to open the store after `kill -9`.
//!
//! A store gets a chain and is filled with unused code rows until its file has the wanted size.
//! Then the importer of the node takes empty blocks and blocks with transfers, one block a commit.
//! `bench/README.md` explains the figures.

mod transfers;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use bench::Failure;
use bench::disk_bytes::disk_bytes;
use chain::genesis::ensure_genesis;
use chain::import::OldBlocks;
use clap::Parser;
use store::{BLOCKS_FILE_NAME, BlockReads, FILE_NAME, Store, StoreOptions, TableId};

use transfers::TransferChain;

/// Bytes of a filler row.
const FILLER_BYTES: usize = 60 << 10;
/// Filler rows in a commit.
const FILLER_ROWS: u64 = 1024;

/// Benchmark of commits.
#[derive(Debug, Parser)]
struct Options {
    /// Sizes of the file, in GiB
    #[arg(long, value_delimiter = ',', default_value = "1,8")]
    gib: Vec<u64>,
    /// Number of blocks of each kind
    #[arg(long, default_value_t = 640)]
    blocks: u64,
    /// Transfers in a block that is not empty
    #[arg(long, default_value_t = 100)]
    transfers: u64,
    /// Accounts in the state
    #[arg(long, default_value_t = 100_000)]
    accounts: u64,
    /// Number of times that the process is killed
    #[arg(long, default_value_t = 5)]
    kills: u64,
    /// Folder for the stores, which are removed [default: a temporary folder]
    #[arg(long)]
    directory: Option<PathBuf>,
    /// Import blocks into the store in this folder until this process is killed
    #[arg(long, hide = true)]
    endless: Option<PathBuf>,
}

fn main() -> Result<(), Failure> {
    let options = Options::parse();
    if let Some(path) = &options.endless {
        return import_until_killed(&options, path);
    }
    let parent = options.directory.clone().unwrap_or_else(std::env::temp_dir);
    println!(
        "{:>5} {:<14} {:>12} {:>12} {:>9} {:>9} {:>9} {:>9}",
        "GiB", "blocks", "KB a block", "kept KB", "ms median", "ms 99 %", "ms mean", "ms most"
    );
    for gib in &options.gib {
        let directory = tempfile::tempdir_in(&parent)?;
        measure(&options, directory.path(), *gib)?;
    }
    Ok(())
}

fn open(path: &Path) -> Result<Store, Failure> {
    Ok(Store::open(path, &StoreOptions::default())?)
}

/// Measures a store whose file has `gib` GiB.
fn measure(options: &Options, path: &Path, gib: u64) -> Result<(), Failure> {
    let store = open(path)?;
    let mut chain = TransferChain::begin(options.accounts)?;
    ensure_genesis(&store, chain.spec())?;
    fill(&store, &path.join(FILE_NAME), gib << 30)?;
    for (name, transfers) in [("empty", 0), ("with transfers", options.transfers)] {
        // The first blocks read what the others find in memory. When they are old, each move of old
        // blocks moves as many as were imported since the last one.
        let OldBlocks { depth, step } = OldBlocks::default();
        let first = (options.blocks / 10).max(depth + 2 * step);
        chain.import_blocks(&store, first.next_multiple_of(step), transfers)?;
        let before = (disk_bytes()?, stored_bytes(&store, path)?);
        let mut times = chain.import_blocks(&store, options.blocks, transfers)?;
        let per_block = |bytes: u64| bytes as f64 / options.blocks as f64 / 1e3;
        let written = per_block(disk_bytes()?.written_since(&before.0));
        let kept = kept_bytes(&before.1, &stored_bytes(&store, path)?);
        let by_table: Vec<_> = kept
            .iter()
            .map(|(name, bytes)| (*name, *bytes as f64 / options.blocks as f64 / 1e3))
            .filter(|(_, kilobytes)| kilobytes.abs() >= 0.05)
            .map(|(name, kilobytes)| format!("{name} {kilobytes:.1}"))
            .collect();
        let kept = kept.iter().map(|(_, bytes)| bytes).sum::<i64>() as f64 / options.blocks as f64 / 1e3;
        let mean = times.iter().sum::<f64>() / times.len() as f64;
        times.sort_by(f64::total_cmp);
        let at = |part: usize| times[(times.len() - 1) * part / 100];
        println!(
            "{gib:>5} {name:<14} {written:>12.1} {kept:>12.1} {:>9.2} {:>9.2} {mean:>9.2} {:>9.2}",
            at(50),
            at(99),
            at(100)
        );
        println!("{:>5} kept KB: {}", "", by_table.join(", "));
    }
    drop(store);
    let started = Instant::now();
    drop(open(path)?);
    println!(
        "{gib:>5} opened and closed in {:.0} ms",
        started.elapsed().as_secs_f64() * 1e3
    );
    for round in 0..options.kills {
        kill_and_open(options, path, gib, 40 + 75 * round)?;
    }
    Ok(())
}

/// Writes rows that nobody reads until the file has `bytes` bytes.
fn fill(store: &Store, file: &Path, bytes: u64) -> Result<(), Failure> {
    let mut value = vec![0x5b; FILLER_BYTES];
    let mut row = 0u64;
    while std::fs::metadata(file)?.len() < bytes || row * (FILLER_BYTES as u64) < bytes * 9 / 10 {
        let batch = store.batch()?;
        batch.write(|tables| {
            for _ in 0..FILLER_ROWS {
                row += 1;
                value[..8].copy_from_slice(&row.to_be_bytes());
                let key = primitives::keccak256(&value[..8]);
                tables.put(TableId::HashToCode, key.as_slice(), &value)?;
            }
            Ok::<_, store::StoreError>(())
        })?;
        batch.commit()?;
    }
    Ok(())
}

/// Starts a process that imports blocks, kills it after `blocks` blocks, and prints how long the
/// store takes to serve its head.
fn kill_and_open(options: &Options, path: &Path, gib: u64, blocks: u64) -> Result<(), Failure> {
    let mut child = Command::new(std::env::current_exe()?)
        .arg("--endless")
        .arg(path)
        .args(["--transfers", &options.transfers.to_string()])
        .args(["--accounts", &options.accounts.to_string()])
        .stdout(Stdio::piped())
        .spawn()?;
    let lines = BufReader::new(child.stdout.take().ok_or("no output")?).lines();
    let mut said = 0;
    for line in lines {
        line?;
        said += 1;
        if said == blocks {
            child.kill()?;
        }
    }
    child.wait()?;
    let started = Instant::now();
    let store = open(path)?;
    let head = store.snapshot()?.head()?.ok_or("no head")?;
    let took = started.elapsed().as_secs_f64() * 1e3;
    println!(
        "{gib:>5} killed after {said} blocks: head {} served after {took:.0} ms",
        head.0
    );
    // Ended without closing, so that the next round begins after a crash, too.
    drop(store);
    Ok(())
}

fn import_until_killed(options: &Options, path: &Path) -> Result<(), Failure> {
    let store = open(path)?;
    let mut chain = TransferChain::of_store(&store, options.accounts)?;
    loop {
        chain.import_blocks(&store, 1, options.transfers)?;
        println!("imported");
    }
}

/// Bytes of the keys and values of each table, without the filler, and of the blocks file.
fn stored_bytes(store: &Store, path: &Path) -> Result<Vec<(&'static str, u64)>, Failure> {
    let stats = store.snapshot()?.stats()?;
    let tables = stats
        .iter()
        .filter(|table| table.name != TableId::HashToCode.name());
    let mut bytes: Vec<_> = tables.map(|table| (table.name, table.stored_bytes)).collect();
    bytes.push((
        BLOCKS_FILE_NAME,
        std::fs::metadata(path.join(BLOCKS_FILE_NAME))?.len(),
    ));
    Ok(bytes)
}

/// Returns the bytes that were added to each part.
fn kept_bytes(before: &[(&'static str, u64)], after: &[(&'static str, u64)]) -> Vec<(&'static str, i64)> {
    let parts = before.iter().zip(after);
    parts
        .map(|((name, before), (_, after))| (*name, *after as i64 - *before as i64))
        .collect()
}
