//! Chains on disks that fill up, break or flip bytes. Nothing that was committed is lost, and
//! nothing else is served. Answers are right, or errors. The chain continues, or gives a reason why
//! it does not.

use std::fmt::Debug;
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use chain::call::{CallRequest, StateAt, TIMEOUT_DEFAULT};
use chain::chain::WriteError;
use chain::genesis::ensure_genesis;
use chain::import::stream_import::{StreamImportError, StreamImportProgress, import_stream};
use chain::import::{ForkLimits, Importer};
use chain::pool::PoolConfig;
use chain::rules::seal::SealCheck;
use chain::{Chain, ChainConfig, ChainSpec, View};
use ethash::Solution;
use primitives::{Address, B256, Block, Transaction, U256};
use store::{BlockReads, Store, StoreOptions, TableId, quiet_contained_panics};

use crate::common::{Maker, Plan, account, deploys, hex, rows, sign, unsigned};
use crate::disk::{Disk, DiskFault, FileName};

const DATABASE: usize = FileName::Database as usize;

fn open(disk: &Arc<Disk>) -> Result<Store, store::StoreError> {
    // The cache is small so that pages are read from the disk again and again.
    let options = StoreOptions {
        cache_bytes: 64 << 10,
        ..StoreOptions::default()
    };
    disk.open_store(&options)
}

/// A chain with contracts, storage, an uncle and a reorganization.
struct Scene {
    maker: Maker,
    contract: Address,
    /// In the order of their import. In this order they are valid.
    blocks: Vec<Block>,
}

fn scene() -> Scene {
    let mut maker = Maker::new(ChainSpec::dev());
    let genesis = maker.genesis;
    let contract = Transaction::created_address(&account(0), 0);
    // SSTORE(word 0, word 1), LOG0.
    let code = deploys(&hex("6020 35 6000 35 55 6020 6000 a0"));
    let write = |nonce, slot, value| {
        let data = [B256::with_last_byte(slot), B256::with_last_byte(value)].concat();
        sign(0, &unsigned(nonce, Some(contract), 0, &data))
    };
    let create = sign(0, &unsigned(0, None, 0, &code));
    let one = maker.block(genesis, Plan::with(vec![create]));
    let two = maker.block(one.hash(), Plan::with(vec![write(1, 1, 5), write(2, 2, 6)]));
    let lost = maker.block(two.hash(), Plan::with(vec![write(3, 1, 0)]));
    let side = maker.block(two.hash(), Plan::marked(1));
    let more = maker.block(side.hash(), Plan::with(vec![write(3, 1, 9), write(4, 3, 3)]));
    let mut with_uncle = Plan::with(vec![write(5, 2, 0)]);
    with_uncle.uncles = vec![lost.header.clone()];
    let last = maker.block(more.hash(), with_uncle);
    let blocks = vec![one, two, lost, side, more, last];
    Scene {
        maker,
        contract,
        blocks,
    }
}

fn head(store: &Store) -> B256 {
    let head = store.snapshot().expect("snapshot").head().expect("read");
    head.expect("a head").1
}

impl Scene {
    /// A disk with block 0, and an importer on it.
    fn begin(&self) -> (Arc<Disk>, Store, Importer) {
        let disk = Arc::new(Disk::default());
        let store = open(&disk).expect("a good disk");
        ensure_genesis(&store, &self.maker.spec).expect("a good disk");
        let importer = Importer::new(store.clone(), self.maker.spec.clone(), SealCheck::Off);
        (disk, store, importer)
    }

    /// All rows after the import of no block, one block, two blocks and so on.
    fn models(&self) -> Vec<crate::common::Rows> {
        let (_, store, importer) = self.begin();
        let mut models = vec![rows(&store)];
        for block in &self.blocks {
            importer.import(block, None).expect("valid");
            models.push(rows(&store));
        }
        models
    }
}

#[test]
fn an_import_that_meets_a_full_disk_changes_nothing_and_can_be_done_again() {
    let scene = scene();
    let models = scene.models();
    let (disk, _, importer) = scene.begin();
    let first = disk.operations();
    for block in &scene.blocks {
        importer.import(block, None).expect("valid");
    }
    let last = disk.operations();
    let (mut met, mut landed) = (0, 0);
    for at in (first..last).step_by(3) {
        let (disk, store, importer) = scene.begin();
        let kind = if at % 2 == 0 {
            DiskFault::Full
        } else {
            DiskFault::NoGrowth
        };
        disk.fail_from(at, kind);
        for (index, block) in scene.blocks.iter().enumerate() {
            let Err(error) = importer.import(block, None) else {
                continue;
            };
            met += 1;
            let cause = error.store_error().expect("the disk is at fault, not the block");
            assert!(cause.wants_space(), "{error}");
            disk.repair();
            // A commit can report an error after its last write. Then the block is stored.
            let now = rows(&store);
            landed += u64::from(now == models[index + 1]);
            assert!(
                now == models[index] || now == models[index + 1],
                "operation {at}: only a part of block {index} was written"
            );
            importer.import(block, None).expect("there is space again");
        }
        disk.repair();
        assert!(rows(&store) == models[scene.blocks.len()], "operation {at}");
    }
    println!(
        "{met} imports of {} met a full disk; {landed} were stored all the same",
        (last - first).div_ceil(3)
    );
    assert!(met > (last - first) / 8);
}

/// Gives its portions one by one, each when it is asked for; then it says that it has ended.
struct Portions {
    portions: std::vec::IntoIter<Vec<u8>>,
    asked: Receiver<()>,
    ended: Sender<()>,
}

impl Read for Portions {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let Some(portion) = self.portions.next() else {
            let _ = self.ended.send(());
            return Ok(0);
        };
        let _ = self.asked.recv();
        buffer[..portion.len()].copy_from_slice(&portion);
        Ok(portion.len())
    }
}

#[test]
fn an_import_of_a_stream_ends_if_the_store_fails_between_two_runs() {
    let scene = scene();
    let (disk, store, importer) = scene.begin();
    let portions = [&scene.blocks[..1], &scene.blocks[1..2]]
        .map(|blocks| blocks.iter().flat_map(Block::encode).collect::<Vec<u8>>());
    let ((ask, asked), (ended, end), (done, result)) = (channel(), channel(), channel());
    let input = Portions {
        portions: Vec::from(portions).into_iter(),
        asked,
        ended,
    };
    ask.send(()).expect("the reader waits");
    std::thread::spawn(move || {
        let mut is_broken = false;
        let report = |progress: &StreamImportProgress| {
            if progress.blocks == 1 && !is_broken {
                is_broken = true;
                // The second block is read and checked, and waits for its run.
                ask.send(()).expect("the reader waits");
                end.recv().expect("the stream ends");
                // Then a commit fails, and the file cannot be opened again.
                disk.fail_from(0, DiskFault::Broken);
                let batch = store.batch().expect("it is open");
                batch
                    .write(|tables| tables.put(TableId::HashToCode, b"k", b"v"))
                    .expect("in memory");
                batch.commit().expect_err("the disk is broken");
            }
        };
        let stop = AtomicBool::new(false);
        let _ = done.send(import_stream(&importer, Box::new(input), &stop, report));
    });
    let result = result.recv_timeout(Duration::from_secs(60));
    let error = result.expect("the import ends").expect_err("the disk is broken");
    assert!(
        matches!(&error, StreamImportError::Store(error) if error.is_final()),
        "{error}"
    );
}

fn run(scene: &Scene, disk: &Arc<Disk>) -> Chain {
    run_limited(scene, disk, ForkLimits::default())
}

fn run_limited(scene: &Scene, disk: &Arc<Disk>, forks: ForkLimits) -> Chain {
    let config = ChainConfig {
        spec: scene.maker.spec.clone(),
        seals: SealCheck::Off,
        forks,
        pool: PoolConfig::default(),
        beneficiary: Address::repeat_byte(0xa1),
        extra_data: Default::default(),
        states: chain::import::StateRetention::Archive,
    };
    Chain::open(open(disk).expect("a good disk"), config).expect("the chain opens")
}

#[test]
fn a_running_chain_survives_a_full_disk() {
    let scene = scene();
    let disk = Arc::new(Disk::default());
    let chain = run(&scene, &disk);
    let blocks = &scene.blocks;
    chain.import(blocks[0].clone()).expect("valid");
    let wait = |what: &str, expected: bool| {
        let started = Instant::now();
        while chain.work().current().is_some() != expected {
            assert!(started.elapsed() < Duration::from_secs(30), "waited for {what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    wait("work", true);
    disk.fail_from(0, DiskFault::NoGrowth);
    let refused = blocks
        .iter()
        .skip(1)
        .find_map(|block| match chain.import(block.clone()) {
            Ok(_) => None,
            Err(WriteError::Import(error)) => Some((block, error.to_string())),
            Err(other) => panic!("{other}"),
        });
    let (block, text) = refused.expect("there is no space for all of them");
    for word in ["(medium)", "committed", "free space"] {
        assert!(text.contains(word), "{word} in {text}");
    }
    assert_eq!(chain.failure(), None);
    let view = chain.view().expect("reads still work");
    let stored = view.header_by_hash(&block.hash()).expect("read");
    assert!(stored.is_none(), "what was not committed is not served");
    assert!(view.block(1).expect("read").is_some());
    drop(view);
    // No work is made for blocks that could not be stored.
    wait("no work", false);
    disk.repair();
    for block in &blocks[1..] {
        chain.import(block.clone()).expect("there is space again");
    }
    wait("work", true);
    drop(chain);
    let store = open(&disk).expect("a whole database");
    assert_eq!(head(&store), blocks.last().expect("blocks").hash());
}

#[test]
fn a_sealed_block_is_stored_when_there_is_space_again() {
    let scene = scene();
    let disk = Arc::new(Disk::default());
    let chain = run(&scene, &disk);
    let started = Instant::now();
    let package = loop {
        if let Some(package) = chain.work().current() {
            break package;
        }
        assert!(started.elapsed() < Duration::from_secs(30), "no work");
        std::thread::sleep(Duration::from_millis(5));
    };
    let heads = chain.subscribe();
    disk.fail_from(0, DiskFault::Full);
    let solution = Solution {
        header_hash: package.header_hash,
        pow_nonce: 7,
        mix_hash: B256::ZERO,
    };
    let error = chain.submit_solution(&solution).expect_err("there is no space");
    assert!(error.to_string().contains("free space"), "{error}");
    disk.repair();
    // Nobody sends another block.
    let event = heads.recv_timeout(Duration::from_secs(60)).expect("a new head");
    let view = chain.view().expect("a good disk");
    assert_eq!(event.applied, [view.head_id()]);
    assert_eq!(view.head().header.header_hash(), package.header_hash);
    assert_eq!(chain.sealed_blocks(), [view.head_id()]);
}

#[test]
fn subscribers_get_every_head_although_the_disk_is_full() {
    let scene = scene();
    let (mut tried, mut landed) = (0, 0);
    // Block 1, whose commit also makes the file shorter after its last write, then block 2.
    for met in [0, 1] {
        let (before, rest) = scene.blocks[..3].split_at(met);
        let (disk, _, importer) = scene.begin();
        for block in before {
            importer.import(block, None).expect("valid");
        }
        let first = disk.operations();
        importer.import(&rest[0], None).expect("valid");
        for at in 0..disk.operations() - first {
            let disk = Arc::new(Disk::default());
            let chain = run(&scene, &disk);
            for block in before {
                chain.import(block.clone()).expect("valid");
            }
            let heads = chain.subscribe();
            disk.fail_from(disk.operations() + at, DiskFault::Full);
            let refused = chain.import(rest[0].clone()).is_err();
            disk.repair();
            let head = chain.view().expect("a good disk").head_number();
            tried += 1;
            landed += u32::from(refused && head == rest[0].header.number);
            for block in rest {
                chain.import(block.clone()).expect("a good disk");
            }
            drop(chain);
            let applied = heads.iter().flat_map(|event| event.applied.clone());
            let events: Vec<u64> = applied.map(|id| id.number).collect();
            let expected: Vec<u64> = rest.iter().map(|block| block.header.number).collect();
            assert_eq!(events, expected, "operation {at}");
        }
    }
    println!("{landed} of {tried} blocks were there after they had been refused");
    assert!(landed > 0, "none of {tried}");
}

/// Blocks of each of [`TwoBranches`] up to the same difficulty.
const LENGTH: usize = 8;

/// A branch with a payment in its block 4, and one that becomes heavier with its last two blocks.
struct TwoBranches {
    old: Vec<Block>,
    new: Vec<Block>,
    payment: B256,
}

fn two_branches(maker: &mut Maker) -> TwoBranches {
    let pay = sign(1, &unsigned(0, Some(account(2)), 7, &[]));
    let mut parent = maker.genesis;
    let mut old = Vec::new();
    for number in 0..LENGTH {
        let mut plan = Plan::marked(1);
        plan.transactions.extend((number == 3).then(|| pay.clone()));
        let block = maker.block(parent, plan);
        parent = block.hash();
        old.push(block);
    }
    TwoBranches {
        old,
        new: maker.line(maker.genesis, LENGTH + 2, 2),
        payment: pay.hash(),
    }
}

/// A reorganization has parts of two blocks.
fn in_small_parts() -> ForkLimits {
    ForkLimits {
        reorg_part_blocks: 2,
        ..ForkLimits::default()
    }
}

#[test]
fn the_payments_of_a_branch_wait_again_after_a_restart_between_two_parts() {
    let mut scene = scene();
    let TwoBranches { old, new, payment } = two_branches(&mut scene.maker);
    for at in 0.. {
        let disk = Arc::new(Disk::default());
        let chain = run_limited(&scene, &disk, in_small_parts());
        for block in old.iter().chain(&new[..LENGTH]) {
            chain.import(block.clone()).expect("valid");
        }
        disk.fail_from(disk.operations() + at, DiskFault::NoGrowth);
        chain
            .import(new[LENGTH].clone())
            .expect_err("the reorganization needs space");
        let between = chain.view().expect("the disk can be read").head_number();
        if between >= 4 {
            // Block 4 is not taken back yet.
            continue;
        }
        assert!(chain.pool().contains(&payment), "it is not told to wait");
        drop(chain);
        disk.repair();
        let chain = run_limited(&scene, &disk, in_small_parts());
        assert_eq!(chain.view().expect("a good disk").head_hash(), new[LENGTH].hash());
        assert!(chain.pool().contains(&payment));
        return;
    }
}

#[test]
fn followers_learn_of_a_reorganization_that_a_full_disk_has_cut_short_twice() {
    let mut scene = scene();
    let TwoBranches { old, new, payment } = two_branches(&mut scene.maker);
    // Fails from operation `at` of the reorganization on. Returns whether that stood between two
    // parts then, and whether it ended.
    let fail_at = |at: u64, fault: DiskFault, waits: bool| {
        let disk = Arc::new(Disk::default());
        let chain = run_limited(&scene, &disk, in_small_parts());
        for block in old.iter().chain(&new[..LENGTH]) {
            chain.import(block.clone()).expect("valid");
        }
        let heads = chain.subscribe();
        disk.fail_from(disk.operations() + at, fault);
        let is_done = chain.import(new[LENGTH].clone()).is_ok();
        if waits {
            // Nobody sends a block while the writer tries again on the full disk.
            let (started, before) = (Instant::now(), disk.operations());
            while disk.operations() == before {
                assert!(
                    started.elapsed() < Duration::from_secs(60),
                    "it is not tried again"
                );
                std::thread::sleep(Duration::from_millis(20));
            }
            std::thread::sleep(Duration::from_millis(200));
        } else {
            let _ = chain.import(old[0].clone());
        }
        disk.repair();
        let between = chain.view().expect("a good disk").head_id().hash;
        let is_cut = ![old[LENGTH - 1].hash(), new[LENGTH].hash()].contains(&between);
        if !is_cut {
            chain.import(new[LENGTH].clone()).expect("a good disk");
        }
        chain.import(new[LENGTH + 1].clone()).expect("a good disk");
        assert!(
            chain.pool().contains(&payment),
            "operation {at}: the payment waits again"
        );
        drop(chain);
        let mut canonical: Vec<B256> = old.iter().map(Block::hash).collect();
        for event in heads {
            for id in &event.reverted {
                assert_eq!(canonical.pop(), Some(id.hash), "operation {at}");
            }
            canonical.extend(event.applied.iter().map(|id| id.hash));
        }
        let expected: Vec<B256> = new.iter().map(Block::hash).collect();
        assert_eq!(canonical, expected, "operation {at}");
        (is_cut, is_done)
    };
    let mut cuts = Vec::new();
    for at in 0.. {
        let (is_cut, is_done) = fail_at(at, DiskFault::Full, false);
        cuts.extend(Some(at).filter(|_| is_cut));
        if is_done {
            break;
        }
    }
    assert!(cuts.len() > 2, "{cuts:?}");
    // The head can be read and followed meanwhile, since only growth fails.
    let cut = cuts.iter().find(|at| fail_at(**at, DiskFault::NoGrowth, true).0);
    assert!(cut.is_some(), "never between two parts");
}

#[test]
fn a_chain_on_a_broken_disk_ends_with_a_reason() {
    let scene = scene();
    let disk = Arc::new(Disk::default());
    let chain = run(&scene, &disk);
    chain.import(scene.blocks[0].clone()).expect("valid");
    assert_eq!(chain.failure(), None);
    disk.fail_from(0, DiskFault::Broken);
    let error = chain
        .import(scene.blocks[1].clone())
        .expect_err("it cannot be written");
    assert!(error.to_string().contains("the drive does not answer"), "{error}");
    let late = chain.import(scene.blocks[1].clone()).expect_err("it has ended");
    assert!(matches!(late, WriteError::Failed(_)), "{late}");
    let reason = chain.failure().expect("a reason");
    assert!(
        reason.contains("block 2") && reason.contains("look at the disk"),
        "{reason}"
    );
    disk.repair();
    assert_eq!(chain.view().expect("reads still work").head_number(), 1);
    chain.stop();
    drop(chain);
    let again = run(&scene, &disk);
    assert_eq!(again.view().expect("view").head_number(), 1);
    again
        .import(scene.blocks[1].clone())
        .expect("the disk is good again");
}

/// An answer as text; `None` if it is an error.
fn text<T: Debug, E: Debug>(answer: Result<T, E>) -> Option<String> {
    answer.ok().map(|answer| format!("{answer:?}"))
}

/// The answers of all methods of a view.
fn answers(scene: &Scene, store: &Store) -> Option<Vec<Option<String>>> {
    let view = View::new(store, scene.maker.spec.clone()).ok()?;
    let mut all = vec![text(Ok::<_, ()>((view.head_number(), view.head_hash())))];
    let request = CallRequest {
        to: Some(scene.contract),
        input: [B256::with_last_byte(2), B256::with_last_byte(3)].concat().into(),
        ..Default::default()
    };
    for number in 0..=6 {
        all.push(text(view.header(number)));
        let block = view.block(number);
        if let Ok(Some(block)) = &block {
            all.push(text(view.receipts(&block.id())));
        } else {
            // Keeps the number of answers the same as on a good store.
            all.push(None);
        }
        all.push(text(block));
        for address in [scene.contract, account(0), account(5), Address::repeat_byte(0xbe)] {
            all.push(text(view.account(&address, number)));
            all.push(text(view.code(&address, number)));
            for slot in 0..4 {
                all.push(text(view.slot(&address, &U256::from(slot), number)));
            }
        }
        all.push(text(view.call(StateAt::Block(number), &request, TIMEOUT_DEFAULT)));
    }
    for block in &scene.blocks {
        all.push(text(view.block_by_hash(&block.hash())));
        for transaction in &block.transactions {
            all.push(text(view.transaction(&transaction.hash())));
        }
    }
    Some(all)
}

#[test]
fn a_flipped_byte_in_the_file_never_gives_a_wrong_answer() {
    const POSITIONS: usize = 500;
    quiet_contained_panics();
    let scene = scene();
    let (disk, store, importer) = scene.begin();
    for block in &scene.blocks {
        importer.import(block, None).expect("valid");
    }
    let expected = answers(&scene, &store).expect("a good disk");
    let full = expected.iter().filter(|answer| answer.is_none()).count();
    // Above the head there are no receipts and no state.
    assert!(full < 6, "{full} of {} answers are errors", expected.len());
    drop((store, importer));
    let files = disk.bytes();
    let whole = &files[DATABASE];
    let used: Vec<usize> = (0..whole.len()).filter(|at| whole[*at] != 0).collect();
    let (mut errors, mut refused) = (0, 0);
    for round in 0..POSITIONS {
        let at = used[round * used.len() / POSITIONS];
        let mut damaged = files.clone();
        damaged[DATABASE][at] ^= 1 << (round % 8);
        let disk = Arc::new(Disk::with(damaged));
        let Ok(store) = open(&disk) else {
            refused += 1;
            continue;
        };
        let Some(got) = answers(&scene, &store) else {
            errors += 1;
            continue;
        };
        for (index, (got, expected)) in got.iter().zip(&expected).enumerate() {
            assert!(
                got.is_none() || got == expected,
                "byte {at}: answer {index} is {got:?}, expected {expected:?}"
            );
        }
        errors += usize::from(got != expected);
        // An import does not build on rows that it cannot read.
        let importer = Importer::new(store.clone(), scene.maker.spec.clone(), SealCheck::Off);
        let known = scene.blocks.last().expect("blocks");
        if let Ok(imported) = importer.import(known, None) {
            assert_eq!(imported, chain::import::Imported::Known, "byte {at}");
        }
    }
    println!("of {POSITIONS} flipped bytes {refused} kept the store from opening, {errors} gave errors");
    assert!(errors > POSITIONS / 10, "{errors}");
}
