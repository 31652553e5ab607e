//! Ethash (revision 23) and Etchash: epochs, sizes, the light cache, dataset items, the hash of a
//! nonce, and the seal check.
//!
//! The package does no I/O and writes no log. It knows neither chain nor node. The packages
//! `miner` and `chain` both use it, so the types of the work that passes between them are also
//! here.
//!
//! | subject | module |
//! |---|---|
//! | which block belongs to which epoch | [`epoch`](Schedule) |
//! | sizes of cache and dataset | [`cache_bytes`], [`dataset_bytes`] |
//! | light cache and dataset items | [`LightCache`] |
//! | caches shared by many threads | [`LightCaches`] |
//! | hash of a nonce | [`hashimoto`], [`hash_full`], [`LightCache::hash`] |
//! | search over a full dataset | [`FullDataset::search`] |
//! | seal check, also of many seals, on a device | [`verify_seal`], [`verify_seals`], [`MixDevice`] |
//! | random reads, to compare a search with | [`read_items`], [`read_cache_rows`] |
//! | Keccak-256 of many inputs, of one long input | [`keccak256_many`], [`keccak256_long`] |
//!
//! Words are little-endian 32-bit numbers. An *item* is 128 bytes of the dataset, a *row* is 64
//! bytes of the light cache. `pow_nonce` is the nonce as a number; its big-endian bytes are the
//! seal of a header.
//!
//! Sources: ECIP-1099 (<https://ecips.ethereumclassic.org/ECIPs/ecip-1099>), and the Ethash
//! specification, revision 23:
//! <https://ethereum.org/developers/docs/consensus-mechanisms/pow/mining/mining-algorithms/ethash/>

#[cfg(target_endian = "big")]
compile_error!(
    "rows and items are used as little-endian words in place; a big-endian port must convert them"
);

mod arith;
mod cache_row;
mod caches;
mod constants;
mod epoch;
mod full_dataset;
mod hashimoto;
mod huge_pages;
mod keccak;
mod keccak_long;
mod keccak_many;
mod light_cache;
mod memory;
mod seal;
mod search;
mod simd;
mod sizes;
mod work;

pub use alloy_primitives::{B256, U256};
pub use arith::prefetch;
pub use caches::{CACHES_KEPT, LightCaches};
pub use constants::{
    ACCESSES, CACHE_BYTES_GROWTH, CACHE_BYTES_INIT, CACHE_ROUNDS, DATASET_BYTES_GROWTH, DATASET_BYTES_INIT,
    DATASET_PARENTS, EPOCH_LENGTH_ETCHASH, EPOCH_LENGTH_ETHASH, FNV_PRIME, ITEM_BYTES, ITEM_WORDS, MAX_EPOCH,
    NEXT_EPOCH_LEAD_BLOCKS, ROW_BYTES, ROW_WORDS, WORD_BYTES,
};
pub use epoch::{ETCHASH_FORK_BLOCK, Epoch, Schedule, find_seed_steps, seed_hash};
pub use full_dataset::{FullDataset, hash_full};
pub use hashimoto::{PowHash, hashimoto, seed512};
pub use huge_pages::advise_huge_pages;
pub use keccak::{ROUND_CONSTANTS as KECCAK_ROUND_CONSTANTS, keccak256, keccak512};
pub use keccak_long::keccak256_long;
pub use keccak_many::keccak256_many;
pub use light_cache::{CacheError, LIGHT_IN_FLIGHT, LightCache};
pub use memory::{read_cache_rows, read_items, sum_u64};
pub use seal::{
    GotExpected, MixDevice, Seal, SealError, boundary, final_hash, meets_boundary, verify_seal, verify_seals,
    verify_seals_on,
};
pub use search::{SEARCH_GROUP, SEARCH_IN_FLIGHT};
pub use simd::{InstructionSet, InstructionSetError};
pub use sizes::{SizeError, cache_bytes, cache_rows, dataset_bytes, dataset_items};
pub use work::{Solution, WorkPackage};
