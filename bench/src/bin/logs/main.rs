//! Measures the log index: queries against matches and against chain length, its size, and
//! what it costs to write. The same queries by blooms are the peer, in the same run.
//!
//! The chain is made up, but written and read by the code that the node runs.

mod chain_maker;
mod measure;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Parser;
use store::{Store, StoreOptions, TableId};

use chain_maker::{ChainMaker, Planted};
use measure::{Question, measure};

/// Blocks of the first stage; each next one has ten times as many.
const FIRST_STAGE: u64 = 10_000;
/// Matches that are asked for.
const MATCHES: [u64; 4] = [10, 100, 1_000, 10_000];
/// Blocks on which writing with and without the index is compared.
const COMPARED_BLOCKS: u64 = 50_000;
/// Blocks in a commit there: as many as a bulk import checks ahead at once.
const COMPARED_COMMIT: u64 = 256;

/// Times queries for logs on a made-up chain.
#[derive(Debug, Parser)]
struct Options {
    /// Length of the chain
    #[arg(long, default_value_t = 1_000_000)]
    blocks: u64,
    /// Folder for the store, kept afterwards [default: a temporary one]
    #[arg(long)]
    directory: Option<PathBuf>,
    /// Memory for cached pages of the database, in MiB
    #[arg(long, default_value_t = store::CACHE_BYTES_DEFAULT >> 20)]
    cache: usize,
    /// Blocks in a commit while the chain is made
    #[arg(long, default_value_t = 2_048)]
    commit_blocks: u64,
    /// Leave the peer out
    #[arg(long)]
    no_blooms: bool,
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = Options::parse();
    let temporary = tempfile::tempdir()?;
    let directory = options.directory.as_deref().unwrap_or(temporary.path());
    let stages = stages(options.blocks);
    let planted: Vec<_> = stages
        .iter()
        .flat_map(|stage| MATCHES.map(|matches| Planted::new(*stage, matches)))
        .collect();
    compare_writing(&options, temporary.path(), &planted)?;

    let path = directory.join("chain");
    let mut maker = ChainMaker::new(open(&options, &path)?, planted.clone(), options.commit_blocks)?;
    let mut written = Duration::ZERO;
    println!();
    println!(
        "{:>9}  {:<34} {:>8} {:>8} {:>11} {:>11} {:>11} {:>8}",
        "blocks", "query", "matches", "read", "first", "least", "blooms", "ratio"
    );
    for stage in stages {
        let started = Instant::now();
        maker.extend(stage, true)?;
        written += started.elapsed();
        // A new opening begins with an empty cache of pages; what the system caches stays.
        drop(maker.close());
        for question in Question::all(&planted, stage) {
            let store = open(&options, &path)?;
            let figures = measure(&store, &question, !options.no_blooms)?;
            println!("{:>9}  {figures}", stage);
        }
        maker.reopen(open(&options, &path)?);
    }
    println!();
    let (blocks, logs) = (maker.head(), maker.logs());
    println!(
        "wrote {blocks} blocks with {logs} logs in {:.1} s, {} blocks a commit",
        written.as_secs_f64(),
        options.commit_blocks
    );
    size(&maker.close(), logs)
}

/// Chain lengths at which queries are timed.
fn stages(blocks: u64) -> Vec<u64> {
    let tenfold = std::iter::successors(Some(FIRST_STAGE), |stage| stage.checked_mul(10));
    let mut stages: Vec<_> = tenfold.take_while(|stage| *stage < blocks).collect();
    stages.push(blocks);
    stages
}

fn open(options: &Options, path: &Path) -> Result<Store, store::StoreError> {
    let cache_bytes = options.cache << 20;
    Store::open(path, &StoreOptions { cache_bytes })
}

/// The same blocks with and without the index, in turns.
fn compare_writing(options: &Options, directory: &Path, planted: &[Planted]) -> Result<(), Box<dyn Error>> {
    const ROUNDS: usize = 3;
    let blocks = options.blocks.min(COMPARED_BLOCKS);
    let (mut with, mut without, mut logs) = (Vec::new(), Vec::new(), 0);
    for round in 0..ROUNDS {
        for indexed in [false, true] {
            let path = directory.join(format!("writing-{round}-{indexed}"));
            let mut maker = ChainMaker::new(open(options, &path)?, planted.to_vec(), COMPARED_COMMIT)?;
            let clock = Clock::start();
            maker.extend(blocks, indexed)?;
            let took = clock.seconds();
            if indexed { &mut with } else { &mut without }.push(took);
            logs = maker.logs();
            drop(maker);
            std::fs::remove_dir_all(&path)?;
        }
    }
    let (with, without) = (median(&mut with), median(&mut without));
    println!(
        "writing {blocks} blocks with {logs} logs, nothing executed, {}: {without:.2} s without the index, {with:.2} s with it, ratio {:.2}; {:.1} us a block, {:.1} us a log",
        Clock::start().what(),
        with / without,
        (with - without) * 1e6 / blocks as f64,
        (with - without) * 1e6 / logs.max(1) as f64,
    );
    Ok(())
}

/// Measures the time that this thread gets from the processor where the system tells it, so
/// that a busy machine does not count; else the time that passes.
struct Clock {
    wall: Instant,
    processor: Option<Duration>,
}

impl Clock {
    fn start() -> Self {
        Self {
            wall: Instant::now(),
            processor: processor_time(),
        }
    }

    fn seconds(&self) -> f64 {
        let processor = self.processor.zip(processor_time()).map(|(from, to)| to - from);
        processor.unwrap_or_else(|| self.wall.elapsed()).as_secs_f64()
    }

    fn what(&self) -> &'static str {
        match self.processor {
            Some(_) => "processor time",
            None => "wall time",
        }
    }
}

/// Time that this thread has run, on Linux.
fn processor_time() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanos = text.split_whitespace().next()?.parse().ok()?;
    Some(Duration::from_nanos(nanos))
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// What the index takes, by itself and beside everything else.
fn size(store: &Store, logs: u64) -> Result<(), Box<dyn Error>> {
    let stats = store.snapshot()?.stats()?;
    let index = &stats[TableId::LogKeyToBlocks as usize];
    let receipts = &stats[TableId::BlockToReceipts as usize];
    let all: u64 = stats.iter().map(|table| table.page_bytes).sum();
    let per_log = |bytes: u64| bytes as f64 / logs.max(1) as f64;
    println!(
        "index: {} rows; {:.1} bytes a log stored, {:.1} on pages; receipts {:.1} on pages; index {:.1} % of all pages",
        index.rows,
        per_log(index.stored_bytes),
        per_log(index.page_bytes),
        per_log(receipts.page_bytes),
        100.0 * index.page_bytes as f64 / all as f64
    );
    Ok(())
}
