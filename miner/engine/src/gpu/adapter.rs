//! The adapters of this machine. Opens one by its index, or finds one that was listed before.
//!
//! Knows nothing of kernels. On a machine without a driver the list is empty, which is not an
//! error.

use super::error::GpuError;
use super::kernel_form::{GenerationForm, KernelForm};
use super::page_layout::{page_bytes, pages_max};

/// The largest part of the device memory that this process may use, in percent of what the driver
/// grants.
pub(crate) const MEMORY_PERCENT_MAX: u8 = 97;

/// The properties of an adapter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdapterInfo {
    /// The index in the list of adapters. [`GpuSearcher::new`](super::GpuSearcher::new) takes it.
    pub index: usize,
    /// The name of the card.
    pub name: String,
    /// Vulkan, Metal or Dx12.
    pub backend: String,
    /// The name and the version of the driver.
    pub driver: String,
    /// Whether the adapter is a program on the CPU. The CPU searcher is far faster than that.
    pub software: bool,
    /// The largest buffer that a kernel can bind, in bytes.
    pub max_binding: u64,
    /// The largest buffer, in bytes.
    pub max_buffer: u64,
    /// The most buffers of a dataset that a kernel can bind.
    pub max_pages: u32,
    /// The smallest number of invocations in a subgroup. 0 if the adapter has no subgroup
    /// operations.
    pub subgroup_size: u32,
    /// The address on the PCI bus, like `0000:01:00.0`. `None` if the driver does not tell it.
    pub pci_bus: Option<String>,
}

impl AdapterInfo {
    fn new(index: usize, adapter: &wgpu::Adapter) -> Self {
        let info = adapter.get_info();
        let limits = adapter.limits();
        let shuffles = adapter.features().contains(wgpu::Features::SUBGROUP);
        Self {
            index,
            driver: format!("{} {}", info.driver, info.driver_info).trim().to_owned(),
            backend: format!("{:?}", info.backend),
            software: info.device_type == wgpu::DeviceType::Cpu,
            pci_bus: Some(info.device_pci_bus_id.to_ascii_lowercase()).filter(|bus| !bus.is_empty()),
            name: info.name,
            max_binding: limits.max_storage_buffer_binding_size,
            max_buffer: limits.max_buffer_size,
            max_pages: pages_max(&limits),
            subgroup_size: if shuffles { info.subgroup_min_size } else { 0 },
        }
    }

    /// The features that the kernels use, as far as the adapter has them.
    pub(crate) fn kernel_features(&self) -> wgpu::Features {
        let mut features = wgpu::Features::empty();
        let has_shuffles = KernelForm::Shuffle.runs_on(self) || GenerationForm::Shuffle.runs_on(self);
        features.set(wgpu::Features::SUBGROUP, has_shuffles);
        features
    }

    /// The size in bytes of the largest dataset that the kernels could bind. The memory of the card
    /// may be smaller.
    pub(crate) fn largest_dataset_bytes(&self) -> u64 {
        let bytes = self.max_binding.min(self.max_buffer);
        page_bytes(bytes).saturating_mul(self.max_pages.into())
    }

    /// Whether `other` is this card through the same library. Cards are compared by their bus
    /// address if it is known, and otherwise by name and driver.
    fn is_same_card(&self, other: &Self) -> bool {
        self.backend == other.backend
            && match &self.pci_bus {
                Some(bus) => other.pci_bus.as_ref() == Some(bus),
                None => self.name == other.name && self.driver == other.driver,
            }
    }
}

/// Keeps a Vulkan layer of Mesa from writing to standard error, because a log there may have to be
/// JSON.
///
/// The layer only sorts the adapters. This program selects them by number, so it does not need the
/// layer.
///
/// # Safety
/// Sets an environment variable. No other thread may exist, so call it first in `main`.
pub unsafe fn quiet_drivers() {
    // SAFETY: the caller guarantees that no other thread reads the environment now.
    #[cfg(target_os = "linux")]
    unsafe {
        std::env::set_var("NODEVICE_SELECT", "1");
    }
}

/// Lists all adapters in the order of the driver. The list is empty if there is no driver.
pub fn list_adapters() -> Vec<AdapterInfo> {
    adapters()
        .iter()
        .enumerate()
        .map(|(index, adapter)| AdapterInfo::new(index, adapter))
        .collect()
}

/// Returns the adapter at `index` of the list.
pub(crate) fn adapter(index: usize) -> Result<(wgpu::Adapter, AdapterInfo), GpuError> {
    let mut all = adapters();
    if index >= all.len() {
        return Err(GpuError::NoAdapter {
            wanted: index,
            found: all.len(),
        });
    }
    let adapter = all.swap_remove(index);
    let info = AdapterInfo::new(index, &adapter);
    Ok((adapter, info))
}

/// Finds the adapter `wanted`, whose index may have changed since it was listed.
pub(crate) fn find(wanted: &AdapterInfo) -> Result<(wgpu::Adapter, AdapterInfo), GpuError> {
    let mut all = adapters();
    let mut infos: Vec<_> = (0..)
        .zip(&all)
        .map(|(index, adapter)| AdapterInfo::new(index, adapter))
        .collect();
    let Some(index) = index_of(wanted, &infos) else {
        let bus = wanted.pci_bus.as_ref().map(|bus| format!(" ({bus})"));
        return Err(GpuError::AdapterAbsent {
            adapter: format!("{}{}", wanted.name, bus.unwrap_or_default()),
            found: infos.len(),
        });
    };
    Ok((all.swap_remove(index), infos.swap_remove(index)))
}

/// Returns the index of `wanted` in a newer list.
///
/// Several entries may match: the same card twice, or equal cards without a known bus address. Then
/// an entry with the same driver goes first, and among these the one with the same index.
fn index_of(wanted: &AdapterInfo, list: &[AdapterInfo]) -> Option<usize> {
    list.iter()
        .enumerate()
        .filter(|(_, info)| wanted.is_same_card(info))
        .min_by_key(|(place, info)| (info.driver != wanted.driver, *place != wanted.index))
        .map(|(place, _)| place)
}

fn adapters() -> Vec<wgpu::Adapter> {
    // `Instance::new` panics only if no backend was compiled in for this platform.
    if wgpu::Instance::enabled_backend_features().is_empty() {
        return Vec::new();
    }
    let instance = wgpu::Instance::new(wgpu::InstanceDescriptor {
        // Some drivers move buffers that do not fit to the memory of the host. The search would be
        // very slow.
        memory_budget_thresholds: wgpu::MemoryBudgetThresholds {
            for_resource_creation: Some(MEMORY_PERCENT_MAX),
            for_device_loss: None,
        },
        ..wgpu::InstanceDescriptor::new_without_display_handle()
    });
    pollster::block_on(instance.enumerate_adapters(wgpu::Backends::PRIMARY))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absent_adapter_is_an_error_with_index_and_count() {
        let found = list_adapters().len();
        assert_eq!(
            adapter(usize::MAX).err(),
            Some(GpuError::NoAdapter {
                wanted: usize::MAX,
                found
            })
        );
    }

    #[test]
    fn the_largest_dataset_follows_from_the_limits() {
        let bytes = |max_binding, max_pages| {
            let card = AdapterInfo {
                max_binding,
                max_pages,
                ..card(0, "X", None)
            };
            card.largest_dataset_bytes()
        };
        assert_eq!(bytes(1 << 30, 31), 31 << 30);
        assert_eq!(bytes((1 << 27) + 5, 3), 3 << 27);
        assert_eq!(bytes(0, 3), 0);
    }

    #[test]
    fn a_form_that_runs_has_the_features_that_it_needs() {
        for subgroup_size in [0, 2, 4, 8, 32, 64] {
            let card = AdapterInfo {
                subgroup_size,
                ..card(0, "X", None)
            };
            let needed = GenerationForm::usual_on(&card) == GenerationForm::Shuffle
                || KernelForm::Shuffle.runs_on(&card);
            let got = card.kernel_features().contains(wgpu::Features::SUBGROUP);
            assert_eq!(got, needed, "subgroups of {subgroup_size}");
        }
    }

    fn card(index: usize, name: &str, pci_bus: Option<&str>) -> AdapterInfo {
        AdapterInfo {
            index,
            name: name.into(),
            backend: "Vulkan".into(),
            driver: "driver 1".into(),
            software: false,
            max_binding: 1 << 30,
            max_buffer: 1 << 30,
            max_pages: 31,
            subgroup_size: 32,
            pci_bus: pci_bus.map(Into::into),
        }
    }

    #[test]
    fn a_card_is_found_by_its_bus_address_after_another_was_removed() {
        let cards = [
            card(0, "X", Some("0000:01:00.0")),
            card(1, "X", Some("0000:02:00.0")),
            card(2, "soft", None),
        ];
        for wanted in &cards {
            assert_eq!(index_of(wanted, &cards), Some(wanted.index));
        }
        let without_first = [card(0, "X", Some("0000:02:00.0")), card(1, "soft", None)];
        assert_eq!(
            index_of(&cards[0], &without_first),
            None,
            "the other card is not the wanted one"
        );
        assert_eq!(index_of(&cards[1], &without_first), Some(0));
        assert_eq!(index_of(&cards[2], &without_first), Some(1));
        let through_another_library = AdapterInfo {
            backend: "Dx12".into(),
            ..cards[0].clone()
        };
        assert_eq!(index_of(&cards[0], &[through_another_library]), None);
    }

    #[test]
    fn among_equal_cards_the_one_with_the_same_driver_and_index_is_found() {
        let equals = [card(0, "X", None), card(1, "X", None)];
        assert_eq!(index_of(&equals[1], &equals), Some(1));
        let other_driver = AdapterInfo {
            driver: "driver 2".into(),
            ..card(0, "X", Some("0000:01:00.0"))
        };
        let list = [other_driver.clone(), card(1, "X", Some("0000:01:00.0"))];
        assert_eq!(index_of(&card(0, "X", Some("0000:01:00.0")), &list), Some(1));
        let newer = [other_driver];
        assert_eq!(
            index_of(&card(0, "X", Some("0000:01:00.0")), &newer),
            Some(0),
            "a new driver for the same card"
        );
    }

    #[test]
    fn the_error_names_an_adapter_that_is_gone() {
        let gone = find(&card(0, "Card of no maker", Some("ffff:ff:1f.7"))).err();
        let error = gone.expect("there is no such card");
        assert!(
            matches!(&error, GpuError::AdapterAbsent { adapter, .. } if adapter == "Card of no maker (ffff:ff:1f.7)"),
            "{error}"
        );
    }
}
