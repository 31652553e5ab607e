//! Whole nodes under planned faults: a run of a seed, its exact repetition, and the smallest list
//! of faults with which a condition breaks.
//!
//! `SIM_SEED` chooses the run, `SIM_SEEDS=FROM..TO` several, `SIM_YEARS` their length,
//! `SIM_NODES` the number of nodes and `SIM_BLOCK_SECONDS` the mean time between two blocks. A run
//! that fails prints a command with `SIM_FAULTS`, the faults in place of those of the seed, and
//! `SIM_TRIAL_HOURS`, their length.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use chain::check::{CheckEvent, check_store};
use primitives::catch_panic;
use store::quiet_contained_panics;

use crate::simulation::chain::spec;
use crate::simulation::plan::{
    FaultKind, MONTH_HOURS, PlannedFault, faults_from, faults_of, shrink, text_of,
};
use crate::simulation::world::{BrokenInvariant, Counts, Invariant, World};
use crate::simulation::{hours, seconds, setting};

/// The seed of a run that is not chosen.
const SEED: u64 = 35;
const NODES: usize = 5;
/// Faults of a day, on average.
const FAULTS_A_DAY: u64 = 6;
/// The mean time between two blocks.
const BLOCK_SECONDS: u64 = 7200;
/// The length of the run in a usual test, in hours.
const HOURS: u64 = 5 * 24;
const YEAR_HOURS: u64 = 365 * 24;

/// A run.
#[derive(Clone, Debug)]
struct FaultTrial {
    seed: u64,
    nodes: usize,
    hours: u64,
    interval: Duration,
    faults: Vec<PlannedFault>,
    /// A node whose disk forgets all syncs, which the world does not know.
    forgetful: Option<usize>,
}

/// The outcome of a run in which all conditions held.
#[derive(Debug)]
struct TrialReport {
    digest: u64,
    height: u64,
    counts: Counts,
}

impl FaultTrial {
    fn of_seed(seed: u64, hours: u64) -> Self {
        let nodes = setting("SIM_NODES", NODES);
        Self {
            seed,
            nodes,
            hours,
            interval: seconds(setting("SIM_BLOCK_SECONDS", BLOCK_SECONDS)),
            faults: faults_of(seed, nodes, hours, FAULTS_A_DAY),
            forgetful: None,
        }
    }

    fn run(&self) -> Result<TrialReport, BrokenInvariant> {
        catch_panic(|| self.run_to_end()).unwrap_or_else(|panic| {
            Err(BrokenInvariant {
                invariant: Invariant::NoPanic,
                at: Duration::ZERO,
                text: panic.to_string(),
            })
        })
    }

    fn run_to_end(&self) -> Result<TrialReport, BrokenInvariant> {
        quiet_contained_panics();
        let world = World::of_whole_nodes(spec(), self.seed, self.nodes, self.interval);
        let mut world = world.expect("new stores on good disks");
        if let Some(node) = self.forgetful {
            world.forget_syncs(node);
        }
        world.plan(&self.faults);
        let mut hour = 0;
        while hour < self.hours {
            hour = (hour + MONTH_HOURS).min(self.hours);
            // The look takes the last hour of the month: the faults of the next one follow.
            world.run_until(hours(hour - 1));
            world.check_calm();
            if let Some(broken) = world.broken {
                return Err(broken);
            }
        }
        for index in world.honest_nodes() {
            let mut faults = Vec::new();
            let mut report = |event: CheckEvent<'_>| {
                if let CheckEvent::Fault(fault) = event {
                    faults.push(fault.to_string());
                }
            };
            let chain = world.chain(index);
            let checked = check_store(
                &chain.store,
                &chain.spec,
                false,
                &AtomicBool::new(false),
                &mut report,
            );
            if checked.is_err() || !faults.is_empty() {
                let text = format!("the check of node {index}: {checked:?} {faults:?}");
                let (invariant, at) = (Invariant::Committed, world.now);
                return Err(BrokenInvariant { invariant, at, text });
            }
        }
        Ok(TrialReport {
            digest: world.digest(),
            height: world.chain(0).view().head_number(),
            counts: world.counts,
        })
    }

    /// The smallest list of faults that is found with which the same condition breaks.
    fn shrunk(&self, broken: &BrokenInvariant) -> Self {
        let mut trial = self.clone();
        if broken.at > Duration::ZERO {
            trial.faults.retain(|fault| fault.begins() <= broken.at);
            trial.hours = self.hours.min(broken.at.as_secs() / 3600 + 1);
        }
        let breaks = |trial: &Self| {
            trial
                .run()
                .is_err_and(|again| again.invariant == broken.invariant)
        };
        if !breaks(&trial) {
            // The condition breaks only after the end of the faults.
            trial = self.clone();
        }
        let faults = shrink(trial.faults.clone(), |fewer| {
            println!("{} faults: {}", fewer.len(), text_of(fewer));
            let mut fewer_faults = trial.clone();
            fewer_faults.faults = fewer.to_vec();
            breaks(&fewer_faults)
        });
        Self { faults, ..trial }
    }

    /// Runs. If a condition breaks, shrinks the faults and panics with the command that repeats it.
    fn must_hold(&self) -> TrialReport {
        let begun = Instant::now();
        match self.run() {
            Ok(report) => {
                let took = begun.elapsed().as_secs_f64();
                println!(
                    "seed {}: {} hours of {} nodes, {} faults, block {} in {took:.1} s, digest {:016x}: {:?}",
                    self.seed,
                    self.hours,
                    self.nodes,
                    self.faults.len(),
                    report.height,
                    report.digest,
                    report.counts
                );
                report
            }
            Err(broken) => {
                let BrokenInvariant { invariant, at, text } = &broken;
                println!("seed {}: {invariant:?} breaks at {at:?}: {text}", self.seed);
                let small = self.shrunk(&broken);
                panic!(
                    "{broken:?}\n{} of {} faults are left; repeat with\nSIM_SEED={} SIM_NODES={} SIM_TRIAL_HOURS={} \
                     SIM_FAULTS='{}'",
                    small.faults.len(),
                    self.faults.len(),
                    self.seed,
                    self.nodes,
                    small.hours,
                    text_of(&small.faults)
                )
            }
        }
    }
}

/// The seeds that are to be run.
fn seeds() -> std::ops::Range<u64> {
    let seed = setting("SIM_SEED", SEED);
    let Ok(text) = std::env::var("SIM_SEEDS") else {
        return seed..seed + 1;
    };
    let parsed = text
        .split_once("..")
        .and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?));
    parsed.unwrap_or_else(|| panic!("SIM_SEEDS: got `{text}`, expected FROM..TO"))
}

#[test]
fn whole_nodes_live_through_faults_of_disks_links_clocks_and_miners() {
    let years: u64 = setting("SIM_YEARS", 0);
    let usual = if years > 0 { years * YEAR_HOURS } else { HOURS };
    let length = setting("SIM_TRIAL_HOURS", usual);
    for seed in seeds() {
        let mut trial = FaultTrial::of_seed(seed, length);
        if let Ok(text) = std::env::var("SIM_FAULTS") {
            trial.faults = faults_from(&text).unwrap_or_else(|error| panic!("SIM_FAULTS: {error}"));
        }
        let report = trial.must_hold();
        assert!(
            report.height * trial.interval.as_secs() > length * 3600 / 3,
            "the chain has grown: {report:?}"
        );
        assert!(
            report.counts.accepted > report.height,
            "transactions travel: {report:?}"
        );
    }
}

#[test]
fn a_seed_of_faults_replays_exactly() {
    let mut trial = FaultTrial::of_seed(7, 3 * 24);
    trial.interval = hours(3);
    let run = || trial.must_hold();
    let (one, other) = (run(), run());
    assert!(one.counts.faults > 4, "{one:?}");
    assert_eq!(format!("{one:?}"), format!("{other:?}"));
}

#[test]
fn a_disk_that_forgets_syncs_is_found_and_the_faults_are_shrunk() {
    let mut trial = FaultTrial::of_seed(3, 3 * 24);
    trial.interval = hours(4);
    trial.forgetful = Some(2);
    let found = PlannedFault {
        at: 40 * 3600,
        kind: FaultKind::PowerLoss,
        node: 2,
        amount: 0,
        lasts: 600,
    };
    trial.faults.push(found);
    trial.faults.sort_by_key(|fault| fault.at);
    assert!(trial.faults.len() > 5, "{:?}", trial.faults);
    let broken = trial.run().expect_err("a committed block is lost");
    assert_eq!(broken.invariant, Invariant::Committed, "{broken:?}");
    let small = trial.shrunk(&broken);
    println!(
        "{} of {} faults are left: {}",
        small.faults.len(),
        trial.faults.len(),
        text_of(&small.faults)
    );
    let [fault] = small.faults[..] else {
        panic!("one fault is enough: {}", text_of(&small.faults));
    };
    // A fault before it may make the disk lose power, too.
    let loses_power = [
        FaultKind::PowerLoss,
        FaultKind::LostSync,
        FaultKind::ForgottenSyncs,
    ];
    assert!(fault.node == 2 && loses_power.contains(&fault.kind), "{fault}");
    assert_eq!(
        faults_from(&text_of(&trial.faults)).expect("its own text"),
        trial.faults
    );
}
