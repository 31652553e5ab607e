// FNV, the mixing function of Ethash: a * prime xor b, modulo 2^32 (not FNV-1a).
//
// Entry point: none. Bindings: none.
// Must precede it: the rendered constants (FNV_PRIME).
// Rust twin: `ethash::fnv`.

fn fnv(a: u32, b: u32) -> u32 {
    return (a * FNV_PRIME) ^ b;
}

/// Four independent words at once.
fn fnv4(a: vec4<u32>, b: vec4<u32>) -> vec4<u32> {
    return (a * vec4(FNV_PRIME)) ^ b;
}

/// Four words into one, from left to right: a word of the compressed mix.
fn fnv_fold(v: vec4<u32>) -> u32 {
    return fnv(fnv(fnv(v.x, v.y), v.z), v.w);
}
