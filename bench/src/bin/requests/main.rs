//! Measures the requests per second of a node, of anvil, and of a handler that does nothing.
//!
//! All three are processes of their own on this machine and take turns under the same load: `vnode`
//! and anvil with the same transactions in the same blocks, and a bare warp handler that returns
//! the bytes that `vnode` answered. Further nodes with tokens, metrics or spans show what these
//! cost. `bench/README.md` explains the figures.

mod bare;
mod content;
mod load;
mod peers;
mod report;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use bench::Failure;
use bench::attacks::{Attack, run_all};
use clap::Parser;

use content::Content;
use load::{Load, Sample};
use peers::{RunningServer, Variant};
use report::{Row, print};

/// Measures JSON-RPC over HTTP.
#[derive(Debug, Parser)]
struct Options {
    /// The binary of anvil (npm @foundry-rs/anvil) [default: anvil is not measured]
    #[arg(long, value_name = "FILE")]
    anvil: Option<PathBuf>,
    /// Numbers of connections, each with one request at a time
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values_t = [1, 16, 64])]
    connections: Vec<usize>,
    /// Requests in a batch; batches are measured at the largest number of connections
    #[arg(long, value_name = "N", default_value_t = 20)]
    batch: usize,
    /// Duration of a turn, in seconds
    #[arg(long, value_name = "S", default_value_t = 1.0)]
    seconds: f64,
    /// Number of turns of each server; the median counts
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: usize,
    /// Number of blocks of the chain
    #[arg(long, value_name = "N", default_value_t = 20)]
    blocks: usize,
    /// Number of transactions in each block
    #[arg(long, value_name = "N", default_value_t = 100)]
    transactions: usize,
    /// Calls to measure, by the beginning of their name [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    calls: Vec<String>,
    /// Also measure a node with this many tokens, whose clients send the last one
    #[arg(long, value_name = "N", default_value_t = 0)]
    tokens: usize,
    /// Also measure a node with --metrics that is read once a second
    #[arg(long)]
    metrics: bool,
    /// Also measure a node with --otlp whose collector is away
    #[arg(long)]
    otlp: bool,
    /// Instead of measuring, run these attacks through JSON-RPC, WebSockets and Stratum on nodes
    /// that are started for them, separated by commas; `all` of them
    #[arg(long = "attack", value_name = "LIST", value_delimiter = ',')]
    attacks: Vec<String>,
    /// Time for which each attack runs [default: 3 to 8 seconds]
    #[arg(long, value_name = "S", requires = "attacks")]
    attack_seconds: Option<u64>,
    /// Run the handler that returns the bytes of standard input
    #[arg(long, hide = true)]
    bare: bool,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let result = if options.bare {
        bare::serve()
    } else if !options.attacks.is_empty() {
        let attacks = Attack::named(&options.attacks, |attack| !attack.is_of_peers());
        attacks.and_then(|attacks| run_all(&attacks, options.attack_seconds.map(Duration::from_secs)))
    } else {
        measure(&options)
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("requests: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(options: &Options) -> Result<(), Failure> {
    let content = Content::new(options.blocks, options.transactions);
    let node = peers::start_vnode(&content)?;
    let anvil = match &options.anvil {
        Some(path) => Some(peers::start_anvil(path, &content)?),
        None => None,
    };
    let variants = peers::start_variants(&content, options.tokens, options.metrics, options.otlp)?;
    let turn = Duration::from_secs_f64(options.seconds);
    let most = options.connections.iter().copied().max().unwrap_or(1);
    let mut rows = Vec::new();
    for call in content.calls() {
        let wanted = |name: &String| call.name.starts_with(name.as_str());
        if !options.calls.is_empty() && !options.calls.iter().any(wanted) {
            continue;
        }
        let single = Load::single(&call.requests);
        peers::compare(&node, anvil.as_ref(), call)?;
        let cases = options
            .connections
            .iter()
            .map(|connections| (*connections, 1, single.clone()))
            .chain(
                (options.batch > 1)
                    .then(|| (most, options.batch, Load::batch(&call.requests, options.batch))),
            );
        for (connections, batch, load) in cases {
            let bare = peers::start_bare(&load.first_answer(node.address())?)?;
            let load_with_token = load.with_token(peers::TOKEN);
            let first: Vec<&RunningServer> = [Some(&node), anvil.as_ref(), Some(&bare)]
                .into_iter()
                .flatten()
                .collect();
            let servers: Vec<(&RunningServer, &Load)> = first
                .iter()
                .map(|server| (*server, &load))
                .chain(variants.iter().map(|variant| {
                    let load = if variant.has_token {
                        &load_with_token
                    } else {
                        &load
                    };
                    (&variant.server, load)
                }))
                .collect();
            let mut samples: Vec<Vec<Sample>> = vec![Vec::new(); servers.len()];
            // If anvil fails under this load it has no figure. A failure of vnode ends the
            // benchmark.
            let mut failed: Option<String> = None;
            let is_peer = |at: usize| anvil.is_some() && at == 1;
            let mut run_turn = |at: usize, time: Duration| -> Result<Option<Sample>, Failure> {
                if is_peer(at) && failed.is_some() {
                    return Ok(None);
                }
                let (server, load) = servers[at];
                match load.run(server.address(), connections, time) {
                    Ok(sample) => Ok(Some(sample)),
                    Err(error) if is_peer(at) => {
                        eprintln!(
                            "anvil, {}, {connections} connections, batches of {batch}: {error}",
                            call.name
                        );
                        peers::wait_until_idle(server)?;
                        failed = Some(error.to_string());
                        Ok(None)
                    }
                    Err(error) => Err(error),
                }
            };
            // A turn that does not count, for warming up.
            for at in 0..servers.len() {
                run_turn(at, turn / 4)?;
            }
            for round in 0..options.rounds {
                for step in 0..servers.len() {
                    // The order rotates, so that no server always runs after the same one.
                    let at = (round + step) % servers.len();
                    samples[at].extend(run_turn(at, turn)?);
                }
            }
            let has_peer = anvil.is_some() && failed.is_none();
            let median = |at: usize| Sample::median(&samples[at], batch);
            let row = Row {
                call: call.name.to_owned(),
                connections,
                batch,
                node: median(0),
                anvil: has_peer.then(|| median(1)),
                bare: median(first.len() - 1),
                variants: (first.len()..servers.len())
                    .map(|at| Sample::median_ratio(&samples[at], &samples[0]))
                    .collect(),
            };
            eprintln!("{row}");
            rows.push(row);
        }
    }
    let names: Vec<&str> = variants.iter().map(Variant::name).collect();
    print(&rows, &names, &node, anvil.as_ref());
    Ok(())
}
