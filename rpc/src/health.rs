//! How a node is, for whoever watches it from outside: `GET /health`.

use serde::Serialize;

use crate::error::RpcResult;

/// How a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Health {
    /// Number of the head block.
    pub head: u64,
    /// Seconds since the head block's timestamp.
    pub age: u64,
    /// Connected peers.
    pub peers: u64,
    /// Whether a download of the chain is under way.
    pub syncing: bool,
}

impl Health {
    pub(crate) fn to_json(self) -> String {
        serde_json::to_string(&self).expect("numbers and a Boolean can always be written")
    }
}

/// What can say how it is.
pub trait Healthy {
    /// How it is now.
    ///
    /// # Errors
    /// If it cannot even read its chain.
    fn health(&self) -> RpcResult<Health>;
}
