//! Every answer of geth 1.8.27 about a chain is compared with this node's.
//!
//! `tests/vectors/geth` has the chain and the answers; its README.md says how they were made.

mod known;
mod record;
mod scene;

use std::fs::File;
use std::io::{Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use chain::ChainSpec;
use chain::genesis::ensure_genesis;
use chain::import::Importer;
use chain::import::stream_import::import_stream;
use chain::rules::seal::SealCheck;
use flate2::read::GzDecoder;
use serde_json::{Value, json};
use store::Store;

use known::{Case, Known};

use crate::mc::harness::Net;

/// The folder with the data.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/vectors/geth")
}

/// The bytes of a compressed file.
fn unpacked(name: &str) -> Vec<u8> {
    let path = folder().join(name);
    let file = File::open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut bytes = Vec::new();
    GzDecoder::new(file).read_to_end(&mut bytes).expect("gzip");
    bytes
}

/// A node of the chain that begins with `genesis` and goes on with `blocks`, which stand one after
/// another.
fn node_of(genesis: &str, blocks: Vec<u8>) -> Net {
    let file = ChainSpec::from_genesis_file("geth", genesis).expect("a genesis file");
    let (store, spec) = (Store::in_memory().expect("a store"), Arc::new(file.spec));
    ensure_genesis(&store, &spec).expect("block 0");
    if !blocks.is_empty() {
        let importer = Importer::new(store.clone(), spec.clone(), SealCheck::Off);
        let input = Box::new(Cursor::new(blocks));
        import_stream(&importer, input, &AtomicBool::new(false), |_| ()).expect("good blocks");
    }
    Net::of_spec((*spec).clone(), store)
}

/// The place where two answers differ.
#[derive(Debug)]
struct Difference {
    /// The members and indices that lead to the value.
    path: Vec<String>,
    /// `None` if this node does not have the member.
    ours: Option<Value>,
    /// `None` if geth does not have the member.
    theirs: Option<Value>,
}

/// Collects the places where `ours` and `theirs` differ.
fn compare(path: &[String], ours: &Value, theirs: &Value, found: &mut Vec<Difference>) {
    let below = |name: String| [path, &[name]].concat();
    match (ours, theirs) {
        (Value::Object(one), Value::Object(other)) => {
            for name in one
                .keys()
                .chain(other.keys().filter(|name| !one.contains_key(*name)))
            {
                match (one.get(name), other.get(name)) {
                    (Some(ours), Some(theirs)) => compare(&below(name.clone()), ours, theirs, found),
                    (ours, theirs) => found.push(Difference {
                        path: below(name.clone()),
                        ours: ours.cloned(),
                        theirs: theirs.cloned(),
                    }),
                }
            }
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            for (index, (ours, theirs)) in one.iter().zip(other).enumerate() {
                compare(&below(index.to_string()), ours, theirs, found);
            }
        }
        _ if ours == theirs => {}
        _ => found.push(Difference {
            path: path.to_vec(),
            ours: Some(ours.clone()),
            theirs: Some(theirs.clone()),
        }),
    }
}

#[test]
fn geth_answers_the_same() {
    let genesis = std::fs::read_to_string(folder().join("genesis.json")).expect("the genesis file");
    let net = node_of(&genesis, unpacked("blocks.rlp.gz"));
    let answers: Vec<Value> = serde_json::from_slice(&unpacked("answers.json.gz")).expect("JSON");
    let mut known = Known::new();
    let (mut unknown, mut compared) = (Vec::new(), 0);
    for theirs in &answers {
        let (method, params) = (theirs["method"].as_str().expect("a name"), &theirs["params"]);
        let ours: Value = serde_json::from_str(&net.raw(method, &params.to_string())).expect("JSON");
        let part = |answer: &Value| json!({"result": answer.get("result"), "error": answer.get("error")});
        let (ours, mut found) = (part(&ours), Vec::new());
        compare(&[], &ours, &part(theirs), &mut found);
        compared += 1;
        found.retain(|difference| !known.explains(&Case::new((method, params), &ours, difference)));
        unknown.extend(
            found
                .into_iter()
                .map(|difference| format!("{method} {params}: {difference:?}")),
        );
    }
    println!("compared {compared} answers");
    assert!(compared > 1000, "{compared}");
    assert!(
        unknown.is_empty(),
        "{} differences: {:#?}",
        unknown.len(),
        &unknown[..unknown.len().min(20)]
    );
    known.check_all_used();
}
