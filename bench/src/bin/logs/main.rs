//! Measures the log index: the time of queries by number of matches and by chain length, the size
//! of the index, and the cost of writing it. The same queries are also answered by blooms, for
//! comparison.
//!
//! The chain is synthetic, but it is written and read by the code of the node.

mod chain_maker;
mod measure;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Parser;
use store::{Store, StoreOptions, TableId};

use chain_maker::{ChainMaker, Planted};
use measure::{NamedQuery, measure};

/// Chain length of the first stage. Each next stage is ten times as long.
const FIRST_STAGE: u64 = 10_000;
/// Numbers of matches of the planted logs.
const MATCHES: [u64; 4] = [10, 100, 1_000, 10_000];
/// Number of blocks for which writing with and without the index is compared.
const COMPARED_BLOCKS: u64 = 50_000;
/// Blocks in a commit of that comparison: as many as a bulk import checks ahead at once.
const COMPARED_COMMIT: u64 = 256;

/// Measures queries for logs on a synthetic chain.
#[derive(Debug, Parser)]
struct Options {
    /// Length of the chain
    #[arg(long, default_value_t = 1_000_000)]
    blocks: u64,
    /// Folder for the store, which is kept [default: a temporary folder]
    #[arg(long)]
    directory: Option<PathBuf>,
    /// Memory for cached pages of the database, in MiB
    #[arg(long, default_value_t = store::CACHE_BYTES_DEFAULT >> 20)]
    cache: usize,
    /// Blocks in a commit while the chain is created
    #[arg(long, default_value_t = 2_048)]
    commit_blocks: u64,
    /// Do not answer the queries by blooms
    #[arg(long)]
    no_blooms: bool,
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = Options::parse();
    let temporary = tempfile::tempdir()?;
    let directory = options.directory.as_deref().unwrap_or_else(|| temporary.path());
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
        // A store that was just opened has an empty page cache; the cache of the system stays.
        drop(maker.close());
        for query in NamedQuery::all(&planted, stage) {
            let store = open(&options, &path)?;
            let figures = measure(&store, &query, !options.no_blooms)?;
            println!("{stage:>9}  {figures}");
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
    print_size(&maker.close(), logs)
}

/// The chain lengths at which queries are measured.
fn stages(blocks: u64) -> Vec<u64> {
    let tenfold = std::iter::successors(Some(FIRST_STAGE), |stage| stage.checked_mul(10));
    let mut stages: Vec<_> = tenfold.take_while(|stage| *stage < blocks).collect();
    stages.push(blocks);
    stages
}

fn open(options: &Options, path: &Path) -> Result<Store, store::StoreError> {
    let cache_bytes = options.cache << 20;
    let options = StoreOptions {
        cache_bytes,
        ..StoreOptions::default()
    };
    Store::open(path, &options)
}

/// Writes the same blocks with and without the index, in turns, and prints both times.
fn compare_writing(options: &Options, directory: &Path, planted: &[Planted]) -> Result<(), Box<dyn Error>> {
    const ROUNDS: usize = 3;
    let blocks = options.blocks.min(COMPARED_BLOCKS);
    let (mut with, mut without, mut logs) = (Vec::new(), Vec::new(), 0);
    for round in 0..ROUNDS {
        for indexed in [false, true] {
            let path = directory.join(format!("writing-{round}-{indexed}"));
            let mut maker = ChainMaker::new(open(options, &path)?, planted.to_vec(), COMPARED_COMMIT)?;
            let clock = ThreadClock::start();
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
        ThreadClock::start().what(),
        with / without,
        (with - without) * 1e6 / blocks as f64,
        (with - without) * 1e6 / logs.max(1) as f64,
    );
    Ok(())
}

/// Measures the processor time of this thread, so that other load on the machine does not count;
/// wall time if the system does not report processor time.
struct ThreadClock {
    wall: Instant,
    processor: Option<Duration>,
}

impl ThreadClock {
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

    const fn what(&self) -> &'static str {
        match self.processor {
            Some(_) => "processor time",
            None => "wall time",
        }
    }
}

/// Processor time of this thread so far; `None` if the system is not Linux.
fn processor_time() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanos = text.split_whitespace().next()?.parse().ok()?;
    Some(Duration::from_nanos(nanos))
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Prints the size of the index, and its share of the database.
fn print_size(store: &Store, logs: u64) -> Result<(), Box<dyn Error>> {
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
