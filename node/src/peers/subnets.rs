//! The subnets that the node was told to join, in the file `subnets.json`.

use std::io;
use std::path::{Path, PathBuf};

use network::SubnetPlan;
use primitives::Address;
use serde::{Deserialize, Serialize};

use super::registry::NetworkError;
use crate::files;

/// File with the subnets, as a JSON list of [`SubnetRow`].
pub(super) const SUBNETS_FILE: &str = "subnets.json";
/// Most subnets.
pub(super) const SUBNETS_MAX: usize = 1024;

/// A subnet in the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SubnetRow {
    subnet: String,
    block_start: u64,
    block_end: u64,
}

/// Reads the list in the folder. It is empty if the file does not exist.
pub(super) fn read(folder: &Path) -> Result<Vec<SubnetPlan>, NetworkError> {
    let path = folder.join(SUBNETS_FILE);
    let content = |reason: String| NetworkError::Content {
        path: path.clone(),
        reason,
    };
    let text = match std::fs::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(NetworkError::Read { path, source }),
    };
    let rows: Vec<SubnetRow> = serde_json::from_slice(&text).map_err(|error| content(error.to_string()))?;
    if rows.len() > SUBNETS_MAX {
        let got = rows.len();
        return Err(content(format!(
            "entries: got {got}, expected at most {SUBNETS_MAX}"
        )));
    }
    let parse = |row: SubnetRow| {
        let wrong = |_| {
            content(format!(
                "subnet: got {:?}, expected an address of 20 bytes",
                row.subnet
            ))
        };
        Ok(SubnetPlan {
            address: row.subnet.parse::<Address>().map_err(wrong)?,
            block_start: row.block_start,
            block_end: row.block_end,
        })
    };
    rows.into_iter().map(parse).collect()
}

/// The list of subnets cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}: {source}", path.display())]
pub(super) struct SubnetsWriteError {
    path: PathBuf,
    source: io::Error,
}

/// Replaces the list in the folder.
///
/// # Errors
/// [`SubnetsWriteError`] with the error of the system.
pub(super) fn write(folder: &Path, subnets: &[SubnetPlan]) -> Result<(), SubnetsWriteError> {
    let row = |plan: &SubnetPlan| SubnetRow {
        subnet: format!("{:#x}", plan.address),
        block_start: plan.block_start,
        block_end: plan.block_end,
    };
    let rows: Vec<_> = subnets.iter().map(row).collect();
    let path = folder.join(SUBNETS_FILE);
    let text = serde_json::to_vec_pretty(&rows).map_err(io::Error::from);
    text.and_then(|text| files::replace(&path, &text))
        .map_err(|source| SubnetsWriteError { path, source })
}
