//! The 64-byte row of the light cache, which is also the half of a dataset item and of a mix.

use crate::ROW_WORDS;

/// One row of the light cache, or half a dataset item: a cache line of 16 little-endian words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(64))]
pub(crate) struct CacheRow(pub(crate) [u32; ROW_WORDS]);

impl CacheRow {
    pub(crate) const ZERO: Self = Self([0; ROW_WORDS]);

    /// The row as eight 64-bit lanes of Keccak.
    #[inline(always)]
    pub(crate) fn lanes(&self) -> [u64; 8] {
        let mut lanes = [0; 8];
        for (lane, [low, high]) in lanes.iter_mut().zip(self.0.as_chunks::<2>().0) {
            *lane = u64::from(*low) | u64::from(*high) << 32;
        }
        lanes
    }

    /// The row whose bytes are those of `lanes`.
    #[inline(always)]
    pub(crate) fn from_lanes(lanes: &[u64; 8]) -> Self {
        let mut words = [0; ROW_WORDS];
        for ([low, high], lane) in words.as_chunks_mut::<2>().0.iter_mut().zip(lanes) {
            (*low, *high) = (*lane as u32, (*lane >> 32) as u32);
        }
        Self(words)
    }
}
