// The nonce search with one invocation for each hash. Every adapter can run this form.
//
// Entry point: search_lane. Bindings: those of search.wgsl.
// Must precede this file: search.wgsl and all files that must precede it, and mix_lane.wgsl.
// Rust twin: `ethash::LightCache::hash`.

@compute @workgroup_size(WORKGROUP_SIZE)
fn search_lane(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let offset = batch_offset(group, groups, local);
    if offset >= params.nonce_count {
        return;
    }
    let nonce = nonce_at(offset);
    let seed = seed_of(nonce);
    let mix_hash = mix_hash_of(seed);
    if may_be_hit(final_lane0(seed, mix_hash.low, mix_hash.high)) {
        report(nonce, mix_hash.low, mix_hash.high);
    }
}
