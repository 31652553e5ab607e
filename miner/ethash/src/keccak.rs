//! Keccak-f[1600] and the fixed-length hashes of Ethash.
//!
//! The padding is that of the original Keccak (first byte 0x01), not that of SHA-3. Each of
//! Ethash's few input lengths has its own function, which works on 64-bit lanes. So the hot paths
//! copy no byte buffer and check no length. [`keccak256`] and [`keccak512`] take inputs of any
//! length.
//!
//! Source: the Keccak reference (<https://keccak.team/keccak_specs_summary.html>).

/// Round constants of the step iota.
pub const ROUND_CONSTANTS: [u64; 24] = [
    0x0000_0000_0000_0001,
    0x0000_0000_0000_8082,
    0x8000_0000_0000_808a,
    0x8000_0000_8000_8000,
    0x0000_0000_0000_808b,
    0x0000_0000_8000_0001,
    0x8000_0000_8000_8081,
    0x8000_0000_0000_8009,
    0x0000_0000_0000_008a,
    0x0000_0000_0000_0088,
    0x0000_0000_8000_8009,
    0x0000_0000_8000_000a,
    0x0000_0000_8000_808b,
    0x8000_0000_0000_008b,
    0x8000_0000_0000_8089,
    0x8000_0000_0000_8003,
    0x8000_0000_0000_8002,
    0x8000_0000_0000_0080,
    0x0000_0000_0000_800a,
    0x8000_0000_8000_000a,
    0x8000_0000_8000_8081,
    0x8000_0000_0000_8080,
    0x0000_0000_8000_0001,
    0x8000_0000_8000_8008,
];

/// The last bit of the padding, as it stands in the last lane of the rate.
pub(crate) const PAD_END: u64 = 1 << 63;
/// Number of lanes in the rate of Keccak-256.
pub(crate) const RATE_256: usize = 17;
/// Number of lanes in the rate of Keccak-512.
pub(crate) const RATE_512: usize = 9;

/// Number of states in a [`StateBatch`].
pub(crate) const BATCH_STATES: usize = 8;
/// Eight independent states of Keccak, interleaved: lane `i` of state `j` is `batch[i][j]`.
pub(crate) type StateBatch = [[u64; BATCH_STATES]; 25];

/// One lane of Keccak for `WIDTH` independent states: an integer, or a vector register.
pub(crate) trait Lane: Copy {
    /// The number of states that the lane belongs to. Divides [`BATCH_STATES`].
    const WIDTH: usize;
    /// The same value in every state. The value of `self` does not matter: a vector register can
    /// only be made with the [`SimdOps`](crate::simd::SimdOps) of its instruction set, or from
    /// another one.
    fn filled(self, value: u64) -> Self;
    /// Stores the lane of the states `at..at + WIDTH`.
    fn store(self, to: &mut [u64; BATCH_STATES], at: usize);
    /// The value in the first state.
    fn first(self) -> u64;
    fn xor(self, other: Self) -> Self;
    /// `self ^ (!b & c)`, the step chi.
    fn chi(self, b: Self, c: Self) -> Self;
    fn rotate_left<const BITS: u32>(self) -> Self;
    /// `self ^ b ^ c`.
    #[inline(always)]
    fn xor3(self, b: Self, c: Self) -> Self {
        self.xor(b).xor(c)
    }
}

/// A lane that can be made by whoever has a value of `S`, the operations of an instruction set.
pub(crate) trait NewLane<S>: Lane {
    /// The same value in every state.
    fn splat(simd: S, value: u64) -> Self;
    /// Loads the lane of the states `at..at + WIDTH`.
    fn load(simd: S, from: &[u64; BATCH_STATES], at: usize) -> Self;
}

/// An integer needs no particular instructions, so it can be made with those of any set.
impl<S> NewLane<S> for u64 {
    #[inline(always)]
    fn splat(_simd: S, value: u64) -> Self {
        value
    }
    #[inline(always)]
    fn load(_simd: S, from: &[u64; BATCH_STATES], at: usize) -> Self {
        from[at]
    }
}

impl Lane for u64 {
    const WIDTH: usize = 1;
    #[inline(always)]
    fn filled(self, value: u64) -> Self {
        value
    }
    #[inline(always)]
    fn store(self, to: &mut [u64; BATCH_STATES], at: usize) {
        to[at] = self;
    }
    #[inline(always)]
    fn first(self) -> u64 {
        self
    }
    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        self ^ other
    }
    #[inline(always)]
    fn chi(self, b: Self, c: Self) -> Self {
        self ^ (!b & c)
    }
    #[inline(always)]
    fn rotate_left<const BITS: u32>(self) -> Self {
        Self::rotate_left(self, BITS)
    }
}

/// The permutation Keccak-f[1600]. Lane (x, y) of the specification is `state[x + 5 * y]`.
#[inline(always)]
pub(crate) fn permute<L: Lane>(state: &mut [L; 25]) {
    let mut a = *state;
    for constant in ROUND_CONSTANTS {
        a = round(&a, a[0].filled(constant));
    }
    *state = a;
}

/// Permutes the first `count` states of `batch`.
///
/// Also permutes the states after them up to the next multiple of `L::WIDTH`.
#[inline(always)]
pub(crate) fn permute_batch<S: Copy, L: NewLane<S>>(simd: S, batch: &mut StateBatch, count: usize) {
    for at in (0..count).step_by(L::WIDTH) {
        let mut wide = [L::splat(simd, 0); 25];
        for (wide, lanes) in wide.iter_mut().zip(&*batch) {
            *wide = L::load(simd, lanes, at);
        }
        permute(&mut wide);
        for (wide, lanes) in wide.iter().zip(&mut *batch) {
            wide.store(lanes, at);
        }
    }
}

/// One round. Every index is a constant, so the compiler keeps the lanes in registers and on the
/// stack.
#[inline(always)]
fn round<L: Lane>(a: &[L; 25], constant: L) -> [L; 25] {
    let c = [
        column::<L, 0>(a),
        column::<L, 1>(a),
        column::<L, 2>(a),
        column::<L, 3>(a),
        column::<L, 4>(a),
    ];
    let d = [
        c[4].xor(c[1].rotate_left::<1>()),
        c[0].xor(c[2].rotate_left::<1>()),
        c[1].xor(c[3].rotate_left::<1>()),
        c[2].xor(c[4].rotate_left::<1>()),
        c[3].xor(c[0].rotate_left::<1>()),
    ];
    // The steps rho and pi together: rows[y][x] is the rotated lane that pi moves to row y, column
    // x.
    let rows = [
        [
            a[0].xor(d[0]),
            a[6].xor(d[1]).rotate_left::<44>(),
            a[12].xor(d[2]).rotate_left::<43>(),
            a[18].xor(d[3]).rotate_left::<21>(),
            a[24].xor(d[4]).rotate_left::<14>(),
        ],
        [
            a[3].xor(d[3]).rotate_left::<28>(),
            a[9].xor(d[4]).rotate_left::<20>(),
            a[10].xor(d[0]).rotate_left::<3>(),
            a[16].xor(d[1]).rotate_left::<45>(),
            a[22].xor(d[2]).rotate_left::<61>(),
        ],
        [
            a[1].xor(d[1]).rotate_left::<1>(),
            a[7].xor(d[2]).rotate_left::<6>(),
            a[13].xor(d[3]).rotate_left::<25>(),
            a[19].xor(d[4]).rotate_left::<8>(),
            a[20].xor(d[0]).rotate_left::<18>(),
        ],
        [
            a[4].xor(d[4]).rotate_left::<27>(),
            a[5].xor(d[0]).rotate_left::<36>(),
            a[11].xor(d[1]).rotate_left::<10>(),
            a[17].xor(d[2]).rotate_left::<15>(),
            a[23].xor(d[3]).rotate_left::<56>(),
        ],
        [
            a[2].xor(d[2]).rotate_left::<62>(),
            a[8].xor(d[3]).rotate_left::<55>(),
            a[14].xor(d[4]).rotate_left::<39>(),
            a[15].xor(d[0]).rotate_left::<41>(),
            a[21].xor(d[1]).rotate_left::<2>(),
        ],
    ];
    let [r0, r1, r2, r3, r4] = [
        chi(rows[0]),
        chi(rows[1]),
        chi(rows[2]),
        chi(rows[3]),
        chi(rows[4]),
    ];
    [
        r0[0].xor(constant),
        r0[1],
        r0[2],
        r0[3],
        r0[4],
        r1[0],
        r1[1],
        r1[2],
        r1[3],
        r1[4],
        r2[0],
        r2[1],
        r2[2],
        r2[3],
        r2[4],
        r3[0],
        r3[1],
        r3[2],
        r3[3],
        r3[4],
        r4[0],
        r4[1],
        r4[2],
        r4[3],
        r4[4],
    ]
}

/// The parity of column `X`.
#[inline(always)]
fn column<L: Lane, const X: usize>(a: &[L; 25]) -> L {
    a[X].xor3(a[X + 5], a[X + 10]).xor3(a[X + 15], a[X + 20])
}

/// The step chi on one row.
#[inline(always)]
fn chi<L: Lane>(b: [L; 5]) -> [L; 5] {
    [
        b[0].chi(b[1], b[2]),
        b[1].chi(b[2], b[3]),
        b[2].chi(b[3], b[4]),
        b[3].chi(b[4], b[0]),
        b[4].chi(b[0], b[1]),
    ]
}

/// Keccak-512 of 64 bytes, given as little-endian lanes.
#[inline(always)]
pub(crate) fn keccak512_64<L: Lane>(words: &[L; 8]) -> [L; 8] {
    let mut state = [words[0].filled(0); 25];
    state[..8].copy_from_slice(words);
    // The message leaves one lane of the rate, so the first and the last bit of the padding share
    // it.
    state[8] = words[0].filled(1 | PAD_END);
    permute(&mut state);
    first(&state)
}

/// Keccak-512 of 40 bytes: header hash and nonce.
#[inline(always)]
pub(crate) fn keccak512_40(words: &[u64; 5]) -> [u64; 8] {
    let mut state = [0; 25];
    state[..5].copy_from_slice(words);
    state[5] = 1;
    state[RATE_512 - 1] = PAD_END;
    permute(&mut state);
    first(&state)
}

/// Keccak-256 of 96 bytes: hash seed and compressed mix.
#[inline(always)]
pub(crate) fn keccak256_96(words: &[u64; 12]) -> [u64; 4] {
    let mut state = [0; 25];
    state[..12].copy_from_slice(words);
    state[12] = 1;
    state[RATE_256 - 1] = PAD_END;
    permute(&mut state);
    first(&state)
}

/// Keccak-256 of 32 bytes: one step of the seed hash.
pub(crate) fn keccak256_32(bytes: &[u8; 32]) -> [u8; 32] {
    let mut state = [0; 25];
    state[..4].copy_from_slice(&lanes::<4>(bytes));
    state[4] = 1;
    state[RATE_256 - 1] = PAD_END;
    permute(&mut state);
    bytes_of(first::<u64, 4>(&state))
}

/// Keccak-512 of 32 bytes: the first row of the light cache.
pub(crate) fn keccak512_32(bytes: &[u8; 32]) -> [u64; 8] {
    let mut state = [0; 25];
    state[..4].copy_from_slice(&lanes::<4>(bytes));
    state[4] = 1;
    state[RATE_512 - 1] = PAD_END;
    permute(&mut state);
    first(&state)
}

/// Keccak-256 of `data`, with the padding of the original Keccak.
pub fn keccak256(data: &[u8]) -> [u8; 32] {
    bytes_of(sponge::<RATE_256, 4>(data))
}

/// Keccak-512 of `data`, with the padding of the original Keccak.
pub fn keccak512(data: &[u8]) -> [u8; 64] {
    bytes_of(sponge::<RATE_512, 8>(data))
}

/// Absorbs `data` in blocks of `RATE` lanes and returns the first `OUT` lanes of the final state.
fn sponge<const RATE: usize, const OUT: usize>(data: &[u8]) -> [u64; OUT] {
    let mut state = [0; 25];
    let mut blocks = data.chunks_exact(RATE * 8);
    for block in &mut blocks {
        absorb(&mut state, block);
        permute(&mut state);
    }
    let rest = blocks.remainder();
    let mut last = [0; RATE_256 * 8];
    last[..rest.len()].copy_from_slice(rest);
    last[rest.len()] = 1;
    last[RATE * 8 - 1] |= 0x80;
    absorb(&mut state, &last[..RATE * 8]);
    permute(&mut state);
    first(&state)
}

/// Adds one block to the state.
fn absorb(state: &mut [u64; 25], block: &[u8]) {
    for (lane, bytes) in state.iter_mut().zip(block.as_chunks::<8>().0) {
        *lane ^= u64::from_le_bytes(*bytes);
    }
}

/// The first `N` lanes of the state.
#[inline(always)]
fn first<L: Lane, const N: usize>(state: &[L; 25]) -> [L; N] {
    let mut out = [state[0]; N];
    out.copy_from_slice(&state[..N]);
    out
}

/// The first `N` lanes of `bytes`. `N` must be at most 4.
#[inline(always)]
pub(crate) fn lanes<const N: usize>(bytes: &[u8; 32]) -> [u64; N] {
    let mut lanes = [0; N];
    for (lane, bytes) in lanes.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *lane = u64::from_le_bytes(*bytes);
    }
    lanes
}

/// The little-endian bytes of `N` lanes, in order.
#[inline(always)]
pub(crate) fn bytes_of<const N: usize, const BYTES: usize>(lanes: [u64; N]) -> [u8; BYTES] {
    const { assert!(BYTES == N * 8, "eight bytes per lane") };
    let mut bytes = [0; BYTES];
    for (bytes, lane) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(lanes) {
        *bytes = lane.to_le_bytes();
    }
    bytes
}

#[cfg(test)]
mod tests {
    use tiny_keccak::{Hasher, Keccak};

    use super::*;

    fn reference<const N: usize>(mut hasher: Keccak, data: &[u8]) -> [u8; N] {
        let mut output = [0; N];
        hasher.update(data);
        hasher.finalize(&mut output);
        output
    }

    fn data(len: usize) -> Vec<u8> {
        (0..len).map(|i| (i * 37 + len * 11 + 5) as u8).collect()
    }

    #[test]
    fn empty_input_has_its_published_hash() {
        let expected = "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470";
        assert_eq!(
            crate::B256::from(keccak256(&[])).to_string(),
            format!("0x{expected}")
        );
    }

    #[test]
    fn every_length_agrees_with_another_implementation() {
        for len in 0..420 {
            let data = data(len);
            assert_eq!(
                keccak256(&data),
                reference::<32>(Keccak::v256(), &data),
                "keccak256 of {len} bytes"
            );
            assert_eq!(
                keccak512(&data),
                reference::<64>(Keccak::v512(), &data),
                "keccak512 of {len} bytes"
            );
        }
    }

    #[test]
    fn fixed_lengths_agree_with_the_general_hash() {
        let words = |bytes: &[u8]| -> Vec<u64> {
            bytes
                .chunks_exact(8)
                .map(|b| u64::from_le_bytes(b.try_into().expect("8 bytes")))
                .collect()
        };
        let (d32, d40, d64, d96) = (data(32), data(40), data(64), data(96));
        let d32: [u8; 32] = d32.try_into().expect("32 bytes");
        assert_eq!(keccak256_32(&d32), keccak256(&d32));
        assert_eq!(bytes_of::<8, 64>(keccak512_32(&d32)), keccak512(&d32));
        assert_eq!(
            bytes_of::<8, 64>(keccak512_40(&words(&d40).try_into().expect("5 lanes"))),
            keccak512(&d40)
        );
        assert_eq!(
            bytes_of::<8, 64>(keccak512_64(&words(&d64).try_into().expect("8 lanes"))),
            keccak512(&d64)
        );
        assert_eq!(
            bytes_of::<4, 32>(keccak256_96(&words(&d96).try_into().expect("12 lanes"))),
            keccak256(&d96)
        );
    }
}
