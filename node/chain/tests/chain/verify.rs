//! The check of a whole store: a sound store has no faults, and every altered byte in any table is
//! a fault.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use chain::ChainSpec;
use chain::check::{CheckError, CheckFault, CheckSummary, check_store};
use chain::evm::precompiles::NOTIFY_SCS;
use chain::genesis::initialise;
use chain::genesis::record::SpecRecord;
use chain::import::{Importer, OldBlocks};
use chain::rules::seal::SealCheck;
use primitives::{Address, Transaction, TxForm};
use store::{AccountKey, StateTrieId, Store, TableId, meta_key};

use crate::common::{Maker, Plan, account, deploys, easy_spec, hex, sign, stored_rows, unsigned};
use crate::scenes::{self, create_slot_writer, write_slot};

/// A store with rows in every table: codes, storage, a destroyed contract, an uncle, side blocks
/// executed and not, a transaction of 9 fields, a notice, headers without bodies.
fn scene() -> (Arc<ChainSpec>, Store) {
    let mut maker = Maker::new(ChainSpec::dev());
    // Without input: SELFDESTRUCT to the caller; with input: SSTORE(1, 7).
    let destructible_code = deploys(&hex("36 6005 57 33 ff 5b 6007 6001 55"));
    let one = maker.block(
        maker.genesis,
        Plan::with(vec![
            create_slot_writer(),
            sign(1, &unsigned(0, None, 0, &destructible_code)),
        ]),
    );
    let side = maker.block(one.hash(), Plan::marked(1));
    let classic = unsigned(0, Some(account(3)), 9, &[]).sign(&crate::common::key(2), 100, TxForm::Classic);
    let two = maker.block(
        one.hash(),
        Plan::with(vec![
            write_slot(1, 1, 5),
            write_slot(2, 2, 6),
            sign(1, &unsigned(1, Some(destructible()), 0, &[1])),
            classic,
            sign(3, &unsigned(0, Some(NOTIFY_SCS), 0, b"a notice")),
        ]),
    );
    let mut with_uncle = Plan::with(vec![
        write_slot(3, 1, 0),
        sign(1, &unsigned(2, Some(destructible()), 3, &[])),
    ]);
    with_uncle.uncles = vec![side.header.clone()];
    let three = maker.block(two.hash(), with_uncle);
    // So many that the account of the miner has older changes than its row lists.
    let line = maker.line(three.hash(), 40, 7);
    let store = Store::in_memory().expect("store");
    initialise(&store, &maker.spec, &SpecRecord::dev()).expect("block 0");
    let importer = Importer::new(store.clone(), maker.spec.clone(), SealCheck::Off);
    // Blocks 0 and 1 move into the blocks file.
    let importer = importer.moving(OldBlocks { depth: 41, step: 1 });
    // A branch of three blocks and two headers. One of its blocks was executed.
    let branch = maker.line(line[37].hash(), 5, 8);
    let (lower, upper) = line.split_at(38);
    let blocks = [&[one, two, three], lower, &branch[..1], upper, &[side]].concat();
    for block in &blocks {
        importer.import(block, None).expect("valid");
    }
    let headers = branch[1..].iter().map(|block| block.header.clone());
    let view = store.snapshot().expect("snapshot");
    let headers = importer
        .check_headers(&*view, headers.collect(), None)
        .expect("valid");
    importer.import_headers(&headers).expect("valid");
    importer.import(&branch[1], None).expect("valid");
    (maker.spec, store)
}

/// The contract that is destroyed in block 3.
fn destructible() -> Address {
    Transaction::created_address(&account(1), 0)
}

/// Checks the store. Also asserts that the faults are counted and have texts of one line.
fn check_faults(spec: &ChainSpec, store: &Store, full: bool) -> (CheckSummary, Vec<CheckFault>) {
    let (summary, faults) = scenes::check_faults(store, spec, full);
    assert_eq!(summary.faults, faults.len() as u64);
    for fault in &faults {
        assert_eq!(fault.to_string().lines().count(), 1, "{fault}");
    }
    (summary, faults)
}

fn put(store: &Store, table: TableId, key: &[u8], value: Option<&[u8]>) {
    let batch = store.batch().expect("batch");
    batch
        .write(|tables| match value {
            Some(value) => tables.put(table, key, value),
            None => tables.delete(table, key),
        })
        .expect("written");
    batch.commit().expect("committed");
}

#[test]
fn a_sound_store_has_no_faults() {
    let (spec, store) = scene();
    for full in [false, true] {
        let (summary, found) = check_faults(&spec, &store, full);
        assert_eq!(found, []);
        assert_eq!(
            (summary.blocks, summary.side_blocks, summary.transactions),
            (44, 3, 9)
        );
        assert_eq!((summary.codes, summary.slots), (2, 1));
        assert_eq!(summary.bare_headers, 3);
    }
    // Stores of older versions have no row with the spec.
    put(&store, TableId::Meta, meta_key::SPEC, None);
    assert_eq!(check_faults(&spec, &store, true).1, []);
}

/// Alters the rows of the table at `half` and of each second one after it.
fn alter(half: usize) {
    let (spec, store) = scene();
    let rows = stored_rows(&store);
    for table in TableId::ALL.into_iter().skip(half).step_by(2) {
        let rows = &rows[table.name()];
        // Rows that are to be removed are removed at once here.
        let is_empty = table == TableId::DeadStorage;
        assert_eq!(rows.is_empty(), is_empty, "{}", table.name());
        for (key, value) in rows {
            // Blocks of the same kind follow.
            if is_by_block(table) && key[..8] > 8u64.to_be_bytes()[..] {
                continue;
            }
            if table == TableId::Meta && key == meta_key::SCHEMA {
                // The schema version is checked when the store is opened.
                continue;
            }
            let assert_fault = |what: &str| {
                let (_, found) = check_faults(&spec, &store, true);
                // The trie nodes of a destroyed contract belong to no account at the head, so the
                // check does not read them.
                let unused = table == TableId::PathToTrieNode && is_of_destroyed_contract(key);
                assert!(
                    !found.is_empty() || unused,
                    "{} row {} with {what}",
                    table.name(),
                    primitives::hex::encode(key)
                );
            };
            for at in 0..value.len() {
                // Of long rows not every byte is tested.
                let step = match value.len() {
                    ..100 => 1,
                    100..=600 => 3,
                    _ => 13,
                };
                if at % step != 0 {
                    continue;
                }
                let mut altered = value.clone();
                altered[at] ^= 1;
                put(&store, table, key, Some(&altered));
                assert_fault(&format!("byte {at} of {} flipped", value.len()));
            }
            put(&store, table, key, None);
            // Stores of older versions have no row with the spec. After a long run fewer tries of
            // recent states can be read, so the lowest row may be missing.
            let is_lowest = table == TableId::BlockToPastNodes && rows.keys().next() == Some(key);
            let is_spec = table == TableId::Meta && key == meta_key::SPEC;
            if !is_lowest && !is_spec {
                assert_fault("no value");
                let mut other = key.clone();
                *other.last_mut().expect("keys are not empty") ^= 0x80;
                if !rows.contains_key(&other) {
                    put(&store, table, &other, Some(value));
                    assert_fault("another key");
                    put(&store, table, &other, None);
                }
            }
            put(&store, table, key, Some(value));
        }
    }
    assert_eq!(check_faults(&spec, &store, true).1, []);
}

#[test]
fn every_altered_or_missing_row_is_a_fault() {
    alter(0);
}

#[test]
fn every_altered_or_missing_row_of_the_other_tables_is_a_fault() {
    alter(1);
}

/// Whether the table has a row for each canonical block, and its keys begin with the number.
fn is_by_block(table: TableId) -> bool {
    let is_beside_chain = matches!(table, TableId::SideBlockList | TableId::BestNumberToHash);
    table.info().key.starts_with("block number (8)") && !is_beside_chain
}

/// Whether this is the key of a trie node of the destroyed contract's storage.
fn is_of_destroyed_contract(key: &[u8]) -> bool {
    let destroyed = AccountKey::of(&destructible());
    matches!(StateTrieId::split(key), Some((StateTrieId::Storage(owner), _)) if owner.account == destroyed)
}

#[test]
fn rows_that_belong_to_no_block_are_faults() {
    let (spec, store) = scene();
    let check = |table: TableId, key: &[u8], value: &[u8]| {
        put(&store, table, key, Some(value));
        let (_, found) = check_faults(&spec, &store, false);
        assert!(!found.is_empty(), "{} with a row too many", table.name());
        put(&store, table, key, None);
    };
    let no_account = AccountKey::of(&Address::repeat_byte(0x77));
    check(TableId::TransactionToPosition, &[7; 8], &[1, 0]);
    check(TableId::TransactionToPosition, &[7; 8], &[]);
    check(TableId::HashToNumber, &[7; 32], &3u64.to_be_bytes());
    check(TableId::NumberToHash, &99u64.to_be_bytes(), &[7; 32]);
    check(TableId::BlockToReceipts, &[0; 40], &[0xc0]);
    check(TableId::BlockToNotices, &[0; 40], &[0xc0]);
    check(TableId::BlockToNotices, b"short", b"");
    check(TableId::BlockToChanges, &99u64.to_be_bytes(), &[0]);
    check(TableId::Account, no_account.0.as_slice(), &[4, 2, 0, 0]);
    check(TableId::GoneAccount, no_account.0.as_slice(), &[4, 2, 0, 0]);
    check(
        TableId::StateHistory,
        &[&[0], no_account.0.as_slice(), &2u64.to_be_bytes()].concat(),
        &[],
    );
    check(TableId::HashToCode, &[7; 32], b"code");
    let destroyed = AccountKey::of(&destructible());
    check(TableId::DeadStorage, &no_account.storage(0).to_bytes(), &[0]);
    check(TableId::DeadStorage, &destroyed.storage(1).to_bytes(), &[0]);
    check(TableId::DeadStorage, &destroyed.storage(0).to_bytes(), &[2]);
    check(TableId::DeadStorage, b"short", &[0]);
    check(TableId::BlockToHeader, b"short", b"");
    check(TableId::Account, b"short", b"");
    check(TableId::StateHistory, b"short", b"");
}

#[test]
fn faults_name_the_row_and_the_value() {
    let (spec, store) = scene();
    let rows = stored_rows(&store);
    let first = |table: TableId, from: u64| {
        let rows = &rows[table.name()];
        let row = rows.range(from.to_be_bytes().to_vec()..).next().expect("a row");
        (row.0.clone(), row.1.clone())
    };
    let check = |table: TableId, from: u64, words: &[&str]| {
        let (key, value) = first(table, from);
        let mut altered = value.clone();
        *altered.last_mut().expect("bytes") ^= 1;
        put(&store, table, &key, Some(&altered));
        let (_, found) = check_faults(&spec, &store, false);
        let texts: Vec<_> = found.iter().map(CheckFault::to_string).collect();
        for word in words {
            assert!(
                texts.iter().any(|text| text.contains(word)),
                "{word} in {texts:?}"
            );
        }
        put(&store, table, &key, Some(&value));
    };
    check(TableId::BlockToHeader, 2, &["block 2 (", "hash of the header"]);
    check(TableId::NumberToHash, 4, &["block 4 (", "parent"]);
    check(
        TableId::BlockToReceipts,
        2,
        &["block_to_receipts row 0000000000000002"],
    );
    // The last byte of the body is in the uncle's nonce.
    check(TableId::BlockToBody, 3, &["block 3 (", "uncles hash"]);
}

#[test]
fn a_stopped_check_and_an_empty_store_are_errors() {
    let (spec, store) = scene();
    let stopped = check_store(&store, &spec, true, &AtomicBool::new(true), &mut |_| ());
    assert!(matches!(stopped, Err(CheckError::Interrupted)), "{stopped:?}");
    let empty = Store::in_memory().expect("store");
    let result = check_store(&empty, &spec, true, &AtomicBool::new(false), &mut |_| ());
    assert!(matches!(result, Err(CheckError::Empty)), "{result:?}");
}

#[test]
fn another_spec_is_a_fault() {
    let (_, store) = scene();
    let (_, found) = check_faults(&easy_spec(), &store, false);
    assert!(
        found.iter().any(|fault| fault.to_string().contains("chain spec")),
        "{found:?}"
    );
}
