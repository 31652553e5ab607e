// Keccak-f[1600], the permutation of Keccak-256 and Keccak-512. Ethash uses both hashes.
//
// Lane (x, y) has index x + 5y. All indices are constants, so that compilers keep the lanes
// in registers.
//
// Entry point: none. Bindings:
//   group 0, binding 1: uniform round_constants, 24 x 16 bytes (the lane in x and y).
// Must precede this file: the rendered constants (ROUNDS).
// Rust twin: `ethash::keccak512` and `ethash::keccak256`. The round constants come from
// `ethash::KECCAK_ROUND_CONSTANTS`.

/// A 64-bit lane with the low word in x. 64-bit integers are an optional feature, and no card
/// shifts them at full rate.
alias Lane = vec2<u32>;
alias Lanes = array<Lane, 25>;

/// Rotates a lane left by n bits, 0 < n < 32.
fn rotl(v: Lane, n: u32) -> Lane {
    return (v << vec2(n)) | (v.yx >> vec2(32u - n));
}

/// Rotates a lane left by 32 + n bits, 0 < n < 32.
fn rotl_swapped(v: Lane, n: u32) -> Lane {
    return rotl(v.yx, n);
}

/// The first eight lanes as 16 words. They are the whole output of a 512-bit hash.
struct Words16 {
    w0: vec4<u32>,
    w1: vec4<u32>,
    w2: vec4<u32>,
    w3: vec4<u32>,
}

@group(0) @binding(1) var<uniform> round_constants: array<vec4<u32>, ROUNDS>;

/// The constant of a round.
fn round_constant(round: u32) -> Lane {
    return round_constants[round].xy;
}

/// The value that step theta adds to each of the five columns.
struct Theta {
    d0: Lane,
    d1: Lane,
    d2: Lane,
    d3: Lane,
    d4: Lane,
}

fn keccak_theta(a: ptr<function, Lanes>) -> Theta {
    let c0 = (*a)[0] ^ (*a)[5] ^ (*a)[10] ^ (*a)[15] ^ (*a)[20];
    let c1 = (*a)[1] ^ (*a)[6] ^ (*a)[11] ^ (*a)[16] ^ (*a)[21];
    let c2 = (*a)[2] ^ (*a)[7] ^ (*a)[12] ^ (*a)[17] ^ (*a)[22];
    let c3 = (*a)[3] ^ (*a)[8] ^ (*a)[13] ^ (*a)[18] ^ (*a)[23];
    let c4 = (*a)[4] ^ (*a)[9] ^ (*a)[14] ^ (*a)[19] ^ (*a)[24];
    return Theta(
        c4 ^ rotl(c1, 1u),
        c0 ^ rotl(c2, 1u),
        c1 ^ rotl(c3, 1u),
        c2 ^ rotl(c4, 1u),
        c3 ^ rotl(c0, 1u),
    );
}

/// One complete round.
fn keccak_round(a: ptr<function, Lanes>, round: u32) {
    let t = keccak_theta(a);
    let b0 = (*a)[0] ^ t.d0;
    let b1 = rotl_swapped((*a)[6] ^ t.d1, 12u);
    let b2 = rotl_swapped((*a)[12] ^ t.d2, 11u);
    let b3 = rotl((*a)[18] ^ t.d3, 21u);
    let b4 = rotl((*a)[24] ^ t.d4, 14u);
    let b5 = rotl((*a)[3] ^ t.d3, 28u);
    let b6 = rotl((*a)[9] ^ t.d4, 20u);
    let b7 = rotl((*a)[10] ^ t.d0, 3u);
    let b8 = rotl_swapped((*a)[16] ^ t.d1, 13u);
    let b9 = rotl_swapped((*a)[22] ^ t.d2, 29u);
    let b10 = rotl((*a)[1] ^ t.d1, 1u);
    let b11 = rotl((*a)[7] ^ t.d2, 6u);
    let b12 = rotl((*a)[13] ^ t.d3, 25u);
    let b13 = rotl((*a)[19] ^ t.d4, 8u);
    let b14 = rotl((*a)[20] ^ t.d0, 18u);
    let b15 = rotl((*a)[4] ^ t.d4, 27u);
    let b16 = rotl_swapped((*a)[5] ^ t.d0, 4u);
    let b17 = rotl((*a)[11] ^ t.d1, 10u);
    let b18 = rotl((*a)[17] ^ t.d2, 15u);
    let b19 = rotl_swapped((*a)[23] ^ t.d3, 24u);
    let b20 = rotl_swapped((*a)[2] ^ t.d2, 30u);
    let b21 = rotl_swapped((*a)[8] ^ t.d3, 23u);
    let b22 = rotl_swapped((*a)[14] ^ t.d4, 7u);
    let b23 = rotl_swapped((*a)[15] ^ t.d0, 9u);
    let b24 = rotl((*a)[21] ^ t.d1, 2u);
    (*a)[0] = b0 ^ (~b1 & b2) ^ round_constant(round);
    (*a)[1] = b1 ^ (~b2 & b3);
    (*a)[2] = b2 ^ (~b3 & b4);
    (*a)[3] = b3 ^ (~b4 & b0);
    (*a)[4] = b4 ^ (~b0 & b1);
    (*a)[5] = b5 ^ (~b6 & b7);
    (*a)[6] = b6 ^ (~b7 & b8);
    (*a)[7] = b7 ^ (~b8 & b9);
    (*a)[8] = b8 ^ (~b9 & b5);
    (*a)[9] = b9 ^ (~b5 & b6);
    (*a)[10] = b10 ^ (~b11 & b12);
    (*a)[11] = b11 ^ (~b12 & b13);
    (*a)[12] = b12 ^ (~b13 & b14);
    (*a)[13] = b13 ^ (~b14 & b10);
    (*a)[14] = b14 ^ (~b10 & b11);
    (*a)[15] = b15 ^ (~b16 & b17);
    (*a)[16] = b16 ^ (~b17 & b18);
    (*a)[17] = b17 ^ (~b18 & b19);
    (*a)[18] = b18 ^ (~b19 & b15);
    (*a)[19] = b19 ^ (~b15 & b16);
    (*a)[20] = b20 ^ (~b21 & b22);
    (*a)[21] = b21 ^ (~b22 & b23);
    (*a)[22] = b22 ^ (~b23 & b24);
    (*a)[23] = b23 ^ (~b24 & b20);
    (*a)[24] = b24 ^ (~b20 & b21);
}

/// All rounds except the last. The callers compute only the lanes of the last round that
/// they need. The rounds are a loop, because unrolled rounds overflow instruction caches.
fn keccak_but_last(a: ptr<function, Lanes>) {
    for (var round = 0u; round < ROUNDS - 1u; round++) {
        keccak_round(a, round);
    }
}

/// The permutation. Only its first eight lanes are computed.
fn keccak_words16(a: ptr<function, Lanes>) -> Words16 {
    keccak_but_last(a);
    let t = keccak_theta(a);
    let b0 = (*a)[0] ^ t.d0;
    let b1 = rotl_swapped((*a)[6] ^ t.d1, 12u);
    let b2 = rotl_swapped((*a)[12] ^ t.d2, 11u);
    let b3 = rotl((*a)[18] ^ t.d3, 21u);
    let b4 = rotl((*a)[24] ^ t.d4, 14u);
    let b5 = rotl((*a)[3] ^ t.d3, 28u);
    let b6 = rotl((*a)[9] ^ t.d4, 20u);
    let b7 = rotl((*a)[10] ^ t.d0, 3u);
    let b8 = rotl_swapped((*a)[16] ^ t.d1, 13u);
    let b9 = rotl_swapped((*a)[22] ^ t.d2, 29u);
    return Words16(
        vec4<u32>(b0 ^ (~b1 & b2) ^ round_constant(ROUNDS - 1u), b1 ^ (~b2 & b3)),
        vec4<u32>(b2 ^ (~b3 & b4), b3 ^ (~b4 & b0)),
        vec4<u32>(b4 ^ (~b0 & b1), b5 ^ (~b6 & b7)),
        vec4<u32>(b6 ^ (~b7 & b8), b7 ^ (~b8 & b9)),
    );
}

/// The permutation. Only its first lane is computed, and returned as its two words.
fn keccak_lane0(a: ptr<function, Lanes>) -> vec2<u32> {
    keccak_but_last(a);
    let t = keccak_theta(a);
    let b0 = (*a)[0] ^ t.d0;
    let b1 = rotl_swapped((*a)[6] ^ t.d1, 12u);
    let b2 = rotl_swapped((*a)[12] ^ t.d2, 11u);
    return b0 ^ (~b1 & b2) ^ round_constant(ROUNDS - 1u);
}
