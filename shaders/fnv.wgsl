// FNV, the mixing function of Ethash: (a * prime) xor b, modulo 2^32. This is not FNV-1a.
//
// Entry point: none. Bindings: none.
// Must precede this file: the rendered constants (FNV_PRIME).
// Rust twin: `fnv` in miner/ethash/src/arith.rs.

fn fnv(a: u32, b: u32) -> u32 {
    return (a * FNV_PRIME) ^ b;
}

/// FNV of four independent pairs of words.
fn fnv4(a: vec4<u32>, b: vec4<u32>) -> vec4<u32> {
    return (a * vec4(FNV_PRIME)) ^ b;
}

/// Folds four words into one, from left to right. The result is one word of the
/// compressed mix.
fn fnv_fold(v: vec4<u32>) -> u32 {
    return fnv(fnv(fnv(v.x, v.y), v.z), v.w);
}
