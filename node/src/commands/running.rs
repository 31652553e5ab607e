//! The chain that a command reads: in a data directory that nobody else has open, or at the node
//! that runs on it, through its local socket.

use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde_json::Value;
use store::{FILE_NAME, Store, StoreError};

use super::error::CommandError;

use crate::console::NodeCaller;
use crate::data_directory::{DataDirectoryError, open_store};
use crate::options::VnodeOptions;

/// The chain of a data directory.
pub(super) enum OpenedChain {
    /// Nobody else has it open.
    Here { path: PathBuf, store: Store },
    /// A node runs on it.
    Running(AskedNode),
}

/// A node that runs on a data directory.
pub(super) struct AskedNode {
    /// The data directory.
    pub(super) path: PathBuf,
    caller: Box<NodeCaller>,
}

impl OpenedChain {
    /// Opens the data directory that the options name, or connects to the node that has it open.
    ///
    /// # Errors
    /// [`CommandError`] if there is no chain, or if another process has it open that is no node.
    pub(super) fn open(options: &VnodeOptions) -> Result<Self, CommandError> {
        let path = options.data_directory()?;
        if !path.join(FILE_NAME).exists() {
            return Err(DataDirectoryError::NoChain { path }.into());
        }
        match open_store(options, &path) {
            Ok((path, store)) => Ok(Self::Here { path, store }),
            Err(error) if is_in_use(&error) => match NodeCaller::connect(options) {
                Ok(caller) => Ok(Self::Running(AskedNode {
                    path,
                    caller: Box::new(caller),
                })),
                // Another command has it open.
                Err(_) => Err(error.into()),
            },
            Err(error) => Err(error.into()),
        }
    }
}

/// Whether another process has the data directory open.
pub(super) const fn is_in_use(error: &DataDirectoryError) -> bool {
    matches!(error, DataDirectoryError::Store(StoreError::InUse { .. }))
}

impl AskedNode {
    /// Calls a method of the node.
    pub(super) fn ask<T: DeserializeOwned>(
        &mut self,
        method: &str,
        params: &[Value],
    ) -> Result<T, CommandError> {
        let answer = self.caller.call(method, params)?;
        serde_json::from_str(answer.get()).map_err(|error| CommandError::Answer {
            method: method.to_owned(),
            reason: error.to_string(),
        })
    }
}
