// Dataset generation in which every invocation reads any row of the light cache at any time.
//
// Entry point: generate_dataset. Bindings: those of dataset.wgsl.
// Must precede this file: dataset.wgsl and all files that must precede it.
// Rust twin: `ethash::LightCache::dataset_item`.

/// Folds one parent into the mix. `selector` and `word`, a word of the mix, select it.
fn absorb_parent(mix: ptr<function, Words16>, selector: u32, word: u32) {
    absorb_row(mix, parent_row(selector, word));
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn generate_dataset(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let offset = (group.y * groups.x + group.x) * WORKGROUP_SIZE + local;
    if offset >= params.node_count {
        return;
    }
    let node = params.first_node + offset;
    var mix = first_mix(node);
    // Each iteration folds in sixteen parents. Each parent is selected by another word of
    // the mix, and the index of that word must be a constant.
    for (var p = 0u; p < DATASET_PARENTS; p += 16u) {
        absorb_parent(&mix, node ^ p, mix.w0.x);
        absorb_parent(&mix, node ^ (p + 1u), mix.w0.y);
        absorb_parent(&mix, node ^ (p + 2u), mix.w0.z);
        absorb_parent(&mix, node ^ (p + 3u), mix.w0.w);
        absorb_parent(&mix, node ^ (p + 4u), mix.w1.x);
        absorb_parent(&mix, node ^ (p + 5u), mix.w1.y);
        absorb_parent(&mix, node ^ (p + 6u), mix.w1.z);
        absorb_parent(&mix, node ^ (p + 7u), mix.w1.w);
        absorb_parent(&mix, node ^ (p + 8u), mix.w2.x);
        absorb_parent(&mix, node ^ (p + 9u), mix.w2.y);
        absorb_parent(&mix, node ^ (p + 10u), mix.w2.z);
        absorb_parent(&mix, node ^ (p + 11u), mix.w2.w);
        absorb_parent(&mix, node ^ (p + 12u), mix.w3.x);
        absorb_parent(&mix, node ^ (p + 13u), mix.w3.y);
        absorb_parent(&mix, node ^ (p + 14u), mix.w3.z);
        absorb_parent(&mix, node ^ (p + 15u), mix.w3.w);
    }
    finish_node(node, mix);
}
