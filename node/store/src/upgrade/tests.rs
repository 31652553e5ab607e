//! A file of the old layout is rewritten, whole and after deaths at each commit and run.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use primitives::{Address, U256};

use super::*;
use crate::{AccountKey, AccountRecord, AccountVersion, AccountWrite, SlotWrite, Source, StateReads};

/// Rows by table and key.
type Rows = BTreeMap<(String, Vec<u8>), Vec<u8>>;

/// A store with accounts and slots that came and went, and with older changes.
fn filled(directory: &Path) -> Rows {
    let store = Store::open(directory, &StoreOptions::default()).unwrap();
    for number in 1..=60u64 {
        let change = |account: u8| {
            let address = Address::repeat_byte(account);
            let gone = (number + u64::from(account)).is_multiple_of(7);
            AccountWrite {
                address,
                key: AccountKey::of(&address),
                version: AccountVersion {
                    account: (!gone).then(|| AccountRecord {
                        tx_nonce: number,
                        ..AccountRecord::default()
                    }),
                    incarnation: 2,
                },
                slots: [1, 2]
                    .map(|slot| SlotWrite::new(U256::from(slot) << 200, U256::from(number % 3)))
                    .into(),
            }
        };
        let changed: Vec<_> = (0..20).map(change).collect();
        let batch = store.batch().unwrap();
        batch
            .write(|tables| {
                tables.put(TableId::DeadStorage, &changed[3].key.storage(1).to_bytes(), &[1])?;
                tables.put_state(number, &changed)
            })
            .unwrap();
        batch.commit().unwrap();
    }
    rows(&store)
}

fn rows(store: &Store) -> Rows {
    let view = store.snapshot().unwrap();
    let mut rows = Rows::new();
    for table in TableId::ALL {
        view.scan(table, &[], |key, value| {
            rows.insert((table.name().to_owned(), key.to_vec()), value.to_vec());
            ControlFlow::Continue(())
        })
        .unwrap();
    }
    rows
}

/// Turns a file into one of the old layout.
fn make_old(directory: &Path, rows: &Rows) {
    let addresses: BTreeMap<Vec<u8>, Address> = (0..=255)
        .map(Address::repeat_byte)
        .map(|address| (AccountKey::of(&address).0.to_vec(), address))
        .collect();
    let slots: BTreeMap<Vec<u8>, U256> = [1, 2]
        .map(|slot| U256::from(slot) << 200)
        .map(|slot| (crate::slot_hash(&slot).to_vec(), slot))
        .into();
    let old_owner = |key: &[u8]| [addresses[&key[..32]].as_slice(), &key[32..36]].concat();
    let old_slot = |key: &[u8]| [old_owner(key), slots[&key[36..68]].to_be_bytes_vec()].concat();
    let location = DatabaseLocation::File(directory.join(FILE_NAME));
    let (database, _) = location.open(&StoreOptions::default()).unwrap();
    let transaction = database.begin_write().unwrap();
    for ((table, key), row) in rows {
        let shorter = |kind: crate::StateKind| {
            let mut rest = row.as_slice();
            let front = crate::codec::read_number(&mut rest).unwrap();
            let list = crate::codec::take(&mut rest, front / 4).unwrap();
            let preimage = match kind {
                crate::StateKind::Account => 20,
                crate::StateKind::Slot => 1 + usize::from(rest[0]),
            };
            let mut old = Vec::new();
            crate::codec::push_number(&mut old, list.len() as u64 * 2 + front % 2);
            [old.as_slice(), list, &rest[preimage..]].concat()
        };
        let (name, key, value) = match table.as_str() {
            "account_by_hash" | "gone_account" => (
                "account",
                addresses[key].to_vec(),
                shorter(crate::StateKind::Account),
            ),
            "storage_by_hash" | "gone_storage" => ("storage", old_slot(key), shorter(crate::StateKind::Slot)),
            "state_history_by_hash" if key[0] == 0 => (
                "state_history",
                [&[0], addresses[&key[1..33]].as_slice(), &key[33..]].concat(),
                row.clone(),
            ),
            "state_history_by_hash" => (
                "state_history",
                [&[1], old_slot(&key[1..69]).as_slice(), &key[69..]].concat(),
                row.clone(),
            ),
            "dead_storage_by_hash" => ("dead_storage", old_owner(key), row.clone()),
            _ => continue,
        };
        let mut table = transaction.open_table(definition(name)).unwrap();
        table.insert(key.as_slice(), value.as_slice()).unwrap();
    }
    for table in [
        TableId::Account,
        TableId::GoneAccount,
        TableId::Storage,
        TableId::GoneStorage,
        TableId::StateHistory,
        TableId::DeadStorage,
        TableId::PathToTrieNode,
    ] {
        transaction.delete_table(table.definition()).unwrap();
    }
    let mut trie = transaction.open_table(definition(TRIE_TABLE)).unwrap();
    trie.insert([0].as_slice(), [9].as_slice()).unwrap();
    drop(trie);
    let mut meta = transaction.open_table(TableId::Meta.definition()).unwrap();
    meta.insert(meta_key::SCHEMA, OLD_VERSION.to_be_bytes().as_slice())
        .unwrap();
    drop(meta);
    commit_durably(&CallMonitor::new(directory.to_owned()), transaction).unwrap();
}

/// Small runs, so that there are several.
fn options() -> StoreOptions {
    StoreOptions {
        cache_bytes: 1 << 20,
        ..StoreOptions::default()
    }
}

fn check_upgraded(directory: &Path, before: &Rows) {
    assert!(!directory.join(FOLDER).exists());
    let error = Store::open(directory, &options()).unwrap_err();
    assert!(matches!(error, StoreError::WithoutTries { .. }), "{error}");
    let open = StoreOptions {
        without_tries: true,
        ..options()
    };
    let store = Store::open(directory, &open).unwrap();
    let mut after = rows(&store);
    let mark = ("meta".to_owned(), meta_key::WITHOUT_TRIES.to_vec());
    assert!(after.remove(&mark).is_some());
    assert!(after == *before);
    let address = Address::repeat_byte(5);
    let version = store.snapshot().unwrap().account_at(&address, 31).unwrap();
    assert_eq!(version.account.map(|account| account.tx_nonce), Some(31));
    store.end_upgrade().unwrap();
    drop(store);
    drop(Store::open(directory, &options()).unwrap());
    let again = Store::upgrade(directory, &options(), &mut |_| panic!("nothing to do"));
    assert_eq!(again.unwrap(), UpgradeState::Current);
}

#[test]
fn a_file_of_the_old_layout_is_rewritten() {
    let directory = tempfile::tempdir().unwrap();
    let before = filled(directory.path());
    make_old(directory.path(), &before);
    let error = Store::open(directory.path(), &options()).unwrap_err();
    assert!(matches!(error, StoreError::Schema { got: 4, .. }), "{error}");
    let mut reports = Vec::new();
    let state = Store::upgrade(directory.path(), &options(), &mut |progress| {
        reports.push(progress);
    });
    assert_eq!(state.unwrap(), UpgradeState::WithoutTries);
    assert!(reports.iter().all(|report| report.done <= report.total));
    assert_eq!(reports.first().map(|report| report.what), Some("accounts"));
    check_upgraded(directory.path(), &before);
}

#[test]
fn a_rewrite_that_ended_anywhere_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let before = filled(directory.path());
    make_old(directory.path(), &before);
    let path = directory.path().join(FILE_NAME);
    let monitor = CallMonitor::new(path.clone());
    let folder = directory.path().join(FOLDER);
    // Each round does one more step, and then the process is gone.
    for round in 0..4 {
        let location = DatabaseLocation::File(path.clone());
        let (database, _) = location.open(&options()).unwrap();
        let upgrade = Upgrade {
            database: &database,
            monitor: &monitor,
            folder: &folder,
            run_bytes: 700,
        };
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("unfinished"), b"half a row").unwrap();
        let table = &OLD_TABLES[usize::from(round > 2)];
        let mut sorter = Sorter::open(&folder, table.name).unwrap();
        match round {
            0 => {
                // Some runs, and rows in memory that are lost.
                let mut converter = Converter::default();
                for (key, value) in upgrade.read_part(table.name, None).unwrap().drain(..13) {
                    let row = converter.convert(table.kind, &key, &value).unwrap();
                    sorter.add(&key, row, 700).unwrap();
                }
                assert!(sorter.last_read().is_some() && !sorter.is_complete());
            }
            1 => {
                let mut progress = Progress {
                    what: "",
                    done: 0,
                    total: 0,
                    report: &mut |_| (),
                };
                upgrade.sort(table, &mut sorter, &mut progress).unwrap();
                // Half of the rows were written.
                let mut merged = sorter.merge().unwrap();
                let half: Vec<_> = (0..9).map_while(|_| merged.next().unwrap()).collect();
                upgrade.write_batch(&half).unwrap();
            }
            _ => upgrade.rewrite(table, &mut |_| ()).unwrap(),
        }
    }
    let state = Store::upgrade(directory.path(), &options(), &mut |_| ());
    assert_eq!(state.unwrap(), UpgradeState::WithoutTries);
    check_upgraded(directory.path(), &before);
}

#[test]
fn too_little_space_is_refused_before_anything_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let before = filled(directory.path());
    make_old(directory.path(), &before);
    let error = Store::compact(directory.path(), &options(), &mut |_| ControlFlow::Continue(())).unwrap_err();
    assert!(
        error.to_string().contains("got 4, expected 5: start `vnode`"),
        "{error}"
    );
    let path = directory.path().join(FILE_NAME);
    let monitor = CallMonitor::new(path.clone());
    let folder = directory.path().join(FOLDER);
    std::fs::create_dir_all(&folder).unwrap();
    let (database, _) = DatabaseLocation::File(path).open(&options()).unwrap();
    let upgrade = Upgrade {
        database: &database,
        monitor: &monitor,
        folder: &folder,
        run_bytes: 700,
    };
    let needed = upgrade.needed_bytes().unwrap();
    let rows: usize = before.iter().map(|((_, key), row)| key.len() + row.len()).sum();
    assert!(needed > rows as u64, "{needed}, rows {rows}");
    let error = upgrade.check_space(needed - 1).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains(&format!("needs {needed} bytes of free space: got {}", needed - 1)),
        "{text}"
    );
    upgrade.check_space(needed).unwrap();
    // The more is done, the less is needed.
    let table = &OLD_TABLES[0];
    upgrade.rewrite(table, &mut |_| ()).unwrap();
    let less = upgrade.needed_bytes().unwrap();
    assert_eq!(less, needed - 2 * upgrade.table_bytes(table.name).unwrap());
    assert!(free_bytes(directory.path()).unwrap() > 0);
}

#[test]
fn no_row_of_a_damaged_run_is_used() {
    let rows = |folder: &Path| -> Result<usize, StoreError> {
        let mut merged = Sorter::open(folder, "account")?.merge()?;
        let mut rows = 0;
        while let Some(row) = merged.next()? {
            assert_eq!(row.key, [rows as u8; 40]);
            rows += 1;
        }
        Ok(rows)
    };
    let directory = tempfile::tempdir().unwrap();
    let mut sorter = Sorter::open(directory.path(), "account").unwrap();
    for key in 0..5u8 {
        let row = SortedRow {
            table: TableId::Account,
            key: vec![key; 40],
            value: vec![7; usize::from(key)],
        };
        sorter.add(&[key], row, usize::MAX).unwrap();
    }
    sorter.complete().unwrap();
    assert_eq!(rows(directory.path()).unwrap(), 5);
    let run = std::fs::read_dir(directory.path()).unwrap();
    let run = run.map(|entry| entry.unwrap().path());
    let run = run
        .into_iter()
        .find(|path| path.extension().is_some_and(|end| end == "run"));
    let run = run.unwrap();
    let whole = std::fs::read(&run).unwrap();
    let check = |bytes: &[u8]| {
        std::fs::write(&run, bytes).unwrap();
        let error = rows(directory.path()).unwrap_err();
        assert!(matches!(error, StoreError::DamagedRun { .. }), "{error}");
    };
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        check(&damaged);
        check(&whole[..at]);
    }
}

#[test]
fn a_file_of_a_newer_layout_is_refused_with_both_versions() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path(), &options()).unwrap();
    let batch = store.batch().unwrap();
    batch
        .write(|tables| tables.put(TableId::Meta, meta_key::SCHEMA, &9u32.to_be_bytes()))
        .unwrap();
    batch.commit().unwrap();
    drop(store);
    let error = Store::upgrade(directory.path(), &options(), &mut |_| ()).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("got 9, expected 5"), "{text}");
    let empty = tempfile::tempdir().unwrap();
    let state = Store::upgrade(empty.path(), &options(), &mut |_| ());
    assert_eq!(state.unwrap(), UpgradeState::Current);
}
