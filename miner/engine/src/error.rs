//! The reasons why an engine does not start.

/// The reasons why an engine did not start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MinerError {
    /// The requested graphics adapter does not exist.
    #[error("no graphics adapter{}: {found} found (is a Vulkan, Metal or DX12 driver installed?)", wanted.map(|index| format!(" {index}")).unwrap_or_default())]
    NoAdapter {
        /// The number of the requested adapter. `None` if any adapter would do.
        wanted: Option<usize>,
        /// The number of adapters on this machine.
        found: usize,
    },
    /// The operating system did not start a thread.
    #[error("no thread for {what}: {reason}")]
    NoThread {
        /// The task of the thread.
        what: String,
        /// The message of the operating system.
        reason: String,
    },
}
