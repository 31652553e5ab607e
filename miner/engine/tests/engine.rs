//! Tests the engine through its public interface: work in, checked solutions out.
//!
//! The light caches have the small test size, so that every test takes milliseconds.

use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, unbounded};
use engine::{
    DatasetPolicy, DeviceChoice, DeviceState, Engine, EngineConfig, FoundSolution, Intensity, MinerError,
    NonceSpace, RestCause, SearchTask,
};
use ethash::{B256, Epoch, LightCache, LightCaches, Solution, U256, WorkPackage};

const PATIENCE: Duration = Duration::from_secs(20);

fn config(threads: usize) -> EngineConfig {
    EngineConfig {
        device: DeviceChoice::Cpu,
        threads,
        caches: LightCaches::with_sizes(1024, 32_768),
        ..EngineConfig::default()
    }
}

/// An engine and the other ends of its channels.
struct Rig {
    engine: Engine,
    work: Sender<Option<SearchTask>>,
    solutions: Receiver<FoundSolution>,
}

impl Rig {
    fn start(config: EngineConfig) -> Self {
        let (work, work_in) = unbounded();
        let (solutions_out, solutions) = unbounded();
        let engine = Engine::start(config, work_in, solutions_out).expect("the engine starts");
        Self {
            engine,
            work,
            solutions,
        }
    }

    fn send(&self, work: &WorkPackage) {
        self.work
            .send(Some(work.clone().into()))
            .expect("the engine takes work");
    }

    fn solution(&self) -> Solution {
        self.solutions
            .recv_timeout(PATIENCE)
            .expect("a solution")
            .solution
    }

    fn wait_until(&self, what: &str, mut holds: impl FnMut(&Engine) -> bool) {
        let start = Instant::now();
        while !holds(&self.engine) {
            assert!(start.elapsed() < PATIENCE, "never: {what}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Waits until no more nonces are hashed. On a busy machine the batches in flight may take a while.
fn wait_for_rest(engine: &Engine) {
    let start = Instant::now();
    let mut before = engine.status().hashes;
    loop {
        std::thread::sleep(Duration::from_millis(60));
        let now = engine.status().hashes;
        if now == before {
            return;
        }
        assert!(start.elapsed() < PATIENCE, "hashing does not stop");
        before = now;
    }
}

fn work(header: u64, difficulty: u64, epoch: Epoch) -> WorkPackage {
    WorkPackage {
        header_hash: B256::from(U256::from(header)),
        seed_hash: epoch.seed_hash(),
        boundary: ethash::boundary(&U256::from(difficulty)),
        number: None,
        epoch,
    }
}

/// Returns work that has no solution.
fn hopeless(header: u64) -> WorkPackage {
    WorkPackage {
        boundary: B256::ZERO,
        ..work(header, 1, Epoch::ethash(0))
    }
}

fn check(work: &WorkPackage, solution: &Solution) {
    assert_eq!(solution.header_hash, work.header_hash);
    let cache = LightCache::with_sizes(work.seed_hash, 1024, 32_768).expect("the test sizes");
    let Solution {
        header_hash,
        pow_nonce,
        mix_hash,
    } = solution;
    assert_eq!(
        ethash::verify_seal(&cache, header_hash, *pow_nonce, mix_hash, &work.boundary),
        Ok(())
    );
}

#[test]
fn threads_find_valid_solutions_one_per_package() {
    let rig = Rig::start(config(2));
    let mut nonces = Vec::new();
    for header in 1..=20 {
        let work = work(header, 200, Epoch::ethash(0));
        rig.send(&work);
        let solution = rig.solution();
        check(&work, &solution);
        nonces.push(solution.pow_nonce);
    }
    std::thread::sleep(Duration::from_millis(50));
    assert!(rig.solutions.is_empty(), "one solution per package");
    nonces.sort_unstable();
    nonces.dedup();
    assert_eq!(nonces.len(), 20, "no nonce is tried twice");
    let status = rig.engine.status();
    assert_eq!((status.solutions, status.hardware_errors), (20, 0));
}

#[test]
fn a_solved_package_is_not_searched_again() {
    let rig = Rig::start(config(2));
    let solved = work(1, 10, Epoch::ethash(0));
    rig.send(&solved);
    check(&solved, &rig.solution());
    rig.send(&solved);
    wait_for_rest(&rig.engine);
    assert!(rig.solutions.is_empty());
    let next = work(2, 10, Epoch::ethash(0));
    rig.send(&next);
    check(&next, &rig.solution());
}

#[test]
fn new_work_replaces_the_old_work_at_once() {
    let rig = Rig::start(config(2));
    rig.send(&hopeless(1));
    rig.wait_until("hashing begins", |engine| engine.status().hashes > 0);
    let start = Instant::now();
    let easy = work(2, 1, Epoch::ethash(0));
    rig.send(&easy);
    check(&easy, &rig.solution());
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    // Of several packages that wait in the channel, only the newest is searched.
    rig.send(&hopeless(3));
    rig.wait_until("hashing begins", |engine| engine.hashrate() > 0.0);
    for header in 10..50 {
        rig.send(&hopeless(header));
    }
    let easy = work(99, 1, Epoch::ethash(0));
    rig.send(&easy);
    check(&easy, &rig.solution());
}

#[test]
fn no_work_and_a_closed_channel_pause_the_search() {
    let Rig {
        engine,
        work: sender,
        solutions,
    } = Rig::start(config(1));
    let pausing = |pause: &dyn Fn()| {
        let before = engine.status().hashes;
        sender
            .send(Some(hopeless(before).into()))
            .expect("the engine takes work");
        let start = Instant::now();
        while engine.status().hashes == before {
            assert!(start.elapsed() < PATIENCE, "nothing is hashed");
            std::thread::sleep(Duration::from_millis(1));
        }
        pause();
        wait_for_rest(&engine);
    };
    pausing(&|| sender.send(None).expect("the engine takes work"));
    pausing(&|| sender.send(None).expect("the engine takes work"));
    sender
        .send(Some(hopeless(7).into()))
        .expect("the engine takes work");
    drop(sender);
    wait_for_rest(&engine);
    drop(solutions);
}

#[test]
fn a_device_rests_until_it_is_told_to_go_on() {
    for dataset in [DatasetPolicy::Never, DatasetPolicy::Memory] {
        let rig = Rig::start(EngineConfig { dataset, ..config(2) });
        rig.send(&hopeless(1));
        rig.wait_until("hashes", |engine| engine.status().hashes > 0);
        assert!(rig.engine.set_rest(0, RestCause::Heat, true));
        assert!(!rig.engine.set_rest(0, RestCause::Heat, true), "it rests already");
        assert!(
            !rig.engine.set_rest(9, RestCause::Heat, true),
            "there is no such device"
        );
        wait_for_rest(&rig.engine);
        let cause = RestCause::Heat;
        assert_eq!(
            rig.engine.status().devices[0].state,
            DeviceState::Resting { cause }
        );
        // New work does not end a rest.
        rig.send(&hopeless(2));
        wait_for_rest(&rig.engine);
        let before = rig.engine.status().hashes;
        assert!(rig.engine.set_rest(0, RestCause::Heat, false));
        rig.wait_until("hashes again", |engine| engine.status().hashes > before);
        rig.engine.set_rest(0, RestCause::Hours, true);
        rig.engine.stop();
    }
}

#[test]
fn stopping_takes_well_under_a_second() {
    // The light cache of a late epoch takes long to build, and the stop must not wait for it.
    let caches = LightCaches::new();
    let rig = Rig::start(EngineConfig { caches, ..config(2) });
    rig.send(&work(1, u64::MAX, Epoch::ethash(600)));
    std::thread::sleep(Duration::from_millis(50));
    let start = Instant::now();
    rig.engine.stop();
    assert!(
        start.elapsed() < Duration::from_millis(500),
        "{:?}",
        start.elapsed()
    );

    let rig = Rig::start(EngineConfig {
        dataset: DatasetPolicy::Memory,
        ..config(2)
    });
    rig.send(&hopeless(1));
    rig.wait_until("hashing begins", |engine| engine.status().hashes > 0);
    let start = Instant::now();
    drop(rig.engine);
    assert!(
        start.elapsed() < Duration::from_millis(500),
        "{:?}",
        start.elapsed()
    );
    assert!(
        rig.work.send(None).is_err(),
        "the engine has closed the channel of work"
    );
}

#[test]
fn a_full_channel_of_solutions_does_not_block_the_stop() {
    let (work_out, work_in) = unbounded();
    let (solutions_out, solutions) = crossbeam_channel::bounded(1);
    let engine = Engine::start(config(2), work_in, solutions_out).expect("the engine starts");
    for header in 1..=3 {
        work_out
            .send(Some(work(header, 1, Epoch::ethash(0))))
            .expect("the engine takes work");
        // A solution is counted before it is sent.
        let start = Instant::now();
        while engine.status().solutions < header {
            assert!(start.elapsed() < PATIENCE, "no solution");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    assert_eq!(solutions.len(), 1);
    let start = Instant::now();
    engine.stop();
    assert!(
        start.elapsed() < Duration::from_millis(500),
        "{:?}",
        start.elapsed()
    );
}

#[test]
fn an_engine_without_threads_searches_nothing() {
    for device in [DeviceChoice::Cpu, DeviceChoice::Auto, DeviceChoice::Gpu] {
        let rig = Rig::start(EngineConfig { device, ..config(0) });
        rig.send(&work(1, 1, Epoch::ethash(0)));
        assert!(rig.solutions.recv_timeout(Duration::from_millis(100)).is_err());
        assert_eq!(rig.engine.status().hashes, 0);
        assert!(
            rig.engine.describe()[0].contains("nothing is searched"),
            "{:?}",
            rig.engine.describe()
        );
    }
}

#[test]
fn each_package_may_have_another_epoch() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for dataset in [
        DatasetPolicy::Never,
        DatasetPolicy::Memory,
        DatasetPolicy::Disk(folder.path().to_owned()),
    ] {
        let rig = Rig::start(EngineConfig { dataset, ..config(2) });
        for (header, index) in [(1, 0), (2, 1), (3, 0), (4, 7), (5, 8)] {
            let work = work(header, 2000, Epoch::ethash(index));
            rig.send(&work);
            check(&work, &rig.solution());
        }
        assert_eq!(rig.engine.status().hardware_errors, 0);
    }
}

#[test]
fn the_next_epoch_is_prepared_in_advance() {
    let config = config(1);
    let caches = config.caches.clone();
    let rig = Rig::start(config);
    let (now, next) = (Epoch::ethash(2), Epoch::ethash(3));
    rig.send(&WorkPackage {
        number: Some(89_500),
        ..work(1, 1, now)
    });
    check(&work(1, 1, now), &rig.solution());
    rig.wait_until("the next light cache", |_| caches.get_ready(next).is_some());
    assert!(caches.get_ready(Epoch::ethash(4)).is_none());
}

#[test]
fn the_full_dataset_is_used_from_memory_and_disk() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let disk = DatasetPolicy::Disk(folder.path().to_owned());
    let epoch = Epoch::ethash(0);
    let path = folder.path().join(engine::dataset::file_name(&epoch.seed_hash()));
    for (header, policy) in [DatasetPolicy::Memory, disk.clone(), disk]
        .into_iter()
        .enumerate()
    {
        let rig = Rig::start(EngineConfig {
            dataset: policy.clone(),
            ..config(2)
        });
        rig.send(&hopeless(header as u64));
        let start = Instant::now();
        while matches!(policy, DatasetPolicy::Disk(_)) && !path.exists() {
            assert!(start.elapsed() < PATIENCE, "no file");
            std::thread::sleep(Duration::from_millis(2));
        }
        // After so many hashes, some of them come from the full dataset.
        let before = rig.engine.status().hashes;
        rig.wait_until("many hashes", |engine| engine.status().hashes > before + 20_000);
        let work = work(1000 + header as u64, 20_000, epoch);
        rig.send(&work);
        check(&work, &rig.solution());
        assert_eq!(rig.engine.status().hardware_errors, 0);
    }
}

#[test]
fn a_wrong_dataset_is_detected_and_generated_again() {
    // The check when the file is opened does not sample the wrong items. Only a hit shows the
    // error.
    let epoch = Epoch::ethash(0);
    let items = 4001;
    let caches = LightCaches::with_sizes(1024, 128 * items);
    let cache = caches.get(epoch).expect("the test sizes");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut on_progress = |_, _| std::ops::ControlFlow::Continue(());
    let right = engine::dataset::Dataset::generate(&cache, 1, &mut on_progress).expect("500 KB");
    let path = right
        .save(folder.path(), &epoch.seed_hash(), &|| false)
        .expect("written");
    let mut bytes = std::fs::read(&path).expect("the file");
    for item in 0..items as usize {
        // The check samples every 15th or 16th item.
        let sampled = (0..256).any(|sample| sample * (items as usize - 1) / 255 == item);
        if !sampled {
            bytes[8 + item * 128] ^= 1;
        }
    }
    std::fs::write(&path, bytes).expect("written");

    let dataset = DatasetPolicy::Disk(folder.path().to_owned());
    let rig = Rig::start(EngineConfig {
        dataset,
        caches,
        ..config(1)
    });
    let hard = work(1, 1 << 40, epoch);
    rig.send(&hard);
    rig.wait_until("hashing from the file", |engine| engine.status().hashes > 5_000);
    let easy = work(2, 100, epoch);
    rig.send(&easy);
    let solution = rig.solution();
    let Solution {
        header_hash,
        pow_nonce,
        mix_hash,
    } = &solution;
    assert_eq!(
        ethash::verify_seal(&cache, header_hash, *pow_nonce, mix_hash, &easy.boundary),
        Ok(())
    );
    assert!(rig.engine.status().hardware_errors > 0);
}

#[test]
fn the_hash_rate_matches_the_number_of_hashes() {
    let rig = Rig::start(config(1));
    assert_eq!(rig.engine.hashrate(), 0.0);
    rig.send(&hopeless(1));
    let start = Instant::now();
    std::thread::sleep(Duration::from_millis(600));
    let status = rig.engine.status();
    let measured = status.hashes as f64 / start.elapsed().as_secs_f64();
    assert!(
        (status.hashrate / measured - 1.0).abs() < 0.3,
        "{status:?}, measured {measured}"
    );
    assert_eq!(status.devices.len(), 1);
    assert_eq!(status.devices[0].name, "cpu");
}

#[test]
fn work_of_an_impossible_epoch_is_not_searched() {
    let rig = Rig::start(EngineConfig {
        caches: LightCaches::new(),
        ..config(1)
    });
    rig.send(&work(1, 1, Epoch::ethash(u32::MAX)));
    assert!(rig.solutions.recv_timeout(Duration::from_millis(150)).is_err());
    let good = work(2, 1, Epoch::ethash(0));
    rig.send(&good);
    assert_eq!(rig.solution().header_hash, good.header_hash);
}

#[test]
fn an_absent_adapter_is_an_error() {
    let (_work, work_in) = unbounded::<Option<SearchTask>>();
    let (solutions_out, _solutions) = unbounded();
    let config = EngineConfig {
        device: DeviceChoice::List {
            cpu: false,
            adapters: vec![1_000_000],
        },
        ..config(1)
    };
    let error = Engine::start(config, work_in, solutions_out).expect_err("there are not so many");
    assert!(
        matches!(
            error,
            MinerError::NoAdapter {
                wanted: Some(1_000_000),
                ..
            }
        ),
        "{error}"
    );
    assert!(error.to_string().contains("1000000"), "{error}");
}

#[test]
fn shares_of_a_task_use_only_its_nonces() {
    let rig = Rig::start(config(2));
    let package = work(1, 50, Epoch::ethash(0));
    let nonces = NonceSpace::new(0xaf4c << 48, 16);
    let task = SearchTask {
        work: package.clone(),
        nonces,
        repeat: true,
    };
    rig.work.send(Some(task)).expect("the engine takes work");
    let mut seen = std::collections::HashSet::new();
    for _ in 0..100 {
        let solution = rig.solution();
        check(&package, &solution);
        assert!(nonces.contains(solution.pow_nonce), "{:x}", solution.pow_nonce);
        assert!(seen.insert(solution.pow_nonce), "{:x} twice", solution.pow_nonce);
    }
    let status = rig.engine.status();
    assert!(status.solutions >= 100 && status.devices[0].solutions == status.solutions);
}

#[test]
fn a_used_up_nonce_space_is_not_searched_again() {
    const NONCES: u64 = 1 << 16;
    let rig = Rig::start(EngineConfig {
        dataset: DatasetPolicy::Memory,
        ..config(2)
    });
    let package = work(1, 16, Epoch::ethash(0));
    let task = |header| SearchTask {
        work: work(header, 16, Epoch::ethash(0)),
        nonces: NonceSpace::new(7 * NONCES, 48),
        repeat: true,
    };
    rig.work.send(Some(task(1))).expect("the engine takes work");
    // The last nonce of a space is never tried, and each thread has a half of the others.
    let tried = (NONCES - 1) / 2 * 2;
    rig.wait_until("all nonces are tried", |engine| engine.status().hashes >= tried);
    wait_for_rest(&rig.engine);
    assert_eq!(rig.engine.status().hashes, tried);
    let mut seen = std::collections::HashSet::new();
    for found in rig.solutions.try_iter() {
        check(&package, &found.solution);
        assert!(
            seen.insert(found.solution.pow_nonce),
            "{:x} twice",
            found.solution.pow_nonce
        );
    }
    // About 1 of 16 is a share. The bounds are six standard deviations away.
    assert!((3720..=4470).contains(&seen.len()), "{}", seen.len());
    rig.work.send(Some(task(2))).expect("the engine takes work");
    check(&work(2, 16, Epoch::ethash(0)), &rig.solution());
}

#[test]
fn a_throttled_engine_finds_solutions() {
    let rig = Rig::start(EngineConfig {
        intensity: Intensity::new(50).expect("1 to 100"),
        niceness: 1,
        ..config(2)
    });
    for header in 1..=3 {
        let work = work(header, 16, Epoch::ethash(0));
        rig.send(&work);
        check(&work, &rig.solution());
    }
}
