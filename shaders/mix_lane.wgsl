// The mix of one hash in one invocation. Every adapter can run this.
//
// Entry point: none. search_lane.wgsl and mix_seeds.wgsl call `mix_hash_of`. Bindings: the pages of
// the dataset, group 1.
// Must precede this file: the rendered constants (ACCESSES), keccak.wgsl and what must precede it,
// fnv.wgsl, the rendered pages of the dataset (dataset_item), and what declares DATASET_ITEMS.
// Rust twin: `ethash::LightCache::hash`.

/// The mix, as the eight parts of an item.
alias Mix = array<vec4<u32>, 8>;

/// Returns word `word` of the mix, 0 to 31. All invocations pass the same `word`. The word is
/// selected and not indexed, because an index that is not a constant would move the mix out
/// of the registers.
fn mix_word(mix: ptr<function, Mix>, word: u32) -> u32 {
    let odd = (word & 4u) != 0u;
    let p01 = select((*mix)[0], (*mix)[1], odd);
    let p23 = select((*mix)[2], (*mix)[3], odd);
    let p45 = select((*mix)[4], (*mix)[5], odd);
    let p67 = select((*mix)[6], (*mix)[7], odd);
    let second = (word & 8u) != 0u;
    let part = select(select(p01, p23, second), select(p45, p67, second), (word & 16u) != 0u);
    let half = select(part.xy, part.zw, (word & 2u) != 0u);
    return select(half.x, half.y, (word & 1u) != 0u);
}

/// Folds one dataset item into the mix. `selector` and `word`, a word of the mix, select it.
fn absorb_item(mix: ptr<function, Mix>, selector: u32, word: u32) {
    let item = dataset_item(fnv(selector, word) % DATASET_ITEMS);
    (*mix)[0] = fnv4((*mix)[0], item.p0);
    (*mix)[1] = fnv4((*mix)[1], item.p1);
    (*mix)[2] = fnv4((*mix)[2], item.p2);
    (*mix)[3] = fnv4((*mix)[3], item.p3);
    (*mix)[4] = fnv4((*mix)[4], item.p4);
    (*mix)[5] = fnv4((*mix)[5], item.p5);
    (*mix)[6] = fnv4((*mix)[6], item.p6);
    (*mix)[7] = fnv4((*mix)[7], item.p7);
}

/// The eight words of a compressed mix.
struct MixHash {
    low: vec4<u32>,
    high: vec4<u32>,
}

/// Returns the compressed mix of the hash with this `seed`.
fn mix_hash_of(seed: Words16) -> MixHash {
    var mix = Mix(
        seed.w0, seed.w1, seed.w2, seed.w3,
        seed.w0, seed.w1, seed.w2, seed.w3,
    );
    let seed_word = seed.w0.x;
    // The loop is not unrolled: with many page choices the kernel would take seconds to
    // compile.
    for (var i = 0u; i < ACCESSES; i++) {
        absorb_item(&mix, i ^ seed_word, mix_word(&mix, i & 31u));
    }
    return MixHash(
        vec4(fnv_fold(mix[0]), fnv_fold(mix[1]), fnv_fold(mix[2]), fnv_fold(mix[3])),
        vec4(fnv_fold(mix[4]), fnv_fold(mix[5]), fnv_fold(mix[6]), fnv_fold(mix[7])),
    );
}
