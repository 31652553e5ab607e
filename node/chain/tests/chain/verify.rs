//! The check of a whole store: nothing to say of a good one, and a fault for every byte that
//! matters, in every table.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use chain::ChainSpec;
use chain::check::{CheckError, CheckEvent, CheckFault, CheckSummary, check_store};
use chain::evm::precompiles::NOTIFY_SCS;
use chain::genesis::initialise;
use chain::genesis::record::SpecRecord;
use chain::import::Importer;
use chain::rules::body::SealCheck;
use primitives::{Address, B256, Transaction, TxForm};
use store::{Store, TableId, meta_key};

use crate::common::{Maker, Plan, account, deploys, easy_spec, hex, sign, unsigned};

/// A store with something in every table: codes, storage, a destroyed contract, an uncle,
/// side blocks executed and not, a classic transaction, a notice.
fn scene() -> (Arc<ChainSpec>, Store) {
    let mut maker = Maker::new(ChainSpec::dev());
    let contract = Transaction::created_address(&account(0), 0);
    let mortal = Transaction::created_address(&account(1), 0);
    // SSTORE(word 0, word 1), LOG0.
    let code = deploys(&hex("6020 35 6000 35 55 6020 6000 a0"));
    // Without data: SELFDESTRUCT to the caller; with: SSTORE(1, 7).
    let dies = deploys(&hex("36 6005 57 33 ff 5b 6007 6001 55"));
    let write = |nonce, slot, value| {
        let data = [B256::with_last_byte(slot), B256::with_last_byte(value)].concat();
        sign(0, &unsigned(nonce, Some(contract), 0, &data))
    };
    let one = maker.block(
        maker.genesis,
        Plan::with(vec![
            sign(0, &unsigned(0, None, 0, &code)),
            sign(1, &unsigned(0, None, 0, &dies)),
        ]),
    );
    let side = maker.block(one.hash(), Plan::marked(1));
    let classic = unsigned(0, Some(account(3)), 9, &[]).sign(&crate::common::key(2), 100, TxForm::Classic);
    let two = maker.block(
        one.hash(),
        Plan::with(vec![
            write(1, 1, 5),
            write(2, 2, 6),
            sign(1, &unsigned(1, Some(mortal), 0, &[1])),
            classic,
            sign(3, &unsigned(0, Some(NOTIFY_SCS), 0, b"a notice")),
        ]),
    );
    let mut with_uncle = Plan::with(vec![write(3, 1, 0), sign(1, &unsigned(2, Some(mortal), 3, &[]))]);
    with_uncle.uncles = vec![side.header.clone()];
    let three = maker.block(two.hash(), with_uncle);
    let line = maker.line(three.hash(), 3, 7);
    let store = Store::in_memory().expect("store");
    initialise(&store, &maker.spec, &SpecRecord::dev()).expect("block 0");
    let importer = Importer::new(store.clone(), maker.spec.clone(), SealCheck::Off);
    for block in [vec![one, two, three], line, vec![side]].concat() {
        importer.import(&block, None).expect("valid");
    }
    (maker.spec, store)
}

fn faults(spec: &ChainSpec, store: &Store, full: bool) -> (CheckSummary, Vec<CheckFault>) {
    let mut faults = Vec::new();
    let checked = check_store(store, spec, full, &AtomicBool::new(false), &mut |event| {
        if let CheckEvent::Fault(fault) = event {
            faults.push(fault.clone());
        }
    });
    let checked = checked.expect("a store with a chain can be checked");
    assert_eq!(checked.faults, faults.len() as u64);
    for fault in &faults {
        assert_eq!(fault.to_string().lines().count(), 1, "{fault}");
    }
    (checked, faults)
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
fn a_good_store_has_no_faults() {
    let (spec, store) = scene();
    for full in [false, true] {
        let (checked, found) = faults(&spec, &store, full);
        assert_eq!(found, []);
        assert_eq!(
            (checked.blocks, checked.side_blocks, checked.transactions),
            (7, 1, 9)
        );
        assert_eq!((checked.codes, checked.slots), (2, 1));
    }
    // What the store also bears: a spec row is not there in stores of older versions.
    put(&store, TableId::Meta, meta_key::SPEC, None);
    assert_eq!(faults(&spec, &store, true).1, []);
}

#[test]
fn every_row_is_answered_for() {
    let (spec, store) = scene();
    let rows = crate::common::rows(&store);
    for table in TableId::ALL {
        let rows = &rows[table.name()];
        assert!(!rows.is_empty(), "{} has something to damage", table.name());
        for (key, value) in rows {
            if table == TableId::Meta && key == meta_key::SCHEMA {
                // Compared when the store is opened.
                continue;
            }
            let found = |what: &str| {
                let (_, found) = faults(&spec, &store, true);
                // The storage of a destroyed account is not reached from the head: its rows lie idle.
                let idle = table == TableId::PathToTrieNode && is_idle(key);
                assert!(
                    !found.is_empty() || idle,
                    "{} row {} with {what}",
                    table.name(),
                    primitives::hex::encode(key)
                );
            };
            for at in 0..value.len() {
                // Long rows of the same kind of bytes: not each of them.
                if value.len() > 600 && at % 7 != 0 {
                    continue;
                }
                let mut altered = value.clone();
                altered[at] ^= 1;
                put(&store, table, key, Some(&altered));
                found(&format!("byte {at} of {} flipped", value.len()));
            }
            put(&store, table, key, None);
            // A spec that is not there is one of an older version.
            if !(table == TableId::Meta && key == meta_key::SPEC) {
                found("no value");
                let mut other = key.clone();
                *other.last_mut().expect("keys are not empty") ^= 0x80;
                if !rows.contains_key(&other) {
                    put(&store, table, &other, Some(value));
                    found("another key");
                    put(&store, table, &other, None);
                }
            }
            put(&store, table, key, Some(value));
        }
    }
    assert_eq!(faults(&spec, &store, true).1, []);
}

fn is_idle(key: &[u8]) -> bool {
    let mortal = Transaction::created_address(&account(1), 0);
    key.len() > 21 && key[1..21] == *mortal.as_slice()
}

#[test]
fn rows_that_nothing_answers_for_are_counted() {
    let (spec, store) = scene();
    let check = |table: TableId, key: &[u8], value: &[u8]| {
        put(&store, table, key, Some(value));
        let (_, found) = faults(&spec, &store, false);
        assert!(!found.is_empty(), "{} takes a row too many", table.name());
        put(&store, table, key, None);
    };
    let stranger = Address::repeat_byte(0x77);
    check(TableId::TransactionToPosition, &[7; 32], &[0; 12]);
    check(TableId::HashToNumber, &[7; 32], &3u64.to_be_bytes());
    check(TableId::NumberToHash, &99u64.to_be_bytes(), &[7; 32]);
    check(TableId::BlockToReceipts, &[0; 40], &[0xc0]);
    check(TableId::BlockToNotices, &[0; 40], &[0xc0]);
    check(TableId::BlockToNotices, b"short", b"");
    check(TableId::BlockToChanges, &99u64.to_be_bytes(), &[0; 4]);
    check(
        TableId::AccountAtBlock,
        &[stranger.as_slice(), &2u64.to_be_bytes()].concat(),
        &[0, 0],
    );
    check(TableId::HashToCode, &[7; 32], b"code");
    check(TableId::BlockToHeader, b"short", b"");
    check(TableId::AccountAtBlock, b"short", b"");
}

#[test]
fn faults_say_what_and_where() {
    let (spec, store) = scene();
    let rows = crate::common::rows(&store);
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
        let text: Vec<_> = faults(&spec, &store, false)
            .1
            .iter()
            .map(CheckFault::to_string)
            .collect();
        for word in words {
            assert!(text.iter().any(|line| line.contains(word)), "{word} in {text:?}");
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
    // The very last byte of the body of the block with the uncle is the uncle's nonce.
    check(TableId::BlockToBody, 3, &["block 3 (", "uncles hash"]);
}

#[test]
fn it_stops_when_told_and_says_where_there_is_nothing() {
    let (spec, store) = scene();
    let stopped = check_store(&store, &spec, true, &AtomicBool::new(true), &mut |_| ());
    assert!(matches!(stopped, Err(CheckError::Interrupted)), "{stopped:?}");
    let empty = Store::in_memory().expect("store");
    let result = check_store(&empty, &spec, true, &AtomicBool::new(false), &mut |_| ());
    assert!(matches!(result, Err(CheckError::Empty)), "{result:?}");
}

#[test]
fn another_spec_is_told() {
    let (_, store) = scene();
    let (_, found) = faults(&easy_spec(), &store, false);
    assert!(
        found.iter().any(|fault| fault.to_string().contains("chain spec")),
        "{found:?}"
    );
}
