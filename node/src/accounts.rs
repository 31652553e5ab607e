//! The accounts of the node: `vnode account ...`, and `--unlock` at the start.
//!
//! Knows options, questions and answers; how keys are kept is in `keystore`, where passwords
//! come from in `passwords`.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use keystore::{
    AccountError, AccountManager, AccountStatus, FILE_BYTES_MAX, KeyDirectory, KeyDirectoryError,
    KeyFileError, ScryptCost, StoredAccount, UnlockError,
};
use primitives::{Address, KeyError, SecretKey};
use zeroize::Zeroizing;

use crate::options::{AccountRef, OptionsError, VnodeOptions};
use crate::passwords::{PasswordError, Passwords};

/// Folder of the key files in the data directory.
const KEY_DIRECTORY_NAME: &str = "keystore";

/// What is done with accounts.
#[derive(Clone, Debug, PartialEq, Eq, clap::Subcommand)]
pub enum AccountCommand {
    /// Make an account with a new key, and ask for its password
    New,
    /// List the accounts of the key files
    List,
    /// Take the key from a file: 64 hexadecimal digits, or a key file (version 3)
    ///
    /// Asks for the key file's password, where it is one, and for the new password. With
    /// --password these are the file's first and second line; one line serves both.
    Import {
        /// The file
        file: PathBuf,
    },
    /// Change an account's password
    ///
    /// With --password the file has the present password and, in a second line, the new one.
    Update {
        /// Address, or number in the list
        account: AccountRef,
    },
}

/// Why a command on accounts, or the unlocking at the start, failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AccountsError {
    /// The options contradict each other.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// There is no password.
    #[error(transparent)]
    Password(#[from] PasswordError),
    /// The key files cannot be read.
    #[error(transparent)]
    Directory(#[from] KeyDirectoryError),
    /// An account cannot be made.
    #[error(transparent)]
    Store(#[from] UnlockError),
    /// The key of an account cannot be had.
    #[error("account {account}: {error}")]
    Unlock {
        /// Which, as it was given.
        account: AccountRef,
        /// Why.
        error: UnlockError,
    },
    /// There are fewer accounts.
    #[error("account {number}: the key files in {} hold {accounts} accounts, counted from 0", path.display())]
    Number {
        /// The number that was asked for.
        number: usize,
        /// How many there are.
        accounts: usize,
        /// The folder.
        path: PathBuf,
    },
    /// The file to import cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's words.
        source: io::Error,
    },
    /// The file to import is too long to be one.
    #[error("{}: got more than {FILE_BYTES_MAX} bytes, expected a key", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
    },
    /// The file to import is no secret key.
    #[error("{}: {error}", path.display())]
    Hex {
        /// The file.
        path: PathBuf,
        /// Why.
        error: KeyError,
    },
    /// The file to import is no key file, or its password is another.
    #[error("{}: {error}", path.display())]
    KeyFile {
        /// The file.
        path: PathBuf,
        /// Why.
        error: KeyFileError,
    },
}

/// The book of the accounts in the key files, all locked, and warnings about files passed over.
pub(crate) fn open(
    options: &VnodeOptions,
    data: &Path,
) -> Result<(AccountManager, Vec<String>), AccountsError> {
    let folder = options.keystore.clone();
    let folder = folder.unwrap_or_else(|| data.join(KEY_DIRECTORY_NAME));
    // Listed files have whole paths; a folder that cannot be made one is found to be unreadable.
    let folder = std::path::absolute(&folder).unwrap_or(folder);
    let cost = if options.lightkdf {
        ScryptCost::LIGHT
    } else {
        ScryptCost::STANDARD
    };
    let book = AccountManager::with_directory(KeyDirectory::new(folder, cost));
    let skipped = book.refresh()?;
    let warnings = skipped.iter().map(|file| format!("passed over {file}"));
    Ok((book, warnings.collect()))
}

/// Runs `vnode account ...`.
///
/// # Errors
/// [`AccountsError`], with nothing changed.
pub fn run(options: &VnodeOptions, command: &AccountCommand) -> Result<(), AccountsError> {
    let (book, warnings) = open(options, &options.data_directory()?)?;
    for warning in warnings {
        eprintln!("warning: {warning}");
    }
    let passwords = || Passwords::of(options);
    match command {
        AccountCommand::List => list(&book),
        AccountCommand::New => {
            let password = passwords()?.new_one(0, "Password of the new account: ")?;
            say_stored(&book.create(password.as_bytes(), SystemTime::now())?);
        }
        AccountCommand::Import { file } => say_stored(&import(&book, &passwords()?, file)?),
        AccountCommand::Update { account } => say_stored(&update(&book, &passwords()?, account)?),
    }
    Ok(())
}

/// A line to standard output. That nobody reads it any more is no failure of what was done.
fn say(line: &str) {
    let _ = writeln!(io::stdout(), "{line}");
}

fn say_stored(account: &StoredAccount) {
    say(&format!("Address: {:#x}", account.address));
    say(&format!("Key file: {}", account.path.display()));
}

fn list(book: &AccountManager) {
    for (number, AccountStatus { address, path, .. }) in book.accounts().iter().enumerate() {
        let url = path.as_deref().map(keystore::url).unwrap_or_default();
        say(&format!("Account #{number}: {address:#x} {url}"));
    }
    for path in book.unidentified() {
        eprintln!(
            "warning: {} does not say whose key it holds; `account import` takes it, and unlocking tries it",
            path.display()
        );
    }
}

fn import(book: &AccountManager, passwords: &Passwords, path: &Path) -> Result<StoredAccount, AccountsError> {
    let text = read_key(path)?;
    let trimmed = text.trim_ascii();
    let (key, index) = if trimmed.starts_with(b"{") {
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
    // From a file of one line the new password is that of the imported file.
    let password = match passwords {
        Passwords::File { .. } => passwords.present(index, "")?,
        _ => passwords.new_one(index, "Password of the account: ")?,
    };
    Ok(book.import(&key, password.as_bytes(), SystemTime::now())?)
}

fn read_key(path: &Path) -> Result<Zeroizing<Vec<u8>>, AccountsError> {
    // Room for all of it: a buffer that grows leaves copies behind.
    let mut text = Zeroizing::new(Vec::with_capacity(FILE_BYTES_MAX + 1));
    let bound = FILE_BYTES_MAX as u64 + 1;
    let read = File::open(path).and_then(|file| file.take(bound).read_to_end(&mut text));
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
    book: &AccountManager,
    passwords: &Passwords,
    account: &AccountRef,
) -> Result<StoredAccount, AccountsError> {
    let address = resolve(book, account)?;
    let question = format!("Present password of {address:#x}: ");
    let old = try_passwords(passwords, 0, &question, account, |password| {
        book.key_with_password(&address, password)
            .map(|_| password.to_owned())
    })?;
    let old = Zeroizing::new(old);
    let new = passwords.new_one(1, "New password: ")?;
    book.update(&address, &*old, new.as_bytes())
        .map_err(|error| AccountsError::Unlock {
            account: account.clone(),
            error,
        })
}

/// Unlocks the accounts of `--unlock` for good.
pub(crate) fn unlock(options: &VnodeOptions, book: &AccountManager) -> Result<(), AccountsError> {
    if options.unlock.is_empty() {
        return Ok(());
    }
    let passwords = Passwords::of(options)?;
    for (index, account) in options.unlock.iter().enumerate() {
        let address = resolve(book, account)?;
        // The development network's accounts are unlocked as they are.
        if book.with_key(&address, |_| ()).is_ok() {
            continue;
        }
        let question = format!("Password of {address:#x}: ");
        try_passwords(&passwords, index, &question, account, |password| {
            book.unlock_with_password(&address, password, None)
        })?;
        tracing::info!(address = %format_args!("{address:#x}"), "account unlocked");
    }
    Ok(())
}

/// Tries a password, on a terminal some times.
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
            Ok(done) => return Ok(done),
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

/// The address that is meant: a number counts the accounts of the key files.
fn resolve(book: &AccountManager, account: &AccountRef) -> Result<Address, AccountsError> {
    let number = match *account {
        AccountRef::Address(address) => return Ok(address),
        AccountRef::Number(number) => number,
    };
    let held = book.accounts();
    let mut stored = held.iter().filter(|held| held.path.is_some());
    let accounts = stored.clone().count();
    let path = || {
        book.directory()
            .map(KeyDirectory::path)
            .unwrap_or(Path::new(""))
            .to_owned()
    };
    stored
        .nth(number)
        .map(|held| held.address)
        .ok_or_else(|| AccountsError::Number {
            number,
            accounts,
            path: path(),
        })
}
