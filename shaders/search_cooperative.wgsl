// The nonce search with eight invocations for each hash. Each invocation holds one part of
// the mix and reads one part of an item, so that a group of eight invocations reads a whole
// 128-byte item at once. Each invocation computes the Keccak steps for a hash of its own, so
// a group has eight hashes.
//
// The next file decides how many of these hashes are mixed at a time: mix_two.wgsl,
// mix_four.wgsl or mix_eight.wgsl. Values are exchanged between invocations as exchange_four.wgsl
// says.
//
// Entry point: none. The entry points, search_shuffle.wgsl and search_group.wgsl, call
// `search_cooperatively`, which calls `compressed_mix` of the mix files. Bindings: those of
// search.wgsl.
// Must precede this file: search.wgsl and all files that must precede it, and exchange_four.wgsl.
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
fn start_mixes(seed: Words16, invocation: u32, source: u32, lane: u32, parity: u32) -> FourMixes {
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

/// Returns the items that four hashes read in access number `access`. Invocation `source`
/// holds the mix words that select them, as its `words`. Every invocation computes indices,
/// but only those of `source` are used.
fn select_items(
    mixes: ptr<function, FourMixes>,
    access: u32,
    words: vec4<u32>,
    invocation: u32,
    source: u32,
    parity: u32,
) -> vec4<u32> {
    let own = fnv4(vec4(access) ^ (*mixes).seed_words, words) % vec4(DATASET_ITEMS);
    publish(own, invocation, parity);
    return value_of(own, source, parity);
}

/// The parts of the items of four hashes that one lane reads.
struct FourParts {
    v0: vec4<u32>,
    v1: vec4<u32>,
    v2: vec4<u32>,
    v3: vec4<u32>,
}

fn read_parts(items: vec4<u32>, lane: u32) -> FourParts {
    return FourParts(
        dataset_part(items.x, lane),
        dataset_part(items.y, lane),
        dataset_part(items.z, lane),
        dataset_part(items.w, lane),
    );
}

/// Folds one part of an item into each of four mixes.
fn fold_parts(mixes: ptr<function, FourMixes>, parts: FourParts) {
    (*mixes).mix0 = fnv4((*mixes).mix0, parts.v0);
    (*mixes).mix1 = fnv4((*mixes).mix1, parts.v1);
    (*mixes).mix2 = fnv4((*mixes).mix2, parts.v2);
    (*mixes).mix3 = fnv4((*mixes).mix3, parts.v3);
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

/// Returns component `which` of `v`, 0 to 3.
fn component(v: vec4<u32>, which: u32) -> u32 {
    let half = select(v.xy, v.zw, (which & 2u) != 0u);
    return select(half.x, half.y, (which & 1u) != 0u);
}

/// The eight words of a compressed mix.
struct MixHash {
    low: vec4<u32>,
    high: vec4<u32>,
}

/// Returns the compressed mix of hash `which`. Each lane of the group that begins at invocation
/// `base` holds one of its words: component `which` of its `own`.
fn gather_words(own: vec4<u32>, which: u32, invocation: u32, base: u32, parity: u32) -> MixHash {
    publish(own, invocation, parity);
    return MixHash(
        vec4(
            component(value_of(own, base, parity), which),
            component(value_of(own, base + 1u, parity), which),
            component(value_of(own, base + 2u, parity), which),
            component(value_of(own, base + 3u, parity), which),
        ),
        vec4(
            component(value_of(own, base + 4u, parity), which),
            component(value_of(own, base + 5u, parity), which),
            component(value_of(own, base + 6u, parity), which),
            component(value_of(own, base + 7u, parity), which),
        ),
    );
}

/// Returns the compressed mix of hash `which` of the four.
fn gather_mix_hash(mixes: FourMixes, which: u32, invocation: u32, base: u32, parity: u32) -> MixHash {
    let own = vec4(fnv_fold(mixes.mix0), fnv_fold(mixes.mix1), fnv_fold(mixes.mix2), fnv_fold(mixes.mix3));
    return gather_words(own, which, invocation, base, parity);
}

/// Tries nonce number `offset` of the batch. `invocation` is the number of this invocation
/// among those that exchange values. Every invocation must call this function, even beyond
/// the end of the batch, because the others need its values.
fn search_cooperatively(offset: u32, invocation: u32) {
    let nonce = nonce_at(offset);
    let seed = seed_of(nonce);
    let lane = invocation & 7u;
    let mix_hash = compressed_mix(seed, invocation, invocation - lane, lane);
    let lane0 = final_lane0(seed, mix_hash.low, mix_hash.high);
    if offset < params.nonce_count && may_be_hit(lane0) {
        report(nonce, mix_hash.low, mix_hash.high);
    }
}
