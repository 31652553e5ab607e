//! The settings of a searcher.

use std::time::Duration;

use super::kernel_form::{GenerationForm, KernelForm};

/// The settings of a searcher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuOptions {
    /// The time for which all batches in flight keep the device busy together. New work waits at
    /// most this time.
    pub target_batch: Duration,
    /// Number of batches in flight. Two keep the device busy. More than two only make each batch
    /// smaller.
    pub in_flight: usize,
    /// Number of hits that a batch can return. Further hits are counted but lost.
    pub result_slots: u32,
    /// Invocations in a workgroup of the search kernel. It must be a multiple of eight above 0.
    pub workgroup_size: u32,
    /// The search kernel.
    pub kernel: KernelForm,
    /// If a dispatch takes longer than this, the device counts as hung.
    pub timeout: Duration,
    /// Largest number of dataset items in a page. With `None` only the limits of the adapter count.
    pub max_page_items: Option<u32>,
    /// Largest number of light cache rows in a page, with the same rules.
    pub max_page_rows: Option<u32>,
    /// Whether a table that needs several pages has as few as the limits of the adapter allow.
    /// Otherwise its pages hold a power of two of rows and at most a GiB.
    pub large_pages: bool,
    /// The form of the dataset generation. `None`: as is usual on the adapter.
    pub generation: Option<GenerationForm>,
    /// Whether wgpu adds its own checks of indices and loops to the kernels. They make the kernels
    /// slower. Use them to find bugs only.
    pub runtime_checks: bool,
}

impl Default for GpuOptions {
    fn default() -> Self {
        Self {
            target_batch: Duration::from_millis(100),
            in_flight: 2,
            result_slots: 16,
            workgroup_size: 64,
            kernel: KernelForm::default(),
            timeout: Duration::from_secs(30),
            max_page_items: None,
            max_page_rows: None,
            large_pages: false,
            generation: None,
            runtime_checks: false,
        }
    }
}
