//! The engine on a graphics adapter, with the small test dataset: software adapters do for that.
//!
//! Skipped with a word where there is no adapter, unless `REQUIRE_GPU` is set.

use std::time::Duration;

use crossbeam_channel::unbounded;
use ethash::{B256, Epoch, LightCache, LightCaches, U256, WorkPackage};
use miner::gpu::{GpuOptions, list_adapters};
use miner::{DeviceChoice, Engine, EngineConfig};

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

/// Lets an engine solve a few packages over two epochs and gives its description.
fn solve(gpu: GpuOptions) -> Vec<String> {
    let (work_out, work_in) = unbounded();
    let (solutions_out, solutions) = unbounded();
    let caches = LightCaches::with_sizes(1024, 32_768);
    let config = EngineConfig {
        device: DeviceChoice::Gpu,
        threads: 1,
        caches,
        gpu,
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
        let found = solutions.recv_timeout(PATIENCE).expect("a solution");
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
    let lines = solve(GpuOptions::default());
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].starts_with("searching on gpu:"), "{lines:?}");
}

#[test]
fn an_adapter_that_is_too_small_leaves_the_search_to_the_cpu() {
    if !adapter_present() {
        return;
    }
    // An item a page: more pages than any adapter binds.
    let lines = solve(GpuOptions {
        max_page_items: Some(1),
        ..GpuOptions::default()
    });
    let line = lines.last().expect("what has happened is described");
    assert!(
        line.contains("the CPU searches") && line.contains("adapter too small"),
        "{lines:?}"
    );
}
