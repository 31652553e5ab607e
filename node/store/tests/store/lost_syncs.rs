//! A sync fails, and what it should have written is lost, although reads still show it and later
//! syncs succeed. Then the power fails, at once or many operations later. Committed data stays.

use std::sync::Arc;

use crate::disk::Disk;
use crate::scenario::*;

/// The reaction of the program to a failed sync.
#[derive(Clone, Copy, Debug)]
enum After {
    /// The program goes on with the open store.
    GoOn,
    /// The program ends, and another one opens the store while the system still shows the lost
    /// bytes.
    StartAgain,
}

/// Operation `lost`, a sync, fails. `later` operations after the batch has failed, the power fails.
/// Returns `false` if the operation was no sync.
fn lose(setting: Setting, lost: u64, later: u64, after: After, models: &[Rows], random: &mut Random) -> bool {
    let disk = Arc::new(Disk::default());
    let mut store = setting.open(&disk).expect("a good disk");
    disk.lose_sync(lost);
    let mut done = 0;
    let mut failed = false;
    while done < BATCHES {
        if write(&store, done).is_ok() {
            done += 1;
            continue;
        }
        if failed {
            break;
        }
        failed = true;
        disk.off_at(disk.operations() + later);
        if matches!(after, After::StartAgain) {
            drop(store);
            match setting.open(&disk) {
                Ok(again) => store = again,
                Err(_) => {
                    check_after_power_loss(setting, &disk, models, done, random);
                    return true;
                }
            }
        }
        // The batch may be stored although its commit has failed.
        if let Ok(now) = read(&store)
            && now == models[done as usize + 1]
        {
            done += 1;
        }
    }
    drop(store);
    if failed {
        check_after_power_loss(setting, &disk, models, done, random);
    }
    failed
}

/// The power fails. The store must have the first `done` batches, or one more.
fn check_after_power_loss(setting: Setting, disk: &Disk, models: &[Rows], done: u32, random: &mut Random) {
    let luck = random.next() % 4;
    let left = disk.after_power_loss(|| match luck {
        0 => false,
        1 => true,
        _ => random.next().is_multiple_of(2),
    });
    let disk = Arc::new(Disk::with(left));
    let store = setting
        .open(&disk)
        .unwrap_or_else(|error| panic!("after {done} batches: {error}"));
    let now = read(&store).unwrap_or_else(|error| panic!("after {done} batches: {error}"));
    let done = done as usize;
    assert!(
        now == models[done] || models.get(done + 1) == Some(&now),
        "batch {done} is lost or not whole"
    );
}

fn check(after: After) {
    let models = models();
    let mut random = Random(11);
    for setting in Setting::ALL {
        let (first, last) = operations(setting);
        let mut met = 0;
        for lost in first..last {
            for later in [0, 1, 2, 3, 5, 8, 13, 40] {
                if !lose(setting, lost, later, after, &models, &mut random) {
                    break;
                }
                met += 1;
            }
        }
        println!("{setting:?}: {met} power failures after a failed sync");
        assert!(met > 0, "no sync failed");
    }
}

#[test]
fn a_failed_sync_and_a_power_failure_lose_nothing_if_the_program_goes_on() {
    check(After::GoOn);
}

#[test]
fn a_failed_sync_and_a_power_failure_lose_nothing_if_the_program_starts_again() {
    check(After::StartAgain);
}
