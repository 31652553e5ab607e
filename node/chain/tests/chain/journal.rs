//! Local transactions over restarts of the chain: what waits again, and what does not.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use chain::pool::{PoolConfig, TxOrigin};
use chain::rules::body::SealCheck;
use chain::{Chain, ChainConfig};
use primitives::{Transaction, TxForm, U256};
use store::Store;

use crate::common::{account, easy_spec, key, sign, unsigned};

struct Home {
    folder: tempfile::TempDir,
    store: Store,
}

impl Home {
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
    // Below the floor: only as a local one does it come in again.
    cheap.gas_price = U256::from(1);
    sign(from, &cheap)
}

fn size(path: &Path) -> u64 {
    std::fs::metadata(path).expect("the journal is there").len()
}

#[test]
fn local_transactions_wait_again_and_stay_local() {
    let home = Home::new();
    let chain = home.open();
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
    // Without a stop: what is needed is in the file already.
    let again = home.open();
    assert_eq!(again.pool().counts(), (2, 1));
    assert!(
        sent.iter()
            .all(|transaction| again.pool().contains(&transaction.hash()))
    );
    assert!(!again.pool().contains(&others.hash()));
    assert!(again.pool().is_local(&account(0)) && !again.pool().is_local(&account(3)));
    // Read again, nothing is doubled; and what comes after a restart is written too.
    let before = size(&home.journal());
    drop(chain);
    let more = transfer(2, 1);
    again
        .submit_transaction(more.clone(), TxOrigin::Local)
        .expect("taken");
    assert_eq!(size(&home.journal()), before + more.encode().len() as u64);
    drop(again);
    assert_eq!(home.open().pool().counts(), (3, 1));
}

#[test]
fn damage_costs_what_is_damaged_and_strangers_stay_out() {
    let home = Home::new();
    let records: Vec<_> = (0..4).map(|nonce| transfer(0, nonce).encode()).collect();
    let foreign = unsigned(4, Some(account(1)), 1, &[]).sign(&key(0), 99, TxForm::Native);
    let unpaid = unsigned(0, Some(account(1)), 1, &[]);
    let pauper = primitives::SecretKey::from_bytes(&[9; 32]).expect("a key");
    let unpaid = unpaid.sign(&pauper, 100, TxForm::Native);
    let mut bytes = [&records[0][..], &foreign.encode(), &unpaid.encode(), &records[1]].concat();
    // A whole record with nonsense in it, one twice, and a torn end.
    bytes.extend([0xc2, 0x01, 0x02]);
    bytes.extend(records[2].iter().chain(&records[2]));
    bytes.extend(&records[3][..records[3].len() - 1]);
    std::fs::write(home.journal(), &bytes).expect("written");
    let chain = home.open();
    assert_eq!(chain.pool().counts(), (3, 0));
    assert_eq!(chain.pool().next_nonce(&account(0)), Some(3));
    // The journal was written anew with what is good, and can be gone on with.
    let good: usize = records[..3].iter().map(Vec::len).sum();
    assert_eq!(size(&home.journal()), good as u64);
    chain
        .submit_transaction(transfer(0, 3), TxOrigin::Local)
        .expect("taken");
    drop(chain);
    assert_eq!(home.open().pool().counts(), (4, 0));
}

#[test]
fn without_local_privileges_there_is_no_journal() {
    let home = Home::new();
    let chain = home.open_with(PoolConfig {
        locals: false,
        ..PoolConfig::default()
    });
    let dear = sign(0, &unsigned(0, Some(account(1)), 1, &[]));
    assert!(chain.submit_transaction(transfer(0, 0), TxOrigin::Local).is_err());
    chain.submit_transaction(dear, TxOrigin::Local).expect("taken");
    assert!(!home.journal().exists());
}

#[test]
fn many_come_back_in_any_order() {
    let home = Home::new();
    let chain = home.open();
    for from in 0..4 {
        for tx_nonce in (0..600).rev() {
            chain
                .submit_transaction(transfer(from, tx_nonce), TxOrigin::Local)
                .expect("taken");
        }
    }
    assert_eq!(chain.pool().counts(), (2400, 0));
    drop(chain);
    let chain = home.open();
    assert_eq!(chain.pool().counts(), (2400, 0));
    drop(chain);
    std::fs::remove_file(home.journal()).expect("removed");
    assert_eq!(home.open().pool().counts(), (0, 0));
}
