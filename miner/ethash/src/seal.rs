//! Checks the proof-of-work seal of a header: the final hash of the claimed mix hash against the
//! boundary, then the mix hash.
//!
//! Knows header hash, nonce and mix hash. It knows neither the rest of the header nor
//! the rule that decides the difficulty. All 256 bits are compared. A final hash equal to the
//! boundary is valid.

use core::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use crate::hashimoto::{PowHash, final_hash_bytes, seed512};
use crate::keccak::lanes;
use crate::{B256, LightCache, U256};

/// A value that differs from the expected one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GotExpected<T> {
    /// The actual value.
    pub got: T,
    /// The expected value.
    pub expected: T,
}

impl<T: fmt::Display> fmt::Display for GotExpected<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "got {}, expected {}", self.got, self.expected)
    }
}

/// The reasons why a seal is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// The claimed mix hash differs from the computed one. Reported only if the final hash of the
    /// claimed mix hash meets the boundary; a wrong mix hash seldom does.
    #[error("mix hash: {0}")]
    MixHash(GotExpected<B256>),
    /// The final hash of the claimed mix hash is above the boundary.
    #[error("final hash of the mix hash above the boundary: got {got}, expected at most {boundary}")]
    AboveBoundary {
        /// The final hash that follows from the claimed mix hash.
        got: B256,
        /// The highest valid final hash.
        boundary: B256,
    },
}

/// The boundary of a difficulty: floor(2^256 / difficulty) as a big-endian number.
///
/// 2^256 - 1 for the difficulties 0 and 1.
pub fn boundary(difficulty: &U256) -> B256 {
    if *difficulty <= U256::ONE {
        return B256::repeat_byte(0xff);
    }
    // 2^256 does not fit. floor((2^256 - 1) / d) is one too small exactly if d divides 2^256.
    let (quotient, remainder) = U256::MAX.div_rem(*difficulty);
    let exact = remainder + U256::ONE == *difficulty;
    B256::from(quotient + U256::from(u8::from(exact)))
}

/// Whether `final_hash` is less than or equal to `boundary`. Both are big-endian numbers.
pub fn meets_boundary(final_hash: &B256, boundary: &B256) -> bool {
    final_hash <= boundary
}

/// The final hash that follows from a claimed mix hash, without reading any dataset item.
///
/// The result does not prove that the mix hash is right. But if the final hash is above the
/// boundary, the seal can be rejected at the cost of two Keccak permutations.
pub fn final_hash(header_hash: &B256, pow_nonce: u64, mix_hash: &B256) -> B256 {
    B256::from(final_hash_bytes(
        &seed512(header_hash, pow_nonce),
        &lanes::<4>(&mix_hash.0),
    ))
}

/// Checks that `pow_nonce` and `mix_hash` seal `header_hash` at `boundary`.
///
/// `cache` is the light cache of the block's epoch.
///
/// # Errors
/// [`SealError::AboveBoundary`] or [`SealError::MixHash`]. The boundary is checked first, because
/// that check needs no dataset item.
pub fn verify_seal(
    cache: &LightCache,
    header_hash: &B256,
    pow_nonce: u64,
    mix_hash: &B256,
    boundary: &B256,
) -> Result<(), SealError> {
    let seal = Seal {
        header_hash: *header_hash,
        pow_nonce,
        mix_hash: *mix_hash,
        boundary: *boundary,
    };
    let seed = seal.seed_below_boundary()?;
    let mut hashes = [PowHash::ZERO];
    cache.hash_seeds(&[seed], &mut hashes);
    let [hash] = hashes;
    seal.compare_mix(&hash.mix_hash)
}

/// A seal, with what it is a seal of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seal {
    /// Hash of the header without its seal.
    pub header_hash: B256,
    /// The nonce.
    pub pow_nonce: u64,
    /// The claimed mix hash.
    pub mix_hash: B256,
    /// The highest valid final hash.
    pub boundary: B256,
}

/// Checks seals of one epoch as [`verify_seal`] does, with results in the same order.
///
/// Up to [`LIGHT_IN_FLIGHT`](crate::LIGHT_IN_FLIGHT) seals are checked at the same time, so that
/// the reads of many of them are under way: a single check waits for one read after the other.
pub fn verify_seals(cache: &LightCache, seals: &[Seal]) -> Vec<Result<(), SealError>> {
    let open = OpenSeals::of(seals);
    let mixes = mixes_of(cache, &open.seeds);
    open.compare(&mixes)
}

/// A device that computes the mix hashes of many seeds of one epoch, such as a graphics card.
///
/// The device is not told the claimed mix hashes. So a faulty device can refuse a right seal, but
/// a wrong seal that it accepts would be a mix hash of 256 bits that it has guessed.
pub trait MixDevice: fmt::Debug + Send + Sync {
    /// The mix hashes of `seeds`, in the same order. `cache` is the light cache of their epoch;
    /// `left` is the number of blocks from the first of them to the end of the epoch, from which
    /// the device decides whether a dataset is worth it.
    ///
    /// `None` if the processor must compute them: the device is not ready, too few are left, or it
    /// has failed.
    fn mix_hashes(&self, cache: &Arc<LightCache>, left: u64, seeds: &[[u64; 8]]) -> Option<Vec<B256>>;

    /// Tells that the processor has checked `count` seals of such a call in `time`.
    fn processor_took(&self, count: usize, time: Duration);

    /// Tells that a mix hash of the device differs from the processor's. The device gives no more.
    fn distrust(&self, mix_hash: GotExpected<B256>);
}

/// The most refused seals of a part that are checked again one by one.
const REFUSED_MAX: usize = 8;

/// Checks seals of one epoch as [`verify_seals`] does, with the mix hashes of a device.
///
/// The processor checks a sample of what the device says: each refused seal and a random one of
/// those accepted. `None` if the device gives no mix hashes, or a wrong one, or refuses more than
/// eight of the seals.
pub fn verify_seals_on(
    device: &dyn MixDevice,
    cache: &Arc<LightCache>,
    left: u64,
    seals: &[Seal],
) -> Option<Vec<Result<(), SealError>>> {
    let open = OpenSeals::of(seals);
    let mixes = device.mix_hashes(cache, left, &open.seeds)?;
    let claimed = open.places.iter().map(|place| seals[*place].mix_hash);
    let (accepted, mut sample): (Vec<_>, Vec<_>) = claimed
        .enumerate()
        .map(|(number, claimed)| (number, mixes.get(number) == Some(&claimed)))
        .partition(|(_, is_right)| *is_right);
    // Many wrong seals are left to the caller, who has all processors for them.
    let has_many_refused = sample.len() > REFUSED_MAX;
    sample.truncate(REFUSED_MAX);
    if !accepted.is_empty() {
        let random = RandomState::new().build_hasher().finish() as usize;
        sample.push(accepted[random % accepted.len()]);
    }
    let seeds: Vec<_> = sample.iter().map(|(number, _)| open.seeds[*number]).collect();
    for ((number, _), expected) in sample.iter().zip(mixes_of(cache, &seeds)) {
        let got = mixes.get(*number).copied().unwrap_or_default();
        if got != expected {
            device.distrust(GotExpected { got, expected });
            return None;
        }
    }
    (!has_many_refused).then(|| open.compare(&mixes))
}

/// The mix hashes of seeds, from the light cache.
fn mixes_of(cache: &LightCache, seeds: &[[u64; 8]]) -> Vec<B256> {
    let mut hashes = vec![PowHash::ZERO; seeds.len()];
    cache.hash_seeds(seeds, &mut hashes);
    hashes.into_iter().map(|hash| hash.mix_hash).collect()
}

/// Seals after the first step of their check. Those that passed it are open.
struct OpenSeals<'a> {
    seals: &'a [Seal],
    results: Vec<Result<(), SealError>>,
    /// The places of the open ones.
    places: Vec<usize>,
    /// The seeds of the open ones.
    seeds: Vec<[u64; 8]>,
}

impl<'a> OpenSeals<'a> {
    fn of(seals: &'a [Seal]) -> Self {
        let mut results = vec![Ok(()); seals.len()];
        let (mut places, mut seeds) = (Vec::with_capacity(seals.len()), Vec::with_capacity(seals.len()));
        for (place, (seal, result)) in seals.iter().zip(&mut results).enumerate() {
            match seal.seed_below_boundary() {
                Ok(seed) => {
                    places.push(place);
                    seeds.push(seed);
                }
                Err(error) => *result = Err(error),
            }
        }
        Self {
            seals,
            results,
            places,
            seeds,
        }
    }

    /// Compares the mix hashes of the open seals with the claimed ones.
    fn compare(mut self, mixes: &[B256]) -> Vec<Result<(), SealError>> {
        for (place, mix_hash) in self.places.into_iter().zip(mixes) {
            self.results[place] = self.seals[place].compare_mix(mix_hash);
        }
        self.results
    }
}

impl Seal {
    /// The seed, if the final hash of the claimed mix hash meets the boundary.
    fn seed_below_boundary(&self) -> Result<[u64; 8], SealError> {
        let seed = seed512(&self.header_hash, self.pow_nonce);
        let got = B256::from(final_hash_bytes(&seed, &lanes::<4>(&self.mix_hash.0)));
        if meets_boundary(&got, &self.boundary) {
            return Ok(seed);
        }
        Err(SealError::AboveBoundary {
            got,
            boundary: self.boundary,
        })
    }

    fn compare_mix(&self, expected: &B256) -> Result<(), SealError> {
        if self.mix_hash == *expected {
            return Ok(());
        }
        Err(SealError::MixHash(GotExpected {
            got: self.mix_hash,
            expected: *expected,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boundaries_round_down() {
        let check =
            |difficulty: U256, expected: U256| assert_eq!(boundary(&difficulty), B256::from(expected));
        check(U256::ZERO, U256::MAX);
        check(U256::ONE, U256::MAX);
        check(U256::from(2), U256::ONE << 255);
        check(U256::from(3), U256::MAX / U256::from(3));
        check(U256::from(512), U256::ONE << 247);
        check(U256::from(131_072), U256::ONE << 239);
        check((U256::ONE << 255) + U256::ONE, U256::ONE);
        check(U256::MAX, U256::ONE);
    }

    /// A device that computes with a light cache and tells what it was told.
    #[derive(Debug, Default)]
    struct TestDevice {
        /// The answer whose first byte is changed.
        wrong: Option<usize>,
        /// The number of answers that are left out.
        missing: usize,
        distrusted: parking_lot::Mutex<Option<GotExpected<B256>>>,
    }

    impl MixDevice for TestDevice {
        fn mix_hashes(&self, cache: &Arc<LightCache>, left: u64, seeds: &[[u64; 8]]) -> Option<Vec<B256>> {
            let mut mixes = (left > 0).then(|| mixes_of(cache, seeds))?;
            if let Some(wrong) = self.wrong {
                mixes[wrong].0[0] ^= 1;
            }
            mixes.truncate(seeds.len() - self.missing);
            Some(mixes)
        }

        fn processor_took(&self, _: usize, _: Duration) {}

        fn distrust(&self, mix_hash: GotExpected<B256>) {
            *self.distrusted.lock() = Some(mix_hash);
        }
    }

    #[test]
    fn a_device_gives_the_results_of_the_processor_or_none() {
        let cache = LightCache::with_sizes(B256::ZERO, 1024, 32_768).expect("sizes of the test dataset");
        let cache = Arc::new(cache);
        let mut seals: Vec<_> = (0..20)
            .map(|nonce| Seal {
                header_hash: B256::repeat_byte(7),
                pow_nonce: nonce,
                mix_hash: cache.hash(&B256::repeat_byte(7), nonce).mix_hash,
                boundary: B256::repeat_byte(0xff),
            })
            .collect();
        seals[3].boundary = B256::ZERO;
        seals[8].mix_hash.0[31] ^= 1;
        let expected = verify_seals(&cache, &seals);
        let check = |device: &TestDevice, left| verify_seals_on(device, &cache, left, &seals);
        let right = TestDevice::default();
        assert_eq!(check(&right, 1), Some(expected));
        assert_eq!(check(&right, 0), None, "it is not ready");
        assert_eq!(*right.distrusted.lock(), None);
        // A wrong answer makes a right seal a refused one, and each refused one is in the sample.
        for device in [
            TestDevice {
                wrong: Some(5),
                ..TestDevice::default()
            },
            TestDevice {
                missing: 1,
                ..TestDevice::default()
            },
        ] {
            assert_eq!(check(&device, 1), None, "{device:?}");
            let told = device.distrusted.lock().expect("the difference is told");
            assert_ne!(told.got, told.expected);
        }
        assert_eq!(verify_seals_on(&right, &cache, 1, &[]), Some(Vec::new()));
        // Of many wrong seals the device is believed no result, and is not blamed.
        let open = [0, 1, 2, 4, 5, 6, 7];
        for place in open {
            seals[place].mix_hash.0[31] ^= 1;
        }
        let check = |seals: &[Seal]| verify_seals_on(&right, &cache, 1, seals);
        assert_eq!(
            check(&seals),
            Some(verify_seals(&cache, &seals)),
            "{REFUSED_MAX} wrong"
        );
        seals[9].mix_hash.0[31] ^= 1;
        assert_eq!(check(&seals), None);
        assert_eq!(*right.distrusted.lock(), None);
    }

    #[test]
    fn seals_are_checked_in_full() {
        let cache = LightCache::with_sizes(B256::ZERO, 1024, 32_768).expect("sizes of the test dataset");
        let header_hash = B256::repeat_byte(0x11);
        let hash = cache.hash(&header_hash, 99);
        assert_eq!(final_hash(&header_hash, 99, &hash.mix_hash), hash.final_hash);

        let check =
            |nonce, mix: &B256, boundary: &B256| verify_seal(&cache, &header_hash, nonce, mix, boundary);
        assert_eq!(
            check(99, &hash.mix_hash, &hash.final_hash),
            Ok(()),
            "equality is valid"
        );
        let lower = B256::from(U256::from_be_bytes(hash.final_hash.0) - U256::ONE);
        let above = SealError::AboveBoundary {
            got: hash.final_hash,
            boundary: lower,
        };
        assert_eq!(check(99, &hash.mix_hash, &lower), Err(above));

        // Many seals get the results that each gets alone, in groups of every size.
        for count in [0, 1, 7, 8, 9, 63, 64, 65, 150] {
            let seals: Vec<_> = (0..count)
                .map(|index| {
                    let header_hash = B256::with_last_byte(index);
                    let mut seal = Seal {
                        header_hash,
                        pow_nonce: index.into(),
                        mix_hash: cache.hash(&header_hash, index.into()).mix_hash,
                        boundary: B256::repeat_byte(0xff),
                    };
                    match index % 5 {
                        1 => seal.mix_hash.0[3] ^= 1,
                        2 => seal.boundary = B256::ZERO,
                        _ => {}
                    }
                    seal
                })
                .collect();
            let alone = |seal: &Seal| {
                verify_seal(
                    &cache,
                    &seal.header_hash,
                    seal.pow_nonce,
                    &seal.mix_hash,
                    &seal.boundary,
                )
            };
            let expected: Vec<_> = seals.iter().map(alone).collect();
            assert_eq!(verify_seals(&cache, &seals), expected, "{count} seals");
            let faults = expected.iter().filter(|result| result.is_err()).count();
            assert_eq!(faults, seals.len() / 5 * 2 + [0, 0, 1, 2, 2][seals.len() % 5]);
        }

        let mut wrong = hash.mix_hash;
        wrong.0[31] ^= 1;
        let mismatch = SealError::MixHash(GotExpected {
            got: wrong,
            expected: hash.mix_hash,
        });
        assert_eq!(check(99, &wrong, &B256::repeat_byte(0xff)), Err(mismatch));
        assert!(mismatch.to_string().contains("got 0x"), "{mismatch}");
        assert!(matches!(
            check(100, &hash.mix_hash, &B256::repeat_byte(0xff)),
            Err(SealError::MixHash(_))
        ));
    }
}
