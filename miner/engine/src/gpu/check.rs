//! Compares a dataset and its kernel with the CPU: before anyone mines with them, and now and then
//! while they are mined with.
//!
//! A few random items and the hashes of a whole workgroup are compared. This finds bad drivers,
//! faulty memory and kernels that were miscompiled for this card. It takes some ten milliseconds,
//! most of them on the CPU.

use std::hash::{BuildHasher, Hasher, RandomState};

use ethash::{B256, ITEM_WORDS, LIGHT_IN_FLIGHT, LightCache, PowHash};

use super::batch::GpuWork;
use super::dataset::LoadedEpoch;
use super::device::GpuDevice;
use super::error::GpuError;
use super::params::boundary_top;

/// The least number of random items compared. There is one in each page at least. The first and
/// the last item are compared too.
const RANDOM_ITEMS: u32 = 6;

/// Consecutive nonces of a random header, with the hashes that the CPU computes for them.
///
/// There is at least one nonce for each invocation of a workgroup, so that every place within a
/// workgroup is compared, whichever invocations exchange values.
pub struct CheckSample {
    header_hash: B256,
    start_nonce: u64,
    hashes: Vec<PowHash>,
}

impl CheckSample {
    /// Makes a sample for workgroups of up to `workgroup_size` invocations.
    pub fn new(cache: &LightCache, workgroup_size: u32) -> Self {
        let mut header_hash = B256::ZERO;
        for bytes in header_hash.0.chunks_exact_mut(8) {
            bytes.copy_from_slice(&random_u64().to_ne_bytes());
        }
        let start_nonce = random_u64();
        let rounds = u64::from(workgroup_size).div_ceil(LIGHT_IN_FLIGHT as u64).max(1);
        let hashes = (0..rounds).flat_map(|round| {
            let first = start_nonce.wrapping_add(round * LIGHT_IN_FLIGHT as u64);
            let nonces: [u64; LIGHT_IN_FLIGHT] = core::array::from_fn(|i| first.wrapping_add(i as u64));
            cache.hash_many(&header_hash, nonces)
        });
        Self {
            hashes: hashes.collect(),
            header_hash,
            start_nonce,
        }
    }
}

/// Compares random items of the dataset, and the hashes of a whole workgroup.
///
/// # Errors
/// If an item or a hash is wrong, and errors of the device.
pub(crate) fn items_and_hashes(
    gpu: &GpuDevice,
    loaded: &LoadedEpoch,
    workgroup_size: u32,
) -> Result<(), GpuError> {
    // The CPU computes before the device is asked for anything. Meanwhile the device searches.
    let sample = CheckSample::new(&loaded.cache, workgroup_size);
    let layout = &loaded.dataset.layout;
    let random = (0..RANDOM_ITEMS.max(layout.pages)).map(|number| {
        let page = number % layout.pages;
        layout.first_row(page) + (random_u64() % u64::from(layout.rows_in(page))) as u32
    });
    let items: Vec<_> = [0, layout.rows - 1]
        .into_iter()
        .chain(random)
        .map(|item| (item, loaded.cache.dataset_item(item)))
        .collect();
    for (item, expected) in &items {
        check_item(gpu, loaded, *item, expected)?;
    }
    hashes(gpu, loaded, &sample)
}

/// Searches the sample three times, each time with another boundary: one that every hash meets, the
/// middle hash of the sample, and the next lower boundary that the device can distinguish from it.
///
/// Each time the device must find the same nonces as the CPU, with the same mix hashes.
///
/// # Errors
/// If a hash is wrong, and errors of the device.
pub(crate) fn hashes(gpu: &GpuDevice, loaded: &LoadedEpoch, sample: &CheckSample) -> Result<(), GpuError> {
    let mut sorted: Vec<_> = sample.hashes.iter().map(|hash| hash.final_hash).collect();
    sorted.sort_unstable();
    let middle = sorted[sorted.len() / 2];
    let boundaries = [Some(B256::repeat_byte(0xff)), Some(middle), lowered(&middle)];
    for boundary in boundaries.into_iter().flatten() {
        check_search(gpu, loaded, sample, boundary)?;
    }
    Ok(())
}

fn check_search(
    gpu: &GpuDevice,
    loaded: &LoadedEpoch,
    sample: &CheckSample,
    boundary: B256,
) -> Result<(), GpuError> {
    let count = sample.hashes.len() as u32;
    let work = GpuWork {
        id: 0,
        header_hash: sample.header_hash,
        boundary,
        start_nonce: sample.start_nonce,
        nonces: count.into(),
    };
    // The sample must be one batch: shorter batches would never use the later places of a
    // workgroup.
    let mut hits = loaded.search_batch(gpu, work, count)?.into_iter().peekable();
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

fn check_item(
    gpu: &GpuDevice,
    loaded: &LoadedEpoch,
    item: u32,
    expected: &[u32; ITEM_WORDS],
) -> Result<(), GpuError> {
    let got = loaded.read_items(gpu, item, 1)?;
    let differing = got
        .iter()
        .flatten()
        .zip(expected)
        .find(|(got, expected)| got != expected);
    match differing {
        Some((&got, &expected)) => Err(GpuError::WrongItem { item, got, expected }),
        None => Ok(()),
    }
}

/// Returns the highest boundary whose top 64 bits are below those of `hash`, if there is one.
fn lowered(hash: &B256) -> Option<B256> {
    let top = boundary_top(hash).checked_sub(1)?;
    let mut lower = B256::repeat_byte(0xff);
    lower.0[..8].copy_from_slice(&top.to_be_bytes());
    Some(lower)
}

/// Returns a number that differs from run to run. It need not be hard to predict.
fn random_u64() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::super::fixture::searcher;
    use super::*;
    use crate::gpu::{GpuOptions, KernelForm};

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
    fn a_kernel_that_is_wrong_in_later_places_of_a_workgroup_is_detected() {
        for (workgroup_size, places) in [(64, &[8_u32, 16, 32][..]), (128, &[8, 64])] {
            let options = GpuOptions {
                kernel: KernelForm::Group,
                workgroup_size,
                ..GpuOptions::default()
            };
            let Some((mut searcher, cache)) = searcher(&options) else {
                return;
            };
            let sample = CheckSample::new(&cache, workgroup_size);
            assert_eq!(searcher.check_hashes(&sample), Ok(()));
            // From this place on, invocations take the values of earlier places.
            for &wrong_from in places {
                let earlier_value = format!("even_values[source & {}u]", wrong_from - 1);
                searcher.spoil_kernel("even_values[source]", &earlier_value);
                let error = searcher
                    .check_hashes(&sample)
                    .expect_err("half of the hashes are wrong");
                let first_wrong = sample.start_nonce.wrapping_add(wrong_from.into());
                assert!(
                    matches!(error, GpuError::WrongMix { nonce, .. } if nonce == first_wrong),
                    "from {wrong_from} of {workgroup_size}: {error}"
                );
            }
        }
    }

    #[test]
    fn a_flipped_bit_in_a_page_is_found() {
        let options = GpuOptions {
            max_page_items: Some(64),
            ..GpuOptions::default()
        };
        let Some((searcher, _cache)) = searcher(&options) else {
            return;
        };
        assert_eq!(searcher.self_check(), Ok(()));
        for (item, word, bit) in [(0, 0, 0), (77, 31, 31), (255, 16, 5)] {
            searcher.flip_bit(item, word, bit);
            let error = searcher.self_check().expect_err("a bit is wrong");
            assert!(error.is_wrong_data(), "{error}");
            searcher.flip_bit(item, word, bit);
            assert_eq!(searcher.self_check(), Ok(()), "item {item} is right again");
        }
    }

    #[test]
    fn a_comparison_disturbs_no_batch_in_flight() {
        // There is a slot for every hit.
        let options = GpuOptions {
            result_slots: 1000,
            ..GpuOptions::default()
        };
        let Some((mut searcher, _cache)) = searcher(&options) else {
            return;
        };
        let work = GpuWork {
            id: 5,
            header_hash: B256::repeat_byte(0x44),
            boundary: ethash::boundary(&ethash::U256::from(300)),
            start_nonce: 1000,
            nonces: 20_000,
        };
        let expected = searcher.search(work, work.nonces).expect("a search");
        assert!(expected.len() > 20, "{}", expected.len());
        searcher.set_work(work);
        let (mut hits, mut hashed) = (Vec::new(), 0);
        while hashed < work.nonces {
            let report = searcher.next_batch().expect("a batch");
            assert_eq!(searcher.self_check(), Ok(()));
            hashed += u64::from(report.count);
            hits.extend(report.hits);
        }
        assert_eq!(hits, expected);
    }

    #[test]
    fn missed_hits_and_false_hits_are_different_errors() {
        let Some((mut searcher, cache)) = searcher(&GpuOptions::default()) else {
            return;
        };
        let sample = CheckSample::new(&cache, 64);
        let of_sample = |hash: &B256| sample.hashes.iter().any(|known| known.final_hash == *hash);

        searcher.spoil_kernel("low <= params.boundary_top.x", "low < params.boundary_top.x");
        let missed = searcher.check_hashes(&sample);
        let Err(GpuError::MissedHit {
            boundary, final_hash, ..
        }) = missed
        else {
            panic!("{missed:?}");
        };
        assert_eq!(boundary, final_hash, "the CPU's hash is the boundary");
        assert!(of_sample(&final_hash));

        searcher.spoil_kernel(
            "low <= params.boundary_top.x",
            "low <= params.boundary_top.x + 1u",
        );
        let false_hit = searcher.check_hashes(&sample);
        let Err(GpuError::FalseHit {
            boundary, final_hash, ..
        }) = false_hit
        else {
            panic!("{false_hit:?}");
        };
        assert!(boundary < final_hash && of_sample(&final_hash));
    }
}
