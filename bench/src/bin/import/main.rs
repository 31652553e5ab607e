//! Compares the cost of an import with that of revm alone on the same transactions.
//!
//! There are four workloads. The importer and revm take turns in one process, and the median of
//! the rounds is printed. `bench/README.md` explains the figures.

mod code;
mod ours;
mod peer;
mod synced;
mod workload;

use std::time::Duration;

use bench::Failure;
use clap::Parser;
use ethash::LightCaches;

use bench::clock::Took;
use peer::Peer;
use synced::Server;
use workload::{Workload, WorkloadKind};

/// Import benchmark.
#[derive(Debug, Parser)]
struct Options {
    /// Number of blocks of each workload.
    #[arg(long, default_value_t = 100)]
    blocks: u64,
    /// Number of accounts in the state, without the senders.
    #[arg(long, default_value_t = 100_000)]
    accounts: u64,
    /// Number of rounds; the median is printed.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Run only the workloads whose name begins with this text.
    #[arg(long, default_value = "")]
    only: String,
}

fn main() -> Result<(), Failure> {
    let options = Options::parse();
    let caches = LightCaches::new();
    let kinds = WorkloadKind::ALL.into_iter();
    for kind in kinds.filter(|kind| kind.name().starts_with(&options.only)) {
        let workload = Workload::make(kind, options.blocks, options.accounts, &caches)?;
        measure(&workload, &caches, options.rounds)?;
    }
    Ok(())
}

/// One way of running a workload, and its times.
struct Row {
    name: &'static str,
    times: Vec<Took>,
}

impl Row {
    fn median(&self, of: fn(&Took) -> Duration) -> f64 {
        let mut times: Vec<_> = self.times.iter().map(of).collect();
        times.sort_unstable();
        times[times.len() / 2].as_secs_f64()
    }
}

fn measure(workload: &Workload, caches: &LightCaches, rounds: usize) -> Result<(), Failure> {
    let senders = ours::senders(workload)?;
    let peer = Peer::new(workload, &senders)?;
    let mut rows = [
        "revm alone, senders known",
        "import, checked ahead",
        "revm alone, senders recovered",
        "import, without seals",
        "import",
        "one block a commit",
        "from a peer, over loopback",
    ]
    .map(|name| Row {
        name,
        times: Vec::new(),
    });
    let server = Server::start(workload)?;
    let mut costs = ours::ImportCosts::default();
    for _ in 0..rounds.max(1) {
        let (prepared, parts) = ours::prepared(workload)?;
        costs = parts;
        let times = [
            peer.run(|_| ())?,
            prepared,
            peer.run(|index| drop(ours::recover(workload, index)))?,
            ours::stream(workload, None)?,
            ours::stream(workload, Some(caches))?,
            ours::single(workload)?,
            server.sync(workload, caches)?,
        ];
        for (row, time) in rows.iter_mut().zip(times) {
            row.times.push(time);
        }
    }
    print(workload, &rows);
    costs.print(workload, caches)
}

fn print(workload: &Workload, rows: &[Row]) {
    println!(
        "\n{}: {} blocks, {} transactions, {} Mgas",
        workload.kind.name(),
        workload.blocks.len(),
        workload.transactions,
        workload.gas / 1_000_000
    );
    println!(
        "  {:<30} {:>9} {:>9} {:>9} {:>9}  {:>6} {:>13} {:>6} {:>10} {:>6}",
        "", "ms", "Mgas/s", "tx/s", "blocks/s", "ratio", "processor ms", "ratio", "thread ms", "ratio"
    );
    for (index, row) in rows.iter().enumerate() {
        // Each import is compared with revm with the same input: senders known, or to be recovered.
        let floor = &rows[if index < 2 { 0 } else { 2 }];
        let wall = row.median(|took| took.wall);
        let processor = row.median(|took| took.processor);
        let thread = row.median(|took| took.thread);
        println!(
            "  {:<30} {:>9.1} {:>9.1} {:>9.0} {:>9.1}  {:>6.3} {:>13.1} {:>6.3} {:>10.1} {:>6.3}",
            row.name,
            wall * 1e3,
            workload.gas as f64 / wall / 1e6,
            workload.transactions as f64 / wall,
            workload.blocks.len() as f64 / wall,
            floor.median(|took| took.wall) / wall,
            processor * 1e3,
            floor.median(|took| took.processor) / processor,
            thread * 1e3,
            floor.median(|took| took.thread) / thread
        );
    }
    if let [.., import, _, synced] = rows {
        let ratio = import.median(|took| took.wall) / synced.median(|took| took.wall);
        println!("  from a peer, compared with the import: {ratio:.3} of its speed");
    }
}
