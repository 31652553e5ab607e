//! The account manager: which accounts exist, and which keys are unlocked until when.
//!
//! Accounts come from two sources: keys in memory (of the development network), and a folder of key
//! files. The manager is not locked while a password is checked. So unlocking one account, which
//! may take seconds, does not keep others from signing.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use parking_lot::RwLock;
use primitives::{Address, SecretKey};

use crate::directory::{KeyDirectory, KeyDirectoryError, SkippedFile, StoredAccount};
use crate::v3::KeyFileError;

/// The reason why an account cannot sign, or a password does not unlock it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccountError {
    /// The node has no such account.
    #[error("unknown account")]
    Unknown,
    /// The account is locked.
    #[error("authentication needed: password or unlock")]
    Locked,
    /// The password is wrong.
    #[error("could not decrypt key with given passphrase")]
    WrongPassword,
}

/// The reason why an account cannot be unlocked, created, imported or updated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UnlockError {
    /// The account is unknown, or the password is wrong.
    #[error(transparent)]
    Account(#[from] AccountError),
    /// The folder or one of its files cannot be used.
    #[error(transparent)]
    Directory(KeyDirectoryError),
    /// The account manager has no folder for key files.
    #[error("this node has no folder for key files")]
    NoDirectory,
    /// The key of the account is in memory only, so it has no password that could be changed.
    #[error("the account has no key file")]
    NotStored,
    /// A new key cannot be made.
    #[error(transparent)]
    Key(#[from] primitives::KeyError),
}

impl From<KeyDirectoryError> for UnlockError {
    fn from(error: KeyDirectoryError) -> Self {
        match error {
            KeyDirectoryError::KeyFile {
                error: KeyFileError::WrongPassword,
                ..
            } => Self::Account(AccountError::WrongPassword),
            other => Self::Directory(other),
        }
    }
}

/// A function that returns the current time.
pub type MonotonicClock = Arc<dyn Fn() -> Instant + Send + Sync>;

/// An account and its state, for display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountStatus {
    /// The address.
    pub address: Address,
    /// The key file; `None` for a key in memory.
    pub path: Option<PathBuf>,
    /// Whether the account can sign without a password.
    pub unlocked: bool,
}

/// The accounts of a node. Clones share their content and are cheap.
#[derive(Clone)]
pub struct AccountManager(Arc<AccountManagerInner>);

struct AccountManagerInner {
    directory: Option<KeyDirectory>,
    clock: MonotonicClock,
    entries: RwLock<AccountEntries>,
}

#[derive(Default)]
struct AccountEntries {
    /// Keys that were added without a file, in order. They stay in memory while their account is
    /// locked.
    in_memory: Vec<(Address, Arc<SecretKey>)>,
    /// Accounts with a key file, sorted by path, as the folder was when it was last read.
    stored: Vec<StoredAccount>,
    /// Key files that do not tell their address.
    unidentified: Vec<PathBuf>,
    /// The addresses of such files, as far as a password has revealed them.
    identified: HashMap<PathBuf, Address>,
    /// Files that were skipped when the folder was last read.
    skipped: Vec<SkippedFile>,
    /// Keys of unlocked accounts.
    unlocked: HashMap<Address, UnlockedKey>,
}

/// The key of an unlocked account. It is wiped when its last user drops it.
struct UnlockedKey {
    key: Arc<SecretKey>,
    /// The time at which the account is locked again; `None` for never.
    until: Option<Instant>,
}

impl UnlockedKey {
    fn is_expired(&self, clock: &MonotonicClock) -> bool {
        self.until.is_some_and(|until| clock() >= until)
    }
}

impl AccountEntries {
    fn key_in_memory(&self, address: &Address) -> Option<&Arc<SecretKey>> {
        let mut keys = self.in_memory.iter();
        keys.find(|(other, _)| other == address).map(|(_, key)| key)
    }

    fn stored(&self, address: &Address) -> Option<&StoredAccount> {
        self.stored.iter().find(|stored| stored.address == *address)
    }

    fn knows(&self, address: &Address) -> bool {
        self.key_in_memory(address).is_some() || self.stored(address).is_some()
    }

    /// The accounts that have a key file and no key in memory.
    fn only_stored(&self) -> impl Iterator<Item = &StoredAccount> {
        self.stored
            .iter()
            .filter(|stored| self.key_in_memory(&stored.address).is_none())
    }

    fn add_stored(&mut self, account: StoredAccount) {
        if self.stored(&account.address).is_none() {
            self.stored.push(account);
            self.stored.sort_by(|one, two| one.path.cmp(&two.path));
        }
    }
}

impl Default for AccountManager {
    fn default() -> Self {
        Self::with_clock(None, Arc::new(Instant::now))
    }
}

impl AccountManager {
    /// A manager without accounts and without a folder.
    pub fn new() -> Self {
        Self::default()
    }

    /// A manager for the accounts in `directory`, all locked. They are known after the first
    /// [`Self::refresh`].
    pub fn with_directory(directory: KeyDirectory) -> Self {
        Self::with_clock(Some(directory), Arc::new(Instant::now))
    }

    /// A manager that uses `clock` to lock accounts again when their time is over.
    pub(crate) fn with_clock(directory: Option<KeyDirectory>, clock: MonotonicClock) -> Self {
        Self(Arc::new(AccountManagerInner {
            directory,
            clock,
            entries: RwLock::default(),
        }))
    }

    /// The folder of key files; `None` if there is none.
    pub fn directory(&self) -> Option<&KeyDirectory> {
        self.0.directory.as_ref()
    }

    /// Adds the account of `key` without a file and unlocks it without a time limit. Returns its
    /// address. If the account exists, it is only unlocked.
    ///
    /// The password of an added account is empty. Its key stays in memory while it is locked.
    pub fn add_unlocked(&self, key: SecretKey) -> Address {
        let address = key.address();
        let key = Arc::new(key);
        let mut entries = self.0.entries.write();
        if !entries.knows(&address) {
            entries.in_memory.push((address, key.clone()));
        }
        entries.unlocked.insert(address, UnlockedKey { key, until: None });
        address
    }

    /// Reads the folder again. Returns the files that were skipped now but not the last time.
    /// Accounts whose file is gone are removed.
    ///
    /// # Errors
    /// [`KeyDirectoryError`] when the folder cannot be read.
    pub fn refresh(&self) -> Result<Vec<SkippedFile>, KeyDirectoryError> {
        let skipped = self.read_directory()?;
        let mut entries = self.0.entries.write();
        let before = std::mem::replace(&mut entries.skipped, skipped.clone());
        let news = skipped.into_iter().filter(|skipped| !before.contains(skipped));
        Ok(news.collect())
    }

    /// Reads the folder again. Returns the files that were skipped.
    fn read_directory(&self) -> Result<Vec<SkippedFile>, KeyDirectoryError> {
        let Some(directory) = &self.0.directory else {
            return Ok(Vec::new());
        };
        let listing = directory.list()?;
        let mut entries = self.0.entries.write();
        let entries = &mut *entries;
        entries.stored = listing.accounts;
        entries.unidentified = listing.unidentified;
        entries
            .identified
            .retain(|path, _| entries.unidentified.contains(path));
        for (path, &address) in &entries.identified.clone() {
            let path = path.clone();
            entries.add_stored(StoredAccount { address, path });
        }
        let mut unlocked = std::mem::take(&mut entries.unlocked);
        unlocked.retain(|address, _| entries.knows(address));
        entries.unlocked = unlocked;
        Ok(listing.skipped)
    }

    /// Unlocks an account with its password for `time`; `None` is without a limit.
    ///
    /// If the account is already unlocked without a limit, it stays so. If it is unlocked with a
    /// limit, the new time replaces the old one.
    ///
    /// # Errors
    /// [`AccountError::Unknown`], [`AccountError::WrongPassword`], or the error of the key file.
    pub fn unlock_with_password(
        &self,
        address: &Address,
        password: impl AsRef<[u8]>,
        time: Option<Duration>,
    ) -> Result<(), UnlockError> {
        let key = Arc::new(self.key_with_password(address, password.as_ref())?);
        // A time that the clock cannot represent counts as no limit.
        let until = time.and_then(|time| (self.0.clock)().checked_add(time));
        let mut entries = self.0.entries.write();
        let without_limit = |unlocked: &UnlockedKey| unlocked.until.is_none();
        if !entries.unlocked.get(address).is_some_and(without_limit) {
            entries.unlocked.insert(*address, UnlockedKey { key, until });
        }
        Ok(())
    }

    /// The key of an account, decrypted with its password. The account stays locked or unlocked as
    /// it was.
    ///
    /// # Errors
    /// As for [`Self::unlock_with_password`].
    pub fn key_with_password(
        &self,
        address: &Address,
        password: impl AsRef<[u8]>,
    ) -> Result<SecretKey, UnlockError> {
        let password = password.as_ref();
        if let Some(key) = self.0.entries.read().key_in_memory(address) {
            return if password.is_empty() {
                Ok((**key).clone())
            } else {
                Err(AccountError::WrongPassword.into())
            };
        }
        let (directory, path) = match self.file_of(address) {
            Some(found) => found,
            // The file may have been added since the folder was read.
            None => {
                self.read_directory()?;
                match self.file_of(address) {
                    Some(found) => found,
                    None => return self.try_unidentified(address, password),
                }
            }
        };
        Ok(directory.decrypt(&path, password)?)
    }

    fn file_of(&self, address: &Address) -> Option<(&KeyDirectory, PathBuf)> {
        let entries = self.0.entries.read();
        let stored = entries.stored(address)?;
        Some((self.0.directory.as_ref()?, stored.path.clone()))
    }

    /// Tries the password on the key files that do not tell their address.
    fn try_unidentified(&self, address: &Address, password: &[u8]) -> Result<SecretKey, UnlockError> {
        let Some(directory) = &self.0.directory else {
            return Err(AccountError::Unknown.into());
        };
        for path in self.unidentified() {
            let Ok(key) = directory.decrypt(&path, password) else {
                continue;
            };
            let found = key.address();
            let mut entries = self.0.entries.write();
            entries.identified.insert(path.clone(), found);
            entries.add_stored(StoredAccount { address: found, path });
            if found == *address {
                return Ok(key);
            }
        }
        Err(AccountError::Unknown.into())
    }

    /// Makes an account with a new key and a key file, encrypted with `password`. The account is
    /// locked. `now` is part of the file's name.
    ///
    /// # Errors
    /// [`UnlockError::NoDirectory`], or [`KeyDirectoryError`] when the file cannot be written.
    pub fn create(&self, password: impl AsRef<[u8]>, now: SystemTime) -> Result<StoredAccount, UnlockError> {
        self.import(&SecretKey::random()?, password, now)
    }

    /// Makes an account from `key`, with a key file encrypted with `password`. The account is
    /// locked. `now` is part of the file's name.
    ///
    /// # Errors
    /// As for [`Self::create`], and [`KeyDirectoryError::Exists`].
    pub fn import(
        &self,
        key: &SecretKey,
        password: impl AsRef<[u8]>,
        now: SystemTime,
    ) -> Result<StoredAccount, UnlockError> {
        let directory = self.0.directory.as_ref().ok_or(UnlockError::NoDirectory)?;
        let account = directory.store(key, password, now)?;
        self.0.entries.write().add_stored(account.clone());
        Ok(account)
    }

    /// Changes the password of an account from `old` to `new`. The key file is encrypted again,
    /// with the scrypt cost of the folder.
    ///
    /// # Errors
    /// As for [`Self::unlock_with_password`], and [`UnlockError::NotStored`] for an account without
    /// a file.
    pub fn update(
        &self,
        address: &Address,
        old: impl AsRef<[u8]>,
        new: impl AsRef<[u8]>,
    ) -> Result<StoredAccount, UnlockError> {
        let key = self.key_with_password(address, old)?;
        let (directory, path) = self.file_of(address).ok_or(UnlockError::NotStored)?;
        directory.replace(&path, &key, new)?;
        Ok(StoredAccount {
            address: *address,
            path,
        })
    }

    /// Locks an account. Returns whether it was unlocked.
    pub fn lock(&self, address: &Address) -> bool {
        let removed = self.0.entries.write().unlocked.remove(address);
        removed.is_some_and(|unlocked| !unlocked.is_expired(&self.0.clock))
    }

    /// Locks the accounts whose time is over. Call this regularly, so that their keys are wiped
    /// from memory even if nobody uses them.
    pub fn lock_expired(&self) {
        let expired = |unlocked: &UnlockedKey| unlocked.is_expired(&self.0.clock);
        if self.0.entries.read().unlocked.values().any(expired) {
            let mut entries = self.0.entries.write();
            entries.unlocked.retain(|_, unlocked| !expired(unlocked));
        }
    }

    /// The addresses of all accounts, locked ones included: first those with a key in memory, in
    /// the order in which they were added, then those with a key file, sorted by path.
    pub fn addresses(&self) -> Vec<Address> {
        let entries = self.0.entries.read();
        let in_memory = entries.in_memory.iter().map(|(address, _)| *address);
        in_memory
            .chain(entries.only_stored().map(|stored| stored.address))
            .collect()
    }

    /// Whether this is one of the accounts, locked or unlocked.
    pub fn contains(&self, address: &Address) -> bool {
        self.0.entries.read().knows(address)
    }

    /// All accounts and their state, in the order of [`Self::addresses`].
    pub fn accounts(&self) -> Vec<AccountStatus> {
        self.lock_expired();
        let entries = self.0.entries.read();
        let status = |address: Address, path: Option<&Path>| AccountStatus {
            address,
            path: path.map(Path::to_owned),
            unlocked: entries.unlocked.contains_key(&address),
        };
        let in_memory = entries
            .in_memory
            .iter()
            .map(|(address, _)| status(*address, None));
        let stored = entries
            .only_stored()
            .map(|stored| status(stored.address, Some(&stored.path)));
        in_memory.chain(stored).collect()
    }

    /// The key files whose address is unknown.
    pub fn unidentified(&self) -> Vec<PathBuf> {
        let entries = self.0.entries.read();
        let unknown = entries
            .unidentified
            .iter()
            .filter(|path| !entries.identified.contains_key(*path));
        unknown.cloned().collect()
    }

    /// Calls `work` with the key of an unlocked account and returns its result.
    ///
    /// The manager is not locked meanwhile. If the account is locked during `work`, `work` still
    /// finishes.
    ///
    /// # Errors
    /// [`AccountError`] when the account is unknown or locked. Then `work` is not called.
    pub fn with_key<T>(
        &self,
        address: &Address,
        work: impl FnOnce(&SecretKey) -> T,
    ) -> Result<T, AccountError> {
        let entries = self.0.entries.read();
        let key = match entries.unlocked.get(address) {
            Some(unlocked) if !unlocked.is_expired(&self.0.clock) => unlocked.key.clone(),
            Some(_) => {
                drop(entries);
                self.lock_expired();
                return Err(AccountError::Locked);
            }
            None if entries.knows(address) => return Err(AccountError::Locked),
            None => return Err(AccountError::Unknown),
        };
        drop(entries);
        Ok(work(&key))
    }
}

/// Shows the addresses, and no keys.
impl fmt::Debug for AccountManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AccountManager").field(&self.addresses()).finish()
    }
}

#[cfg(test)]
mod tests;
