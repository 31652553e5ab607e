//! The adapters of this machine, and their choice by index.
//!
//! Knows nothing of kernels. A machine without a driver has an empty list, which is no error.

use super::GpuError;

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
}

/// Keeps a Vulkan layer of Mesa from writing to standard error, where a log may have to be JSON.
///
/// The layer only sorts adapters, which are told apart by number here. Sets an environment variable,
/// so it must run before there is a second thread: first thing in `main`.
pub fn quiet_drivers() {
    // SAFETY: the caller has no second thread that could read the environment meanwhile.
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
}
