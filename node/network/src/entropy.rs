//! Random bytes. All of this package takes them from one [`Entropy`], so that a test or a
//! simulation can repeat a run from its seed.
//!
//! The bytes are the key stream of AES-256-CTR. The first 32 bytes of each stream become the next
//! key, so bytes that were given away cannot be computed from what is in memory later.

use aes::Aes256;
use ctr::Ctr128BE;
use ctr::cipher::{KeyIvInit, StreamCipher};
use primitives::SecretKey;
use zeroize::Zeroizing;

/// Bytes that one key makes: the next key, then this many to give away, less 32.
const STREAM_BYTES: usize = 512;
const KEY_BYTES: usize = 32;

/// The operating system gave no random bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no randomness from the operating system: {0}")]
pub struct EntropyError(String);

/// A source of random bytes.
#[derive(Debug)]
pub struct Entropy {
    key: Zeroizing<[u8; KEY_BYTES]>,
    /// Bytes that are not given away yet: those from `at` on.
    stream: Zeroizing<[u8; STREAM_BYTES]>,
    at: usize,
}

impl Entropy {
    /// A source that always makes the same bytes from the same seed.
    pub fn from_seed(seed: [u8; 32]) -> Self {
        Self {
            key: Zeroizing::new(seed),
            stream: Zeroizing::new([0; STREAM_BYTES]),
            at: STREAM_BYTES,
        }
    }

    /// A source whose seed is from the operating system.
    ///
    /// # Errors
    /// [`EntropyError`] if the system gives none.
    pub fn from_system() -> Result<Self, EntropyError> {
        let mut seed = [0; KEY_BYTES];
        getrandom::fill(&mut seed).map_err(|error| EntropyError(error.to_string()))?;
        Ok(Self::from_seed(seed))
    }

    /// A source of its own, with a seed from this one.
    pub fn fork(&mut self) -> Self {
        Self::from_seed(self.bytes())
    }

    /// Fills `out`.
    pub fn fill(&mut self, out: &mut [u8]) {
        for byte in out {
            if self.at == STREAM_BYTES {
                self.refill();
            }
            *byte = std::mem::take(&mut self.stream[self.at]);
            self.at += 1;
        }
    }

    fn refill(&mut self) {
        self.stream.fill(0);
        let mut cipher = Ctr128BE::<Aes256>::new(&(*self.key).into(), &[0; 16].into());
        cipher.apply_keystream(self.stream.as_mut_slice());
        self.key.copy_from_slice(&self.stream[..KEY_BYTES]);
        self.stream[..KEY_BYTES].fill(0);
        self.at = KEY_BYTES;
    }

    /// `N` random bytes.
    pub fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut out = [0; N];
        self.fill(&mut out);
        out
    }

    /// A number below `bound`, which is above 0. The bias is below 2^-32 for bounds below 2^32.
    pub fn below(&mut self, bound: usize) -> usize {
        let bound = bound.max(1) as u64;
        (u64::from_be_bytes(self.bytes()) % bound) as usize
    }

    /// A new secret key.
    pub fn secret_key(&mut self) -> SecretKey {
        loop {
            let bytes = Zeroizing::new(self.bytes::<32>());
            // About one number in 2^127 is out of range. Then the next one is tried.
            if let Ok(key) = SecretKey::from_bytes(bytes.as_slice()) {
                return key;
            }
        }
    }

    /// Brings `items` into a random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for end in (1..items.len()).rev() {
            items.swap(end, self.below(end + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_seed_repeats_its_bytes() {
        let mut one = Entropy::from_seed([7; 32]);
        let mut two = Entropy::from_seed([7; 32]);
        let first: [u8; 2000] = one.bytes();
        assert_eq!(first, two.bytes());
        assert_ne!(first, one.bytes());
        assert_ne!(first, Entropy::from_seed([8; 32]).bytes());
        assert_ne!(one.fork().bytes::<32>(), one.bytes::<32>());
    }

    #[test]
    fn no_key_is_given_away() {
        let mut entropy = Entropy::from_seed([7; 32]);
        let given: [u8; 4096] = entropy.bytes();
        let key = *entropy.key;
        assert!(given.windows(32).all(|window| window != key));
    }

    #[test]
    fn system_sources_differ() {
        let bytes = || Entropy::from_system().expect("randomness").bytes::<32>();
        assert_ne!(bytes(), bytes());
    }

    #[test]
    fn numbers_and_orders() {
        let mut entropy = Entropy::from_seed([1; 32]);
        let seen: BTreeSet<_> = (0..200).map(|_| entropy.below(5)).collect();
        assert_eq!(seen, (0..5).collect());
        assert_eq!(entropy.below(1), 0);
        let mut items: Vec<_> = (0..50).collect();
        entropy.shuffle(&mut items);
        assert_ne!(items, (0..50).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..50).collect::<Vec<_>>());
    }
}
