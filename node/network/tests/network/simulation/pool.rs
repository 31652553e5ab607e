//! The pool of a simulated node. It follows the head as that of a running chain does, in the same
//! step as the import.

use std::sync::Mutex;

use chain::View;
use chain::import::BlockId;
use chain::pool::{NextBlock, PoolConfig, PoolError, RevertedTransaction, SenderState, TxPool};
use chain::rules::body::sender;
use network::testing::{HashedTransaction, TransactionVerdict};
use primitives::{Address, B256, Transaction};
use store::{BlockReads, StoreError};

/// Transactions of one account that the pool may keep beyond those that can be mined, and of all
/// accounts: few, so that bounds are met.
pub(crate) const ACCOUNT_QUEUE: usize = 4;
pub(crate) const GLOBAL_QUEUE: usize = 12;

fn config() -> PoolConfig {
    PoolConfig {
        account_queue: ACCOUNT_QUEUE,
        global_queue: GLOBAL_QUEUE,
        ..PoolConfig::default()
    }
}

fn next_block(view: &View) -> NextBlock {
    NextBlock {
        number: view.head_number() + 1,
        gas_limit: view.head().header.gas_limit,
    }
}

/// The sender's state at the head.
pub(crate) fn sender_state(view: &View, address: &Address) -> Result<SenderState, StoreError> {
    let account = view.account(address, view.head_number())?.unwrap_or_default();
    Ok(SenderState {
        tx_nonce: account.tx_nonce,
        balance: account.balance,
    })
}

/// See the module.
pub(crate) struct NodePool {
    pub(crate) pool: TxPool,
    /// The head that the pool has followed.
    head: Mutex<BlockId>,
    /// The place in the feed of pending transactions up to which peers were told.
    told: Mutex<u64>,
}

impl NodePool {
    pub(crate) fn new(view: &View) -> Self {
        Self {
            pool: TxPool::new(view.spec().clone(), config(), next_block(view)),
            head: Mutex::new(view.head_id()),
            told: Mutex::default(),
        }
    }

    /// Lets the pool follow the head.
    pub(crate) fn follow(&self, view: &View) -> Result<(), StoreError> {
        let mut head = self.head.lock().expect("no panic");
        if *head == view.head_id() {
            return Ok(());
        }
        let path = view.path_to_head(*head, None, usize::MAX)?;
        let mut reverted = Vec::new();
        for id in path.reverted.iter().rev() {
            let Some(body) = view
                .snapshot()
                .body(id.number, &id.hash, view.spec().tx_rules())?
            else {
                continue;
            };
            for (transaction, sender) in body.transactions.into_iter().zip(body.senders) {
                reverted.push(RevertedTransaction {
                    transaction,
                    sender,
                    sender_state: sender_state(view, &sender)?,
                });
            }
        }
        let mut states = Vec::new();
        for sender in self.pool.senders() {
            states.push((sender, sender_state(view, &sender)?));
        }
        self.pool.follow_head(next_block(view), states, reverted);
        *head = view.head_id();
        Ok(())
    }

    /// Offers a transaction to the pool.
    pub(crate) fn submit(
        &self,
        view: &View,
        offered: HashedTransaction,
    ) -> Result<TransactionVerdict, StoreError> {
        let HashedTransaction { hash, transaction } = offered;
        let sender = match self.pool.check_without_sender(&transaction, &hash) {
            Ok(()) => sender(view.spec(), self.pool.next_number(), &transaction),
            Err(PoolError::Known(_)) => return Ok(TransactionVerdict::PassedOver),
            Err(error) => return Ok(TransactionVerdict::Refused(error.to_string())),
        };
        let sender = match sender {
            Ok(sender) => sender,
            Err(error) => return Ok(TransactionVerdict::Worthless(error.to_string())),
        };
        let state = sender_state(view, &sender)?;
        Ok(match self.pool.add(transaction, sender, state) {
            Ok(_) => TransactionVerdict::Taken,
            Err(error) => TransactionVerdict::Refused(error.to_string()),
        })
    }

    pub(crate) fn get(&self, hash: &B256) -> Option<Transaction> {
        Some((*self.pool.get(hash)?.transaction).clone())
    }

    /// Hashes of at most `most` transactions that could be in the next block.
    pub(crate) fn pending(&self, most: usize) -> Vec<B256> {
        let mut ready = self.pool.ready();
        let mut hashes = Vec::new();
        while hashes.len() < most
            && let Some(pooled) = ready.best()
        {
            hashes.push(pooled.hash);
            ready.mark_included(pooled.sender);
        }
        hashes
    }

    /// The transactions that became pending since the last call and still wait.
    pub(crate) fn take_news(&self) -> Vec<HashedTransaction> {
        let mut told = self.told.lock().expect("no panic");
        let news = self.pool.pending_since(*told, usize::MAX);
        *told = news.cursor;
        let known = news.hashes.iter().filter_map(|hash| self.get(hash));
        known.map(HashedTransaction::from).collect()
    }
}
