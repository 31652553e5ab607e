//! Which accounts are listed, which can sign, and until when.

use parking_lot::Mutex;

use super::*;
use crate::kdf::ScryptCost;

const CHEAP: ScryptCost = ScryptCost { log_n: 4, r: 1, p: 1 };

fn key(byte: u8) -> SecretKey {
    SecretKey::from_bytes(&[byte; 32]).expect("in range")
}

/// An account manager with a folder, and a clock that the test moves.
struct Fixture {
    manager: AccountManager,
    time: Arc<Mutex<Instant>>,
    home: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Self {
        let home = tempfile::tempdir().expect("a temporary folder");
        let time = Arc::new(Mutex::new(Instant::now()));
        let clock = time.clone();
        let directory = KeyDirectory::new(home.path().join("keystore"), CHEAP);
        let manager = AccountManager::with_clock(Some(directory), Arc::new(move || *clock.lock()));
        Self { manager, time, home }
    }

    fn wait(&self, seconds: u64) {
        *self.time.lock() += Duration::from_secs(seconds);
    }

    fn stored(&self, byte: u8) -> Address {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(byte.into());
        let stored = self.manager.import(&key(byte), "secret", now).expect("stored");
        stored.address
    }

    fn signs(&self, address: &Address) -> Result<Address, AccountError> {
        self.manager.with_key(address, SecretKey::address)
    }

    /// Whether the manager has the key of an unlocked account in memory.
    fn has_key(&self, address: &Address) -> bool {
        self.manager.0.entries.read().unlocked.contains_key(address)
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
    let manager = AccountManager::new();
    let added: Vec<_> = (1..=20)
        .rev()
        .map(|byte| manager.add_unlocked(key(byte)))
        .collect();
    manager.add_unlocked(key(20));
    manager.lock(&added[3]);
    assert_eq!(manager.addresses(), added);
    assert_eq!(manager.addresses(), added);
}

#[test]
fn only_unlocked_accounts_can_sign() {
    let manager = AccountManager::new();
    let shared = manager.clone();
    let address = key(7).address();
    assert_eq!(manager.with_key(&address, |_| ()), Err(AccountError::Unknown));
    assert!(!manager.lock(&address));
    assert_eq!(shared.add_unlocked(key(7)), address);
    assert_eq!(manager.with_key(&address, SecretKey::address), Ok(address));
    assert!(manager.lock(&address));
    assert!(!manager.lock(&address));
    assert_eq!(shared.with_key(&address, |_| ()), Err(AccountError::Locked));
    manager.add_unlocked(key(7));
    assert_eq!(shared.with_key(&address, SecretKey::address), Ok(address));
}

#[test]
fn an_account_may_be_locked_while_its_key_is_used() {
    let manager = AccountManager::new();
    let address = manager.add_unlocked(key(9));
    let signer = manager.with_key(&address, |key| {
        assert!(manager.lock(&address));
        key.address()
    });
    assert_eq!(signer, Ok(address));
    assert_eq!(manager.with_key(&address, |_| ()), Err(AccountError::Locked));
}

#[test]
fn debug_shows_no_keys() {
    let manager = AccountManager::new();
    let address = manager.add_unlocked(key(0xab));
    let shown = format!("{manager:?}").to_lowercase();
    assert!(shown.contains(&format!("{address:#x}")), "{shown}");
    assert!(!shown.contains("abab") && !shown.contains("171"), "{shown}");
}

#[test]
fn accounts_in_memory_come_before_those_with_files() {
    let fixture = Fixture::new();
    let (newer, older) = (fixture.stored(9), fixture.stored(5));
    let in_memory = [
        fixture.manager.add_unlocked(key(200)),
        fixture.manager.add_unlocked(key(100)),
    ];
    assert_eq!(
        fixture.manager.addresses(),
        [in_memory[0], in_memory[1], older, newer]
    );
    let fresh = AccountManager::with_directory(fixture.manager.directory().expect("a folder").clone());
    assert!(fresh.addresses().is_empty());
    assert!(fresh.refresh().expect("readable").is_empty());
    assert_eq!(fresh.addresses(), [older, newer]);
    // An account with a key in memory and a file is listed once, with the former.
    let stored = fresh.add_unlocked(key(5));
    assert_eq!((stored, fresh.addresses()), (older, vec![older, newer]));
    let accounts = fixture.manager.accounts();
    assert_eq!((accounts[0].path.clone(), accounts[0].unlocked), (None, true));
    assert!(accounts[2].path.as_ref().is_some_and(|path| path.exists()) && !accounts[2].unlocked);
}

#[test]
fn passwords_unlock_for_a_time() {
    let fixture = Fixture::new();
    let address = fixture.stored(1);
    let minute = Some(Duration::from_secs(60));
    let wrong = account_error(fixture.manager.unlock_with_password(&address, "Secret", minute));
    assert_eq!(wrong, AccountError::WrongPassword);
    assert_eq!(fixture.signs(&address), Err(AccountError::Locked));
    fixture
        .manager
        .unlock_with_password(&address, "secret", minute)
        .expect("its password");
    fixture.wait(59);
    assert_eq!(fixture.signs(&address), Ok(address));
    fixture.wait(1);
    assert!(fixture.has_key(&address));
    assert_eq!(fixture.signs(&address), Err(AccountError::Locked));
    assert!(!fixture.has_key(&address), "the key is no longer in memory");
    assert!(!fixture.manager.accounts()[0].unlocked);
    // A new time replaces the old one.
    fixture
        .manager
        .unlock_with_password(&address, "secret", minute)
        .expect("its password");
    let second = Some(Duration::from_secs(1));
    fixture
        .manager
        .unlock_with_password(&address, "secret", second)
        .expect("its password");
    fixture.wait(1);
    assert_eq!(fixture.signs(&address), Err(AccountError::Locked));
}

#[test]
fn expired_keys_are_removed_from_memory() {
    let fixture = Fixture::new();
    let (short, long) = (fixture.stored(1), fixture.stored(2));
    let seconds = |seconds| Some(Duration::from_secs(seconds));
    fixture
        .manager
        .unlock_with_password(&short, "secret", seconds(5))
        .expect("its password");
    fixture
        .manager
        .unlock_with_password(&long, "secret", seconds(6))
        .expect("its password");
    fixture.wait(5);
    fixture.manager.lock_expired();
    assert!(!fixture.has_key(&short) && fixture.has_key(&long));
    fixture.wait(1);
    assert!(!fixture.manager.lock(&long), "its time was over");
}

#[test]
fn unlocking_without_a_limit_stays_so() {
    let fixture = Fixture::new();
    let address = fixture.stored(1);
    fixture
        .manager
        .unlock_with_password(&address, "secret", None)
        .expect("its password");
    let second = Some(Duration::from_secs(1));
    fixture
        .manager
        .unlock_with_password(&address, "secret", second)
        .expect("its password");
    fixture.wait(1_000_000);
    assert_eq!(fixture.signs(&address), Ok(address));
    assert!(fixture.manager.lock(&address));
    assert_eq!(fixture.signs(&address), Err(AccountError::Locked));
    // Longer than the clock can represent.
    let ages = Some(Duration::from_secs(u64::MAX));
    fixture
        .manager
        .unlock_with_password(&address, "secret", ages)
        .expect("its password");
    fixture.wait(1_000_000);
    assert_eq!(fixture.signs(&address), Ok(address));
}

#[test]
fn a_password_used_once_unlocks_nothing() {
    let fixture = Fixture::new();
    let address = fixture.stored(1);
    let once = fixture
        .manager
        .key_with_password(&address, "secret")
        .expect("its password");
    assert_eq!(once.address(), address);
    assert_eq!(fixture.signs(&address), Err(AccountError::Locked));
}

#[test]
fn keys_in_memory_have_the_empty_password() {
    let fixture = Fixture::new();
    let address = fixture.manager.add_unlocked(key(3));
    assert!(fixture.manager.lock(&address));
    let wrong = fixture.manager.unlock_with_password(&address, "x", None);
    assert_eq!(account_error(wrong), AccountError::WrongPassword);
    fixture
        .manager
        .unlock_with_password(&address, "", None)
        .expect("the empty password");
    assert_eq!(fixture.signs(&address), Ok(address));
    let update = fixture.manager.update(&address, "", "new");
    assert!(matches!(update, Err(UnlockError::NotStored)), "{update:?}");
}

#[test]
fn files_are_found_and_forgotten() {
    let fixture = Fixture::new();
    let other = AccountManager::with_directory(fixture.manager.directory().expect("a folder").clone());
    let stored = other.create("secret", SystemTime::now()).expect("stored");
    assert_eq!(fixture.signs(&stored.address), Err(AccountError::Unknown));
    // A new file is also found when its account is used.
    fixture
        .manager
        .unlock_with_password(&stored.address, "secret", None)
        .expect("its password");
    assert_eq!(fixture.signs(&stored.address), Ok(stored.address));
    std::fs::remove_file(&stored.path).expect("there");
    let foreign = fixture.home.path().join("keystore").join("foreign");
    std::fs::write(&foreign, "not a key").expect("writable");
    let news = fixture.manager.refresh().expect("readable");
    assert_eq!(
        news.iter().map(|skipped| &skipped.path).collect::<Vec<_>>(),
        [&foreign]
    );
    assert!(
        fixture.manager.refresh().expect("readable").is_empty(),
        "the file is reported once"
    );
    assert_eq!(fixture.signs(&stored.address), Err(AccountError::Unknown));
    assert!(!fixture.has_key(&stored.address));
    let gone = account_error(
        fixture
            .manager
            .unlock_with_password(&stored.address, "secret", None),
    );
    assert_eq!(gone, AccountError::Unknown);
}

#[test]
fn the_password_is_tried_on_files_without_an_address() {
    let fixture = Fixture::new();
    let folder = fixture.home.path().join("keystore");
    for byte in [1, 2] {
        fixture.stored(byte);
        let path = fixture
            .manager
            .accounts()
            .pop()
            .and_then(|accounts| accounts.path)
            .expect("a file");
        let text = std::fs::read_to_string(&path).expect("readable");
        let mut text: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        text.as_object_mut().expect("an object").remove("address");
        std::fs::write(folder.join(format!("{byte}.json")), text.to_string()).expect("writable");
        std::fs::remove_file(path).expect("there");
    }
    assert!(fixture.manager.refresh().expect("readable").is_empty());
    assert!(fixture.manager.addresses().is_empty());
    let address = key(2).address();
    let wrong = account_error(fixture.manager.unlock_with_password(&address, "wrong", None));
    assert_eq!(wrong, AccountError::Unknown);
    fixture
        .manager
        .unlock_with_password(&address, "secret", None)
        .expect("its password");
    assert_eq!(fixture.signs(&address), Ok(address));
    fixture.manager.refresh().expect("readable");
    assert_eq!(fixture.manager.addresses(), [key(1).address(), address]);
    assert_eq!(fixture.signs(&address), Ok(address));
}

#[test]
fn passwords_change() {
    let fixture = Fixture::new();
    let address = fixture.stored(1);
    let wrong = fixture.manager.update(&address, "wrong", "new");
    assert!(matches!(
        wrong,
        Err(UnlockError::Account(AccountError::WrongPassword))
    ));
    fixture
        .manager
        .update(&address, "secret", "new")
        .expect("its password");
    let old = fixture.manager.unlock_with_password(&address, "secret", None);
    assert_eq!(account_error(old), AccountError::WrongPassword);
    fixture
        .manager
        .unlock_with_password(&address, "new", None)
        .expect("its password");
}

#[test]
fn a_manager_without_a_folder() {
    let manager = AccountManager::new();
    let error = manager.create("x", SystemTime::now()).unwrap_err();
    assert!(matches!(error, UnlockError::NoDirectory), "{error}");
    let unknown = account_error(manager.unlock_with_password(&Address::ZERO, "", None));
    assert_eq!(unknown, AccountError::Unknown);
    assert!(manager.refresh().expect("nothing to read").is_empty());
}
