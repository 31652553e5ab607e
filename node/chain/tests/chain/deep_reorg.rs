//! A reorganization of ten thousand blocks: it leaves what a fresh import of the winning branch
//! leaves, in time and memory that follow its length, and all of it or nothing.
//!
//! Both branches move money, make contracts, write their storage, destroy them and make them
//! again at the same addresses, each in its own rhythm.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use chain::genesis::ensure_genesis;
use chain::import::{Imported, Importer};
use chain::rules::body::SealCheck;
use primitives::{B256, Block};
use store::{BlockReads, FILE_NAME, Store, StoreOptions};

use crate::common::{Maker, Plan, rows};
use crate::random_forks::{Act, assert_as_fresh, spec, transactions};

/// Blocks of each branch above their common ancestor.
const DEEP: u64 = 10_000;
/// Blocks below that.
const TRUNK: u64 = 20;
/// Memory for cached pages: less than the branches take, so that a transaction must let go of its own.
const CACHE_BYTES: usize = 16 << 20;
/// Directory of the second process; where it is absent its test does nothing.
const DIRECTORY: &str = "CHAIN_TEST_REORG_DIRECTORY";
/// The block that makes the other branch the heavier one, beside the store.
const LAST: &str = "last.rlp";

/// What block `number` of branch `mark` does.
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

/// Extends `parent` by `count` blocks of branch `mark`. `nonces` are those that hold there.
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

/// A branch of `count` blocks on a trunk that is the same for every branch.
fn grow(count: u64, mark: u8) -> (Maker, Vec<Block>) {
    let mut maker = Maker::new(spec());
    let mut nonces = HashMap::new();
    let genesis = maker.genesis;
    let trunk = branch(&mut maker, genesis, 1, TRUNK, 0, &mut nonces);
    let tip = trunk.last().expect("blocks").hash();
    let blocks = branch(&mut maker, tip, TRUNK + 1, count, mark, &mut nonces);
    (maker, blocks)
}

/// Two branches, of which the second is a block longer.
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
fn ten_thousand_blocks_give_way_to_a_heavier_branch() {
    let [(loser_maker, loser), (winner_maker, winner)] = grow_both(DEEP);
    // The maker of the losing branch has it as its chain, the other one is the fresh import.
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
    // What lost is there by hash, with all that was known of it.
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

/// A data directory before the last block of the winning branch, and that block beside it.
struct Prepared {
    directory: tempfile::TempDir,
    loser: Maker,
    winner: Maker,
}

fn prepare(depth: u64) -> Prepared {
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
    Prepared {
        directory,
        loser,
        winner,
    }
}

fn open(directory: &Path) -> Store {
    let options = StoreOptions {
        cache_bytes: CACHE_BYTES,
    };
    Store::open(directory, &options).expect("the store opens")
}

/// A process that imports the last block into `directory`.
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

/// The rest of the next line that begins with `word`; `None` where the process ended before.
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

/// The largest memory of this process so far, in MiB; 0 where the system does not say.
fn peak_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.unwrap_or(0) / 1024
}

#[test]
fn a_kill_in_the_middle_leaves_one_branch_or_the_other() {
    /// Deep enough that the reorganization takes longer than a process needs to be killed.
    const DEPTH: u64 = 600;
    const ROUNDS: u32 = 6;
    let Prepared {
        directory,
        loser,
        winner,
    } = prepare(DEPTH);
    let before = rows(&open(directory.path()));
    let copy = |to: &Path| {
        for name in [FILE_NAME, LAST] {
            std::fs::copy(directory.path().join(name), to.join(name)).expect("copied");
        }
    };
    // How long it takes when nobody kills it.
    let whole = tempfile::tempdir().expect("a directory");
    copy(whole.path());
    let (mut process, mut output) = reorganize(whole.path());
    said(&mut output, "begins ").expect("it begins");
    let started = Instant::now();
    said(&mut output, "done ").expect("it comes to its end");
    let took = started.elapsed();
    assert!(process.wait().expect("ended").success());
    let after = rows(&open(whole.path()));
    assert_as_fresh(&before, &rows(loser.store()));
    assert_as_fresh(&after, &rows(winner.store()));
    let mut killed = 0;
    for round in 0..ROUNDS {
        let round_directory = tempfile::tempdir().expect("a directory");
        copy(round_directory.path());
        let (mut process, mut output) = reorganize(round_directory.path());
        said(&mut output, "begins ").expect("it begins");
        std::thread::sleep(took * (2 * round + 1) / (2 * ROUNDS));
        process.kill().expect("SIGKILL");
        let done = said(&mut output, "done ").is_some();
        process.wait().expect("ended");
        let left = rows(&open(round_directory.path()));
        assert!(
            left == before || left == after,
            "round {round}: neither branch whole"
        );
        assert!(!done || left == after, "round {round}: it was committed");
        killed += u32::from(left == before);
    }
    println!("{killed} of {ROUNDS} reorganizations of {DEPTH} blocks ({took:.2?}) did not come to their end");
}

/// By itself: `cargo test --release -p chain figures_of -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement that wants the machine for itself"]
fn figures_of_a_deep_reorganization_on_disk() {
    for depth in [DEEP / 4, DEEP / 2, DEEP] {
        let prepared = prepare(depth);
        let size = |path: &Path| std::fs::metadata(path.join(FILE_NAME)).map_or(0, |file| file.len() >> 20);
        let (mut process, mut output) = reorganize(prepared.directory.path());
        let before = said(&mut output, "begins ").expect("it begins");
        let file = size(prepared.directory.path());
        let after = said(&mut output, "done ").expect("it comes to its end");
        assert!(process.wait().expect("ended").success());
        println!(
            "{depth} blocks: time and peak memory {after} MiB, {before} MiB before; file {file} to {} MiB",
            size(prepared.directory.path())
        );
    }
}
