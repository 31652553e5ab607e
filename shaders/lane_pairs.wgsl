// A 64-bit lane of Keccak as a vec2<u32> with the low word in x. Every adapter can compute with
// these lanes, because 64-bit integers are an optional feature.
//
// Entry point: none. Bindings: none.
// Must precede this file: nothing.
// Rust twin: the 64-bit lanes of `ethash::keccak512`.

alias Lane = vec2<u32>;

/// Returns the lane with these words, low word first.
fn lane_of(words: vec2<u32>) -> Lane {
    return words;
}

/// Returns the words of a lane, low word first.
fn words_of(lane: Lane) -> vec2<u32> {
    return lane;
}

/// Rotates a lane left by n bits, 0 < n < 32.
fn rotl(v: Lane, n: u32) -> Lane {
    return (v << vec2(n)) | (v.yx >> vec2(32u - n));
}

/// Rotates a lane left by 32 + n bits, 0 < n < 32.
fn rotl_swapped(v: Lane, n: u32) -> Lane {
    return rotl(v.yx, n);
}
