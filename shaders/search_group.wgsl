// The nonce search whose invocations exchange values through the memory of the workgroup.
//
// Entry point: search_group. Bindings: those of search.wgsl. Needs a workgroup size that is a
// multiple of eight.
// Must precede this file: search_cooperative.wgsl and all files that must precede it,
// exchange_workgroup.wgsl, and one of the mix files.
// Rust twin: `ethash::LightCache::hash`.

@compute @workgroup_size(WORKGROUP_SIZE)
fn search_group(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    search_cooperatively(batch_offset(group, groups, local), local);
}
