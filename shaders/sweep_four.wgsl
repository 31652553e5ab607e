// Eight hashes of a group of eight invocations in two sweeps of four: four independent
// reads are under way for each invocation.
//
// Entry point: none; those of the exchanges call search_eight. Must precede it:
// search_eight.wgsl and all that must precede that. Rust twin: `ethash::LightCache::hash`.

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

/// Searches the nonce `offset` of the batch. `place` is the invocation's number among
/// those it exchanges values with. Every invocation must call it: there is no early end.
fn search_eight(offset: u32, place: u32) {
    let nonce = nonce_at(offset);
    let seed = seed_of(nonce);
    let lane = place & 7u;
    let base = place - lane;
    var mix_hash: MixHash;
    for (var sweep = 0u; sweep < 8u; sweep += 4u) {
        // A sweep has an odd number of offers, so the second begins with the other turn.
        let turn = (sweep >> 2u) & 1u;
        var four = begin_four(seed, place, base + sweep, lane, turn);
        for (var i = 0u; i < ACCESSES; i += 4u) {
            let holder = base + ((i >> 2u) & 7u);
            absorb_four(&four, i, x_words(&four), place, holder, lane, turn);
            absorb_four(&four, i + 1u, y_words(&four), place, holder, lane, turn ^ 1u);
            absorb_four(&four, i + 2u, z_words(&four), place, holder, lane, turn);
            absorb_four(&four, i + 3u, w_words(&four), place, holder, lane, turn ^ 1u);
        }
        let found = gather(four, lane & 3u, place, base, turn);
        if (lane & 4u) == sweep {
            mix_hash = found;
        }
    }
    end_search(offset, nonce, seed, mix_hash);
}
