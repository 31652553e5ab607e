//! A folder of key files: lists the accounts in it, adds and replaces files.
//!
//! Knows files, their names and permissions. The text of a file is in [`crate::v3`]; which keys are
//! unlocked is in [`crate::AccountManager`].
//!
//! A file is written under a temporary name and then renamed. So a crash leaves the old file or the
//! new one. Only the owner can read it. After the rename the key counts as stored, even if syncing
//! the folder fails; that is only a warning in the log.

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

/// Prefix of the temporary names of files that are being written. Such files are ignored.
const UNFINISHED_PREFIX: &str = ".unfinished-";

/// The reason why a folder of key files, or a file in it, cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyDirectoryError {
    /// The operating system refuses.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// The failed action: `read`, `write` or `make`.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The file is not a key file, or no key can be decrypted from it.
    #[error("{}: {error}", path.display())]
    KeyFile {
        /// The file.
        path: PathBuf,
        /// The reason.
        error: KeyFileError,
    },
    /// The folder already has a key of this account.
    #[error("account already exists: {address:#x} in {}", path.display())]
    Exists {
        /// The address of the account.
        address: Address,
        /// The existing key file.
        path: PathBuf,
    },
    /// A new key file cannot be made.
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

    /// The message without the path.
    fn reason(&self) -> String {
        match self {
            Self::Io { source, .. } => source.to_string(),
            Self::KeyFile { error, .. } => error.to_string(),
            Self::Exists { .. } | Self::NewKey(_) => self.to_string(),
        }
    }
}

/// An account and its key file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredAccount {
    /// The address that the file claims. Decrypting the key checks it.
    pub address: Address,
    /// The key file.
    pub path: PathBuf,
}

/// The URL of a key file, as wallets display it: `keystore://<path>`.
pub fn url(path: &Path) -> String {
    format!("keystore://{}", path.display())
}

/// A file that was skipped, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedFile {
    /// The file.
    pub path: PathBuf,
    /// The reason.
    pub reason: String,
}

impl fmt::Display for SkippedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.reason)
    }
}

/// The content of a folder of key files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyDirectoryListing {
    /// The accounts, sorted by the names of their files. The names begin with the time when the
    /// file was made.
    pub accounts: Vec<StoredAccount>,
    /// Key files that tell no address, neither in their text nor in their name.
    pub unidentified: Vec<PathBuf>,
    /// Files that are not key files, and further key files of an account that is already listed.
    pub skipped: Vec<SkippedFile>,
}

/// A folder of key files. Keeps nothing in memory: each call reads the disk.
#[derive(Clone, Debug)]
pub struct KeyDirectory {
    path: PathBuf,
    cost: ScryptCost,
    /// Syncs a folder. Replaced by tests.
    sync: fn(&Path) -> io::Result<()>,
}

impl KeyDirectory {
    /// The folder `path`, which need not exist yet. New files are encrypted with the scrypt cost
    /// `cost`.
    pub fn new(path: PathBuf, cost: ScryptCost) -> Self {
        let sync = sync_folder;
        Self { path, cost, sync }
    }

    /// Path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Lists the folder. A folder that does not exist is empty. A file that cannot be read as a key
    /// file is listed as skipped.
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
                Ok(KeyFile { address: None, .. }) => listing.unidentified.push(path),
                Ok(KeyFile {
                    address: Some(address),
                    ..
                }) => match seen.get(&address) {
                    None => {
                        seen.insert(address, path.clone());
                        listing.accounts.push(StoredAccount { address, path });
                    }
                    Some(first) => {
                        let reason = format!(
                            "account {address:#x} is already listed, with the file {}",
                            first.display()
                        );
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

    /// Reads a key file. If its text tells no address, the address comes from its name.
    fn load(&self, path: &Path) -> Result<KeyFile, KeyDirectoryError> {
        let text = read_short(path)?;
        let mut file = KeyFile::read(&text).map_err(KeyDirectoryError::key_file(path))?;
        let name = path.file_name().and_then(OsStr::to_str);
        file.address = file.address.or_else(|| name.and_then(address_in));
        Ok(file)
    }

    /// Decrypts the key in the file `path`.
    ///
    /// # Errors
    /// [`KeyDirectoryError::KeyFile`], with [`KeyFileError::WrongPassword`] if the password is
    /// wrong; [`KeyDirectoryError::Io`] when the file cannot be read.
    pub fn decrypt(&self, path: &Path, password: impl AsRef<[u8]>) -> Result<SecretKey, KeyDirectoryError> {
        let file = self.load(path)?;
        file.decrypt(password.as_ref())
            .map_err(KeyDirectoryError::key_file(path))
    }

    /// Stores `key` in a new file, encrypted with `password`. `now` becomes part of its name.
    ///
    /// # Errors
    /// [`KeyDirectoryError::Exists`] when the folder already has a key of this account;
    /// [`KeyDirectoryError::Io`] when the file cannot be written.
    pub fn store(
        &self,
        key: &SecretKey,
        password: impl AsRef<[u8]>,
        now: SystemTime,
    ) -> Result<StoredAccount, KeyDirectoryError> {
        let address = key.address();
        let mut accounts = self.list()?.accounts.into_iter();
        if let Some(StoredAccount { path, .. }) = accounts.find(|account| account.address == address) {
            return Err(KeyDirectoryError::Exists { address, path });
        }
        let text = v3::encrypt(key, password, self.cost).map_err(KeyDirectoryError::NewKey)?;
        make_private(&self.path).map_err(KeyDirectoryError::io("make", &self.path))?;
        let path = self.path.join(file_name(now, &address));
        let written = self
            .write_temporary(text.as_bytes())
            .and_then(|file| Ok(file.persist_noclobber(&path)?));
        written.map_err(KeyDirectoryError::io("write", &path))?;
        self.sync_name(&path);
        Ok(StoredAccount { address, path })
    }

    /// Replaces the file `path` by one with `key`, encrypted with `password`.
    ///
    /// # Errors
    /// [`KeyDirectoryError::Io`] when the file cannot be written. The old file is unchanged then.
    pub fn replace(
        &self,
        path: &Path,
        key: &SecretKey,
        password: impl AsRef<[u8]>,
    ) -> Result<(), KeyDirectoryError> {
        let text = v3::encrypt(key, password, self.cost).map_err(KeyDirectoryError::NewKey)?;
        let written = self
            .write_temporary(text.as_bytes())
            .and_then(|file| Ok(file.persist(path)?));
        written.map_err(KeyDirectoryError::io("write", path))?;
        self.sync_name(path);
        Ok(())
    }

    /// Writes `text` to a temporary file that only its owner can read, and syncs it.
    fn write_temporary(&self, text: &[u8]) -> io::Result<tempfile::NamedTempFile> {
        let mut builder = tempfile::Builder::new();
        builder.prefix(UNFINISHED_PREFIX);
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600));
        let mut file = builder.tempfile_in(&self.path)?;
        file.write_all(text)?;
        file.as_file().sync_all()?;
        Ok(file)
    }

    /// Makes the name of a renamed file survive a power failure. A failure is logged only.
    fn sync_name(&self, path: &Path) {
        if let Err(error) = (self.sync)(&self.path) {
            let path = path.display();
            tracing::warn!(%path, %error, "the key file is written, but a power failure may lose its name");
        }
    }
}

/// Makes the names in a folder survive a power failure. Does nothing where the system cannot sync
/// folders.
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

/// Whether a file is ignored: hidden files (temporary ones too) and backup copies of editors.
fn is_hidden(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    name.starts_with(b".") || name.ends_with(b"~")
}

/// Makes a folder, and the folders above it, that only the owner can enter. An existing folder is
/// not changed.
fn make_private(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Reads a regular file, but at most one byte more than [`FILE_BYTES_MAX`].
fn read_short(path: &Path) -> Result<Vec<u8>, KeyDirectoryError> {
    let read = || {
        // Checked before the file is opened, because opening a pipe would block.
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
