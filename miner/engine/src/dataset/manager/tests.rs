//! The manager with small datasets: in memory, in files, in advance, rejected, and without memory.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::*;

fn cache(epoch: Epoch) -> Arc<LightCache> {
    Arc::new(LightCache::with_sizes(epoch.seed_hash(), 1024, 128 * 1031).expect("small sizes"))
}

fn wait_for(manager: &DatasetManager, epoch: Epoch) -> Arc<Dataset> {
    let start = Instant::now();
    loop {
        if let Some(dataset) = manager.ready(epoch) {
            return dataset;
        }
        assert!(start.elapsed() < Duration::from_secs(20), "no dataset");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Waits for the dataset that is made in advance for `epoch`.
fn wait_for_early(manager: &DatasetManager, epoch: Epoch) -> Arc<Dataset> {
    let start = Instant::now();
    loop {
        if let Some(early) = &manager.state.lock().early
            && early.target.epoch == epoch
            && let Some(dataset) = &early.dataset
        {
            return Arc::clone(dataset);
        }
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "no dataset is made in advance"
        );
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn stop(manager: &DatasetManager) {
    manager.stop(Instant::now() + Duration::from_secs(20));
}

fn wait_for_file(path: &Path) {
    let start = Instant::now();
    while !path.exists() {
        assert!(start.elapsed() < Duration::from_secs(20), "no file");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn each_epoch_gets_its_dataset() {
    let manager = Arc::new(DatasetManager::new(DatasetPolicy::Memory, 2, 0));
    for index in [0, 1, 0] {
        let epoch = Epoch::ethash(index);
        manager.request(epoch, &cache(epoch));
        manager.request(epoch, &cache(epoch));
        let dataset = wait_for(&manager, epoch);
        assert_eq!(
            dataset.view().hash(&ethash::B256::ZERO, 1),
            cache(epoch).hash(&ethash::B256::ZERO, 1)
        );
        assert!(manager.ready(Epoch::ethash(9)).is_none());
    }
    stop(&manager);
    let epoch = Epoch::ethash(5);
    manager.request(epoch, &cache(epoch));
    assert!(
        manager.ready(epoch).is_none(),
        "no dataset is begun after the stop"
    );
}

#[test]
fn the_next_dataset_is_made_in_advance() {
    let manager = Arc::new(DatasetManager::new(DatasetPolicy::Memory, 2, 0));
    let [now, next] = [Epoch::ethash(0), Epoch::ethash(1)];
    // The next epoch is announced before anyone searches. Its dataset waits for the current
    // one.
    manager.prepare_next(now, next, &cache(next));
    assert!(manager.state.lock().builder.is_none(), "no dataset was requested");
    manager.request(now, &cache(now));
    wait_for(&manager, now);
    wait_for_early(&manager, next);
    assert!(manager.ready(now).is_some() && manager.ready(next).is_none());
    manager.request(next, &cache(next));
    let dataset = manager.ready(next).expect("the dataset was made in advance");
    assert_eq!(
        dataset.view().hash(&ethash::B256::ZERO, 1),
        cache(next).hash(&ethash::B256::ZERO, 1)
    );
    assert!(manager.ready(now).is_none());
    // The next epoch is announced while the current dataset is ready.
    let last = Epoch::ethash(2);
    manager.prepare_next(next, last, &cache(last));
    manager.request(last, &cache(last));
    wait_for(&manager, last);
    stop(&manager);
}

#[test]
fn a_corrupt_file_is_replaced() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let epoch = Epoch::ethash(0);
    let path = folder.path().join(file_name(&epoch.seed_hash()));
    fs::write(&path, vec![0xab; 8 + 128 * 1031]).expect("a bad file");
    let manager = Arc::new(DatasetManager::new(
        DatasetPolicy::Disk(folder.path().to_owned()),
        1,
        0,
    ));
    manager.request(epoch, &cache(epoch));
    wait_for(&manager, epoch);
    stop(&manager);
    // If the manager was stopped while it wrote, the bad file still exists. Otherwise the good
    // file has replaced it.
    let manager = Arc::new(DatasetManager::new(
        DatasetPolicy::Disk(folder.path().to_owned()),
        1,
        0,
    ));
    manager.request(epoch, &cache(epoch));
    let dataset = wait_for(&manager, epoch);
    let start = Instant::now();
    while Dataset::open(folder.path(), &cache(epoch), &|| false).is_err() {
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "the bad file was not replaced"
        );
        std::thread::sleep(Duration::from_millis(2));
    }

    manager.reject(epoch, &dataset);
    assert!(manager.ready(epoch).is_none() && !path.exists());
    manager.request(epoch, &cache(epoch));
    assert!(!Arc::ptr_eq(&wait_for(&manager, epoch), &dataset));
    wait_for_file(&path);
    stop(&manager);
}

#[test]
fn only_the_epoch_after_the_current_one_is_made_in_advance() {
    let manager = Arc::new(DatasetManager::new(DatasetPolicy::Memory, 1, 0));
    let [now, next, other] = [0, 1, 5].map(Epoch::ethash);
    manager.prepare_next(now, next, &cache(next));
    // The work changes to an unexpected epoch, for example that of another pool.
    manager.request(other, &cache(other));
    assert!(manager.state.lock().planned.is_none());
    wait_for(&manager, other);
    let builder = manager.state.lock().builder.take();
    builder.expect("a builder was started").join().expect("no panic");
    manager.prepare_next(now, next, &cache(next));
    let state = manager.state.lock();
    assert!(
        state.builder.is_none() && state.early.is_none(),
        "the announced epoch does not follow the current one"
    );
    drop(state);
    // The searchers request the new epoch a moment after its successor was announced.
    manager.request(now, &cache(now));
    wait_for_early(&manager, next);
    let last = Epoch::ethash(2);
    manager.prepare_next(next, last, &cache(last));
    manager.request(next, &cache(next));
    assert!(manager.ready(next).is_some(), "it was made in advance");
    wait_for_early(&manager, last);
    stop(&manager);
}

#[test]
fn a_rejected_dataset_is_not_written() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let manager = DatasetManager::new(DatasetPolicy::Disk(folder.path().to_owned()), 1, 0);
    let epoch = Epoch::ethash(0);
    let path = folder.path().join(file_name(&epoch.seed_hash()));
    let mut on_progress = |_, _| ControlFlow::Continue(());
    let dataset = Dataset::generate(&cache(epoch), 1, &mut on_progress).expect("130 KB");
    manager.state.lock().wanted = Some(epoch);
    let dataset = manager.publish(epoch, dataset).expect("the dataset is needed");
    manager.save(folder.path(), &cache(epoch), &dataset);
    assert!(path.exists(), "a good dataset is written");

    // While the dataset is written again, it is rejected, and a searcher requests a new one at
    // once.
    manager.reject(epoch, &dataset);
    assert!(!path.exists());
    manager.state.lock().needs_rebuild = false;
    manager.save(folder.path(), &cache(epoch), &dataset);
    assert!(!path.exists(), "a rejected dataset is not written");
    // The dataset is rejected after it was written completely.
    manager.state.lock().ready = Some(Arc::clone(&dataset));
    manager.save(folder.path(), &cache(epoch), &dataset);
    assert!(!path.exists(), "the file of a rejected dataset is removed");
}

#[test]
fn the_next_dataset_outlives_a_rejected_one() {
    let manager = Arc::new(DatasetManager::new(DatasetPolicy::Memory, 1, 0));
    let [now, next] = [0, 1].map(Epoch::ethash);
    manager.request(now, &cache(now));
    let first = wait_for(&manager, now);
    manager.prepare_next(now, next, &cache(next));
    let early = wait_for_early(&manager, next);
    manager.reject(now, &first);
    assert!(manager.ready(now).is_none());
    manager.request(now, &cache(now));
    let second = wait_for(&manager, now);
    assert!(!Arc::ptr_eq(&first, &second));
    manager.reject(now, &first);
    assert!(
        manager.ready(now).is_some(),
        "only the current dataset can be rejected"
    );

    // An unfinished next dataset waits until the current one was made again.
    if let Some(early) = &mut manager.state.lock().early {
        early.dataset = None;
    }
    manager.reject(now, &second);
    assert!(manager.state.lock().early.is_none());
    manager.request(now, &cache(now));
    wait_for(&manager, now);
    let second_early = wait_for_early(&manager, next);
    assert!(!Arc::ptr_eq(&early, &second_early));
    manager.reject(now, &wait_for(&manager, now));
    manager.request(next, &cache(next));
    let dataset = manager.ready(next).expect("the dataset was made in advance");
    assert!(Arc::ptr_eq(&second_early, &dataset));
    stop(&manager);
}

#[cfg(target_os = "linux")]
#[test]
fn the_builder_has_the_configured_niceness() {
    let manager = Arc::new(DatasetManager::new(DatasetPolicy::Memory, 1, 7));
    let (out, niceness) = crossbeam_channel::bounded(1);
    // SAFETY: `getpriority` takes only numbers. Process 0 is the calling thread.
    let own_niceness = || unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
    let build = move |_: &DatasetManager| out.send(own_niceness()).expect("the test waits");
    manager.start_builder(&mut manager.state.lock(), build);
    let niceness = niceness.recv_timeout(Duration::from_secs(20)).expect("a thread");
    assert_eq!(niceness, own_niceness().max(7));
    stop(&manager);
}

#[test]
fn a_dataset_waits_for_memory() {
    static FULL: AtomicBool = AtomicBool::new(true);
    let epoch = Epoch::ethash(1);
    let manager = Arc::new(DatasetManager {
        memory: FreeMemory {
            available: || Some(if FULL.load(Ordering::Acquire) { 5 } else { 1 << 40 }),
            patience: Duration::ZERO,
        },
        ..DatasetManager::new(DatasetPolicy::Memory, 1, 0)
    });
    manager.request(epoch, &cache(epoch));
    std::thread::sleep(Duration::from_millis(50));
    assert!(manager.ready(epoch).is_none(), "there is too little memory");
    FULL.store(false, Ordering::Release);
    wait_for(&manager, epoch);
    // A dataset that waits for memory delays neither another epoch nor the stop.
    FULL.store(true, Ordering::Release);
    manager.request(Epoch::ethash(2), &cache(Epoch::ethash(2)));
    manager.request(Epoch::ethash(3), &cache(Epoch::ethash(3)));
    stop(&manager);
    assert!(manager.ready(Epoch::ethash(3)).is_none());
}
