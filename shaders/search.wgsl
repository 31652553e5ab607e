// The parts that all forms of the nonce search share: the parameters, the results, and the two
// Keccak steps before and after the dataset reads. The forms are in search_lane.wgsl (one
// invocation for each hash) and search_cooperative.wgsl (eight invocations for each hash).
//
// Entry point: none. Bindings:
//   group 0, binding 0: uniform params, 64 bytes
//   group 0, binding 1: uniform round_constants, 384 bytes (keccak.wgsl)
//   group 0, binding 2: storage results, 16 bytes + 48 bytes per slot, read and write
//   group 1: storage pages of the dataset, 128 bytes per item (rendered)
// Must precede this file: the rendered constants (ACCESSES), keccak.wgsl and what must precede
// it, fnv.wgsl and the rendered pages of the dataset (dataset_item for search_lane.wgsl,
// dataset_part for search_cooperative.wgsl).
// Rust twin: `ethash::LightCache::hash`. Parameters and results are `SearchParams`,
// `SearchResultsHeader` and `SearchHit` in miner/engine/src/gpu/params.rs.

struct SearchParams {
    header_low: vec4<u32>,
    header_high: vec4<u32>,
    /// The nonce of the first invocation, low word first.
    start_nonce: vec2<u32>,
    /// The top 64 bits of the boundary, low word first. The kernel compares only these.
    boundary_top: vec2<u32>,
    nonce_count: u32,
    unused_0: u32,
    unused_1: u32,
    unused_2: u32,
}

struct SearchHit {
    mix_low: vec4<u32>,
    mix_high: vec4<u32>,
    nonce: vec2<u32>,
    unused: vec2<u32>,
}

struct SearchResults {
    /// The number of hits. Hits without a free slot are counted too.
    found: atomic<u32>,
    unused_0: u32,
    unused_1: u32,
    unused_2: u32,
    hits: array<SearchHit>,
}

@group(0) @binding(0) var<uniform> params: SearchParams;
@group(0) @binding(2) var<storage, read_write> results: SearchResults;

/// Items in the dataset. As this is a constant, the compiler turns the modulo operation into
/// a multiplication.
override DATASET_ITEMS: u32;
override WORKGROUP_SIZE: u32 = 64u;

/// Returns the number of this invocation within the batch.
fn batch_offset(group: vec3<u32>, groups: vec3<u32>, local: u32) -> u32 {
    return (group.y * groups.x + group.x) * WORKGROUP_SIZE + local;
}

/// Returns the start nonce plus `offset`, with the carry into the high word.
fn nonce_at(offset: u32) -> vec2<u32> {
    let low = params.start_nonce.x + offset;
    return vec2(low, params.start_nonce.y + select(0u, 1u, low < offset));
}

/// Returns the seed of the mix: Keccak-512 of the header hash and the nonce.
fn seed_of(nonce: vec2<u32>) -> Words16 {
    var a: Lanes;
    a[0] = params.header_low.xy;
    a[1] = params.header_low.zw;
    a[2] = params.header_high.xy;
    a[3] = params.header_high.zw;
    a[4] = nonce;
    // The input has 40 bytes and the rate 72, so the padding begins in lane 5 and ends in
    // lane 8.
    a[5] = vec2(0x00000001u, 0u);
    a[8] = vec2(0u, 0x80000000u);
    return keccak_words16(&a);
}

/// Returns the first lane of Keccak-256 of the seed and the compressed mix.
fn final_lane0(seed: Words16, mix_low: vec4<u32>, mix_high: vec4<u32>) -> vec2<u32> {
    var a: Lanes;
    a[0] = seed.w0.xy;
    a[1] = seed.w0.zw;
    a[2] = seed.w1.xy;
    a[3] = seed.w1.zw;
    a[4] = seed.w2.xy;
    a[5] = seed.w2.zw;
    a[6] = seed.w3.xy;
    a[7] = seed.w3.zw;
    a[8] = mix_low.xy;
    a[9] = mix_low.zw;
    a[10] = mix_high.xy;
    a[11] = mix_high.zw;
    // The input has 96 bytes and the rate 136, so the padding begins in lane 12 and ends in
    // lane 16.
    a[12] = vec2(0x00000001u, 0u);
    a[16] = vec2(0u, 0x80000000u);
    return keccak_lane0(&a);
}

fn byte_swap(v: u32) -> u32 {
    return (v << 24u) | ((v & 0xff00u) << 8u) | ((v >> 8u) & 0xff00u) | (v >> 24u);
}

/// Whether a hash with the first lane `lane0` may be at or below the boundary. The host
/// compares the other 192 bits. The hash is a big-endian number, and its lanes are
/// little-endian.
fn may_be_hit(lane0: vec2<u32>) -> bool {
    let high = byte_swap(lane0.x);
    let low = byte_swap(lane0.y);
    return high < params.boundary_top.y
        || (high == params.boundary_top.y && low <= params.boundary_top.x);
}

/// Counts a hit and stores it if a slot is free.
fn report(nonce: vec2<u32>, mix_low: vec4<u32>, mix_high: vec4<u32>) {
    let slot = atomicAdd(&results.found, 1u);
    if slot < arrayLength(&results.hits) {
        results.hits[slot] = SearchHit(mix_low, mix_high, nonce, vec2(0u));
    }
}
