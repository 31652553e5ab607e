//! Tests the engine on a graphics adapter, with the small test dataset. A software adapter is
//! enough.
//!
//! If there is no adapter, the tests are skipped with a message. If `REQUIRE_GPU` is set, they
//! fail.

use std::time::Duration;

use crossbeam_channel::unbounded;
use engine::gpu::{GpuOptions, TuningCache, list_adapters};
use engine::{
    DatasetPolicy, DeviceChoice, DeviceState, Engine, EngineConfig, FoundSolution, Intensity, KernelPolicy,
    NonceSpace, SearchTask,
};
use ethash::{B256, Epoch, LightCache, LightCaches, U256, WorkPackage};

const PATIENCE: Duration = Duration::from_secs(60);

fn adapter_present() -> bool {
    let present = !list_adapters().is_empty();
    assert!(
        present || std::env::var_os("REQUIRE_GPU").is_none(),
        "REQUIRE_GPU is set and there is no adapter"
    );
    if !present {
        eprintln!("skipped: no graphics adapter");
    }
    present
}

/// Lets an engine solve a few packages of two epochs, and returns its description.
fn solve(gpu: GpuOptions, kernels: KernelPolicy) -> Vec<String> {
    let (work_out, work_in) = unbounded();
    let (solutions_out, solutions) = unbounded();
    let caches = LightCaches::with_sizes(1024, 32_768);
    let config = EngineConfig {
        device: DeviceChoice::Gpu,
        threads: 1,
        caches,
        gpu,
        kernels,
        ..EngineConfig::default()
    };
    let engine = Engine::start(config, work_in, solutions_out).expect("the engine starts");
    for (header, index) in [(1, 0), (2, 0), (3, 1), (4, 0)] {
        let epoch = Epoch::ethash(index);
        let work = WorkPackage {
            header_hash: B256::repeat_byte(header),
            seed_hash: epoch.seed_hash(),
            boundary: ethash::boundary(&U256::from(3000)),
            number: None,
            epoch,
        };
        work_out.send(Some(work.clone())).expect("the engine takes work");
        let found = solutions.recv_timeout(PATIENCE).expect("a solution").solution;
        assert_eq!(found.header_hash, work.header_hash);
        let cache = LightCache::with_sizes(work.seed_hash, 1024, 32_768).expect("the test sizes");
        let seal = ethash::verify_seal(
            &cache,
            &work.header_hash,
            found.pow_nonce,
            &found.mix_hash,
            &work.boundary,
        );
        assert_eq!(seal, Ok(()));
    }
    let status = engine.status();
    assert_eq!((status.solutions, status.hardware_errors), (4, 0));
    assert!(status.hashes > 0);
    assert!(solutions.is_empty(), "one solution per package");
    let lines = engine.describe();
    engine.stop();
    lines
}

#[test]
fn packages_are_solved_on_the_adapter() {
    if !adapter_present() {
        return;
    }
    let lines = solve(GpuOptions::default(), KernelPolicy::Fixed);
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].starts_with("searching on gpu:"), "{lines:?}");
}

#[test]
fn an_adapter_that_is_too_small_leaves_the_search_to_the_cpu() {
    if !adapter_present() {
        return;
    }
    // With one item in each page, the dataset has more pages than any adapter can bind.
    let options = GpuOptions {
        max_page_items: Some(1),
        ..GpuOptions::default()
    };
    let lines = solve(options, KernelPolicy::Fixed);
    let line = lines.last().expect("the description has a line");
    assert!(
        line.contains("the CPU searches") && line.contains("adapter too small"),
        "{lines:?}"
    );
}

#[test]
fn the_kernel_is_measured_once_and_stored() {
    if !adapter_present() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let policy = KernelPolicy::measured(&DatasetPolicy::Disk(folder.path().to_owned()));
    let cache = TuningCache::in_folder(folder.path());
    assert_eq!(policy, KernelPolicy::Measured(Some(cache)));
    solve(GpuOptions::default(), policy.clone());
    let file = folder.path().join("gpu-kernels.json");
    let stored = std::fs::read_to_string(&file).expect("the choice is stored");
    let written = std::fs::metadata(&file)
        .and_then(|file| file.modified())
        .expect("a time");
    assert!(stored.contains("\"kernel\": \""), "{stored}");
    solve(GpuOptions::default(), policy.clone());
    let again = std::fs::metadata(&file)
        .and_then(|file| file.modified())
        .expect("a time");
    assert_eq!(written, again, "nothing was measured");
    std::fs::write(&file, "{").expect("damaged");
    solve(GpuOptions::default(), policy);
    let stored_again = std::fs::read_to_string(&file).expect("the choice is stored again");
    assert!(stored_again.contains("\"kernel\": \""), "{stored_again}");
}

/// Lets the CPU and the first adapter search for shares of one task of this difficulty until the
/// first `wanted` devices have found some. Returns the shares, the states of the devices, and the
/// description of the engine.
fn share_task(
    gpu: GpuOptions,
    intensity: Intensity,
    difficulty: u64,
    wanted: usize,
) -> (Vec<FoundSolution>, Vec<DeviceState>, Vec<String>) {
    let (work_out, work_in) = unbounded();
    let (solutions_out, solutions) = unbounded::<FoundSolution>();
    let config = EngineConfig {
        device: DeviceChoice::List {
            cpu: true,
            adapters: vec![0],
        },
        // A software adapter needs the other processors.
        threads: 1,
        caches: LightCaches::with_sizes(1024, 32_768),
        gpu,
        intensity,
        ..EngineConfig::default()
    };
    let engine = Engine::start(config, work_in, solutions_out).expect("the engine starts");
    let epoch = Epoch::ethash(0);
    let task = SearchTask {
        work: WorkPackage {
            header_hash: B256::repeat_byte(6),
            seed_hash: epoch.seed_hash(),
            boundary: ethash::boundary(&U256::from(difficulty)),
            number: None,
            epoch,
        },
        nonces: NonceSpace::new(0xaf4c << 48, 16),
        repeat: true,
    };
    work_out.send(Some(task)).expect("the engine takes work");
    let mut found = Vec::new();
    let has_all = |found: &[FoundSolution]| {
        found.len() >= 50 && (0..wanted).all(|device| found.iter().any(|found| found.device == device))
    };
    while !has_all(&found) {
        found.push(solutions.recv_timeout(PATIENCE).expect("a solution"));
    }
    // The adapter takes longer to open than the CPU takes for its first shares.
    let is_opening =
        |state: &DeviceState| matches!(state, DeviceState::Waiting | DeviceState::Preparing { .. });
    let start = std::time::Instant::now();
    while is_opening(&engine.status().devices[0].state) {
        assert!(
            start.elapsed() < PATIENCE,
            "the adapter neither searches nor fails"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    let status = engine.status();
    assert_eq!(status.hardware_errors, 0);
    let names: Vec<_> = status.devices.iter().map(|device| device.name.as_str()).collect();
    assert_eq!(names, ["gpu:0", "cpu"]);
    let states = status.devices.into_iter().map(|device| device.state).collect();
    let lines = engine.describe();
    engine.stop();
    (found, states, lines)
}

#[test]
fn adapter_and_cpu_share_the_nonces_of_a_task() {
    if !adapter_present() {
        return;
    }
    for percent in [100, 50] {
        let intensity = Intensity::new(percent).expect("1 to 100");
        let (found, states, _) = share_task(GpuOptions::default(), intensity, 1000, 2);
        let nonces: std::collections::HashSet<_> =
            found.iter().map(|found| found.solution.pow_nonce).collect();
        assert_eq!(nonces.len(), found.len(), "no nonce is tried twice");
        assert!(nonces.iter().all(|nonce| nonce >> 48 == 0xaf4c));
        assert_eq!(
            states,
            [
                DeviceState::Searching { epoch: 0 },
                DeviceState::Searching { epoch: 0 }
            ]
        );
    }
}

#[test]
fn a_device_that_fails_does_not_stop_the_others() {
    if !adapter_present() {
        return;
    }
    // With one item in each page, the dataset has more pages than any adapter can bind.
    let options = GpuOptions {
        max_page_items: Some(1),
        ..GpuOptions::default()
    };
    let (found, states, lines) = share_task(options, Intensity::FULL, 400, 0);
    assert!(found.iter().all(|found| found.device == 1));
    assert!(
        matches!(&states[0], DeviceState::Recovering { reason } if reason.contains("too small")),
        "{states:?}"
    );
    assert_eq!(states[1], DeviceState::Searching { epoch: 0 });
    assert!(
        lines.iter().any(|line| line.contains("the other devices go on")),
        "{lines:?}"
    );
}
