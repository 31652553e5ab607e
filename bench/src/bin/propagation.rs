//! Measures the time that a new block takes to reach other nodes over slow links.
//!
//! The nodes are in this process, with real connections. Each dials a few others, chosen at random
//! from a fixed seed, over links that delay everything. Seals are not checked: what a check costs
//! is measured elsewhere. The clock runs from before a block is imported where it was made until it
//! is the head of each other node.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bench::network_node::{open_chain, start_network};
use bench::{Failure, chain_spec, next_block};
use chain::Chain;
use chain::rules::seal::SealCheck;
use clap::Parser;
use e2e::link::TestLink;
use network::testing::{Entropy, contact_of};
use network::{NetworkService, NodeContact};
use store::Store;
use tempfile::TempDir;

/// The time between two looks at the heads.
const LOOK_INTERVAL: Duration = Duration::from_millis(1);
/// A block that is not everywhere after this time is lost.
const TIME_MAX: Duration = Duration::from_secs(30);
/// The gas limit of the blocks, which have no transactions.
const GAS_LIMIT: u64 = 9_000_000;

/// Propagation benchmark.
#[derive(Debug, Parser)]
struct Options {
    /// Number of nodes.
    #[arg(long, default_value_t = 20)]
    nodes: usize,
    /// Nodes that each node dials.
    #[arg(long, default_value_t = 4)]
    dials: usize,
    /// Time that a message takes on a link, one way, in milliseconds.
    #[arg(long, default_value_t = 50)]
    delay: u64,
    /// Number of blocks.
    #[arg(long, default_value_t = 20)]
    blocks: usize,
}

struct BenchNode {
    chain: Chain,
    service: NetworkService,
    _folder: TempDir,
}

fn main() -> Result<(), Failure> {
    let options = Options::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let spec = Arc::new(chain_spec(GAS_LIMIT)?);
    let mut entropy = Entropy::from_seed([20; 32]);
    let (mut nodes, mut stores, mut links) = (Vec::new(), Vec::new(), Vec::new());
    for index in 0..options.nodes {
        let store = Store::in_memory()?;
        chain::genesis::ensure_genesis(&store, &spec)?;
        let chain = open_chain(store.clone(), &spec, SealCheck::Off)?;
        let mut earlier: Vec<usize> = (0..index).collect();
        entropy.shuffle(&mut earlier);
        let mut peers = Vec::new();
        for other in earlier.into_iter().take(options.dials) {
            let other: &BenchNode = &nodes[other];
            let contact = contact_of(other.service.handle());
            let delay = Duration::from_millis(options.delay);
            let link = runtime.block_on(TestLink::open(contact.tcp_address(), delay))?;
            peers.push(NodeContact {
                tcp: link.address().port(),
                ..contact
            });
            links.push(link);
        }
        let folder = tempfile::tempdir()?;
        let service = runtime.block_on(start_network(&chain, folder.path(), peers))?;
        nodes.push(BenchNode {
            chain,
            service,
            _folder: folder,
        });
        stores.push(store);
    }
    wait(|| {
        let peers: usize = nodes.iter().map(|node| node.service.handle().peer_count()).sum();
        peers == links.len() * 2
    })?;
    println!(
        "{} nodes, {} links of {} ms",
        nodes.len(),
        links.len(),
        options.delay
    );
    let mut last = Vec::new();
    let mut half = Vec::new();
    for round in 0..options.blocks {
        let maker = round % nodes.len();
        let block = next_block(&spec, &stores[maker], Vec::new())?;
        let goal = block.hash();
        let begun = Instant::now();
        nodes[maker].chain.import(block)?;
        let mut times = Vec::new();
        let mut missing: Vec<usize> = (0..nodes.len()).filter(|index| *index != maker).collect();
        while !missing.is_empty() {
            if begun.elapsed() > TIME_MAX {
                return Err(format!("block {round} is missing at {} nodes", missing.len()).into());
            }
            let mut still = Vec::new();
            for index in missing {
                if nodes[index].chain.view()?.head_hash() == goal {
                    times.push(begun.elapsed());
                } else {
                    still.push(index);
                }
            }
            missing = still;
            std::thread::sleep(LOOK_INTERVAL);
        }
        half.push(times[times.len() / 2]);
        last.extend(times.last());
    }
    print("half of the nodes", half);
    print("the last node", last);
    for node in nodes {
        runtime.block_on(node.service.stop());
        node.chain.stop();
    }
    Ok(())
}

fn wait(mut is_done: impl FnMut() -> bool) -> Result<(), Failure> {
    let begun = Instant::now();
    while !is_done() {
        if begun.elapsed() > TIME_MAX {
            return Err(format!("the nodes are not connected after {TIME_MAX:?}").into());
        }
        std::thread::sleep(LOOK_INTERVAL);
    }
    Ok(())
}

fn print(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let (Some(first), Some(last)) = (times.first(), times.last()) else {
        return;
    };
    println!(
        "  {what:<20} median {:>6.0} ms, {:.0} to {:.0} ms",
        times[times.len() / 2].as_secs_f64() * 1e3,
        first.as_secs_f64() * 1e3,
        last.as_secs_f64() * 1e3
    );
}
