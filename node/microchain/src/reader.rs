//! The answers to clients of a MicroChain: blocks, transactions, receipts, accounts, calls, the
//! pool.
//!
//! A [`Reader`] reads snapshots of the store and the pool's memory. So any number of threads may
//! read while the engine works.

use std::collections::BTreeMap;
use std::sync::Arc;

use chain::application::PlainAction;
use chain::call::{CallOutcome, CallRequest, StateAt, TIMEOUT_DEFAULT};
use chain::import::BlockId;
use chain::pool::{PendingHashes, PoolContent};
use chain::query_limit::QueryLimit;
use chain::view::StoredBlock;
use chain::{ChainSpec, View};
use parking_lot::Mutex;
use primitives::{Address, B256, Receipt, ReceiptOutcome, Transaction, U256};
use store::{BlockReads, HorizonReads, Store, StoreError};

use crate::admission::{TransactionRefusal, sender_for_pool};
use crate::dapp_base::DappBaseCalls;
pub use crate::error::ReadError;
use crate::pool::{Pool, PoolRefusal};
pub use crate::records::{DappEntry, ExchangeRecord, MinedReceipt, MinedTransaction};

/// The reads of one MicroChain, each on the head of the moment. Clones share everything.
#[derive(Clone, Debug)]
pub struct Reader {
    store: Store,
    spec: Arc<ChainSpec>,
    pool: Arc<Mutex<Pool>>,
    dapp_base: Address,
}

impl Reader {
    pub(crate) const fn new(
        store: Store,
        spec: Arc<ChainSpec>,
        pool: Arc<Mutex<Pool>>,
        dapp_base: Address,
    ) -> Self {
        Self {
            store,
            spec,
            pool,
            dapp_base,
        }
    }

    /// The chain at this moment, for several reads of the same state.
    ///
    /// # Errors
    /// [`ReadError`] if the store fails.
    pub fn view(&self) -> Result<View, ReadError> {
        Ok(View::new(&self.store, self.spec.clone())?)
    }

    /// The same, if the head's state can be read.
    fn state_view(&self) -> Result<View, ReadError> {
        let view = self.view()?;
        match view.require_state(view.head_number()) {
            Ok(()) => Ok(view),
            Err(_) => Err(ReadError::Joining),
        }
    }

    /// Number and hash of the head.
    ///
    /// # Errors
    /// [`ReadError`] if the store fails.
    pub fn head(&self) -> Result<BlockId, ReadError> {
        Ok(self.view()?.head_id())
    }

    /// The canonical block with this number; `None` above the head.
    ///
    /// # Errors
    /// [`ReadError::BlockNotKept`] with the first block there is if this one is below it; other
    /// errors if the store fails.
    pub fn block(&self, number: u64) -> Result<Option<StoredBlock>, ReadError> {
        let view = self.view()?;
        let block = view.block(number)?;
        let first = view.snapshot().first_block()?;
        if block.is_none() && number < first {
            return Err(ReadError::BlockNotKept { got: number, first });
        }
        Ok(block)
    }

    /// The block with this hash, canonical or not.
    ///
    /// # Errors
    /// [`ReadError`] if the store fails.
    pub fn block_by_hash(&self, hash: &B256) -> Result<Option<StoredBlock>, ReadError> {
        Ok(self.view()?.block_by_hash(hash)?)
    }

    /// The transaction with this hash; `None` if it is in no canonical block.
    ///
    /// # Errors
    /// [`ReadError`] if the store fails.
    pub fn transaction(&self, hash: &B256) -> Result<Option<MinedTransaction>, ReadError> {
        let found = self.view()?.transaction(hash)?;
        Ok(found.and_then(|(block, index)| mined(&block, index)))
    }

    /// The transaction of `sender` with this nonce; `None` if it is in no canonical block, or in
    /// one up to the oldest whose state is kept.
    ///
    /// # Errors
    /// [`ReadError`] if the store fails.
    pub fn transaction_by_nonce(
        &self,
        sender: &Address,
        nonce: u64,
    ) -> Result<Option<MinedTransaction>, ReadError> {
        let view = self.state_view()?;
        let nonce_at = |number| -> Result<u64, StoreError> {
            Ok(view
                .account(sender, number)?
                .map_or(0, |account| account.tx_nonce))
        };
        let horizon = view.snapshot().state_horizon()?.block;
        let (mut low, mut high) = (horizon, view.head_number());
        let is_older = horizon > 0 && nonce_at(low)? > nonce;
        if nonce_at(high)? <= nonce || is_older {
            return Ok(None);
        }
        // The first block after which the nonce is used.
        while low < high {
            let middle = low + (high - low) / 2;
            if nonce_at(middle)? > nonce {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        let Some(block) = view.block(low)? else {
            return Ok(None);
        };
        let mut all = block.body.transactions.iter().zip(&block.body.senders);
        let index = all.position(|(one, signer)| signer == sender && one.tx_nonce == nonce);
        Ok(index.and_then(|index| mined(&block, index)))
    }

    /// The receipt of a transaction that [`Self::transaction`] or [`Self::transaction_by_nonce`]
    /// found; `None` if its block is not canonical any more.
    ///
    /// # Errors
    /// [`ReadError`] if the store fails.
    pub fn receipt_of(&self, mined: MinedTransaction) -> Result<Option<MinedReceipt>, ReadError> {
        let Some(receipts) = self.view()?.receipts(&mined.block)? else {
            return Ok(None);
        };
        let index = mined.index as usize;
        let before = receipts.get(..index).unwrap_or_default();
        let first_log = before.iter().map(|receipt| receipt.logs.len() as u64).sum();
        let gas_before = before.last().map_or(0, |receipt| receipt.cumulative_gas_used);
        let Some(receipt) = receipts.get(index).cloned() else {
            return Ok(None);
        };
        let creates = PlainAction::of(&mined.transaction).is_some_and(|action| action.to.is_none());
        let created = creates && succeeded(&receipt);
        Ok(Some(MinedReceipt {
            gas_used: receipt.cumulative_gas_used.saturating_sub(gas_before),
            first_log,
            contract: created
                .then(|| Transaction::created_address(&mined.sender, mined.transaction.tx_nonce)),
            receipt,
            mined,
        }))
    }

    /// The balance of an account, in units of 10^-18.
    ///
    /// # Errors
    /// [`ReadError`] if the store fails.
    pub fn balance(&self, address: &Address) -> Result<U256, ReadError> {
        let view = self.state_view()?;
        let account = view.account(address, view.head_number())?;
        Ok(account.map_or(U256::ZERO, |account| account.balance))
    }

    /// The number of transactions that an account has sent.
    ///
    /// # Errors
    /// [`ReadError`] if the store fails.
    pub fn nonce(&self, address: &Address) -> Result<u64, ReadError> {
        let view = self.state_view()?;
        let account = view.account(address, view.head_number())?;
        Ok(account.map_or(0, |account| account.tx_nonce))
    }

    /// The code of a contract; empty if there is none.
    ///
    /// # Errors
    /// [`ReadError`] if the store fails.
    pub fn code(&self, address: &Address) -> Result<Vec<u8>, ReadError> {
        let view = self.state_view()?;
        Ok(view.code(address, view.head_number())?)
    }

    /// The value of a storage slot.
    ///
    /// # Errors
    /// [`ReadError`] if the store fails.
    pub fn slot(&self, address: &Address, slot: &U256) -> Result<U256, ReadError> {
        let view = self.state_view()?;
        Ok(view.slot(address, slot, view.head_number())?)
    }

    /// A call of a contract on the head's state. Its changes are dropped. It stops after
    /// [`chain::call::TIMEOUT_DEFAULT`].
    ///
    /// # Errors
    /// [`ReadError`] if the call cannot be run or takes too long.
    pub fn call(&self, request: &CallRequest) -> Result<CallOutcome, ReadError> {
        let view = self.state_view()?;
        let at = StateAt::Block(view.head_number());
        Ok(view.call(at, request, QueryLimit::new(TIMEOUT_DEFAULT))?)
    }

    /// The address of DappBase; `None` before it is created.
    ///
    /// # Errors
    /// [`ReadError`] if the store fails.
    pub fn dapp_base(&self) -> Result<Option<Address>, ReadError> {
        let exists = !self.code(&self.dapp_base)?.is_empty();
        Ok(exists.then_some(self.dapp_base))
    }

    /// The Dapps that DappBase knows, in its order; none before it is created. DappBase itself is
    /// not among them.
    ///
    /// # Errors
    /// [`ReadError`] if the call fails.
    pub fn dapps(&self) -> Result<Vec<DappEntry>, ReadError> {
        let view = self.state_view()?;
        DappBaseCalls::new(&view, self.dapp_base).dapps(view.head_number())
    }

    /// The deposits that `user` was credited, oldest first, and when.
    ///
    /// # Errors
    /// [`ReadError`] if the call fails.
    pub fn credited(&self, user: &Address) -> Result<Vec<ExchangeRecord>, ReadError> {
        let view = self.state_view()?;
        DappBaseCalls::new(&view, self.dapp_base).credited(user, view.head_number())
    }

    /// The newest withdrawals from position `from` on, at most `max`, oldest first: of `user`, or
    /// of all. With the number of all of them.
    ///
    /// # Errors
    /// [`ReadError`] if the call fails.
    pub fn withdrawals(
        &self,
        user: Option<&Address>,
        from: u64,
        max: u64,
    ) -> Result<(Vec<ExchangeRecord>, u64), ReadError> {
        let view = self.state_view()?;
        let calls = DappBaseCalls::new(&view, self.dapp_base);
        calls.newest_withdrawals(user, from, max, view.head_number())
    }

    /// The number of deposits of the chain base that are credited: from this position on they wait.
    ///
    /// # Errors
    /// [`ReadError`] if the call fails.
    pub fn enter_position(&self) -> Result<u64, ReadError> {
        let view = self.state_view()?;
        DappBaseCalls::new(&view, self.dapp_base).enter_position(view.head_number())
    }

    /// The transactions that wait in the pool.
    pub fn pool(&self) -> PoolContent {
        self.pool.lock().content()
    }

    /// The number of transactions that wait in the pool.
    pub fn waiting_count(&self) -> u64 {
        let content = self.pool.lock().content();
        let count = |part: &BTreeMap<Address, BTreeMap<u64, Arc<Transaction>>>| -> usize {
            part.values().map(BTreeMap::len).sum()
        };
        (count(&content.pending) + count(&content.queued)) as u64
    }

    /// A transaction that waits in the pool, and its sender.
    pub fn waiting(&self, hash: &B256) -> Option<(Arc<Transaction>, Address)> {
        self.pool.lock().get(hash)
    }

    /// The cursor of the next transaction that becomes pending.
    pub fn pending_cursor(&self) -> u64 {
        self.pool.lock().pending_cursor()
    }

    /// Hashes of the transactions that became pending since `cursor`, at most `max`. Each
    /// transaction comes once.
    pub fn pending_since(&self, cursor: u64, max: usize) -> PendingHashes {
        self.pool.lock().pending_since(cursor, max)
    }

    /// Whether a transaction with this hash waits in the pool.
    pub fn is_waiting(&self, hash: &B256) -> bool {
        self.pool.lock().contains(hash)
    }

    /// The nonce after the transactions of an account that wait and can be executed; `None` if it
    /// has none.
    pub fn nonce_after_waiting(&self, account: &Address) -> Option<u64> {
        let next = self.pool.lock().next_nonce(account, 0);
        (next > 0).then_some(next)
    }

    /// The store of the chain, for readers of their own.
    pub const fn store(&self) -> &Store {
        &self.store
    }

    /// The rules of the chain.
    pub const fn spec(&self) -> &Arc<ChainSpec> {
        &self.spec
    }

    /// The sender of a transaction, if the pool may take it: if everything that needs no other
    /// transaction is right.
    ///
    /// # Errors
    /// [`ReadError::Refused`] with what is wrong; other errors if the store fails.
    pub fn check_transaction(&self, transaction: &Transaction) -> Result<Address, ReadError> {
        let sender = sender_for_pool(&self.spec, transaction).map_err(Box::new)?;
        if self.is_waiting(&transaction.hash()) {
            return Err(Box::new(TransactionRefusal::from(PoolRefusal::Known)).into());
        }
        let view = self.state_view()?;
        let account = view.account(&sender, view.head_number())?.unwrap_or_default();
        let (got, expected) = (transaction.tx_nonce, account.tx_nonce);
        if got < expected {
            let low = PoolRefusal::NonceTooLow { got, expected };
            return Err(Box::new(TransactionRefusal::from(low)).into());
        }
        let (balance, cost) = (account.balance, transaction.value);
        if balance < cost {
            return Err(Box::new(TransactionRefusal::Funds { balance, cost }).into());
        }
        Ok(sender)
    }

    /// Checks that a transaction with the content of this call would run. Its sender need not have
    /// signed anything.
    ///
    /// # Errors
    /// [`ReadError::NotAllowed`] with the reason if it would fail without being run; other errors
    /// if DappBase cannot be asked.
    pub fn check_call(&self, request: &CallRequest) -> Result<(), ReadError> {
        let view = self.state_view()?;
        let number = view.head_number();
        if view.code(&self.dapp_base, number)?.is_empty() {
            return Ok(());
        }
        let calls = DappBaseCalls::new(&view, self.dapp_base);
        let sender = request.from.unwrap_or_default();
        let owner = self.spec.application.as_ref().map(|rules| rules.owner);
        let reason = match request.to {
            None if owner == Some(sender) || calls.anyone_deploys(number)? => return Ok(()),
            None => format!("creations by {sender}: expected the owner, or allDeploySwitch of DappBase"),
            Some(to) if request.input.is_empty() || to == self.dapp_base => return Ok(()),
            Some(to) if calls.is_enabled(&to, number)? => return Ok(()),
            Some(to) => format!("call of {to}: expected a Dapp that is registered with DappBase"),
        };
        Err(ReadError::NotAllowed(reason))
    }
}

/// Whether a transaction succeeded.
pub(crate) fn succeeded(receipt: &Receipt) -> bool {
    receipt.outcome == ReceiptOutcome::Status(true)
}

fn mined(block: &StoredBlock, index: usize) -> Option<MinedTransaction> {
    Some(MinedTransaction {
        transaction: block.body.transactions.get(index)?.clone(),
        sender: *block.body.senders.get(index)?,
        block: block.id(),
        timestamp: block.record.header.timestamp,
        index: index as u64,
    })
}
