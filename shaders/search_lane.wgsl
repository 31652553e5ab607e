// The nonce search with a hash per invocation: the form that every adapter can run.
//
// Entry point: search_lane. Bindings: those of search.wgsl.
// Must precede it: search.wgsl and all that must precede that.
// Rust twin: `ethash::LightCache::hash`.

/// The mix, as the eight parts of an item.
alias Mix = array<vec4<u32>, 8>;

/// Word `word` of the mix, 0 to 31. Selected rather than indexed: an index that is not
/// a constant would push the mix out of the registers. `word` is the same for all.
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

/// Reads the item that `word` selects and folds it into the mix.
fn absorb_item(mix: ptr<function, Mix>, selector: u32, word: u32) {
    let line = dataset_line(fnv(selector, word) % DATASET_ITEMS);
    (*mix)[0] = fnv4((*mix)[0], line.p0);
    (*mix)[1] = fnv4((*mix)[1], line.p1);
    (*mix)[2] = fnv4((*mix)[2], line.p2);
    (*mix)[3] = fnv4((*mix)[3], line.p3);
    (*mix)[4] = fnv4((*mix)[4], line.p4);
    (*mix)[5] = fnv4((*mix)[5], line.p5);
    (*mix)[6] = fnv4((*mix)[6], line.p6);
    (*mix)[7] = fnv4((*mix)[7], line.p7);
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn search_lane(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let offset = batch_offset(group, groups, local);
    if offset >= job.nonce_count {
        return;
    }
    let nonce = nonce_at(offset);
    let seed = seed_of(nonce);
    var mix = Mix(
        seed.w0, seed.w1, seed.w2, seed.w3,
        seed.w0, seed.w1, seed.w2, seed.w3,
    );
    let seed_word = seed.w0.x;
    // One access per turn: unrolled, the page choices would make a kernel that takes
    // seconds to compile.
    for (var i = 0u; i < ACCESSES; i++) {
        absorb_item(&mix, i ^ seed_word, mix_word(&mix, i & 31u));
    }
    let mix_low = vec4(
        fnv_fold(mix[0]), fnv_fold(mix[1]), fnv_fold(mix[2]), fnv_fold(mix[3]),
    );
    let mix_high = vec4(
        fnv_fold(mix[4]), fnv_fold(mix[5]), fnv_fold(mix[6]), fnv_fold(mix[7]),
    );
    if may_be_hit(final_lane0(seed, mix_low, mix_high)) {
        report(nonce, mix_low, mix_high);
    }
}
