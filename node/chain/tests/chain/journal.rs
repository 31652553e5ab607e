//! Local transactions and restarts of the chain: which transactions are in the pool again.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use chain::pool::{PoolConfig, TxOrigin};
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

    fn open(&self) -> Chain {
        self.open_with(PoolConfig::default())
    }

    fn open_with(&self, pool: PoolConfig) -> Chain {
        let config = ChainConfig {
            spec: Arc::new(easy_spec()),
            seals: SealCheck::Off,
            pool: PoolConfig {
                journal: Some(self.journal()),
                ..pool
            },
            beneficiary: account(9),
            extra_data: Default::default(),
        };
        Chain::open(self.store.clone(), config).expect("the chain opens")
    }
}

fn transfer(from: usize, tx_nonce: u64) -> Transaction {
    let mut cheap = unsigned(tx_nonce, Some(account(1)), 1, &[]);
    // The gas price is below the price floor, so only a local transaction is accepted.
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
        chain
            .submit_transaction(transaction.clone(), TxOrigin::Local)
            .expect("taken");
    }
    let others = sign(3, &unsigned(0, Some(account(1)), 1, &[]));
    chain
        .submit_transaction(others.clone(), TxOrigin::Remote)
        .expect("taken");
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
    again
        .submit_transaction(more.clone(), TxOrigin::Local)
        .expect("taken");
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
    chain
        .submit_transaction(transfer(0, 3), TxOrigin::Local)
        .expect("taken");
    drop(chain);
    assert_eq!(directory.open().pool().counts(), (4, 0));
}

#[test]
fn without_local_accounts_there_is_no_journal() {
    let directory = DataDirectory::new();
    let chain = directory.open_with(PoolConfig {
        locals: false,
        ..PoolConfig::default()
    });
    let expensive = sign(0, &unsigned(0, Some(account(1)), 1, &[]));
    assert!(chain.submit_transaction(transfer(0, 0), TxOrigin::Local).is_err());
    chain
        .submit_transaction(expensive, TxOrigin::Local)
        .expect("taken");
    assert!(!directory.journal().exists());
}

#[test]
fn many_transactions_are_restored_in_any_order() {
    let directory = DataDirectory::new();
    let chain = directory.open();
    for from in 0..4 {
        for tx_nonce in (0..600).rev() {
            chain
                .submit_transaction(transfer(from, tx_nonce), TxOrigin::Local)
                .expect("taken");
        }
    }
    assert_eq!(chain.pool().counts(), (2400, 0));
    drop(chain);
    let chain = directory.open();
    assert_eq!(chain.pool().counts(), (2400, 0));
    drop(chain);
    std::fs::remove_file(directory.journal()).expect("removed");
    assert_eq!(directory.open().pool().counts(), (0, 0));
}
