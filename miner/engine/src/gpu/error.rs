//! The failures of a graphics adapter, with one variant for each cause.
//!
//! No error ends the process. After [`GpuError::DeviceLost`] and [`GpuError::Timeout`] the
//! searcher is unusable and its adapter must be opened again. After any other error the searcher
//! can still be used.

use ethash::B256;

/// A failure of a graphics adapter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GpuError {
    /// The requested adapter does not exist.
    #[error("no adapter {wanted}: {found} found (is a Vulkan, Metal or DX12 driver installed?)")]
    NoAdapter {
        /// The requested index.
        wanted: usize,
        /// The number of adapters.
        found: usize,
    },
    /// An adapter that was listed before is no longer there. Its driver resets it, or the bus has
    /// lost it.
    #[error("adapter {adapter} not found among {found} adapters")]
    AdapterAbsent {
        /// The name of the adapter, and its bus address if it is known.
        adapter: String,
        /// The number of adapters.
        found: usize,
    },
    /// A limit of the adapter is too low for this epoch or kernel.
    #[error("adapter too small: {what}: got {got}, expected at least {needed}")]
    AdapterTooSmall {
        /// The name of the limit in WebGPU.
        what: &'static str,
        /// The limit of the adapter.
        got: u64,
        /// The lowest sufficient limit.
        needed: u64,
    },
    /// No kernel runs in workgroups of this size.
    #[error("invalid workgroup size: got {got}, expected a multiple of {multiple_of} above 0")]
    WorkgroupSize {
        /// The requested size.
        got: u32,
        /// The size must be a multiple of this.
        multiple_of: u32,
    },
    /// The driver refused to open the device.
    #[error("device of {adapter} refused: {reason}")]
    DeviceRefused {
        /// The name of the adapter.
        adapter: String,
        /// The message of the driver.
        reason: String,
    },
    /// There is not enough memory.
    #[error("allocation of {bytes} bytes for {what} refused: {reason}")]
    AllocationRefused {
        /// The purpose of the memory.
        what: String,
        /// The size of the allocation.
        bytes: u64,
        /// The message of the driver.
        reason: String,
    },
    /// The device was reset, unplugged or destroyed. It must be opened again.
    #[error("device lost: {reason}")]
    DeviceLost {
        /// The message of the driver.
        reason: String,
    },
    /// A shader or a command is invalid. This is a bug of this program or of the driver.
    #[error("{what} rejected: {reason}")]
    Rejected {
        /// The rejected object.
        what: String,
        /// The message of the validation.
        reason: String,
    },
    /// The device did not finish in time, so it probably hangs. It must be opened again.
    #[error("{what} not finished after {waited_ms} ms")]
    Timeout {
        /// The operation that did not finish.
        what: &'static str,
        /// The time waited, in milliseconds.
        waited_ms: u64,
    },
    /// The progress callback cancelled the generation.
    #[error("dataset generation cancelled after {done} of {total} items")]
    Cancelled {
        /// Items finished.
        done: u32,
        /// Items requested.
        total: u32,
    },
    /// There is no dataset on the device. None was generated, or its generation failed.
    #[error("no dataset on the device")]
    NoDataset,
    /// There is no work, or no nonce of the work is left.
    #[error("no work set")]
    NoWork,
    /// The dataset does not have the requested items.
    #[error("items out of range: got {count} from {first} on, expected a part of {items} items")]
    OutOfRange {
        /// The first requested item.
        first: u32,
        /// The number of requested items.
        count: u32,
        /// The number of items in the dataset.
        items: u32,
    },
    /// An item on the device differs from the CPU's. The memory, the driver or the kernel is
    /// faulty.
    #[error("dataset item {item} is wrong: got word {got:#010x}, expected {expected:#010x}")]
    WrongItem {
        /// The index of the item.
        item: u32,
        /// The first wrong word.
        got: u32,
        /// The right word, from the CPU.
        expected: u32,
    },
    /// A mix hash of the device differs from the CPU's.
    #[error("mix hash of nonce {nonce:#018x} is wrong: got {got}, expected {expected}")]
    WrongMix {
        /// The nonce.
        nonce: u64,
        /// The mix hash of the device.
        got: B256,
        /// The mix hash of the CPU.
        expected: B256,
    },
    /// The device missed a nonce whose hash meets the boundary.
    #[error(
        "nonce {nonce:#018x} not found: its final hash {final_hash} is not above the boundary {boundary}"
    )]
    MissedHit {
        /// The nonce.
        nonce: u64,
        /// The boundary of the search.
        boundary: B256,
        /// The final hash, from the CPU.
        final_hash: B256,
    },
    /// The device reported a nonce whose hash is above the boundary.
    #[error(
        "nonce {nonce:#018x} wrongly found: its final hash {final_hash} is above the boundary {boundary}"
    )]
    FalseHit {
        /// The nonce.
        nonce: u64,
        /// The boundary of the search.
        boundary: B256,
        /// The final hash, from the CPU.
        final_hash: B256,
    },
}

impl GpuError {
    /// Whether the searcher is unusable. Only opening the adapter again can help.
    pub const fn needs_rebuild(&self) -> bool {
        matches!(self, Self::DeviceLost { .. } | Self::Timeout { .. })
    }

    /// Whether the device has computed a wrong result.
    pub const fn is_wrong_data(&self) -> bool {
        matches!(
            self,
            Self::WrongItem { .. } | Self::WrongMix { .. } | Self::MissedHit { .. } | Self::FalseHit { .. }
        )
    }
}
