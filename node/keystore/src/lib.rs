//! The accounts of a node, and the keys of those that are unlocked.
//!
//! Knows addresses and keys. Knows no files, no passwords and no transactions: who may sign
//! what is decided by the caller.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::RwLock;
use primitives::{Address, SecretKey};

/// Why an account cannot sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccountError {
    /// The node has no such account.
    #[error("unknown account")]
    Unknown,
    /// The account's key is not at hand.
    #[error("authentication needed: password or unlock")]
    Locked,
}

/// The book of accounts. Cheap to clone; every clone is the same book.
#[derive(Clone, Default)]
pub struct AccountBook(Arc<RwLock<Entries>>);

#[derive(Default)]
struct Entries {
    /// In order of adding.
    order: Vec<Address>,
    /// `None`: locked. The key wipes itself when the last user lets it go.
    keys: HashMap<Address, Option<Arc<SecretKey>>>,
}

impl Entries {
    fn set(&mut self, address: Address, key: Option<Arc<SecretKey>>) {
        if self.keys.insert(address, key).is_none() {
            self.order.push(address);
        }
    }
}

impl AccountBook {
    /// A book without accounts.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the account of `key`, or unlocks it where the book has it; gives its address.
    pub fn unlock(&self, key: SecretKey) -> Address {
        let address = key.address();
        self.0.write().set(address, Some(Arc::new(key)));
        address
    }

    /// Forgets the key of an account and keeps the account. Whether there was a key.
    pub fn lock(&self, address: &Address) -> bool {
        let mut entries = self.0.write();
        entries.keys.get_mut(address).and_then(Option::take).is_some()
    }

    /// The accounts in the order they were added, locked ones too.
    pub fn addresses(&self) -> Vec<Address> {
        self.0.read().order.clone()
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
        let key = match self.0.read().keys.get(address) {
            None => return Err(AccountError::Unknown),
            Some(None) => return Err(AccountError::Locked),
            Some(Some(key)) => key.clone(),
        };
        Ok(work(&key))
    }
}

/// Shows which accounts there are, and no key.
impl fmt::Debug for AccountBook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AccountBook").field(&self.0.read().order).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(byte: u8) -> SecretKey {
        SecretKey::from_bytes(&[byte; 32]).expect("in range")
    }

    #[test]
    fn accounts_stay_in_the_order_they_were_added() {
        let book = AccountBook::new();
        let added: Vec<_> = (1..=20).rev().map(|byte| book.unlock(key(byte))).collect();
        book.unlock(key(20));
        book.lock(&added[3]);
        assert_eq!(book.addresses(), added);
        assert_eq!(book.clone().addresses(), added);
    }

    #[test]
    fn only_unlocked_accounts_lend_their_key() {
        let book = AccountBook::new();
        let shared = book.clone();
        let address = key(7).address();
        assert_eq!(book.with_key(&address, |_| ()), Err(AccountError::Unknown));
        assert!(!book.lock(&address));
        assert_eq!(shared.unlock(key(7)), address);
        assert_eq!(book.with_key(&address, SecretKey::address), Ok(address));
        assert!(book.lock(&address));
        assert!(!book.lock(&address));
        assert_eq!(shared.with_key(&address, |_| ()), Err(AccountError::Locked));
        book.unlock(key(7));
        assert_eq!(shared.with_key(&address, SecretKey::address), Ok(address));
    }

    #[test]
    fn a_key_that_is_lent_may_be_locked_meanwhile() {
        let book = AccountBook::new();
        let address = book.unlock(key(9));
        let signer = book.with_key(&address, |key| {
            assert!(book.lock(&address));
            key.address()
        });
        assert_eq!(signer, Ok(address));
        assert_eq!(book.with_key(&address, |_| ()), Err(AccountError::Locked));
    }

    #[test]
    fn keys_are_not_shown() {
        let book = AccountBook::new();
        let address = book.unlock(key(0xab));
        let shown = format!("{book:?}").to_lowercase();
        assert!(shown.contains(&format!("{address:#x}")), "{shown}");
        assert!(!shown.contains("abab") && !shown.contains("171"), "{shown}");
    }
}
