//! kill -9 in the middle of importing: what was committed is there, whole, and nothing else.
//!
//! The test runs itself as a second process that imports blocks into a file and says after
//! each commit what the head is. An endless line of equal blocks makes both sides agree.

use crate::common::{Maker, Plan, account, rows, sign, unsigned};
use chain::ChainSpec;
use chain::body::SealCheck;
use chain::genesis::ensure_genesis;
use chain::import::Importer;
use primitives::{B256, Block};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;
use store::{BlockReads, Store, StoreOptions};

/// Directory of the child; where it is absent the child's test does nothing.
const DIRECTORY: &str = "CHAIN_TEST_CRASH_DIRECTORY";

fn open(directory: &Path) -> Store {
    let options = StoreOptions { cache_bytes: 8 << 20 };
    Store::open(directory, &options).expect("the store opens")
}

/// Block `number` of the line: a transfer and a contract with a slot.
fn next(maker: &mut Maker, parent: B256, number: u64) -> Block {
    let nonce = 2 * (number - 1);
    let transfer = unsigned(nonce, Some(account(1)), number, &[]);
    let create = unsigned(nonce + 1, None, 0, &[0x60, 1, 0x60, 0, 0x55]);
    maker.block(parent, Plan::with(vec![sign(0, &transfer), sign(0, &create)]))
}

fn line(maker: &mut Maker, count: u64) -> Vec<Block> {
    let mut tip = maker.genesis;
    (1..=count)
        .map(|number| {
            let block = next(maker, tip, number);
            tip = block.hash();
            block
        })
        .collect()
}

#[test]
#[ignore = "the second process of a_killed_process_loses_no_committed_block"]
fn child() {
    let Some(directory) = std::env::var_os(DIRECTORY) else {
        return;
    };
    let store = open(Path::new(&directory));
    let mut maker = Maker::new(ChainSpec::dev());
    ensure_genesis(&store, &maker.spec).expect("genesis");
    let importer = Importer::new(store.clone(), maker.spec.clone(), SealCheck::Off);
    let (at, _) = store
        .snapshot()
        .expect("snapshot")
        .head()
        .expect("read")
        .expect("head");
    let mut tip = line(&mut maker, at).last().map_or(maker.genesis, Block::hash);
    for number in at + 1.. {
        let block = next(&mut maker, tip, number);
        tip = block.hash();
        importer.import(&block, None).expect("valid");
        println!("committed {number}");
    }
}

#[test]
fn a_killed_process_loses_no_committed_block() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut maker = Maker::new(ChainSpec::dev());
    let blocks = line(&mut maker, 400);
    let mut last = 0;
    for round in 0..4u64 {
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["crash::child", "--exact", "--ignored", "--nocapture"])
            .env(DIRECTORY, directory.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("a second process");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let mut said = Vec::new();
        for text in output.lines() {
            let text = text.expect("utf-8");
            if let Some(number) = text.strip_prefix("committed ") {
                said.push(number.parse::<u64>().expect("a number"));
            }
            // Killed once; what it had said until then is read to its end.
            if said.len() as u64 == 7 + 5 * round {
                child.kill().expect("SIGKILL");
            }
        }
        assert!(!child.wait().expect("ended").success(), "it ended by the signal");
        let confirmed = *said.last().expect("it got to import");
        assert!(confirmed > last);

        let started = Instant::now();
        let store = open(directory.path());
        let (head, hash) = store
            .snapshot()
            .expect("snapshot")
            .head()
            .expect("read")
            .expect("head");
        let took = started.elapsed();
        assert!(took.as_secs() < 1, "the head was served only after {took:?}");
        assert!(
            head >= confirmed,
            "block {confirmed} was committed, the head is {head}"
        );
        // A commit may have been done and not yet been said, once.
        assert!(head <= confirmed + 1);
        assert_eq!(hash, blocks[head as usize - 1].hash());
        assert!(
            rows(&store) == rows(&maker.fresh(hash)),
            "every table is that of block {head}"
        );
        last = head;
    }
}
