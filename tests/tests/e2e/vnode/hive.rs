//! `packaging/hive/run-cases` runs block tests against the node as hive's simulators do.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Arc;

use chain::chain::Chain;
use chain::mining::build::build;
use chain::rules::seal::SealCheck;
use chain::{ChainConfig, ChainSpec};
use e2e::binary::{vnode_path, workspace};
use e2e::note;
use primitives::{B256, Block, Header};
use serde_json::{Value, json};
use store::Store;

const ACCOUNT: &str = "0x70997970c51812dc3a010c7d01b50e0d17dc79c8";

/// The rules of the cases, as hive's variables describe Istanbul.
fn genesis() -> Value {
    let config = json!({
        "chainId": 1, "homesteadBlock": 0, "eip150Block": 0, "eip155Block": 0, "eip158Block": 0, "byzantiumBlock": 0,
        "constantinopleBlock": 0, "petersburgBlock": 0, "istanbulBlock": 0,
    });
    json!({
        "config": config, "alloc": {ACCOUNT: {"balance": "0x1000"}}, "difficulty": "0x20000", "gasLimit": "0x2fefd8",
        "nonce": "0x0000000000000042", "timestamp": "0x0", "extraData": "0x", "mixHash": B256::ZERO.to_string(),
        "coinbase": "0x0000000000000000000000000000000000000000",
    })
}

/// Block 0 and two blocks on it, without seals.
fn blocks() -> (Header, Vec<Block>) {
    let file = ChainSpec::from_genesis_file("case", &genesis().to_string()).expect("a genesis file");
    let config = ChainConfig {
        spec: Arc::new(file.spec),
        seals: SealCheck::Off,
        forks: Default::default(),
        pool: Default::default(),
        beneficiary: Default::default(),
        extra_data: Default::default(),
        states: Default::default(),
    };
    let chain = Chain::open(Store::in_memory().expect("a store"), config).expect("a chain");
    let start = chain.view().expect("a view").head().header.clone();
    let blocks = (1..=2u64).map(|number| {
        let view = chain.view().expect("a view");
        let settings = chain.settings();
        let ready = chain.pool().ready();
        let draft = build(
            chain.spec(),
            view.snapshot(),
            view.head(),
            20 * number,
            &settings,
            ready,
            &[],
        );
        let block = draft.expect("a block").block;
        chain.import(block.clone()).expect("a good block");
        block
    });
    let blocks = blocks.collect();
    chain.stop();
    (start, blocks)
}

/// A case of a file of block tests.
fn case(network: &str, seals: &str, start: &Header, blocks: &[&Block], last: B256) -> Value {
    let mut header = genesis();
    header["hash"] = json!(start.hash().to_string());
    header["stateRoot"] = json!(start.state_root.to_string());
    let blocks = blocks.iter().map(|block| {
        let Header { state_root, .. } = &block.header;
        let header = json!({"hash": block.hash().to_string(), "stateRoot": state_root.to_string()});
        json!({"rlp": format!("0x{}", hex::encode(block.encode())), "blockHeader": header})
    });
    json!({
        "network": network, "sealEngine": seals, "genesisBlockHeader": header, "pre": genesis()["alloc"],
        "blocks": blocks.collect::<Vec<_>>(), "lastblockhash": last.to_string(),
    })
}

#[test]
fn cases_of_hive_run_without_containers() {
    for program in ["jq", "python3"] {
        if let Err(error) = Command::new(program).arg("--version").output() {
            let required = std::env::var_os("REQUIRE_CLIENTS").is_some();
            assert!(!required, "{program}: {error} (Debian: {program})");
            return note(&format!("skipped, {program}: {error} (Debian: {program})"));
        }
    }
    let (start, blocks) = blocks();
    let [first, second] = &blocks[..] else {
        panic!("two blocks were made");
    };
    let mut wrong = second.clone();
    wrong.header.state_root = B256::repeat_byte(1);
    let good = [first, &wrong, second];
    let cases = BTreeMap::from([
        // The file in the middle is wrong; the one after it is read all the same.
        ("good", case("Istanbul", "NoProof", &start, &good, second.hash())),
        (
            "wrong root",
            case("Istanbul", "NoProof", &start, &good[..2], first.hash()),
        ),
        // With a check of seals no block is taken.
        ("sealed", case("Istanbul", "Ethash", &start, &good, start.hash())),
        ("later", case("London", "NoProof", &start, &good, second.hash())),
        // The script must notice another head.
        (
            "other head",
            case("Istanbul", "NoProof", &start, &good, first.hash()),
        ),
    ]);
    let home = tempfile::Builder::new().prefix("vn").tempdir().expect("a folder");
    let file = home.path().join("cases.json");
    std::fs::write(&file, serde_json::to_vec(&cases).expect("JSON")).expect("a file");
    let binaries = vnode_path().parent().expect("a folder").display().to_string();
    let path = format!("{binaries}:{}", std::env::var("PATH").unwrap_or_default());
    let output = Command::new(workspace().join("packaging/hive/run-cases"))
        .arg(&file)
        .env("PATH", path)
        .env("TMPDIR", home.path())
        .output()
        .expect("the script runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        text.ends_with("refused: rules of London: 1\n3 passed, 1 failed, 1 refused\n"),
        "{text}{errors}"
    );
    assert_eq!(output.status.code(), Some(1));
    let expected = format!("head: got {}, expected {}", second.hash(), first.hash());
    assert!(
        text.contains("other head\n") && text.contains(&expected),
        "{text}"
    );
}
