//! A node whose disk has no space: what it answers agrees with what is stored.

use std::io;
use std::sync::{Arc, Mutex};

use rpc::types::data;
use serde_json::{Value, json};
use store::{Medium, Store, StoreMedia, StoreOptions};

use crate::mc::harness::Net;

/// A disk in memory with the files of a store. From some write on it has no space, until it
/// gets some.
#[derive(Debug, Default)]
struct SmallDisk(Mutex<SmallDiskState>);

#[derive(Debug, Default)]
struct SmallDiskState {
    files: [Vec<u8>; 3],
    /// Number of writes, changes of the length and syncs so far.
    operations: u64,
    /// The number of the first operation without space.
    full_from: Option<u64>,
}

/// A file of the disk.
#[derive(Debug)]
struct SmallFile {
    disk: Arc<SmallDisk>,
    index: usize,
}

impl SmallFile {
    fn operate(&self, operation: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        let mut state = self.disk.0.lock().expect("no holder panics");
        let number = state.operations;
        state.operations += 1;
        if state.full_from.is_some_and(|full| number >= full) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        operation(&mut state.files[self.index]);
        Ok(())
    }
}

impl SmallDisk {
    fn operations(&self) -> u64 {
        self.0.lock().expect("no holder panics").operations
    }

    fn full_from(&self, operation: Option<u64>) {
        self.0.lock().expect("no holder panics").full_from = operation;
    }
}

impl Medium for SmallFile {
    fn len(&self) -> io::Result<u64> {
        let state = self.disk.0.lock().expect("no holder panics");
        Ok(state.files[self.index].len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let state = self.disk.0.lock().expect("no holder panics");
        let bytes = state.files[self.index].get(offset as usize..offset as usize + out.len());
        out.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let (start, end) = (offset as usize, offset as usize + bytes.len());
        self.operate(|all| {
            all.resize(all.len().max(end), 0);
            all[start..end].copy_from_slice(bytes);
        })
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.operate(|all| all.resize(len as usize, 0))
    }

    fn sync(&self) -> io::Result<()> {
        self.operate(|_| ())
    }
}

/// Sets the head back to block 1 of 2 while there is no space from operation `at` on. Returns
/// whether the head was set back although an error was reported.
fn set_back_without_space(at: u64) -> bool {
    let disk = Arc::new(SmallDisk::default());
    let [database, log, blocks] = [0, 1, 2].map(|index| {
        Arc::new(SmallFile {
            disk: disk.clone(),
            index,
        })
    });
    let media = StoreMedia {
        database,
        log,
        blocks,
    };
    let store = Store::on_media(&media, &StoreOptions::default()).expect("a good disk");
    let net = Net::on(store);
    net.mine();
    let second = net.mine();
    let by_hash = || net.ok("mc_getBlockByHash", json!([data(second.hash()), false]));
    assert_eq!(by_hash()["number"], "0x2");
    disk.full_from(Some(disk.operations() + at));
    let answer: Value = serde_json::from_str(&net.raw("debug_setHead", "[1]")).expect("JSON");
    disk.full_from(None);
    let is_deleted = net.view().head_number() == 1;
    assert_eq!(by_hash() == Value::Null, is_deleted, "operation {at}: {answer}");
    match answer.get("error") {
        Some(error) => {
            assert_eq!(error["message"], "the node could not change its chain");
            is_deleted
        }
        None => {
            assert!(is_deleted, "{answer}");
            false
        }
    }
}

#[test]
fn deleted_blocks_are_not_served_although_setting_the_head_back_reported_an_error() {
    const OPERATIONS_MAX: u64 = 60;
    let deleted = (0..OPERATIONS_MAX)
        .filter(|at| set_back_without_space(*at))
        .count();
    assert!(deleted > 0, "no commit was done although it reported an error");
}
