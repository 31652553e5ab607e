//! The running chain: work and solutions, stale work and uncles, the pool when heads change,
//! stopping. Seals are real, with a small cache and a difficulty of 2.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use chain::chain::{SubmitError, WriteError};
use chain::fate::BlockFate;
use chain::import::{ImportError, Imported};
use chain::mining::pause::WorkPause;
use chain::mining::work::SolutionError;
use chain::pool::PoolConfig;
use chain::rules::HeaderError;
use chain::rules::body::plain_transactions;
use chain::rules::seal::SealCheck;
use chain::{Chain, ChainConfig, ChainSpec};
use ethash::{LightCache, LightCaches, Solution, WorkPackage};
use primitives::{Address, B256, Block, U256};
use store::Store;

use crate::common::{Maker, Plan, account, coins, easy_spec, rows, sign, unsigned};

const MINER: Address = Address::repeat_byte(0xa1);

fn caches() -> LightCaches {
    LightCaches::with_sizes(1024, 32 * 1024)
}

fn cache() -> Arc<LightCache> {
    caches().get(ethash::Epoch::ethash(0)).expect("a small cache")
}

fn open(maker: &Maker, store: Store) -> Chain {
    let config = ChainConfig {
        spec: maker.spec.clone(),
        seals: SealCheck::Ethash(caches()),
        forks: chain::import::ForkLimits::default(),
        pool: PoolConfig::default(),
        beneficiary: MINER,
        extra_data: Default::default(),
        states: chain::import::StateRetention::Archive,
    };
    Chain::open(store, config).expect("the chain opens")
}

fn fresh(maker: &Maker) -> Chain {
    open(maker, Store::in_memory().expect("store"))
}

/// A nonce whose hash is below the boundary if `good`, otherwise one whose hash is above it.
fn search(package: &WorkPackage, good: bool) -> Solution {
    let cache = cache();
    let tried = (0..).map(|nonce| (nonce, cache.hash(&package.header_hash, nonce)));
    let (pow_nonce, found) = tried
        .into_iter()
        .find(|(_, found)| ethash::meets_boundary(&found.final_hash, &package.boundary) == good)
        .expect("there is one");
    Solution {
        header_hash: package.header_hash,
        pow_nonce,
        mix_hash: found.mix_hash,
    }
}

/// Makes a block and seals it. Other blocks can be made on it.
fn sealed(maker: &mut Maker, parent: B256, plan: Plan) -> Block {
    let mut block = maker.block(parent, plan);
    let package = WorkPackage {
        header_hash: block.header.header_hash(),
        seed_hash: B256::ZERO,
        boundary: ethash::boundary(&block.header.difficulty),
        number: None,
        epoch: ethash::Epoch::ethash(0),
    };
    let solution = search(&package, true);
    (block.header.pow_nonce, block.header.mix_hash) = (solution.pow_nonce, solution.mix_hash);
    maker.blocks.insert(block.hash(), block.clone());
    block
}

fn sealed_line(maker: &mut Maker, parent: B256, count: usize, mark: u8) -> Vec<Block> {
    let mut tip = parent;
    (0..count)
        .map(|_| {
            let block = sealed(maker, tip, Plan::marked(mark));
            tip = block.hash();
            block
        })
        .collect()
}

/// Waits for work for which `fits` is true.
fn work(chain: &Chain, fits: impl Fn(&WorkPackage) -> bool) -> WorkPackage {
    let started = Instant::now();
    loop {
        if let Some(package) = chain.work().current().filter(&fits) {
            return package;
        }
        assert!(started.elapsed() < Duration::from_secs(10), "no such work");
        std::thread::sleep(Duration::from_millis(3));
    }
}

fn work_for(chain: &Chain, number: u64) -> WorkPackage {
    work(chain, |package| package.number == Some(number))
}

fn is_head(imported: Imported) -> bool {
    matches!(imported, Imported::Head { .. })
}

fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("after 1970")
        .as_secs()
}

#[test]
fn work_is_solved_once() {
    let maker = Maker::new(easy_spec());
    let chain = fresh(&maker);
    let heads = chain.subscribe();
    let changes = chain.work().subscribe();
    assert_eq!(
        changes.recv_timeout(Duration::from_secs(1)).expect("at once"),
        None
    );
    let package = work_for(&chain, 1);
    assert_eq!(
        changes.recv_timeout(Duration::from_secs(1)).expect("the work"),
        Some(package.clone())
    );
    assert_eq!(package.boundary, ethash::boundary(&U256::from(2)));
    assert_eq!(package.seed_hash, B256::ZERO);

    let solution = search(&package, true);
    let refused = |solution: &Solution| match chain.submit_solution(solution) {
        Err(WriteError::Solution(error)) => error,
        other => panic!("{other:?}"),
    };
    let unknown = Solution {
        header_hash: B256::repeat_byte(1),
        ..solution
    };
    assert!(matches!(refused(&unknown), SolutionError::UnknownWork(_)));
    assert!(matches!(
        refused(&search(&package, false)),
        SolutionError::Seal(_)
    ));
    let mixed = Solution {
        mix_hash: B256::repeat_byte(2),
        ..solution
    };
    assert!(matches!(refused(&mixed), SolutionError::Seal(_)));
    assert!(heads.is_empty());

    assert!(is_head(chain.submit_solution(&solution).expect("accepted")));
    assert!(matches!(refused(&solution), SolutionError::Solved(_)));
    // Miners are told to stop before there is other work.
    assert_eq!(changes.recv_timeout(Duration::from_secs(1)).expect("told"), None);
    let event = heads.recv_timeout(Duration::from_secs(1)).expect("a head event");
    let view = chain.view().expect("view");
    assert_eq!(
        (event.reverted.len(), event.applied.as_slice()),
        (0, &[view.head_id()][..])
    );
    assert_eq!(view.head_number(), 1);
    let block = view.block(1).expect("read").expect("block 1");
    assert_eq!(block.record.header.header_hash(), package.header_hash);
    assert_eq!(block.record.header.pow_nonce, solution.pow_nonce);
    assert_eq!(
        view.account(&MINER, 1).expect("read").expect("paid").balance,
        coins(2)
    );
    work_for(&chain, 2);
}

#[test]
fn stale_work_makes_a_side_block_and_then_an_uncle() {
    let mut maker = Maker::new(easy_spec());
    let genesis = maker.genesis;
    let chain = fresh(&maker);
    let stale = work_for(&chain, 1);
    // Later blocks pay another account, so that the miner gets only the uncle's reward.
    chain.change_settings(|settings| settings.beneficiary = Address::repeat_byte(0xb2));
    let other = sealed(&mut maker, genesis, Plan::default());
    assert!(is_head(chain.import(other.clone()).expect("valid")));
    assert_eq!(
        chain.submit_solution(&search(&stale, true)).expect("still good"),
        Imported::Side
    );
    assert_eq!(chain.view().expect("view").head_hash(), other.hash());
    let side = chain.view().expect("view");
    assert_eq!(side.account(&MINER, 1).expect("read"), None);
    let lost = chain.sealed_blocks()[0].hash;
    let fate = || {
        let view = chain.view().expect("view");
        let header = view.known_header(&lost).expect("read").expect("known").header;
        view.block_fate(&lost, &header).expect("read")
    };
    assert_eq!(fate(), BlockFate::Side);
    for number in 2..=4 {
        let package = work_for(&chain, number);
        assert!(is_head(
            chain.submit_solution(&search(&package, true)).expect("accepted")
        ));
        let view = chain.view().expect("view");
        let block = view.block(number).expect("read").expect("mined");
        let included = |uncle: &primitives::Header| uncle.header_hash() == stale.header_hash;
        if block.body.uncles.iter().any(included) {
            let eighths = U256::from(8 - (number - 1));
            let paid = view.account(&MINER, number).expect("read").expect("paid").balance;
            assert_eq!(paid, coins(2) * eighths / U256::from(8));
            let uncle = BlockFate::Uncle {
                nephew: view.head_id(),
                reward: paid,
            };
            assert_eq!(fate(), uncle);
            let sealed = chain.sealed_blocks();
            assert_eq!(
                (sealed.len() as u64, sealed.last()),
                (number, Some(&view.head_id()))
            );
            return;
        }
    }
    panic!("no block has the side block as an uncle");
}

#[test]
fn a_side_block_alone_gives_new_work_that_includes_it() {
    let mut maker = Maker::new(easy_spec());
    let genesis = maker.genesis;
    let head = sealed_line(&mut maker, genesis, 2, 1);
    let side = sealed(&mut maker, genesis, Plan::marked(2));
    let chain = fresh(&maker);
    for block in &head {
        chain.import(block.clone()).expect("valid");
    }
    let old = work_for(&chain, 3);
    assert_eq!(chain.import(side.clone()).expect("valid"), Imported::Side);
    let new = work(&chain, |package| package.header_hash != old.header_hash);
    assert_eq!(new.number, Some(3));
    assert!(is_head(
        chain.submit_solution(&search(&new, true)).expect("accepted")
    ));
    let block = chain
        .view()
        .expect("view")
        .block(3)
        .expect("read")
        .expect("mined");
    assert_eq!(block.body.uncles, std::slice::from_ref(&side.header));
}

#[test]
fn a_block_reverted_twice_is_an_uncle_candidate_once() {
    let mut maker = Maker::new(easy_spec());
    let genesis = maker.genesis;
    let a = sealed_line(&mut maker, genesis, 3, 1);
    let b = sealed_line(&mut maker, genesis, 2, 2);
    let chain = fresh(&maker);
    for block in [&a[0], &b[0], &b[1], &a[1], &a[2]] {
        chain.import(block.clone()).expect("valid");
    }
    let view = chain.view().expect("view");
    assert_eq!(view.head_hash(), a[2].hash());
    let pending = chain.pending(&view).expect("a pending block");
    let uncles: Vec<_> = pending
        .block
        .uncles
        .iter()
        .map(primitives::Header::hash)
        .collect();
    assert_eq!(uncles, [b[0].hash()]);
    let package = work_for(&chain, 4);
    assert!(is_head(
        chain.submit_solution(&search(&package, true)).expect("accepted")
    ));
}

#[test]
fn the_pool_follows_heads_and_gets_reverted_transactions_back() {
    let mut maker = Maker::new(easy_spec());
    let genesis = maker.genesis;
    let chain = fresh(&maker);
    let first = sign(0, &unsigned(0, Some(account(1)), 1, &[]));
    let second = sign(0, &unsigned(1, Some(account(1)), 2, &[]));
    let third = sign(1, &unsigned(0, Some(account(2)), 3, &[]));
    for transaction in [&first, &second] {
        chain.submit_transaction(transaction.clone()).expect("taken");
    }
    let known = chain.submit_transaction(first.clone());
    assert!(matches!(known, Err(SubmitError::Pool(_))), "{known:?}");
    assert_eq!(chain.pool().counts(), (2, 0));
    // Block 1 has the first transaction and one that the pool never had.
    let a = sealed(&mut maker, genesis, Plan::with(vec![first.clone(), third]));
    chain.import(a).expect("valid");
    assert_eq!(chain.pool().counts(), (1, 0));
    assert!(chain.pool().get(&first.hash()).is_none());
    let late = chain.submit_transaction(first.clone());
    assert!(
        late.expect_err("mined already")
            .to_string()
            .contains("nonce too low")
    );
    // A heavier branch does not have them: all three are in the pool again.
    let b = sealed_line(&mut maker, genesis, 2, 2);
    assert_eq!(chain.import(b[0].clone()).expect("valid"), Imported::Side);
    assert_eq!(chain.pool().counts(), (1, 0));
    assert!(is_head(chain.import(b[1].clone()).expect("heavier")));
    assert_eq!(chain.pool().counts(), (3, 0));
    let view = chain.view().expect("view");
    assert_eq!(view.transaction(&first.hash()).expect("read").map(|_| ()), None);
    let pending = chain.pending(&view).expect("a pending block");
    assert_eq!(pending.block.transactions.len(), 3);
    assert_eq!(pending.total_difficulty, U256::from(512 + 2 * 3));
    // After they were mined, the pool is empty.
    let package = work(&chain, |package| package.number == Some(3));
    chain.submit_solution(&search(&package, true)).expect("accepted");
    let view = chain.view().expect("view");
    let mined = view
        .block(3)
        .expect("read")
        .expect("block 3")
        .body
        .transactions
        .len();
    assert_eq!((mined, chain.pool().counts()), (3, (0, 0)));
}

#[test]
fn a_better_transaction_gives_new_work_and_the_old_stays_valid() {
    let maker = Maker::new(easy_spec());
    let chain = fresh(&maker);
    let old = work_for(&chain, 1);
    let started = Instant::now();
    let transaction = sign(0, &unsigned(0, Some(account(1)), 1, &[]));
    let hash = chain.submit_transaction(transaction).expect("taken");
    let new = work(&chain, |package| package.header_hash != old.header_hash);
    assert!(started.elapsed() < Duration::from_secs(4));
    assert_eq!(new.number, Some(1));
    assert!(is_head(
        chain.submit_solution(&search(&new, true)).expect("the new")
    ));
    assert_eq!(
        chain.submit_solution(&search(&old, true)).expect("the old"),
        Imported::Side
    );
    let view = chain.view().expect("view");
    assert_eq!(view.transaction(&hash).expect("read").expect("mined").1, 0);
}

#[test]
fn no_block_is_ahead_of_the_clock() {
    let mut maker = Maker::new(easy_spec());
    let genesis = maker.genesis;
    let chain = fresh(&maker);
    let plan = |seconds| Plan {
        seconds,
        ..Plan::default()
    };
    let future = sealed(&mut maker, genesis, plan(now() + 100));
    let error = chain.import(future).expect_err("ahead of the clock");
    assert!(
        matches!(
            error,
            WriteError::Import(ImportError::Header(HeaderError::Future { .. }))
        ),
        "{error}"
    );
    let present = sealed(&mut maker, genesis, plan(now()));
    chain.import(present.clone()).expect("just in time");
    let package = work_for(&chain, 2);
    let at = now();
    chain.submit_solution(&search(&package, true)).expect("accepted");
    let stamp = chain.view().expect("view").head().header.timestamp;
    assert!(
        stamp > present.header.timestamp && stamp <= at,
        "{stamp}, the clock said {at}"
    );
}

#[test]
fn there_is_other_work_after_a_refused_block() {
    let maker = Maker::new(easy_spec());
    let chain = fresh(&maker);
    // Extra data may have 32 bytes. The work manager does not check this.
    chain.change_settings(|settings| settings.extra_data = vec![0; 33].into());
    let package = work_for(&chain, 1);
    let error = chain
        .submit_solution(&search(&package, true))
        .expect_err("refused");
    assert!(
        matches!(
            error,
            WriteError::Import(ImportError::Header(HeaderError::ExtraData { .. }))
        ),
        "{error}"
    );
    work(&chain, |other| other.header_hash != package.header_hash);
}

#[test]
fn stopping_finishes_the_current_block() {
    let mut maker = Maker::new(easy_spec());
    let genesis = maker.genesis;
    let blocks = sealed_line(&mut maker, genesis, 120, 1);
    let store = Store::in_memory().expect("store");
    let chain = open(&maker, store.clone());
    let importing = {
        let (chain, blocks) = (chain.clone(), blocks.clone());
        std::thread::spawn(move || {
            let mut imported = 0;
            for block in blocks {
                match chain.import(block) {
                    Ok(_) => imported += 1,
                    Err(WriteError::Stopping) => return (imported, true),
                    Err(other) => panic!("{other}"),
                }
            }
            (imported, false)
        })
    };
    while chain.view().expect("view").head_number() < 5 {
        std::thread::yield_now();
    }
    chain.stop();
    let (imported, stopped) = importing.join().expect("no panic");
    let view = chain.view().expect("reads still work");
    assert_eq!(view.head_number(), imported);
    assert!(stopped || imported == 120);
    assert!(matches!(
        chain.import(blocks[119].clone()),
        Err(WriteError::Stopping)
    ));
    chain.stop();
    drop(view);
    drop(chain);
    let tip = blocks[imported as usize - 1].hash();
    assert!(
        rows(&store) == rows(&maker.fresh(tip)),
        "the rows are those of block {imported}"
    );
    // After a restart the next blocks can be imported.
    let chain = open(&maker, store);
    for block in &blocks[imported as usize..] {
        assert!(is_head(chain.import(block.clone()).expect("valid")));
    }
    assert_eq!(chain.view().expect("view").head_hash(), blocks[119].hash());
}

#[test]
fn sender_states_are_never_older_than_the_head() {
    let mut maker = Maker::new(easy_spec());
    let mut tip = maker.genesis;
    let mut blocks = Vec::new();
    let transfer = |nonce| sign(0, &unsigned(nonce, Some(account(1)), 1, &[]));
    for nonce in 0..40 {
        let block = sealed(&mut maker, tip, Plan::with(vec![transfer(nonce)]));
        tip = block.hash();
        blocks.push(block);
    }
    let chain = fresh(&maker);
    // While heads change, the transaction with the next nonce is submitted again and again.
    let importing = {
        let chain = chain.clone();
        std::thread::spawn(move || {
            for block in blocks {
                drop(chain.import(block).expect("valid"));
            }
        })
    };
    let mut price = 1_000_000_000u64;
    while !importing.is_finished() {
        let mut last = unsigned(40, Some(account(1)), 1, &[]);
        // At the bound the account can still pay.
        price = (price + price / 9).min(1 << 46);
        last.gas_price = U256::from(price);
        let _ = chain.submit_transaction(sign(0, &last));
        std::thread::sleep(Duration::from_millis(1));
    }
    importing.join().expect("imported");
    assert_eq!(chain.pool().next_nonce(&account(0)), Some(41));
    assert_eq!(chain.pool().counts(), (1, 0));
}

#[test]
fn blocks_are_imported_together() {
    let mut maker = Maker::new(easy_spec());
    let genesis = maker.genesis;
    let light = sealed_line(&mut maker, genesis, 3, 1);
    let mut heavy = sealed_line(&mut maker, genesis, 6, 2);
    let chain = fresh(&maker);
    let heads = chain.subscribe();
    let import = |blocks: &[Block]| {
        let headers = blocks.iter().map(|block| block.header.clone()).collect();
        chain.import_headers(headers).expect("right headers");
        let prepared = chain.prepare(blocks.to_vec()).expect("the store works");
        assert!(prepared.iter().all(chain::import::PreparedBlock::body_is_right));
        let prepared = prepared.into_iter().map(Arc::new).collect();
        chain.import_many(prepared).expect("the chain runs")
    };
    let done = import(&light);
    assert!(done.stored == 3 && done.refused.is_none());
    let event = heads.try_recv().expect("one event for one run");
    assert_eq!((event.reverted.len(), event.applied.len()), (0, 3));
    assert!(heads.try_recv().is_err());
    // Side blocks first, then a reorganization, then children of the head.
    let done = import(&heavy[..5]);
    assert!(done.stored == 5 && done.refused.is_none());
    let event = heads.try_recv().expect("the reorganization");
    assert_eq!((event.reverted.len(), event.applied.len()), (3, 4));
    assert_eq!(heads.try_recv().expect("the rest").applied.len(), 1);
    // A block with another body is refused, and the ones before it are stored.
    let again = chain.prepare(heavy.clone()).expect("the store works");
    heavy[5]
        .transactions
        .push(sign(0, &unsigned(0, Some(account(1)), 1, &[])));
    let mut again: Vec<_> = again.into_iter().take(5).map(Arc::new).collect();
    again.extend(
        chain
            .prepare(heavy[5..].to_vec())
            .expect("the store works")
            .into_iter()
            .map(Arc::new),
    );
    assert!(!again[5].body_is_right());
    let done = chain.import_many(again).expect("the chain runs");
    assert_eq!(done.stored, 5);
    let refused = done.refused.expect("the last one is refused").to_string();
    assert!(refused.starts_with("transactions root: got "), "{refused}");
    assert_eq!(chain.view().expect("view").head_hash(), heavy[4].hash());
}

#[test]
fn no_work_is_made_while_it_is_paused() {
    let maker = Maker::new(easy_spec());
    let chain = fresh(&maker);
    chain.work().set_mining(true);
    let package = work_for(&chain, 1);
    let behind = WorkPause::Behind { head: 0, highest: 99 };
    chain.pause_work(Some(behind));
    assert_eq!(chain.work_pause(), Some(behind));
    let started = Instant::now();
    while chain.work().current().is_some() {
        assert!(
            started.elapsed() < Duration::from_secs(10),
            "the work is taken away"
        );
        std::thread::sleep(Duration::from_millis(3));
    }
    // A solution of work that was handed out before still counts.
    assert!(is_head(
        chain
            .submit_solution(&search(&package, true))
            .expect("a solution")
    ));
    assert_eq!(chain.work().current(), None);
    chain.pause_work(None);
    work_for(&chain, 2);
}

#[test]
fn some_bodies_are_known_from_their_headers() {
    let check = |spec: ChainSpec, is_plain: [bool; 2]| {
        let mut maker = Maker::new(spec);
        let empty = maker.block(maker.genesis, Plan::default());
        let transfer = sign(0, &unsigned(0, Some(account(1)), 1, &[]));
        let full = maker.block(empty.hash(), Plan::with(vec![transfer]));
        for (block, is_plain) in [empty, full].into_iter().zip(is_plain) {
            let plain = plain_transactions(&maker.spec, &block.header);
            assert_eq!(plain, is_plain.then_some(block.transactions));
        }
    };
    check(easy_spec(), [true, false]);
    let with_system = ChainSpec {
        system_contract: true,
        ..easy_spec()
    };
    check(with_system, [true, false]);
}
