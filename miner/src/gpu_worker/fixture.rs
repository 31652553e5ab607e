//! What the tests of the worker are made of: an engine without threads, a worker, work that is easily solved.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ethash::{B256, Epoch, LightCaches, WorkPackage};

use super::GpuWorker;
use crate::device::Plan;
use crate::engine::{Engine, EngineConfig, KernelPolicy};
use crate::gpu::{AdapterInfo, GpuOptions};
use crate::intensity::Intensity;
use crate::task::{Cursor, Found};

/// An engine without threads for `adapter`, with the test sizes, and the receiver of its solutions.
pub(super) fn idle_engine(
    adapter: &AdapterInfo,
) -> (Engine, EngineConfig, crossbeam_channel::Receiver<Found>) {
    let config = EngineConfig {
        caches: LightCaches::with_sizes(1024, 32_768),
        threads: 1,
        ..EngineConfig::default()
    };
    let plan = Plan {
        adapters: vec![adapter.clone()],
        cpu: false,
        reason: "a test".into(),
    };
    let (solutions_out, solutions) = crossbeam_channel::unbounded();
    (Engine::prepare(&config, &plan, solutions_out), config, solutions)
}

pub(super) fn worker(engine: &Engine, adapter: AdapterInfo, options: GpuOptions) -> GpuWorker {
    GpuWorker {
        crew: Arc::clone(&engine.crew),
        gauge: Arc::default(),
        adapter,
        options,
        kernels: KernelPolicy::Given,
        cursor: Cursor::starting_at(0, 1, u64::MAX - 100),
        intensity: Intensity::FULL,
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

/// Waits until `is_so`, not for ever.
pub(super) fn wait_for(engine: &Engine, what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        if start.elapsed() > Duration::from_secs(60) {
            engine.crew.shared.desk.stop();
            panic!("{what} has not come");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}
