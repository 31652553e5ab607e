//! Who is listed, who signs, and until when.

use parking_lot::Mutex;

use super::*;
use crate::kdf::ScryptCost;

const CHEAP: ScryptCost = ScryptCost { log_n: 4, r: 1, p: 1 };

fn key(byte: u8) -> SecretKey {
    SecretKey::from_bytes(&[byte; 32]).expect("in range")
}

/// A book with a folder, and a clock that goes on when it is told to.
struct Fixture {
    book: AccountManager,
    time: Arc<Mutex<Instant>>,
    home: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Self {
        let home = tempfile::tempdir().expect("a temporary folder");
        let time = Arc::new(Mutex::new(Instant::now()));
        let clock = time.clone();
        let directory = KeyDirectory::new(home.path().join("keystore"), CHEAP);
        let book = AccountManager::with(Some(directory), Arc::new(move || *clock.lock()));
        Self { book, time, home }
    }

    fn wait(&self, seconds: u64) {
        *self.time.lock() += Duration::from_secs(seconds);
    }

    fn stored(&self, byte: u8) -> Address {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(byte.into());
        let stored = self.book.import(&key(byte), "secret", now).expect("stored");
        stored.address
    }

    fn signs(&self, address: &Address) -> Result<Address, AccountError> {
        self.book.with_key(address, SecretKey::address)
    }

    /// How many times the book holds the key.
    fn is_held(&self, address: &Address) -> bool {
        self.book.0.entries.read().unlocked.contains_key(address)
    }
}

fn account_error(result: Result<(), UnlockError>) -> AccountError {
    match result {
        Err(UnlockError::Account(error)) => error,
        other => panic!("got {other:?}, expected an account error"),
    }
}

#[test]
fn accounts_stay_in_the_order_they_were_added() {
    let book = AccountManager::new();
    let added: Vec<_> = (1..=20).rev().map(|byte| book.unlock(key(byte))).collect();
    book.unlock(key(20));
    book.lock(&added[3]);
    assert_eq!(book.addresses(), added);
    assert_eq!(book.clone().addresses(), added);
}

#[test]
fn only_unlocked_accounts_lend_their_key() {
    let book = AccountManager::new();
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
    let book = AccountManager::new();
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
    let book = AccountManager::new();
    let address = book.unlock(key(0xab));
    let shown = format!("{book:?}").to_lowercase();
    assert!(shown.contains(&format!("{address:#x}")), "{shown}");
    assert!(!shown.contains("abab") && !shown.contains("171"), "{shown}");
}

#[test]
fn given_accounts_come_before_stored_ones() {
    let fixture = Fixture::new();
    let (newer, older) = (fixture.stored(9), fixture.stored(5));
    let given = [fixture.book.unlock(key(200)), fixture.book.unlock(key(100))];
    assert_eq!(fixture.book.addresses(), [given[0], given[1], older, newer]);
    let fresh = AccountManager::with_directory(fixture.book.directory().expect("a folder").clone());
    assert!(fresh.addresses().is_empty());
    assert!(fresh.refresh().expect("readable").is_empty());
    assert_eq!(fresh.addresses(), [older, newer]);
    // One that is given and stored is listed once, as given.
    let stored = fresh.unlock(key(5));
    assert_eq!((stored, fresh.addresses()), (older, vec![older, newer]));
    let held = fixture.book.accounts();
    assert_eq!((held[0].path.clone(), held[0].unlocked), (None, true));
    assert!(held[2].path.as_ref().is_some_and(|path| path.exists()) && !held[2].unlocked);
}

#[test]
fn passwords_unlock_for_a_time() {
    let fixture = Fixture::new();
    let address = fixture.stored(1);
    let minute = Some(Duration::from_secs(60));
    let wrong = account_error(fixture.book.unlock_with(&address, "Secret", minute));
    assert_eq!(wrong, AccountError::WrongPassword);
    assert_eq!(fixture.signs(&address), Err(AccountError::Locked));
    fixture
        .book
        .unlock_with(&address, "secret", minute)
        .expect("its password");
    fixture.wait(59);
    assert_eq!(fixture.signs(&address), Ok(address));
    fixture.wait(1);
    assert!(fixture.is_held(&address));
    assert_eq!(fixture.signs(&address), Err(AccountError::Locked));
    assert!(!fixture.is_held(&address), "the key is let go");
    assert!(!fixture.book.accounts()[0].unlocked);
    // A new time replaces the one that runs.
    fixture
        .book
        .unlock_with(&address, "secret", minute)
        .expect("its password");
    let second = Some(Duration::from_secs(1));
    fixture
        .book
        .unlock_with(&address, "secret", second)
        .expect("its password");
    fixture.wait(1);
    assert_eq!(fixture.signs(&address), Err(AccountError::Locked));
}

#[test]
fn expired_keys_leave_the_memory_unasked() {
    let fixture = Fixture::new();
    let (short, long) = (fixture.stored(1), fixture.stored(2));
    let seconds = |seconds| Some(Duration::from_secs(seconds));
    fixture
        .book
        .unlock_with(&short, "secret", seconds(5))
        .expect("its password");
    fixture
        .book
        .unlock_with(&long, "secret", seconds(6))
        .expect("its password");
    fixture.wait(5);
    fixture.book.expire();
    assert!(!fixture.is_held(&short) && fixture.is_held(&long));
    fixture.wait(1);
    assert!(!fixture.book.lock(&long), "its time was over");
}

#[test]
fn unlocked_for_good_stays_so() {
    let fixture = Fixture::new();
    let address = fixture.stored(1);
    fixture
        .book
        .unlock_with(&address, "secret", None)
        .expect("its password");
    let second = Some(Duration::from_secs(1));
    fixture
        .book
        .unlock_with(&address, "secret", second)
        .expect("its password");
    fixture.wait(1_000_000);
    assert_eq!(fixture.signs(&address), Ok(address));
    assert!(fixture.book.lock(&address));
    assert_eq!(fixture.signs(&address), Err(AccountError::Locked));
    // Longer than the clock counts.
    let ages = Some(Duration::from_secs(u64::MAX));
    fixture
        .book
        .unlock_with(&address, "secret", ages)
        .expect("its password");
    fixture.wait(1_000_000);
    assert_eq!(fixture.signs(&address), Ok(address));
}

#[test]
fn a_password_used_once_unlocks_nothing() {
    let fixture = Fixture::new();
    let address = fixture.stored(1);
    let once = fixture.book.key_with(&address, "secret").expect("its password");
    assert_eq!(once.address(), address);
    assert_eq!(fixture.signs(&address), Err(AccountError::Locked));
}

#[test]
fn given_keys_have_the_empty_password() {
    let fixture = Fixture::new();
    let address = fixture.book.unlock(key(3));
    assert!(fixture.book.lock(&address));
    let wrong = fixture.book.unlock_with(&address, "x", None);
    assert_eq!(account_error(wrong), AccountError::WrongPassword);
    fixture
        .book
        .unlock_with(&address, "", None)
        .expect("the empty password");
    assert_eq!(fixture.signs(&address), Ok(address));
    let update = fixture.book.update(&address, "", "new");
    assert!(matches!(update, Err(UnlockError::NotStored)), "{update:?}");
}

#[test]
fn files_that_come_and_go() {
    let fixture = Fixture::new();
    let other = AccountManager::with_directory(fixture.book.directory().expect("a folder").clone());
    let stored = other.create("secret", SystemTime::now()).expect("stored");
    assert_eq!(fixture.signs(&stored.address), Err(AccountError::Unknown));
    // The file is found by its use, too.
    fixture
        .book
        .unlock_with(&stored.address, "secret", None)
        .expect("its password");
    assert_eq!(fixture.signs(&stored.address), Ok(stored.address));
    std::fs::remove_file(&stored.path).expect("there");
    let foreign = fixture.home.path().join("keystore").join("foreign");
    std::fs::write(&foreign, "not a key").expect("writable");
    let news = fixture.book.refresh().expect("readable");
    assert_eq!(
        news.iter().map(|skipped| &skipped.path).collect::<Vec<_>>(),
        [&foreign]
    );
    assert!(fixture.book.refresh().expect("readable").is_empty(), "said once");
    assert_eq!(fixture.signs(&stored.address), Err(AccountError::Unknown));
    assert!(!fixture.is_held(&stored.address));
    let gone = account_error(fixture.book.unlock_with(&stored.address, "secret", None));
    assert_eq!(gone, AccountError::Unknown);
}

#[test]
fn files_without_an_address_are_tried() {
    let fixture = Fixture::new();
    let folder = fixture.home.path().join("keystore");
    for byte in [1, 2] {
        fixture.stored(byte);
        let path = fixture
            .book
            .accounts()
            .pop()
            .and_then(|held| held.path)
            .expect("a file");
        let text = std::fs::read_to_string(&path).expect("readable");
        let mut text: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        text.as_object_mut().expect("an object").remove("address");
        std::fs::write(folder.join(format!("{byte}.json")), text.to_string()).expect("writable");
        std::fs::remove_file(path).expect("there");
    }
    assert!(fixture.book.refresh().expect("readable").is_empty());
    assert!(fixture.book.addresses().is_empty());
    let address = key(2).address();
    let wrong = account_error(fixture.book.unlock_with(&address, "wrong", None));
    assert_eq!(wrong, AccountError::Unknown);
    fixture
        .book
        .unlock_with(&address, "secret", None)
        .expect("its password");
    assert_eq!(fixture.signs(&address), Ok(address));
    fixture.book.refresh().expect("readable");
    assert_eq!(fixture.book.addresses(), [key(1).address(), address]);
    assert_eq!(fixture.signs(&address), Ok(address));
}

#[test]
fn passwords_change() {
    let fixture = Fixture::new();
    let address = fixture.stored(1);
    let wrong = fixture.book.update(&address, "wrong", "new");
    assert!(matches!(
        wrong,
        Err(UnlockError::Account(AccountError::WrongPassword))
    ));
    fixture
        .book
        .update(&address, "secret", "new")
        .expect("its password");
    let old = fixture.book.unlock_with(&address, "secret", None);
    assert_eq!(account_error(old), AccountError::WrongPassword);
    fixture
        .book
        .unlock_with(&address, "new", None)
        .expect("its password");
}

#[test]
fn a_book_without_a_folder() {
    let book = AccountManager::new();
    let error = book.create("x", SystemTime::now()).unwrap_err();
    assert!(matches!(error, UnlockError::NoDirectory), "{error}");
    let unknown = account_error(book.unlock_with(&Address::ZERO, "", None));
    assert_eq!(unknown, AccountError::Unknown);
    assert!(book.refresh().expect("nothing to read").is_empty());
}
