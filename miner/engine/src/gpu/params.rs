//! The structures that the host and the kernels share, byte for byte.
//!
//! Each structure has a WGSL structure of the same name. Their sizes are checked at compile time.

use bytemuck::{Pod, Zeroable};
use ethash::B256;

/// One batch of nonces (`SearchParams` in shaders/search.wgsl).
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub(crate) struct SearchParams {
    header: [u8; 32],
    /// Low word first, like all 64-bit numbers here.
    start_nonce: [u32; 2],
    boundary_top: [u32; 2],
    nonce_count: u32,
    unused: [u32; 3],
}
const _: () = assert!(size_of::<SearchParams>() == 64);

impl SearchParams {
    pub(crate) fn new(header: &B256, boundary: &B256, start_nonce: u64, nonce_count: u32) -> Self {
        Self {
            header: header.0,
            start_nonce: split(start_nonce),
            boundary_top: split(boundary_top(boundary)),
            nonce_count,
            unused: [0; 3],
        }
    }
}

/// Returns the top 64 bits of a boundary. The kernels compare only these.
pub(crate) fn boundary_top(boundary: &B256) -> u64 {
    let mut top = [0; 8];
    top.copy_from_slice(&boundary[..8]);
    u64::from_be_bytes(top)
}

const fn split(value: u64) -> [u32; 2] {
    [value as u32, (value >> 32) as u32]
}

/// The first bytes of the result buffer (`SearchResults` in shaders/search.wgsl).
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub(crate) struct SearchResultsHeader {
    /// The number of hits, including hits without a free slot.
    pub(crate) found: u32,
    unused: [u32; 3],
}
const _: () = assert!(size_of::<SearchResultsHeader>() == 16);

/// One hit (`SearchHit` in shaders/search.wgsl).
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub(crate) struct SearchHit {
    pub(crate) mix_hash: [u8; 32],
    nonce: [u32; 2],
    unused: [u32; 2],
}
const _: () = assert!(size_of::<SearchHit>() == 48);

impl SearchHit {
    pub(crate) fn nonce(&self) -> u64 {
        u64::from(self.nonce[0]) | u64::from(self.nonce[1]) << 32
    }
}

/// Nodes to generate (`GenerateParams` in shaders/dataset.wgsl).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
pub(crate) struct GenerateParams {
    pub(crate) first_node: u32,
    pub(crate) node_count: u32,
    pub(crate) page_first_node: u32,
    pub(crate) unused: u32,
}
const _: () = assert!(size_of::<GenerateParams>() == 16);

/// Seeds of one dispatch (`SeedParams` in `shaders/mix_seeds.wgsl`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
pub(crate) struct SeedParams {
    pub(crate) count: u32,
    pub(crate) unused: [u32; 3],
}
const _: () = assert!(size_of::<SeedParams>() == 16);

/// Random reads of one dispatch (`ReadParams` in `shaders/random_reads.wgsl`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
pub(crate) struct ReadParams {
    pub(crate) first_reader: u32,
    pub(crate) seed: u32,
    pub(crate) never: [u32; 2],
}
const _: () = assert!(size_of::<ReadParams>() == 16);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_split_low_word_first() {
        let mut boundary = B256::ZERO;
        boundary.0[..8].copy_from_slice(&[1, 2, 3, 4, 5, 6, 7, 8]);
        let params = SearchParams::new(&B256::ZERO, &boundary, 0x1122_3344_5566_7788, 5);
        assert_eq!(params.boundary_top, [0x0506_0708, 0x0102_0304]);
        assert_eq!(params.start_nonce, [0x5566_7788, 0x1122_3344]);
        let hit = SearchHit {
            nonce: params.start_nonce,
            ..Zeroable::zeroed()
        };
        assert_eq!(hit.nonce(), 0x1122_3344_5566_7788);
    }
}
