//! Folders with good, broken and other files.

use std::time::Duration;

use super::*;
use crate::AccountError;
use crate::UnlockError;

const CHEAP: ScryptCost = ScryptCost { log_n: 4, r: 1, p: 1 };

fn key(byte: u8) -> SecretKey {
    SecretKey::from_bytes(&[byte; 32]).expect("in range")
}

fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

fn folder() -> (tempfile::TempDir, KeyDirectory) {
    let home = tempfile::tempdir().expect("a temporary folder");
    let directory = KeyDirectory::new(home.path().join("a").join("keystore"), CHEAP);
    (home, directory)
}

#[test]
fn a_missing_folder_is_empty() {
    let (_home, directory) = folder();
    assert_eq!(
        directory.list().expect("no failure"),
        KeyDirectoryListing::default()
    );
    assert!(!directory.path().exists());
}

#[test]
fn accounts_are_listed_by_age() {
    let (_home, directory) = folder();
    let newer = directory
        .store(&key(1), "one", at(2_000_000_000))
        .expect("stored");
    let older = directory
        .store(&key(2), "two", at(1_000_000_000))
        .expect("stored");
    let listing = directory.list().expect("readable");
    assert_eq!(listing.accounts, [older.clone(), newer.clone()]);
    assert_eq!((listing.unidentified.len(), listing.skipped.len()), (0, 0));
    assert_eq!(newer.address, key(1).address());
    let name = older.path.file_name().and_then(OsStr::to_str).expect("text");
    assert!(
        name.starts_with("UTC--2001-09-09T01-46-40.000000000Z--"),
        "{name}"
    );
    let read = directory.decrypt(&older.path, "two").expect("its password");
    assert_eq!(read.to_bytes(), key(2).to_bytes());
    let wrong = directory.decrypt(&older.path, "one").unwrap_err();
    let wrong = UnlockError::from(wrong);
    assert!(
        matches!(wrong, UnlockError::Account(AccountError::WrongPassword)),
        "{wrong}"
    );
    assert_eq!(wrong.to_string(), "could not decrypt key with given passphrase");
}

#[test]
fn an_account_is_stored_once() {
    let (_home, directory) = folder();
    directory.store(&key(1), "one", at(1)).expect("stored");
    let again = directory.store(&key(1), "other", at(2)).unwrap_err();
    assert!(matches!(again, KeyDirectoryError::Exists { .. }), "{again}");
    assert_eq!(directory.list().expect("readable").accounts.len(), 1);
}

#[test]
fn replacing_changes_the_password_and_nothing_else() {
    let (_home, directory) = folder();
    let stored = directory.store(&key(1), "old", at(1)).expect("stored");
    directory.replace(&stored.path, &key(1), "new").expect("replaced");
    assert!(directory.decrypt(&stored.path, "old").is_err());
    assert!(directory.decrypt(&stored.path, "new").is_ok());
    assert_eq!(directory.list().expect("readable").accounts, [stored]);
    assert_eq!(fs::read_dir(directory.path()).expect("readable").count(), 1);
}

#[test]
fn a_key_is_stored_even_if_the_folder_cannot_be_synced() {
    let (_home, directory) = folder();
    let directory = KeyDirectory {
        sync: |_| Err(io::Error::other("a failure of the test")),
        ..directory
    };
    let stored = directory.store(&key(1), "old", at(1)).expect("stored");
    directory.replace(&stored.path, &key(1), "new").expect("replaced");
    assert!(directory.decrypt(&stored.path, "new").is_ok());
}

#[cfg(unix)]
#[test]
fn a_failed_replacement_leaves_the_old_file() {
    let (_home, directory) = folder();
    let stored = directory.store(&key(1), "old", at(1)).expect("stored");
    // A file cannot replace a folder.
    let folder = directory.path().join("folder");
    fs::create_dir(&folder).expect("writable");
    let error = directory.replace(&folder, &key(1), "new").unwrap_err();
    assert!(
        matches!(error, KeyDirectoryError::Io { action: "write", .. }),
        "{error}"
    );
    assert!(directory.decrypt(&stored.path, "old").is_ok());
    assert_eq!(directory.list().expect("readable").accounts, [stored]);
    assert_eq!(fs::read_dir(directory.path()).expect("readable").count(), 2);
}

#[cfg(unix)]
#[test]
fn only_the_owner_may_read() {
    use std::os::unix::fs::PermissionsExt;
    let (_home, directory) = folder();
    let stored = directory.store(&key(1), "old", at(1)).expect("stored");
    let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
    assert_eq!((mode(&stored.path), mode(directory.path())), (0o600, 0o700));
    fs::set_permissions(&stored.path, PermissionsExt::from_mode(0o644)).expect("owned");
    directory.replace(&stored.path, &key(1), "new").expect("replaced");
    assert_eq!(mode(&stored.path), 0o600);
}

#[test]
fn broken_and_other_files_do_not_hide_key_files() {
    let (_home, directory) = folder();
    let good = directory.store(&key(1), "one", at(1)).expect("stored");
    let text = fs::read_to_string(&good.path).expect("readable");
    let put = |name: &str, text: &str| {
        let path = directory.path().join(name);
        fs::write(&path, text).expect("writable");
        path
    };
    put(".unfinished-x", "half");
    put("backup~", "old");
    fs::create_dir(directory.path().join("folder")).expect("writable");
    let broken = put("broken", &text[..100]);
    let foreign = put("foreign", "a shopping list");
    let huge = put("huge", &" ".repeat(FILE_BYTES_MAX * 2));
    let old = put("old", &text.replace("\"version\":3", "\"version\":1"));
    let twice = put("zz-copy", &text);
    let listing = directory.list().expect("readable");
    assert_eq!(listing.accounts, std::slice::from_ref(&good));
    let skipped: Vec<_> = listing.skipped.iter().map(|skipped| &skipped.path).collect();
    assert_eq!(skipped, [&broken, &foreign, &huge, &old, &twice]);
    let reasons: Vec<_> = listing.skipped.iter().map(ToString::to_string).collect();
    assert!(
        reasons[1].contains("foreign: key file: expected value at line 1"),
        "{reasons:?}"
    );
    assert!(reasons[3].contains("got version 1, expected 3"), "{reasons:?}");
    assert!(reasons[4].contains("is already listed"), "{reasons:?}");
}

#[cfg(unix)]
#[test]
fn a_pipe_does_not_block() {
    let (_home, directory) = folder();
    directory.store(&key(1), "one", at(1)).expect("stored");
    let socket = directory.path().join("pipe");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
    let listing = directory.list().expect("readable");
    assert_eq!((listing.accounts.len(), listing.skipped.len()), (1, 1));
    assert_eq!(listing.skipped[0].reason, "not a regular file");
}

#[test]
fn the_address_comes_from_the_name_if_the_text_has_none() {
    let (_home, directory) = folder();
    let stored = directory.store(&key(1), "one", at(1)).expect("stored");
    let mut text: serde_json::Value =
        serde_json::from_slice(&fs::read(&stored.path).expect("readable")).expect("JSON");
    text.as_object_mut().expect("an object").remove("address");
    fs::write(&stored.path, text.to_string()).expect("writable");
    assert_eq!(
        directory.list().expect("readable").accounts,
        std::slice::from_ref(&stored)
    );
    // Decrypting the key shows that the address in the name is wrong.
    let misnamed = directory.path().join(file_name(at(2), &key(2).address()));
    fs::rename(&stored.path, &misnamed).expect("writable");
    let error = directory.decrypt(&misnamed, "one").unwrap_err();
    assert!(error.to_string().contains("expected that of"), "{error}");
    let anonymous = directory.path().join("key.json");
    fs::rename(&misnamed, &anonymous).expect("writable");
    let listing = directory.list().expect("readable");
    assert_eq!(listing.unidentified, std::slice::from_ref(&anonymous));
    assert!(directory.decrypt(&anonymous, "one").is_ok());
}

#[test]
fn a_file_instead_of_the_folder_is_an_error() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let path = home.path().join("keystore");
    fs::write(&path, "").expect("writable");
    let directory = KeyDirectory::new(path.clone(), CHEAP);
    let error = directory.list().unwrap_err().to_string();
    assert!(
        error.starts_with(&format!("cannot read {}: ", path.display())),
        "{error}"
    );
    let error = directory.store(&key(1), "one", at(1)).unwrap_err().to_string();
    assert!(
        error.starts_with(&format!("cannot read {}: ", path.display())),
        "{error}"
    );
}
