// Mixes all eight hashes of a group of eight invocations at once. Each invocation has eight
// independent reads in flight. This takes twice as many registers as mix_four.wgsl.
//
// Entry point: none. `search_cooperatively` calls `compressed_mix`. Bindings: those of
// search.wgsl.
// Must precede this file: search_cooperative.wgsl and all files that must precede it.
// Rust twin: `ethash::LightCache::hash`.

/// Reads the items of one access of eight hashes, and then folds them into the mixes. All
/// reads begin before the first one is used.
fn absorb_eight(
    first: ptr<function, FourMixes>,
    second: ptr<function, FourMixes>,
    access: u32,
    first_words: vec4<u32>,
    second_words: vec4<u32>,
    invocation: u32,
    source: u32,
    lane: u32,
) {
    let first_items = select_items(first, access, first_words, invocation, source, 0u);
    let second_items = select_items(second, access, second_words, invocation, source, 1u);
    let first_parts = read_parts(first_items, lane);
    let second_parts = read_parts(second_items, lane);
    fold_parts(first, first_parts);
    fold_parts(second, second_parts);
}

/// Returns the compressed mix of the hash with this `seed`, which is this invocation's own.
/// `invocation` is the number of this invocation among those that exchange values. Its group
/// begins at invocation `base`, and `lane` is its number within the group.
fn compressed_mix(seed: Words16, invocation: u32, base: u32, lane: u32) -> MixHash {
    var first = start_mixes(seed, invocation, base, lane, 0u);
    var second = start_mixes(seed, invocation, base + 4u, lane, 0u);
    for (var i = 0u; i < ACCESSES; i += 4u) {
        let source = base + ((i >> 2u) & 7u);
        absorb_eight(&first, &second, i, x_words(&first), x_words(&second), invocation, source, lane);
        absorb_eight(&first, &second, i + 1u, y_words(&first), y_words(&second), invocation, source, lane);
        absorb_eight(&first, &second, i + 2u, z_words(&first), z_words(&second), invocation, source, lane);
        absorb_eight(&first, &second, i + 3u, w_words(&first), w_words(&second), invocation, source, lane);
    }
    var mix_hash = gather_mix_hash(first, lane & 3u, invocation, base, 0u);
    let gathered = gather_mix_hash(second, lane & 3u, invocation, base, 1u);
    if (lane & 4u) != 0u {
        mix_hash = gathered;
    }
    return mix_hash;
}
