// Mixes the eight hashes of a group of eight invocations in two rounds of four hashes. Each
// invocation has four independent reads in flight.
//
// Entry point: none. `search_cooperatively` calls `compressed_mix`. Bindings: those of
// search.wgsl.
// Must precede this file: search_cooperative.wgsl and all files that must precede it.
// Rust twin: `ethash::LightCache::hash`.

/// The parts of four mixes that one invocation holds. A part has four words.
struct FourMixes {
    mix0: vec4<u32>,
    mix1: vec4<u32>,
    mix2: vec4<u32>,
    mix3: vec4<u32>,
    /// The first seed word of each hash. It takes part in the selection of every item.
    seed_words: vec4<u32>,
}

/// Starts the mixes of the hashes of the four invocations from `source` on, and returns the
/// parts that lane `lane` holds.
fn start_four(seed: Words16, invocation: u32, source: u32, lane: u32, parity: u32) -> FourMixes {
    let w0 = exchange_four(seed.w0, invocation, source, parity);
    let w1 = exchange_four(seed.w1, invocation, source, parity ^ 1u);
    let w2 = exchange_four(seed.w2, invocation, source, parity);
    let w3 = exchange_four(seed.w3, invocation, source, parity ^ 1u);
    return FourMixes(
        part_of_lane(w0.v0, w1.v0, w2.v0, w3.v0, lane),
        part_of_lane(w0.v1, w1.v1, w2.v1, w3.v1, lane),
        part_of_lane(w0.v2, w1.v2, w2.v2, w3.v2, lane),
        part_of_lane(w0.v3, w1.v3, w2.v3, w3.v3, lane),
        vec4(w0.v0.x, w0.v1.x, w0.v2.x, w0.v3.x),
    );
}

/// Reads the items of one access of four hashes and folds them into the mixes. Invocation `source`
/// holds the mix words that select them, as its `words`. Every invocation computes indices, but
/// only those of `source` are used.
fn absorb_four(
    mixes: ptr<function, FourMixes>,
    access: u32,
    words: vec4<u32>,
    invocation: u32,
    source: u32,
    lane: u32,
    parity: u32,
) {
    let own = fnv4(vec4(access) ^ (*mixes).seed_words, words) % vec4(DATASET_ITEMS);
    publish(own, invocation, parity);
    let items = value_of(own, source, parity);
    // All reads begin before the first one is used.
    let part0 = dataset_part(items.x, lane);
    let part1 = dataset_part(items.y, lane);
    let part2 = dataset_part(items.z, lane);
    let part3 = dataset_part(items.w, lane);
    (*mixes).mix0 = fnv4((*mixes).mix0, part0);
    (*mixes).mix1 = fnv4((*mixes).mix1, part1);
    (*mixes).mix2 = fnv4((*mixes).mix2, part2);
    (*mixes).mix3 = fnv4((*mixes).mix3, part3);
}

/// The next four functions return the first, second, third and fourth word of the part that
/// this lane holds, for each of the four mixes.
fn x_words(mixes: ptr<function, FourMixes>) -> vec4<u32> {
    return vec4((*mixes).mix0.x, (*mixes).mix1.x, (*mixes).mix2.x, (*mixes).mix3.x);
}

fn y_words(mixes: ptr<function, FourMixes>) -> vec4<u32> {
    return vec4((*mixes).mix0.y, (*mixes).mix1.y, (*mixes).mix2.y, (*mixes).mix3.y);
}

fn z_words(mixes: ptr<function, FourMixes>) -> vec4<u32> {
    return vec4((*mixes).mix0.z, (*mixes).mix1.z, (*mixes).mix2.z, (*mixes).mix3.z);
}

fn w_words(mixes: ptr<function, FourMixes>) -> vec4<u32> {
    return vec4((*mixes).mix0.w, (*mixes).mix1.w, (*mixes).mix2.w, (*mixes).mix3.w);
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
        var four = start_four(seed, invocation, base + first, lane, parity);
        for (var i = 0u; i < ACCESSES; i += 4u) {
            let source = base + ((i >> 2u) & 7u);
            absorb_four(&four, i, x_words(&four), invocation, source, lane, parity);
            absorb_four(&four, i + 1u, y_words(&four), invocation, source, lane, parity ^ 1u);
            absorb_four(&four, i + 2u, z_words(&four), invocation, source, lane, parity);
            absorb_four(&four, i + 3u, w_words(&four), invocation, source, lane, parity ^ 1u);
        }
        let own = vec4(fnv_fold(four.mix0), fnv_fold(four.mix1), fnv_fold(four.mix2), fnv_fold(four.mix3));
        let gathered = gather_words(own, lane & 3u, invocation, base, parity);
        if (lane & 4u) == first {
            mix_hash = gathered;
        }
    }
    return mix_hash;
}
