//! The constants of Ethash revision 23, and the epoch length of Etchash (ECIP-1099).

/// Blocks in an epoch of Ethash. The seed hash takes one step per this many blocks, in Etchash too.
pub const EPOCH_LENGTH_ETHASH: u64 = 30_000;
/// Blocks in an epoch of Etchash from its fork block on (ECIP-1099).
pub const EPOCH_LENGTH_ETCHASH: u64 = 60_000;
/// The number of blocks before the first block of an epoch at which its light cache and its dataset
/// should be prepared.
pub const NEXT_EPOCH_LEAD_BLOCKS: u64 = 1000;
/// The highest epoch in which the indices of 64-byte dataset halves fit 32 bits.
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
/// Upper bound of the light cache at epoch 0, before the size is reduced to a prime number of rows.
pub const CACHE_BYTES_INIT: u64 = 1 << 24;
/// Growth of the light cache per epoch, before the size is reduced to a prime number of rows.
pub const CACHE_BYTES_GROWTH: u64 = 1 << 17;
/// Upper bound of the dataset at epoch 0, before the size is reduced to a prime number of items.
pub const DATASET_BYTES_INIT: u64 = 1 << 30;
/// Growth of the dataset per epoch, before the size is reduced to a prime number of items.
pub const DATASET_BYTES_GROWTH: u64 = 1 << 23;
/// Passes of RandMemoHash over the light cache after its first filling.
pub const CACHE_ROUNDS: u32 = 3;
/// Light cache rows mixed into each 64-byte half of an item.
pub const DATASET_PARENTS: u32 = 256;
/// Dataset items read per hash.
pub const ACCESSES: u32 = 64;
/// Multiplier of the mixing step `a * FNV_PRIME ^ b`.
pub const FNV_PRIME: u32 = 0x0100_0193;
