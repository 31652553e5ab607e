//! The settings of a searcher.

use std::time::Duration;

use super::kernel_form::KernelForm;

/// How a searcher uses its adapter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuOptions {
    /// Time for which the batches under way occupy the device: new work waits no longer.
    pub target_batch: Duration,
    /// Batches under way at once. Two keep the device busy; more only make each smaller.
    pub in_flight: usize,
    /// Hits that a batch can bring back. More are counted, and lost.
    pub result_slots: u32,
    /// Invocations in a workgroup of the search kernel: a multiple of eight above 0; others are refused.
    pub workgroup_size: u32,
    /// The form of the search kernel.
    pub kernel: KernelForm,
    /// After this time a dispatch is given up and the device taken for hung.
    pub timeout: Duration,
    /// Dataset items in a page, at most; rounded down to a power of two. `None`: the adapter's limits
    /// alone decide.
    pub max_page_items: Option<u32>,
    /// The same for the rows of the light cache.
    pub max_page_rows: Option<u32>,
    /// Let the library check every index in the kernels. Slower, and never needed: for finding faults.
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
            runtime_checks: false,
        }
    }
}
