//! Sizes of light cache and dataset by epoch.
//!
//! The size grows linearly with the epoch, and is then reduced to a prime number of rows or items.
//! The prime is found with a deterministic Miller-Rabin test, so no table is needed. Every epoch up
//! to [`MAX_EPOCH`](crate::MAX_EPOCH) has a size.

use crate::{
    CACHE_BYTES_GROWTH, CACHE_BYTES_INIT, DATASET_BYTES_GROWTH, DATASET_BYTES_INIT, ITEM_BYTES, MAX_EPOCH,
    ROW_BYTES,
};

/// The epoch is too high to have sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("epoch: got {got}, expected at most {max}, the last epoch whose indices fit 32 bits")]
pub struct SizeError {
    /// The requested epoch.
    pub got: u32,
    /// The highest possible epoch, [`MAX_EPOCH`].
    pub max: u32,
}

/// Size in bytes of the light cache of epoch `epoch_index`.
///
/// # Errors
/// [`SizeError`] if the epoch is above [`MAX_EPOCH`].
pub fn cache_bytes(epoch_index: u32) -> Result<u64, SizeError> {
    prime_size(
        epoch_index,
        CACHE_BYTES_INIT,
        CACHE_BYTES_GROWTH,
        ROW_BYTES as u64,
    )
}

/// Size in bytes of the full dataset of epoch `epoch_index`.
///
/// # Errors
/// [`SizeError`] if the epoch is above [`MAX_EPOCH`].
pub fn dataset_bytes(epoch_index: u32) -> Result<u64, SizeError> {
    prime_size(
        epoch_index,
        DATASET_BYTES_INIT,
        DATASET_BYTES_GROWTH,
        ITEM_BYTES as u64,
    )
}

/// Number of 64-byte rows in the light cache of epoch `epoch_index`.
///
/// # Errors
/// [`SizeError`] if the epoch is above [`MAX_EPOCH`].
pub fn cache_rows(epoch_index: u32) -> Result<u32, SizeError> {
    // The cast cannot truncate: the largest cache has 67,106,813 rows.
    cache_bytes(epoch_index).map(|bytes| (bytes / ROW_BYTES as u64) as u32)
}

/// Number of 128-byte items in the full dataset of epoch `epoch_index`.
///
/// # Errors
/// [`SizeError`] if the epoch is above [`MAX_EPOCH`].
pub fn dataset_items(epoch_index: u32) -> Result<u32, SizeError> {
    // The cast cannot truncate: up to MAX_EPOCH even twice the item count fits 32 bits.
    dataset_bytes(epoch_index).map(|bytes| (bytes / ITEM_BYTES as u64) as u32)
}

/// `unit` times the largest prime number of units that is below the linear size of the epoch, in
/// bytes.
fn prime_size(epoch_index: u32, init: u64, growth: u64, unit: u64) -> Result<u64, SizeError> {
    if epoch_index > MAX_EPOCH {
        return Err(SizeError {
            got: epoch_index,
            max: MAX_EPOCH,
        });
    }
    // The linear size is an even number of units, so the first candidate below it is odd.
    let mut count = (init + growth * u64::from(epoch_index)) / unit - 1;
    while !is_prime(count) {
        count -= 2;
    }
    Ok(count * unit)
}

/// Miller-Rabin test with the bases 2, 3, 5 and 7. It is exact for every number below 3,215,031,751
/// (<https://oeis.org/A014233>).
///
/// `n` must be below 2^32, so that products fit 64 bits. Counts of rows and items are below 2^31.
fn is_prime(n: u64) -> bool {
    const BASES: [u64; 4] = [2, 3, 5, 7];
    if n < 2 {
        return false;
    }
    for base in BASES {
        if n.is_multiple_of(base) {
            return n == base;
        }
    }
    let twos = (n - 1).trailing_zeros();
    let odd = (n - 1) >> twos;
    BASES.iter().all(|&base| {
        let mut power = pow_mod(base, odd, n);
        if power == 1 || power == n - 1 {
            return true;
        }
        for _ in 1..twos {
            power = power * power % n;
            if power == n - 1 {
                return true;
            }
        }
        false
    })
}

/// `base ^ exponent mod modulus` for a modulus below 2^32.
const fn pow_mod(base: u64, mut exponent: u64, modulus: u64) -> u64 {
    let mut square = base % modulus;
    let mut result = 1;
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = result * square % modulus;
        }
        square = square * square % modulus;
        exponent >>= 1;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The slow definition, with which the fast test is compared.
    fn is_prime_by_division(n: u64) -> bool {
        n >= 2 && (2..).take_while(|d| d * d <= n).all(|d| !n.is_multiple_of(d))
    }

    #[test]
    fn primes_agree_with_trial_division() {
        for n in (0..20_000).chain(8_388_000..8_389_000) {
            assert_eq!(is_prime(n), is_prime_by_division(n), "{n}");
        }
        // Composite numbers that pass the test for some of the bases.
        for n in [2_047, 1_373_653, 25_326_001] {
            assert!(!is_prime(n), "{n} is composite");
        }
    }

    #[test]
    fn neighbours_of_a_size_are_not_prime() {
        for epoch in [0, 1, 128, 385, 32_639] {
            let rows = u64::from(cache_rows(epoch).expect("within range"));
            let bound = (CACHE_BYTES_INIT + CACHE_BYTES_GROWTH * u64::from(epoch)) / 64;
            assert!(is_prime_by_division(rows));
            assert!(
                (rows + 1..bound).all(|n| !is_prime_by_division(n)),
                "epoch {epoch}"
            );
        }
    }

    #[test]
    fn epochs_above_the_last_are_refused() {
        let error = SizeError {
            got: 32_640,
            max: MAX_EPOCH,
        };
        assert_eq!(cache_bytes(32_640), Err(error));
        assert_eq!(dataset_items(32_640), Err(error));
        assert!(dataset_items(MAX_EPOCH).is_ok_and(|items| items.checked_mul(2).is_some()));
        assert!(dataset_bytes(u32::MAX).is_err());
    }
}
