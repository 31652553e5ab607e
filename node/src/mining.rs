//! Ties this process's searchers to the chain's work desk.
//!
//! The desk's changes of work go to the engine, the engine's solutions back to the desk.

use chain::Chain;
use chain::chain::WriteError;
use crossbeam_channel::{Receiver, bounded};
use ethash::{LightCaches, Solution};
use miner::{Engine, EngineConfig, MinerError};
use parking_lot::Mutex;
use std::sync::Arc;
use std::thread::JoinHandle;

use crate::VnodeOptions;

/// Solutions that may wait to be imported.
const SOLUTIONS_MAX: usize = 64;

/// The searchers of this process, where there are any.
#[derive(Clone, Default)]
pub(crate) struct Miner {
    running: Arc<Mutex<Option<Running>>>,
}

struct Running {
    engine: Engine,
    solutions: JoinHandle<()>,
}

impl Miner {
    /// Starts searching for `chain`; what searches is said by the returned lines.
    pub(crate) fn start(
        &self,
        options: &VnodeOptions,
        caches: &LightCaches,
        chain: &Chain,
    ) -> Result<Vec<String>, MinerError> {
        let threads = options.threads();
        if threads == 0 {
            return Ok(vec![
                "no search in this process: work is only handed out (--minerthreads 0)".to_owned(),
            ]);
        }
        let config = EngineConfig {
            device: options.miner_device.clone(),
            threads,
            dataset: options.dataset(),
            caches: caches.clone(),
            schedule: chain.spec().schedule,
            ..Default::default()
        };
        let (sender, solutions) = bounded(SOLUTIONS_MAX);
        let engine = Engine::start(config, chain.desk().subscribe(), sender)?;
        let lines = engine.describe();
        let chain = chain.clone();
        let solutions = std::thread::Builder::new()
            .name("solutions".to_owned())
            .spawn(move || take_solutions(&chain, &solutions))
            .map_err(|error| MinerError::NoThread {
                what: "solutions".to_owned(),
                reason: error.to_string(),
            })?;
        *self.running.lock() = Some(Running { engine, solutions });
        Ok(lines)
    }

    /// Stops the search.
    pub(crate) fn stop(&self) {
        if let Some(Running { engine, solutions }) = self.running.lock().take() {
            drop(engine);
            if solutions.join().is_err() {
                tracing::error!("the thread that takes solutions ended by a panic");
            }
        }
    }

    /// Hashes per second of this process.
    pub(crate) fn hashrate(&self) -> f64 {
        self.running
            .lock()
            .as_ref()
            .map_or(0.0, |running| running.engine.hashrate())
    }

    /// Hashes per second by device.
    pub(crate) fn devices(&self) -> Vec<(String, f64)> {
        self.running
            .lock()
            .as_ref()
            .map(|running| running.engine.status().devices)
            .unwrap_or_default()
    }
}

fn take_solutions(chain: &Chain, solutions: &Receiver<Solution>) {
    for solution in solutions {
        match chain.submit_solution(&solution) {
            Ok(_) => {}
            Err(WriteError::Stopping | WriteError::Failed(_)) => return,
            Err(WriteError::Solution(error)) => tracing::debug!(%error, "own solution came too late"),
            Err(error) => tracing::error!(%error, "own block refused"),
        }
    }
}

/// A rate as people read it.
pub(crate) fn rate_text(rate: f64) -> String {
    let (value, unit) = match rate {
        rate if rate >= 1e9 => (rate / 1e9, "GH/s"),
        rate if rate >= 1e6 => (rate / 1e6, "MH/s"),
        rate if rate >= 1e3 => (rate / 1e3, "kH/s"),
        rate => (rate, "H/s"),
    };
    format!("{value:.2} {unit}")
}
