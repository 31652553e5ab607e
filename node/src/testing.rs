//! The readers of files that operators write, for tests and fuzzing of other packages.
//!
//! No program uses this module.

use std::ffi::OsString;
use std::path::Path;

use rpc::access::TokenRule;

pub use crate::options::OptionsFileError;
pub use crate::token_file::TokenFileError;

/// Reads the text of a file for `--rpc.tokens`.
///
/// # Errors
/// [`TokenFileError`] if the text cannot be used.
pub fn token_rules(text: &str) -> Result<Vec<TokenRule>, TokenFileError> {
    crate::token_file::parse(Path::new("tokens.toml"), text)
}

/// Reads the text of a file for `--config`: the options with their arguments.
///
/// # Errors
/// [`OptionsFileError`] if the text cannot be used.
pub fn option_arguments(text: &str) -> Result<Vec<(String, OsString)>, OptionsFileError> {
    crate::options::arguments_of(Path::new("vnode.toml"), text)
}
