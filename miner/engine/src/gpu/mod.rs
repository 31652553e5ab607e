//! Nonce search on graphics adapters, through Vulkan, Metal or DX12.
//!
//! The kernels are in `shaders/`. This module assembles them, keeps the dataset of one epoch on the
//! device, and keeps batches of nonces in flight. It takes headers and boundaries and returns
//! nonces. The caller checks them on the CPU, because the device compares only the top 64 bits of a
//! hash.
//!
//! | subject | module |
//! |---|---|
//! | list of adapters | [`list_adapters`] |
//! | dataset and search | [`GpuSearcher`] |
//! | form of the kernel | [`KernelForm`] |
//! | choice of the kernel by measurement | [`choose_kernel`], `tuning` |
//! | what the memory can deliver at best | [`GpuSearcher::measure_ceilings`] |
//! | allocation, waiting, lost devices | `device` |
//! | buffers with memory of their own | `dedicated` |
//! | how a table is spread over several buffers | `page_layout` |
//! | such a table on the device | `pages` |
//! | text of the kernels | `shaders` |
//! | compiled kernels | `pipeline` |
//! | mix hashes of given seeds, for checks of seals | `seeds` |
//! | size of a dispatch | `dispatch_size` |
//! | dataset of this epoch and of the next one | `dataset` |
//! | searcher of an engine: work in, solutions out | `worker` |
//!
//! Only `worker` knows the engine's work. Nothing here knows a chain or a network.

mod adapter;
mod batch;
mod ceiling;
mod check;
mod dataset;
#[cfg(not(target_vendor = "apple"))]
mod dedicated;
mod device;
mod dispatch_size;
mod error;
#[cfg(test)]
pub(crate) mod fixture;
mod kernel_form;
mod kernel_request;
mod options;
mod page_layout;
mod pages;
mod params;
mod pci_cards;
mod pipeline;
mod searcher;
mod seeds;
mod shaders;
mod tuning;
pub(crate) mod worker;

pub use adapter::{AdapterInfo, list_adapters, quiet_drivers};
pub use batch::{GpuHit, GpuWork};
pub use ceiling::Ceilings;
pub use check::CheckSample;
pub use dataset::GenerationProgress;
pub use error::GpuError;
pub use kernel_form::{ChosenKernel, GenerationForm, KernelForm};
pub use kernel_request::{KernelRequest, KernelRequestError};
pub use options::GpuOptions;
pub use pci_cards::{UnusableCard, unusable_cards};
pub use searcher::{BatchReport, GpuSearcher};
pub use shaders::search_fingerprint;
pub use tuning::{KernelPolicy, TuningCache, choose_kernel};
