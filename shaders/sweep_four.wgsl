// Eight hashes of a group of eight invocations in two sweeps of four: four independent
// reads are under way for each invocation.
//
// Entry point: none; search_eight calls `compressed_mix`. Must precede it: search_eight.wgsl and
// all that must precede that. Rust twin: `ethash::LightCache::hash`.

/// One access of four hashes.
fn absorb_four(
    four: ptr<function, Four>,
    access: u32,
    words: vec4<u32>,
    place: u32,
    holder: u32,
    lane: u32,
    turn: u32,
) {
    let items = items_of_four(four, access, words, place, holder, turn);
    let parts = read_four(items, lane);
    mix_four(four, parts);
}

/// The compressed mix of this invocation's own hash, by its `seed`. `place` is its number
/// among those it exchanges values with, `lane` that within its group, which begins at `base`.
fn compressed_mix(seed: Words16, place: u32, base: u32, lane: u32) -> MixHash {
    var mix_hash: MixHash;
    for (var first = 0u; first < 8u; first += 4u) {
        // A sweep has an odd number of offers, so the second begins with the other turn.
        let turn = (first >> 2u) & 1u;
        var four = begin_four(seed, place, base + first, lane, turn);
        for (var i = 0u; i < ACCESSES; i += 4u) {
            let holder = base + ((i >> 2u) & 7u);
            absorb_four(&four, i, x_words(&four), place, holder, lane, turn);
            absorb_four(&four, i + 1u, y_words(&four), place, holder, lane, turn ^ 1u);
            absorb_four(&four, i + 2u, z_words(&four), place, holder, lane, turn);
            absorb_four(&four, i + 3u, w_words(&four), place, holder, lane, turn ^ 1u);
        }
        let found = gather(four, lane & 3u, place, base, turn);
        if (lane & 4u) == first {
            mix_hash = found;
        }
    }
    return mix_hash;
}
