//! Checks the proof-of-work seal of a header with the light cache of its epoch.
//!
//! This module knows headers and epochs. The check itself is in [`ethash::verify_seal`].

use std::sync::Arc;
use std::time::Instant;

use ethash::{
    CacheError, Epoch, LIGHT_IN_FLIGHT, LightCaches, MixDevice, NEXT_EPOCH_LEAD_BLOCKS, Schedule, Seal,
    SealError,
};
use primitives::{B256, Header};

use crate::parallel::{for_each_in_order, processors};
use crate::spec::ChainSpec;

/// The mode in which seals are checked. All other rules are always checked.
#[derive(Clone, Debug)]
pub enum SealCheck {
    /// By Ethash, with these light caches.
    Ethash(LightCaches),
    /// As [`SealCheck::Ethash`], but many headers that come together are checked on this device, as
    /// far as it takes them. The processor checks the others, single headers, and samples.
    OnDevice(LightCaches, Arc<dyn MixDevice>),
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
    /// The light caches, if seals are checked by Ethash.
    pub(crate) const fn light_caches(&self) -> Option<&LightCaches> {
        match self {
            Self::Ethash(caches) | Self::OnDevice(caches, _) => Some(caches),
            Self::Off | Self::Given(_) => None,
        }
    }

    /// Starts to build the light cache for block `number` in the background, unless it is there.
    pub(crate) fn prepare(&self, spec: &ChainSpec, number: u64) {
        if let Some(caches) = self.light_caches() {
            caches.prepare(spec.schedule.epoch(number));
        }
    }

    /// Starts to build the next epoch's light cache in the background, if block `number` is near
    /// the end of its epoch.
    pub(crate) fn prepare_ahead(&self, spec: &ChainSpec, number: u64) {
        let Some(caches) = self.light_caches() else { return };
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
            Self::Ethash(caches) | Self::OnDevice(caches, _) => caches,
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
        let Seal {
            header_hash,
            pow_nonce,
            mix_hash,
            boundary,
        } = seal_of(header);
        ethash::verify_seal(&cache, &header_hash, pow_nonce, &mix_hash, &boundary)?;
        Ok(())
    }

    /// Checks the seals of headers, on all processors and many at a time on each. Gives `consume`
    /// the index of each header with its result, in order, until `consume` returns an error.
    ///
    /// # Errors
    /// The first error of `consume`.
    pub fn check_seals<E>(
        &self,
        spec: &ChainSpec,
        headers: &[&Header],
        mut consume: impl FnMut(usize, Result<(), SealCheckError>) -> Result<(), E>,
    ) -> Result<(), E> {
        let epoch = |header: &Header| spec.schedule.epoch(header.number);
        let mut index = 0;
        let mut consume_all = |results: Vec<_>| {
            results.into_iter().try_for_each(|result| {
                index += 1;
                consume(index - 1, result)
            })
        };
        for headers in headers.chunk_by(|one, other| epoch(one) == epoch(other)) {
            if let Some(results) = self.check_on_device(spec, headers) {
                consume_all(results)?;
                continue;
            }
            let start = Instant::now();
            // Each processor gets a part, also of few headers.
            let part = headers.len().div_ceil(processors()).clamp(1, LIGHT_IN_FLIGHT);
            for_each_in_order(
                headers.chunks(part),
                |part| {
                    if let Some(header) = part.last() {
                        self.prepare_ahead(spec, header.number);
                    }
                    self.check_epoch(spec, part)
                },
                &mut consume_all,
            )?;
            if let Self::OnDevice(_, device) = self {
                device.processor_took(headers.len(), start.elapsed());
            }
        }
        Ok(())
    }

    /// Checks the seals of headers of one epoch on the device, if there is one and it takes them.
    fn check_on_device(
        &self,
        spec: &ChainSpec,
        headers: &[&Header],
    ) -> Option<Vec<Result<(), SealCheckError>>> {
        let (Self::OnDevice(caches, device), [first, .., last]) = (self, headers) else {
            return None;
        };
        self.prepare_ahead(spec, last.number);
        let epoch = spec.schedule.epoch(first.number);
        let left = (epoch.first_block() + epoch.length()).saturating_sub(first.number);
        let cache = caches.get(epoch).ok()?;
        let seals: Vec<_> = headers.iter().map(|header| seal_of(header)).collect();
        let results = ethash::verify_seals_on(&**device, &cache, left, &seals)?;
        // A card is through an epoch before the next cache is built alone.
        caches.prepare_many(&following(spec.schedule, epoch));
        Some(
            results
                .into_iter()
                .map(|result| result.map_err(Into::into))
                .collect(),
        )
    }

    /// Checks the seals of headers of one epoch.
    fn check_epoch(&self, spec: &ChainSpec, headers: &[&Header]) -> Vec<Result<(), SealCheckError>> {
        let (Some(caches), [first, ..]) = (self.light_caches(), headers) else {
            return headers
                .iter()
                .map(|header| self.check_seal(spec, header))
                .collect();
        };
        let Ok(cache) = caches.get(spec.schedule.epoch(first.number)) else {
            // Each check reports the error of the cache.
            return headers
                .iter()
                .map(|header| self.check_seal(spec, header))
                .collect();
        };
        let seals: Vec<_> = headers.iter().map(|header| seal_of(header)).collect();
        let results = ethash::verify_seals(&cache, &seals).into_iter();
        results.map(|result| result.map_err(Into::into)).collect()
    }
}

/// The five epochs after `epoch`.
fn following(schedule: Schedule, mut epoch: Epoch) -> [Epoch; 5] {
    core::array::from_fn(|_| {
        epoch = schedule.epoch(epoch.first_block().saturating_add(epoch.length()));
        epoch
    })
}

fn seal_of(header: &Header) -> Seal {
    Seal {
        header_hash: header.header_hash(),
        pow_nonce: header.pow_nonce,
        mix_hash: header.mix_hash,
        boundary: ethash::boundary(&header.difficulty),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_following_epochs_are_those_of_the_schedule() {
        let ethash = following(Schedule::Ethash, Epoch::ethash(7));
        assert_eq!(ethash, [8, 9, 10, 11, 12].map(Epoch::ethash));
        let fork_block = 390 * Epoch::ethash(0).length();
        let across = following(Schedule::Etchash { fork_block }, Epoch::ethash(388));
        assert_eq!(across[0], Epoch::ethash(389));
        assert_eq!(across[1..], [195, 196, 197, 198].map(Epoch::etchash));
    }
}
