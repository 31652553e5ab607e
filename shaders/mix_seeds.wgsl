// The mix hashes of given seeds, one invocation for each. With them the processor checks many
// seals: it has computed the seeds, and knows the claimed mix hashes, which no kernel sees.
//
// Entry point: mix_seeds. Bindings:
//   group 0, binding 0: uniform params, 16 bytes
//   group 0, binding 2: storage seeds, 64 bytes for each, read and write. The mix hash of a seed
//     takes the place of its first 32 bytes
//   group 1: storage pages of the dataset, 128 bytes per item (rendered)
// Must precede this file: mix_lane.wgsl and all files that must precede it, but for DATASET_ITEMS,
// which is here.
// Rust twin: `ethash::verify_seals`. The parameters are `SeedParams` in
// miner/engine/src/gpu/params.rs.

struct SeedParams {
    count: u32,
    unused_0: u32,
    unused_1: u32,
    unused_2: u32,
}

@group(0) @binding(0) var<uniform> params: SeedParams;
@group(0) @binding(2) var<storage, read_write> seeds: array<vec4<u32>>;

/// Items in the dataset.
override DATASET_ITEMS: u32;
override WORKGROUP_SIZE: u32 = 64u;

@compute @workgroup_size(WORKGROUP_SIZE)
fn mix_seeds(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let index = (group.y * groups.x + group.x) * WORKGROUP_SIZE + local;
    if index >= params.count {
        return;
    }
    let at = index * 4u;
    let mix_hash = mix_hash_of(Words16(seeds[at], seeds[at + 1u], seeds[at + 2u], seeds[at + 3u]));
    seeds[at] = mix_hash.low;
    seeds[at + 1u] = mix_hash.high;
}
