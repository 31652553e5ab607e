//! Work over JSON-RPC: gets work, searches with the light cache or the whole dataset, submits
//! solutions.
//!
//! The search uses the workspace's own package `ethash`, so it proves nothing about Ethash itself.
//! The independent miner is `clients/python/outside_miner.py`.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use ethash::{B256, Epoch, FullDataset, ITEM_WORDS, LightCache, PowHash, meets_boundary};
use serde_json::{Value, json};

use crate::call::{Caller, RpcCallError};
use crate::quantity::data;
use crate::wait::wait_for;

/// Nonces that are hashed together.
const LANES: usize = 8;

/// The result of `mc_getWork`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RpcWork {
    /// Hash of the header without its seal.
    pub header_hash: B256,
    /// Seed hash of the epoch.
    pub seed_hash: B256,
    /// Highest final hash of a solution.
    pub boundary: B256,
}

impl RpcWork {
    /// # Panics
    /// If the work is not of epoch 0.
    fn check_epoch(&self) {
        assert_eq!(self.seed_hash, light_cache().seed_hash(), "work of another epoch");
    }

    fn is_solved_by(&self, hash: &PowHash) -> bool {
        meets_boundary(&hash.final_hash, &self.boundary)
    }

    const fn solution(&self, pow_nonce: u64, hash: &PowHash) -> RpcSolution {
        RpcSolution {
            header_hash: self.header_hash,
            pow_nonce,
            mix_hash: hash.mix_hash,
        }
    }
}

/// The parameters of `mc_submitWork`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RpcSolution {
    /// Hash of the header without its seal.
    pub header_hash: B256,
    /// Nonce of the seal.
    pub pow_nonce: u64,
    /// Mix hash of the seal.
    pub mix_hash: B256,
}

impl RpcSolution {
    /// The nonce as in block objects.
    pub fn nonce_data(&self) -> Value {
        json!(format!("{:#018x}", self.pow_nonce))
    }
}

fn light_cache() -> &'static LightCache {
    static CACHE: OnceLock<LightCache> = OnceLock::new();
    CACHE.get_or_init(|| LightCache::build(Epoch::ethash(0)).expect("epoch 0 has a cache"))
}

/// Searches from `first_nonce` on for a nonce that solves `work`; if `solves` is false, for one
/// that does not.
///
/// # Panics
/// If the work is not of epoch 0, the only epoch whose cache is built.
pub fn search(work: &RpcWork, first_nonce: u64, solves: bool) -> RpcSolution {
    let mut nonces = SearchNonces::new(work, first_nonce);
    loop {
        if let Some(found) = nonces.next_lanes(solves) {
            return found;
        }
    }
}

/// Makes the whole dataset of epoch 0, 1 GiB, with all processors, unless it is there: up to
/// seventy processor seconds. A search in it is some hundred times as fast as [`search`].
pub fn prepare_dataset() -> FullDataset<'static> {
    static WORDS: OnceLock<Vec<u32>> = OnceLock::new();
    let words = WORDS.get_or_init(|| {
        let cache = light_cache();
        let mut words = vec![0; cache.dataset_bytes() as usize / size_of::<u32>()];
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let items = (words.len() / ITEM_WORDS).div_ceil(threads);
        std::thread::scope(|scope| {
            for (index, part) in words.chunks_mut(items * ITEM_WORDS).enumerate() {
                scope.spawn(move || cache.fill_items((index * items) as u32, part));
            }
        });
        words
    });
    FullDataset::new(words).expect("whole items")
}

/// Searches for a nonce that solves `work`, with the dataset of [`prepare_dataset`].
///
/// # Panics
/// If the work is not of epoch 0.
pub fn search_in_dataset(work: &RpcWork) -> RpcSolution {
    work.check_epoch();
    let dataset = prepare_dataset();
    let hash = |pow_nonce| (pow_nonce, dataset.hash(&work.header_hash, pow_nonce));
    let solves = |(_, hash): &(u64, PowHash)| work.is_solved_by(hash);
    let (pow_nonce, hash) = (0..)
        .map(hash)
        .find(solves)
        .expect("there is always another nonce");
    work.solution(pow_nonce, &hash)
}

/// Searches from `first_nonce` on for a nonce that solves `work`, for at most `time`.
///
/// # Panics
/// If the work is not of epoch 0, the only epoch whose cache is built.
pub fn search_within(work: &RpcWork, first_nonce: u64, time: Duration) -> Option<RpcSolution> {
    let mut nonces = SearchNonces::new(work, first_nonce);
    let started = Instant::now();
    while started.elapsed() < time {
        if let Some(found) = nonces.next_lanes(true) {
            return Some(found);
        }
    }
    None
}

/// The nonces that a search has left.
struct SearchNonces<'a> {
    work: &'a RpcWork,
    next: u64,
}

impl<'a> SearchNonces<'a> {
    fn new(work: &'a RpcWork, next: u64) -> Self {
        work.check_epoch();
        Self { work, next }
    }

    /// Hashes the next nonces. Returns the first that solves the work, or does not.
    fn next_lanes(&mut self, solves: bool) -> Option<RpcSolution> {
        let work = self.work;
        let nonces: [u64; LANES] = std::array::from_fn(|lane| self.next.wrapping_add(lane as u64));
        self.next = self.next.wrapping_add(LANES as u64);
        let hashes = light_cache().hash_many(&work.header_hash, nonces);
        let mut pairs = nonces.into_iter().zip(hashes);
        pairs
            .find(|(_, hash)| work.is_solved_by(hash) == solves)
            .map(|(pow_nonce, hash)| work.solution(pow_nonce, &hash))
    }
}

impl Caller {
    /// Gets work.
    ///
    /// # Errors
    /// [`RpcCallError`] if the node has no work or cannot be reached.
    pub fn try_work(&self) -> Result<RpcWork, RpcCallError> {
        let result = self.try_rpc("mc_getWork", json!([]))?;
        let parts = result.as_array().map(Vec::as_slice).unwrap_or_default();
        assert_eq!(parts.len(), 3, "got {result}, expected three parts");
        let part = |index: usize| data(&parts[index], 32).parse().expect("checked: 32 bytes");
        Ok(RpcWork {
            header_hash: part(0),
            seed_hash: part(1),
            boundary: part(2),
        })
    }

    /// Waits for work with another header hash than `old`; the node may need a second to make it.
    ///
    /// # Panics
    /// If there is no such work, or for an error other than -32000.
    #[track_caller]
    pub fn work_after(&self, old: Option<B256>) -> RpcWork {
        wait_for("work", || match self.try_work() {
            Ok(work) => (Some(work.header_hash) != old).then_some(work),
            Err(RpcCallError::Refused { code: -32000, .. }) => None,
            Err(error) => panic!("mc_getWork: {error}"),
        })
    }

    /// Submits a solution. Returns whether the node accepts it.
    ///
    /// # Panics
    /// If the answer is not a Boolean.
    #[track_caller]
    pub fn submit(&self, solution: &RpcSolution) -> bool {
        let RpcSolution {
            header_hash,
            mix_hash,
            ..
        } = solution;
        let params = json!([
            solution.nonce_data(),
            header_hash.to_string(),
            mix_hash.to_string()
        ]);
        let answer = self.rpc("mc_submitWork", params);
        answer
            .as_bool()
            .unwrap_or_else(|| panic!("got {answer}, expected a Boolean"))
    }
}
