// Mixes the eight hashes of a group of eight invocations in four rounds of two hashes. Each
// invocation has two independent reads in flight. This takes the fewest registers, so the most
// subgroups fit a multiprocessor at once.
//
// Entry point: none. `search_cooperatively` calls `compressed_mix`. Bindings: those of
// search.wgsl.
// Must precede this file: search_cooperative.wgsl and all files that must precede it.
// Rust twin: `ethash::LightCache::hash`.

/// The parts of two mixes that one invocation holds. A part has four words.
struct TwoMixes {
    mix0: vec4<u32>,
    mix1: vec4<u32>,
    /// The first seed word of each hash. It takes part in the selection of every item.
    seed_words: vec2<u32>,
}

/// One vector from each of two consecutive invocations.
struct TwoVectors {
    v0: vec4<u32>,
    v1: vec4<u32>,
}

/// Publishes `own` and returns the values of invocation `source` and of the next one.
fn exchange_two(own: vec4<u32>, invocation: u32, source: u32, parity: u32) -> TwoVectors {
    publish(own, invocation, parity);
    return TwoVectors(value_of(own, source, parity), value_of(own, source + 1u, parity));
}

/// Starts the mixes of the hashes of invocation `source` and of the next one, and returns the
/// parts that lane `lane` holds.
fn start_two(seed: Words16, invocation: u32, source: u32, lane: u32, parity: u32) -> TwoMixes {
    let w0 = exchange_two(seed.w0, invocation, source, parity);
    let w1 = exchange_two(seed.w1, invocation, source, parity ^ 1u);
    let w2 = exchange_two(seed.w2, invocation, source, parity);
    let w3 = exchange_two(seed.w3, invocation, source, parity ^ 1u);
    return TwoMixes(
        part_of_lane(w0.v0, w1.v0, w2.v0, w3.v0, lane),
        part_of_lane(w0.v1, w1.v1, w2.v1, w3.v1, lane),
        vec2(w0.v0.x, w0.v1.x),
    );
}

/// Reads the items of one access of two hashes and folds them into the mixes. Invocation
/// `source` holds the mix words that select them, as its `words`.
fn absorb_two(
    mixes: ptr<function, TwoMixes>,
    access: u32,
    words: vec2<u32>,
    invocation: u32,
    source: u32,
    lane: u32,
    parity: u32,
) {
    let selectors = vec2(access) ^ (*mixes).seed_words;
    let indices = ((selectors * vec2(FNV_PRIME)) ^ words) % vec2(DATASET_ITEMS);
    let own = vec4(indices, 0u, 0u);
    publish(own, invocation, parity);
    let items = value_of(own, source, parity).xy;
    let part0 = dataset_part(items.x, lane);
    let part1 = dataset_part(items.y, lane);
    (*mixes).mix0 = fnv4((*mixes).mix0, part0);
    (*mixes).mix1 = fnv4((*mixes).mix1, part1);
}

/// Returns the compressed mix of the hash with this `seed`, which is this invocation's own.
/// `invocation` is the number of this invocation among those that exchange values. Its group
/// begins at invocation `base`, and `lane` is its number within the group.
fn compressed_mix(seed: Words16, invocation: u32, base: u32, lane: u32) -> MixHash {
    var mix_hash: MixHash;
    for (var first = 0u; first < 8u; first += 2u) {
        // A round calls `publish` an odd number of times, so the next round begins with the
        // other parity.
        let parity = (first >> 1u) & 1u;
        var two = start_two(seed, invocation, base + first, lane, parity);
        for (var i = 0u; i < ACCESSES; i += 4u) {
            let source = base + ((i >> 2u) & 7u);
            absorb_two(&two, i, vec2(two.mix0.x, two.mix1.x), invocation, source, lane, parity);
            absorb_two(&two, i + 1u, vec2(two.mix0.y, two.mix1.y), invocation, source, lane, parity ^ 1u);
            absorb_two(&two, i + 2u, vec2(two.mix0.z, two.mix1.z), invocation, source, lane, parity);
            absorb_two(&two, i + 3u, vec2(two.mix0.w, two.mix1.w), invocation, source, lane, parity ^ 1u);
        }
        let own = vec4(fnv_fold(two.mix0), fnv_fold(two.mix1), 0u, 0u);
        let gathered = gather_words(own, lane & 1u, invocation, base, parity);
        if (lane & 6u) == first {
            mix_hash = gathered;
        }
    }
    return mix_hash;
}
