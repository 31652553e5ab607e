//! Fixtures for the tests of the worker: an engine without threads, a worker, and work with easy
//! solutions.
//!
//! Only these tests look up to the engine.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ethash::{B256, Epoch, LightCaches, WorkPackage};

use super::{GpuWorker, GpuWorkerEvents, SelfCheckSchedule};
use crate::engine::{DeviceSelection, Engine, EngineConfig};
use crate::gpu::{AdapterInfo, GpuOptions, KernelPolicy};
use crate::search::{FoundSolution, Intensity, NonceCursor};

/// Returns an engine without threads for `adapter`, its configuration with small test sizes, and
/// the receiver of its solutions.
pub(super) fn idle_engine(
    adapter: &AdapterInfo,
) -> (Engine, EngineConfig, crossbeam_channel::Receiver<FoundSolution>) {
    let config = EngineConfig {
        caches: LightCaches::with_sizes(1024, 32_768),
        threads: 1,
        ..EngineConfig::default()
    };
    let devices = DeviceSelection {
        adapters: vec![adapter.clone()],
        cpu: false,
        reason: "a test".into(),
    };
    let (solutions_out, solutions) = crossbeam_channel::unbounded();
    let engine = Engine::without_threads(&config, &devices, solutions_out);
    (engine, config, solutions)
}

pub(super) fn worker(engine: &Engine, adapter: AdapterInfo, options: GpuOptions) -> GpuWorker {
    GpuWorker {
        context: Arc::clone(&engine.workers.context),
        light_caches: Arc::clone(&engine.workers.light_caches),
        events: Arc::clone(&engine.workers) as Arc<dyn GpuWorkerEvents>,
        telemetry: Arc::default(),
        bars: true,
        adapter,
        options,
        kernels: KernelPolicy::Fixed,
        cursor: NonceCursor::starting_at(0, 1, u64::MAX - 100),
        intensity: Intensity::FULL,
        // After every batch.
        self_checks: SelfCheckSchedule {
            least: Duration::ZERO,
            factor: 0,
            after_wrong_hit: Duration::ZERO,
        },
    }
}

pub(super) fn easy_work(epoch: Epoch) -> WorkPackage {
    WorkPackage {
        header_hash: B256::repeat_byte(9),
        seed_hash: epoch.seed_hash(),
        boundary: ethash::boundary(&ethash::U256::from(5000)),
        number: None,
        epoch,
    }
}

/// Waits until `holds` is true. Panics after ten minutes: a busy machine takes long.
pub(super) fn wait_for(engine: &Engine, what: &str, holds: impl Fn() -> bool) {
    let start = Instant::now();
    while !holds() {
        if start.elapsed() > Duration::from_secs(600) {
            engine.workers.context.current_job.stop();
            panic!("{what} did not come");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}
