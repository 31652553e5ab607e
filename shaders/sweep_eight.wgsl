// All eight hashes of a group of eight invocations at once: eight independent reads are
// under way for each invocation, for twice the registers of sweep_four.wgsl.
//
// Entry point: none; search_eight calls `compressed_mix`. Must precede it: search_eight.wgsl and
// all that must precede that. Rust twin: `ethash::LightCache::hash`.

/// One access of eight hashes: all of it is read before any of it is mixed in.
fn absorb_eight(
    first: ptr<function, Four>,
    second: ptr<function, Four>,
    access: u32,
    first_words: vec4<u32>,
    second_words: vec4<u32>,
    place: u32,
    holder: u32,
    lane: u32,
) {
    let first_items = items_of_four(first, access, first_words, place, holder, 0u);
    let second_items = items_of_four(second, access, second_words, place, holder, 1u);
    let first_parts = read_four(first_items, lane);
    let second_parts = read_four(second_items, lane);
    mix_four(first, first_parts);
    mix_four(second, second_parts);
}

/// The compressed mix of this invocation's own hash, by its `seed`. `place` is its number
/// among those it exchanges values with, `lane` that within its group, which begins at `base`.
fn compressed_mix(seed: Words16, place: u32, base: u32, lane: u32) -> MixHash {
    var first = begin_four(seed, place, base, lane, 0u);
    var second = begin_four(seed, place, base + 4u, lane, 0u);
    for (var i = 0u; i < ACCESSES; i += 4u) {
        let holder = base + ((i >> 2u) & 7u);
        absorb_eight(&first, &second, i, x_words(&first), x_words(&second), place, holder, lane);
        absorb_eight(&first, &second, i + 1u, y_words(&first), y_words(&second), place, holder, lane);
        absorb_eight(&first, &second, i + 2u, z_words(&first), z_words(&second), place, holder, lane);
        absorb_eight(&first, &second, i + 3u, w_words(&first), w_words(&second), place, holder, lane);
    }
    var mix_hash = gather(first, lane & 3u, place, base, 0u);
    let found = gather(second, lane & 3u, place, base, 1u);
    if (lane & 4u) != 0u {
        mix_hash = found;
    }
    return mix_hash;
}
