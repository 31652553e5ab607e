//! The cost of bodies that belong to no block, for the thread that compares bodies with headers.

use std::cell::Cell;
use std::sync::Arc;

use chain::ChainSpec;
use chain::import::{FilledBlock, PreparedBlock};
use network::testing::{
    ChainRefusal, PeerBody, RequestTicket, SyncJob, SyncOutcome, SyncTarget, WantedBody, run_job,
};
use primitives::{B256, Block, Header, Transaction};

use crate::simulation::chain::{SimChain, spec};
use crate::simulation::world::World;
use crate::simulation::{SEED, hours, seconds};

/// Blocks that are asked for together.
const BLOCKS: u64 = 40;
/// The most bodies for which roots are computed before the first wrong one is found.
const LOOKED_AT_MAX: usize = 16;

/// A chain that counts the bodies for which it computes roots.
struct CountingChain<'a> {
    chain: &'a SimChain,
    prepared: Cell<usize>,
}

impl SyncTarget for CountingChain<'_> {
    fn spec(&self) -> &ChainSpec {
        SyncTarget::spec(self.chain)
    }

    fn take_headers(&self, headers: Vec<Header>) -> Result<(), ChainRefusal> {
        self.chain.take_headers(headers)
    }

    fn prepare_blocks(&self, blocks: Vec<Block>) -> Result<Vec<PreparedBlock>, ChainRefusal> {
        self.prepared.set(self.prepared.get() + blocks.len());
        self.chain.prepare_blocks(blocks)
    }

    fn take_blocks(&self, blocks: Vec<Arc<PreparedBlock>>) -> (usize, Option<ChainRefusal>) {
        self.chain.take_blocks(blocks)
    }

    fn fill_blocks(&self, blocks: Vec<FilledBlock>) -> (usize, Option<ChainRefusal>) {
        self.chain.fill_blocks(blocks)
    }

    fn forget_headers(&self, hash: B256) {
        self.chain.forget_headers(hash);
    }
}

/// A chain, its blocks and their bodies.
fn chain_with_bodies() -> (Arc<SimChain>, Vec<WantedBody>, Vec<PeerBody>) {
    let mut world = World::new(spec(), SEED, 1, hours(1_000_000));
    for _ in 0..BLOCKS {
        world.run_until(world.now + seconds(13));
        world.mine_now(0);
    }
    let chain = world.shared_chain(0);
    let view = chain.view();
    let read = |number| {
        let hash = view.canonical_hash(number).expect("read").expect("canonical");
        let block = view.block_by_hash(&hash).expect("read").expect("a block");
        let wanted = WantedBody {
            hash,
            header: Arc::new(block.record.header),
        };
        let body = PeerBody {
            transactions: block.body.transactions.clone(),
            uncles: block.body.uncles,
        };
        (wanted, body)
    };
    let (wanted, bodies) = (1..=BLOCKS).map(read).unzip();
    (chain, wanted, bodies)
}

/// The bodies that were found, the place of the first wrong one, and the number that were looked
/// at.
fn compare(
    chain: &SimChain,
    wanted: &[WantedBody],
    bodies: Vec<PeerBody>,
) -> (Vec<usize>, Option<usize>, usize) {
    let target = CountingChain {
        chain,
        prepared: Cell::new(0),
    };
    let ticket = RequestTicket(1);
    let wanted = wanted.to_vec();
    let outcome = run_job(
        &target,
        SyncJob::Bodies {
            ticket,
            wanted,
            bodies,
        },
    );
    let SyncOutcome::Bodies { blocks, wrong, .. } = outcome else {
        panic!("bodies were compared")
    };
    let found = blocks.iter().enumerate().filter(|(_, block)| block.is_some());
    (found.map(|(at, _)| at).collect(), wrong, target.prepared.get())
}

#[test]
fn wrong_bodies_cost_no_more_than_a_few_roots() {
    let (chain, wanted, bodies) = chain_with_bodies();
    let junk = PeerBody {
        transactions: vec![Transaction::system(7)],
        uncles: Vec::new(),
    };
    let (found, wrong, looked_at) = compare(&chain, &wanted, vec![junk.clone(); wanted.len()]);
    assert_eq!((found, wrong), (Vec::new(), Some(0)));
    assert!(looked_at <= LOOKED_AT_MAX, "{looked_at}");
    // Bodies before the first wrong one are kept.
    let mut mixed = bodies.clone();
    mixed[20] = junk.clone();
    let (found, wrong, _) = compare(&chain, &wanted, mixed);
    assert_eq!((found, wrong), ((0..20).collect(), Some(20)));
    let more = [bodies, vec![junk]].concat();
    assert_eq!(compare(&chain, &wanted, more).1, Some(wanted.len()));
}

#[test]
fn bodies_are_found_when_others_are_missing() {
    let (chain, wanted, bodies) = chain_with_bodies();
    let all: Vec<_> = (0..wanted.len()).collect();
    assert_eq!(
        compare(&chain, &wanted, bodies.clone()),
        (all, None, wanted.len())
    );
    let kept: Vec<_> = (0..wanted.len())
        .filter(|at| ![0, 5, 6, 17, 39].contains(at))
        .collect();
    let some = kept.iter().map(|at| bodies[*at].clone()).collect();
    let (found, wrong, _) = compare(&chain, &wanted, some);
    assert_eq!((found, wrong), (kept, None));
    // Bodies come in the order of the question.
    let turned = bodies.into_iter().rev().collect();
    let (found, wrong, _) = compare(&chain, &wanted, turned);
    assert_eq!((found, wrong), (vec![39], Some(1)));
}
