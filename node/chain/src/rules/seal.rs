//! Checks the proof-of-work seal of a header with the light cache of its epoch.
//!
//! This module knows headers and epochs. The check itself is in [`ethash::verify_seal`].

use ethash::{CacheError, LightCaches, NEXT_EPOCH_LEAD_BLOCKS, SealError};
use primitives::{B256, Header};

use crate::spec::ChainSpec;

/// The mode in which seals are checked. All other rules are always checked.
#[derive(Clone, Debug)]
pub enum SealCheck {
    /// By Ethash, with these light caches.
    Ethash(LightCaches),
    /// Not at all. This is for test vectors whose blocks have no seals.
    Off,
    /// By this function. This is for simulations, which need seals that cost nothing and can still
    /// be wrong.
    Given(fn(&Header) -> bool),
}

/// The reason why a seal is rejected, or could not be checked.
#[derive(Debug, thiserror::Error)]
pub enum SealCheckError {
    /// The seal is wrong.
    #[error(transparent)]
    Seal(#[from] SealError),
    /// The light cache of the epoch cannot be built.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The function of a simulation says no.
    #[error("nonce {pow_nonce:#x} and mix hash {mix_hash} are no seal in this simulation")]
    Given {
        /// The nonce in the header.
        pow_nonce: u64,
        /// The mix hash in the header.
        mix_hash: B256,
    },
}

impl SealCheck {
    /// Starts to build the next epoch's light cache in the background, if block `number` is near
    /// the end of its epoch.
    pub(crate) fn prepare_ahead(&self, spec: &ChainSpec, number: u64) {
        let Self::Ethash(caches) = self else { return };
        let soon = spec.schedule.epoch(number.saturating_add(NEXT_EPOCH_LEAD_BLOCKS));
        if soon != spec.schedule.epoch(number) {
            caches.prepare(soon);
        }
    }

    /// Checks the seal of a header.
    ///
    /// # Errors
    /// [`SealCheckError`] when the seal is wrong or cannot be checked.
    pub fn check_seal(&self, spec: &ChainSpec, header: &Header) -> Result<(), SealCheckError> {
        let caches = match self {
            Self::Ethash(caches) => caches,
            Self::Off => return Ok(()),
            Self::Given(is_right) if is_right(header) => return Ok(()),
            Self::Given(_) => {
                return Err(SealCheckError::Given {
                    pow_nonce: header.pow_nonce,
                    mix_hash: header.mix_hash,
                });
            }
        };
        let cache = caches.get(spec.schedule.epoch(header.number))?;
        let boundary = ethash::boundary(&header.difficulty);
        ethash::verify_seal(
            &cache,
            &header.header_hash(),
            header.pow_nonce,
            &header.mix_hash,
            &boundary,
        )?;
        Ok(())
    }
}
