// A 64-bit lane of Keccak as a 64-bit integer.
//
// Entry point: none. Bindings: none. Needs the feature SHADER_INT64.
// Must precede this file: nothing.
// Rust twin: the 64-bit lanes of `ethash::keccak512`.

alias Lane = u64;

/// Returns the lane with these words, low word first.
fn lane_of(words: vec2<u32>) -> Lane {
    return u64(words.x) | (u64(words.y) << 32u);
}

/// Returns the words of a lane, low word first.
fn words_of(lane: Lane) -> vec2<u32> {
    return vec2(u32(lane), u32(lane >> 32u));
}

/// Rotates a lane left by n bits, 0 < n < 32.
fn rotl(v: Lane, n: u32) -> Lane {
    return (v << n) | (v >> (64u - n));
}

/// Rotates a lane left by 32 + n bits, 0 < n < 32.
fn rotl_swapped(v: Lane, n: u32) -> Lane {
    return (v << (32u + n)) | (v >> (32u - n));
}
