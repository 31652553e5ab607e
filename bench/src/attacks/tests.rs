//! Strangers attack a node. It goes on, within its bounds of memory, and serves others in time.
//!
//! Attacks, witnesses and bounds are those of the programs `peers` and `requests`. A bound of time
//! is larger if the machine is busy with other programs.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use e2e::{note, vnode_path};

use super::{Attack, AttackSources};

/// Seconds for which each attack runs, if the variable is set.
const SECONDS_VARIABLE: &str = "ATTACK_SECONDS";
/// Two attacks run at a time: most of them wait more than they compute.
static TURNS: [Mutex<()>; 2] = [Mutex::new(()), Mutex::new(())];
/// The number of the next turn.
static NEXT_TURN: AtomicUsize = AtomicUsize::new(0);

#[track_caller]
fn check(attack: Attack) {
    let seconds = std::env::var(SECONDS_VARIABLE).ok();
    let time = seconds.map(|seconds| Duration::from_secs(seconds.parse().expect("a number of seconds")));
    // The binary is built before the test leaves the network of the machine.
    vnode_path();
    let number = NEXT_TURN.fetch_add(1, Ordering::Relaxed);
    let turn = TURNS[number % TURNS.len()]
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    // Only this thread and those that it starts leave that network.
    let run = thread::spawn(move || {
        let sources = AttackSources::new();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime
            .block_on(runtime.spawn(attack.run(sources, time)))
            .expect("the attack ends")
    });
    let figures = run.join().expect("the attack ends").expect("a scene");
    drop(turn);
    note(&figures.to_string());
    let faults = figures.faults();
    assert!(faults.is_empty(), "{}: {faults:#?}", attack.name());
}

#[test]
fn nested_types() {
    check(Attack::NestedTypes);
}

#[test]
fn array_suffixes() {
    check(Attack::ArraySuffixes);
}

#[test]
fn a_graph_of_types() {
    check(Attack::TypeGraph);
}

#[test]
fn pings_whose_pongs_nobody_reads() {
    check(Attack::UnreadPings);
}

#[test]
fn notifications_that_nobody_reads() {
    check(Attack::Notifications);
}

#[test]
fn guessed_passwords() {
    check(Attack::Passwords);
}

#[test]
fn transactions_with_many_signatures() {
    check(Attack::Signatures);
}

#[test]
fn blocks_without_a_seal() {
    check(Attack::UnsealedBlocks);
}

#[test]
fn headers_that_come_slowly() {
    check(Attack::SlowHeaders);
}

#[test]
fn many_nodes_of_one_address() {
    check(Attack::ManyNodes);
}

#[test]
fn messages_of_application_chains() {
    check(Attack::ChainMessages);
}

#[test]
fn announced_transactions_that_never_come() {
    check(Attack::LostTransactions);
}
