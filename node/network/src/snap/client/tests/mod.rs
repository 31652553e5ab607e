//! Downloads in a simulated network: peers that are honest, slow, without the state, or that lie,
//! while the chain grows and the pivot moves. A seed decides everything.

mod liars;
mod stored;
mod world;

use super::*;
use world::{Manner, SnapWorld, TestSink};

#[test]
fn one_honest_peer_is_enough() {
    let mut world = SnapWorld::new(1, &[Manner::Honest]);
    world.block_interval = u64::MAX;
    world.run();
    assert_eq!(world.dropped, []);
    let figures = world.client.figures();
    let state = world.chain.head_state();
    assert_eq!(figures.accounts, state.accounts.len() as u64);
    assert_eq!(figures.slots, state.slots.len() as u64);
    assert_eq!((figures.healed, figures.codes), (0, state.codes.len() as u64));
    // 60 accounts share one storage: it is fetched once. Some others are asked for again, because
    // an answer ended before them.
    let roots = world.storages_asked.len();
    assert!((25..60).contains(&roots), "{roots}");
}

#[test]
fn the_pivot_moves_and_nothing_is_fetched_twice() {
    for seed in 0..2 {
        let mut world = SnapWorld::new(
            seed,
            &[Manner::Honest, Manner::Slow, Manner::Honest, Manner::Stateless],
        );
        world.run();
        assert_eq!(world.dropped, [], "seed {seed}");
        assert!(world.pivots > 2, "seed {seed}: {} pivots", world.pivots);
        assert!(world.client.figures().healed > 0, "seed {seed}");
        // The ranges in memory when the pivot moves are fetched again, and nothing else.
        let accounts = world.loaded_accounts;
        let most = world.chain.head_state().accounts.len() as u64 + 20;
        assert!(accounts <= most, "seed {seed}: {accounts} of {most}");
    }
}

#[test]
fn a_killed_download_goes_on() {
    for seed in 10..12 {
        let mut world = SnapWorld::new(seed, &[Manner::Honest, Manner::Honest]);
        world.kill_one_of = 40;
        world.run();
        assert!(world.kills > 2, "seed {seed}: {} kills", world.kills);
    }
}

#[test]
fn a_peer_that_sends_little_and_slowly_does_not_hold_the_download_up() {
    // The pivot moves before the peer answers, then after that, then not at all.
    for block_interval in [24, 100, u64::MAX] {
        let manners = [Manner::Honest, Manner::Trickle(20), Manner::Honest];
        let mut world = SnapWorld::new(4, &manners);
        world.block_interval = block_interval;
        world.run();
        assert_eq!(world.dropped, []);
    }
}

#[test]
fn without_peers_that_have_the_state_it_waits_for_the_next_pivot() {
    let mut world = SnapWorld::new(20, &[Manner::Late]);
    world.run();
    assert!(world.dropped.is_empty() && world.pivots > 1);
}

#[test]
fn progress_is_read_again() {
    let mut world = SnapWorld::new(30, &[Manner::Honest]);
    while world.client.load.large.is_empty() || world.client.loaded_share() == 0.0 {
        world.step();
    }
    world.client.save(&mut world.sink).expect("in memory");
    let bytes = world.sink.progress().expect("committed");
    let again = SnapClient::resume(&bytes).expect("progress");
    assert_eq!(progress::encode(again.phase, &again.load, &again.figures), bytes);
    assert!(again.loaded_share() > 0.0 && again.loaded_share() < 1.0);
    assert!(!again.load.large.is_empty(), "a large storage is under way");
    for at in 0..bytes.len() {
        assert!(SnapClient::resume(&bytes[..at]).is_err());
    }
    let mut other = bytes;
    let at = other.iter().position(|byte| *byte == 1).expect("the version");
    other[at] = 2;
    let error = SnapClient::resume(&other).expect_err("another version");
    assert_eq!(error, SnapProgressError::Version { got: 2 });
}

#[test]
fn the_pivot_follows_the_head() {
    assert_eq!(next_pivot(1000, None), Some(936));
    assert_eq!(next_pivot(30, None), Some(0));
    assert_eq!(next_pivot(936 + 125, Some(936)), None);
    assert_eq!(next_pivot(936 + 126, Some(936)), Some(936 + 126 - 64));
    // A reorganization below the pivot.
    assert_eq!(next_pivot(900, Some(936)), Some(836));
}

#[test]
fn an_empty_state() {
    let mut client = SnapClient::new();
    let mut sink = world::MemorySink::default();
    let pivot = SnapPivot {
        number: 1,
        root: primitives::EMPTY_ROOT,
    };
    let mut actions = client
        .handle(SnapEvent::Joined(PeerId(1)), &mut sink)
        .expect("in memory");
    actions.extend(
        client
            .handle(SnapEvent::Pivot(pivot), &mut sink)
            .expect("in memory"),
    );
    let mut is_done = false;
    while let Some(action) = actions.pop() {
        let event = match action {
            SnapAction::Ask {
                peer,
                ticket,
                request,
            } => {
                let SnapMessage::GetAccountRange(id, _) = request else {
                    panic!("{request:?}")
                };
                let answer = SnapMessage::AccountRange(id, crate::messages::snap::AccountRange::default());
                SnapEvent::Answer {
                    peer,
                    ticket,
                    answer,
                    took: Duration::from_millis(1),
                }
            }
            SnapAction::Build => SnapEvent::Built(sink.build().expect("in memory")),
            SnapAction::Done(_) => {
                is_done = true;
                continue;
            }
            SnapAction::Drop { fault, .. } => panic!("{fault:?}"),
        };
        actions.extend(client.handle(event, &mut sink).expect("in memory"));
    }
    assert!(is_done);
    assert_eq!(sink.node(None, &[]).expect("in memory"), None);
}
