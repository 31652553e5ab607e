// The exchange of values among four invocations side by side.
//
// Each invocation calls `publish` with a value of its own, and then `value_of` for the value of
// any other. Consecutive calls of `publish` must alternate between parity 0 and parity 1. The two
// functions are those of exchange_subgroup.wgsl or of exchange_workgroup.wgsl.
//
// Entry point: none. Bindings: none.
// Must precede this file: an exchange file.
// Rust twin: none.

/// One vector from each of four consecutive invocations.
struct FourVectors {
    v0: vec4<u32>,
    v1: vec4<u32>,
    v2: vec4<u32>,
    v3: vec4<u32>,
}

/// Publishes `own` and returns the values of the four invocations from `source` on.
fn exchange_four(own: vec4<u32>, invocation: u32, source: u32, parity: u32) -> FourVectors {
    publish(own, invocation, parity);
    return FourVectors(
        value_of(own, source, parity),
        value_of(own, source + 1u, parity),
        value_of(own, source + 2u, parity),
        value_of(own, source + 3u, parity),
    );
}

/// Returns part `lane & 3` of the 64 bytes of which `w0` to `w3` are the four parts. Both halves of
/// a mix begin as the seed, so lanes 4 to 7 of a search begin like lanes 0 to 3.
fn part_of_lane(w0: vec4<u32>, w1: vec4<u32>, w2: vec4<u32>, w3: vec4<u32>, lane: u32) -> vec4<u32> {
    let odd = (lane & 1u) != 0u;
    return select(select(w0, w1, odd), select(w2, w3, odd), (lane & 2u) != 0u);
}
