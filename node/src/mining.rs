//! Mining in this process: connects the mining engine with the chain's work manager.
//!
//! The work manager sends each new work to the engine; the solutions of the engine go back to the
//! chain.

use std::sync::Arc;
use std::thread::JoinHandle;

use chain::Chain;
use chain::chain::WriteError;
use chain::import::Imported;
use crossbeam_channel::{Receiver, bounded};
use engine::{
    ClientStats, ClientStatus, Engine, EngineConfig, EngineStatus, FoundSolution, KernelPolicy, MinerError,
    ShareCounts,
};
use ethash::{B256, LightCaches};
use parking_lot::Mutex;
use stratum_server::BlockFinders;

use crate::options::VnodeOptions;

/// Most solutions that wait for their import.
const SOLUTIONS_MAX: usize = 64;

/// Most threads that a request can start.
const THREADS_MAX: usize = 1024;

/// The mining engine of this process, running or not, and what it needs to start.
#[derive(Clone)]
pub(crate) struct LocalMiner {
    options: VnodeOptions,
    caches: LightCaches,
    chain: Chain,
    /// The running engine. This lock must be held for moments only, because network threads take it
    /// to read hashrates.
    running: Arc<Mutex<Option<RunningEngine>>>,
    /// Locked while the engine starts or stops, which may take seconds.
    start_stop: Arc<Mutex<()>>,
    /// The devices that found the last blocks.
    finders: Arc<BlockFinders>,
}

struct RunningEngine {
    engine: Engine,
    /// The answers to the solutions of each device.
    answers: Arc<ClientStats>,
    /// The thread that submits solutions.
    solutions: JoinHandle<()>,
}

impl LocalMiner {
    /// Creates a miner for `chain`. No engine runs yet.
    pub(crate) fn new(options: &VnodeOptions, caches: &LightCaches, chain: &Chain) -> Self {
        Self {
            options: options.clone(),
            caches: caches.clone(),
            chain: chain.clone(),
            running: Arc::default(),
            start_stop: Arc::default(),
            finders: Arc::default(),
        }
    }

    /// Starts mining with `threads` CPU threads, or with the number in the options. Returns lines
    /// that describe what mines.
    ///
    /// A running engine goes on if `threads` is `None`; otherwise it is replaced.
    pub(crate) fn start(&self, threads: Option<usize>) -> Result<Vec<String>, MinerError> {
        let _one_at_a_time = self.start_stop.lock();
        if let Some(running) = &*self.running.lock()
            && threads.is_none()
        {
            return Ok(running.engine.describe());
        }
        if let Some(got) = threads
            && got > THREADS_MAX
        {
            return Err(MinerError::NoThread {
                what: format!("{got} threads"),
                reason: format!("at most {THREADS_MAX}"),
            });
        }
        self.stop_engine();
        let threads = threads.unwrap_or_else(|| self.options.threads());
        if threads == 0 {
            return Ok(vec![
                "this process does not mine, it only gives work to other miners (--minerthreads 0)"
                    .to_owned(),
            ]);
        }
        let config = EngineConfig {
            device: self.options.miner_device.clone(),
            threads,
            kernels: KernelPolicy::measured(&self.options.dataset()),
            dataset: self.options.dataset(),
            caches: self.caches.clone(),
            schedule: self.chain.spec().schedule,
            ..Default::default()
        };
        let (sender, solutions) = bounded(SOLUTIONS_MAX);
        let engine = Engine::start(config, self.chain.work().subscribe(), sender)?;
        let lines = engine.describe();
        let answers = Arc::<ClientStats>::default();
        let devices = engine.status().devices.into_iter();
        let submitter = SolutionSubmitter {
            devices: devices.map(|device| device.name).collect(),
            chain: self.chain.clone(),
            answers: answers.clone(),
            finders: self.finders.clone(),
            running: self.running.clone(),
        };
        let solutions = std::thread::Builder::new()
            .name("solutions".to_owned())
            .spawn(move || submitter.run(&solutions))
            .map_err(|error| MinerError::NoThread {
                what: "solutions".to_owned(),
                reason: error.to_string(),
            })?;
        *self.running.lock() = Some(RunningEngine {
            engine,
            answers,
            solutions,
        });
        Ok(lines)
    }

    /// Stops mining and waits for the engine.
    pub(crate) fn stop(&self) {
        let _one_at_a_time = self.start_stop.lock();
        self.stop_engine();
    }

    /// Stops the engine and the thread that submits its solutions. The caller holds `start_stop`.
    fn stop_engine(&self) {
        // A separate statement, so that `running` is unlocked while this waits for the threads.
        let running = self.running.lock().take();
        if let Some(RunningEngine {
            engine, solutions, ..
        }) = running
        {
            drop(engine);
            if solutions.join().is_err() {
                tracing::error!("the thread that submits solutions panicked");
            }
        }
    }

    /// Sets the price floor of the pool for mining or not mining. While mining, the floor is
    /// higher. A floor that was set by hand stays.
    fn update_price_floor(&self, mines: bool) {
        let options = &self.options;
        let floor = |mines| {
            let spec = self.chain.spec();
            options.txpool.price_floor(spec, mines, options.gasprice)
        };
        let pool = self.chain.pool();
        let (old, new) = (floor(!mines), floor(mines));
        if old != new && pool.price_floor() == old {
            pool.set_price_floor(new);
        }
    }

    /// Hashrate of this process, in hashes per second.
    pub(crate) fn hashrate(&self) -> f64 {
        self.running
            .lock()
            .as_ref()
            .map_or(0.0, |running| running.engine.hashrate())
    }

    /// Name and hashrate of each device, in hashes per second.
    pub(crate) fn devices(&self) -> Vec<(String, f64)> {
        self.running
            .lock()
            .as_ref()
            .map(|running| running.engine.status().devices)
            .unwrap_or_default()
            .into_iter()
            .map(|device| (device.name, device.hashrate))
            .collect()
    }

    /// The figures of the engine, and what became of the solutions of each device. Both begin anew
    /// with each engine. `None` if no engine runs.
    pub(crate) fn figures(&self) -> Option<(EngineStatus, ClientStatus)> {
        let running = self.running.lock();
        let running = running.as_ref()?;
        Some((running.engine.status(), running.answers.status()))
    }

    /// The device that found the block with this header hash, if it was one of the last ones.
    pub(crate) fn finder(&self, header_hash: &B256) -> Option<String> {
        self.finders.of(header_hash)
    }
}

impl rpc::MinerControl for LocalMiner {
    fn hashrate(&self) -> f64 {
        Self::hashrate(self)
    }

    fn start(&self, threads: Option<usize>) -> Result<(), rpc::ControlError> {
        let lines = Self::start(self, threads)?;
        for line in lines {
            tracing::info!("mining: {line}");
        }
        self.update_price_floor(true);
        Ok(())
    }

    fn stop(&self) {
        Self::stop(self);
        self.update_price_floor(false);
    }
}

/// Submits the solutions of an engine to the chain, and counts what becomes of them.
struct SolutionSubmitter {
    /// The names of the devices that the engine began with.
    devices: Vec<String>,
    chain: Chain,
    answers: Arc<ClientStats>,
    finders: Arc<BlockFinders>,
    running: Arc<Mutex<Option<RunningEngine>>>,
}

impl SolutionSubmitter {
    /// Submits until the engine or the chain stops.
    fn run(self, solutions: &Receiver<FoundSolution>) {
        for found in solutions {
            let count = |change: fn(&mut ShareCounts)| self.answers.count(found.device, change);
            match self.chain.submit_solution(&found.solution) {
                // Another block was faster. This one may still be paid as an uncle.
                Ok(Imported::Side) => count(|counts| counts.stale += 1),
                Ok(Imported::Head { .. } | Imported::Known | Imported::Later) => {
                    count(|counts| counts.accepted += 1);
                    self.finders
                        .note(found.solution.header_hash, self.name_of(found.device));
                }
                Err(WriteError::Stopping | WriteError::Failed(_)) => return,
                Err(WriteError::Solution(error)) => {
                    count(|counts| counts.stale += 1);
                    tracing::debug!(%error, "a solution of this process came too late");
                }
                Err(error) => {
                    count(|counts| counts.rejected += 1);
                    tracing::error!(%error, "a block of this process was refused");
                }
            }
        }
    }

    /// The name of a device, such as `gpu:0`.
    fn name_of(&self, device: usize) -> String {
        if let Some(name) = self.devices.get(device) {
            return name.clone();
        }
        // The engine has added this one, for example the CPU because no card is left.
        let running = self.running.lock();
        let devices = running.as_ref().map(|running| running.engine.status().devices);
        let added = devices.and_then(|devices| devices.into_iter().nth(device));
        added.map_or_else(|| format!("device {device}"), |device| device.name)
    }
}

#[cfg(test)]
mod tests {
    use chain::rules::seal::SealCheck;
    use chain::{ChainConfig, ChainSpec};
    use clap::Parser;
    use primitives::U256;
    use rpc::MinerControl;
    use store::Store;

    use super::*;

    /// A miner without an engine, for a chain of `spec` in memory.
    fn miner(spec: ChainSpec, arguments: &[&str]) -> LocalMiner {
        let arguments = ["vnode", "--minerthreads", "0", "--txpool.journal="]
            .iter()
            .chain(arguments);
        let options = VnodeOptions::parse_from(arguments);
        let directory = std::path::Path::new("/d");
        let accounts = keystore::AccountManager::new();
        let pool = options
            .txpool
            .config(&spec, directory, &accounts, false, options.gasprice);
        let config = ChainConfig {
            spec: Arc::new(spec),
            seals: SealCheck::Off,
            forks: chain::import::ForkLimits::default(),
            pool,
            beneficiary: primitives::Address::ZERO,
            extra_data: Default::default(),
            states: chain::import::StateRetention::Archive,
        };
        let chain = Chain::open(Store::in_memory().unwrap(), config).unwrap();
        LocalMiner::new(&options, &LightCaches::new(), &chain)
    }

    #[test]
    fn the_number_of_threads_is_limited() {
        let miner = miner(ChainSpec::dev(), &[]);
        let control: &dyn MinerControl = &miner;
        let error = control.start(Some(THREADS_MAX + 1)).unwrap_err().to_string();
        assert!(
            error.contains("1025 threads") && error.contains("at most 1024"),
            "{error}"
        );
        assert!(miner.running.lock().is_none());
    }

    #[test]
    fn rates_can_be_read_while_the_engine_stops() {
        let miner = miner(ChainSpec::dev(), &[]);
        let config = EngineConfig {
            threads: 0,
            ..Default::default()
        };
        let (sender, _found) = bounded(1);
        let engine = Engine::start(config, miner.chain.work().subscribe(), sender).unwrap();
        // A thread in the place of a solution that takes long to import. Stopping waits for it.
        let (imported, importing) = bounded::<()>(0);
        let solutions = std::thread::spawn(move || _ = importing.recv());
        *miner.running.lock() = Some(RunningEngine {
            engine,
            answers: Arc::default(),
            solutions,
        });
        let stopping = miner.clone();
        let stopped = std::thread::spawn(move || stopping.stop());
        let (rate, rates) = bounded(1);
        let asking = miner;
        std::thread::spawn(move || {
            while asking.running.lock().is_some() {
                std::thread::yield_now();
            }
            let _ = rate.send((asking.hashrate(), asking.devices()));
        });
        let got = rates.recv_timeout(std::time::Duration::from_secs(10));
        assert_eq!(got, Ok((0.0, vec![])), "stopping holds the lock");
        assert!(!stopped.is_finished(), "nothing was imported yet");
        drop(imported);
        stopped.join().unwrap();
    }

    /// The price floor before mining, while mining and after mining. `by_hand` is set before mining
    /// starts.
    fn floors(spec: ChainSpec, arguments: &[&str], by_hand: Option<u64>) -> [U256; 3] {
        let miner = miner(spec, arguments);
        let chain = miner.chain.clone();
        let miner: Box<dyn MinerControl> = Box::new(miner);
        let start = chain.pool().price_floor();
        if let Some(price) = by_hand {
            chain.pool().set_price_floor(U256::from(price));
        }
        miner.start(None).unwrap();
        let mining = chain.pool().price_floor();
        miner.stop();
        [start, mining, chain.pool().price_floor()]
    }

    #[test]
    fn mining_raises_the_price_floor_unless_it_was_set() {
        let gsha = 1_000_000_000_u64;
        let check = |spec, arguments: &[&str], by_hand, expected: [u64; 3]| {
            let expected = expected.map(U256::from);
            assert_eq!(
                floors(spec, arguments, by_hand),
                expected,
                "{arguments:?} {by_hand:?}"
            );
        };
        // The minimum price of the main network, with a block 0 that is built in.
        let main = || ChainSpec {
            gas_price_min: ChainSpec::main().gas_price_min,
            ..ChainSpec::dev()
        };
        check(main(), &[], None, [gsha, 18 * gsha, gsha]);
        check(main(), &["--gasprice", "5"], None, [5, 5, 5]);
        check(main(), &[], Some(7), [gsha, 7, 7]);
        check(ChainSpec::dev(), &[], None, [0, 0, 0]);
    }
}
