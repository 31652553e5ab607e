// Dataset generation in which four invocations read each row of the light cache together.
//
// Each invocation computes the Keccak steps of a node of its own. Between them, an invocation holds
// one part of the mixes of all four nodes of its group, and reads that part of each parent. So a
// row of 64 bytes is one access of the memory and not four, and each invocation has four
// independent reads in flight.
//
// Entry point: generate_shuffle. Bindings: those of dataset.wgsl.
// Needs a workgroup size that is a multiple of the subgroup size.
// Must precede this file: dataset.wgsl and all files that must precede it, exchange_subgroup.wgsl,
// exchange_four.wgsl, and the rendered function that reads a part of a row (cache_part).
// Rust twin: `ethash::LightCache::dataset_item`.

/// Of four nodes of four parts each, `own` is the node of this invocation. Returns this
/// invocation's part of every node. Applied to parts, it returns the node.
fn transposed(own: Words16, invocation: u32, base: u32, lane: u32) -> Words16 {
    let w0 = exchange_four(own.w0, invocation, base, 0u);
    let w1 = exchange_four(own.w1, invocation, base, 1u);
    let w2 = exchange_four(own.w2, invocation, base, 0u);
    let w3 = exchange_four(own.w3, invocation, base, 1u);
    return Words16(
        part_of_lane(w0.v0, w1.v0, w2.v0, w3.v0, lane),
        part_of_lane(w0.v1, w1.v1, w2.v1, w3.v1, lane),
        part_of_lane(w0.v2, w1.v2, w2.v2, w3.v2, lane),
        part_of_lane(w0.v3, w1.v3, w2.v3, w3.v3, lane),
    );
}

/// The four invocations of a group, and the nodes that they compute.
struct NodeGroup {
    nodes: vec4<u32>,
    invocation: u32,
    /// The first invocation of the group.
    base: u32,
    /// The number of this invocation within the group.
    lane: u32,
}

/// Folds parent number `parent` into the mixes of four nodes. Lane `source` of the group holds the
/// words of the mixes that select it, as its `words`. Every lane computes rows, but only those of
/// `source` are used.
fn absorb_parents(parts: ptr<function, Words16>, group: NodeGroup, parent: u32, words: vec4<u32>, source: u32) {
    let own = fnv4(group.nodes ^ vec4(parent), words) % vec4(CACHE_ROWS);
    publish(own, group.invocation, parent & 1u);
    let rows = value_of(own, group.base + source, parent & 1u);
    let read0 = cache_part(rows.x, group.lane);
    let read1 = cache_part(rows.y, group.lane);
    let read2 = cache_part(rows.z, group.lane);
    let read3 = cache_part(rows.w, group.lane);
    (*parts).w0 = fnv4((*parts).w0, read0);
    (*parts).w1 = fnv4((*parts).w1, read1);
    (*parts).w2 = fnv4((*parts).w2, read2);
    (*parts).w3 = fnv4((*parts).w3, read3);
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn generate_shuffle(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
    @builtin(subgroup_invocation_id) invocation: u32,
) {
    let offset = (workgroup.y * workgroups.x + workgroup.x) * WORKGROUP_SIZE + local;
    // An invocation beyond the end takes part with a node that nobody writes, because the others
    // need its reads.
    let node = params.first_node + offset;
    let lane = invocation & 3u;
    let base = invocation - lane;
    let numbers = exchange_four(vec4(node), invocation, base, 1u);
    let nodes = vec4(numbers.v0.x, numbers.v1.x, numbers.v2.x, numbers.v3.x);
    let group = NodeGroup(nodes, invocation, base, lane);
    var parts = transposed(first_mix(node), invocation, base, lane);
    // Each iteration folds in the four parents that the words of one lane select.
    for (var p = 0u; p < DATASET_PARENTS; p += 4u) {
        let source = (p >> 2u) & 3u;
        absorb_parents(&parts, group, p, vec4(parts.w0.x, parts.w1.x, parts.w2.x, parts.w3.x), source);
        absorb_parents(&parts, group, p + 1u, vec4(parts.w0.y, parts.w1.y, parts.w2.y, parts.w3.y), source);
        absorb_parents(&parts, group, p + 2u, vec4(parts.w0.z, parts.w1.z, parts.w2.z, parts.w3.z), source);
        absorb_parents(&parts, group, p + 3u, vec4(parts.w0.w, parts.w1.w, parts.w2.w, parts.w3.w), source);
    }
    let mix = transposed(parts, invocation, base, lane);
    if offset < params.node_count {
        finish_node(node, mix);
    }
}
