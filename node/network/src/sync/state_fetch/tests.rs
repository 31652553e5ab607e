//! A chain that fetches its state from another one in the same process, through the whole driver:
//! headers, ranges, bodies, receipts, the end, and the blocks after it.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use chain::ChainSpec;
use chain::chain::{BlockOrder, ChainConfig};
use chain::check::{CheckEvent, check_store};
use chain::import::StateRetention;
use chain::spec::DEV_ACCOUNTS;
use chain::trace::{TraceRequest, Tracer};
use crossbeam_channel::Receiver;
use primitives::{B512, Bytes, SecretKey, TxForm, U256, UnsignedTransaction};
use store::{AccountKey, StateReads, Store, StoreOptions};

use super::*;
use crate::disk::{Disk, DiskFault};
use crate::messages::WireFamily;
use crate::messages::snap::AccountRangeRequest;
use crate::peers::serve::{ServeLimits, answer};
use crate::peers::snap_memory::{MemoryChain, MemoryState};
use crate::peers::{ChainAccess, PeerFacts, PeerRequest, snap_serve};
use crate::snap::SnapMessage;
use crate::sync::{ChainSync, SHORT_GAP_BLOCKS, SyncOutcome};
use crate::testing::chain_config;

const PEER: PeerId = PeerId(1);
/// Expected events happen in this time.
const LIMIT: Duration = Duration::from_secs(120);

/// A chain with contracts.
struct Source {
    chain: Chain,
    nonce: u64,
    states: HashMap<B256, MemoryChain>,
}

impl Source {
    fn new() -> Self {
        let spec = Arc::new(ChainSpec::dev());
        let store = Store::in_memory().expect("memory");
        Self::on(Chain::open(store, chain_config(spec)).expect("a chain"), 0)
    }

    /// Goes on with a chain that has so many transactions.
    fn on(chain: Chain, nonce: u64) -> Self {
        Self {
            chain,
            nonce,
            states: HashMap::new(),
        }
    }

    /// Makes a block with a transfer and a contract that writes a slot.
    fn make(&mut self) {
        let view = self.chain.view().expect("memory");
        let head = view.head().header.clone();
        let to = primitives::Address::from_slice(&primitives::keccak256(head.number.to_be_bytes())[12..]);
        for (to, input) in [(Some(to), &[][..]), (None, &[0x60, 1, 0x60, 0, 0x55])] {
            let unsigned = UnsignedTransaction {
                tx_nonce: self.nonce,
                gas_price: U256::from(20_000_000_000_u64),
                gas: 100_000,
                to,
                value: U256::from(u64::from(to.is_some())),
                input: Bytes::copy_from_slice(input),
                ..Default::default()
            };
            self.nonce += 1;
            let key = SecretKey::from_hex(DEV_ACCOUNTS[0].1).expect("a key");
            let signed = unsigned.sign(&key, 100, TxForm::Native);
            self.chain.submit_transaction(signed).expect("valid");
        }
        let order = BlockOrder {
            timestamp: Some(head.timestamp + 1),
            ..BlockOrder::default()
        };
        self.chain.make_block(order).expect("a block");
    }

    fn claim(&self) -> (B256, U256) {
        let view = self.chain.view().expect("memory");
        (view.head_hash(), view.head().total_difficulty)
    }

    /// The state with this root, if it is that of one of the last 128 blocks.
    fn state(&mut self, root: B256) -> Option<&MemoryChain> {
        let view = self.chain.view().expect("memory");
        let head = view.head_number();
        let number = (head.saturating_sub(127).max(1)..=head).find(|number| {
            let header = view.header(*number).expect("memory").expect("canonical").1;
            header.header.state_root == root
        })?;
        Some(self.states.entry(root).or_insert_with(|| {
            let mut state = MemoryState::default();
            let snapshot = view.snapshot();
            snapshot
                .walk_accounts::<StoreError>(&AccountKey(B256::ZERO), number, |found| {
                    state.put_account(found.key.0, found.account);
                    state.put_code(&snapshot.code(&found.account.code_hash)?);
                    snapshot.walk_slots::<StoreError>(&found.storage(), &B256::ZERO, number, |slot| {
                        state.put_slot(found.key.0, slot.hash, slot.value);
                        Ok(())
                    })
                })
                .expect("memory");
            let chain = MemoryChain::of(state);
            assert_eq!(chain.head_root(), root);
            chain
        }))
    }

    fn answer(&mut self, request: PeerRequest) -> PeerMessage {
        let message = match request {
            PeerRequest::Headers(headers) => PeerMessage::GetBlockHeaders(1, headers),
            PeerRequest::Bodies(hashes) => PeerMessage::GetBlockBodies(1, hashes),
            PeerRequest::Receipts(hashes) => PeerMessage::GetReceipts(1, hashes),
            PeerRequest::Snap(request) => {
                let root = match &request {
                    SnapMessage::GetAccountRange(_, request) => request.root,
                    SnapMessage::GetStorageRanges(_, request) => request.root,
                    SnapMessage::GetTrieNodes(_, request) => request.root,
                    _ => self.chain.view().expect("memory").head().header.state_root,
                };
                let none = MemoryChain::of(MemoryState::default());
                let state = self.state(root).unwrap_or(&none);
                let answer = snap_serve::answer(state, &request, &|| true).expect("memory");
                return PeerMessage::Snap(answer.expect("a request"));
            }
        };
        let access: &dyn ChainAccess = &self.chain;
        let answered = answer(access, ServeLimits::of(WireFamily::Eth), &message).expect("memory");
        answered.expect("a request")
    }
}

struct Fetching {
    source: Source,
    target: Chain,
    store: Store,
    sync: ChainSync,
    outcomes: Receiver<SyncOutcome>,
    begun: Instant,
    pivots: BTreeSet<u64>,
}

impl Fetching {
    fn new(source: Source, store: Store) -> Self {
        Self::keeping(source, store, StateRetention::Archive)
    }

    fn keeping(source: Source, store: Store, states: StateRetention) -> Self {
        let config = ChainConfig {
            states,
            ..chain_config(source.chain.spec().clone())
        };
        let target = Chain::open(store.clone(), config).expect("a chain");
        let genesis = target.view().expect("memory").canonical_hash(0).expect("memory");
        let (sender, outcomes) = unbounded();
        let sync = ChainSync::start(target.clone(), genesis.expect("block 0"), move |outcome| {
            let _ = sender.send(outcome);
        })
        .expect("threads")
        .with_fetched_state()
        .expect("memory");
        Self {
            source,
            target,
            store,
            sync,
            outcomes,
            begun: Instant::now(),
            pivots: BTreeSet::new(),
        }
    }

    fn now(&self) -> Moment {
        Moment {
            elapsed: self.begun.elapsed(),
            unix: chain::unix_now(),
        }
    }

    fn join(&mut self) {
        let (head, total_difficulty) = self.source.claim();
        let orders = self.sync.handle(
            self.now(),
            PeerNews::Joined(PeerFacts {
                peer: PEER,
                node: B512::repeat_byte(1),
                protocol: WireFamily::Eth.protocol(68).expect("a version"),
                has_snap: true,
                head,
                total_difficulty,
                address: IpAddr::V4(Ipv4Addr::LOCALHOST),
                is_exempt: false,
            }),
        );
        self.carry_out(orders);
    }

    fn carry_out(&mut self, orders: Vec<PeerOrder>) {
        let mut orders = VecDeque::from(orders);
        while let Some(order) = orders.pop_front() {
            match order {
                PeerOrder::Ask {
                    peer,
                    ticket,
                    request,
                } => {
                    let answer = self.source.answer(request);
                    let took = Duration::from_millis(2);
                    let news = PeerNews::Answer {
                        peer,
                        ticket,
                        answer,
                        took,
                    };
                    orders.extend(self.sync.handle(self.now(), news));
                }
                PeerOrder::Drop { fault, .. } => panic!("an honest peer loses its place: {}", fault.text),
            }
        }
    }

    /// Takes outcomes until `is_done`. A block comes with each `blocks_every` outcomes, if not 0.
    fn run(&mut self, blocks_every: u64, is_done: impl Fn(&Self) -> bool) {
        for step in 1_u64.. {
            if is_done(self) {
                return;
            }
            assert!(
                self.begun.elapsed() < LIMIT,
                "no end: {:?}",
                self.sync.shared().progress()
            );
            let orders = match self.outcomes.recv_timeout(Duration::from_millis(50)) {
                Ok(outcome) => self.sync.job_done(self.now(), outcome),
                // A node calls it then, and not before.
                Err(_) if self.sync.deadline().is_some_and(|due| due <= self.now().elapsed) => {
                    self.sync.on_time(self.now())
                }
                Err(_) => Vec::new(),
            };
            self.carry_out(orders);
            let progress = self.sync.shared().progress();
            self.pivots.extend(progress.state.map(|state| state.pivot));
            let behind = self.source.chain.view().expect("memory").head_number() - progress.head;
            if progress.state.is_some()
                || !self.pivots.is_empty() && blocks_every == 0 && behind > SHORT_GAP_BLOCKS
            {
                assert!(
                    progress.far_behind && progress.started_at.is_some(),
                    "{progress:?}"
                );
            }
            if blocks_every > 0 && step.is_multiple_of(blocks_every) {
                self.source.make();
                let (head, total_difficulty) = self.source.claim();
                let news = PeerNews::Head {
                    peer: PEER,
                    head,
                    total_difficulty,
                };
                let orders = self.sync.handle(self.now(), news);
                self.carry_out(orders);
            }
        }
    }

    fn has_caught_up(&self) -> bool {
        let head = self.target.view().expect("memory").head_hash();
        !self.target.fetches_state().expect("memory") && head == self.source.claim().0
    }

    fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        check_store(
            &self.store,
            self.target.spec(),
            true,
            &AtomicBool::new(false),
            &mut |event| {
                if let CheckEvent::Fault(fault) = event {
                    faults.push(format!("{fault:?}"));
                }
            },
        )
        .expect("a chain");
        faults
    }
}

#[test]
fn a_state_is_fetched_and_blocks_are_executed_from_there_on() {
    let mut source = Source::new();
    (0..150).for_each(|_| source.make());
    let mut fetching = Fetching::new(source, Store::in_memory().expect("memory"));
    fetching.join();
    fetching.run(0, Fetching::has_caught_up);
    let view = fetching.target.view().expect("memory");
    let oldest = view.oldest_state();
    assert!((70..=150 - PIVOT_DEPTH).contains(&oldest), "{oldest}");
    assert_eq!(fetching.faults(), Vec::<String>::new());
    let refused = view.require_state(20).expect_err("before the pivot").to_string();
    assert!(
        refused.contains(&format!("expected block {oldest} or later")),
        "{refused}"
    );
    // Never back: the next blocks are executed.
    fetching.source.make();
    let (head, total_difficulty) = fetching.source.claim();
    let news = PeerNews::Head {
        peer: PEER,
        head,
        total_difficulty,
    };
    let orders = fetching.sync.handle(fetching.now(), news);
    fetching.carry_out(orders);
    fetching.run(0, Fetching::has_caught_up);
    assert_eq!(fetching.sync.shared().progress().state, None);
    let receipts = |chain: &Chain| {
        let view = chain.view().expect("memory");
        let block = view.block(30).expect("memory").expect("canonical");
        view.receipts(&block.id()).expect("memory").expect("here").len()
    };
    assert_eq!(receipts(&fetching.target), receipts(&fetching.source.chain));
}

/// The blocks after the fetched ones are made by the chain that has fetched them, and by the one
/// that has executed all. Both must be the same in all that can be asked.
#[test]
fn a_chain_with_a_fetched_state_makes_blocks_serves_it_and_removes_old_ones() {
    let mut source = Source::new();
    (0..150).for_each(|_| source.make());
    let store = Store::in_memory().expect("memory");
    let mut fetching = Fetching::keeping(source, store, StateRetention::Recent { blocks: 100 });
    fetching.join();
    fetching.run(0, Fetching::has_caught_up);
    let Fetching {
        mut source, target, ..
    } = fetching;
    let oldest = || target.view().expect("memory").oldest_state();
    let pivot = oldest();
    // The state is served at once, from the store.
    let request = SnapMessage::GetAccountRange(
        7,
        AccountRangeRequest {
            root: target.view().expect("memory").head().header.state_root,
            origin: B256::ZERO,
            limit: B256::repeat_byte(0xff),
            bytes: 100_000,
        },
    );
    let served = |chain: &Chain| snap_serve::answer(chain, &request, &|| true).expect("memory");
    assert!(
        matches!(served(&target), Some(SnapMessage::AccountRange(7, range)) if range.accounts.len() > 300)
    );
    assert_eq!(served(&target), served(&source.chain));

    let mut grown = Source::on(target.clone(), source.nonce);
    for _ in 0..120 {
        source.make();
        grown.make();
    }
    assert_eq!(grown.claim(), source.claim());
    assert!(oldest() > pivot, "older states are removed: {}", oldest());
    let asked = |chain: &Chain| {
        let view = chain.view().expect("memory");
        let head = view.block(view.head_number()).expect("memory").expect("the head");
        let tracer = Tracer::Prestate { changes: false };
        let request = TraceRequest::new(tracer, Duration::from_secs(600));
        let traces = view
            .trace_block(&head, &request)
            .expect("the parent's state is here");
        let account = DEV_ACCOUNTS[0].0;
        let proof = view
            .proof(view.head_number() - 100, &account, &[])
            .expect("memory");
        (traces, proof.expect("one of the last 128 blocks"))
    };
    assert_eq!(asked(&target), asked(&source.chain));

    // Another one fetches the state from this chain.
    let mut third = Fetching::new(grown, Store::in_memory().expect("memory"));
    third.join();
    third.run(0, Fetching::has_caught_up);
    assert!(third.target.view().expect("memory").oldest_state() > pivot);
    assert_eq!(third.faults(), Vec::<String>::new());
}

#[test]
fn the_chain_grows_meanwhile_and_the_process_is_killed() {
    let mut source = Source::new();
    (0..140).for_each(|_| source.make());
    let store = Store::in_memory().expect("memory");
    let mut fetching = Fetching::new(source, store.clone());
    fetching.join();
    // Killed when the first rows are here.
    fetching.run(1, |fetching| fetching.pivots.len() > 1);
    let Fetching {
        source,
        sync,
        outcomes,
        pivots,
        ..
    } = fetching;
    drop(sync);
    // Until its threads have ended.
    while outcomes.recv().is_ok() {}
    let mut fetching = Fetching::new(source, store);
    assert!(fetching.target.view().expect("memory").require_state(0).is_err());
    fetching.join();
    fetching.run(1, |fetching| !fetching.target.fetches_state().expect("memory"));
    fetching.run(0, Fetching::has_caught_up);
    assert_eq!(fetching.faults(), Vec::<String>::new());
    let last = fetching.target.view().expect("memory").oldest_state();
    assert!(pivots.first().is_some_and(|first| *first <= last));
}

#[test]
fn a_short_chain_is_executed() {
    let mut source = Source::new();
    (0..20).for_each(|_| source.make());
    let mut fetching = Fetching::new(source, Store::in_memory().expect("memory"));
    fetching.join();
    fetching.run(0, Fetching::has_caught_up);
    assert_eq!(fetching.target.view().expect("memory").oldest_state(), 0);
}

#[test]
fn what_comes_while_the_chain_cannot_be_read_is_taken_later() {
    let mut source = Source::new();
    (0..20).for_each(|_| source.make());
    let disk = Arc::new(Disk::default());
    let store = disk.open_store(&StoreOptions::default()).expect("a good disk");
    let mut fetching = Fetching::new(source, store);
    // The job for the first headers fails, and the store cannot be opened again.
    disk.fail_from(0, DiskFault::Full);
    fetching.join();
    let outcome = fetching.outcomes.recv_timeout(LIMIT).expect("the job ends");
    assert!(matches!(outcome, SyncOutcome::Headers(Err(_))), "{outcome:?}");
    assert!(fetching.target.view().is_err());
    let now = fetching.now();
    assert_eq!(fetching.sync.job_done(now, outcome), []);
    let due = fetching.sync.deadline().expect("the chain is read again");
    assert!(fetching.sync.is_waiting() && due > now.elapsed);
    assert_eq!(fetching.sync.handle(now, PeerNews::Left(PeerId(7))), []);
    assert_eq!(fetching.sync.deadline(), Some(due), "not again before it is due");
    disk.repair();
    fetching.run(0, Fetching::has_caught_up);
    assert!(!fetching.sync.is_waiting());
}

#[test]
fn a_head_that_moves_while_the_chain_cannot_be_read_is_seen_later() {
    let mut source = Source::new();
    source.make();
    let stored = source.chain.view().expect("memory").block(1).expect("memory");
    let stored = stored.expect("it was made");
    let block = primitives::Block {
        header: stored.record.header,
        transactions: stored.body.transactions,
        uncles: stored.body.uncles,
    };
    let disk = Arc::new(Disk::default());
    let store = disk.open_store(&StoreOptions::default()).expect("a good disk");
    let target = Chain::open(store, chain_config(source.chain.spec().clone())).expect("a chain");
    let genesis = target.view().expect("memory").head_hash();
    let mut sync = ChainSync::start(target.clone(), genesis, |_| ()).expect("threads");
    let now = Moment {
        elapsed: Duration::from_secs(1),
        unix: chain::unix_now(),
    };
    sync.on_time(now);
    disk.fail_from(0, DiskFault::Full);
    assert!(target.import(block.clone()).is_err() && target.view().is_err());
    sync.handle(now, PeerNews::Left(PeerId(7)));
    assert!(sync.is_waiting());
    disk.repair();
    target.import(block).expect("a valid block");
    sync.on_time(now);
    assert!(sync.is_waiting(), "not before it is due");
    sync.on_time(now.after(CHAIN_RETRY));
    assert_eq!(sync.shared().progress().head, 1);
}

#[test]
fn an_end_that_is_refused_is_tried_again_after_a_pause() {
    let source = Source::new();
    let view = source.chain.view().expect("memory");
    let (inputs, received) = unbounded();
    let (id, root) = (view.head_id(), view.head().header.state_root);
    let mut state = StateSync {
        stage: StateStage::Fetching,
        inputs: Some(inputs),
        pivot: Some(PivotBlock { id, root }),
        done: Some(root),
        ..StateSync::full()
    };
    let at = |elapsed| Moment {
        elapsed,
        unix: Duration::ZERO,
    };
    let ends = |state: &mut StateSync, elapsed| {
        state.end_if_done(at(elapsed), &view);
        received.try_iter().count()
    };
    let refused = StateReport {
        orders: Vec::new(),
        progress: StateProgress::default(),
        done: None,
        ended: false,
        refused: true,
    };
    assert_eq!(ends(&mut state, Duration::ZERO), 1);
    for second in 0..3 {
        let now = CHAIN_RETRY * second;
        state.take(at(now), refused.clone());
        assert_eq!(ends(&mut state, now), 0);
        assert_eq!(ends(&mut state, now + CHAIN_RETRY), 1);
        assert_eq!(ends(&mut state, now + CHAIN_RETRY), 0, "it is being tried");
    }
    // A chain that stops is not asked again.
    source.chain.stop();
    let (sender, outcomes) = unbounded();
    let take: Arc<TakeOutcome> = Arc::new(move |outcome| {
        let _ = sender.send(outcome);
    });
    assert!(!StateFetch::new(source.chain, take).end(id));
    let outcome = outcomes.try_recv();
    assert!(
        matches!(&outcome, Ok(SyncOutcome::State(report)) if !report.refused && !report.ended),
        "{outcome:?}"
    );
}
