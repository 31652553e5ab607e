// The exchange of search_eight.wgsl within a subgroup: values go from register to
// register, and whoever runs in step needs no barrier.
//
// Entry point: search_shuffle. Bindings: those of search.wgsl.
// Needs the feature SUBGROUP, subgroups of a multiple of eight invocations and a
// workgroup size that is a multiple of the subgroup size.
// Must precede it: search_eight.wgsl and all that must precede that.
// Rust twin: `ethash::LightCache::hash`.

/// Nothing is to be laid out: takers reach into the register itself.
fn offer(value: vec4<u32>, place: u32, turn: u32) {}

/// What invocation `owner` of the subgroup gives as its `value`.
fn taken(value: vec4<u32>, owner: u32, turn: u32) -> vec4<u32> {
    return subgroupShuffle(value, owner);
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn search_shuffle(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
    @builtin(subgroup_invocation_id) subgroup_lane: u32,
) {
    search_eight(batch_offset(group, groups, local), subgroup_lane);
}
