//! Keccak-f[1600] and the fixed-length hashes Ethash is made of.
//!
//! Original Keccak padding (first byte 0x01), not that of SHA-3. The sponge is absorbed lane by
//! lane for each of the few input lengths, so no byte buffer is copied and no length is looked at
//! in the hot paths. General inputs go through [`keccak256`] and [`keccak512`].

/// The constants of step iota, one for each round of the Keccak permutation.
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

/// The last bit of the padding, in the last lane of the rate.
pub(crate) const PAD_END: u64 = 1 << 63;
/// Lanes of the rate of Keccak-256.
pub(crate) const RATE_256: usize = 17;
/// Lanes of the rate of Keccak-512.
pub(crate) const RATE_512: usize = 9;

/// States that are kept side by side in memory.
pub(crate) const SIDE_BY_SIDE: usize = 8;
/// Lane `i` of state `j` is `states[i][j]`.
pub(crate) type States = [[u64; SIDE_BY_SIDE]; 25];

/// One word position of the sponge, for one state or for several side by side.
pub(crate) trait Lane: Copy {
    /// How many states; divides [`SIDE_BY_SIDE`].
    const WIDTH: usize;
    fn splat(value: u64) -> Self;
    /// The states `at..at + WIDTH`.
    fn load(from: &[u64; SIDE_BY_SIDE], at: usize) -> Self;
    fn store(self, to: &mut [u64; SIDE_BY_SIDE], at: usize);
    /// The first state's.
    fn first(self) -> u64;
    fn xor(self, other: Self) -> Self;
    /// `self ^ (!b & c)`, the step called chi.
    fn chi(self, b: Self, c: Self) -> Self;
    fn rotate<const LEFT: u32>(self) -> Self;
    /// `self ^ b ^ c`.
    #[inline(always)]
    fn xor3(self, b: Self, c: Self) -> Self {
        self.xor(b).xor(c)
    }
}

impl Lane for u64 {
    const WIDTH: usize = 1;
    #[inline(always)]
    fn splat(value: u64) -> Self {
        value
    }
    #[inline(always)]
    fn load(from: &[u64; SIDE_BY_SIDE], at: usize) -> Self {
        from[at]
    }
    #[inline(always)]
    fn store(self, to: &mut [u64; SIDE_BY_SIDE], at: usize) {
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
    fn rotate<const LEFT: u32>(self) -> Self {
        self.rotate_left(LEFT)
    }
}

/// The permutation over a state of 25 lanes, lane `x + 5 y`.
#[inline(always)]
pub(crate) fn permute<L: Lane>(state: &mut [L; 25]) {
    let mut a = *state;
    for constant in ROUND_CONSTANTS {
        a = round(&a, L::splat(constant));
    }
    *state = a;
}

/// Permutes the first `count` states, and perhaps some that follow.
#[inline(always)]
pub(crate) fn permute_states<L: Lane>(states: &mut States, count: usize) {
    for at in (0..count).step_by(L::WIDTH) {
        let mut wide = [L::splat(0); 25];
        for (wide, lanes) in wide.iter_mut().zip(&*states) {
            *wide = L::load(lanes, at);
        }
        permute(&mut wide);
        for (wide, lanes) in wide.iter().zip(&mut *states) {
            wide.store(lanes, at);
        }
    }
}

/// One round. Every index is a constant, so the lanes live in registers and on the stack, never in
/// an array that is searched.
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
        c[4].xor(c[1].rotate::<1>()),
        c[0].xor(c[2].rotate::<1>()),
        c[1].xor(c[3].rotate::<1>()),
        c[2].xor(c[4].rotate::<1>()),
        c[3].xor(c[0].rotate::<1>()),
    ];
    // Rho and pi together: what ends up in row y, column x, after its rotation.
    let rows = [
        [
            a[0].xor(d[0]),
            a[6].xor(d[1]).rotate::<44>(),
            a[12].xor(d[2]).rotate::<43>(),
            a[18].xor(d[3]).rotate::<21>(),
            a[24].xor(d[4]).rotate::<14>(),
        ],
        [
            a[3].xor(d[3]).rotate::<28>(),
            a[9].xor(d[4]).rotate::<20>(),
            a[10].xor(d[0]).rotate::<3>(),
            a[16].xor(d[1]).rotate::<45>(),
            a[22].xor(d[2]).rotate::<61>(),
        ],
        [
            a[1].xor(d[1]).rotate::<1>(),
            a[7].xor(d[2]).rotate::<6>(),
            a[13].xor(d[3]).rotate::<25>(),
            a[19].xor(d[4]).rotate::<8>(),
            a[20].xor(d[0]).rotate::<18>(),
        ],
        [
            a[4].xor(d[4]).rotate::<27>(),
            a[5].xor(d[0]).rotate::<36>(),
            a[11].xor(d[1]).rotate::<10>(),
            a[17].xor(d[2]).rotate::<15>(),
            a[23].xor(d[3]).rotate::<56>(),
        ],
        [
            a[2].xor(d[2]).rotate::<62>(),
            a[8].xor(d[3]).rotate::<55>(),
            a[14].xor(d[4]).rotate::<39>(),
            a[15].xor(d[0]).rotate::<41>(),
            a[21].xor(d[1]).rotate::<2>(),
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

/// The step between the lanes of a row.
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

/// Keccak-512 of the 64 bytes in `words`, given as little-endian lanes.
#[inline(always)]
pub(crate) fn keccak512_64<L: Lane>(words: &[L; 8]) -> [L; 8] {
    let mut state = [L::splat(0); 25];
    state[..8].copy_from_slice(words);
    // The message ends one lane before the rate does, so both ends of the padding share that lane.
    state[8] = L::splat(1 | PAD_END);
    permute(&mut state);
    first(&state)
}

/// Keccak-512 of 40 bytes: the seed of a hash.
#[inline(always)]
pub(crate) fn keccak512_40(words: &[u64; 5]) -> [u64; 8] {
    let mut state = [0; 25];
    state[..5].copy_from_slice(words);
    state[5] = 1;
    state[RATE_512 - 1] = PAD_END;
    permute(&mut state);
    first(&state)
}

/// Keccak-256 of 96 bytes: seed and compressed mix.
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

/// Keccak-256 of any number of bytes, with the original padding.
pub fn keccak256(data: &[u8]) -> [u8; 32] {
    bytes_of(sponge::<RATE_256, 4>(data))
}

/// Keccak-512 of any number of bytes, with the original padding.
pub fn keccak512(data: &[u8]) -> [u8; 64] {
    bytes_of(sponge::<RATE_512, 8>(data))
}

/// Absorbs `data` at `RATE` lanes a block and gives the first `OUT` lanes.
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

fn absorb(state: &mut [u64; 25], block: &[u8]) {
    for (lane, bytes) in state.iter_mut().zip(block.as_chunks::<8>().0) {
        *lane ^= u64::from_le_bytes(*bytes);
    }
}

#[inline(always)]
fn first<L: Lane, const N: usize>(state: &[L; 25]) -> [L; N] {
    let mut out = [L::splat(0); N];
    out.copy_from_slice(&state[..N]);
    out
}

/// The first `N` lanes of `bytes`, which must hold that many.
#[inline(always)]
pub(crate) fn lanes<const N: usize>(bytes: &[u8; 32]) -> [u64; N] {
    let mut lanes = [0; N];
    for (lane, bytes) in lanes.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *lane = u64::from_le_bytes(*bytes);
    }
    lanes
}

/// The bytes of `N` lanes in order.
#[inline(always)]
pub(crate) fn bytes_of<const N: usize, const BYTES: usize>(lanes: [u64; N]) -> [u8; BYTES] {
    const { assert!(BYTES == N * 8, "eight bytes a lane") };
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
