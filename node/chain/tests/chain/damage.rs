//! Damaged rows: truncated, altered, emptied, deleted. Reads and imports give errors or do not
//! notice the damage. They never panic, and a refused import changes nothing.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use chain::call::{CallRequest, StateAt, TIMEOUT_DEFAULT};
use chain::evm::precompiles::NOTIFY_SCS;
use chain::genesis::ensure_genesis;
use chain::import::{ImportError, Importer};
use chain::logs::{LogLimits, LogPlan, LogQuery};
use chain::rules::seal::SealCheck;
use chain::{ChainSpec, View};
use primitives::{Address, B256, Block, Transaction, U256};
use store::{AccountKey, BlockReads, Source, StateReads, Store, StoreError, TableId};

use crate::common::{Maker, Node, Plan, Rows, account, deploys, hex, rows, sign, stored_rows, unsigned};

/// A chain with rows in every table, and blocks that can be imported next.
struct Scene {
    /// The accounts at the head.
    addresses: Vec<Address>,
    spec: Arc<ChainSpec>,
    rows: Rows,
    transactions: Vec<B256>,
    contract: Address,
    next: Block,
    /// Blocks of a side branch. The last one makes it the heavier one.
    branch: Vec<Block>,
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
    let side = maker.block(one.hash(), Plan::marked(1));
    let classic =
        unsigned(0, Some(account(2)), 9, &[]).sign(&crate::common::key(1), 100, primitives::TxForm::Classic);
    let two = maker.block(
        one.hash(),
        Plan::with(vec![
            write(1, 1, 5),
            write(2, 2, 6),
            classic,
            sign(3, &unsigned(0, Some(NOTIFY_SCS), 0, b"a notice")),
        ]),
    );
    let mut with_uncle = Plan::with(vec![write(3, 1, 0)]);
    with_uncle.uncles = vec![side.header.clone()];
    let three = maker.block(two.hash(), with_uncle);
    let next = maker.block(three.hash(), Plan::with(vec![write(4, 2, 7)]));
    let other = maker.block(side.hash(), Plan::with(vec![write(1, 1, 1)]));
    let branch = maker.block(other.hash(), Plan::with(vec![write(2, 2, 2)]));
    let node = Node::new(&maker.spec);
    let canonical = [one, two, three];
    node.take(&canonical);
    node.take(&[side, other]);
    let last = maker.line(branch.hash(), 1, 8);
    let transactions = canonical
        .iter()
        .flat_map(|block| &block.transactions)
        .map(Transaction::hash)
        .collect();
    let head = View::new(&node.store, maker.spec.clone()).expect("a view");
    let mut addresses = Vec::new();
    let walked =
        head.snapshot()
            .walk_accounts::<StoreError>(&AccountKey(B256::ZERO), head.head_number(), |found| {
                addresses.extend(found.address);
                Ok(())
            });
    walked.expect("accounts");
    Scene {
        addresses,
        rows: node.rows(),
        spec: maker.spec,
        transactions,
        contract,
        next,
        branch: [vec![branch], last].concat(),
    }
}

impl Scene {
    /// A store with these rows.
    fn store(&self, rows: &Rows) -> Store {
        let store = Store::in_memory().expect("store");
        let batch = store.batch().expect("batch");
        batch
            .write(|tables| {
                for table in TableId::ALL {
                    for (key, value) in &rows[table.name()] {
                        tables.put(table, key, value)?;
                    }
                }
                Ok::<(), store::StoreError>(())
            })
            .expect("written");
        batch.commit().expect("committed");
        store
    }

    /// Reads everything in every way. Returns the number of reads that failed.
    fn read(&self, store: &Store) -> usize {
        let mut errors = 0;
        let mut note = |failed: bool| errors += usize::from(failed);
        note(ensure_genesis(store, &self.spec).is_err());
        let Ok(view) = View::new(store, self.spec.clone()) else {
            return errors + 1;
        };
        let request = CallRequest {
            to: Some(self.contract),
            input: [B256::with_last_byte(2), B256::with_last_byte(3)].concat().into(),
            ..Default::default()
        };
        for number in 0..=4 {
            note(view.header(number).is_err());
            match view.block(number) {
                Ok(Some(block)) => {
                    note(view.receipts(&block.id()).is_err());
                    let notices = view.notices(&block.id());
                    note(notices.map_or(true, |notices| {
                        notices.is_some_and(|notices| notices.is_empty() == (number == 2))
                    }));
                }
                other => note(other.is_err()),
            }
            note(view.snapshot().changes(number).is_err() && number < 4);
            for address in &self.addresses {
                note(view.account(address, number).is_err());
                note(view.code(address, number).is_err());
                note(view.slot(address, &U256::from(1), number).is_err());
                note(view.slot(address, &U256::from(2), number).is_err());
            }
            note(
                view.call(StateAt::Block(number), &request, TIMEOUT_DEFAULT)
                    .is_err()
                    && number < 4,
            );
            note(
                view.estimate_gas(StateAt::Block(number), &request, TIMEOUT_DEFAULT)
                    .is_err()
                    && number < 4,
            );
        }
        for addresses in [Vec::new(), vec![self.contract]] {
            let query = LogQuery::new(addresses, Vec::new());
            for plan in [LogPlan::Index, LogPlan::Blooms] {
                match view.logs_by(Some(plan), 0..=4, &query, LogLimits::NONE) {
                    Ok(search) => note(search.filter(Result::is_err).count() > 0),
                    Err(_) => note(true),
                }
            }
        }
        for hash in &self.transactions {
            match view.transaction(hash) {
                Ok(Some((block, index))) => drop(block.body.transactions[index].clone()),
                Ok(None) | Err(_) => note(true),
            }
        }
        for hash in self.rows["hash_to_number"].keys() {
            let hash = B256::from_slice(hash);
            note(view.header_by_hash(&hash).is_err());
            note(view.block_by_hash(&hash).is_err());
        }
        errors
    }

    /// Imports the next block, then the branch. Returns the number of imports that failed.
    fn import(&self, store: &Store) -> usize {
        let importer = Importer::new(store.clone(), self.spec.clone(), SealCheck::Off);
        let mut errors = 0;
        for block in std::iter::once(&self.next).chain(&self.branch) {
            let before = stored_rows(store);
            if importer.import(block, None).is_err() {
                errors += 1;
                let after = stored_rows(store);
                for (table, rows) in &before {
                    // A branch that leads to an invalid block is removed.
                    let may_go = [
                        "hash_to_number",
                        "side_block_list",
                        "block_to_header",
                        "block_to_body",
                        "block_to_receipts",
                    ];
                    let may_go = may_go.contains(table);
                    let left = after[table].iter().all(|(key, row)| rows.get(key) == Some(row));
                    assert!(
                        left && (may_go || after[table].len() == rows.len()),
                        "a refused block has changed rows of {table}"
                    );
                }
            }
        }
        errors
    }
}

/// A name, and a function that damages a row; `None` deletes it.
type Fault = (&'static str, fn(&[u8]) -> Option<Vec<u8>>);

const FAULTS: [Fault; 9] = [
    ("deleted", |_| None),
    ("emptied", |_| Some(Vec::new())),
    ("without its last byte", |row| {
        Some(row[..row.len().saturating_sub(1)].to_vec())
    }),
    ("without its second half", |row| {
        Some(row[..row.len() / 2].to_vec())
    }),
    ("longer", |row| Some([row, &[1]].concat())),
    ("altered at its start", |row| Some(flipped(row, 0))),
    ("altered in its middle", |row| Some(flipped(row, row.len() / 2))),
    ("altered at its end", |row| {
        Some(flipped(row, row.len().saturating_sub(1)))
    }),
    ("all ones", |row| Some(vec![0xff; row.len()])),
];

fn flipped(row: &[u8], at: usize) -> Vec<u8> {
    let mut row = row.to_vec();
    if let Some(byte) = row.get_mut(at) {
        *byte ^= 0x55;
    }
    row
}

#[test]
fn the_undamaged_scene_has_no_errors() {
    let scene = scene();
    let store = scene.store(&scene.rows);
    assert!(rows(&store) == scene.rows);
    assert_eq!(scene.read(&store), 0);
    assert_eq!(scene.import(&store), 0);
}

#[test]
fn damage_gives_errors_and_never_a_panic() {
    let scene = scene();
    let mut seen: Vec<(&str, usize, usize)> = Vec::new();
    for table in TableId::ALL {
        let (mut faults, mut noticed) = (0, 0);
        for (key, row) in &scene.rows[table.name()] {
            for (name, fault) in FAULTS {
                let mut damaged = scene.rows.clone();
                let rows = damaged.get_mut(table.name()).expect("the table");
                match fault(row) {
                    Some(row) => rows.insert(key.clone(), row),
                    None => rows.remove(key),
                };
                let store = scene.store(&damaged);
                let run = || (scene.read(&store), scene.import(&store));
                let Ok((reads, imports)) = catch_unwind(AssertUnwindSafe(run)) else {
                    panic!("{} row {key:02x?} {name}: a panic", table.name());
                };
                faults += 1;
                noticed += usize::from(reads + imports > 0);
            }
        }
        seen.push((table.name(), faults, noticed));
    }
    println!("table, faults made, faults noticed: {seen:?}");
    // In tables whose rows are covered by a hash, every fault is noticed.
    for (name, faults, noticed) in seen {
        // A scene so short has no older changes, no old blocks, nothing that was destroyed and no
        // headers without bodies; the check of the store is tested with some. Past nodes are left
        // out of the rows.
        let empty = [
            "state_history_by_hash",
            "gone_account",
            "gone_storage",
            "number_to_ancient",
            "dead_storage_by_hash",
            "hash_to_bare_header",
            "best_number_to_hash",
            "block_to_past_nodes",
        ];
        let empty = empty.contains(&name);
        assert!(faults > 0 || empty, "{name} has rows");
        let strict = ["hash_to_code", "number_to_hash"].contains(&name);
        assert!(!strict || faults == noticed, "{name}: {noticed} of {faults}");
        // Of `meta` only the head is read here; of the trie nodes only those on the paths that
        // change; the list of side blocks only when there are too many.
        let some = ["meta", "path_to_branch", "side_block_list"].contains(&name);
        assert!(
            some || noticed * 2 > faults || faults == 0,
            "{name}: {noticed} of {faults}"
        );
    }
}

#[test]
fn a_missing_trie_node_stops_the_import_that_needs_it() {
    let scene = scene();
    let mut damaged = scene.rows.clone();
    // The root of the account trie.
    let nodes = damaged.get_mut("path_to_branch").expect("the table");
    assert!(nodes.remove(&vec![0]).is_some());
    let store = scene.store(&damaged);
    let importer = Importer::new(store.clone(), scene.spec.clone(), SealCheck::Off);
    let error = importer.import(&scene.next, None).expect_err("no root node");
    assert!(matches!(error, ImportError::State(_)), "{error:?}");
    assert!(error.to_string().contains("path_to_branch"), "{error}");
    let snapshot = store.snapshot().expect("snapshot");
    assert_eq!(snapshot.head().expect("read").expect("head").0, 3);
    assert!(
        snapshot
            .get(TableId::PathToTrieNode, &[0])
            .expect("read")
            .is_none()
    );
}
