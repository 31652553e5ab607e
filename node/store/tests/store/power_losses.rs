//! The power fails at any operation of a batch, of a checkpoint or of an opening. The store has
//! exactly the batches whose commit returned, or one more.

use std::sync::Arc;

use store::Store;

use crate::disk::Disk;
use crate::scenario::*;

/// The content of the disk after a power failure. `luck` 0: nothing that was not synced. 1:
/// everything, as after `kill -9`. Otherwise chance decides for each sector.
fn left(disk: &Disk, luck: u64, random: &mut Random) -> Arc<Disk> {
    let left = disk.after_power_loss(|| match luck {
        0 => false,
        1 => true,
        _ => random.next().is_multiple_of(2),
    });
    Arc::new(Disk::with(left))
}

/// Writes batches from `from` on until one fails. Returns the number of batches that the store has.
fn write_until_off(store: &Store, from: usize) -> usize {
    let mut batches = from..BATCHES as usize;
    let failed = batches.find(|index| write(store, *index as u32).is_err());
    failed.unwrap_or(BATCHES as usize)
}

/// Opens the store, which must have the first `done` batches or one more, and writes the others.
fn check_and_finish(setting: Setting, disk: &Arc<Disk>, done: usize, models: &[Rows], what: &str) {
    let store = setting
        .open(disk)
        .unwrap_or_else(|error| panic!("{what}: {error}"));
    let now = read(&store).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(
        now == models[done] || models.get(done + 1) == Some(&now),
        "{what}: batch {done} is lost or not whole"
    );
    let from = done + usize::from(now != models[done]);
    assert_eq!(
        write_until_off(&store, from),
        BATCHES as usize,
        "{what}: a good disk"
    );
    assert!(read(&store).expect("a good disk") == models[BATCHES as usize]);
    drop(store);
    let store = setting.open(disk).expect("a good disk");
    assert!(read(&store).expect("a good disk") == models[BATCHES as usize]);
}

#[test]
fn a_power_loss_at_any_operation_keeps_what_was_committed() {
    let models = models();
    let mut random = Random(7);
    for setting in Setting::ALL {
        let (first, last) = operations(setting);
        for at in first..last {
            for luck in [0, 1 + at % 2] {
                let disk = Arc::new(Disk::default());
                let store = setting.open(&disk).expect("a good disk");
                // As when the operations were counted: it keeps pages from being used again.
                let _early = store.snapshot().expect("a good disk");
                disk.off_at(at);
                let done = write_until_off(&store, 0);
                assert!(done < BATCHES as usize);
                let left = left(&disk, luck, &mut random);
                drop(store);
                let what = format!("{setting:?}, operation {at}, luck {luck}");
                check_and_finish(setting, &left, done, &models, &what);
            }
        }
    }
}

#[test]
fn a_power_loss_at_any_operation_of_the_next_opening_keeps_what_was_committed() {
    let models = models();
    let mut random = Random(9);
    let mut openings = 0;
    for setting in Setting::ALL {
        let (first, last) = operations(setting);
        for at in (first..last).step_by(11) {
            let disk = Arc::new(Disk::default());
            let store = setting.open(&disk).expect("a good disk");
            disk.off_at(at);
            let done = write_until_off(&store, 0);
            let crashed = left(&disk, random.next() % 3, &mut random).bytes();
            drop(store);
            for second in 0.. {
                let disk = Arc::new(Disk::with(crashed.clone()));
                disk.off_at(second);
                // The disk goes off before the opening ends, or later.
                let opened = setting.open(&disk);
                let is_open = opened.is_ok() && disk.operations() <= second;
                drop(opened);
                let left = left(&disk, random.next() % 3, &mut random);
                let what = format!("{setting:?}, operation {at}, then {second} of the opening");
                check_and_finish(setting, &left, done, &models, &what);
                openings += 1;
                if is_open {
                    break;
                }
            }
        }
    }
    println!("{openings} power failures while the store was opened");
}

#[test]
fn a_power_loss_while_the_store_is_closed_keeps_everything() {
    let models = models();
    let mut random = Random(13);
    for setting in Setting::ALL {
        let (_, last) = operations(setting);
        for at in last.. {
            let disk = Arc::new(Disk::default());
            let store = setting.open(&disk).expect("a good disk");
            assert_eq!(write_until_off(&store, 0), BATCHES as usize);
            disk.off_at(at);
            drop(store);
            let is_closed = disk.operations() <= at;
            let left = left(&disk, random.next() % 3, &mut random);
            let what = format!("{setting:?}, operation {at} of the close");
            check_and_finish(setting, &left, BATCHES as usize, &models, &what);
            if is_closed {
                break;
            }
        }
    }
}

/// Copies the database of `old` to the disk `new`. Returns whether that ended.
fn compact(setting: Setting, old: &Arc<Disk>, new: &Arc<Disk>) -> bool {
    Store::compact_media(&old.media(), new.media().database, &setting.options()).is_ok()
}

#[test]
fn a_power_loss_while_a_database_is_compacted_keeps_everything() {
    const DONE: usize = BATCHES as usize - 1;
    let models = models();
    let mut random = Random(17);
    for setting in Setting::ALL {
        let disk = Arc::new(Disk::default());
        let store = setting.open(&disk).expect("a good disk");
        (0..DONE).for_each(|index| write(&store, index as u32).expect("a good disk"));
        // Not closed: the log has records.
        let before = disk.bytes();
        drop(store);
        let start = || [Arc::new(Disk::with(before.clone())), Arc::new(Disk::default())];
        let [old, new] = start();
        assert!(compact(setting, &old, &new));
        let operations = [old.operations(), new.operations()];
        // Nobody closes it, and what was not synced is lost.
        let [copy, ..] = new.after_power_loss(|| false);
        assert!(copy.len() < before[0].len(), "{}", copy.len());
        let [_, log, blocks] = left(&old, 2, &mut random).bytes();
        let renamed = Arc::new(Disk::with([copy, log, blocks]));
        check_and_finish(setting, &renamed, DONE, &models, "the new file");
        // Before the end the old file has its name.
        for (off, step) in [(0, 1), (1, 23)] {
            for at in (0..operations[off]).step_by(step) {
                let [old, new] = start();
                [&old, &new][off].off_at(at);
                let ended = compact(setting, &old, &new);
                let left = left(&old, random.next() % 3, &mut random);
                let what = format!("{setting:?}, operation {at} of disk {off}, ended: {ended}");
                check_and_finish(setting, &left, DONE, &models, &what);
            }
        }
    }
}

#[test]
fn a_closed_store_has_an_empty_log() {
    const RECORDS_START: usize = 2 * 4096;
    let disk = Arc::new(Disk::default());
    let store = Setting::ShortLog.open(&disk).expect("a good disk");
    write(&store, 0).expect("a good disk");
    let log = || disk.bytes()[crate::disk::FileName::Log as usize].clone();
    let before = log();
    assert!(before.len() > RECORDS_START, "the batch is in the log");
    drop(store);
    let after = log();
    assert_ne!(
        before[..RECORDS_START],
        after[..RECORDS_START],
        "the log began anew"
    );
    // Without its log the database has the batch.
    let [database, _, blocks] = disk.bytes();
    let disk = Arc::new(Disk::with([database, after[..RECORDS_START].to_vec(), blocks]));
    let store = Setting::ShortLog.open(&disk).expect("a good disk");
    assert!(read(&store).expect("a good disk") == models()[1]);
}
