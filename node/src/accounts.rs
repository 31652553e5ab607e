//! The accounts of the node: the command `vnode account`, and `--unlock` at the start.
//!
//! The module reads options and talks to the user. The key files are handled by the package
//! `keystore`; passwords are read by the module `passwords`.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use keystore::{
    AccountError, AccountManager, AccountStatus, FILE_BYTES_MAX, KeyDirectory, KeyDirectoryError,
    KeyFileError, ScryptCost, StoredAccount, UnlockError,
};
use primitives::{Address, KeyError, SecretKey};
use zeroize::Zeroizing;

use crate::options::{AccountCommand, AccountRef, OptionsError, VnodeOptions};
use crate::output::print_line;
use crate::passwords::{PasswordError, Passwords};

/// Name of the folder with the key files, in the data directory.
const KEY_DIRECTORY_NAME: &str = "keystore";

/// An error of `vnode account`, or of unlocking at the start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AccountsError {
    /// The options contradict each other.
    #[error("{0}")]
    Options(#[from] OptionsError),
    /// A password cannot be read.
    #[error(transparent)]
    Password(#[from] PasswordError),
    /// The key files cannot be read.
    #[error(transparent)]
    Directory(#[from] KeyDirectoryError),
    /// A new account cannot be stored.
    #[error(transparent)]
    Store(#[from] UnlockError),
    /// An account cannot be unlocked.
    #[error("account {account}: {error}")]
    Unlock {
        /// The account, as it was named.
        account: AccountRef,
        /// The fault.
        error: UnlockError,
    },
    /// The number of an account is too high.
    #[error("account number: got {number}, expected less than {accounts}, the number of accounts in {}", path.display())]
    Number {
        /// The number.
        number: usize,
        /// The number of accounts in the key files.
        accounts: usize,
        /// The folder of the key files.
        path: PathBuf,
    },
    /// The file to import cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The file to import is too long for a key.
    #[error("{}: got more than {FILE_BYTES_MAX} bytes, expected a key", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
    },
    /// The file to import has no valid secret key.
    #[error("{}: {error}", path.display())]
    Hex {
        /// The file.
        path: PathBuf,
        /// The fault.
        error: KeyError,
    },
    /// The file to import is not a valid key file, or the password is wrong.
    #[error("{}: {error}", path.display())]
    KeyFile {
        /// The file.
        path: PathBuf,
        /// The fault.
        error: KeyFileError,
    },
}

/// Opens the accounts in the key files, all of them locked. Returns warnings about files that were
/// skipped, too.
pub(crate) fn open(
    options: &VnodeOptions,
    data: &Path,
) -> Result<(AccountManager, Vec<String>), AccountsError> {
    let folder = options.keystore.clone();
    let folder = folder.unwrap_or_else(|| data.join(KEY_DIRECTORY_NAME));
    // `account list` prints absolute paths. If this fails, reading the folder fails, too.
    let folder = std::path::absolute(&folder).unwrap_or(folder);
    let cost = ScryptCost::of_option(options.lightkdf);
    let accounts = AccountManager::with_directory(KeyDirectory::new(folder, cost));
    let skipped = accounts.refresh()?;
    let warnings = skipped.iter().map(|file| format!("skipped {file}"));
    Ok((accounts, warnings.collect()))
}

/// Runs `vnode account`.
///
/// # Errors
/// [`AccountsError`]; no account is changed then.
pub fn run(options: &VnodeOptions, command: &AccountCommand) -> Result<(), AccountsError> {
    let (accounts, warnings) = open(options, &options.data_directory()?)?;
    for warning in warnings {
        eprintln!("warning: {warning}");
    }
    let passwords = || Passwords::of(options);
    match command {
        AccountCommand::List => list(&accounts),
        AccountCommand::New => {
            let password = passwords()?.new_one(0, "Password of the new account: ")?;
            print_stored(&accounts.create(password.as_bytes(), SystemTime::now())?);
        }
        AccountCommand::Import { file } => print_stored(&import(&accounts, &passwords()?, file)?),
        AccountCommand::Update { account } => print_stored(&update(&accounts, &passwords()?, account)?),
    }
    Ok(())
}

fn print_stored(account: &StoredAccount) {
    print_line(&format!("Address: {:#x}", account.address));
    print_line(&format!("Key file: {}", account.path.display()));
}

fn list(accounts: &AccountManager) {
    for (number, AccountStatus { address, path, .. }) in accounts.accounts().iter().enumerate() {
        let url = path.as_deref().map(keystore::url).unwrap_or_default();
        print_line(&format!("Account #{number}: {address:#x} {url}"));
    }
    for path in accounts.unidentified() {
        eprintln!(
            "warning: {} does not name its address; unlocking tries it, and `account import` gives it an address",
            path.display()
        );
    }
}

fn import(
    accounts: &AccountManager,
    passwords: &Passwords,
    path: &Path,
) -> Result<StoredAccount, AccountsError> {
    let text = read_key(path)?;
    let trimmed = text.trim_ascii();
    let (key, password_index) = if trimmed.starts_with(b"{") {
        let password = passwords.present(0, "Password of the key file: ")?;
        let key =
            keystore::decrypt(trimmed, password.as_bytes()).map_err(|error| AccountsError::KeyFile {
                path: path.to_owned(),
                error,
            })?;
        (key, 1)
    } else {
        let hex = |error| AccountsError::Hex {
            path: path.to_owned(),
            error,
        };
        let digits = std::str::from_utf8(trimmed).map_err(|_| hex(KeyError::NotHex))?;
        (SecretKey::from_hex(digits).map_err(hex)?, 0)
    };
    // If the password file has one line, that line is also the new password.
    let password = match passwords {
        Passwords::File { .. } => passwords.present(password_index, "")?,
        _ => passwords.new_one(password_index, "Password of the account: ")?,
    };
    Ok(accounts.import(&key, password.as_bytes(), SystemTime::now())?)
}

fn read_key(path: &Path) -> Result<Zeroizing<Vec<u8>>, AccountsError> {
    // The buffer never grows, because growing would leave copies of the key in memory.
    let mut text = Zeroizing::new(Vec::with_capacity(FILE_BYTES_MAX + 1));
    let limit = FILE_BYTES_MAX as u64 + 1;
    let read = File::open(path).and_then(|file| file.take(limit).read_to_end(&mut text));
    match read {
        Ok(read) if read > FILE_BYTES_MAX => Err(AccountsError::TooLong {
            path: path.to_owned(),
        }),
        Ok(_) => Ok(text),
        Err(source) => Err(AccountsError::File {
            path: path.to_owned(),
            source,
        }),
    }
}

fn update(
    accounts: &AccountManager,
    passwords: &Passwords,
    account: &AccountRef,
) -> Result<StoredAccount, AccountsError> {
    let address = resolve(accounts, account)?;
    let question = format!("Present password of {address:#x}: ");
    let old = try_passwords(passwords, 0, &question, account, |password| {
        accounts
            .key_with_password(&address, password)
            .map(|_| password.to_owned())
    })?;
    let old = Zeroizing::new(old);
    let new = passwords.new_one(1, "New password: ")?;
    accounts
        .update(&address, &*old, new.as_bytes())
        .map_err(|error| AccountsError::Unlock {
            account: account.clone(),
            error,
        })
}

/// Unlocks the accounts of `--unlock` until the node stops.
pub(crate) fn unlock(options: &VnodeOptions, accounts: &AccountManager) -> Result<(), AccountsError> {
    if options.unlock.is_empty() {
        return Ok(());
    }
    let passwords = Passwords::of(options)?;
    for (index, account) in options.unlock.iter().enumerate() {
        let address = resolve(accounts, account)?;
        // The accounts of the development network are already unlocked.
        if accounts.with_key(&address, |_| ()).is_ok() {
            continue;
        }
        let question = format!("Password of {address:#x}: ");
        try_passwords(&passwords, index, &question, account, |password| {
            accounts.unlock_with_password(&address, password, None)
        })?;
        tracing::info!(address = %format_args!("{address:#x}"), "account unlocked");
    }
    Ok(())
}

/// Reads a password and passes it to `work`. On a terminal a wrong password can be typed again.
fn try_passwords<T>(
    passwords: &Passwords,
    index: usize,
    question: &str,
    account: &AccountRef,
    work: impl Fn(&[u8]) -> Result<T, UnlockError>,
) -> Result<T, AccountsError> {
    let mut tries = passwords.tries();
    loop {
        tries -= 1;
        let password = passwords.present(index, question)?;
        match work(password.as_bytes()) {
            Ok(result) => return Ok(result),
            Err(UnlockError::Account(error @ AccountError::WrongPassword)) if tries > 0 => {
                eprintln!("{error}");
            }
            Err(error) => {
                let account = account.clone();
                return Err(AccountsError::Unlock { account, error });
            }
        }
    }
}

/// The address of `account`. A number counts the accounts of the key files.
fn resolve(accounts: &AccountManager, account: &AccountRef) -> Result<Address, AccountsError> {
    let number = match *account {
        AccountRef::Address(address) => return Ok(address),
        AccountRef::Number(number) => number,
    };
    let all = accounts.accounts();
    let mut stored = all.iter().filter(|account| account.path.is_some());
    let stored_accounts = stored.clone().count();
    let path = || {
        accounts
            .directory()
            .map(KeyDirectory::path)
            .unwrap_or_else(|| Path::new(""))
            .to_owned()
    };
    stored
        .nth(number)
        .map(|account| account.address)
        .ok_or_else(|| AccountsError::Number {
            number,
            accounts: stored_accounts,
            path: path(),
        })
}
