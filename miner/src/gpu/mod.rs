//! Nonce search on graphics adapters, through Vulkan, Metal or DX12.
//!
//! The kernels are in `shaders/`; this module puts them together, keeps the dataset of one epoch on the
//! device and batches of nonces in flight. It takes headers and boundaries and returns nonces, which the
//! caller checks on the CPU: the device tests the top 64 bits of a hash only. It knows no engine, no
//! chain and no network.
//!
//! | subject | module |
//! |---|---|
//! | which adapters there are | [`list_adapters`] |
//! | dataset and search | [`GpuSearcher`] |
//! | which kernel suits an adapter | [`choose_kernel`], `choice`, `memory` |
//! | what the memory gives at best | [`GpuSearcher::ceilings`] |
//! | allocation, waiting, lost devices | `device` |
//! | rows over several buffers | `pages` |
//! | text of the kernels | `shaders`, `kernel` |
//! | size of a dispatch | `pace` |

mod adapter;
mod ahead;
mod batch;
mod ceiling;
mod check;
mod choice;
mod dataset;
mod device;
mod error;
#[cfg(test)]
pub(crate) mod fixture;
mod kernel;
mod layout;
mod memory;
mod pace;
mod pages;
mod searcher;
mod shaders;

use std::time::Duration;

pub use adapter::{AdapterInfo, list_adapters, quiet_drivers};
pub use batch::{GpuHit, GpuWork};
pub use ceiling::Ceilings;
pub use choice::{CHOICE_TIME_MAX, Chosen, choose_kernel};
pub use dataset::Progress;
pub use error::GpuError;
pub use memory::KernelMemory;
pub use searcher::{BatchReport, GpuSearcher};

/// How a hash is spread over invocations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KernelForm {
    /// A hash per invocation. Runs everywhere.
    #[default]
    Lane,
    /// Eight invocations per hash, which read a dataset item together and exchange values within their
    /// subgroup. A group of eight has four hashes under way.
    Shuffle,
    /// The same with eight hashes under way: more reads at once, for more registers.
    Shuffle8,
    /// As [`KernelForm::Shuffle`] with the exchange through the memory of the workgroup. Runs everywhere.
    Group,
}

impl KernelForm {
    /// All forms.
    pub const ALL: [Self; 4] = [Self::Lane, Self::Shuffle, Self::Shuffle8, Self::Group];
    /// Invocations that share a hash in all forms but [`KernelForm::Lane`].
    const LANES_PER_HASH: u32 = 8;

    /// Its name in options and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lane => "lane",
            Self::Shuffle => "shuffle",
            Self::Shuffle8 => "shuffle8",
            Self::Group => "group",
        }
    }

    /// The form of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|form| form.name() == name)
    }

    /// Whether it runs on `adapter`.
    pub fn runs_on(self, adapter: &AdapterInfo) -> bool {
        let with_subgroups = matches!(self, Self::Shuffle | Self::Shuffle8);
        !with_subgroups || adapter.subgroup_size >= Self::LANES_PER_HASH
    }
}

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
