// The part that all forms of dataset generation share. Each invocation computes one 64-byte node,
// which is half an item, from the light cache. It writes the node into a page of the dataset. The
// next file decides who reads which row when: generate_whole.wgsl, generate_shuffle.wgsl or
// generate_sliced.wgsl.
//
// Entry point: none. Bindings:
//   group 0, binding 0: uniform params, 16 bytes
//   group 0, binding 1: uniform round_constants, 384 bytes (keccak.wgsl)
//   group 0, binding 2: storage page, 64 bytes per node, read and write
//   group 1: storage pages of the light cache, 64 bytes per row (rendered)
// Must precede this file: the rendered constants (DATASET_PARENTS), keccak.wgsl and what must
// precede it, fnv.wgsl, and the rendered pages of the light cache (cache_row).
// Rust twin: `ethash::LightCache::dataset_item`. The parameters are
// `GenerateParams` in miner/engine/src/gpu/params.rs.

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

/// Folds a row of the light cache into the mix.
fn absorb_row(mix: ptr<function, Words16>, row_number: u32) {
    let row = cache_row(row_number);
    (*mix).w0 = fnv4((*mix).w0, row.w0);
    (*mix).w1 = fnv4((*mix).w1, row.w1);
    (*mix).w2 = fnv4((*mix).w2, row.w2);
    (*mix).w3 = fnv4((*mix).w3, row.w3);
}

/// Returns the row of the parent that `selector` and `word`, a word of the mix, select.
fn parent_row(selector: u32, word: u32) -> u32 {
    return fnv(selector, word) % CACHE_ROWS;
}

/// Returns the first mix of a node.
fn first_mix(node: u32) -> Words16 {
    var mix = cache_row(node % CACHE_ROWS);
    mix.w0.x ^= node;
    keccak512_of_64(&mix);
    return mix;
}

/// Writes a node whose mix has all its parents.
fn finish_node(node: u32, last_mix: Words16) {
    var mix = last_mix;
    keccak512_of_64(&mix);
    let at = (node - params.page_first_node) * 4u;
    page[at] = mix.w0;
    page[at + 1u] = mix.w1;
    page[at + 2u] = mix.w2;
    page[at + 3u] = mix.w3;
}
