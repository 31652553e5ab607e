//! The adapters of this machine, and their choice by index or, where one was known before, by what it is.
//!
//! Knows nothing of kernels. A machine without a driver has an empty list, which is no error.

use super::error::GpuError;

/// How much of the memory that the driver grants this process may be taken, in percent.
const MEMORY_PERCENT_MAX: u8 = 97;

/// An adapter as users see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdapterInfo {
    /// Its place in the list; what [`GpuSearcher::new`](super::GpuSearcher::new) takes.
    pub index: usize,
    /// The card's name.
    pub name: String,
    /// Vulkan, Metal or Dx12.
    pub backend: String,
    /// The driver's name and version.
    pub driver: String,
    /// Whether it is the CPU in disguise. Native code is far faster there.
    pub software: bool,
    /// Largest buffer that a kernel can see at once, in bytes.
    pub max_binding: u64,
    /// Largest buffer, in bytes.
    pub max_buffer: u64,
    /// Smallest number of invocations that run in step, 0 where they cannot exchange values.
    pub subgroup_size: u32,
    /// Its address on the PCI bus, as in `0000:01:00.0`; `None` where the driver does not tell.
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
            subgroup_size: if shuffles { info.subgroup_min_size } else { 0 },
        }
    }

    /// Whether `other` is this card through the same library: by its address where that is known, else by
    /// name and driver.
    fn is_same_card(&self, other: &Self) -> bool {
        self.backend == other.backend
            && match &self.pci_bus {
                Some(bus) => other.pci_bus.as_ref() == Some(bus),
                None => self.name == other.name && self.driver == other.driver,
            }
    }
}

/// Keeps a Vulkan layer of Mesa from writing to standard error, where a log may have to be JSON.
///
/// The layer only sorts adapters, which are told apart by number here.
///
/// # Safety
/// Sets an environment variable, so there must be no second thread yet: first thing in `main`.
pub unsafe fn quiet_drivers() {
    // SAFETY: by this function's own condition nobody reads the environment meanwhile.
    #[cfg(target_os = "linux")]
    unsafe {
        std::env::set_var("NODEVICE_SELECT", "1");
    }
}

/// All adapters, in the driver's order. Empty where there is no driver.
pub fn list_adapters() -> Vec<AdapterInfo> {
    adapters()
        .iter()
        .enumerate()
        .map(|(index, adapter)| AdapterInfo::new(index, adapter))
        .collect()
}

/// The adapter at `index` of the list.
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

/// The adapter that is `wanted`, wherever it stands in the list by now.
pub(crate) fn find(wanted: &AdapterInfo) -> Result<(wgpu::Adapter, AdapterInfo), GpuError> {
    let mut all = adapters();
    let mut infos: Vec<_> = (0..)
        .zip(&all)
        .map(|(index, adapter)| AdapterInfo::new(index, adapter))
        .collect();
    let Some(index) = place_of(wanted, &infos) else {
        let bus = wanted.pci_bus.as_ref().map(|bus| format!(" ({bus})"));
        return Err(GpuError::AdapterAbsent {
            adapter: format!("{}{}", wanted.name, bus.unwrap_or_default()),
            found: infos.len(),
        });
    };
    Ok((all.swap_remove(index), infos.swap_remove(index)))
}

/// Where `wanted` stands in a list made later. Several entries may be the same card, or equal ones whose
/// driver tells no address: then the one with the same driver at the same place, as far as there is one.
fn place_of(wanted: &AdapterInfo, list: &[AdapterInfo]) -> Option<usize> {
    list.iter()
        .enumerate()
        .filter(|(_, info)| wanted.is_same_card(info))
        .min_by_key(|(place, info)| (info.driver != wanted.driver, *place != wanted.index))
        .map(|(place, _)| place)
}

fn adapters() -> Vec<wgpu::Adapter> {
    // `Instance::new` panics only in a build for a platform none of whose backends is compiled in.
    if wgpu::Instance::enabled_backend_features().is_empty() {
        return Vec::new();
    }
    let instance = wgpu::Instance::new(wgpu::InstanceDescriptor {
        // Drivers that move what does not fit to the host's memory would make a search crawl.
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
    fn an_absent_adapter_is_an_error_with_both_numbers() {
        let found = list_adapters().len();
        assert_eq!(
            adapter(usize::MAX).err(),
            Some(GpuError::NoAdapter {
                wanted: usize::MAX,
                found
            })
        );
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
            subgroup_size: 32,
            pci_bus: pci_bus.map(Into::into),
        }
    }

    #[test]
    fn a_card_is_found_by_its_address_when_others_are_gone() {
        let cards = [
            card(0, "X", Some("0000:01:00.0")),
            card(1, "X", Some("0000:02:00.0")),
            card(2, "soft", None),
        ];
        for wanted in &cards {
            assert_eq!(place_of(wanted, &cards), Some(wanted.index));
        }
        let without_first = [card(0, "X", Some("0000:02:00.0")), card(1, "soft", None)];
        assert_eq!(
            place_of(&cards[0], &without_first),
            None,
            "the other one is not it"
        );
        assert_eq!(place_of(&cards[1], &without_first), Some(0));
        assert_eq!(place_of(&cards[2], &without_first), Some(1));
        let through_another_library = AdapterInfo {
            backend: "Dx12".into(),
            ..cards[0].clone()
        };
        assert_eq!(place_of(&cards[0], &[through_another_library]), None);
    }

    #[test]
    fn among_equals_the_one_with_the_same_driver_at_the_same_place_is_taken() {
        let equals = [card(0, "X", None), card(1, "X", None)];
        assert_eq!(place_of(&equals[1], &equals), Some(1));
        let other_driver = AdapterInfo {
            driver: "driver 2".into(),
            ..card(0, "X", Some("0000:01:00.0"))
        };
        let list = [other_driver.clone(), card(1, "X", Some("0000:01:00.0"))];
        assert_eq!(place_of(&card(0, "X", Some("0000:01:00.0")), &list), Some(1));
        let newer = [other_driver];
        assert_eq!(
            place_of(&card(0, "X", Some("0000:01:00.0")), &newer),
            Some(0),
            "a new driver for the same card"
        );
    }

    #[test]
    fn an_adapter_that_is_gone_is_named() {
        let gone = find(&card(0, "Card of no maker", Some("ffff:ff:1f.7"))).err();
        let error = gone.expect("there is no such card");
        assert!(
            matches!(&error, GpuError::AdapterAbsent { adapter, .. } if adapter == "Card of no maker (ffff:ff:1f.7)"),
            "{error}"
        );
    }
}
