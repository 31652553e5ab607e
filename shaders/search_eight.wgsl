// The nonce search with eight invocations per hash: each holds one part of the mix
// and reads one part of an item, so that a group reads a whole 128-byte line at once.
// Keccak stays a hash per invocation, so a group has eight nonces to take.
//
// How many of them it takes at a time is in the file that follows: sweep_four.wgsl or
// sweep_eight.wgsl. How it exchanges values is in the one after that:
// exchange_subgroup.wgsl or exchange_workgroup.wgsl. An exchange is `offer`, after which
// anyone may take with `taken`; offers alternate between turns 0 and 1.
//
// Entry point: none; those of the exchanges call search_eight, which calls the sweeps'
// `compressed_mix`. Bindings: those of search.wgsl. Must precede it: search.wgsl and all that must
// precede that.
// Rust twin: `ethash::LightCache::hash`.

/// A lane's part of the mixes of four hashes.
struct Four {
    mix0: vec4<u32>,
    mix1: vec4<u32>,
    mix2: vec4<u32>,
    mix3: vec4<u32>,
    /// The word of each hash that selects its items, with the access and the mix.
    seed_words: vec4<u32>,
}

/// The same vector of the seeds of the four invocations from `owner` on.
struct SeedPart {
    of0: vec4<u32>,
    of1: vec4<u32>,
    of2: vec4<u32>,
    of3: vec4<u32>,
}

fn seed_part(own: vec4<u32>, place: u32, owner: u32, turn: u32) -> SeedPart {
    offer(own, place, turn);
    return SeedPart(
        taken(own, owner, turn),
        taken(own, owner + 1u, turn),
        taken(own, owner + 2u, turn),
        taken(own, owner + 3u, turn),
    );
}

/// The vector of a seed that lane `lane` starts its part of the mix with. Both halves
/// of the mix start as the seed, so lanes 4 to 7 repeat 0 to 3.
fn first_mix(w0: vec4<u32>, w1: vec4<u32>, w2: vec4<u32>, w3: vec4<u32>, lane: u32) -> vec4<u32> {
    let odd = (lane & 1u) != 0u;
    return select(select(w0, w1, odd), select(w2, w3, odd), (lane & 2u) != 0u);
}

/// What this lane holds of the hashes of the four invocations from `owner` on.
fn begin_four(seed: Words16, place: u32, owner: u32, lane: u32, turn: u32) -> Four {
    let w0 = seed_part(seed.w0, place, owner, turn);
    let w1 = seed_part(seed.w1, place, owner, turn ^ 1u);
    let w2 = seed_part(seed.w2, place, owner, turn);
    let w3 = seed_part(seed.w3, place, owner, turn ^ 1u);
    return Four(
        first_mix(w0.of0, w1.of0, w2.of0, w3.of0, lane),
        first_mix(w0.of1, w1.of1, w2.of1, w3.of1, lane),
        first_mix(w0.of2, w1.of2, w2.of2, w3.of2, lane),
        first_mix(w0.of3, w1.of3, w2.of3, w3.of3, lane),
        vec4(w0.of0.x, w0.of1.x, w0.of2.x, w0.of3.x),
    );
}

/// The items of one access of four hashes. `holder` is the invocation whose parts of the
/// mixes have the words that select, its `words`; everyone computes indices, and its count.
fn items_of_four(
    four: ptr<function, Four>,
    access: u32,
    words: vec4<u32>,
    place: u32,
    holder: u32,
    turn: u32,
) -> vec4<u32> {
    let own = fnv4(vec4(access) ^ (*four).seed_words, words) % vec4(DATASET_ITEMS);
    offer(own, place, turn);
    return taken(own, holder, turn);
}

/// This lane's parts of the items of four hashes.
struct Parts {
    of0: vec4<u32>,
    of1: vec4<u32>,
    of2: vec4<u32>,
    of3: vec4<u32>,
}

fn read_four(items: vec4<u32>, lane: u32) -> Parts {
    return Parts(
        dataset_part(items.x, lane),
        dataset_part(items.y, lane),
        dataset_part(items.z, lane),
        dataset_part(items.w, lane),
    );
}

fn mix_four(four: ptr<function, Four>, parts: Parts) {
    (*four).mix0 = fnv4((*four).mix0, parts.of0);
    (*four).mix1 = fnv4((*four).mix1, parts.of1);
    (*four).mix2 = fnv4((*four).mix2, parts.of2);
    (*four).mix3 = fnv4((*four).mix3, parts.of3);
}

/// The first, second, third and fourth words of this lane's parts, of the four hashes.
fn x_words(four: ptr<function, Four>) -> vec4<u32> {
    return vec4((*four).mix0.x, (*four).mix1.x, (*four).mix2.x, (*four).mix3.x);
}

fn y_words(four: ptr<function, Four>) -> vec4<u32> {
    return vec4((*four).mix0.y, (*four).mix1.y, (*four).mix2.y, (*four).mix3.y);
}

fn z_words(four: ptr<function, Four>) -> vec4<u32> {
    return vec4((*four).mix0.z, (*four).mix1.z, (*four).mix2.z, (*four).mix3.z);
}

fn w_words(four: ptr<function, Four>) -> vec4<u32> {
    return vec4((*four).mix0.w, (*four).mix1.w, (*four).mix2.w, (*four).mix3.w);
}

/// Component `which` of `v`, 0 to 3.
fn component(v: vec4<u32>, which: u32) -> u32 {
    let half = select(v.xy, v.zw, (which & 2u) != 0u);
    return select(half.x, half.y, (which & 1u) != 0u);
}

/// The eight words of a compressed mix.
struct MixHash {
    low: vec4<u32>,
    high: vec4<u32>,
}

/// The compressed mix of hash `which` of the four, of which each lane of the group from
/// `base` on holds a word.
fn gather(four: Four, which: u32, place: u32, base: u32, turn: u32) -> MixHash {
    let own = vec4(fnv_fold(four.mix0), fnv_fold(four.mix1), fnv_fold(four.mix2), fnv_fold(four.mix3));
    offer(own, place, turn);
    return MixHash(
        vec4(
            component(taken(own, base, turn), which),
            component(taken(own, base + 1u, turn), which),
            component(taken(own, base + 2u, turn), which),
            component(taken(own, base + 3u, turn), which),
        ),
        vec4(
            component(taken(own, base + 4u, turn), which),
            component(taken(own, base + 5u, turn), which),
            component(taken(own, base + 6u, turn), which),
            component(taken(own, base + 7u, turn), which),
        ),
    );
}

/// Searches the nonce `offset` of the batch. `place` is the invocation's number among
/// those it exchanges values with. Every invocation must call it: there is no early end.
fn search_eight(offset: u32, place: u32) {
    let nonce = nonce_at(offset);
    let seed = seed_of(nonce);
    let lane = place & 7u;
    let mix_hash = compressed_mix(seed, place, place - lane, lane);
    let lane0 = final_lane0(seed, mix_hash.low, mix_hash.high);
    if offset < job.nonce_count && may_be_hit(lane0) {
        report(nonce, mix_hash.low, mix_hash.high);
    }
}
