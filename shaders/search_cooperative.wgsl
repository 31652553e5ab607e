// The nonce search with eight invocations for each hash. Each invocation holds one part of
// the mix and reads one part of an item, so that a group of eight invocations reads a whole
// 128-byte item at once. Each invocation computes the Keccak steps for a hash of its own, so
// a group has eight hashes.
//
// The next file decides how many of these hashes are mixed at a time: mix_two.wgsl or
// mix_four.wgsl. Values are exchanged between invocations as exchange_four.wgsl
// says.
//
// Entry point: none. The entry points, search_shuffle.wgsl and search_group.wgsl, call
// `search_cooperatively`, which calls `compressed_mix` of the mix files. Bindings: those of
// search.wgsl.
// Must precede this file: search.wgsl and all files that must precede it, and exchange_four.wgsl.
// Rust twin: `ethash::LightCache::hash`.

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
