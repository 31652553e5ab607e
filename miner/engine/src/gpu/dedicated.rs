//! Buffers with device memory of their own, for tables that are read at random places.
//!
//! The reason: a card translates addresses page by page, and keeps few translations. NVIDIA's
//! Vulkan driver gives a *dedicated* allocation larger pages than other memory. On an H100 a table
//! of 4 GiB is read at 2.9 TB/s if it is dedicated, and at 0.8 TB/s if not (see `bench/notes.md`).
//! wgpu has no setting for this, so the buffer is made with Vulkan itself.
//!
//! Knows Vulkan memory, and nothing of tables.

use ash::{ext, vk};

use super::adapter::MEMORY_PERCENT_MAX;
use super::device::{GpuDevice, TABLE_USAGE};
use super::error::GpuError;

/// Memory with one of these properties is slower or of no use to a kernel.
const UNWANTED: vk::MemoryPropertyFlags = vk::MemoryPropertyFlags::from_raw(
    vk::MemoryPropertyFlags::LAZILY_ALLOCATED.as_raw()
        | vk::MemoryPropertyFlags::PROTECTED.as_raw()
        | vk::MemoryPropertyFlags::DEVICE_COHERENT_AMD.as_raw(),
);

type Vulkan = wgpu::hal::api::Vulkan;

/// [`TABLE_USAGE`] in Vulkan's terms.
const VULKAN_USAGE: vk::BufferUsageFlags = vk::BufferUsageFlags::from_raw(
    vk::BufferUsageFlags::STORAGE_BUFFER.as_raw()
        | vk::BufferUsageFlags::TRANSFER_DST.as_raw()
        | vk::BufferUsageFlags::TRANSFER_SRC.as_raw(),
);

/// Allocates a buffer of `bytes` bytes, more than 0, with memory of its own and
/// [`TABLE_USAGE`]. Its content is zero. Returns `None` if the backend is not Vulkan, or if the
/// driver has no such allocations.
///
/// # Errors
/// [`GpuError::AllocationRefused`] if there is not enough memory, and errors of the device.
pub(crate) fn dedicated_buffer(
    gpu: &GpuDevice,
    what: &str,
    bytes: u64,
) -> Option<Result<wgpu::Buffer, GpuError>> {
    let made = match vulkan_buffer(gpu, bytes)? {
        Ok(raw) => adopt(gpu, what, bytes, raw),
        Err(vk::Result::ERROR_DEVICE_LOST) => Err(GpuError::DeviceLost {
            reason: format!("lost while {bytes} bytes were allocated for {what}"),
        }),
        Err(error) => Err(GpuError::AllocationRefused {
            what: what.to_owned(),
            bytes,
            reason: error.to_string(),
        }),
    };
    Some(made)
}

/// Gives the buffer to wgpu, and clears it.
fn adopt(
    gpu: &GpuDevice,
    what: &str,
    bytes: u64,
    raw: wgpu::hal::vulkan::Buffer,
) -> Result<wgpu::Buffer, GpuError> {
    let descriptor = wgpu::BufferDescriptor {
        label: Some(what),
        size: bytes,
        usage: TABLE_USAGE,
        mapped_at_creation: false,
    };
    let buffer = gpu.scoped(what, bytes, || {
        // SAFETY: the buffer was made by this device a moment ago, with this size and these usages,
        // and nobody else has it. It is written below before anything reads it.
        unsafe { gpu.device.create_buffer_from_hal::<Vulkan>(raw, &descriptor) }
    })?;
    gpu.submit(what, |encoder| encoder.clear_buffer(&buffer, 0, None))?;
    Ok(buffer)
}

/// Makes a buffer with memory of its own.
fn vulkan_buffer(gpu: &GpuDevice, bytes: u64) -> Option<Result<wgpu::hal::vulkan::Buffer, vk::Result>> {
    // SAFETY: the device is used to make a buffer, and is not destroyed.
    let device = unsafe { gpu.device.as_hal::<Vulkan>() }?;
    let (raw, physical) = (device.raw_device(), device.raw_physical_device());
    let (shared, instance) = (device.shared_instance(), device.shared_instance().raw_instance());
    // SAFETY: the physical device belongs to this instance.
    let properties = unsafe { instance.get_physical_device_properties(physical) };
    if properties.api_version.min(shared.instance_api_version()) < vk::API_VERSION_1_1 {
        return None;
    }
    let has_budget = device
        .enabled_device_extensions()
        .contains(&ext::memory_budget::NAME);
    let mut budget = vk::PhysicalDeviceMemoryBudgetPropertiesEXT::default();
    let mut memory = vk::PhysicalDeviceMemoryProperties2::default();
    if has_budget {
        memory = memory.push_next(&mut budget);
    }
    // SAFETY: the physical device belongs to this instance, and both have Vulkan 1.1. The structure
    // for the budget is only there if the device has its extension.
    unsafe { instance.get_physical_device_memory_properties2(physical, &mut memory) };
    let memory = memory.memory_properties;
    let descriptor = vk::BufferCreateInfo::default()
        .size(bytes)
        .usage(VULKAN_USAGE)
        .sharing_mode(vk::SharingMode::EXCLUSIVE);
    // SAFETY: the size is not 0, and the usages need no feature.
    let buffer = match unsafe { raw.create_buffer(&descriptor, None) } {
        Ok(buffer) => buffer,
        Err(error) => return Some(Err(error)),
    };
    // SAFETY: the buffer is one of this device.
    let needed = unsafe { raw.get_buffer_memory_requirements(buffer) };
    let types = memory.memory_types_as_slice();
    let made = local_type(types, needed.memory_type_bits).map(|memory_type| {
        let heap = types[memory_type as usize].heap_index as usize;
        if has_budget && !is_within(budget.heap_budget[heap], budget.heap_usage[heap], needed.size) {
            return Err(vk::Result::ERROR_OUT_OF_DEVICE_MEMORY);
        }
        let mut owner = vk::MemoryDedicatedAllocateInfo::default().buffer(buffer);
        let allocation = vk::MemoryAllocateInfo::default()
            .allocation_size(needed.size)
            .memory_type_index(memory_type)
            .push_next(&mut owner);
        // SAFETY: size and type are those that the buffer requires. The memory is bound once, from
        // its first byte on, to the buffer that it was allocated for.
        unsafe {
            let memory = raw.allocate_memory(&allocation, None)?;
            raw.bind_buffer_memory(buffer, memory, 0)
                .inspect_err(|_| raw.free_memory(memory, None))?;
            Ok(memory)
        }
    });
    let failed = match made {
        Some(Ok(memory)) => {
            // SAFETY: the buffer and its memory are handed over whole. wgpu frees both.
            let owned =
                unsafe { wgpu::hal::vulkan::Buffer::from_raw_managed(buffer, memory, 0, needed.size) };
            return Some(Ok(owned));
        }
        Some(Err(error)) => Some(Err(error)),
        None => None,
    };
    // SAFETY: nothing uses the buffer.
    unsafe { raw.destroy_buffer(buffer, None) };
    failed
}

/// Whether `bytes` more fit into what the driver grants this process of a heap, `budget` bytes, of
/// which `used` are in use. wgpu asks the same for the buffers that it allocates itself.
fn is_within(budget: u64, used: u64, bytes: u64) -> bool {
    used.saturating_add(bytes) < budget / 100 * u64::from(MEMORY_PERCENT_MAX)
}

/// Returns the first type of memory on the device among those whose bit is set in `allowed`.
/// Drivers list types with fewer properties first.
fn local_type(types: &[vk::MemoryType], allowed: u32) -> Option<u32> {
    (0..).zip(types).find_map(|(number, memory_type)| {
        let flags = memory_type.property_flags;
        let fits = flags.contains(vk::MemoryPropertyFlags::DEVICE_LOCAL) && !flags.intersects(UNWANTED);
        (fits && allowed & (1 << number) != 0).then_some(number)
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use vk::MemoryPropertyFlags as Flags;

    use super::super::adapter::adapter;
    use super::super::fixture::first_adapter;
    use super::*;

    #[test]
    fn memory_on_the_device_is_chosen() {
        let of = |flags: &[Flags], allowed| {
            let types: Vec<_> = (flags.iter())
                .map(|flags| vk::MemoryType::default().property_flags(*flags))
                .collect();
            local_type(&types, allowed)
        };
        let host = Flags::HOST_VISIBLE | Flags::HOST_COHERENT;
        let local = Flags::DEVICE_LOCAL;
        let card = [Flags::empty(), local, host, local | host];
        assert_eq!(of(&card, 0b1111), Some(1));
        assert_eq!(of(&card, 0b1101), Some(3));
        assert_eq!(of(&card, 0b0101), None);
        assert_eq!(of(&[local | Flags::PROTECTED, local], 0b11), Some(1));
    }

    #[test]
    fn what_the_driver_does_not_grant_is_refused() {
        assert!(is_within(10_000, 0, 9_699));
        assert!(!is_within(10_000, 0, 9_700));
        assert!(!is_within(10_000, 9_000, 800));
        assert!(!is_within(10_000, 1, u64::MAX));
    }

    #[test]
    fn a_dedicated_buffer_is_zero_and_holds_what_is_written() {
        let Some(info) = first_adapter() else { return };
        if info.backend != "Vulkan" {
            return;
        }
        let opened = adapter(info.index).expect("the adapter is there");
        let gpu = GpuDevice::open(opened, wgpu::Features::empty(), Duration::from_secs(30)).unwrap();
        let bytes = 3 << 20;
        for _ in 0..4 {
            let buffer = dedicated_buffer(&gpu, "table", bytes)
                .expect("it is Vulkan")
                .unwrap();
            assert!(gpu.read(&buffer, 0, bytes).unwrap().iter().all(|byte| *byte == 0));
            gpu.queue().write_buffer(&buffer, bytes - 16, &[7; 16]);
            assert_eq!(gpu.read(&buffer, bytes - 32, 32).unwrap()[15..17], [0, 7]);
        }
        let vast = dedicated_buffer(&gpu, "vast table", 1 << 46).expect("it is Vulkan");
        assert!(
            matches!(vast, Err(GpuError::AllocationRefused { .. })),
            "{vast:?}"
        );
        dedicated_buffer(&gpu, "table", bytes)
            .expect("it is Vulkan")
            .unwrap();
    }
}
