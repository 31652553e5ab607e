//! Limits of what is kept beside the canonical chain, and of one transaction.

/// The most side blocks that are kept. Those of the best header chain do not count.
pub const SIDE_BLOCKS_MAX: usize = 16_384;
/// The most bytes of rows that side blocks have. Those of the best header chain do not count.
pub const SIDE_BYTES_MAX: u64 = 1 << 30;
/// A side block that is further below the head than this is not taken, unless the best header chain
/// has it. A branch whose blocks are all further below the head is removed.
pub const SIDE_BLOCK_AGE_MAX: u64 = 32_768;
/// The most headers without bodies that are kept. A header that follows the rules has at most
/// [`EXTRA_DATA_BYTES_MAX`](crate::rules::EXTRA_DATA_BYTES_MAX) bytes of extra data, but for the
/// development network's. So these headers have at most 160 MiB.
pub const BARE_HEADERS_MAX: usize = 262_144;
/// The most canonical blocks that a reorganization may take back. With blocks every 13 seconds this
/// is half a month. Geth refuses the same (`params.FullImmutabilityThreshold`).
pub const REORG_DEPTH_MAX: u64 = 90_000;
/// With MESS, a branch that leaves the chain long ago needs more work only while the head is at
/// most so many seconds old: 30 blocks.
pub const MESS_HEAD_AGE_SECS_MAX: u64 = 390;
/// The most blocks that one transaction of a reorganization takes back or applies.
pub const REORG_PART_BLOCKS: usize = 256;
/// A transaction of a reorganization ends with the block that makes its rows longer than this.
pub const REORG_PART_BYTES: usize = 32 << 20;
/// From this depth on, a reorganization is announced in the log before it begins.
pub(super) const REORG_DEPTH_WARNED: u64 = 100;
/// The most headers of one transaction.
pub(super) const HEADERS_PER_COMMIT: usize = 2048;
/// Old branches are looked for whenever the head has passed this many blocks.
pub(super) const OLD_BRANCHES_INTERVAL: u64 = 256;
/// The most blocks and headers of old branches that one transaction removes.
pub(super) const OLD_BRANCHES_PART: usize = 1024;

/// Memory for the blocks that share a commit of an import, in bytes, if nothing else is asked for.
pub const BATCH_BYTES_DEFAULT: usize = 768 << 20;

/// The limits of the blocks beside the canonical chain, and of the depth of a reorganization.
#[derive(Clone, Debug)]
pub struct ForkLimits {
    /// The most side blocks. See [`SIDE_BLOCKS_MAX`].
    pub side_blocks_max: usize,
    /// The most bytes of their rows. See [`SIDE_BYTES_MAX`].
    pub side_bytes_max: u64,
    /// The greatest distance of a side block below the head. See [`SIDE_BLOCK_AGE_MAX`].
    pub side_block_age_max: u64,
    /// The most headers without bodies. See [`BARE_HEADERS_MAX`].
    pub bare_headers_max: usize,
    /// The most canonical blocks that a reorganization may take back; `None` for any number. See
    /// [`REORG_DEPTH_MAX`].
    pub reorg_depth_max: Option<u64>,
    /// The greatest age of the head with which MESS (ECBP-1100) counts, in seconds, such as
    /// [`MESS_HEAD_AGE_SECS_MAX`]; `None` if the heaviest chain always counts.
    pub mess_head_age_secs_max: Option<u64>,
    /// The most blocks of one transaction of a reorganization. See [`REORG_PART_BLOCKS`].
    pub reorg_part_blocks: usize,
    /// The most bytes of rows of such a transaction. See [`REORG_PART_BYTES`].
    pub reorg_part_bytes: usize,
}

impl Default for ForkLimits {
    fn default() -> Self {
        Self {
            side_blocks_max: SIDE_BLOCKS_MAX,
            side_bytes_max: SIDE_BYTES_MAX,
            side_block_age_max: SIDE_BLOCK_AGE_MAX,
            bare_headers_max: BARE_HEADERS_MAX,
            reorg_depth_max: Some(REORG_DEPTH_MAX),
            mess_head_age_secs_max: None,
            reorg_part_blocks: REORG_PART_BLOCKS,
            reorg_part_bytes: REORG_PART_BYTES,
        }
    }
}
