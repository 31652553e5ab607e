//! Blocks that the public network's own node made are imported, with their real seals.
//!
//! `tests/vectors/public-node/README.md` describes the cases. `PUBLIC_NODE_VECTORS` names a folder
//! with more cases of the same form.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use chain::import::stream_import::import_stream;
use chain::rules::seal::SealCheck;
use chain::{ChainSpec, View};
use ethash::LightCaches;
use flate2::read::GzDecoder;
use primitives::B256;
use serde_json::Value;

use crate::common::Node;
use crate::scenes::assert_sound;

/// The folder with the cases of this repository.
fn own_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/vectors/public-node")
}

fn json(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The facts of a case in `heads.json`.
struct ExpectedHead {
    number: u64,
    hash: B256,
    transactions: u64,
}

/// The cases of a folder.
fn cases(folder: &Path) -> Vec<(String, ExpectedHead)> {
    let heads = json(&folder.join("heads.json"));
    let number = |value: &Value| value.as_u64().expect("a number");
    let case = |(name, head): (&String, &Value)| {
        let hash = head["head"].as_str().expect("a hash");
        let expected = ExpectedHead {
            number: number(&head["blocks"]),
            hash: hash.parse().expect("a hash"),
            transactions: number(&head["transactions"]),
        };
        (name.clone(), expected)
    };
    heads.as_object().expect("an object").iter().map(case).collect()
}

/// Imports the blocks of a case and compares the head. Then checks the whole store.
fn check(folder: &Path, name: &str, expected: &ExpectedHead, seals: &LightCaches) {
    let genesis = std::fs::read_to_string(folder.join(format!("{name}.genesis.json"))).expect("readable");
    let file = ChainSpec::from_genesis_file(name, &genesis).expect("a genesis file");
    let spec = Arc::new(file.spec);
    let node = Node::with_seals(&spec, SealCheck::Ethash(seals.clone()));
    let packed = File::open(folder.join(format!("{name}.blocks.rlp.gz"))).expect("readable");
    let input: Box<dyn Read + Send> = Box::new(GzDecoder::new(packed));
    let mut transactions = 0;
    import_stream(&node.importer, input, &AtomicBool::new(false), |progress| {
        transactions = progress.transactions;
    })
    .unwrap_or_else(|error| panic!("{name}: {error}"));
    let view = View::new(&node.store, spec.clone()).expect("a head");
    assert_eq!(
        (view.head_number(), view.head_hash(), transactions),
        (expected.number, expected.hash, expected.transactions),
        "{name}"
    );
    assert_sound(&node.store, &spec);
}

fn check_folder(folder: &Path) {
    let seals = LightCaches::new();
    for (name, expected) in cases(folder) {
        check(folder, &name, &expected, &seals);
        println!("{name}: {} blocks", expected.number);
    }
}

#[test]
fn blocks_of_the_public_node_are_imported() {
    let folder = own_folder();
    assert_eq!(cases(&folder).len(), 10);
    check_folder(&folder);
}

#[test]
fn more_blocks_of_the_public_node_are_imported() {
    let Some(folder) = std::env::var_os("PUBLIC_NODE_VECTORS") else {
        println!("skipped: PUBLIC_NODE_VECTORS is not set; it names a folder with blocks of the public node");
        return;
    };
    let folder = PathBuf::from(folder);
    assert!(
        !cases(&folder).is_empty(),
        "{}: heads.json names no case",
        folder.display()
    );
    check_folder(&folder);
}
