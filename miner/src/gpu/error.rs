//! What can go wrong on a graphics adapter, one variant per cause.
//!
//! None of these ends the process. After [`GpuError::DeviceLost`] and [`GpuError::Timeout`] the searcher is
//! of no more use and its adapter must be opened anew; after the others it can be used again.

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
    /// An adapter that was there is no longer in the list: its driver resets it, or it fell off the bus.
    #[error("{adapter} is not there: {found} adapters found")]
    AdapterAbsent {
        /// Its name and, where it is known, its address.
        adapter: String,
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
    /// No kernel runs in such a workgroup.
    #[error("workgroup of {got} invocations refused: needed a multiple of {multiple_of} above 0")]
    WorkgroupSize {
        /// The size asked for.
        got: u32,
        /// What it must be a multiple of.
        multiple_of: u32,
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
    /// The device is gone: reset, unplugged, destroyed. It must be opened anew.
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
    /// The device did not finish in time and is taken for hung. It must be opened anew.
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
    /// A mix of the device differs from the CPU's.
    #[error("hash of nonce {nonce:#018x} is wrong: mix got {got}, expected {expected}")]
    WrongMix {
        /// The nonce hashed.
        nonce: u64,
        /// The device's mix.
        got: B256,
        /// The CPU's mix.
        expected: B256,
    },
    /// The device did not find a nonce whose hash is not above the boundary.
    #[error(
        "nonce {nonce:#018x} not found: its final hash {final_hash} is not above the boundary {boundary}"
    )]
    MissedHit {
        /// The nonce.
        nonce: u64,
        /// The boundary searched with.
        boundary: B256,
        /// The CPU's final hash.
        final_hash: B256,
    },
    /// The device found a nonce whose hash is above the boundary.
    #[error(
        "nonce {nonce:#018x} wrongly found: its final hash {final_hash} is above the boundary {boundary}"
    )]
    FalseHit {
        /// The nonce.
        nonce: u64,
        /// The boundary searched with.
        boundary: B256,
        /// The CPU's final hash.
        final_hash: B256,
    },
}

impl GpuError {
    /// Whether the searcher is of no more use: only opening the adapter anew can help.
    pub fn needs_rebuild(&self) -> bool {
        matches!(self, Self::DeviceLost { .. } | Self::Timeout { .. })
    }

    /// Whether the device computes otherwise than the CPU.
    pub fn is_wrong_data(&self) -> bool {
        matches!(
            self,
            Self::WrongItem { .. } | Self::WrongMix { .. } | Self::MissedHit { .. } | Self::FalseHit { .. }
        )
    }
}
