//! The state of the node for monitoring tools: `GET /health`.

use serde::Serialize;

use crate::error::RpcResult;

/// The state of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Health {
    /// Number of the head block.
    pub head: u64,
    /// Seconds since the head block's timestamp.
    pub age: u64,
    /// Connected peers.
    pub peers: u64,
    /// Whether the node is downloading the chain.
    pub syncing: bool,
}

impl Health {
    pub(crate) fn to_json(self) -> String {
        serde_json::to_string(&self).expect("numbers and a Boolean can always be written")
    }
}

/// A context that can report its state.
pub trait Healthy {
    /// The state now.
    ///
    /// # Errors
    /// If the chain cannot be read.
    fn health(&self) -> RpcResult<Health>;
}
