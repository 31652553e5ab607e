//! Compares a new dataset and the kernel over it with the CPU before anyone mines on them.
//!
//! A few random items and the hashes of a whole workgroup find a bad driver, memory that lies, or a kernel
//! miscompiled for this card, at the cost of some ten milliseconds.

use std::hash::{BuildHasher, Hasher, RandomState};

use ethash::{B256, LightCache, PowHash};

use super::batch::GpuWork;
use super::layout::boundary_top;
use super::{GpuError, GpuSearcher};

/// Items compared, the first and the last aside.
const RANDOM_ITEMS: usize = 6;
/// Nonces that the CPU hashes side by side.
const WIDTH: usize = 64;

/// Nonces in a row of a random header, with their hashes by the CPU: at least so many that a workgroup has one for
/// each of its invocations. All places within it are compared then, whoever exchanges values with whom.
pub(crate) struct Sample {
    header_hash: B256,
    start_nonce: u64,
    hashes: Vec<PowHash>,
}

impl Sample {
    /// For workgroups of up to `workgroup_size`.
    pub(crate) fn new(cache: &LightCache, workgroup_size: u32) -> Self {
        let mut header_hash = B256::ZERO;
        for bytes in header_hash.0.chunks_exact_mut(8) {
            bytes.copy_from_slice(&random_u64().to_ne_bytes());
        }
        let start_nonce = random_u64();
        let rounds = u64::from(workgroup_size).div_ceil(WIDTH as u64).max(1);
        let hashes = (0..rounds).flat_map(|round| {
            let first = start_nonce.wrapping_add(round * WIDTH as u64);
            let nonces: [u64; WIDTH] = core::array::from_fn(|i| first.wrapping_add(i as u64));
            cache.hash_many(&header_hash, nonces)
        });
        Self {
            hashes: hashes.collect(),
            header_hash,
            start_nonce,
        }
    }
}

/// Compares random items, and the hashes of a workgroup.
pub(crate) fn samples(searcher: &mut GpuSearcher, cache: &LightCache) -> Result<(), GpuError> {
    let last = cache.dataset_items() - 1;
    let random = (0..RANDOM_ITEMS).map(|_| (random_u64() % u64::from(cache.dataset_items())) as u32);
    for index in [0, last].into_iter().chain(random) {
        item(searcher, cache, index)?;
    }
    let sample = Sample::new(cache, searcher.options().workgroup_size);
    hashes(searcher, &sample)
}

/// Searches the sample three times: with a boundary that every hash meets, with one that is the middle hash
/// itself, and with the next lower one that the device can tell from that. Each time it must find just what the
/// CPU finds, with the same mixes.
pub(crate) fn hashes(searcher: &mut GpuSearcher, sample: &Sample) -> Result<(), GpuError> {
    let mut sorted: Vec<_> = sample.hashes.iter().map(|hash| hash.final_hash).collect();
    sorted.sort_unstable();
    let middle = sorted[sorted.len() / 2];
    let boundaries = [Some(B256::repeat_byte(0xff)), Some(middle), lowered(&middle)];
    for boundary in boundaries.into_iter().flatten() {
        search(searcher, sample, boundary)?;
    }
    Ok(())
}

fn search(searcher: &mut GpuSearcher, sample: &Sample, boundary: B256) -> Result<(), GpuError> {
    let count = sample.hashes.len() as u32;
    let work = GpuWork {
        id: 0,
        header_hash: sample.header_hash,
        boundary,
        start_nonce: sample.start_nonce,
        nonces: count.into(),
    };
    // One batch, for one of fewer nonces would leave the later places of a workgroup out.
    let mut hits = searcher.batch_of(work, count)?.into_iter().peekable();
    for (offset, expected) in (0..).zip(&sample.hashes) {
        let nonce = sample.start_nonce.wrapping_add(offset);
        let final_hash = expected.final_hash;
        let got = hits.next_if(|hit| hit.pow_nonce == nonce);
        let error = match got {
            None if boundary_top(&final_hash) <= boundary_top(&boundary) => GpuError::MissedHit {
                nonce,
                boundary,
                final_hash,
            },
            Some(_) if boundary_top(&final_hash) > boundary_top(&boundary) => GpuError::FalseHit {
                nonce,
                boundary,
                final_hash,
            },
            Some(hit) if hit.mix_hash != expected.mix_hash => GpuError::WrongMix {
                nonce,
                got: hit.mix_hash,
                expected: expected.mix_hash,
            },
            _ => continue,
        };
        return Err(error);
    }
    Ok(())
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

/// The highest boundary whose top 64 bits are below those of `hash`, if there is any.
fn lowered(hash: &B256) -> Option<B256> {
    let top = boundary_top(hash).checked_sub(1)?;
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
    use super::super::fixture::searcher;
    use super::super::{GpuOptions, KernelForm};
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

    #[test]
    fn a_kernel_that_is_wrong_in_later_places_of_a_workgroup_is_noticed() {
        for workgroup_size in [64, 128] {
            let options = GpuOptions {
                kernel: KernelForm::Group,
                workgroup_size,
                ..GpuOptions::default()
            };
            let Some((mut searcher, cache)) = searcher(&options) else {
                return;
            };
            let sample = Sample::new(&cache, workgroup_size);
            assert_eq!(hashes(&mut searcher, &sample), Ok(()));
            // From this place on invocations take what those before have offered.
            for wrong_from in [8, 16, 32, workgroup_size / 2] {
                let first_half = format!("even_shelf[owner & {}u]", wrong_from - 1);
                searcher.spoil_kernel("even_shelf[owner]", &first_half);
                let error = hashes(&mut searcher, &sample).expect_err("half of the hashes are wrong");
                let first_wrong = sample.start_nonce.wrapping_add(wrong_from.into());
                assert!(
                    matches!(error, GpuError::WrongMix { nonce, .. } if nonce == first_wrong),
                    "from {wrong_from} of {workgroup_size}: {error}"
                );
            }
        }
    }

    #[test]
    fn hits_that_are_missed_or_made_up_are_told_apart() {
        let Some((mut searcher, cache)) = searcher(&GpuOptions::default()) else {
            return;
        };
        let sample = Sample::new(&cache, 64);
        let of_sample = |hash: &B256| sample.hashes.iter().any(|known| known.final_hash == *hash);

        searcher.spoil_kernel("low <= job.boundary_top.x", "low < job.boundary_top.x");
        let missed = hashes(&mut searcher, &sample);
        let Err(GpuError::MissedHit {
            boundary, final_hash, ..
        }) = missed
        else {
            panic!("{missed:?}");
        };
        assert_eq!(boundary, final_hash, "the CPU's hash is the boundary");
        assert!(of_sample(&final_hash));

        searcher.spoil_kernel("low <= job.boundary_top.x", "low <= job.boundary_top.x + 1u");
        let made_up = hashes(&mut searcher, &sample);
        let Err(GpuError::FalseHit {
            boundary, final_hash, ..
        }) = made_up
        else {
            panic!("{made_up:?}");
        };
        assert!(boundary < final_hash && of_sample(&final_hash));
    }
}
