//! Measures MicroChains with real processes: a development node, servers of application chains, and
//! contracts that are made by transactions.
//!
//! `rate` sends calls of a Dapp to a MicroChain of several SCSs: first few of them, for the time
//! from sending to receipt, then as many as it takes. `flood` sends few of them while others fill
//! the pool with calls that burn whole blocks. `chains` puts more and more MicroChains on
//! one SCS. `bench/README.md` explains the figures.

mod flood;
mod load;
mod stage;

use std::time::{Duration, Instant};

use bench::Failure;
use chain::application::BLOCK_GAS_FILL;
use clap::{Parser, Subcommand};
use e2e::microchain::{MicroChainOwner, PROXY};
use e2e::process::ProcessUsage;

use flood::Flood;
use load::{Load, Pace, Sample};
use stage::Stage;

/// Measures MicroChains.
#[derive(Debug, Parser)]
struct Options {
    #[command(subcommand)]
    what: Measured,
}

/// The measurement.
#[derive(Debug, Subcommand)]
enum Measured {
    /// Transactions a second of one MicroChain, and the time from sending to receipt
    Rate {
        /// Number of SCSs
        #[arg(long, value_name = "N", default_value_t = 3)]
        members: usize,
        /// Seconds between two blocks
        #[arg(long, value_name = "S", default_value_t = 1)]
        period: u64,
        /// Duration of each part, in seconds
        #[arg(long, value_name = "S", default_value_t = 20)]
        seconds: u64,
        /// Transactions a second of the first part
        #[arg(long, value_name = "N", default_value_t = 20)]
        slow: u64,
        /// Transactions that are on their way at a time in the second part
        #[arg(long, value_name = "N", default_value_t = 2000)]
        in_flight: usize,
    },
    /// The time from sending to receipt while accounts that own nothing send calls that burn blocks
    Flood {
        /// Number of SCSs
        #[arg(long, value_name = "N", default_value_t = 3)]
        members: usize,
        /// Seconds between two blocks
        #[arg(long, value_name = "S", default_value_t = 1)]
        period: u64,
        /// Duration of each part, in seconds
        #[arg(long, value_name = "S", default_value_t = 60)]
        seconds: u64,
        /// Honest transactions a second
        #[arg(long, value_name = "N", default_value_t = 5)]
        slow: u64,
        /// Accounts that own nothing
        #[arg(long, value_name = "N", default_value_t = 16)]
        attackers: u64,
        /// Calls of each of them
        #[arg(long, value_name = "N", default_value_t = 512)]
        calls: u64,
    },
    /// Memory, threads and processor time of one SCS with many MicroChains
    Chains {
        /// Numbers of MicroChains, rising
        #[arg(long, value_name = "LIST", value_delimiter = ',', default_values_t = [1, 10, 100])]
        counts: Vec<usize>,
        /// Seconds between two blocks
        #[arg(long, value_name = "S", default_value_t = 10)]
        period: u64,
        /// Duration of each measurement, in seconds
        #[arg(long, value_name = "S", default_value_t = 20)]
        seconds: u64,
    },
}

fn main() -> Result<(), Failure> {
    match Options::parse().what {
        Measured::Rate {
            members,
            period,
            seconds,
            slow,
            in_flight,
        } => {
            let stage = Stage::start(members, period, 1)?;
            measure_rate(&stage, Duration::from_secs(seconds), slow, in_flight)
        }
        Measured::Flood {
            members,
            period,
            seconds,
            slow,
            attackers,
            calls,
        } => {
            let stage = Stage::start(members, period, 1)?;
            let scene = Scene::make(&stage)?;
            let flood = Flood::sign(&stage, &scene.chain, attackers, calls)?;
            measure_flood(&scene, &flood, Duration::from_secs(seconds), slow)
        }
        Measured::Chains {
            counts,
            period,
            seconds,
        } => {
            let most = counts.iter().copied().max().unwrap_or_default();
            let stage = Stage::start(1, period, most)?;
            measure_chains(&stage, &counts, Duration::from_secs(seconds))
        }
    }
}

/// Returns the use of the processes since `before`, as text.
fn used(stage: &Stage, before: &[ProcessUsage], time: Duration) -> String {
    let names = std::iter::once("vnode").chain(std::iter::repeat("scs"));
    let parts = names.zip(stage.usage()).zip(before).map(|((name, now), before)| {
        let share = 100.0 * (now.processor - before.processor).as_secs_f64() / time.as_secs_f64();
        let mib = now.memory as f64 / (1 << 20) as f64;
        format!(
            "{name}: {share:.0} % of a processor, {mib:.0} MiB, {} threads",
            now.threads
        )
    });
    parts.collect::<Vec<_>>().join("; ")
}

fn print_sample(name: &str, sample: &Sample, note: &str) {
    let Sample {
        rate,
        per_block,
        median,
        slowest,
        ..
    } = sample;
    println!(
        "{name}: {rate:.0} transactions a second, {per_block:.0} a block; from sending to receipt {median:.2} s, \
         one of a hundred over {slowest:.2} s"
    );
    println!("  {note}");
}

/// A MicroChain with a Dapp, and accounts that call it.
struct Scene<'a> {
    stage: &'a Stage,
    chain: String,
    load: Load<'a>,
}

impl<'a> Scene<'a> {
    fn make(stage: &'a Stage) -> Result<Self, Failure> {
        let owner = MicroChainOwner::new(&stage.node, PROXY);
        let pools = owner.pools(&stage.service, &stage.servers(), 1);
        let chain = owner.chains(&pools, stage.scs.len(), 1).remove(0);
        let counter = owner.dapps(&chain, &stage.scs[0]);
        let load = Load::new(stage, &chain, &counter)?;
        load.give_tokens(&owner);
        // The first call of an account costs more than the others.
        load.run(load::WARM_UP, load::WARM_UP_PACE)?;
        Ok(Self { stage, chain, load })
    }

    fn measure(&self, name: &str, time: Duration, pace: Pace) -> Result<Sample, Failure> {
        let before = self.stage.usage();
        let started = Instant::now();
        let sample = self.load.run(time, pace)?;
        let note = used(self.stage, &before, started.elapsed());
        print_sample(name, &sample, &note);
        println!(
            "  {} refused, {} not in a block in time",
            sample.refused, sample.missing
        );
        Ok(sample)
    }
}

fn measure_flood(scene: &Scene<'_>, flood: &Flood<'_>, time: Duration, slow: u64) -> Result<(), Failure> {
    scene.measure("alone", time, Pace::Rate(slow))?;
    let before = flood.in_blocks()?;
    let taken = std::thread::scope(|scope| {
        let sender = scope.spawn(|| flood.send().map_err(|error| error.to_string()));
        scene.measure("under the flood", time, Pace::Rate(slow))?;
        Ok::<_, Failure>(sender.join().map_err(|_| "the sender of the flood failed")??)
    })?;
    let mined = flood.in_blocks()? - before;
    println!("the node took {taken} calls of the flood; {mined} were in blocks at the end");
    if mined >= taken as u64 {
        return Err("the flood had ended before the measurement".into());
    }
    Ok(())
}

fn measure_rate(stage: &Stage, time: Duration, slow: u64, in_flight: usize) -> Result<(), Failure> {
    let scene = Scene::make(stage)?;
    scene.measure("few", time, Pace::Rate(slow))?;
    // A block takes another transaction while it has used at most `BLOCK_GAS_FILL`.
    let per_block = (BLOCK_GAS_FILL / load::CALL_GAS) as usize + 1;
    println!(
        "a call uses {} gas: at most {per_block} in a block, {:.0} a second",
        load::CALL_GAS,
        per_block as f64 / stage.period as f64
    );
    let pace = Pace::AsMany { in_flight, per_block };
    let sample = scene.measure("as many as possible", time, pace)?;
    if sample.per_block > per_block as f64 {
        return Err(format!(
            "transactions in a block: got {:.0}, expected at most {per_block}",
            sample.per_block
        )
        .into());
    }
    Ok(())
}

fn measure_chains(stage: &Stage, counts: &[usize], time: Duration) -> Result<(), Failure> {
    let owner = MicroChainOwner::new(&stage.node, PROXY);
    let most = counts.iter().copied().max().unwrap_or_default();
    let pools = owner.pools(&stage.service, &stage.servers(), most);
    let mut running = 0;
    for count in counts {
        owner.chains(&pools, 1, count.saturating_sub(running));
        running = *count;
        // The first blocks cost more than the others.
        std::thread::sleep(Duration::from_secs(3));
        let before = stage.usage();
        std::thread::sleep(time);
        println!("{count} MicroChains: {}", used(stage, &before, time));
    }
    Ok(())
}
