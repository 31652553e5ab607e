// The nonce search whose invocations exchange values within a subgroup.
//
// Entry point: search_shuffle. Bindings: those of search.wgsl.
// Must precede this file: search_cooperative.wgsl and all files that must precede it,
// exchange_subgroup.wgsl, and one of the mix files.
// Rust twin: `ethash::LightCache::hash`.

@compute @workgroup_size(WORKGROUP_SIZE)
fn search_shuffle(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
    @builtin(subgroup_invocation_id) subgroup_invocation: u32,
) {
    search_cooperatively(batch_offset(group, groups, local), subgroup_invocation);
}
