//! The book of accounts: which there are, and whose keys are unlocked until when.
//!
//! Accounts come from two sources: keys that the node was given (the development network's), and
//! a folder of key files. The book is not held while a password is tried, so that unlocking one
//! account keeps no other from signing.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use parking_lot::RwLock;
use primitives::{Address, SecretKey};

use crate::directory::{KeyDirectory, KeyDirectoryError, SkippedFile, StoredAccount};
use crate::v3::KeyFileError;

/// Why an account cannot sign, or a password does not unlock it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccountError {
    /// The node has no such account.
    #[error("unknown account")]
    Unknown,
    /// The account's key is not at hand.
    #[error("authentication needed: password or unlock")]
    Locked,
    /// The account's password is another one.
    #[error("could not decrypt key with given passphrase")]
    WrongPassword,
}

/// Why a password gave no key, or a key no account.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UnlockError {
    /// The account or the password.
    #[error(transparent)]
    Account(#[from] AccountError),
    /// The folder or a file of it.
    #[error(transparent)]
    Directory(KeyDirectoryError),
    /// This book has no folder to keep accounts in.
    #[error("this node keeps no key files")]
    NoDirectory,
    /// The account's key is no file's, so it has no password to change.
    #[error("the account is not from a key file")]
    NotStored,
    /// A new key cannot be drawn.
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

/// What time it is.
pub type MonotonicClock = Arc<dyn Fn() -> Instant + Send + Sync>;

/// An account of the book, as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountStatus {
    /// The account.
    pub address: Address,
    /// The file of its key; `None` for a key that the node was given.
    pub path: Option<PathBuf>,
    /// Whether it signs without a password.
    pub unlocked: bool,
}

/// The book of accounts. Cheap to clone; every clone is the same book.
#[derive(Clone)]
pub struct AccountManager(Arc<AccountManagerInner>);

struct AccountManagerInner {
    directory: Option<KeyDirectory>,
    clock: MonotonicClock,
    entries: RwLock<AccountEntries>,
}

#[derive(Default)]
struct AccountEntries {
    /// Keys that the node was given, in order. They stay in memory while their account is locked.
    given: Vec<(Address, Arc<SecretKey>)>,
    /// The folder as it was last read.
    stored: Vec<StoredAccount>,
    /// Files of the folder of which nobody knows yet whose key they hold.
    nameless: Vec<PathBuf>,
    /// Whose they turned out to be.
    named: HashMap<PathBuf, Address>,
    /// What the folder's last reading passed over.
    skipped: Vec<SkippedFile>,
    unlocked: HashMap<Address, UnlockedKey>,
}

/// A key at hand. It wipes itself when the last user lets it go.
struct UnlockedKey {
    key: Arc<SecretKey>,
    /// `None`: for good.
    until: Option<Instant>,
}

impl UnlockedKey {
    fn is_over(&self, clock: &MonotonicClock) -> bool {
        self.until.is_some_and(|until| clock() >= until)
    }
}

impl AccountEntries {
    fn given(&self, address: &Address) -> Option<&Arc<SecretKey>> {
        let mut given = self.given.iter();
        given.find(|(given, _)| given == address).map(|(_, key)| key)
    }

    fn stored(&self, address: &Address) -> Option<&StoredAccount> {
        self.stored.iter().find(|stored| stored.address == *address)
    }

    fn knows(&self, address: &Address) -> bool {
        self.given(address).is_some() || self.stored(address).is_some()
    }

    /// The folder's accounts that are not also given.
    fn only_stored(&self) -> impl Iterator<Item = &StoredAccount> {
        self.stored
            .iter()
            .filter(|stored| self.given(&stored.address).is_none())
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
        Self::with(None, Arc::new(Instant::now))
    }
}

impl AccountManager {
    /// A book without accounts and without a folder.
    pub fn new() -> Self {
        Self::default()
    }

    /// A book of the accounts in `directory`, all locked. They are known once [`Self::refresh`]
    /// has read the folder.
    pub fn with_directory(directory: KeyDirectory) -> Self {
        Self::with(Some(directory), Arc::new(Instant::now))
    }

    /// A book whose unlocked accounts are locked again by this clock.
    pub fn with(directory: Option<KeyDirectory>, clock: MonotonicClock) -> Self {
        Self(Arc::new(AccountManagerInner {
            directory,
            clock,
            entries: RwLock::default(),
        }))
    }

    /// The folder of key files, where the book has one.
    pub fn directory(&self) -> Option<&KeyDirectory> {
        self.0.directory.as_ref()
    }

    /// Adds the account of a key that needs no file, or unlocks it where the book has it, for
    /// good; gives its address.
    ///
    /// A new account's password is the empty one: its key stays in memory while it is locked.
    pub fn unlock(&self, key: SecretKey) -> Address {
        let address = key.address();
        let key = Arc::new(key);
        let mut entries = self.0.entries.write();
        if !entries.knows(&address) {
            entries.given.push((address, key.clone()));
        }
        entries.unlocked.insert(address, UnlockedKey { key, until: None });
        address
    }

    /// Reads the folder again, and gives what it passes over and did not the last time. Accounts
    /// whose file is gone are forgotten.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn refresh(&self) -> Result<Vec<SkippedFile>, KeyDirectoryError> {
        let skipped = self.read_directory()?;
        let mut entries = self.0.entries.write();
        let before = std::mem::replace(&mut entries.skipped, skipped.clone());
        let news = skipped.into_iter().filter(|skipped| !before.contains(skipped));
        Ok(news.collect())
    }

    /// Reads the folder again, and gives what it passes over.
    fn read_directory(&self) -> Result<Vec<SkippedFile>, KeyDirectoryError> {
        let Some(directory) = &self.0.directory else {
            return Ok(Vec::new());
        };
        let listing = directory.list()?;
        let mut entries = self.0.entries.write();
        let entries = &mut *entries;
        entries.stored = listing.accounts;
        entries.nameless = listing.nameless;
        entries.named.retain(|path, _| entries.nameless.contains(path));
        for (path, &address) in &entries.named.clone() {
            let path = path.clone();
            entries.add_stored(StoredAccount { address, path });
        }
        let mut unlocked = std::mem::take(&mut entries.unlocked);
        unlocked.retain(|address, _| entries.knows(address));
        entries.unlocked = unlocked;
        Ok(listing.skipped)
    }

    /// Unlocks an account with its password, for a time or for good.
    ///
    /// An account that is unlocked for good stays so; else the new time counts.
    ///
    /// # Errors
    /// [`AccountError::Unknown`], [`AccountError::WrongPassword`], or what is wrong with the file.
    pub fn unlock_with(
        &self,
        address: &Address,
        password: impl AsRef<[u8]>,
        time: Option<Duration>,
    ) -> Result<(), UnlockError> {
        let key = Arc::new(self.key_with(address, password.as_ref())?);
        // A time that is longer than the clock can count is for good.
        let until = time.and_then(|time| (self.0.clock)().checked_add(time));
        let mut entries = self.0.entries.write();
        let for_good = |held: &UnlockedKey| held.until.is_none();
        if !entries.unlocked.get(address).is_some_and(for_good) {
            entries.unlocked.insert(*address, UnlockedKey { key, until });
        }
        Ok(())
    }

    /// The key of an account, for one use of its password. The account stays as it is.
    ///
    /// # Errors
    /// As [`Self::unlock_with`].
    pub fn key_with(&self, address: &Address, password: impl AsRef<[u8]>) -> Result<SecretKey, UnlockError> {
        let password = password.as_ref();
        if let Some(key) = self.0.entries.read().given(address) {
            let right = password.is_empty();
            return if right {
                Ok((**key).clone())
            } else {
                Err(AccountError::WrongPassword.into())
            };
        }
        let (directory, path) = match self.file_of(address) {
            Some(found) => found,
            // The file may be newer than the book.
            None => {
                self.read_directory()?;
                match self.file_of(address) {
                    Some(found) => found,
                    None => return self.nameless_key(address, password),
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

    /// Tries the password on the files that do not say whose key they hold.
    fn nameless_key(&self, address: &Address, password: &[u8]) -> Result<SecretKey, UnlockError> {
        let Some(directory) = &self.0.directory else {
            return Err(AccountError::Unknown.into());
        };
        for path in self.nameless() {
            let Ok(key) = directory.decrypt(&path, password) else {
                continue;
            };
            let found = key.address();
            let mut entries = self.0.entries.write();
            entries.named.insert(path.clone(), found);
            entries.add_stored(StoredAccount { address: found, path });
            if found == *address {
                return Ok(key);
            }
        }
        Err(AccountError::Unknown.into())
    }

    /// Makes an account with a key file under `password`; it is locked.
    ///
    /// # Errors
    /// [`UnlockError::NoDirectory`], or what the system refuses.
    pub fn create(&self, password: impl AsRef<[u8]>, now: SystemTime) -> Result<StoredAccount, UnlockError> {
        self.import(&SecretKey::random()?, password, now)
    }

    /// Stores `key` in a key file under `password`; the account is locked.
    ///
    /// # Errors
    /// As [`Self::create`], and [`KeyDirectoryError::Exists`].
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

    /// Puts the key of an account under another password, at the folder's present cost.
    ///
    /// # Errors
    /// As [`Self::unlock_with`]; [`UnlockError::NotStored`] for an account without a file.
    pub fn update(
        &self,
        address: &Address,
        old: impl AsRef<[u8]>,
        new: impl AsRef<[u8]>,
    ) -> Result<StoredAccount, UnlockError> {
        let key = self.key_with(address, old)?;
        let (directory, path) = self.file_of(address).ok_or(UnlockError::NotStored)?;
        directory.replace(&path, &key, new)?;
        Ok(StoredAccount {
            address: *address,
            path,
        })
    }

    /// Locks an account. Whether it was unlocked.
    pub fn lock(&self, address: &Address) -> bool {
        let removed = self.0.entries.write().unlocked.remove(address);
        removed.is_some_and(|held| !held.is_over(&self.0.clock))
    }

    /// Locks the accounts whose time is over, so that their keys leave the memory even when
    /// nobody asks for them.
    pub fn expire(&self) {
        let over = |held: &UnlockedKey| held.is_over(&self.0.clock);
        if self.0.entries.read().unlocked.values().any(over) {
            self.0.entries.write().unlocked.retain(|_, held| !over(held));
        }
    }

    /// The accounts, locked ones too: the given in the order they were added, then those of the
    /// folder by the names of their files.
    pub fn addresses(&self) -> Vec<Address> {
        let entries = self.0.entries.read();
        let given = entries.given.iter().map(|(address, _)| *address);
        given
            .chain(entries.only_stored().map(|stored| stored.address))
            .collect()
    }

    /// The accounts in the order of [`Self::addresses`], and whether they are unlocked.
    pub fn accounts(&self) -> Vec<AccountStatus> {
        self.expire();
        let entries = self.0.entries.read();
        let held = |address: Address, path: Option<&Path>| AccountStatus {
            address,
            path: path.map(Path::to_owned),
            unlocked: entries.unlocked.contains_key(&address),
        };
        let given = entries.given.iter().map(|(address, _)| held(*address, None));
        let stored = entries
            .only_stored()
            .map(|stored| held(stored.address, Some(&stored.path)));
        given.chain(stored).collect()
    }

    /// Key files of which nobody knows yet whose key they hold.
    pub fn nameless(&self) -> Vec<PathBuf> {
        let entries = self.0.entries.read();
        let unknown = entries
            .nameless
            .iter()
            .filter(|path| !entries.named.contains_key(*path));
        unknown.cloned().collect()
    }

    /// Lends the key of an account.
    ///
    /// The book is not held meanwhile: an account that is locked during `work` finishes it.
    ///
    /// # Errors
    /// [`AccountError`] when the account is unknown or locked; then `work` is not run.
    pub fn with_key<T>(
        &self,
        address: &Address,
        work: impl FnOnce(&SecretKey) -> T,
    ) -> Result<T, AccountError> {
        let entries = self.0.entries.read();
        let key = match entries.unlocked.get(address) {
            Some(held) if !held.is_over(&self.0.clock) => held.key.clone(),
            Some(_) => {
                drop(entries);
                self.expire();
                return Err(AccountError::Locked);
            }
            None if entries.knows(address) => return Err(AccountError::Locked),
            None => return Err(AccountError::Unknown),
        };
        drop(entries);
        Ok(work(&key))
    }
}

/// Shows which accounts there are, and no key.
impl fmt::Debug for AccountManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AccountManager").field(&self.addresses()).finish()
    }
}

#[cfg(test)]
mod tests;
