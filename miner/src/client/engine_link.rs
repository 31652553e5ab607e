//! The channels between a client and an engine.

use std::sync::Arc;

use crossbeam_channel::Sender;
use engine::{FoundSolution, SearchTask};
use tokio::sync::Notify;
use tokio::sync::mpsc::Receiver;

use super::epochs::EpochCheck;

/// The channels between a client and an engine.
pub struct EngineLink {
    /// Tasks to the engine; `None` pauses it.
    pub work: Sender<Option<SearchTask>>,
    /// Solutions from the engine.
    pub found: Receiver<FoundSolution>,
    /// The engine's hashrate in hashes per second.
    pub hashrate: Arc<dyn Fn() -> f64 + Send + Sync>,
    /// Whether the engine's devices can search an epoch.
    pub check_epoch: Arc<EpochCheck>,
    /// Notified when the endpoint in use is to be connected to anew.
    pub reconnect: Arc<Notify>,
}

impl EngineLink {
    /// Gives the engine a task, or pauses it.
    pub(super) fn send_task(&self, task: Option<SearchTask>) {
        // Fails if the engine has ended. Then the whole rig ends.
        let _ = self.work.send(task);
    }

    /// The engine's hashrate in whole hashes per second. A NaN becomes 0.
    pub(super) fn hashrate(&self) -> u64 {
        (self.hashrate)() as u64
    }
}
