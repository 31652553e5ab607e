//! The worker on a real adapter: devices that are lost, absent, too small, faulty, or idle.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ethash::{B256, WorkPackage};

use super::fixture::{easy_work, idle_engine, wait_for, worker};
use super::*;
use crate::gpu::fixture::{first_adapter, loaded};
use crate::search::{NonceSpace, SearchTask};
use crate::telemetry::{DeviceStatus, RestCause};

#[test]
fn a_lost_device_is_opened_again_and_the_search_continues() {
    let Some(adapter) = first_adapter() else { return };
    let (engine, config, solutions) = idle_engine(&adapter);
    let epoch = Epoch::ethash(0);
    let cache = config.caches.get(epoch).expect("the test sizes");
    let searcher = loaded(&adapter, &config.gpu, &cache);
    searcher.destroy_device();
    let worker = worker(&engine, adapter, config.gpu);
    let device = OpenDevice {
        loaded: Some(epoch),
        ..OpenDevice::new(searcher, worker.self_checks)
    };
    let work = easy_work(epoch);
    let job = engine
        .workers
        .context
        .current_job
        .set(Some(work.clone().into()))
        .expect("new work");
    engine
        .workers
        .context
        .current_job
        .set_light_cache(&job, Arc::clone(&cache));
    std::thread::scope(|scope| {
        scope.spawn(|| worker.run_with(Some(device), &mut GpuSearcher::find));
        let solution = solutions.recv_timeout(Duration::from_secs(60));
        engine.workers.context.current_job.stop();
        let found = solution.expect("the search continues").solution;
        let seal = ethash::verify_seal(
            &cache,
            &work.header_hash,
            found.pow_nonce,
            &found.mix_hash,
            &work.boundary,
        );
        assert_eq!(seal, Ok(()));
    });
    assert!(
        engine.workers.context.messages.lock().is_empty(),
        "the device was not given up"
    );
}

/// Gives `worker` work without solutions, and runs it on a device with a flipped bit. The
/// dataset that is generated next gets a flipped bit too if `again` is set. Returns the state
/// when `ends` is true.
fn run_with_flipped_bit(again: bool, ends: impl Fn(&DeviceStatus) -> bool) -> Option<DeviceStatus> {
    let adapter = first_adapter()?;
    let (engine, config, _solutions) = idle_engine(&adapter);
    let epoch = Epoch::ethash(0);
    let cache = config.caches.get(epoch).expect("the test sizes");
    let searcher = loaded(&adapter, &config.gpu, &cache);
    searcher.flip_bit(200, 7, 7);
    let worker = worker(&engine, adapter, config.gpu);
    let device = OpenDevice {
        loaded: Some(epoch),
        ..OpenDevice::new(searcher, worker.self_checks)
    };
    let telemetry = Arc::clone(&worker.telemetry);
    let current_job = &engine.workers.context.current_job;
    let work = WorkPackage {
        boundary: B256::ZERO,
        ..easy_work(epoch)
    };
    let job = current_job.set(Some(work.into())).expect("new work");
    current_job.set_light_cache(&job, cache);
    let mut open = |adapter: &AdapterInfo, options: GpuOptions| {
        let mut searcher = GpuSearcher::find(adapter, options)?;
        searcher.flips_a_bit_after_loading = again;
        Ok(searcher)
    };
    std::thread::scope(|scope| {
        scope.spawn(|| worker.run_with(Some(device), &mut open));
        wait_for(&engine, "the end of the test", || {
            ends(&telemetry.status(Instant::now()))
        });
        current_job.stop();
    });
    assert_eq!(engine.workers.context.messages.lock().len(), usize::from(again));
    Some(telemetry.status(Instant::now()))
}

#[test]
fn a_device_with_a_flipped_bit_gets_a_new_dataset() {
    let ends = |status: &DeviceStatus| status.checks.passed >= 3;
    let Some(status) = run_with_flipped_bit(false, ends) else {
        return;
    };
    assert_eq!(status.checks.failed, 1);
    assert_eq!(status.state, DeviceState::Searching { epoch: 0 });
}

#[test]
fn a_device_whose_new_dataset_goes_bad_too_is_faulty() {
    let ends = |status: &DeviceStatus| matches!(status.state, DeviceState::Failed { .. });
    let Some(status) = run_with_flipped_bit(true, ends) else {
        return;
    };
    assert_eq!(status.checks.failed, 2);
    assert!(
        matches!(&status.state, DeviceState::Failed { reason } if reason.starts_with("faulty")),
        "{:?}",
        status.state
    );
}

#[test]
fn a_device_that_is_absent_for_a_while_is_waited_for() {
    let Some(adapter) = first_adapter() else { return };
    let (engine, config, solutions) = idle_engine(&adapter);
    let epoch = Epoch::ethash(0);
    let cache = config.caches.get(epoch).expect("the test sizes");
    let worker = worker(&engine, adapter, config.gpu);
    let current_job = &engine.workers.context.current_job;
    let job = current_job.set(Some(easy_work(epoch).into())).expect("new work");
    current_job.set_light_cache(&job, Arc::clone(&cache));
    let mut attempts = 0;
    let mut open = |adapter: &AdapterInfo, options: GpuOptions| {
        attempts += 1;
        match attempts {
            1 => {
                let searcher = GpuSearcher::find(adapter, options)?;
                searcher.destroy_device();
                Ok(searcher)
            }
            2 => Err(GpuError::AdapterAbsent {
                adapter: adapter.name.clone(),
                found: 0,
            }),
            3 => Err(GpuError::DeviceRefused {
                adapter: adapter.name.clone(),
                reason: "resetting".into(),
            }),
            _ => GpuSearcher::find(adapter, options),
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| worker.run_with(None, &mut open));
        let solution = solutions.recv_timeout(Duration::from_secs(60));
        current_job.stop();
        solution.expect("the search continues");
    });
    assert_eq!(attempts, 4);
    assert!(
        engine.workers.context.messages.lock().is_empty(),
        "the device was never out of use"
    );
}

#[test]
fn a_device_that_never_existed_is_given_up() {
    let Some(adapter) = first_adapter() else { return };
    let gone = AdapterInfo {
        name: "Card of no maker".into(),
        pci_bus: Some("ffff:ff:1f.7".into()),
        ..adapter
    };
    let (engine, config, _solutions) = idle_engine(&gone);
    let epoch = Epoch::ethash(0);
    let job = engine
        .workers
        .context
        .current_job
        .set(Some(easy_work(epoch).into()));
    let cache = config.caches.get(epoch).expect("the test sizes");
    engine
        .workers
        .context
        .current_job
        .set_light_cache(&job.expect("new work"), cache);
    let worker = worker(&engine, gone, config.gpu);
    let telemetry = Arc::clone(&worker.telemetry);
    std::thread::scope(|scope| {
        scope.spawn(|| worker.run());
        wait_for(&engine, "the end of the device", || {
            let state = telemetry.status(Instant::now()).state;
            matches!(&state, DeviceState::Failed { reason } if reason.contains("ffff:ff:1f.7"))
        });
        engine.workers.context.current_job.stop();
    });
    assert_eq!(engine.workers.context.messages.lock().len(), 1);
}

#[test]
fn a_device_waits_while_an_epoch_is_too_large_for_it() {
    let Some(adapter) = first_adapter() else { return };
    let (engine, config, _solutions) = idle_engine(&adapter);
    let [small, large] = [0, 1].map(Epoch::ethash);
    // 64 items a page: the small dataset has four of them, the large one more than any adapter
    // binds.
    let options = GpuOptions {
        max_page_items: Some(64),
        ..config.gpu
    };
    let small_cache = config.caches.get(small).expect("the test sizes");
    let large_cache = LightCache::with_sizes(large.seed_hash(), 1024, 128 * 1_000_003);
    let large_cache = Arc::new(large_cache.expect("the test sizes"));
    let worker = worker(&engine, adapter, options);
    let telemetry = Arc::clone(&worker.telemetry);
    let status = || telemetry.status(Instant::now());
    let current_job = &engine.workers.context.current_job;
    let set_work = |epoch, header, cache: &Arc<LightCache>| {
        let task = SearchTask {
            repeat: true,
            work: WorkPackage {
                header_hash: B256::repeat_byte(header),
                boundary: B256::ZERO,
                ..easy_work(epoch)
            },
            nonces: NonceSpace::default(),
        };
        let job = current_job.set(Some(task)).expect("new work");
        current_job.set_light_cache(&job, Arc::clone(cache));
    };
    std::thread::scope(|scope| {
        scope.spawn(|| worker.run());
        for round in 1..=2 {
            set_work(large, round, &large_cache);
            wait_for(
                &engine,
                "the refusal",
                || matches!(status().state, DeviceState::Recovering { reason } if reason.contains("too small")),
            );
            let before = status().hashes;
            set_work(small, round, &small_cache);
            wait_for(&engine, "a batch", || {
                status().state == DeviceState::Searching { epoch: 0 } && status().hashes > before
            });
        }
        current_job.stop();
    });
    let lines = engine.workers.context.messages.lock().clone();
    let [first, back, again, back_again] = &lines[..] else {
        panic!("{lines:?}");
    };
    assert!(
        first.contains("the CPU searches") && first.contains("another epoch than 1"),
        "{first}"
    );
    assert!(again.contains("the other devices go on"), "{again}");
    assert!(
        back.ends_with("is in use again") && back == back_again,
        "{lines:?}"
    );
}

#[test]
fn hits_of_a_replaced_job_are_solutions_unless_a_pause_has_ended_it() {
    let Some(adapter) = first_adapter() else { return };
    let (engine, config, solutions) = idle_engine(&adapter);
    let epoch = Epoch::ethash(0);
    let cache = config.caches.get(epoch).expect("the test sizes");
    // The most hits of a batch.
    let hits_max = config.gpu.result_slots.into();
    let worker = worker(&engine, adapter, config.gpu);
    let telemetry = Arc::clone(&worker.telemetry);
    let status = || telemetry.status(Instant::now());
    let current_job = &engine.workers.context.current_job;
    let set_work = |header, boundary| {
        let task = SearchTask {
            repeat: true,
            work: WorkPackage {
                header_hash: B256::repeat_byte(header),
                boundary,
                ..easy_work(epoch)
            },
            nonces: NonceSpace::default(),
        };
        let job = current_job.set(Some(task)).expect("new work");
        current_job.set_light_cache(&job, Arc::clone(&cache));
    };
    // Every batch has many hits.
    let easy = ethash::boundary(&ethash::U256::from(16));
    // Replaces easy work by work without solutions while batches are in flight, after a pause if
    // one is wanted. Returns how many solutions came afterwards.
    let late_solutions = |header, pauses: bool| {
        set_work(header, easy);
        let before = status().solutions;
        wait_for(&engine, "a solution", || status().solutions > before);
        if pauses {
            current_job.set(None);
        }
        set_work(header + 1, B256::ZERO);
        let change = status();
        // The device is compared after each batch. At most two batches are in flight, and the
        // worker has at most one in hand.
        wait_for(&engine, "batches", || {
            status().checks.passed >= change.checks.passed + 4
        });
        status().solutions - change.solutions
    };
    std::thread::scope(|scope| {
        scope.spawn(|| worker.run());
        // The worker may have a batch in hand. On a busy machine all hits may be sent before the
        // test counts them. A solution that was accepted before a pause may be counted after it.
        let are_paid = (0..10).any(|round| late_solutions(1 + 2 * round, false) > hits_max);
        let are_ended = (10..15).all(|round| late_solutions(1 + 2 * round, true) <= 1);
        current_job.stop();
        assert!(are_paid, "the hits of a replaced job are lost");
        assert!(are_ended, "a job goes on after a pause");
    });
    assert_eq!(telemetry.status(Instant::now()).hardware_errors, 0);
    let found: Vec<_> = solutions.try_iter().map(|found| found.solution).collect();
    for solution in &found {
        assert_eq!(solution.header_hash[0] % 2, 1, "only easy work has solutions");
    }
    let nonces: std::collections::HashSet<_> = found
        .iter()
        .map(|solution| (solution.header_hash, solution.pow_nonce))
        .collect();
    assert_eq!(nonces.len(), found.len(), "no solution is sent twice");
}

#[test]
fn a_device_without_nonces_has_the_state_waiting() {
    let Some(adapter) = first_adapter() else { return };
    let (engine, config, _solutions) = idle_engine(&adapter);
    let epoch = Epoch::ethash(0);
    let cache = config.caches.get(epoch).expect("the test sizes");
    let worker = worker(&engine, adapter, config.gpu);
    let telemetry = Arc::clone(&worker.telemetry);
    let current_job = &engine.workers.context.current_job;
    let task = SearchTask {
        repeat: true,
        work: WorkPackage {
            boundary: B256::ZERO,
            ..easy_work(epoch)
        },
        nonces: NonceSpace::new(0, NonceSpace::BITS_MAX),
    };
    let job = current_job.set(Some(task)).expect("new work");
    current_job.set_light_cache(&job, Arc::clone(&cache));
    std::thread::scope(|scope| {
        scope.spawn(|| worker.run());
        wait_for(&engine, "the end of the nonces", || {
            let status = telemetry.status(Instant::now());
            status.hashes >= u64::from(u16::MAX) && status.state == DeviceState::Waiting
        });
        assert!(current_job.is_active(&job), "the job has not ended");
        let next = current_job.set(Some(easy_work(epoch).into())).expect("new work");
        current_job.set_light_cache(&next, cache);
        wait_for(&engine, "the next job's solution", || {
            telemetry.status(Instant::now()).solutions == 1
        });
        current_job.stop();
    });
}

#[test]
fn a_device_begins_anew_when_it_is_asked_to_and_after_it_was_given_up() {
    let Some(adapter) = first_adapter() else { return };
    let (engine, config, _solutions) = idle_engine(&adapter);
    let epoch = Epoch::ethash(0);
    let cache = config.caches.get(epoch).expect("the test sizes");
    let worker = worker(&engine, adapter, config.gpu);
    let telemetry = Arc::clone(&worker.telemetry);
    let status = || telemetry.status(Instant::now());
    let current_job = &engine.workers.context.current_job;
    let work = WorkPackage {
        boundary: B256::ZERO,
        ..easy_work(epoch)
    };
    let job = current_job.set(Some(work.into())).expect("new work");
    current_job.set_light_cache(&job, cache);
    let openings = AtomicU32::new(0);
    let mut open = |adapter: &AdapterInfo, options: GpuOptions| {
        // The second opening fails for good.
        if openings.fetch_add(1, Ordering::Relaxed) == 1 {
            return Err(GpuError::Rejected {
                what: "kernel".into(),
                reason: "a test".into(),
            });
        }
        GpuSearcher::find(adapter, options)
    };
    let restart = || {
        telemetry.control.request_restart();
        current_job.wake();
    };
    std::thread::scope(|scope| {
        scope.spawn(|| worker.run_with(None, &mut open));
        wait_for(&engine, "a batch", || status().hashes > 0);
        // A device that rests begins anew, too.
        telemetry.control.set_rest(RestCause::Asked, true);
        wait_for(&engine, "the rest", || {
            let cause = RestCause::Asked;
            status().state == DeviceState::Resting { cause }
        });
        restart();
        wait_for(&engine, "the end of the device", || {
            matches!(status().state, DeviceState::Failed { .. })
        });
        telemetry.control.set_rest(RestCause::Asked, false);
        let before = status().hashes;
        restart();
        wait_for(&engine, "hashes again", || status().hashes > before);
        current_job.stop();
    });
    assert_eq!(openings.load(Ordering::Relaxed), 3);
    let lines = engine.workers.context.messages.lock().clone();
    assert!(
        lines.len() == 2 && lines[1].ends_with("is in use again"),
        "{lines:?}"
    );
}
