//! Ethash (revision 23) and Etchash: epochs, sizes, the light cache, dataset items, the hash itself
//! and the check of a seal.
//!
//! This package does no I/O, writes no log and knows neither chain nor node: it turns bytes into
//! bytes. It is what `miner` and `chain` share, so the work types between them live here too.
//!
//! | subject | module |
//! |---|---|
//! | which block belongs to which epoch | [`epoch`](Schedule) |
//! | sizes of cache and dataset | [`cache_bytes`], [`dataset_bytes`] |
//! | light cache and dataset items | [`LightCache`] |
//! | caches shared by many threads | [`LightCaches`] |
//! | hash of a nonce | [`hashimoto`], [`hash_full`], [`LightCache::hash`] |
//! | seal check | [`verify_seal`] |
//! | many hashes side by side | [`keccak256_many`] |
//!
//! Words are little-endian 32-bit numbers; an *item* is 128 bytes of the dataset, a *row* is 64
//! bytes of the light cache. `pow_nonce` is the number whose big-endian bytes are the seal of a
//! header.

#[cfg(target_endian = "big")]
compile_error!(
    "rows and items are used as little-endian words in place; a big-endian port must convert them"
);

mod arith;
mod caches;
mod epoch;
mod hashimoto;
mod isa;
mod keccak;
mod kernels;
mod light;
mod many;
mod memory;
mod seal;
mod search;
mod sizes;
mod work;

pub use alloy_primitives::{B256, U256};
pub use arith::prefetch;
pub use caches::{CACHES_KEPT, LightCaches};
pub use epoch::{ETCHASH_FORK_BLOCK, Epoch, Schedule, find_seed_steps, seed_hash};
pub use hashimoto::{FullDataset, PowHash, hash_full, hashimoto, seed512};
pub use isa::{InstructionSet, InstructionSetError};
pub use keccak::{ROUND_CONSTANTS as KECCAK_ROUND_CONSTANTS, keccak256, keccak512};
pub use light::{CacheError, LightCache};
pub use many::keccak256_many;
pub use memory::advise_huge_pages;
pub use seal::{GotExpected, SealError, boundary, final_hash, meets_boundary, verify_seal};
pub use search::{GROUP as SEARCH_GROUP, IN_FLIGHT as SEARCH_IN_FLIGHT};
pub use sizes::{SizeError, cache_bytes, cache_rows, dataset_bytes, dataset_items};
pub use work::{Solution, WorkPackage};

/// Blocks in an epoch of Ethash, and blocks per step of the seed hash everywhere.
pub const EPOCH_LENGTH_ETHASH: u64 = 30_000;
/// Blocks in an epoch of Etchash from its fork block on (ECIP-1099).
pub const EPOCH_LENGTH_ETCHASH: u64 = 60_000;
/// Highest epoch whose 64-byte node indices fit 32 bits.
pub const MAX_EPOCH: u32 = 32_639;
/// Bytes in a word of mix, row or item.
pub const WORD_BYTES: usize = 4;
/// Bytes in a row of the light cache; also half an item.
pub const ROW_BYTES: usize = 64;
/// Bytes in a dataset item; also the width of the mix.
pub const ITEM_BYTES: usize = 128;
/// Words in a row of the light cache.
pub const ROW_WORDS: usize = ROW_BYTES / WORD_BYTES;
/// Words in a dataset item.
pub const ITEM_WORDS: usize = ITEM_BYTES / WORD_BYTES;
/// Upper bound of the light cache at epoch 0, before the prime rule.
pub const CACHE_BYTES_INIT: u64 = 1 << 24;
/// Growth of the light cache per epoch, before the prime rule.
pub const CACHE_BYTES_GROWTH: u64 = 1 << 17;
/// Upper bound of the dataset at epoch 0, before the prime rule.
pub const DATASET_BYTES_INIT: u64 = 1 << 30;
/// Growth of the dataset per epoch, before the prime rule.
pub const DATASET_BYTES_GROWTH: u64 = 1 << 23;
/// Passes over the light cache after its first filling.
pub const CACHE_ROUNDS: u32 = 3;
/// Light cache rows mixed into each 64-byte half of an item.
pub const DATASET_PARENTS: u32 = 256;
/// Dataset items read per hash.
pub const ACCESSES: u32 = 64;
/// Multiplier of the mixing step `a * FNV_PRIME ^ b`.
pub const FNV_PRIME: u32 = 0x0100_0193;
