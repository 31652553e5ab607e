//! The contracts of MicroChains: their compiled form, their selectors, and their life on the base
//! chain.

pub(crate) mod compiled;
mod life;
mod selectors;

use std::fs;
use std::path::PathBuf;

use e2e::binary::workspace;
use serde_json::Value;

/// The folder of the contracts.
pub(crate) fn folder() -> PathBuf {
    workspace().join("contracts")
}

/// The contents of a JSON file of the folder.
fn read(name: &str) -> Value {
    let path = folder().join(name);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
