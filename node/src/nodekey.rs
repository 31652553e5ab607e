//! The node's own secret key. Peers identify the node by its public key.
//!
//! The key is stored as 64 hex digits in the file `nodekey` of the data directory, which the first
//! start creates. `--nodekey` names another file; `--nodekeyhex` is the key itself.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use primitives::{KeyError, SecretKey, hex};
use zeroize::Zeroizing;

use crate::files;
use crate::options::VnodeOptions;

/// Name of the key file in the data directory.
pub(crate) const FILE_NAME: &str = "nodekey";
/// Most bytes that are read of a key file; a valid file is shorter.
const FILE_BYTES_MAX: u64 = 128;

/// An error of the node's key.
#[derive(Debug, thiserror::Error)]
pub enum NodeKeyError {
    /// The key file cannot be read or created.
    #[error("node key {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The file does not hold a valid key.
    #[error("node key {}: {error}, expected 64 hex digits", path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// The fault.
        error: KeyError,
    },
    /// `--nodekeyhex` is not a valid key.
    #[error("--nodekeyhex: {0}, expected 64 hex digits")]
    Option(KeyError),
    /// No key could be generated.
    #[error("cannot generate a node key: {0}")]
    Random(KeyError),
}

/// Returns the key that the options name, or the key in the data directory `data`. Creates the
/// latter if it does not exist.
///
/// # Errors
/// [`NodeKeyError`] if a file holds no valid key, or no key can be created.
pub(crate) fn load(options: &VnodeOptions, data: &Path) -> Result<SecretKey, NodeKeyError> {
    if let Some(digits) = &options.nodekeyhex {
        return SecretKey::from_hex(digits).map_err(NodeKeyError::Option);
    }
    if let Some(path) = &options.nodekey {
        return read(path);
    }
    let path = data.join(FILE_NAME);
    match read(&path) {
        Err(NodeKeyError::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
        read => return read,
    }
    let key = SecretKey::random().map_err(NodeKeyError::Random)?;
    let digits = Zeroizing::new(hex::encode(key.to_bytes()));
    match files::create(&path, digits.as_bytes()) {
        Ok(true) => Ok(key),
        // Another process has just created the file.
        Ok(false) => read(&path),
        Err(source) => Err(NodeKeyError::File { path, source }),
    }
}

fn read(path: &Path) -> Result<SecretKey, NodeKeyError> {
    let file = |source| NodeKeyError::File {
        path: path.to_owned(),
        source,
    };
    // The buffer never grows, because growing would leave copies of the key in memory.
    let mut text = Zeroizing::new(String::with_capacity(FILE_BYTES_MAX as usize));
    let opened = File::open(path).map_err(file)?;
    opened
        .take(FILE_BYTES_MAX)
        .read_to_string(&mut text)
        .map_err(file)?;
    SecretKey::from_hex(text.trim()).map_err(|error| NodeKeyError::Key {
        path: path.to_owned(),
        error,
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    const DIGITS: &str = "46464646464646464646464646464646464646464646464646464646464646ab";

    fn options(arguments: &[&str]) -> VnodeOptions {
        VnodeOptions::try_parse_from(std::iter::once(&"vnode").chain(arguments)).expect("good options")
    }

    #[test]
    fn a_key_is_created_once_and_kept() {
        let home = tempfile::tempdir().expect("a folder");
        let key = || load(&options(&[]), home.path()).expect("a key").address();
        let first = key();
        assert_eq!(key(), first);
        let path = home.path().join(FILE_NAME);
        assert_eq!(std::fs::read(&path).expect("the file").len(), 64);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = std::fs::metadata(&path).expect("the file").permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{mode:o}");
        }
        std::fs::write(&path, "no key").expect("a write");
        let error = load(&options(&[]), home.path()).expect_err("no key");
        assert!(matches!(error, NodeKeyError::Key { .. }), "{error}");
    }

    #[test]
    fn options_override_the_key_of_the_data_directory() {
        let home = tempfile::tempdir().expect("a folder");
        let own = SecretKey::from_hex(DIGITS).expect("a key").address();
        let loaded = load(&options(&["--nodekeyhex", DIGITS]), home.path()).expect("a key");
        assert_eq!(loaded.address(), own);
        let path = home.path().join("elsewhere");
        std::fs::write(&path, format!("{DIGITS}\n")).expect("a write");
        let name = path.to_str().expect("text");
        let loaded = load(&options(&["--nodekey", name]), home.path()).expect("a key");
        assert_eq!(loaded.address(), own);
        assert!(!home.path().join(FILE_NAME).exists(), "no other key is created");
        let missing = load(&options(&["--nodekey", "/no/such/file"]), home.path());
        assert!(matches!(missing, Err(NodeKeyError::File { .. })));
        let bad = load(&options(&["--nodekeyhex", "12"]), home.path());
        assert!(matches!(bad, Err(NodeKeyError::Option(_))));
    }
}
