//! A node and the commands on a chain that is so long that its old blocks are in `chain.blocks`.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, OnceLock};

use chain::genesis::initialise;
use chain::genesis::record::SpecRecord;
use chain::import::Imported;
use chain::mining::build::build;
use chain::pool::PoolConfig;
use chain::rules::seal::SealCheck;
use chain::spec::DEV_ACCOUNTS;
use chain::{Chain, ChainConfig, ChainSpec};
use e2e::process::EndSignal;
use e2e::{Launch, to_quantity, vnode_path, wait_for};
use primitives::{Address, Block, Bytes, SecretKey, TxForm, U256, UnsignedTransaction};
use serde_json::{Value, json};
use store::{AncientReads, BLOCKS_FILE_NAME, Store, StoreOptions, TableId};
use tempfile::TempDir;

use crate::vnode::offline::{assert_contains, run_failing, run_ok, text};

/// Blocks above block 0. Those from 0 to 127 are in the file.
const BLOCKS: u64 = 400;
const ANCIENT: u64 = 128;

/// The account that gets something in block `number`.
fn receiver(number: u64) -> Address {
    Address::left_padding_from(&(0xabc000 + number).to_be_bytes())
}

/// A data directory of the development network, whose seals were not searched for.
struct LongChain {
    folder: TempDir,
    blocks: Vec<Block>,
}

/// Makes a chain with a transfer in each block.
pub(crate) fn make_chain(data: &Path, count: u64) -> Vec<Block> {
    let store = Store::open(data, &StoreOptions::default()).expect("a store");
    let spec = Arc::new(ChainSpec::dev());
    initialise(&store, &spec, &SpecRecord::dev()).expect("block 0");
    let config = ChainConfig {
        spec,
        seals: SealCheck::Off,
        forks: chain::import::ForkLimits::default(),
        pool: PoolConfig::default(),
        beneficiary: Address::repeat_byte(0xbe),
        extra_data: Bytes::new(),
        states: chain::import::StateRetention::Archive,
    };
    let chain = Chain::open(store, config).expect("a chain");
    let key = SecretKey::from_hex(DEV_ACCOUNTS[0].1).expect("a key");
    let blocks = (1..=count).map(|number| {
        let transfer = UnsignedTransaction {
            tx_nonce: number - 1,
            gas_price: U256::from(20_000_000_000u64),
            gas: 21_000,
            to: Some(receiver(number)),
            value: U256::from(number),
            ..Default::default()
        };
        let transfer = transfer.sign(&key, chain.spec().chain_id, TxForm::Native);
        chain.submit_transaction(transfer).expect("a good transaction");
        let view = chain.view().expect("a view");
        let parent = view.head();
        let timestamp = parent.header.timestamp.max(1_000_000) + 1;
        let ready = chain.pool().ready();
        let draft = build(
            chain.spec(),
            view.snapshot(),
            parent,
            timestamp,
            &chain.settings(),
            ready,
            &[],
        );
        let block = draft.expect("a block").block;
        let imported = chain.import(block.clone()).expect("a good block");
        assert!(matches!(imported, Imported::Head { .. }), "{imported:?}");
        assert!(
            block
                .transactions
                .iter()
                .any(|transaction| !transaction.is_system())
        );
        block
    });
    blocks.collect()
}

fn long_chain() -> &'static LongChain {
    static CHAIN: OnceLock<LongChain> = OnceLock::new();
    CHAIN.get_or_init(|| {
        let folder = tempfile::Builder::new().prefix("vn").tempdir().expect("a folder");
        let blocks = make_chain(&folder.path().join("data"), BLOCKS);
        LongChain { folder, blocks }
    })
}

impl LongChain {
    /// A copy of the data directory.
    fn copy(&self) -> TempDir {
        let copy = tempfile::Builder::new().prefix("vn").tempdir().expect("a folder");
        for entry in std::fs::read_dir(self.folder.path().join("data")).expect("a folder") {
            let entry = entry.expect("an entry");
            std::fs::copy(entry.path(), copy.path().join(entry.file_name())).expect("copied");
        }
        copy
    }

    /// Hash of the transfer in block `number`.
    fn transfer(&self, number: u64) -> Value {
        let mut transactions = self.blocks[number as usize - 1].transactions.iter();
        let transfer = transactions.find(|transaction| !transaction.is_system());
        json!(format!("{:#x}", transfer.expect("a transfer").hash()))
    }

    /// Checks what a node says about block `number`.
    fn assert_served(&self, node: &e2e::Vnode, number: u64) {
        let shown = node.rpc("mc_getBlockByNumber", json!([to_quantity(number.into()), true]));
        assert_eq!(
            shown["hash"],
            json!(format!("{:#x}", self.blocks[number as usize - 1].hash()))
        );
        let hash = self.transfer(number);
        let transaction = node.rpc("mc_getTransactionByHash", json!([hash]));
        assert_eq!(transaction["blockNumber"], to_quantity(number.into()));
        assert_eq!(transaction["value"], to_quantity(number.into()));
        let receipt = node.rpc("mc_getTransactionReceipt", json!([hash]));
        assert_eq!(receipt["blockHash"], shown["hash"]);
        assert_eq!(receipt["status"], "0x1");
    }
}

#[test]
fn old_blocks_are_served_exported_and_checked() {
    let chain = long_chain();
    let home = chain.copy();
    let data = home.path();
    let store = Store::open(data, &StoreOptions::default()).expect("a store");
    assert_eq!(
        store.snapshot().expect("a view").ancient_count().expect("read"),
        ANCIENT
    );
    drop(store);
    assert_contains(
        &run_ok(data, &["db", "check", "--full"]),
        &["checked 401 blocks", "no faults"],
    );
    let stats = run_ok(data, &["db", "stats"]);
    assert_contains(&stats, &["number_to_ancient", BLOCKS_FILE_NAME, "128 blocks in"]);
    let file = data.join("all.rlp");
    run_ok(data, &["export", text(&file), "1"]);
    let expected: Vec<u8> = chain.blocks.iter().flat_map(Block::encode).collect();
    assert!(std::fs::read(&file).expect("exported") == expected);
    let node = Launch::dev(["--rpcapi", "mc,debug"]).data(data).start();
    for number in [1, ANCIENT - 1, ANCIENT, BLOCKS] {
        chain.assert_served(&node, number);
        let receiver = json!(format!("{:#x}", receiver(number)));
        let balance = |at: u64| node.rpc("mc_getBalance", json!([receiver, to_quantity(at.into())]));
        assert_eq!(balance(number - 1), "0x0");
        assert_eq!(balance(number), to_quantity(number.into()));
    }
    // The head is set back into the file. The blocks that are left are served.
    node.rpc("debug_setHead", json!([50]));
    assert_eq!(
        node.rpc("mc_getBlockByNumber", json!(["0x33", false])),
        Value::Null
    );
    chain.assert_served(&node, 50);
    assert!(node.end(EndSignal::Interrupt).status.success());
    assert_contains(
        &run_ok(data, &["db", "check", "--full"]),
        &["checked 51 blocks", "no faults"],
    );
    assert_contains(&run_ok(data, &["db", "stats"]), &["51 blocks in"]);
}

#[test]
fn a_damaged_or_cut_file_of_old_blocks_is_reported() {
    let chain = long_chain();
    let home = chain.copy();
    let data = home.path();
    let path = data.join(BLOCKS_FILE_NAME);
    let whole = std::fs::read(&path).expect("a file");
    // Somewhere in the first move: one block is damaged.
    let mut damaged = whole.clone();
    damaged[4096 + 1000] ^= 1;
    std::fs::write(&path, &damaged).expect("written");
    let ended = Launch::bare(["db", "check"]).data(data).run();
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stdout);
    assert_contains(
        &ended.stdout,
        &[BLOCKS_FILE_NAME, "of block", "checksum: got", "expected"],
    );
    let words: Vec<&str> = ended.stdout.split([' ', ':']).collect();
    let at = words
        .windows(2)
        .position(|pair| pair == ["of", "block"])
        .expect("a block");
    let number: u64 = words[at + 2].parse().expect("a number");
    let node = Launch::dev(Vec::<String>::new()).data(data).start();
    for other in [number - 1, number + 1, BLOCKS] {
        chain.assert_served(&node, other);
    }
    let quantity = to_quantity(number.into());
    let error = node.refused("mc_getBlockByNumber", json!([quantity, true]), -32603);
    assert_contains(&error, &["could not read its chain data"]);
    assert!(node.end(EndSignal::Interrupt).status.success());
    std::fs::write(&path, &whole[..whole.len() / 2]).expect("written");
    for arguments in [&["--dev"][..], &["db", "check"]] {
        let error = run_failing(data, arguments);
        assert_contains(
            &error,
            &[
                BLOCKS_FILE_NAME,
                "is cut off",
                &format!("got {} bytes", whole.len() / 2),
            ],
        );
    }
    std::fs::remove_file(&path).expect("removed");
    assert_contains(&run_failing(data, &["--dev"]), &[BLOCKS_FILE_NAME, "is gone"]);
    std::fs::write(&path, &whole).expect("written");
    assert_contains(&run_ok(data, &["db", "check"]), &["no faults"]);
}

/// The part of `stats` after `name`, up to the number of rows.
fn rows_of(stats: &str, name: &str) -> u64 {
    let line = stats
        .lines()
        .find(|line| line.starts_with(name))
        .expect("a table");
    let rows = line[name.len()..].split_whitespace().next().expect("a number");
    rows.parse().expect("a number")
}

#[test]
fn recent_states_are_kept_and_older_ones_are_refused() {
    const RECENT: u64 = 50;
    let chain = long_chain();
    let home = chain.copy();
    let data = home.path();
    let arguments = ["--state", "recent:50"];
    let receiver = |number: u64| json!(format!("{:#x}", receiver(number)));
    let check = |node: &e2e::Vnode, oldest: u64| {
        let error = node.refused(
            "mc_getBalance",
            json!([receiver(1), to_quantity((oldest - 1).into())]),
            -32000,
        );
        let expected = format!(
            "state of block {got} is not kept: got block {got}, expected block {oldest} or later (--state recent, --syncmode snap)",
            got = oldest - 1
        );
        assert_eq!(error, expected);
        for (method, params) in [
            ("mc_call", json!([{"to": receiver(1)}, "0x1"])),
            ("mc_getTransactionCount", json!([receiver(1), "0x1"])),
            ("mc_getStorageAt", json!([receiver(1), "0x0", "0x1"])),
            ("mc_getCode", json!([receiver(1), "0x1"])),
            ("debug_dumpBlock", json!(["0x1"])),
            ("debug_traceTransaction", json!([chain.transfer(5)])),
        ] {
            assert_contains(&node.refused(method, params, -32000), &["is not kept"]);
        }
        for number in [oldest, BLOCKS] {
            let balance =
                |at: u64| node.rpc("mc_getBalance", json!([receiver(number), to_quantity(at.into())]));
            assert_eq!(balance(number), to_quantity(number.into()));
        }
        // Blocks and receipts stay.
        chain.assert_served(node, 1);
        assert_contains(&node.refused("debug_setHead", json!([oldest - 1]), -32000), &[]);
    };
    // The node removes old states while it mines.
    let node = Launch::dev(
        arguments
            .iter()
            .chain(&["--mine", "--rpcapi", "mc,debug"])
            .copied(),
    )
    .data(data)
    .start();
    let head = node.wait_for_head(u128::from(BLOCKS) + 2);
    assert!(head >= u128::from(BLOCKS) + 2);
    assert!(node.end(EndSignal::Interrupt).status.success());
    let stats = run_ok(data, &["db", "stats"]);
    let head: u64 = stats
        .lines()
        .find_map(|line| line.strip_prefix("head block "))
        .and_then(|rest| rest.split(' ').next()?.parse().ok())
        .expect("the head");
    let oldest = head - RECENT;
    assert_contains(&stats, &[&format!("states from block {oldest} on")]);
    assert_eq!(rows_of(&stats, "block_to_changes"), RECENT);
    assert_contains(&run_ok(data, &["db", "check", "--full"]), &["no faults"]);
    assert_contains(
        &run_failing(data, &["dump", "1"]),
        &["state of block 1 is not kept"],
    );
    // Without the option, the states that are left stay.
    let node = Launch::dev(["--rpcapi", "mc,debug"]).data(data).start();
    check(&node, oldest);
    assert!(node.end(EndSignal::Interrupt).status.success());
}

/// Writes code rows, and removes every second one of them.
fn leave_holes(data: &Path) {
    let store = Store::open(data, &StoreOptions::default()).expect("a store");
    let codes: Vec<_> = (0..600u64)
        .map(|index| [index.to_be_bytes().as_slice(), &[0x5b; 30_000]].concat())
        .map(|code| (primitives::keccak256(&code), code))
        .collect();
    let batch = store.batch().expect("a batch");
    let written = batch.write(|tables| {
        codes
            .iter()
            .try_for_each(|(hash, code)| tables.put_code(hash, code))
    });
    written.expect("written");
    batch.commit().expect("committed");
    let batch = store.batch().expect("a batch");
    let removed = batch.write(|tables| {
        let mut every_second = codes.iter().step_by(2);
        every_second.try_for_each(|(hash, _)| tables.delete(TableId::HashToCode, hash.as_slice()))
    });
    removed.expect("removed");
    batch.commit().expect("committed");
}

/// Kills compactions when the new file has some length. Each time all rows are there.
fn kill_compactions(data: &Path) {
    let codes = rows_of(&run_ok(data, &["db", "stats"]), "hash_to_code");
    let new = data.join("chain.redb.new");
    for bytes in [0, 1 << 20, 16 << 20, u64::MAX] {
        let mut command = Command::new(vnode_path());
        command.args(["db", "compact", "--datadir", text(data)]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut compaction = command.spawn().expect("it starts");
        wait_for("a new file", || {
            let len = std::fs::metadata(&new).ok().map(|metadata| metadata.len());
            let has_ended = compaction.try_wait().expect("a status").is_some();
            (has_ended || len.is_some_and(|len| len >= bytes)).then_some(())
        });
        compaction.kill().expect("it is killed");
        compaction.wait().expect("it has ended");
        assert_eq!(rows_of(&run_ok(data, &["db", "stats"]), "hash_to_code"), codes);
        assert!(!new.exists());
    }
}

#[test]
fn a_directory_is_pruned_and_compacted_while_no_node_runs() {
    let chain = long_chain();
    let home = chain.copy();
    let data = home.path();
    let before = run_ok(data, &["db", "stats"]);
    assert_contains(&before, &["states of all blocks (archive)"]);
    assert_eq!(rows_of(&before, "block_to_changes"), BLOCKS + 1);
    let pruned = run_ok(data, &["db", "prune", "--state", "recent:40"]);
    assert_contains(&pruned, &[&format!("states from block {} on", BLOCKS - 40)]);
    assert_eq!(rows_of(&run_ok(data, &["db", "stats"]), "block_to_changes"), 40);
    leave_holes(data);
    let size = || {
        std::fs::metadata(data.join(store::FILE_NAME))
            .expect("a file")
            .len()
    };
    let long = size();
    assert_contains(
        &run_ok(data, &["db", "compact"]),
        &["compacted in", &format!("had {long} bytes")],
    );
    assert!(size() < long * 3 / 4, "{} bytes, {long} before", size());
    leave_holes(data);
    kill_compactions(data);
    assert_contains(&run_ok(data, &["db", "check", "--full"]), &["no faults"]);
    // With the default, nothing more goes.
    let again = run_ok(data, &["db", "prune"]);
    assert_contains(&again, &[&format!("states from block {} on", BLOCKS - 40)]);
    let node = Launch::dev(["--state", "recent:40"]).data(data).start();
    chain.assert_served(&node, 1);
    let receiver = json!(format!("{:#x}", receiver(BLOCKS - 40)));
    let balance = node.rpc(
        "mc_getBalance",
        json!([receiver, to_quantity((BLOCKS - 40).into())]),
    );
    assert_eq!(balance, to_quantity((BLOCKS - 40).into()));
    // A node that runs keeps others out.
    assert_contains(&run_failing(data, &["db", "compact"]), &["in use"]);
    assert!(node.end(EndSignal::Interrupt).status.success());
    let refused = Launch::bare(["--state", "recent:5"]).data(data).run();
    assert_contains(&refused.stderr, &["recent:BLOCKS", "at least 32"]);
    assert!(!refused.status.success());
}
