//! The check of seals, as the options choose it: by the processor, or with a graphics card.

use std::sync::Arc;

use chain::rules::seal::SealCheck;
use engine::gpu::{GpuError, GpuOptions};
use engine::{SealCard, SealCounts, SealDevice};
use ethash::{Epoch, LightCaches};
use metrics::{counter, describe_counter};

use crate::node_metrics::Collector;
use crate::options::VnodeOptions;

/// `--verify.device` names a card that is not there.
#[derive(Debug, thiserror::Error)]
#[error("--verify.device {device}: {source}; `miner devices` lists the adapters")]
pub struct SealDeviceError {
    /// The device.
    device: SealDevice,
    source: GpuError,
}

/// The light caches of a program and its card for seals, if it has one. Clones share both.
#[derive(Clone, Debug)]
pub(crate) struct SealChecker {
    pub(crate) caches: LightCaches,
    card: Option<Arc<SealCard>>,
    /// `--fakepow`: every seal is right.
    is_off: bool,
}

impl SealChecker {
    /// Chooses the device. A card is opened only when many headers come. A node that mines leaves
    /// its cards to the miner, unless the options name one for seals.
    ///
    /// # Errors
    /// [`SealDeviceError`] if a card is named that is not there.
    pub(crate) fn new(options: &VnodeOptions, caches: LightCaches) -> Result<Self, SealDeviceError> {
        let device = match options.verify_device {
            SealDevice::Auto if options.mine => SealDevice::Cpu,
            device => device,
        };
        let card = SealCard::new(device, GpuOptions::default())
            .map_err(|source| SealDeviceError { device, source })?;
        Ok(Self {
            caches,
            card: card.map(Arc::new),
            is_off: options.fakepow,
        })
    }

    /// The check.
    pub(crate) fn check(&self) -> SealCheck {
        match &self.card {
            _ if self.is_off => SealCheck::Off,
            Some(card) => SealCheck::OnDevice(self.caches.clone(), card.clone()),
            None => SealCheck::Ethash(self.caches.clone()),
        }
    }

    /// Starts to build the light cache of `epoch`, unless no seal is checked.
    pub(crate) fn prepare(&self, epoch: Epoch) {
        if !self.is_off {
            self.caches.prepare(epoch);
        }
    }

    /// The counts of seals of headers that came in bulk.
    pub(crate) fn counts(&self) -> SealCounts {
        self.card.as_ref().map(|card| card.counts()).unwrap_or_default()
    }

    /// Closes the card. The processor checks all seals from now on.
    pub(crate) fn close(&self) {
        if let Some(card) = &self.card {
            card.close();
        }
    }

    /// Reads who has checked the seals of headers that came in bulk.
    pub(crate) fn collector(&self) -> Collector {
        describe_counter!(
            "vnode_bulk_seals_total",
            "Seals of headers that came in bulk, by the device that has computed their mix hashes."
        );
        describe_counter!(
            "vnode_seal_card_failures_total",
            "Failures of the graphics card for seals. After one the processor checks all."
        );
        let checker = self.clone();
        Box::new(move || {
            let counts = checker.counts();
            counter!("vnode_bulk_seals_total", "by" => "card").absolute(counts.by_card);
            counter!("vnode_bulk_seals_total", "by" => "processor").absolute(counts.by_processor);
            counter!("vnode_seal_card_failures_total").absolute(counts.failures);
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn options(arguments: &[&str]) -> VnodeOptions {
        VnodeOptions::parse_from(["vnode", "--dev"].iter().chain(arguments))
    }

    #[test]
    fn a_node_that_mines_leaves_its_cards_to_the_miner() {
        let device = |arguments: &[&str]| {
            let checker = SealChecker::new(&options(arguments), LightCaches::new());
            checker.expect("nothing is opened").card.is_some()
        };
        assert!(!device(&[]));
        let auto = ["--verify.device", "auto"];
        assert!(device(&auto), "it is looked for when many headers come");
        assert!(!device(&[auto[0], auto[1], "--mine"]));
        let refused = SealChecker::new(&options(&["--verify.device", "gpu:99"]), LightCaches::new());
        let error = refused.expect_err("nobody has a hundred").to_string();
        assert!(
            error.starts_with("--verify.device gpu:99: no adapter 99: "),
            "{error}"
        );
    }
}
