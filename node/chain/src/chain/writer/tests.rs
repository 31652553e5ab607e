//! The writer when its jobs fail, panic, or have no space.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ethash::Solution;
use primitives::{Address, B256, Bytes, Header, U256};
use store::Store;

use super::*;
use crate::chain::{Chain, ChainConfig, WriteError};
use crate::import::{ForkLimits, StateRetention};
use crate::mining::work::SolutionError;
use crate::pool::PoolConfig;
use crate::rules::HeaderError;
use crate::rules::seal::SealCheck;
use crate::spec::ChainSpec;

fn open(jobs: WriterJobs) -> Chain {
    open_on(Store::in_memory().unwrap(), jobs)
}

fn open_on(store: Store, jobs: WriterJobs) -> Chain {
    let config = ChainConfig {
        spec: Arc::new(ChainSpec::dev()),
        seals: SealCheck::Off,
        forks: ForkLimits::default(),
        pool: PoolConfig::default(),
        beneficiary: Address::repeat_byte(1),
        extra_data: Bytes::new(),
        states: StateRetention::Archive,
    };
    Chain::start(store, config, jobs).unwrap()
}

/// Jobs of a node whose store is empty. The tests replace what they use.
fn node_jobs() -> WriterJobs {
    let spec = Arc::new(ChainSpec::dev());
    WriterJobs::of(&Importer::new(Store::in_memory().unwrap(), spec, SealCheck::Off))
}

fn no_space() -> ImportError {
    ImportError::Store(StoreError::Full {
        path: "of the test".into(),
        source: std::io::ErrorKind::StorageFull.into(),
    })
}

/// A chain whose imports find no space while the flag is set, and a solution of its work.
fn full_chain() -> (Chain, Arc<AtomicBool>, Solution) {
    let store = Store::in_memory().unwrap();
    let importer = Importer::new(store.clone(), Arc::new(ChainSpec::dev()), SealCheck::Off);
    let is_full = Arc::new(AtomicBool::new(true));
    let full = is_full.clone();
    let chain = open_on(
        store,
        WriterJobs {
            import: Box::new(move |block, _| match full.load(Ordering::Acquire) {
                true => Err(no_space()),
                false => importer.import(block, None),
            }),
            follow: ChainInner::follow_import,
            set_head: Box::new(|_| Ok(Vec::new())),
            ..node_jobs()
        },
    );
    let package = wait_for(|| chain.work().current());
    let solution = Solution {
        header_hash: package.header_hash,
        pow_nonce: 7,
        mix_hash: B256::ZERO,
    };
    (chain, is_full, solution)
}

#[test]
fn work_that_was_made_before_the_followers_knew_the_head_is_made_again() {
    let store = Store::in_memory().unwrap();
    let importer = Importer::new(store.clone(), Arc::new(ChainSpec::dev()), SealCheck::Off);
    let chain = open_on(
        store,
        WriterJobs {
            follow: |inner, block, _| {
                // The work maker is faster than the followers, and the pool stays as it is.
                let next = Some(block.header.number + 1);
                wait_for(|| inner.work.current().filter(|work| work.number == next));
                inner.withdraw_work();
                Ok(())
            },
            ..WriterJobs::of(&importer)
        },
    );
    let package = wait_for(|| chain.work().current());
    let solution = Solution {
        header_hash: package.header_hash,
        pow_nonce: 7,
        mix_hash: B256::ZERO,
    };
    chain.submit_solution(&solution).expect("the work is open");
    let next = wait_for(|| chain.work().current());
    assert_eq!(next.number, Some(2));
}

fn wait_for<T>(mut get: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(value) = get() {
            return value;
        }
        assert!(started.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn block(number: u64) -> Block {
    let header = Header {
        number,
        difficulty: U256::from(512),
        ..Default::default()
    };
    Block {
        header,
        ..Default::default()
    }
}

#[test]
fn a_panic_while_something_is_written_refuses_that_alone() {
    let imports = Arc::new(AtomicU64::new(0));
    let count = imports.clone();
    let import = move |block: &Block, _now| {
        assert!(block.header.number != 2, "of the test");
        count.fetch_add(1, Ordering::AcqRel);
        Ok(Imported::Known)
    };
    let chain = open(WriterJobs {
        import: Box::new(import),
        follow: |_, _, _| Ok(()),
        set_head: Box::new(|_| panic!("of the test")),
        ..node_jobs()
    });
    chain.import(block(1)).unwrap();
    let refused = chain.import(block(2)).unwrap_err();
    assert!(
        matches!(&refused, WriteError::Import(ImportError::Panicked(message)) if *message == "of the test".into()),
        "{refused}"
    );
    assert_eq!(chain.failure(), None);
    let refused = chain.set_head(0).unwrap_err();
    assert!(
        matches!(&refused, WriteError::Import(ImportError::Panicked(message)) if *message == "of the test".into()),
        "{refused}"
    );
    assert_eq!(chain.failure(), None);
    chain.import(block(3)).unwrap();
    assert_eq!(imports.load(Ordering::Acquire), 2);
}

#[test]
fn a_panic_after_a_block_got_in_ends_the_chain_with_a_reason() {
    let jobs = WriterJobs {
        import: Box::new(|_, _| Ok(Imported::Side)),
        follow: |_, _, _| panic!("of the test"),
        set_head: Box::new(|_| Ok(Vec::new())),
        ..node_jobs()
    };
    let chain = open(jobs);
    let first = chain.import(block(1));
    assert!(first.is_ok(), "the block is in: {first:?}");
    let started = Instant::now();
    while chain.failure().is_none() {
        assert!(started.elapsed() < Duration::from_secs(10));
        std::thread::yield_now();
    }
    let reason = chain.failure().unwrap();
    assert!(reason.contains("following block 1"), "{reason}");
    let late = chain.import(block(2)).unwrap_err();
    assert!(matches!(late, WriteError::Failed(_)), "{late}");
    assert_eq!(chain.view().unwrap().head_number(), 0);
}

#[test]
fn a_sealed_block_that_found_no_space_is_stored_later() {
    let (chain, is_full, solution) = full_chain();
    let heads = chain.subscribe();
    let no_space_for = |solution: &Solution| match chain.submit_solution(solution) {
        Err(WriteError::Import(error)) => error.store_error().is_some_and(StoreError::wants_space),
        other => panic!("{other:?}"),
    };
    assert!(no_space_for(&solution));
    assert!(no_space_for(&solution), "the same solution may come again");
    let other = Solution {
        pow_nonce: 8,
        ..solution
    };
    let refused = chain.submit_solution(&other).unwrap_err();
    assert!(
        matches!(refused, WriteError::Solution(SolutionError::Solved(_))),
        "{refused}"
    );
    is_full.store(false, Ordering::Release);
    let event = heads.recv_timeout(Duration::from_secs(60)).unwrap();
    let head = chain.view().unwrap().head().header.clone();
    assert_eq!(event.applied.last().unwrap().hash, head.hash());
    assert_eq!(
        (head.header_hash(), head.pow_nonce),
        (solution.header_hash, solution.pow_nonce)
    );
    // The one who got an error learns now that the block is there.
    assert_eq!(chain.submit_solution(&solution).unwrap(), Imported::Known);
    let again = chain.submit_solution(&solution).unwrap_err();
    assert!(
        matches!(again, WriteError::Solution(SolutionError::Solved(_))),
        "{again}"
    );
    assert_eq!(chain.failure(), None);
}

#[test]
fn a_sealed_block_that_found_no_space_is_tried_again_when_the_chain_stops() {
    let (chain, is_full, solution) = full_chain();
    chain.submit_solution(&solution).unwrap_err();
    is_full.store(false, Ordering::Release);
    chain.stop();
    assert_eq!(
        chain.view().unwrap().head().header.header_hash(),
        solution.header_hash
    );
}

#[test]
fn a_block_that_was_stored_before_does_not_end_the_pause() {
    let import = |block: &Block, _now| match block.header.number {
        1 => Err(no_space()),
        2 => Ok(Imported::Known),
        _ => Ok(Imported::Side),
    };
    let chain = open(WriterJobs {
        import: Box::new(import),
        follow: |_, _, _| Ok(()),
        set_head: Box::new(|_| Ok(Vec::new())),
        ..node_jobs()
    });
    let pauses = || chain.inner.store_failed_at.lock().is_some();
    chain.import(block(1)).unwrap_err();
    assert!(pauses());
    chain.import(block(2)).unwrap();
    assert!(pauses());
    chain.import(block(3)).unwrap();
    assert!(!pauses());
}

#[test]
fn no_block_is_imported_after_another_thread_has_ended_the_chain() {
    let imports = Arc::new(AtomicU64::new(0));
    let count = imports.clone();
    let chain = open(WriterJobs {
        import: Box::new(move |_, _| {
            count.fetch_add(1, Ordering::AcqRel);
            Ok(Imported::Side)
        }),
        follow: |_, _, _| Ok(()),
        set_head: Box::new(|_| Ok(Vec::new())),
        ..node_jobs()
    });
    chain.inner.fail("of the test".to_owned());
    for number in 1..=2 {
        let late = chain.import(block(number)).unwrap_err();
        assert!(
            matches!(&late, WriteError::Failed(reason) if reason == "of the test"),
            "{late}"
        );
    }
    assert_eq!(imports.load(Ordering::Acquire), 0);
}

/// A chain whose clock the test sets, and an importer that makes its blocks elsewhere.
fn chain_with_clock() -> (Chain, Arc<AtomicU64>) {
    let store = Store::in_memory().unwrap();
    let spec = Arc::new(ChainSpec::dev());
    let importer = Importer::new(store.clone(), spec, SealCheck::Off);
    let now = Arc::new(AtomicU64::new(0));
    let clock = now.clone();
    let jobs = WriterJobs {
        clock: Box::new(move || clock.load(Ordering::Acquire)),
        ..WriterJobs::of(&importer)
    };
    let chain = open_on(store, jobs);
    (chain, now)
}

/// Blocks of one second each, made on another chain.
fn line(count: u64) -> Vec<Block> {
    let (other, now) = chain_with_clock();
    now.store(u64::MAX, Ordering::Release);
    let block = |_| {
        let view = other.view().unwrap();
        let timestamp = view.head().header.timestamp + 1;
        let block = other.inner.build_block(&view, timestamp).unwrap().block;
        assert!(matches!(
            other.import(block.clone()).unwrap(),
            Imported::Head { .. }
        ));
        block
    };
    (0..count).map(block).collect()
}

#[test]
fn a_block_a_little_ahead_of_the_clock_is_imported_when_its_time_has_come() {
    let blocks = line(AHEAD_SECS_MAX + 1);
    let first = blocks[0].header.timestamp;
    let (chain, now) = chain_with_clock();
    let import = |block: &Block| chain.import(block.clone());
    now.store(first - 1, Ordering::Release);
    // The parent of the last block waits, too. Only a block that is too far ahead is refused.
    let (last, early) = blocks.split_last().unwrap();
    let orphan = import(&early[1]).unwrap_err();
    assert!(
        matches!(orphan, WriteError::Import(ImportError::UnknownParent(_))),
        "{orphan}"
    );
    for block in early.iter().chain(&early[..1]) {
        assert_eq!(import(block).unwrap(), Imported::Later);
    }
    let refused = import(last).unwrap_err();
    let latest = first - 1 + AHEAD_SECS_MAX;
    assert!(
        matches!(&refused, WriteError::Import(ImportError::Header(HeaderError::Future { got, latest: allowed }))
            if *got == last.header.timestamp && *allowed == latest),
        "{refused}"
    );
    let mut bad = early[0].clone();
    bad.header.difficulty += U256::from(1);
    let refused = import(&bad).unwrap_err();
    assert!(
        matches!(
            refused,
            WriteError::Import(ImportError::Header(HeaderError::Difficulty { .. }))
        ),
        "{refused}"
    );
    assert_eq!(chain.view().unwrap().head_number(), 0);
    // Any command makes the writer look at the clock.
    now.store(first + 1, Ordering::Release);
    assert_eq!(import(&early[0]).unwrap(), Imported::Known);
    assert_eq!(chain.view().unwrap().head_id(), id(&early[1]));
    // Without a command it looks, too.
    let heads = chain.subscribe();
    now.store(last.header.timestamp, Ordering::Release);
    let mut applied = Vec::new();
    while applied.len() < early.len() - 2 {
        let event = heads.recv_timeout(Duration::from_secs(60)).unwrap();
        applied.extend(event.applied.clone());
    }
    assert_eq!(applied, early[2..].iter().map(id).collect::<Vec<_>>());
    assert!(matches!(import(last).unwrap(), Imported::Head { .. }));
}

fn id(block: &Block) -> BlockId {
    BlockId {
        number: block.header.number,
        hash: block.hash(),
    }
}

#[test]
fn headers_are_stored_by_the_writer_and_forgotten_on_request() {
    let blocks = line(4);
    let (chain, now) = chain_with_clock();
    now.store(u64::MAX, Ordering::Release);
    let headers = || blocks.iter().map(|block| block.header.clone()).collect();
    let imported = chain.import_headers(headers()).unwrap();
    assert_eq!((imported.added, imported.best), (4, id(&blocks[3])));
    assert_eq!(chain.import_headers(headers()).unwrap().added, 0);
    assert!(matches!(
        chain.import(blocks[0].clone()).unwrap(),
        Imported::Head { .. }
    ));
    let view = chain.view().unwrap();
    assert_eq!(view.head_id(), id(&blocks[0]));
    assert_eq!(view.missing_bodies(2).unwrap(), [id(&blocks[1]), id(&blocks[2])]);
    chain.forget_headers(blocks[2].hash()).unwrap();
    chain.forget_headers(blocks[0].hash()).unwrap();
    let view = chain.view().unwrap();
    assert_eq!(view.best_header().unwrap(), id(&blocks[1]));
    assert!(view.known_header(&blocks[3].hash()).unwrap().is_none());
    let mut bad: Vec<Header> = headers();
    bad[3].gas_used = u64::MAX;
    let refused = chain.import_headers(bad).unwrap_err();
    assert!(
        matches!(
            &refused,
            WriteError::Import(ImportError::OfHeader { number: 4, .. })
        ),
        "{refused}"
    );
}
