// The nonce search with eight invocations per hash: each holds one part of the mix
// and reads one part of an item, so that a group reads a whole 128-byte line at once.
// Keccak stays a hash per invocation: a group of eight takes its eight nonces in two
// sweeps of four, so that four independent reads are under way.
//
// Entry point: search_shuffle. Bindings: those of search.wgsl.
// Needs the feature SUBGROUP, subgroups of a multiple of eight invocations and a
// workgroup size that is a multiple of the subgroup size.
// Must precede it: search.wgsl and all that must precede that.
// Rust twin: `ethash::LightCache::hash`.

/// A lane's part of the mix of one hash, and the word that selects its items.
struct Share {
    mix: vec4<u32>,
    seed_word: u32,
}

/// What the lane `owner` of the subgroup gives this lane of its own seed.
fn share_of(seed: Words16, owner: u32, lane: u32) -> Share {
    // Both halves of the mix start as the seed, so lanes 4 to 7 repeat 0 to 3.
    let w0 = subgroupShuffle(seed.w0, owner);
    let w1 = subgroupShuffle(seed.w1, owner);
    let w2 = subgroupShuffle(seed.w2, owner);
    let w3 = subgroupShuffle(seed.w3, owner);
    let odd = (lane & 1u) != 0u;
    let mix = select(select(w0, w1, odd), select(w2, w3, odd), (lane & 2u) != 0u);
    return Share(mix, w0.x);
}

/// One access of one hash. `holder` is the lane whose part of the mix has the word that
/// selects; every lane computes an index, and that of the holder counts.
fn absorb_part(share: ptr<function, Share>, access: u32, word: u32, holder: u32, lane: u32) {
    let own = fnv(access ^ (*share).seed_word, word) % DATASET_ITEMS;
    let item = subgroupShuffle(own, holder);
    (*share).mix = fnv4((*share).mix, dataset_part(item, lane));
}

/// The eight words of a compressed mix, of which each lane of the group holds one.
struct MixHash {
    low: vec4<u32>,
    high: vec4<u32>,
}

fn gather(mix: vec4<u32>, group_base: u32) -> MixHash {
    let word = fnv_fold(mix);
    return MixHash(
        vec4(
            subgroupShuffle(word, group_base),
            subgroupShuffle(word, group_base + 1u),
            subgroupShuffle(word, group_base + 2u),
            subgroupShuffle(word, group_base + 3u),
        ),
        vec4(
            subgroupShuffle(word, group_base + 4u),
            subgroupShuffle(word, group_base + 5u),
            subgroupShuffle(word, group_base + 6u),
            subgroupShuffle(word, group_base + 7u),
        ),
    );
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn search_shuffle(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
    @builtin(subgroup_invocation_id) subgroup_lane: u32,
) {
    // No early return: all lanes of a group must take part in the shuffles.
    let offset = batch_offset(group, groups, local);
    let nonce = nonce_at(offset);
    let seed = seed_of(nonce);
    let lane = subgroup_lane & 7u;
    let base = subgroup_lane - lane;
    var mix_hash: MixHash;
    for (var sweep = 0u; sweep < 8u; sweep += 4u) {
        var s0 = share_of(seed, base + sweep, lane);
        var s1 = share_of(seed, base + sweep + 1u, lane);
        var s2 = share_of(seed, base + sweep + 2u, lane);
        var s3 = share_of(seed, base + sweep + 3u, lane);
        for (var i = 0u; i < ACCESSES; i += 4u) {
            let holder = base + ((i >> 2u) & 7u);
            absorb_part(&s0, i, s0.mix.x, holder, lane);
            absorb_part(&s1, i, s1.mix.x, holder, lane);
            absorb_part(&s2, i, s2.mix.x, holder, lane);
            absorb_part(&s3, i, s3.mix.x, holder, lane);
            absorb_part(&s0, i + 1u, s0.mix.y, holder, lane);
            absorb_part(&s1, i + 1u, s1.mix.y, holder, lane);
            absorb_part(&s2, i + 1u, s2.mix.y, holder, lane);
            absorb_part(&s3, i + 1u, s3.mix.y, holder, lane);
            absorb_part(&s0, i + 2u, s0.mix.z, holder, lane);
            absorb_part(&s1, i + 2u, s1.mix.z, holder, lane);
            absorb_part(&s2, i + 2u, s2.mix.z, holder, lane);
            absorb_part(&s3, i + 2u, s3.mix.z, holder, lane);
            absorb_part(&s0, i + 3u, s0.mix.w, holder, lane);
            absorb_part(&s1, i + 3u, s1.mix.w, holder, lane);
            absorb_part(&s2, i + 3u, s2.mix.w, holder, lane);
            absorb_part(&s3, i + 3u, s3.mix.w, holder, lane);
        }
        let m0 = gather(s0.mix, base);
        let m1 = gather(s1.mix, base);
        let m2 = gather(s2.mix, base);
        let m3 = gather(s3.mix, base);
        if lane == sweep { mix_hash = m0; }
        if lane == sweep + 1u { mix_hash = m1; }
        if lane == sweep + 2u { mix_hash = m2; }
        if lane == sweep + 3u { mix_hash = m3; }
    }
    let lane0 = final_lane0(seed, mix_hash.low, mix_hash.high);
    if offset < job.nonce_count && may_be_hit(lane0) {
        report(nonce, mix_hash.low, mix_hash.high);
    }
}
