//! A reorganization of ten thousand blocks. Afterwards the rows are those of a fresh import of the
//! winning branch. Time is proportional to its length. It is done in parts. If the process is
//! killed between them, a chain is there without faults, no block is lost, and the next process
//! goes on.
//!
//! The blocks of both branches transfer money, make contracts, write their storage, destroy them
//! and make them again at the same addresses.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use chain::genesis::ensure_genesis;
use chain::import::{Imported, Importer};
use chain::rules::seal::SealCheck;
use primitives::{B256, Block};
use store::{BLOCKS_FILE_NAME, BlockReads, FILE_NAME, HeaderReads, Store, StoreOptions};

use crate::common::{Maker, Plan, rows};
use crate::random_forks::{Act, assert_as_fresh, spec, transactions};
use crate::scenes::check_faults;

/// Blocks of each branch above their common ancestor.
const DEEP: u64 = 10_000;
/// Blocks from block 0 to the common ancestor.
const TRUNK: u64 = 20;
/// Memory for cached pages. It is less than the branches take, so a transaction must write out some
/// of its own pages.
const CACHE_BYTES: usize = 16 << 20;
/// Environment variable with the data directory of the second process. Without it, the test for
/// that process does nothing.
const DIRECTORY: &str = "CHAIN_TEST_REORG_DIRECTORY";
/// Name of the file with the block that makes the other branch the heavier one.
const LAST: &str = "last.rlp";

/// The transactions of block `number` of branch `mark`.
fn acts(number: u64, mark: u8) -> Vec<(usize, Act)> {
    let step = number.wrapping_mul(2_654_435_761 + 2 * u64::from(mark)) >> 7;
    let small = |bound: u64, shift: u32| ((step >> shift) % bound) as u8;
    let from = usize::from(small(3, 3));
    let mut acts = vec![(
        from,
        Act::Transfer {
            to: small(250, 5),
            value: 1 + number % 3,
        },
    )];
    let salt = small(7, 9);
    match number % 8 {
        0 => acts.push((from, Act::Hatch { salt })),
        3 if number.is_multiple_of(3) => acts.push((from, Act::Destroy { salt, value: 1 })),
        5 => acts.push((from, Act::Deploy { value: small(3, 11) })),
        _ => {
            let (slot, value) = (small(40, 4), small(3, 8));
            acts.push((from, Act::Write { salt, slot, value }));
        }
    }
    acts
}

/// Makes `count` blocks of branch `mark` on `parent`. `nonces` are the accounts' nonces there.
fn branch(
    maker: &mut Maker,
    parent: B256,
    first: u64,
    count: u64,
    mark: u8,
    nonces: &mut HashMap<usize, u64>,
) -> Vec<Block> {
    let mut tip = parent;
    (first..first + count)
        .map(|number| {
            let plan = Plan {
                transactions: transactions(&acts(number, mark), nonces),
                ..Plan::marked(mark)
            };
            let block = maker.block(tip, plan);
            tip = block.hash();
            block
        })
        .collect()
}

/// A branch of `count` blocks. All branches begin with the same blocks up to the common ancestor.
fn grow(count: u64, mark: u8) -> (Maker, Vec<Block>) {
    let mut maker = Maker::new(spec());
    let mut nonces = HashMap::new();
    let genesis = maker.genesis;
    let trunk = branch(&mut maker, genesis, 1, TRUNK, 0, &mut nonces);
    let tip = trunk.last().expect("blocks").hash();
    let blocks = branch(&mut maker, tip, TRUNK + 1, count, mark, &mut nonces);
    (maker, blocks)
}

/// Two branches. The second one is longer by one block.
fn grow_both(depth: u64) -> [(Maker, Vec<Block>); 2] {
    std::thread::scope(|scope| {
        let loser = scope.spawn(|| grow(depth, 1));
        let winner = grow(depth + 1, 2);
        [loser.join().expect("no panic"), winner]
    })
}

fn take(importer: &Importer, blocks: &[Block]) -> Duration {
    let started = Instant::now();
    for block in blocks {
        importer.import(block, None).expect("valid");
    }
    started.elapsed()
}

fn head(store: &Store) -> B256 {
    let head = store.snapshot().expect("snapshot").head().expect("read");
    head.expect("a head").1
}

#[test]
fn ten_thousand_blocks_are_replaced_by_a_heavier_branch() {
    let [(loser_maker, loser), (winner_maker, winner)] = grow_both(DEEP);
    // The store of the first maker has the losing branch; that of the second is the fresh import.
    let (store, fresh) = (loser_maker.store(), winner_maker.store());
    let importer = Importer::new(store.clone(), loser_maker.spec.clone(), SealCheck::Off);
    let (last, rest) = winner.split_last().expect("blocks");
    let as_sides = take(&importer, rest);
    assert_eq!(head(store), loser.last().expect("blocks").hash());
    let started = Instant::now();
    let imported = importer.import(last, None).expect("valid");
    let took = started.elapsed();
    let Imported::Head { reverted, applied } = imported else {
        panic!("the heavier branch wins: {imported:?}")
    };
    assert_eq!((reverted.len() as u64, applied.len() as u64), (DEEP, DEEP + 1));
    println!("{DEEP} blocks: as side blocks {as_sides:.2?}, reorganization {took:.2?}");
    assert_eq!(head(fresh), last.hash());
    assert_as_fresh(&rows(store), &rows(fresh));
    // The blocks of the losing branch are still stored, with bodies and receipts.
    let view = store.snapshot().expect("snapshot");
    for block in &loser {
        let (number, hash) = (block.header.number, block.hash());
        let record = view.header_by_hash(&hash).expect("read").expect("kept");
        assert!(record.executed && record.header == block.header);
        let body = view
            .body(number, &hash, loser_maker.spec.tx_rules())
            .expect("read");
        assert_eq!(body.expect("kept").transactions, block.transactions);
        assert!(view.receipts(number, &hash).expect("read").is_some());
        assert_ne!(view.canonical_hash(number).expect("read"), Some(hash));
    }
}

/// A data directory before the last block of the winning branch is imported, with that block in a
/// file.
struct PreparedDirectory {
    directory: tempfile::TempDir,
    loser: Maker,
    winner: Maker,
}

fn prepare(depth: u64) -> PreparedDirectory {
    let [(loser, _), (winner, blocks)] = grow_both(depth);
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(directory.path());
    let spec = Arc::new(spec());
    ensure_genesis(&store, &spec).expect("genesis");
    let importer = Importer::new(store, spec, SealCheck::Off);
    let loser_path = loser.path(head(loser.store()));
    take(&importer, &loser_path.into_iter().cloned().collect::<Vec<_>>());
    let (last, rest) = blocks.split_last().expect("blocks");
    take(&importer, rest);
    std::fs::write(directory.path().join(LAST), last.encode()).expect("written");
    PreparedDirectory {
        directory,
        loser,
        winner,
    }
}

fn open(directory: &Path) -> Store {
    let options = StoreOptions {
        cache_bytes: CACHE_BYTES,
        ..StoreOptions::default()
    };
    Store::open(directory, &options).expect("the store opens")
}

/// Starts a process that imports the last block into `directory`.
fn reorganize(directory: &Path) -> (Child, BufReader<ChildStdout>) {
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .args(["deep_reorg::child", "--exact", "--ignored", "--nocapture"])
        .env(DIRECTORY, directory)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("a second process");
    let output = BufReader::new(child.stdout.take().expect("piped"));
    (child, output)
}

/// The rest of the next line that begins with `word`; `None` if the process ends before.
fn said(output: &mut BufReader<ChildStdout>, word: &str) -> Option<String> {
    let mut lines = output.lines().map_while(Result::ok);
    lines.find_map(|line| line.strip_prefix(word).map(str::to_owned))
}

#[test]
#[ignore = "the second process of the tests below"]
fn child() {
    let Some(directory) = std::env::var_os(DIRECTORY) else {
        return;
    };
    let directory = Path::new(&directory);
    let spec = Arc::new(spec());
    let bytes = std::fs::read(directory.join(LAST)).expect("the last block");
    let last = Block::decode(&bytes, spec.tx_rules()).expect("a block");
    let importer = Importer::new(open(directory), spec, SealCheck::Off);
    println!("begins {}", peak_mib());
    let started = Instant::now();
    importer.import(&last, None).expect("valid");
    println!("done {:?} {}", started.elapsed(), peak_mib());
}

/// The peak memory of this process, in MiB; 0 if the system does not say.
fn peak_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.unwrap_or(0) / 1024
}

#[test]
fn after_a_kill_in_the_middle_the_next_process_goes_on() {
    /// At this depth the reorganization takes longer than killing a process.
    const DEPTH: u64 = 600;
    const ROUNDS: u32 = 6;
    let PreparedDirectory {
        directory,
        loser,
        winner,
    } = prepare(DEPTH);
    let before = rows(&open(directory.path()));
    let copy = |to: &Path| {
        for name in [FILE_NAME, BLOCKS_FILE_NAME, LAST] {
            std::fs::copy(directory.path().join(name), to.join(name)).expect("copied");
        }
    };
    // The time without a kill.
    let complete = tempfile::tempdir().expect("a directory");
    copy(complete.path());
    let (mut process, mut output) = reorganize(complete.path());
    said(&mut output, "begins ").expect("it begins");
    let started = Instant::now();
    said(&mut output, "done ").expect("it ends");
    let took = started.elapsed();
    assert!(process.wait().expect("ended").success());
    let after = rows(&open(complete.path()));
    assert_as_fresh(&before, &rows(loser.store()));
    assert_as_fresh(&after, &rows(winner.store()));
    let mut begun = ROUNDS;
    for round in 0..ROUNDS {
        let round_directory = tempfile::tempdir().expect("a directory");
        copy(round_directory.path());
        let (mut process, mut output) = reorganize(round_directory.path());
        said(&mut output, "begins ").expect("it begins");
        std::thread::sleep(took * (2 * round + 1) / (2 * ROUNDS));
        process.kill().expect("SIGKILL");
        let done = said(&mut output, "done ").is_some();
        process.wait().expect("ended");
        let store = open(round_directory.path());
        let left = rows(&store);
        assert!(!done || left == after, "round {round}: it was committed");
        if left == before || left == after {
            begun -= 1;
            continue;
        }
        let view = store.snapshot().expect("snapshot");
        let open = view.open_reorganization().expect("read");
        let open = open.expect("the row that tells where the head was going");
        assert_eq!(open.old_head.1, head(loser.store()), "round {round}");
        let (_, faults) = check_faults(&store, &loser.spec, false);
        assert_eq!(faults, [], "round {round}");
        for block in loser.blocks.keys().chain(winner.blocks.keys()) {
            let number = view.block_number(block).expect("read").expect("stored");
            let body = view.body(number, block, loser.spec.tx_rules()).expect("read");
            assert!(body.is_some(), "round {round}: block {number}");
        }
        drop(view);
        let importer = Importer::new(store.clone(), loser.spec.clone(), SealCheck::Off);
        assert!(importer.finish_open_reorganization().expect("it goes on"));
        assert!(rows(&store) == after, "round {round}: it went on");
        assert!(!importer.finish_open_reorganization().expect("none"));
    }
    println!("{begun} of {ROUNDS} reorganizations of {DEPTH} blocks ({took:.2?}) were killed between parts");
}

/// To be run alone: `cargo test --release -p chain figures_of -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement that must run alone on the machine"]
fn figures_of_a_deep_reorganization_on_disk() {
    for depth in [DEEP / 4, DEEP / 2, DEEP] {
        let prepared = prepare(depth);
        let size = |path: &Path| std::fs::metadata(path.join(FILE_NAME)).map_or(0, |file| file.len() >> 20);
        let (mut process, mut output) = reorganize(prepared.directory.path());
        let before = said(&mut output, "begins ").expect("it begins");
        let file = size(prepared.directory.path());
        let after = said(&mut output, "done ").expect("it ends");
        assert!(process.wait().expect("ended").success());
        println!(
            "{depth} blocks: time and peak memory {after} MiB, {before} MiB before; file {file} to {} MiB",
            size(prepared.directory.path())
        );
    }
}
