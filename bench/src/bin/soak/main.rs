//! Runs a small network for a simulated day, and compares its last hour with its first one.
//!
//! Three nodes, two of which mine, SCSs with a MicroChain, clients that send transactions and
//! requests, and in each hour a reorganization: one node mines apart for some blocks. The clocks of
//! the nodes jump ahead in steps, and the network makes about a block in each step, so a day takes
//! less than an hour. The clocks of SCSs, of caches and of connections are real ones, so growth
//! with time alone is seen for the real time only. Some hours go before the first one, because
//! caches that fill would look like growth.

mod load;
mod stage;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bench::Failure;
use clap::Parser;
use e2e::microchain::{MicroChainOwner, PROXY};
use e2e::wait::wait_for;
use serde_json::{Value, json};

use load::Load;
use stage::{Stage, Use};

/// Seconds by which the clocks jump. A block may be 15 seconds ahead of a node's clock.
const STEP_SECS: u64 = 12;
const STEPS_PER_HOUR: u64 = 3600 / STEP_SECS;
/// The steps of an hour in which a node is alone.
const PARTED_FROM: u64 = 100;
const PARTED_STEPS: u64 = 8;
/// Hours that can be compared: the first two and the last two.
const HOURS_MIN: u64 = 4;
/// Steps between two looks at the processes.
const LOOK_STEPS: u64 = 20;

/// Soak test.
#[derive(Debug, Parser)]
struct Options {
    /// Simulated hours
    #[arg(long, value_name = "N", default_value_t = 24, value_parser = clap::value_parser!(u64).range(HOURS_MIN..))]
    hours: u64,
    /// Simulated hours before the first one, in which caches fill
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(..=1000))]
    warm: u64,
    /// Real time of a step, which has 12 simulated seconds, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 400, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    step: u64,
    /// Requests a second for each node
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..))]
    requests: u32,
    /// Transactions a second for each node
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    transactions: u32,
    /// Number of SCSs
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=100))]
    members: u8,
}

/// The figures of an hour.
struct Hour {
    blocks: u128,
    taken_back: u128,
    flushes: u64,
    sent: u64,
    requests: usize,
    /// Milliseconds: half of the requests were faster.
    median: f64,
    /// 99 of 100 were faster.
    slowest: f64,
    uses: Vec<Use>,
}

fn main() -> Result<(), Failure> {
    let options = Options::parse();
    let stage = Stage::start(options.members.into())?;
    let steps = AtomicU64::new(0);
    let done = AtomicBool::new(false);
    let hours = std::thread::scope(|scope| {
        let clock = scope.spawn(|| turn_clocks(&stage, Duration::from_millis(options.step), &steps, &done));
        let _end = EndOnDrop(&done);
        let hours = run(&stage, &options, &steps)?;
        done.store(true, Ordering::Relaxed);
        clock.join().map_err(|_| "a clock stopped")?;
        Ok::<_, Failure>(hours)
    })?;
    compare(&hours);
    stage.check()
}

/// Ends the clock, also when something fails.
struct EndOnDrop<'a>(&'a AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Lets the clocks of all nodes jump, once each `real`.
fn turn_clocks(stage: &Stage, real: Duration, steps: &AtomicU64, done: &AtomicBool) {
    let callers = stage.callers();
    // The system's clock goes on, too.
    let jump = STEP_SECS as f64 - real.as_secs_f64();
    let (started, mut ahead) = (Instant::now(), 0);
    while !done.load(Ordering::Relaxed) {
        let step = steps.load(Ordering::Relaxed) + 1;
        let wanted = (step as f64 * jump) as u64;
        for caller in &callers {
            caller.rpc("evm_increaseTime", json!([wanted - ahead]));
        }
        ahead = wanted;
        steps.store(step, Ordering::Relaxed);
        let next = started + real * u32::try_from(step).unwrap_or(u32::MAX);
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
}

fn run(stage: &Stage, options: &Options, steps: &AtomicU64) -> Result<Vec<Hour>, Failure> {
    let owner = MicroChainOwner::new(&stage.nodes[0], PROXY);
    let servers = stage.servers();
    let pools = owner.pools(&stage.service, &servers, 1);
    let chain = owner.chains(&pools, servers.len(), 1).remove(0);
    let counter = owner.dapps(&chain, servers[0]);
    println!(
        "a MicroChain of {} SCSs runs: the first hour begins after {} more",
        servers.len(),
        options.warm
    );
    let load = Load::new(stage, &owner, &chain, &counter);
    let mut hours = Vec::new();
    std::thread::scope(|scope| {
        let _end = EndOnDrop(&load.done);
        let clients = load.start(scope, options.requests, options.transactions);
        let begin = steps.load(Ordering::Relaxed);
        for hour in 0..options.warm.saturating_add(options.hours) {
            let figures = run_hour(stage, &owner, &chain, &load, steps, begin + hour * STEPS_PER_HOUR)?;
            match hour.checked_sub(options.warm) {
                None => print_hour(&format!("before the first hour, {}", hour + 1), &figures),
                Some(hour) => {
                    print_hour(&format!("hour {}", hour + 1), &figures);
                    hours.push(figures);
                }
            }
        }
        load.done.store(true, Ordering::Relaxed);
        for client in clients {
            client.join().map_err(|_| "a client failed")??;
        }
        Ok::<_, Failure>(())
    })?;
    let counted = load.finish(servers[0])?;
    println!("the MicroChain executed all {counted} calls");
    Ok(hours)
}

fn run_hour(
    stage: &Stage,
    owner: &MicroChainOwner<'_>,
    chain: &str,
    load: &Load<'_>,
    steps: &AtomicU64,
    begin: u64,
) -> Result<Hour, Failure> {
    let until = |step: u64| {
        while steps.load(Ordering::Relaxed) < begin + step {
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    let before = stage.nodes[0].head();
    let (mut uses, mut flushes, mut last_flush) = (Vec::new(), 0, owner.flush_hash(chain));
    let (mut apart, mut taken_back) = (None, 0);
    for step in 1..=STEPS_PER_HOUR {
        until(step);
        if step == PARTED_FROM {
            stage.part();
            apart = Some(stage.nodes[0].head());
        } else if step == PARTED_FROM + PARTED_STEPS {
            taken_back = meet(stage, apart.unwrap_or_default());
        } else if step % LOOK_STEPS == 0 {
            uses.push(stage.uses()?);
            let flush = owner.flush_hash(chain);
            flushes += u64::from(flush != last_flush);
            last_flush = flush;
        }
    }
    let (sent, mut times) = load.take();
    times.sort_unstable_by(f64::total_cmp);
    let at = |share: f64| times.get((times.len() as f64 * share) as usize).copied();
    Ok(Hour {
        blocks: stage.nodes[0].head() - before,
        taken_back,
        flushes,
        sent,
        requests: times.len(),
        median: at(0.5).unwrap_or(f64::NAN),
        slowest: at(0.99).unwrap_or(f64::NAN),
        uses: stage::means(&uses),
    })
}

/// Connects the node that was alone since block `apart`. Returns how many blocks were taken back.
fn meet(stage: &Stage, apart: u128) -> u128 {
    let ends = [&stage.nodes[0], &stage.nodes[1]].map(|node| node.head_block());
    stage.connect();
    let number = |block: &Value| e2e::quantity(&block["number"]);
    let shorter = ends.iter().map(number).min().unwrap_or_default();
    wait_for("one chain", || {
        let blocks = stage
            .nodes
            .each_ref()
            .map(|node| node.block(shorter)["hash"].clone());
        blocks.iter().all(|hash| *hash == blocks[0]).then_some(())
    });
    let is_lost = |end: &&Value| stage.nodes[0].block(number(end))["hash"] != end["hash"];
    let depths = ends
        .iter()
        .filter(is_lost)
        .map(|end| number(end).saturating_sub(apart));
    depths.max().unwrap_or_default()
}

fn print_hour(name: &str, hour: &Hour) {
    println!(
        "{name}: {} blocks, {} taken back, {} flushes, {} transactions; {} requests, median {:.2} ms, one of a \
         hundred over {:.2} ms",
        hour.blocks, hour.taken_back, hour.flushes, hour.sent, hour.requests, hour.median, hour.slowest
    );
    for Use {
        name,
        memory,
        descriptors,
        threads,
        processor,
        disk,
    } in &hour.uses
    {
        println!(
            "  {name}: {memory:.1} MiB, {descriptors:.0} descriptors, {threads:.0} threads, {processor:.1} s of processor, disk \
             {disk:.1} MiB"
        );
    }
}

/// Prints the last hour as a share of the first one. The growth of files for each block is compared
/// with that of the second hour.
fn compare(hours: &[Hour]) {
    let [first, second, .., before, last] = hours else {
        return;
    };
    let median = last.median / first.median;
    let slowest = last.slowest / first.slowest;
    println!("last hour : first hour");
    println!("  requests: median {median:.2}, one of a hundred {slowest:.2}");
    for (index, now) in last.uses.iter().enumerate() {
        let old = &first.uses[index];
        println!(
            "  {}: memory {:.2}, descriptors {:.2}, threads {:.2}",
            now.name,
            now.memory / old.memory,
            now.descriptors / old.descriptors,
            now.threads / old.threads
        );
        let processor = |from: &Hour, to: &Hour| to.uses[index].processor - from.uses[index].processor;
        let (early, late) = (processor(first, second), processor(before, last));
        println!("    processor: {early:.1} s in the second hour, {late:.1} s in the last one");
        let growth = |from: &Hour, to: &Hour| {
            (to.uses[index].disk - from.uses[index].disk) * 1024.0 / to.blocks as f64
        };
        if now.disk > 0.0 {
            let (early, late) = (growth(first, second), growth(before, last));
            println!("    files: {early:.1} KiB for a block in the second hour, {late:.1} in the last one");
        }
    }
}
