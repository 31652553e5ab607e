//! A MicroChain for ordinary wallets: what the methods of `rpc` need beside its blocks.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use chain::Chain;
use chain::call::CallRequest;
use chain::pool::{PendingHashes, PoolContent, PooledTransaction};
use microchain::Reader;
use microchain::abi::CallData;
use microchain::reader::ReadError;
use parking_lot::Mutex;
use primitives::{Address, B256, Transaction};
use rpc::{ApplicationPool, Node, RpcError, RpcResult};
use tokio::sync::mpsc;

/// The most transactions of clients of which an SCS remembers what they were, until they are in a
/// block.
const SENT_MAX: usize = 1024;
/// The most bytes of their data.
const SENT_BYTES_MAX: usize = 4 << 20;
/// Selector of `Error(string)`, the data of a revert with a reason.
const ERROR_TEXT: [u8; 4] = [0x08, 0xc3, 0x79, 0xa0];

/// A transaction that a client has sent to this SCS.
#[derive(Debug)]
pub(crate) struct SubmittedTransaction {
    /// The MicroChain.
    pub chain: Address,
    pub transaction: Transaction,
}

/// A failure of the store is a fault of this node; anything else is told to the caller.
pub(crate) fn read_error(error: ReadError) -> RpcError {
    match error {
        ReadError::Store(error) => {
            tracing::error!(%error, "a request failed because of the store");
            RpcError::internal("the SCS could not read its data")
        }
        ReadError::Call(error) => RpcError::refused(error.to_string()),
        error @ (ReadError::Answer { .. }
        | ReadError::Failed { .. }
        | ReadError::Refused(_)
        | ReadError::Joining
        | ReadError::BlockNotKept { .. }
        | ReadError::NotAllowed(_)) => RpcError::refused(error.to_string()),
    }
}

/// The pool of a MicroChain, as wallets see it.
pub(crate) struct WalletPool {
    pub(crate) chain: Address,
    pub(crate) reader: Reader,
    pub(crate) submitted: mpsc::Sender<SubmittedTransaction>,
    pub(crate) sent: Mutex<SentTransactions>,
}

/// The last transactions that clients have sent to this SCS, by each of their hashes.
#[derive(Debug, Default)]
pub(crate) struct SentTransactions {
    by_hash: HashMap<B256, PooledTransaction>,
    /// The stored hash and that of Ethereum's clients, oldest first.
    order: VecDeque<(B256, Option<B256>)>,
    bytes: usize,
}

impl SentTransactions {
    fn add(&mut self, transaction: Transaction, sender: Address) {
        let (hash, ethereum_hash) = (transaction.hash(), transaction.ethereum_hash());
        if self.by_hash.contains_key(&hash) {
            return;
        }
        self.bytes += transaction.input.len();
        let pooled = PooledTransaction {
            transaction: Arc::new(transaction),
            hash,
            sender,
            order: 0,
        };
        for hash in ethereum_hash.into_iter().chain([hash]) {
            self.by_hash.insert(hash, pooled.clone());
        }
        self.order.push_back((hash, ethereum_hash));
        while (self.order.len() > SENT_MAX || self.bytes > SENT_BYTES_MAX)
            && let Some((oldest, ethereum_hash)) = self.order.pop_front()
        {
            if let Some(ethereum_hash) = ethereum_hash {
                self.by_hash.remove(&ethereum_hash);
            }
            let gone = self.by_hash.remove(&oldest);
            self.bytes -= gone.map_or(0, |gone| gone.transaction.input.len());
        }
    }
}

impl WalletPool {
    /// The node for the methods of wallets.
    ///
    /// # Errors
    /// −32603 if the chain cannot be followed.
    pub(crate) fn into_node(self) -> RpcResult<Node> {
        let failed = |error: &dyn std::fmt::Display| {
            tracing::error!(%error, "a MicroChain cannot be served to wallets");
            RpcError::internal("the MicroChain cannot be served to wallets")
        };
        let (store, spec) = (self.reader.store().clone(), self.reader.spec().clone());
        let chain = Chain::follower(store, spec).map_err(|error| failed(&error))?;
        let version = format!("scs/v{}", env!("CARGO_PKG_VERSION"));
        Node::of_application(chain, Arc::new(self), version).map_err(|error| failed(&error))
    }
}

impl ApplicationPool for WalletPool {
    fn submit(&self, transaction: Transaction) -> RpcResult<()> {
        let sender = self.reader.check_transaction(&transaction).map_err(read_error)?;
        let submitted = SubmittedTransaction {
            chain: self.chain,
            transaction: transaction.clone(),
        };
        let full = |_| RpcError::refused("too many transactions wait: try again later");
        self.submitted.try_send(submitted).map_err(full)?;
        self.sent.lock().add(transaction, sender);
        Ok(())
    }

    fn content(&self) -> PoolContent {
        self.reader.pool()
    }

    fn get(&self, hash: &B256) -> Option<PooledTransaction> {
        if let Some(pooled) = self.sent.lock().by_hash.get(hash).cloned() {
            return self.reader.is_waiting(&pooled.hash).then_some(pooled);
        }
        let (transaction, sender) = self.reader.waiting(hash)?;
        Some(PooledTransaction {
            transaction,
            hash: *hash,
            sender,
            order: 0,
        })
    }

    fn next_nonce(&self, account: &Address) -> Option<u64> {
        self.reader.nonce_after_waiting(account)
    }

    fn pending_cursor(&self) -> u64 {
        self.reader.pending_cursor()
    }

    fn pending_since(&self, cursor: u64, max: usize) -> PendingHashes {
        self.reader.pending_since(cursor, max)
    }

    fn check_call(&self, request: &CallRequest) -> RpcResult<()> {
        self.reader.check_call(request).map_err(|error| match error {
            // Libraries show the reason of a revert, and of no other error.
            ReadError::NotAllowed(_) => {
                let reason = error.to_string();
                let data = CallData::default().bytes(reason.as_bytes()).after(ERROR_TEXT);
                RpcError::reverted(format!("execution reverted: {reason}"), &data)
            }
            error => read_error(error),
        })
    }
}

#[cfg(test)]
mod tests {
    use primitives::{Bytes, SecretKey, TxForm, UnsignedTransaction};

    use super::*;

    #[test]
    fn only_the_last_transactions_are_remembered() {
        let key = SecretKey::from_bytes(&[1; 32]).unwrap();
        let mut sent = SentTransactions::default();
        let transaction = |nonce, bytes| {
            let unsigned = UnsignedTransaction {
                tx_nonce: nonce,
                to: Some(key.address()),
                input: Bytes::from(vec![0; bytes]),
                ..Default::default()
            };
            unsigned.sign(&key, 1 << 50, TxForm::Classic)
        };
        let first = transaction(0, 10);
        sent.add(first.clone(), key.address());
        sent.add(first.clone(), key.address());
        assert_eq!((sent.order.len(), sent.by_hash.len(), sent.bytes), (1, 2, 10));
        for nonce in 1..=SENT_MAX as u64 {
            sent.add(transaction(nonce, 0), key.address());
        }
        assert!(!sent.by_hash.contains_key(&first.hash()));
        assert!(!sent.by_hash.contains_key(&first.ethereum_hash().unwrap()));
        assert_eq!((sent.order.len(), sent.bytes), (SENT_MAX, 0));
        sent.add(transaction(9999, SENT_BYTES_MAX), key.address());
        assert_eq!(sent.bytes, SENT_BYTES_MAX);
        sent.add(transaction(10_000, 1), key.address());
        assert_eq!((sent.order.len(), sent.bytes), (1, 1));
    }
}
