// What every form of the nonce search shares: the job, the results, and the two
// Keccak steps around the dataset reads. The forms themselves are search_lane.wgsl
// (a hash per invocation) and search_eight.wgsl (eight invocations per hash).
//
// Entry point: none. Bindings:
//   group 0, binding 0: uniform job, 64 bytes
//   group 0, binding 1: uniform round_constants, 384 bytes (keccak.wgsl)
//   group 0, binding 2: storage results, 16 bytes + 48 bytes a slot, read and write
//   group 1: storage pages of the dataset, 128 bytes per item (rendered)
// Must precede it: the rendered constants, keccak.wgsl, fnv.wgsl and the rendered
// dataset pages (dataset_line, dataset_part).
// Rust twin: `ethash::LightCache::hash`; job and results are `gpu::layout::Job` and
// `gpu::layout::Hit`.

struct Job {
    header_low: vec4<u32>,
    header_high: vec4<u32>,
    /// The nonce of the first invocation, low word first.
    start_nonce: vec2<u32>,
    /// The top 64 bits of the boundary, low word first. Only these are tested here.
    boundary_top: vec2<u32>,
    nonce_count: u32,
    unused_0: u32,
    unused_1: u32,
    unused_2: u32,
}

struct Hit {
    mix_low: vec4<u32>,
    mix_high: vec4<u32>,
    nonce: vec2<u32>,
    unused: vec2<u32>,
}

struct Results {
    /// Every hit is counted, also those for which no slot is left.
    found: atomic<u32>,
    unused_0: u32,
    unused_1: u32,
    unused_2: u32,
    hits: array<Hit>,
}

@group(0) @binding(0) var<uniform> job: Job;
@group(0) @binding(2) var<storage, read_write> results: Results;

/// Items in the dataset. A constant, so that the modulus becomes a multiplication.
override DATASET_ITEMS: u32;
override WORKGROUP_SIZE: u32 = 64u;

/// The number of this invocation within the batch.
fn batch_offset(group: vec3<u32>, groups: vec3<u32>, local: u32) -> u32 {
    return (group.y * groups.x + group.x) * WORKGROUP_SIZE + local;
}

/// The job's start nonce plus `offset`, with the carry into the high word.
fn nonce_at(offset: u32) -> vec2<u32> {
    let low = job.start_nonce.x + offset;
    return vec2(low, job.start_nonce.y + select(0u, 1u, low < offset));
}

/// Keccak-512 of the header hash and the nonce: the seed of the mix.
fn seed_of(nonce: vec2<u32>) -> Words16 {
    var a: Lanes;
    a[0] = job.header_low.xy;
    a[1] = job.header_low.zw;
    a[2] = job.header_high.xy;
    a[3] = job.header_high.zw;
    a[4] = nonce;
    // 40 bytes of 72: padding begins in lane 5 and ends in lane 8.
    a[5] = vec2(0x00000001u, 0u);
    a[8] = vec2(0u, 0x80000000u);
    return keccak_words16(&a);
}

/// The first lane of Keccak-256 of the seed and the compressed mix.
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
    // 96 bytes of 136: padding begins in lane 12 and ends in lane 16.
    a[12] = vec2(0x00000001u, 0u);
    a[16] = vec2(0u, 0x80000000u);
    return keccak_lane0(&a);
}

fn byte_swap(v: u32) -> u32 {
    return (v << 24u) | ((v & 0xff00u) << 8u) | ((v >> 8u) & 0xff00u) | (v >> 24u);
}

/// Whether a hash whose first lane this is may lie at or below the boundary. The
/// hash is a big-endian number, its lanes are little-endian. The host compares the
/// other 192 bits.
fn may_be_hit(lane0: vec2<u32>) -> bool {
    let high = byte_swap(lane0.x);
    let low = byte_swap(lane0.y);
    return high < job.boundary_top.y
        || (high == job.boundary_top.y && low <= job.boundary_top.x);
}

fn report(nonce: vec2<u32>, mix_low: vec4<u32>, mix_high: vec4<u32>) {
    let slot = atomicAdd(&results.found, 1u);
    if slot < arrayLength(&results.hits) {
        results.hits[slot] = Hit(mix_low, mix_high, nonce, vec2(0u));
    }
}
