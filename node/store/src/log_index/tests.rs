//! Lists of blocks while blocks are added and removed, and log keys.

use std::collections::BTreeMap;

use primitives::{Address, B256, Log, ReceiptOutcome};

use super::*;
use crate::Store;
use crate::block_list::ROW_BYTES_MAX;

fn log(address: u8, topics: &[u8]) -> Log {
    Log {
        address: Address::repeat_byte(address),
        topics: topics.iter().map(|topic| B256::repeat_byte(*topic)).collect(),
        ..Default::default()
    }
}

fn receipts(logs: Vec<Log>) -> Vec<Receipt> {
    vec![Receipt::new(ReceiptOutcome::Status(true), 0, logs)]
}

fn write(store: &Store, work: impl FnOnce(&mut Tables<'_>) -> Result<(), StoreError>) {
    let batch = store.batch().unwrap();
    batch.write(work).unwrap();
    batch.commit().unwrap();
}

fn rows(store: &Store) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut rows = BTreeMap::new();
    let snapshot = store.snapshot().unwrap();
    snapshot
        .scan(TABLE, &[], |key, value| {
            rows.insert(key.to_vec(), value.to_vec());
            ControlFlow::Continue(())
        })
        .unwrap();
    rows
}

/// All blocks of `key`, read row by row.
fn blocks(store: &Store, key: &LogKey) -> Vec<u64> {
    let snapshot = store.snapshot().unwrap();
    let (mut all, mut row) = (Vec::new(), Vec::new());
    let mut from = 0;
    while snapshot.log_blocks(key, from, &mut row).unwrap() {
        all.extend(row.iter().filter(|block| **block >= from));
        from = row.last().unwrap() + 1;
    }
    all
}

#[test]
fn keys_differ_by_kind_and_position() {
    let value = B256::left_padding_from(Address::repeat_byte(1).as_slice());
    let keys = [
        LogKey::any(),
        LogKey::address(&Address::repeat_byte(1)),
        LogKey::topic(0, &value),
        LogKey::topic(3, &value),
    ];
    for (index, key) in keys.iter().enumerate() {
        assert_eq!(keys.iter().position(|other| other == key), Some(index));
    }
    let of_logs = LogKey::of_logs(&[log(1, &[2, 2]), log(1, &[2])]);
    let mut expected = [
        LogKey::any(),
        LogKey::address(&Address::repeat_byte(1)),
        LogKey::topic(0, &B256::repeat_byte(2)),
        LogKey::topic(1, &B256::repeat_byte(2)),
    ];
    expected.sort();
    assert_eq!(of_logs, expected);
}

#[test]
fn removing_blocks_gives_back_every_earlier_state() {
    let store = Store::in_memory().unwrap();
    let logs = receipts(vec![log(7, &[])]);
    let key = LogKey::address(&Address::repeat_byte(7));
    let mut states = vec![rows(&store)];
    // Distances of one, two and three bytes.
    let numbers: Vec<u64> = (0..700u64)
        .scan(5, |block, index| {
            *block += [1, 300, 20_000][index as usize % 3];
            Some(*block)
        })
        .collect();
    for number in &numbers {
        write(&store, |tables| {
            tables.index_logs(*number, &logs);
            Ok(())
        });
        states.push(rows(&store));
    }
    assert_eq!(blocks(&store, &key), numbers);
    let expected = (700 * 6 / 3) / ROW_BYTES_MAX + 1;
    assert_eq!(rows(&store).len(), 2 * expected);
    let snapshot = store.snapshot().unwrap();
    let mut row = Vec::new();
    for from in numbers
        .iter()
        .flat_map(|number| [number - 1, *number, number + 1])
    {
        let found = snapshot.log_blocks(&key, from, &mut row).unwrap();
        let first = row.iter().find(|block| **block >= from);
        assert_eq!(first, numbers.iter().find(|number| **number >= from));
        assert_eq!(found, first.is_some());
    }
    drop(snapshot);
    for number in numbers.iter().rev() {
        states.pop();
        write(&store, |tables| tables.unindex_logs(*number, &logs));
        assert_eq!(Some(&rows(&store)), states.last());
    }
}

#[test]
fn one_transaction_of_many_blocks_writes_the_same_rows_as_many_transactions() {
    let (one, many) = (Store::in_memory().unwrap(), Store::in_memory().unwrap());
    let logs = |number: u64| {
        let rare = log(number as u8, &[(number % 3) as u8]);
        receipts(vec![log(7, &[]), rare])
    };
    let numbers = (1..=900u64).map(|index| index * index);
    write(&one, |tables| {
        for number in numbers.clone() {
            tables.index_logs(number, &logs(number));
        }
        // Removes a block that was never written.
        tables.index_logs(900_000, &logs(900_000));
        tables.unindex_logs(900_000, &logs(900_000))
    });
    for number in numbers {
        write(&many, |tables| {
            tables.index_logs(number, &logs(number));
            Ok(())
        });
    }
    assert_eq!(rows(&one), rows(&many));
    let address = Address::repeat_byte(7);
    assert_eq!(blocks(&one, &LogKey::address(&address)).len(), 900);
}

#[test]
fn rows_out_of_order_are_errors() {
    let store = Store::in_memory().unwrap();
    let logs = receipts(vec![log(7, &[])]);
    let index = |number: u64| {
        let batch = store.batch().unwrap();
        batch.write(|tables| {
            tables.index_logs(number, &logs);
            Ok::<_, StoreError>(())
        })?;
        batch.commit()
    };
    index(5).unwrap();
    for number in [4, 5] {
        let error = index(number).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("last block: got 5, expected less than"),
            "{error}"
        );
    }
    let batch = store.batch().unwrap();
    let error = batch.write(|tables| tables.unindex_logs(6, &logs)).unwrap_err();
    assert!(
        error.to_string().contains("last block: got 5, expected 6"),
        "{error}"
    );
    let other = receipts(vec![log(8, &[])]);
    batch
        .write(|tables| tables.delete(TABLE, &row_key(&LogKey::any(), 5)))
        .unwrap();
    let error = batch.write(|tables| tables.unindex_logs(5, &other)).unwrap_err();
    assert!(error.to_string().contains("row is missing"), "{error}");
}
