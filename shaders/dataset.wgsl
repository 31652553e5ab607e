// Dataset generation: one invocation computes one 64-byte node, half an item,
// from the light cache, and writes it into the page under construction.
//
// Entry point: generate_dataset. Bindings:
//   group 0, binding 0: uniform slice, 16 bytes
//   group 0, binding 1: uniform round_constants, 384 bytes (keccak.wgsl)
//   group 0, binding 2: storage page, 16 bytes x 4 per node, read and write
//   group 1: storage pages of the light cache, 64 bytes per row (rendered)
// Must precede it: the rendered constants, keccak.wgsl, fnv.wgsl and the rendered
// cache pages (cache_row).
// Rust twin: `ethash::LightCache::dataset_item`; the slice is `gpu::layout::Slice`.

/// The nodes of one dispatch. They all lie in the page that is bound.
struct Slice {
    first_node: u32,
    node_count: u32,
    /// The number of the page's first node, so that page offsets start at zero.
    page_first_node: u32,
    unused: u32,
}

@group(0) @binding(0) var<uniform> slice: Slice;
@group(0) @binding(2) var<storage, read_write> page: array<vec4<u32>>;

/// Rows in the light cache. A constant, so that the modulus becomes a multiplication.
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
    // Padding begins and ends within the last of the rate's nine lanes.
    a[8] = vec2(0x00000001u, 0x80000000u);
    *words = keccak_words16(&a);
}

/// Folds one parent into the mix: the row that `word` of the mix and the number select.
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
    if offset >= slice.node_count {
        return;
    }
    let node = slice.first_node + offset;
    var mix = cache_row(node % CACHE_ROWS);
    mix.w0.x ^= node;
    keccak512_of_64(&mix);
    // Sixteen parents a turn: each is selected by the next word of the mix, and a
    // word's place in the mix must be a constant.
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
    let at = (node - slice.page_first_node) * 4u;
    page[at] = mix.w0;
    page[at + 1u] = mix.w1;
    page[at + 2u] = mix.w2;
    page[at + 3u] = mix.w3;
}
