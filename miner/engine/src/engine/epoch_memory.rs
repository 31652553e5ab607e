//! Whether the devices of an engine have the memory for an epoch, before anything is made for it.
//!
//! The light cache must fit into the free memory of this machine. The dataset must fit into the
//! memory of at least one graphics adapter, unless the CPU searches too: the CPU goes on with the
//! light cache where it has no memory for a dataset.

use ethash::{Epoch, SizeError, cache_bytes, dataset_bytes};

use crate::dataset::{FreeMemory, MemoryShortage};
use crate::gpu::AdapterInfo;
use crate::sensors;

/// The reasons why an engine cannot search an epoch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EpochRefusal {
    /// The epoch has no cache and no dataset.
    #[error(transparent)]
    Size(#[from] SizeError),
    /// The light cache is larger than the free memory.
    #[error("its light cache needs {bytes} bytes of memory, and {available} are free")]
    LightCache {
        /// Size of the light cache.
        bytes: u64,
        /// The free memory.
        available: u64,
    },
    /// The dataset is larger than the memory of every device.
    #[error(
        "its dataset has {bytes} bytes, and the largest memory for it is {available} bytes, that of {device}"
    )]
    Dataset {
        /// Size of the dataset.
        bytes: u64,
        /// The most bytes that a device can hold.
        available: u64,
        /// The device with the most memory.
        device: String,
    },
    /// The engine was stopped.
    #[error("the engine has ended")]
    Ended,
}

/// The sizes that the devices of an engine can hold.
#[derive(Clone, Debug, Default)]
pub(crate) struct EpochMemory {
    /// The memory of each graphics adapter for a dataset, with its name.
    adapters: Vec<(u64, String)>,
    memory: FreeMemory,
}

impl EpochMemory {
    /// Asks the drivers how much memory `adapters` have.
    pub(crate) fn new(adapters: &[AdapterInfo]) -> Self {
        let adapter = |adapter: &AdapterInfo| {
            let memory = match &adapter.pci_bus {
                Some(bus) => sensors::memory_bytes(bus),
                None => None,
            };
            let bytes = adapter.largest_dataset_bytes();
            (
                memory.map_or(bytes, |memory| memory.min(bytes)),
                format!("gpu:{} ({})", adapter.index, adapter.name),
            )
        };
        Self {
            adapters: adapters.iter().map(adapter).collect(),
            memory: FreeMemory::default(),
        }
    }

    /// Checks `epoch`. `has_cache`: its light cache exists. `cpu`: the CPU searches too.
    ///
    /// # Errors
    /// [`EpochRefusal`] if the epoch cannot be searched.
    pub(crate) fn check(&self, epoch: Epoch, has_cache: bool, cpu: bool) -> Result<(), EpochRefusal> {
        let bytes = cache_bytes(epoch.index)?;
        if !has_cache && let Some(MemoryShortage { available, .. }) = self.memory.cache_shortage(bytes) {
            return Err(EpochRefusal::LightCache { bytes, available });
        }
        let bytes = dataset_bytes(epoch.index)?;
        match self.adapters.iter().max_by_key(|(available, _)| *available) {
            Some((available, device)) if !cpu && bytes > *available => Err(EpochRefusal::Dataset {
                bytes,
                available: *available,
                device: device.clone(),
            }),
            _ => Ok(()),
        }
    }
}

/// Checks whether a benchmark of `epoch` on `adapters`, and with `cpu` on the processor, fits into
/// memory. `full`: the full dataset is made, not only the light cache.
///
/// # Errors
/// [`EpochRefusal`] if the light cache does not fit, or the dataset fits into no device.
pub fn check_bench_memory(
    epoch: Epoch,
    adapters: &[AdapterInfo],
    cpu: bool,
    full: bool,
) -> Result<(), EpochRefusal> {
    let mut memory = EpochMemory::new(adapters);
    let shortage = memory.memory.shortage(dataset_bytes(epoch.index)?);
    if cpu {
        let available = shortage.map_or(u64::MAX, |shortage| shortage.available);
        memory.adapters.push((available, "the processor".into()));
    }
    memory.check(epoch, false, !full)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn check(adapters: &[u64]) -> EpochMemory {
        EpochMemory {
            adapters: adapters
                .iter()
                .map(|bytes| (*bytes, format!("card of {bytes}")))
                .collect(),
            memory: FreeMemory {
                available: || Some(20 << 20),
                patience: Duration::ZERO,
            },
        }
    }

    #[test]
    fn the_light_cache_must_fit_into_the_free_memory() {
        let check = check(&[]);
        assert_eq!(
            check.check(Epoch::ethash(31), false, true),
            Ok(()),
            "20 MiB less 2 KiB"
        );
        let refusal = check
            .check(Epoch::ethash(33), false, true)
            .expect_err("too large");
        assert_eq!(
            refusal.to_string(),
            "its light cache needs 21102272 bytes of memory, and 20971520 are free"
        );
        assert_eq!(check.check(Epoch::ethash(33), true, true), Ok(()), "it exists");
        assert!(check.check(Epoch::ethash(u32::MAX), true, true).is_err());
    }

    #[test]
    fn the_dataset_must_fit_into_one_device() {
        let epoch = Epoch::ethash(20);
        let check = check(&[1 << 30, 1 << 31]);
        assert_eq!(check.check(epoch, true, false), Ok(()), "1.2 GB");
        let large = Epoch::ethash(200);
        let refusal = check.check(large, true, false).expect_err("2.7 GB");
        assert!(
            refusal.to_string().contains("that of card of 2147483648"),
            "{refusal}"
        );
        assert_eq!(
            check.check(large, true, true),
            Ok(()),
            "the CPU searches with the light cache"
        );
    }
}
