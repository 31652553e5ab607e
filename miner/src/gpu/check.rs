//! Compares a new dataset with the CPU before anyone mines on it.
//!
//! A few random items and one hash find a bad driver, memory that lies, or a kernel miscompiled for this
//! card, at the cost of milliseconds.

use std::hash::{BuildHasher, Hasher, RandomState};

use ethash::{B256, LightCache};

use super::batch::GpuWork;
use super::{GpuError, GpuSearcher};

/// Items compared, the first and the last aside.
const RANDOM_ITEMS: usize = 6;

/// Hashes compared before a form of the kernel may be chosen: four groups of eight invocations.
const HASHES: u64 = 32;

/// Compares random items and one hash.
pub(crate) fn samples(searcher: &mut GpuSearcher, cache: &LightCache) -> Result<(), GpuError> {
    let last = cache.dataset_items() - 1;
    let random = (0..RANDOM_ITEMS).map(|_| (random_u64() % u64::from(cache.dataset_items())) as u32);
    for index in [0, last].into_iter().chain(random) {
        item(searcher, cache, index)?;
    }
    hash(searcher, cache, random_hash(), random_u64())
}

/// Compares the mixes of nonces in a row, which all positions within a group share in, and one hash's place
/// below or above its boundary.
pub(crate) fn hashes(searcher: &mut GpuSearcher, cache: &LightCache) -> Result<(), GpuError> {
    let work = GpuWork {
        id: 0,
        header_hash: random_hash(),
        boundary: B256::repeat_byte(0xff),
        start_nonce: random_u64(),
        nonces: HASHES,
    };
    let mut hits = searcher.search(work, HASHES)?.into_iter();
    for offset in 0..HASHES {
        let nonce = work.start_nonce.wrapping_add(offset);
        let expected = cache.hash(&work.header_hash, nonce).mix_hash;
        let got = hits
            .next()
            .filter(|hit| hit.pow_nonce == nonce)
            .map_or(B256::ZERO, |hit| hit.mix_hash);
        if got != expected {
            return Err(GpuError::WrongHash {
                nonce,
                what: "mix",
                got,
                expected,
            });
        }
    }
    hash(searcher, cache, work.header_hash, work.start_nonce)
}

fn random_hash() -> B256 {
    let mut hash = B256::ZERO;
    for bytes in hash.0.chunks_exact_mut(8) {
        bytes.copy_from_slice(&random_u64().to_ne_bytes());
    }
    hash
}

fn item(searcher: &GpuSearcher, cache: &LightCache, item: u32) -> Result<(), GpuError> {
    let expected = cache.dataset_item(item);
    let got = searcher.read_items(item, 1)?;
    let differing = got
        .iter()
        .flatten()
        .zip(&expected)
        .find(|(got, expected)| got != expected);
    match differing {
        Some((&got, &expected)) => Err(GpuError::WrongItem { item, got, expected }),
        None => Ok(()),
    }
}

/// The nonce must be found with its mix when the boundary is its own hash, and not be found when the
/// boundary is lower in the last bit that the device looks at.
fn hash(
    searcher: &mut GpuSearcher,
    cache: &LightCache,
    header_hash: B256,
    nonce: u64,
) -> Result<(), GpuError> {
    let expected = cache.hash(&header_hash, nonce);
    let mut work = GpuWork {
        id: 0,
        header_hash,
        boundary: expected.final_hash,
        start_nonce: nonce,
        nonces: 1,
    };
    let hits = searcher.search(work, 1)?;
    let mix = match hits[..] {
        [hit] if hit.pow_nonce == nonce => hit.mix_hash,
        _ => B256::ZERO,
    };
    if mix != expected.mix_hash {
        let expected = expected.mix_hash;
        return Err(GpuError::WrongHash {
            nonce,
            what: "mix",
            got: mix,
            expected,
        });
    }
    if let Some(lower) = lowered(&expected.final_hash) {
        work.boundary = lower;
        if !searcher.search(work, 1)?.is_empty() {
            let expected = expected.final_hash;
            return Err(GpuError::WrongHash {
                nonce,
                what: "final hash",
                got: lower,
                expected,
            });
        }
    }
    Ok(())
}

/// The highest boundary whose top 64 bits are below those of `hash`, if there is any.
fn lowered(hash: &B256) -> Option<B256> {
    let top = super::layout::boundary_top(hash).checked_sub(1)?;
    let mut lower = B256::repeat_byte(0xff);
    lower.0[..8].copy_from_slice(&top.to_be_bytes());
    Some(lower)
}

/// A number that differs from run to run, which is all that is asked of it.
fn random_u64() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lowered_boundary_differs_in_the_bits_the_device_tests() {
        let mut hash = B256::ZERO;
        hash.0[7] = 1;
        let lower = lowered(&hash).unwrap();
        assert!(lower < hash);
        assert_eq!(lower.0[..8], [0; 8]);
        assert_eq!(lowered(&B256::ZERO), None);
    }
}
