//! An outside miner: takes work over RPC, searches with the light cache, hands in solutions.
//!
//! Uses the workspace's own `ethash`, so it proves nothing about Ethash itself: the
//! independent miner is `clients/python/outside_miner.py`.

use std::sync::OnceLock;

use ethash::{B256, Epoch, LightCache, meets_boundary};
use serde_json::{Value, json};

use crate::call::{CallError, Caller};
use crate::quantity::data;
use crate::wait::wait_for;

/// Nonces hashed side by side.
const LANES: usize = 4;

/// What getWork gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// The pow-hash.
    pub header_hash: B256,
    /// Of the epoch.
    pub seed_hash: B256,
    /// What a solution must not be above.
    pub boundary: B256,
}

/// What submitWork takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The pow-hash.
    pub header_hash: B256,
    /// The seal's nonce.
    pub pow_nonce: u64,
    /// The seal's mix.
    pub mix_hash: B256,
}

impl Found {
    /// The nonce as blocks show it.
    pub fn nonce_data(&self) -> Value {
        json!(format!("{:#018x}", self.pow_nonce))
    }
}

fn light_cache() -> &'static LightCache {
    static CACHE: OnceLock<LightCache> = OnceLock::new();
    CACHE.get_or_init(|| LightCache::build(Epoch::ethash(0)).expect("epoch 0 has a cache"))
}

/// Searches until a nonce solves `work` (or, where `solves` is false, until one does not).
///
/// # Panics
/// When the work is not of epoch 0, whose cache is the one that is built.
pub fn search(work: &Work, first_nonce: u64, solves: bool) -> Found {
    assert_eq!(work.seed_hash, light_cache().seed_hash(), "work of another epoch");
    let mut nonce = first_nonce;
    loop {
        let nonces: [u64; LANES] = std::array::from_fn(|lane| nonce.wrapping_add(lane as u64));
        let hashes = light_cache().hash_many(&work.header_hash, nonces);
        for (pow_nonce, hash) in nonces.into_iter().zip(hashes) {
            if meets_boundary(&hash.final_hash, &work.boundary) == solves {
                return Found {
                    header_hash: work.header_hash,
                    pow_nonce,
                    mix_hash: hash.mix_hash,
                };
            }
        }
        nonce = nonce.wrapping_add(LANES as u64);
    }
}

impl Caller {
    /// Work, or why there is none.
    ///
    /// # Errors
    /// What the node answers.
    pub fn try_work(&self) -> Result<Work, CallError> {
        let result = self.try_rpc("mc_getWork", json!([]))?;
        let parts = result.as_array().map(Vec::as_slice).unwrap_or_default();
        assert_eq!(parts.len(), 3, "got {result}, expected three parts");
        let part = |index: usize| data(&parts[index], 32).parse().expect("checked: 32 bytes");
        Ok(Work {
            header_hash: part(0),
            seed_hash: part(1),
            boundary: part(2),
        })
    }

    /// Work with another pow-hash than `old`, which the node may take a second to make.
    ///
    /// # Panics
    /// When none comes, or an error that is not a refusal.
    #[track_caller]
    pub fn work_after(&self, old: Option<B256>) -> Work {
        wait_for("work", || match self.try_work() {
            Ok(work) => (Some(work.header_hash) != old).then_some(work),
            Err(CallError::Refused { code: -32000, .. }) => None,
            Err(error) => panic!("mc_getWork: {error}"),
        })
    }

    /// Hands in a solution; whether the node takes it.
    ///
    /// # Panics
    /// When the answer is no Boolean.
    #[track_caller]
    pub fn submit(&self, found: &Found) -> bool {
        let Found {
            header_hash,
            mix_hash,
            ..
        } = found;
        let params = json!([found.nonce_data(), header_hash.to_string(), mix_hash.to_string()]);
        let answer = self.rpc("mc_submitWork", params);
        answer
            .as_bool()
            .unwrap_or_else(|| panic!("got {answer}, expected a Boolean"))
    }
}
