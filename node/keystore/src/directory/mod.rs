//! A folder of key files: which accounts it holds, and how one is added or changed.
//!
//! Knows files, their names and their rights. The text within is [`crate::v3`]'s; which keys are
//! unlocked is the [`crate::AccountManager`]'s.
//!
//! A file is written beside its place and then put there in one step, so a crash leaves the old
//! file or the new one. Only its owner may read it. Once it is in its place it is stored, also
//! where the system then fails to bring its name to the disk: that is told in the log.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use primitives::{Address, SecretKey};

use crate::kdf::ScryptCost;
use crate::name::{address_in, file_name};
use crate::v3::{self, FILE_BYTES_MAX, KeyFile, KeyFileError};

/// Start of the names of files being written. Such files are nobody's keys.
const UNFINISHED_PREFIX: &str = ".unfinished-";

/// Why a folder or a file of it cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyDirectoryError {
    /// The system refuses.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried: `read`, `write`, `make`.
        action: &'static str,
        /// With which file or folder.
        path: PathBuf,
        /// The system's words.
        source: io::Error,
    },
    /// A file that is no key file, or gives no key.
    #[error("{}: {error}", path.display())]
    KeyFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        error: KeyFileError,
    },
    /// The folder has a key of this account.
    #[error("account already exists: {address:#x} in {}", path.display())]
    Exists {
        /// The account.
        address: Address,
        /// Its file.
        path: PathBuf,
    },
    /// The key of a new account cannot be made.
    #[error(transparent)]
    NewKey(KeyFileError),
}

impl KeyDirectoryError {
    fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io {
            action,
            path: path.to_owned(),
            source,
        }
    }

    fn key_file(path: &Path) -> impl FnOnce(KeyFileError) -> Self {
        move |error| Self::KeyFile {
            path: path.to_owned(),
            error,
        }
    }

    /// The error without the path.
    fn reason(&self) -> String {
        match self {
            Self::Io { source, .. } => source.to_string(),
            Self::KeyFile { error, .. } => error.to_string(),
            Self::Exists { .. } | Self::NewKey(_) => self.to_string(),
        }
    }
}

/// An account and the file of its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredAccount {
    /// Whose key it is said to be; the key itself is only seen with the password.
    pub address: Address,
    /// The file.
    pub path: PathBuf,
}

/// The address of a key file, as wallets show it.
pub fn url(path: &Path) -> String {
    format!("keystore://{}", path.display())
}

/// A file that is passed over, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedFile {
    /// The file.
    pub path: PathBuf,
    /// Why.
    pub reason: String,
}

impl fmt::Display for SkippedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.reason)
    }
}

/// What a folder holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyDirectoryListing {
    /// The accounts by the names of their files, which is by age.
    pub accounts: Vec<StoredAccount>,
    /// Key files that do not say whose key they hold, neither inside nor by their name.
    pub nameless: Vec<PathBuf>,
    /// What is no key file, or one too many for an account.
    pub skipped: Vec<SkippedFile>,
}

/// A folder of key files. Holds no state: each question is answered from the disk.
#[derive(Clone, Debug)]
pub struct KeyDirectory {
    path: PathBuf,
    cost: ScryptCost,
    /// Makes the names in a folder last.
    sync: fn(&Path) -> io::Result<()>,
}

impl KeyDirectory {
    /// The folder `path`, which need not exist yet; new files are encrypted at `cost`.
    pub fn new(path: PathBuf, cost: ScryptCost) -> Self {
        let sync = sync_folder;
        Self { path, cost, sync }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Which accounts it holds. A folder that does not exist holds none; a file that cannot be
    /// read as key file is named in the listing and hides no other.
    ///
    /// # Errors
    /// [`KeyDirectoryError::Io`] when the folder itself cannot be read.
    pub fn list(&self) -> Result<KeyDirectoryListing, KeyDirectoryError> {
        let entries = match fs::read_dir(&self.path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(KeyDirectoryListing::default());
            }
            Err(error) => return Err(KeyDirectoryError::io("read", &self.path)(error)),
        };
        let mut paths = Vec::new();
        for entry in entries {
            let entry = entry.map_err(KeyDirectoryError::io("read", &self.path))?;
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if !is_folder && !is_hidden(&entry.file_name()) {
                paths.push(entry.path());
            }
        }
        paths.sort_unstable();
        let mut listing = KeyDirectoryListing::default();
        let mut seen: HashMap<Address, PathBuf> = HashMap::new();
        for path in paths {
            match self.load(&path) {
                Ok(KeyFile { address: None, .. }) => listing.nameless.push(path),
                Ok(KeyFile {
                    address: Some(address),
                    ..
                }) => match seen.get(&address) {
                    None => {
                        seen.insert(address, path.clone());
                        listing.accounts.push(StoredAccount { address, path });
                    }
                    Some(first) => {
                        let reason = format!("account {address:#x} is taken from {}", first.display());
                        listing.skipped.push(SkippedFile { path, reason });
                    }
                },
                Err(error) => {
                    let reason = error.reason();
                    listing.skipped.push(SkippedFile { path, reason });
                }
            }
        }
        Ok(listing)
    }

    /// Reads a key file. Where it does not say whose key it holds, its name may.
    fn load(&self, path: &Path) -> Result<KeyFile, KeyDirectoryError> {
        let text = read_short(path)?;
        let mut file = KeyFile::read(&text).map_err(KeyDirectoryError::key_file(path))?;
        let name = path.file_name().and_then(OsStr::to_str);
        file.address = file.address.or_else(|| name.and_then(address_in));
        Ok(file)
    }

    /// The key in the file `path`.
    ///
    /// # Errors
    /// [`KeyDirectoryError::KeyFile`] with [`KeyFileError::WrongPassword`] where the password is
    /// wrong, or what is wrong with the file.
    pub fn decrypt(&self, path: &Path, password: impl AsRef<[u8]>) -> Result<SecretKey, KeyDirectoryError> {
        let file = self.load(path)?;
        file.decrypt(password.as_ref())
            .map_err(KeyDirectoryError::key_file(path))
    }

    /// Stores `key` under `password` in a new file, named after the time `now`.
    ///
    /// # Errors
    /// [`KeyDirectoryError::Exists`] when the folder has a key of this account; else what the system
    /// refuses.
    pub fn store(
        &self,
        key: &SecretKey,
        password: impl AsRef<[u8]>,
        now: SystemTime,
    ) -> Result<StoredAccount, KeyDirectoryError> {
        let address = key.address();
        let held = self.list()?.accounts;
        if let Some(StoredAccount { path, .. }) = held.into_iter().find(|held| held.address == address) {
            return Err(KeyDirectoryError::Exists { address, path });
        }
        let text = v3::encrypt(key, password, self.cost).map_err(KeyDirectoryError::NewKey)?;
        make_private(&self.path).map_err(KeyDirectoryError::io("make", &self.path))?;
        let path = self.path.join(file_name(now, &address));
        let written = self
            .write_beside(text.as_bytes())
            .and_then(|file| Ok(file.persist_noclobber(&path)?));
        written.map_err(KeyDirectoryError::io("write", &path))?;
        self.sync_name(&path);
        Ok(StoredAccount { address, path })
    }

    /// Puts `key` under `password` in the place of the file `path`.
    ///
    /// # Errors
    /// What the system refuses. The old file is whole then.
    pub fn replace(
        &self,
        path: &Path,
        key: &SecretKey,
        password: impl AsRef<[u8]>,
    ) -> Result<(), KeyDirectoryError> {
        let text = v3::encrypt(key, password, self.cost).map_err(KeyDirectoryError::NewKey)?;
        let written = self
            .write_beside(text.as_bytes())
            .and_then(|file| Ok(file.persist(path)?));
        written.map_err(KeyDirectoryError::io("write", path))?;
        self.sync_name(path);
        Ok(())
    }

    /// A file with this text, on the disk, that only its owner can read.
    fn write_beside(&self, text: &[u8]) -> io::Result<tempfile::NamedTempFile> {
        let mut builder = tempfile::Builder::new();
        builder.prefix(UNFINISHED_PREFIX);
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600));
        let mut file = builder.tempfile_in(&self.path)?;
        file.write_all(text)?;
        file.as_file().sync_all()?;
        Ok(file)
    }

    /// Makes the name of a file that is in its place last.
    fn sync_name(&self, path: &Path) {
        if let Err(error) = (self.sync)(&self.path) {
            let path = path.display();
            tracing::warn!(%path, %error, "the key file is written, but its name may be lost with the power");
        }
    }
}

/// Makes the names in a folder last, where the system can do that: not every file system lets
/// folders be opened or synced.
fn sync_folder(path: &Path) -> io::Result<()> {
    use io::ErrorKind::{InvalidInput, PermissionDenied, Unsupported};
    if cfg!(not(unix)) {
        return Ok(());
    }
    match File::open(path).and_then(|folder| folder.sync_all()) {
        Err(error) if matches!(error.kind(), InvalidInput | PermissionDenied | Unsupported) => Ok(()),
        synced => synced,
    }
}

/// Editors' copies and files being written.
fn is_hidden(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    name.starts_with(b".") || name.ends_with(b"~")
}

/// Makes a folder, with those above it, that only its owner can enter. One that exists stays
/// as it is.
fn make_private(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Reads a regular file, of the longest ones just so much that they are found too long.
fn read_short(path: &Path) -> Result<Vec<u8>, KeyDirectoryError> {
    let read = || {
        // Asked before it is opened: a pipe would keep the reader waiting.
        if !fs::metadata(path)?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        let mut text = Vec::new();
        let mut file = File::open(path)?.take(FILE_BYTES_MAX as u64 + 1);
        file.read_to_end(&mut text)?;
        Ok(text)
    };
    read().map_err(KeyDirectoryError::io("read", path))
}

#[cfg(test)]
mod tests;
