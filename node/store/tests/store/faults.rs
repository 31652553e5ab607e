//! Faults of a disk: committed data stays, uncommitted data is never seen, and a read returns what
//! was written or an error.

use std::sync::Arc;

use store::{Source, StoreError, quiet_contained_panics};

use crate::disk::{Disk, DiskFault, FileName};
use crate::scenario::*;

const DATABASE: usize = FileName::Database as usize;

/// Runs the scenario with a fault from operation `at` on. The disk is repaired when a batch has
/// failed. Returns whether a batch failed.
fn fault_at(setting: Setting, at: u64, fault: DiskFault, models: &[Rows]) -> bool {
    let disk = Arc::new(Disk::default());
    let store = setting.open(&disk).expect("a good disk");
    let early = store.snapshot().expect("a good disk");
    disk.fail_from(at, fault);
    let mut failed_once = false;
    let mut done = 0;
    while done < BATCHES {
        match write(&store, done) {
            Ok(()) => done += 1,
            Err(error) => {
                assert!(!failed_once, "a second failure: {error}");
                failed_once = true;
                let wants_space = fault != DiskFault::Broken;
                assert_eq!(
                    (error.wants_space(), error.is_final()),
                    (wants_space, !wants_space),
                    "{error}"
                );
                let text = error.to_string();
                assert!(text.contains("(medium)") && text.contains("committed"), "{text}");
                // Without space, reads still work.
                if fault == DiskFault::NoGrowth {
                    let now = read(&store).expect("reads go on");
                    assert!(now == models[done as usize] || now == models[done as usize + 1]);
                    // The failed write may have freed enough space for the second try.
                    if write(&store, done).is_ok() {
                        done += 1;
                    }
                }
                disk.repair();
                let now = read(&store).expect("a good disk again");
                if models.get(done as usize + 1) == Some(&now) {
                    done += 1;
                }
                assert!(now == models[done as usize], "operation {at}: a part of a batch");
                // The old snapshot says that it is outdated, or still has its rows.
                match rows(&early) {
                    Ok(rows) => assert!(rows.is_empty()),
                    Err(error) => assert!(matches!(error, StoreError::Closed { .. }), "{error}"),
                }
            }
        }
    }
    disk.repair();
    assert!(read(&store).expect("a good disk") == models[BATCHES as usize]);
    drop((early, store));
    let again = setting.open(&disk).expect("a whole database");
    assert!(
        read(&again).expect("a good disk") == models[BATCHES as usize],
        "operation {at}"
    );
    failed_once
}

#[test]
fn a_disk_that_is_full_at_any_operation_loses_nothing_and_work_goes_on() {
    let models = models();
    for setting in Setting::ALL {
        let (first, last) = operations(setting);
        println!("{setting:?}: {} operations", last - first);
        let (mut full, mut growth) = (0, 0);
        for at in first..last {
            full += u64::from(fault_at(setting, at, DiskFault::Full, &models));
            if at.is_multiple_of(3) {
                growth += u64::from(fault_at(setting, at, DiskFault::NoGrowth, &models));
            }
        }
        assert_eq!(full, last - first, "each operation failed once");
        assert!(growth > 0, "the scenario needs space");
    }
}

#[test]
fn what_a_snapshot_shows_after_a_failed_commit_is_what_a_kill_leaves() {
    let models = models();
    for setting in Setting::ALL {
        let (first, last) = operations(setting);
        for at in first..last {
            let disk = Arc::new(Disk::default());
            let store = setting.open(&disk).expect("a good disk");
            disk.fail_from(at, DiskFault::Broken);
            let mut batches = 0..BATCHES;
            let failed = batches.find(|index| write(&store, *index).is_err());
            disk.repair();
            let shown = read(&store).expect("a good disk again");
            // A copy of what readers of the files see, as after `kill -9`.
            let killed = Arc::new(Disk::with(disk.bytes()));
            let left = read(&setting.open(&killed).expect("a good disk")).expect("a good disk");
            let stored = |rows: &Rows| models.iter().position(|model| model == rows);
            assert_eq!(
                stored(&left),
                stored(&shown),
                "{setting:?}, operation {at}, batch {failed:?}"
            );
        }
    }
}

#[test]
fn a_log_that_cannot_grow_is_no_failure_while_the_database_has_room() {
    let models = models();
    let disk = Arc::new(Disk::default());
    let setting = Setting::ShortLog;
    let store = setting.open(&disk).expect("a good disk");
    // The database grows and gets free pages again. The log is as short as a new one.
    for index in 0..BATCHES {
        write(&store, index).expect("a good disk");
    }
    drop(store);
    let [database, log, blocks] = disk.bytes();
    let new_log = log[..2 * 4096].to_vec();
    let disk = Arc::new(Disk::with([database, new_log, blocks]));
    let store = setting.open(&disk).expect("a good disk");
    let operations = disk.operations();
    disk.fail_from(operations, DiskFault::NoGrowth);
    write(&store, BATCHES - 1).expect("the database has room");
    assert!(read(&store).expect("it is open") == models[BATCHES as usize]);
    disk.repair();
    drop(store);
    let store = setting.open(&disk).expect("a good disk");
    assert!(read(&store).expect("a good disk") == models[BATCHES as usize]);
}

#[test]
fn a_disk_that_breaks_at_any_operation_loses_nothing() {
    let models = models();
    for setting in Setting::ALL {
        let (first, last) = operations(setting);
        for at in (first..last).step_by(5) {
            assert!(fault_at(setting, at, DiskFault::Broken, &models));
        }
    }
}

#[test]
fn a_flipped_byte_anywhere_is_an_error_or_has_no_effect() {
    let setting = Setting::SmallCache;
    quiet_contained_panics();
    let models = models();
    let expected = &models[BATCHES as usize];
    let disk = Arc::new(Disk::default());
    let store = setting.open(&disk).expect("a good disk");
    for index in 0..BATCHES {
        write(&store, index).expect("a good disk");
    }
    drop(store);
    let files = disk.bytes();
    let whole = &files[DATABASE];
    let mut random = Random(3);
    let (mut noticed, mut tried) = (0, 0);
    // One third of the positions are anywhere in the file, two thirds where it is in use.
    let used: Vec<usize> = (0..whole.len()).filter(|at| whole[*at] != 0).collect();
    let positions = (0..900).map(|round| match round % 3 {
        0 => random.next() as usize % whole.len(),
        _ => used[random.next() as usize % used.len()],
    });
    for at in positions.collect::<Vec<_>>() {
        tried += 1;
        let mut damaged = files.clone();
        damaged[DATABASE][at] ^= 1 << (random.next() % 8);
        let disk = Arc::new(Disk::with(damaged));
        let mut errors = 0;
        match setting.open(&disk) {
            Err(_) => errors += 1,
            Ok(store) => {
                let view = store.snapshot().expect("it is open");
                for (key, value) in expected.iter().filter(|(key, _)| key.len() == KEY_BYTES) {
                    match view.get(TABLE, key) {
                        Ok(got) => assert!(got.as_ref() == Some(value), "byte {at}: another value"),
                        Err(_) => errors += 1,
                    }
                    let last = view.with_last(TABLE, &[], key, |key, _| key.to_vec());
                    match last {
                        Ok(got) => assert!(got.as_ref() == Some(key), "byte {at}: another row is the last"),
                        Err(_) => errors += 1,
                    }
                }
                match rows(&view) {
                    Ok(got) => assert!(got == *expected, "byte {at}: other rows"),
                    Err(_) => errors += 1,
                }
                // A failed write leaves nothing of its batch.
                if write(&store, 0).is_err() {
                    errors += 1;
                    if let Ok(got) = read(&store) {
                        assert!(got == *expected, "byte {at}: a part of a batch");
                    }
                    // The next write is tried again: it is not refused because one has failed.
                    if let Err(error) = write(&store, 0) {
                        let text = error.to_string();
                        assert!(!text.contains("reopen the database"), "byte {at}: {text}");
                    }
                }
            }
        }
        noticed += u64::from(errors > 0);
    }
    println!("{noticed} of {tried} flipped bytes met by a read");
    assert!(noticed > 100, "{noticed} of {tried}");
}

#[test]
fn a_flipped_byte_in_the_log_is_an_error_or_has_no_effect() {
    const LOG: usize = FileName::Log as usize;
    quiet_contained_panics();
    let models = models();
    let disk = Arc::new(Disk::default());
    let store = Setting::ShortLog.open(&disk).expect("a good disk");
    // Batches, until the log has two records.
    let (mut done, mut records) = (0, 0);
    while records < 2 {
        let before = disk.bytes()[LOG].clone();
        write(&store, done as u32).expect("a good disk");
        done += 1;
        // After a checkpoint the log begins anew.
        let is_logged = before[..4096] == disk.bytes()[LOG][..4096];
        records = if is_logged { records + 1 } else { 0 };
    }
    let files = disk.bytes();
    let (mut refused, mut cut_off) = (0, 0);
    for at in (0..files[LOG].len()).step_by(67) {
        let mut damaged = files.clone();
        damaged[LOG][at] ^= 1;
        let disk = Arc::new(Disk::with(damaged));
        match Setting::ShortLog.open(&disk) {
            Err(error) => {
                assert!(error.is_final(), "{error}");
                refused += 1;
            }
            Ok(store) => {
                // A damaged last record looks like one that was being appended.
                let now = read(&store).expect("it is open");
                let is_cut_off = now == models[done - 1];
                assert!(is_cut_off || now == models[done], "byte {at}");
                cut_off += u32::from(is_cut_off);
            }
        }
    }
    println!("{refused} flipped bytes kept the store from opening, {cut_off} cut the last record off");
    assert!(refused > 0 && cut_off > 0);
}

#[test]
fn a_flipped_byte_in_the_blocks_file_is_an_error_or_has_no_effect() {
    const BLOCKS: usize = FileName::Blocks as usize;
    let models = models();
    let expected = &models[BATCHES as usize];
    let disk = Arc::new(Disk::default());
    let store = Setting::ShortLog.open(&disk).expect("a good disk");
    for index in 0..BATCHES {
        write(&store, index).expect("a good disk");
    }
    drop(store);
    let files = disk.bytes();
    let (mut refused, mut damaged_blocks) = (0, 0);
    for at in (0..files[BLOCKS].len()).step_by(13).chain(0..24) {
        let mut damaged = files.clone();
        damaged[BLOCKS][at] ^= 1;
        match Setting::ShortLog.open(&Arc::new(Disk::with(damaged))) {
            Err(error) => {
                assert!(error.is_final() && at < 24, "byte {at}: {error}");
                refused += 1;
            }
            Ok(store) => match read(&store) {
                Ok(rows) => assert!(rows == *expected, "byte {at}: other rows"),
                Err(error) => {
                    assert!(error.is_damage(), "byte {at}: {error}");
                    let text = error.to_string();
                    for word in [
                        "of old blocks is damaged",
                        "of block",
                        "checksum: got",
                        "expected",
                    ] {
                        assert!(text.contains(word), "{word} in {text}");
                    }
                    damaged_blocks += 1;
                }
            },
        }
    }
    println!("{refused} flipped bytes kept the store from opening, {damaged_blocks} damaged a block");
    assert!(refused > 0 && damaged_blocks > 10);
}

#[test]
fn after_a_commit_that_met_a_damaged_page_writes_are_possible_again() {
    let setting = Setting::SmallCache;
    const PAGE: usize = 4096;
    quiet_contained_panics();
    let models = models();
    let disk = Arc::new(Disk::default());
    let store = setting.open(&disk).expect("a good disk");
    for index in 0..BATCHES - 1 {
        write(&store, index).expect("a good disk");
    }
    drop(store);
    let files = disk.bytes();
    let whole = &files[DATABASE];
    let mut met = 0;
    for start in (0..whole.len()).step_by(PAGE) {
        let page = start..whole.len().min(start + PAGE);
        let mut damaged = files.clone();
        damaged[DATABASE][start] ^= 1;
        let disk = Arc::new(Disk::with(damaged.clone()));
        let Ok(store) = setting.open(&disk) else { continue };
        let batch = store.batch().expect("it is open");
        let written = batch.write(|tables| write_changes(tables, BATCHES - 1));
        if written.is_err() || batch.commit().is_ok() {
            continue;
        }
        met += 1;
        let mut state = disk.state();
        let bytes = &mut state.files[DATABASE].bytes;
        if bytes[page.clone()] != damaged[DATABASE][page.clone()] {
            // The commit has written another page there.
            continue;
        }
        bytes[start] = whole[start];
        drop(state);
        write(&store, BATCHES - 1).unwrap_or_else(|error| panic!("page at {start}: {error}"));
        assert!(read(&store).expect("a good disk") == models[BATCHES as usize]);
    }
    println!("{met} commits met a damaged page");
    assert!(met > 0, "no page is read by the commit alone");
}

#[test]
fn damage_that_keeps_the_file_from_being_opened_again_is_final() {
    let setting = Setting::SmallCache;
    quiet_contained_panics();
    let disk = Arc::new(Disk::default());
    let store = setting.open(&disk).expect("a good disk");
    for index in 0..BATCHES {
        write(&store, index).expect("a good disk");
    }
    disk.fail_from(0, DiskFault::Full);
    write(&store, 0).expect_err("there is no space");
    // Everything behind the first pages is damaged.
    disk.state().files[DATABASE]
        .bytes
        .iter_mut()
        .skip(5 * 4096)
        .for_each(|byte| *byte ^= 1);
    disk.repair();
    for _ in 0..2 {
        let error = write(&store, 0).expect_err("it cannot be opened");
        assert!(
            matches!(error, StoreError::DamagedAtOpening { .. }) && error.is_final(),
            "{error}"
        );
        assert!(!error.to_string().contains("db check"), "{error}");
    }
}

#[test]
fn a_panic_in_a_batch_goes_on_and_leaves_nothing() {
    let setting = Setting::SmallCache;
    let disk = Arc::new(Disk::default());
    let store = setting.open(&disk).expect("a good disk");
    write(&store, 0).expect("a good disk");
    let batch = store.batch().expect("a good disk");
    let panics = std::panic::AssertUnwindSafe(|| {
        batch.write(|tables| {
            tables.put(TABLE, b"half", b"done")?;
            assert!(tables.get(TABLE, b"half")?.is_none(), "as asked");
            Ok::<_, StoreError>(())
        })
    });
    assert!(std::panic::catch_unwind(panics).is_err());
    let late = batch.write(|tables| tables.put(TABLE, b"more", b""));
    assert!(matches!(late, Err(StoreError::BatchFailed { .. })), "{late:?}");
    assert!(matches!(batch.commit(), Err(StoreError::BatchFailed { .. })));
    let models = models();
    assert!(read(&store).expect("a good disk") == models[1]);
    write(&store, 1).expect("a good disk");
    assert!(read(&store).expect("a good disk") == models[2]);
}
