//! What can go wrong on a graphics adapter, one variant per cause.
//!
//! None of these ends the process. After [`GpuError::DeviceLost`] and [`GpuError::Timeout`] the
//! searcher must be rebuilt; after the others it can be used again.

use ethash::B256;

/// Why the adapter did not do what was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GpuError {
    /// The adapter asked for does not exist.
    #[error("no adapter {wanted}: {found} found (is a Vulkan, Metal or DX12 driver installed?)")]
    NoAdapter {
        /// The index asked for.
        wanted: usize,
        /// How many adapters there are.
        found: usize,
    },
    /// A limit of the adapter is below what this epoch or kernel needs.
    #[error("adapter too small: {what} is {got}, needed {needed}")]
    AdapterTooSmall {
        /// The limit, by its name in WebGPU.
        what: &'static str,
        /// The adapter's value.
        got: u64,
        /// The value needed.
        needed: u64,
    },
    /// The driver did not open the device.
    #[error("device of {adapter} refused: {reason}")]
    DeviceRefused {
        /// The adapter's name.
        adapter: String,
        /// The driver's words.
        reason: String,
    },
    /// There is not enough memory.
    #[error("allocation of {bytes} bytes for {what} refused: {reason}")]
    AllocationRefused {
        /// What the memory was for.
        what: String,
        /// How much was asked for.
        bytes: u64,
        /// The driver's words.
        reason: String,
    },
    /// The device is gone: reset, unplugged, destroyed. Rebuild the searcher.
    #[error("device lost: {reason}")]
    DeviceLost {
        /// The driver's words.
        reason: String,
    },
    /// A shader or command was found invalid, which is a fault of this program or of the driver.
    #[error("{what} rejected: {reason}")]
    Rejected {
        /// What was attempted.
        what: String,
        /// What the validation said.
        reason: String,
    },
    /// The device did not finish in time and is taken for hung. Rebuild the searcher.
    #[error("{what} not finished after {waited_ms} ms")]
    Timeout {
        /// What was waited for.
        what: &'static str,
        /// How long.
        waited_ms: u64,
    },
    /// The progress callback asked to stop.
    #[error("dataset generation cancelled after {done} of {total} items")]
    Cancelled {
        /// Items that were finished.
        done: u32,
        /// Items asked for.
        total: u32,
    },
    /// There is no dataset: none was generated, or its generation failed.
    #[error("no dataset on the device")]
    NoDataset,
    /// There is no work to search.
    #[error("no work set")]
    NoWork,
    /// Items outside the dataset were asked for.
    #[error("items {first}..{first}+{count} outside the dataset of {items} items")]
    OutOfRange {
        /// First item asked for.
        first: u32,
        /// Items asked for.
        count: u32,
        /// Items there are.
        items: u32,
    },
    /// An item on the device differs from the CPU's: faulty memory, driver or kernel.
    #[error("dataset item {item} is wrong: first word got {got:#010x}, expected {expected:#010x}")]
    WrongItem {
        /// The item's index.
        item: u32,
        /// First differing word on the device.
        got: u32,
        /// The same word of the CPU.
        expected: u32,
    },
    /// A hash of the device differs from the CPU's.
    #[error("hash of nonce {nonce:#018x} is wrong: {what} got {got}, expected {expected}")]
    WrongHash {
        /// The nonce hashed.
        nonce: u64,
        /// Which of its properties.
        what: &'static str,
        /// The device's value.
        got: B256,
        /// The CPU's value.
        expected: B256,
    },
}

impl GpuError {
    /// Whether only [`GpuSearcher::rebuild`](super::GpuSearcher::rebuild) can help.
    pub fn needs_rebuild(&self) -> bool {
        matches!(self, Self::DeviceLost { .. } | Self::Timeout { .. })
    }
}
