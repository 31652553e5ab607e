//! Ties this process's searchers to the chain's work desk.
//!
//! The desk's changes of work go to the engine, the engine's solutions back to the desk.

use std::sync::Arc;
use std::thread::JoinHandle;

use chain::Chain;
use chain::chain::WriteError;
use crossbeam_channel::{Receiver, bounded};
use ethash::LightCaches;
use miner::{Engine, EngineConfig, FoundSolution, KernelPolicy, MinerError};
use parking_lot::Mutex;

use crate::VnodeOptions;

/// Solutions that may wait to be imported.
const SOLUTIONS_MAX: usize = 64;

/// Most threads that can be asked for while the node runs.
const THREADS_MAX: usize = 1024;

/// The searchers of this process, where there are any, and what they are started with.
#[derive(Clone)]
pub(crate) struct Miner {
    options: VnodeOptions,
    caches: LightCaches,
    chain: Chain,
    /// What searches now. Held for moments only: whoever asks for rates does so on a network thread.
    running: Arc<Mutex<Option<Running>>>,
    /// Held while the search is started or ended, which may take seconds.
    changing: Arc<Mutex<()>>,
}

struct Running {
    engine: Engine,
    solutions: JoinHandle<()>,
}

impl Miner {
    /// No searchers yet, for `chain`.
    pub(crate) fn new(options: &VnodeOptions, caches: &LightCaches, chain: &Chain) -> Self {
        Self {
            options: options.clone(),
            caches: caches.clone(),
            chain: chain.clone(),
            running: Arc::default(),
            changing: Arc::default(),
        }
    }

    /// Starts searching, with so many threads or as many as the options say; what searches is said
    /// by the returned lines. A search under way goes on, unless it is to have another number.
    pub(crate) fn start(&self, threads: Option<usize>) -> Result<Vec<String>, MinerError> {
        let _one_at_a_time = self.changing.lock();
        if let Some(search) = &*self.running.lock()
            && threads.is_none()
        {
            return Ok(search.engine.describe());
        }
        if let Some(got) = threads
            && got > THREADS_MAX
        {
            return Err(MinerError::NoThread {
                what: format!("{got} threads"),
                reason: format!("at most {THREADS_MAX}"),
            });
        }
        self.end();
        let threads = threads.unwrap_or_else(|| self.options.threads());
        if threads == 0 {
            return Ok(vec![
                "no search in this process: work is only handed out (--minerthreads 0)".to_owned(),
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
        let engine = Engine::start(config, self.chain.desk().subscribe(), sender)?;
        let lines = engine.describe();
        let chain = self.chain.clone();
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
        let _one_at_a_time = self.changing.lock();
        self.end();
    }

    /// Ends the search, and the thread that takes its solutions. Whoever calls holds `changing`.
    fn end(&self) {
        // A statement of its own, so that `running` is free while the threads are waited for.
        let running = self.running.lock().take();
        if let Some(Running { engine, solutions }) = running {
            drop(engine);
            if solutions.join().is_err() {
                tracing::error!("the thread that takes solutions ended by a panic");
            }
        }
    }

    /// Whoever mines takes dearer transactions alone. A price that was set by hand stays.
    fn move_price_floor(&self, mines: bool) {
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
            .into_iter()
            .map(|device| (device.name, device.hashrate))
            .collect()
    }
}

impl rpc::MinerControl for Miner {
    fn hashrate(&self) -> f64 {
        Self::hashrate(self)
    }

    fn start(&self, threads: Option<usize>) -> Result<(), String> {
        let lines = Self::start(self, threads).map_err(|error| error.to_string())?;
        for line in lines {
            tracing::info!("mining: {line}");
        }
        self.move_price_floor(true);
        Ok(())
    }

    fn stop(&self) {
        Self::stop(self);
        self.move_price_floor(false);
    }
}

fn take_solutions(chain: &Chain, solutions: &Receiver<FoundSolution>) {
    for found in solutions {
        match chain.submit_solution(&found.solution) {
            Ok(_) => {}
            Err(WriteError::Stopping | WriteError::Failed(_)) => return,
            Err(WriteError::Solution(error)) => tracing::debug!(%error, "own solution came too late"),
            Err(error) => tracing::error!(%error, "own block refused"),
        }
    }
}

#[cfg(test)]
mod tests {
    use chain::rules::body::SealCheck;
    use chain::{ChainConfig, ChainSpec};
    use clap::Parser;
    use primitives::U256;
    use rpc::MinerControl;
    use store::Store;

    use super::*;

    /// No searchers yet, for a chain of `spec` in memory.
    fn miner(spec: ChainSpec, arguments: &[&str]) -> Miner {
        let arguments = ["vnode", "--minerthreads", "0", "--txpool.journal="]
            .iter()
            .chain(arguments);
        let options = VnodeOptions::parse_from(arguments);
        let directory = std::path::Path::new("/d");
        let pool = options.txpool.config(&spec, directory, false, options.gasprice);
        let config = ChainConfig {
            spec: Arc::new(spec),
            seals: SealCheck::Off,
            pool,
            beneficiary: primitives::Address::ZERO,
            extra_data: Default::default(),
        };
        let chain = Chain::open(Store::in_memory().unwrap(), config).unwrap();
        Miner::new(&options, &LightCaches::new(), &chain)
    }

    #[test]
    fn only_so_many_threads_are_started() {
        let miner = miner(ChainSpec::dev(), &[]);
        let control: &dyn MinerControl = &miner;
        let error = control.start(Some(THREADS_MAX + 1)).unwrap_err();
        assert!(
            error.contains("1025 threads") && error.contains("at most 1024"),
            "{error}"
        );
        assert!(miner.running.lock().is_none());
    }

    #[test]
    fn rates_wait_for_no_end_of_a_search() {
        let miner = miner(ChainSpec::dev(), &[]);
        let config = EngineConfig {
            threads: 0,
            ..Default::default()
        };
        let (sender, _found) = bounded(1);
        let engine = Engine::start(config, miner.chain.desk().subscribe(), sender).unwrap();
        // A solution that takes long to import: the end of the search waits for it.
        let (imported, importing) = bounded::<()>(0);
        let solutions = std::thread::spawn(move || _ = importing.recv());
        *miner.running.lock() = Some(Running { engine, solutions });
        let stopping = miner.clone();
        let stopped = std::thread::spawn(move || stopping.stop());
        let (rate, rates) = bounded(1);
        let asking = miner.clone();
        std::thread::spawn(move || {
            while asking.running.lock().is_some() {
                std::thread::yield_now();
            }
            let _ = rate.send((asking.hashrate(), asking.devices()));
        });
        let got = rates.recv_timeout(std::time::Duration::from_secs(10));
        assert_eq!(got, Ok((0.0, vec![])), "the end of the search keeps the lock");
        assert!(!stopped.is_finished(), "nothing was imported yet");
        drop(imported);
        stopped.join().unwrap();
    }

    /// The floors at the start, after mining has begun and after it has ended; `by_hand` is set
    /// in between the first two.
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
    fn mining_has_a_price_unless_one_was_set() {
        let gsha = 1_000_000_000_u64;
        let check = |spec, arguments: &[&str], by_hand, expected: [u64; 3]| {
            let expected = expected.map(U256::from);
            assert_eq!(
                floors(spec, arguments, by_hand),
                expected,
                "{arguments:?} {by_hand:?}"
            );
        };
        // The main network's price, with a block 0 that is at hand.
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
