// Mixes the eight hashes of a group of eight invocations in two rounds of four hashes. Each
// invocation has four independent reads in flight.
//
// Entry point: none. `search_cooperatively` calls `compressed_mix`. Bindings: those of
// search.wgsl.
// Must precede this file: search_cooperative.wgsl and all files that must precede it.
// Rust twin: `ethash::LightCache::hash`.

/// Reads the items of one access of four hashes and folds them into the mixes.
fn absorb_four(
    mixes: ptr<function, FourMixes>,
    access: u32,
    words: vec4<u32>,
    invocation: u32,
    source: u32,
    lane: u32,
    parity: u32,
) {
    let items = select_items(mixes, access, words, invocation, source, parity);
    let parts = read_parts(items, lane);
    fold_parts(mixes, parts);
}

/// Returns the compressed mix of the hash with this `seed`, which is this invocation's own.
/// `invocation` is the number of this invocation among those that exchange values. Its group
/// begins at invocation `base`, and `lane` is its number within the group.
fn compressed_mix(seed: Words16, invocation: u32, base: u32, lane: u32) -> MixHash {
    var mix_hash: MixHash;
    for (var first = 0u; first < 8u; first += 4u) {
        // A round calls `publish` an odd number of times, so the second round begins with the
        // other parity.
        let parity = (first >> 2u) & 1u;
        var four = start_mixes(seed, invocation, base + first, lane, parity);
        for (var i = 0u; i < ACCESSES; i += 4u) {
            let source = base + ((i >> 2u) & 7u);
            absorb_four(&four, i, x_words(&four), invocation, source, lane, parity);
            absorb_four(&four, i + 1u, y_words(&four), invocation, source, lane, parity ^ 1u);
            absorb_four(&four, i + 2u, z_words(&four), invocation, source, lane, parity);
            absorb_four(&four, i + 3u, w_words(&four), invocation, source, lane, parity ^ 1u);
        }
        let gathered = gather_mix_hash(four, lane & 3u, invocation, base, parity);
        if (lane & 4u) == first {
            mix_hash = gathered;
        }
    }
    return mix_hash;
}
