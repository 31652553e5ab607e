//! The key of an SCS, in a folder of key files. Its address is the id of the SCS.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use keystore::{KeyDirectory, KeyDirectoryError, ScryptCost};
use primitives::{KeyError, SecretKey};

/// The folder of the key, in the working directory.
pub const KEY_FOLDER: &str = "scskeystore";
/// The password if none is given: that of the public SCS.
pub const PASSWORD_DEFAULT: &str = "moacscsofflineaccountpwd";

/// An error of the key of an SCS.
#[derive(Debug, thiserror::Error)]
pub enum ScsKeyError {
    /// The folder or a key file cannot be used.
    #[error(transparent)]
    Directory(#[from] KeyDirectoryError),
    /// No new key could be made.
    #[error("cannot make a key: {0}")]
    NewKey(KeyError),
    /// The folder has several keys.
    #[error("{}: got {got} keys, expected one", path.display())]
    Several {
        /// The folder.
        path: PathBuf,
        /// The number of keys in it.
        got: usize,
    },
}

/// Reads the key in `folder`. If there is none, makes one and encrypts it with this cost.
///
/// # Errors
/// [`ScsKeyError`] if the folder has several keys, or the password is wrong.
pub(crate) fn open_key(folder: &Path, password: &str, cost: ScryptCost) -> Result<SecretKey, ScsKeyError> {
    let directory = KeyDirectory::new(folder.to_owned(), cost);
    let listing = directory.list()?;
    for skipped in &listing.skipped {
        tracing::warn!("not a key file: {skipped}");
    }
    match &listing.accounts[..] {
        [] => {
            let key = SecretKey::random().map_err(ScsKeyError::NewKey)?;
            let stored = directory.store(&key, password, SystemTime::now())?;
            tracing::info!(id = %stored.address, path = %stored.path.display(), "a new key was made");
            Ok(key)
        }
        [account] => Ok(directory.decrypt(&account.path, password)?),
        several => Err(ScsKeyError::Several {
            path: folder.to_owned(),
            got: several.len(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_stays_the_same() {
        let home = tempfile::tempdir().expect("a folder");
        let folder = home.path().join(KEY_FOLDER);
        let open = |password| open_key(&folder, password, ScryptCost::LIGHT);
        let first = open(PASSWORD_DEFAULT).expect("a new key");
        let second = open(PASSWORD_DEFAULT).expect("the same key");
        assert_eq!(first.address(), second.address());
        let error = open("another").expect_err("wrong password");
        assert!(error.to_string().contains("could not decrypt"), "{error}");
    }
}
