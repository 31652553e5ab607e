//! The transactions of local accounts and restarts of the chain: which are in the pool again.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use chain::fetched_state::FetchedState;
use chain::pool::{ACCOUNT_QUEUE_DEFAULT, LocalAccounts, PoolConfig};
use chain::rules::seal::SealCheck;
use chain::{Chain, ChainConfig};
use primitives::{Transaction, TxForm, U256};
use store::Store;

use crate::common::{account, easy_spec, key, sign, unsigned};

/// A data directory.
struct DataDirectory {
    folder: tempfile::TempDir,
    store: Store,
}

impl DataDirectory {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().expect("a temporary directory"),
            store: Store::in_memory().expect("store"),
        }
    }

    fn journal(&self) -> PathBuf {
        self.folder.path().join("transactions.rlp")
    }

    /// Journals that were not read as a whole.
    fn kept_aside(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.folder.path()).expect("a folder");
        let paths = entries.map(|entry| entry.expect("an entry").path());
        paths
            .filter(|path| path.to_string_lossy().contains("transactions.rlp.unread-"))
            .collect()
    }

    /// A chain in which the first three accounts are local.
    fn open(&self) -> Chain {
        self.open_with(PoolConfig {
            locals: Some(LocalAccounts::new(|address| {
                (0..3).any(|index| account(index) == *address)
            })),
            ..PoolConfig::default()
        })
    }

    fn open_with(&self, pool: PoolConfig) -> Chain {
        let config = ChainConfig {
            spec: Arc::new(easy_spec()),
            seals: SealCheck::Off,
            forks: chain::import::ForkLimits::default(),
            pool: PoolConfig {
                journal: Some(self.journal()),
                ..pool
            },
            beneficiary: account(9),
            extra_data: Default::default(),
            states: chain::import::StateRetention::Archive,
        };
        Chain::open(self.store.clone(), config).expect("the chain opens")
    }
}

fn transfer(from: usize, tx_nonce: u64) -> Transaction {
    let mut cheap = unsigned(tx_nonce, Some(account(1)), 1, &[]);
    // The gas price is below the price floor, so only a local account's transaction is accepted.
    cheap.gas_price = U256::from(1);
    sign(from, &cheap)
}

fn size(path: &Path) -> u64 {
    std::fs::metadata(path).expect("the journal is there").len()
}

#[test]
fn local_transactions_are_restored_and_stay_local() {
    let directory = DataDirectory::new();
    let chain = directory.open();
    let sent = [transfer(0, 0), transfer(0, 5), transfer(2, 0)];
    for transaction in &sent {
        chain.submit_transaction(transaction.clone()).expect("taken");
    }
    let others = sign(3, &unsigned(0, Some(account(1)), 1, &[]));
    chain.submit_transaction(others.clone()).expect("taken");
    assert_eq!(chain.pool().counts(), (3, 1));
    // The first chain was not stopped: the file is complete before that.
    let again = directory.open();
    assert_eq!(again.pool().counts(), (2, 1));
    assert!(
        sent.iter()
            .all(|transaction| again.pool().contains(&transaction.hash()))
    );
    assert!(!again.pool().contains(&others.hash()));
    assert!(again.pool().is_local(&account(0)) && !again.pool().is_local(&account(3)));
    // Restored transactions are not written twice. Transactions after a restart are written.
    let before = size(&directory.journal());
    drop(chain);
    let more = transfer(2, 1);
    again.submit_transaction(more.clone()).expect("taken");
    assert_eq!(size(&directory.journal()), before + more.encode().len() as u64);
    drop(again);
    assert_eq!(directory.open().pool().counts(), (3, 1));
}

#[test]
fn undamaged_valid_records_are_restored() {
    let directory = DataDirectory::new();
    let records: Vec<_> = (0..4).map(|nonce| transfer(0, nonce).encode()).collect();
    let foreign = unsigned(4, Some(account(1)), 1, &[]).sign(&key(0), 99, TxForm::Native);
    let unpaid = unsigned(0, Some(account(1)), 1, &[]);
    let poor_key = primitives::SecretKey::from_bytes(&[9; 32]).expect("a key");
    let unpaid = unpaid.sign(&poor_key, 100, TxForm::Native);
    let mut bytes = [&records[0][..], &foreign.encode(), &unpaid.encode(), &records[1]].concat();
    // A complete record that is not a transaction, a record that comes twice, and a partial record.
    bytes.extend([0xc2, 0x01, 0x02]);
    bytes.extend(records[2].iter().chain(&records[2]));
    bytes.extend(&records[3][..records[3].len() - 1]);
    std::fs::write(directory.journal(), &bytes).expect("written");
    let chain = directory.open();
    assert_eq!(chain.pool().counts(), (3, 0));
    assert_eq!(chain.pool().next_nonce(&account(0)), Some(3));
    // The journal was rewritten with the valid records, and can be appended to.
    let valid_bytes: usize = records[..3].iter().map(Vec::len).sum();
    assert_eq!(size(&directory.journal()), valid_bytes as u64);
    // The old file is kept beside it, and only once.
    let aside = directory.kept_aside();
    assert_eq!(aside.len(), 1, "{aside:?}");
    assert_eq!(std::fs::read(&aside[0]).expect("readable"), bytes);
    chain.submit_transaction(transfer(0, 3)).expect("taken");
    drop(chain);
    assert_eq!(directory.open().pool().counts(), (4, 0));
    assert_eq!(directory.kept_aside(), aside);
}

#[test]
fn a_journal_that_cannot_be_opened_is_kept() {
    let directory = DataDirectory::new();
    std::fs::create_dir(directory.journal()).expect("a folder in the place of the file");
    let chain = directory.open();
    assert_eq!(directory.kept_aside().len(), 1);
    chain.submit_transaction(transfer(0, 0)).expect("taken");
    drop(chain);
    assert_eq!(directory.open().pool().counts(), (1, 0));
    assert_eq!(directory.kept_aside().len(), 1);
}

#[test]
fn a_journal_is_kept_that_is_read_while_a_state_is_fetched() {
    let directory = DataDirectory::new();
    drop(directory.open());
    FetchedState::begin(&directory.store).expect("the head is block 0");
    let record = transfer(0, 0).encode();
    std::fs::write(directory.journal(), &record).expect("written");
    let chain = directory.open();
    assert_eq!(chain.pool().counts(), (0, 0));
    let aside = directory.kept_aside();
    assert_eq!(aside.len(), 1, "{aside:?}");
    assert_eq!(std::fs::read(&aside[0]).expect("readable"), record);
}

#[test]
fn without_local_accounts_there_is_no_journal() {
    let directory = DataDirectory::new();
    let chain = directory.open_with(PoolConfig::default());
    let expensive = sign(0, &unsigned(0, Some(account(1)), 1, &[]));
    assert!(chain.submit_transaction(transfer(0, 0)).is_err());
    chain.submit_transaction(expensive).expect("taken");
    assert!(!directory.journal().exists());
}

#[test]
fn many_transactions_are_restored_in_their_order() {
    /// All of a group but the last are queued for a time: as many as an account may queue.
    const GROUP: u64 = ACCOUNT_QUEUE_DEFAULT as u64 + 1;
    let directory = DataDirectory::new();
    let chain = directory.open();
    let groups = (0..800 / GROUP).map(|group| group * GROUP..(group + 1) * GROUP);
    let tx_nonces: Vec<u64> = groups.flat_map(Iterator::rev).collect();
    let count = 3 * tx_nonces.len();
    for from in 0..3 {
        for tx_nonce in tx_nonces.iter().copied() {
            chain.submit_transaction(transfer(from, tx_nonce)).expect("taken");
        }
    }
    assert_eq!(chain.pool().counts(), (count, 0));
    drop(chain);
    let chain = directory.open();
    assert_eq!(chain.pool().counts(), (count, 0));
    drop(chain);
    std::fs::remove_file(directory.journal()).expect("removed");
    assert_eq!(directory.open().pool().counts(), (0, 0));
}

#[test]
fn a_journal_with_the_transactions_of_strangers_obeys_the_rules() {
    let directory = DataDirectory::new();
    // A stranger with funds, one without, and an account that is local.
    let paid = |tx_nonce| sign(3, &unsigned(tx_nonce, Some(account(1)), 1, &[]));
    let poor = primitives::SecretKey::from_bytes(&[9; 32]).expect("a key");
    let free = |tx_nonce| {
        let mut free = unsigned(tx_nonce, Some(account(1)), 0, &[]);
        free.gas_price = U256::ZERO;
        free.sign(&poor, 100, TxForm::Native)
    };
    let mut records = vec![transfer(0, 0), paid(0)];
    records.extend((1..200).map(free));
    records.extend((2..200).map(paid));
    let bytes: Vec<u8> = records.iter().flat_map(Transaction::encode).collect();
    std::fs::write(directory.journal(), bytes).expect("written");
    let chain = directory.open();
    assert_eq!(chain.pool().counts(), (2, PoolConfig::default().account_queue));
    assert_eq!(chain.pool().next_nonce(&poor.address()), None);
    assert!(chain.pool().contains(&paid(0).hash()) && chain.pool().contains(&records[0].hash()));
    // The new journal has the local account's transaction only.
    assert_eq!(size(&directory.journal()), records[0].encode().len() as u64);
    drop(chain);
    assert_eq!(directory.open().pool().counts(), (1, 0));
}
