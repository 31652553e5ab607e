//! Nonces whose hits the CPU knows, to compare kernels with.

use engine::gpu::{GpuHit, GpuSearcher, GpuWork};
use engine::threads::run_parallel;
use ethash::{B256, LIGHT_IN_FLIGHT, LightCache};

use super::figure::FigureError;

/// One hash in this many is a hit.
const NONCES_PER_HIT: u64 = 8;

/// Consecutive nonces and their hits, computed on the CPU.
pub(super) struct HitSample {
    work: GpuWork,
    expected: Vec<GpuHit>,
}

impl HitSample {
    /// Hashes `nonces` nonces from the light cache on `threads` threads.
    pub(super) fn new(cache: &LightCache, threads: usize, nonces: u64) -> Self {
        let mut boundary = B256::repeat_byte(0xff);
        boundary.0[..8].copy_from_slice(&(u64::MAX / NONCES_PER_HIT).to_be_bytes());
        let work = GpuWork {
            id: 0,
            header_hash: B256::repeat_byte(0x77),
            boundary,
            // The numbers cross the end of the low word.
            start_nonce: u64::from(u32::MAX) - nonces / 2,
            nonces,
        };
        let threads = threads.max(1);
        let groups = nonces.div_ceil(LIGHT_IN_FLIGHT as u64);
        let mut expected: Vec<_> = run_parallel("hits", threads, |thread| {
            let mut hits = Vec::new();
            for group in (thread as u64..groups).step_by(threads) {
                let first = work.start_nonce + group * LIGHT_IN_FLIGHT as u64;
                let numbers: [u64; LIGHT_IN_FLIGHT] = core::array::from_fn(|i| first + i as u64);
                let hashes = cache.hash_many(&work.header_hash, numbers);
                let of_sample = numbers
                    .into_iter()
                    .zip(hashes)
                    .filter(|(nonce, hash)| nonce - work.start_nonce < nonces && hash.final_hash <= boundary);
                hits.extend(of_sample.map(|(pow_nonce, hash)| GpuHit {
                    pow_nonce,
                    mix_hash: hash.mix_hash,
                }));
            }
            hits
        })
        .into_iter()
        .flatten()
        .collect();
        expected.sort_unstable_by_key(|hit| hit.pow_nonce);
        Self { work, expected }
    }

    /// The number of nonces.
    pub(super) const fn nonces(&self) -> u64 {
        self.work.nonces
    }

    /// The number of hits.
    pub(super) const fn hits(&self) -> usize {
        self.expected.len()
    }

    /// Compares the hits of `searcher` with those of the CPU. Ends the search under way.
    pub(super) fn check(&self, searcher: &mut GpuSearcher) -> Result<(), FigureError> {
        let got = searcher.search(self.work, self.work.nonces)?;
        if got == self.expected {
            return Ok(());
        }
        let differing = (got.iter().zip(&self.expected)).position(|(got, expected)| got != expected);
        let place = differing.unwrap_or_else(|| got.len().min(self.expected.len()));
        let nonce =
            |hit: Option<&GpuHit>| hit.map_or_else(|| "none".to_owned(), |hit| hit.pow_nonce.to_string());
        Err(FigureError::Wrong(format!(
            "hit {place}: got nonce {} of {} hits, expected nonce {} of {} hits, or another mix hash",
            nonce(got.get(place)),
            got.len(),
            nonce(self.expected.get(place)),
            self.expected.len(),
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hits_are_those_of_single_hashes_whatever_the_threads() {
        let cache = LightCache::with_sizes(ethash::seed_hash(0), 1024, 32_768).expect("the test sizes");
        let one = HitSample::new(&cache, 1, 203);
        assert!((10..50).contains(&one.hits()), "{}", one.hits());
        for hit in &one.expected {
            let hash = cache.hash(&one.work.header_hash, hit.pow_nonce);
            assert_eq!(hash.mix_hash, hit.mix_hash);
            assert!(hash.final_hash <= one.work.boundary);
        }
        let all = (0..203).filter(|offset| {
            let hash = cache.hash(&one.work.header_hash, one.work.start_nonce + offset);
            hash.final_hash <= one.work.boundary
        });
        assert_eq!(all.count(), one.hits());
        assert_eq!(HitSample::new(&cache, 3, 203).expected, one.expected);
    }
}
