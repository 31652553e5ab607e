// The exchange of search_eight.wgsl through the memory of the workgroup, for adapters
// without subgroups.
//
// Entry point: search_group. Bindings: those of search.wgsl, and 32 bytes of workgroup
// memory per invocation. Needs a workgroup size that is a multiple of eight.
// Must precede it: search_eight.wgsl and all that must precede that.
// Rust twin: `ethash::LightCache::hash`.

/// Two shelves, so that one barrier per offer is enough: a shelf is filled again only
/// after the barrier of the offer between, which nobody passes before having taken.
var<workgroup> even_shelf: array<vec4<u32>, WORKGROUP_SIZE>;
var<workgroup> odd_shelf: array<vec4<u32>, WORKGROUP_SIZE>;

/// Lays `value` on the shelf of this turn, and waits until everyone has.
fn offer(value: vec4<u32>, place: u32, turn: u32) {
    if turn == 0u {
        even_shelf[place] = value;
    } else {
        odd_shelf[place] = value;
    }
    workgroupBarrier();
}

/// What invocation `owner` of the workgroup has offered this turn.
fn taken(value: vec4<u32>, owner: u32, turn: u32) -> vec4<u32> {
    if turn == 0u {
        return even_shelf[owner];
    }
    return odd_shelf[owner];
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn search_group(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    search_eight(batch_offset(group, groups, local), local);
}
