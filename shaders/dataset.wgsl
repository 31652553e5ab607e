// Dataset generation. Each invocation computes one 64-byte node, which is half an item,
// from the light cache. It writes the node into a page of the dataset.
//
// Entry point: generate_dataset. Bindings:
//   group 0, binding 0: uniform params, 16 bytes
//   group 0, binding 1: uniform round_constants, 384 bytes (keccak.wgsl)
//   group 0, binding 2: storage page, 64 bytes per node, read and write
//   group 1: storage pages of the light cache, 64 bytes per row (rendered)
// Must precede this file: the rendered constants (DATASET_PARENTS), keccak.wgsl, fnv.wgsl
// and the rendered pages of the light cache (cache_row).
// Rust twin: `ethash::LightCache::dataset_item`. The parameters are
// `GenerateParams` in miner/src/gpu/params.rs.

/// The nodes of one dispatch. All of them are in the page that is bound.
struct GenerateParams {
    first_node: u32,
    node_count: u32,
    /// The first node of the page. Offsets within the page count from this node.
    page_first_node: u32,
    unused: u32,
}

@group(0) @binding(0) var<uniform> params: GenerateParams;
@group(0) @binding(2) var<storage, read_write> page: array<vec4<u32>>;

/// Rows in the light cache. As this is a constant, the compiler turns the modulo operation
/// into a multiplication.
override CACHE_ROWS: u32;
override WORKGROUP_SIZE: u32 = 64u;

/// Keccak-512 of 64 bytes, in place.
fn keccak512_of_64(words: ptr<function, Words16>) {
    var a: Lanes;
    a[0] = (*words).w0.xy;
    a[1] = (*words).w0.zw;
    a[2] = (*words).w1.xy;
    a[3] = (*words).w1.zw;
    a[4] = (*words).w2.xy;
    a[5] = (*words).w2.zw;
    a[6] = (*words).w3.xy;
    a[7] = (*words).w3.zw;
    // The rate has nine lanes. The padding begins and ends in the last of them.
    a[8] = vec2(0x00000001u, 0x80000000u);
    *words = keccak_words16(&a);
}

/// Folds one parent into the mix. The parent is the cache row that `selector` and `word`,
/// a word of the mix, select.
fn absorb_parent(mix: ptr<function, Words16>, selector: u32, word: u32) {
    let row = cache_row(fnv(selector, word) % CACHE_ROWS);
    (*mix).w0 = fnv4((*mix).w0, row.w0);
    (*mix).w1 = fnv4((*mix).w1, row.w1);
    (*mix).w2 = fnv4((*mix).w2, row.w2);
    (*mix).w3 = fnv4((*mix).w3, row.w3);
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
    var mix = cache_row(node % CACHE_ROWS);
    mix.w0.x ^= node;
    keccak512_of_64(&mix);
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
    keccak512_of_64(&mix);
    let at = (node - params.page_first_node) * 4u;
    page[at] = mix.w0;
    page[at + 1u] = mix.w1;
    page[at + 2u] = mix.w2;
    page[at + 3u] = mix.w3;
}
