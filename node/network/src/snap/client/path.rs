//! Paths of trie nodes, and the ranges of keys below them.

use primitives::B256;

/// Length of a key in nibbles.
pub(super) const KEY_NIBBLES: usize = 64;

/// The lowest key below a path, or with `fill` 15 the highest.
pub(super) fn key_below(path: &[u8], fill: u8) -> B256 {
    let nibble = |at: usize| path.get(at).copied().unwrap_or(fill);
    B256::from(std::array::from_fn(|at| nibble(2 * at) << 4 | nibble(2 * at + 1)))
}

/// The first 8 bytes of a key: its place in the space of keys.
pub(super) const fn high(key: &B256) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = key.0;
    u64::from_be_bytes([a, b, c, d, e, f, g, h])
}

/// The key after this one. `None` after the last.
pub(super) fn next_key(key: &B256) -> Option<B256> {
    let mut next = *key;
    for byte in next.iter_mut().rev() {
        let (sum, is_over) = byte.overflowing_add(1);
        *byte = sum;
        if !is_over {
            return Some(next);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_below_a_path() {
        assert_eq!(key_below(&[], 0), B256::ZERO);
        assert_eq!(key_below(&[], 15), B256::repeat_byte(0xff));
        let high = key_below(&[1, 2, 3], 15);
        assert_eq!(high[..3], [0x12, 0x3f, 0xff]);
        let after = next_key(&high).expect("there is one");
        assert_eq!(after, key_below(&[1, 2, 4], 0));
        assert_eq!(next_key(&B256::repeat_byte(0xff)), None);
    }
}
