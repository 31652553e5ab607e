//! The key of an SCS, in a folder of key files below the data directory. Its address is the id of
//! the SCS.
//!
//! Two programs with one key would sign two blocks of a slot, which costs the bond. So the folder
//! of the key is locked while a program runs.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use keystore::{KeyDirectory, KeyDirectoryError, ScryptCost, StoredAccount};
use primitives::{KeyError, SecretKey};

/// The folder of the key, in the data directory. Earlier versions had it in the working directory.
pub const KEY_FOLDER: &str = "scskeystore";
/// The password if none is given: that of the public SCS.
pub const PASSWORD_DEFAULT: &str = "moacscsofflineaccountpwd";
/// The file that is locked, in the folder of the key.
const LOCK_FILE: &str = ".lock";
/// The longest file of `--password-file`, in bytes.
const PASSWORD_FILE_BYTES_MAX: u64 = 64 * 1024;

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
    /// Another program has the key.
    #[error("{}: the key is used by another program; an SCS needs a --datadir of its own", path.display())]
    InUse {
        /// The folder.
        path: PathBuf,
    },
    /// The folder cannot be locked, or the file of the password cannot be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The folder or the file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The file of the password has none.
    #[error("--password-file {}: got {got}, expected a password in the first line", path.display())]
    NoPassword {
        /// The file.
        path: PathBuf,
        /// The content of the file.
        got: &'static str,
    },
}

fn io_error(path: &Path) -> impl FnOnce(io::Error) -> ScsKeyError {
    move |source| ScsKeyError::Io {
        path: path.to_owned(),
        source,
    }
}

/// A key that no other program on this machine uses while this exists.
#[derive(Debug)]
pub(crate) struct LockedKey {
    /// The key.
    pub(crate) key: SecretKey,
    /// Its folder.
    pub(crate) folder: PathBuf,
    _lock: File,
}

/// Locks the folder of a key, and makes it if it does not exist.
fn lock(folder: &Path) -> Result<File, ScsKeyError> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder).map_err(io_error(folder))?;
    let path = folder.join(LOCK_FILE);
    let mut options = File::options();
    options.create(true).truncate(false).write(true);
    let file = options.open(&path).map_err(io_error(&path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(ScsKeyError::InUse {
            path: folder.to_owned(),
        }),
        Err(TryLockError::Error(source)) => Err(io_error(&path)(source)),
    }
}

/// The only key in a folder; `None` if there is none.
fn only_key(directory: &KeyDirectory) -> Result<Option<StoredAccount>, ScsKeyError> {
    let listing = directory.list()?;
    for skipped in &listing.skipped {
        tracing::warn!("not a key file: {skipped}");
    }
    match &listing.accounts[..] {
        [] => Ok(None),
        [account] => Ok(Some(account.clone())),
        several => Err(ScsKeyError::Several {
            path: directory.path().to_owned(),
            got: several.len(),
        }),
    }
}

/// Reads and locks the key in the data directory `data`. If there is none, the key in the folder
/// `old` of earlier versions is moved there. If there is none either, a key is made and encrypted
/// with this cost.
///
/// # Errors
/// [`ScsKeyError`] if a folder has several keys, another program has the key, or the password is
/// wrong.
pub(crate) fn open_key(
    data: &Path,
    old: &Path,
    password: &str,
    cost: ScryptCost,
) -> Result<LockedKey, ScsKeyError> {
    let folder = data.join(KEY_FOLDER);
    let lock = lock(&folder)?;
    let directory = KeyDirectory::new(folder.clone(), cost);
    let key = if let Some(account) = only_key(&directory)? {
        tell_of_other_key(old, &account);
        directory.decrypt(&account.path, password)?
    } else if let Some(account) = only_key(&KeyDirectory::new(old.to_owned(), cost))? {
        return take_old_key(&account, old, (&folder, lock), password);
    } else {
        let key = SecretKey::random().map_err(ScsKeyError::NewKey)?;
        let stored = directory.store(&key, password, SystemTime::now())?;
        tracing::info!(id = %stored.address, path = %stored.path.display(), "a new key was made");
        key
    };
    Ok(LockedKey {
        key,
        folder,
        _lock: lock,
    })
}

/// Moves the key of an earlier version into the data directory. Where the system cannot rename it
/// there, it is used where it is.
fn take_old_key(
    account: &StoredAccount,
    old: &Path,
    (folder, lock_of_folder): (&Path, File),
    password: &str,
) -> Result<LockedKey, ScsKeyError> {
    let old_lock = lock(old)?;
    // A wrong password moves nothing.
    let key = KeyDirectory::new(old.to_owned(), ScryptCost::STANDARD).decrypt(&account.path, password)?;
    let id = account.address;
    let from = account.path.display();
    let to = folder.join(account.path.file_name().unwrap_or_default());
    let renamed = if to.exists() {
        Err(io::ErrorKind::AlreadyExists.into())
    } else {
        fs::rename(&account.path, &to)
    };
    let to = to.display();
    match renamed {
        Ok(()) => {
            tracing::warn!(%id, %from, %to, "the key was moved into the data directory");
            Ok(LockedKey {
                key,
                folder: folder.to_owned(),
                _lock: lock_of_folder,
            })
        }
        Err(error) => {
            tracing::warn!(
                %id, %from, %error,
                "the key is used where it is, in the place of earlier versions; stop the SCS and move it: mv {from} {to}"
            );
            Ok(LockedKey {
                key,
                folder: old.to_owned(),
                _lock: old_lock,
            })
        }
    }
}

/// Names the key in the place of earlier versions, which is not used beside one in the data
/// directory.
fn tell_of_other_key(old: &Path, used: &StoredAccount) {
    let Ok(listing) = KeyDirectory::new(old.to_owned(), ScryptCost::LIGHT).list() else {
        return;
    };
    let is_other = |account: &&StoredAccount| account.address != used.address;
    for other in listing.accounts.iter().filter(is_other) {
        tracing::warn!(
            id = %other.address, path = %other.path.display(), used = %used.address,
            "a key in the place of earlier versions is not used"
        );
    }
}

/// The password of the key: that of the file, else `given`, else that of the public SCS, with a
/// warning.
///
/// # Errors
/// [`ScsKeyError`] if the file cannot be read or has no password.
pub(crate) fn password_of(file: Option<&Path>, given: Option<&str>) -> Result<String, ScsKeyError> {
    if let Some(path) = file {
        return read_password(path);
    }
    Ok(given.map_or_else(
        || {
            tracing::warn!(
                "the key is encrypted with the password of the public SCS, which everybody knows: --password-file names a file with another one"
            );
            PASSWORD_DEFAULT.to_owned()
        },
        str::to_owned,
    ))
}

/// The first line of a file.
fn read_password(path: &Path) -> Result<String, ScsKeyError> {
    let no_password = |got| ScsKeyError::NoPassword {
        path: path.to_owned(),
        got,
    };
    if !fs::metadata(path).map_err(io_error(path))?.is_file() {
        return Err(no_password("no regular file"));
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = fs::metadata(path).map_or(0, |file| file.permissions().mode());
        if mode & 0o077 != 0 {
            let path = path.display();
            tracing::warn!(%path, "other users of this machine may read the password: chmod 600 keeps it secret");
        }
    }
    let mut text = Vec::new();
    let file = File::open(path).map_err(io_error(path))?;
    let mut file = file.take(PASSWORD_FILE_BYTES_MAX + 1);
    file.read_to_end(&mut text).map_err(io_error(path))?;
    if text.len() as u64 > PASSWORD_FILE_BYTES_MAX {
        return Err(no_password("more than 64 KiB"));
    }
    let text = String::from_utf8(text).map_err(|_| no_password("bytes that are no text"))?;
    match text.lines().next() {
        Some(line) if !line.is_empty() => Ok(line.to_owned()),
        _ => Err(no_password("an empty line")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Place(tempfile::TempDir);

    impl Place {
        fn new() -> Self {
            Self(tempfile::tempdir().expect("a folder"))
        }

        fn old(&self) -> PathBuf {
            self.0.path().join(KEY_FOLDER)
        }

        fn open_with(&self, data: &str, password: &str) -> Result<LockedKey, ScsKeyError> {
            open_key(
                &self.0.path().join(data),
                &self.old(),
                password,
                ScryptCost::LIGHT,
            )
        }

        fn open(&self, data: &str) -> LockedKey {
            self.open_with(data, PASSWORD_DEFAULT).expect("a key")
        }

        /// A key in the place of earlier versions. Returns its file.
        fn old_key(&self) -> (SecretKey, PathBuf) {
            let key = SecretKey::random().expect("a key");
            let directory = KeyDirectory::new(self.old(), ScryptCost::LIGHT);
            let stored = directory.store(&key, PASSWORD_DEFAULT, SystemTime::now());
            (key, stored.expect("a file").path)
        }
    }

    #[test]
    fn the_key_stays_the_same() {
        let place = Place::new();
        let first = place.open("data");
        let id = first.key.address();
        assert_eq!(first.folder, place.0.path().join("data").join(KEY_FOLDER));
        drop(first);
        assert_eq!(place.open("data").key.address(), id);
        let error = place.open_with("data", "another").expect_err("wrong password");
        assert!(error.to_string().contains("could not decrypt"), "{error}");
    }

    #[test]
    fn two_data_directories_have_two_keys_and_one_serves_one_program() {
        let place = Place::new();
        let first = place.open("one");
        let error = place.open_with("one", PASSWORD_DEFAULT).expect_err("it is used");
        assert!(matches!(error, ScsKeyError::InUse { .. }), "{error}");
        assert_ne!(place.open("two").key.address(), first.key.address());
        let id = first.key.address();
        drop(first);
        assert_eq!(place.open("one").key.address(), id);
    }

    #[test]
    fn the_key_of_an_earlier_version_goes_to_one_data_directory() {
        let place = Place::new();
        let (key, file) = place.old_key();
        let error = place.open_with("one", "another").expect_err("wrong password");
        assert!(error.to_string().contains("could not decrypt"), "{error}");
        assert!(file.exists(), "nothing was moved");
        let one = place.open("one");
        assert_eq!(one.key.address(), key.address());
        assert!(!file.exists() && one.folder.join(file.file_name().expect("a name")).exists());
        drop(one);
        assert_ne!(place.open("two").key.address(), key.address());
        assert_eq!(place.open("one").key.address(), key.address());
        // Another key there is not touched.
        let (other, file) = place.old_key();
        assert_eq!(place.open("one").key.address(), key.address());
        assert!(file.exists() && other.address() != key.address());
    }

    #[test]
    fn a_key_that_cannot_be_moved_is_used_by_one_program() {
        let place = Place::new();
        let (key, file) = place.old_key();
        // Something in the way: no file there is replaced.
        let name = file.file_name().expect("a name");
        for data in ["one", "two"] {
            let folder = place.0.path().join(data).join(KEY_FOLDER);
            fs::create_dir_all(folder.join(name)).expect("a folder");
        }
        let one = place.open("one");
        assert_eq!((one.key.address(), &one.folder), (key.address(), &place.old()));
        assert!(file.exists());
        let error = place.open_with("two", PASSWORD_DEFAULT).expect_err("it is used");
        assert!(error.to_string().contains("used by another program"), "{error}");
    }

    #[test]
    fn the_working_directory_can_be_the_data_directory() {
        let place = Place::new();
        let id = place.open(".").key.address();
        assert_eq!(place.open(".").key.address(), id);
    }

    #[test]
    fn a_password_is_the_first_line_of_its_file() {
        let home = tempfile::tempdir().expect("a folder");
        let path = home.path().join("password");
        for (text, expected) in [("one\n", "one"), (" two \r\nthree\n", " two "), ("four", "four")] {
            fs::write(&path, text).expect("a write");
            assert_eq!(password_of(Some(&path), Some("x")).expect("a password"), expected);
        }
        for bad in [&b""[..], b"\n", b"\xff\n"] {
            fs::write(&path, bad).expect("a write");
            let error = password_of(Some(&path), None)
                .expect_err("no password")
                .to_string();
            assert!(error.contains("expected a password in the first line"), "{error}");
        }
        assert!(password_of(Some(home.path()), None).is_err());
        assert!(password_of(Some(&home.path().join("none")), None).is_err());
        assert_eq!(password_of(None, Some("given")).expect("a password"), "given");
        assert_eq!(password_of(None, None).expect("a password"), PASSWORD_DEFAULT);
    }
}
