// Exchanges values between the invocations of a subgroup, from register to register.
//
// All invocations of a subgroup run in step, so no barrier is necessary.
//
// Entry point: search_shuffle. Bindings: those of search.wgsl.
// Needs the feature SUBGROUP, a subgroup size that is a multiple of eight, and a workgroup
// size that is a multiple of the subgroup size.
// Must precede this file: search_cooperative.wgsl and all files that must precede it.
// Rust twin: `ethash::LightCache::hash`.

/// Does nothing. `value_of` reads the register of the other invocation directly.
fn publish(value: vec4<u32>, invocation: u32, parity: u32) {}

/// Returns the argument `value` of invocation `source` of the subgroup.
fn value_of(value: vec4<u32>, source: u32, parity: u32) -> vec4<u32> {
    return subgroupShuffle(value, source);
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn search_shuffle(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
    @builtin(subgroup_invocation_id) subgroup_invocation: u32,
) {
    search_cooperatively(batch_offset(group, groups, local), subgroup_invocation);
}
