//! The parts of a MicroChain in place of those of a base-chain node, for the methods of wallets:
//! its pool, and who may call what.

use chain::call::CallRequest;
use chain::pool::{PendingHashes, PoolContent, PooledTransaction};
use primitives::{Address, B256, Transaction};

use crate::control::{ControlError, MinerControl};
use crate::error::RpcResult;
use crate::facts::NodeFacts;

/// The pool of a MicroChain, in place of the pool of a base chain.
pub trait ApplicationPool: Send + Sync {
    /// Takes a signed transaction, flagged or a wallet's.
    ///
    /// # Errors
    /// −32000 with the reason if it is refused.
    fn submit(&self, transaction: Transaction) -> RpcResult<()>;

    /// All transactions that wait.
    fn content(&self) -> PoolContent;

    /// A transaction that waits, by either of its hashes.
    fn get(&self, hash: &B256) -> Option<PooledTransaction>;

    /// The nonce of the next transaction of an account that has transactions in the pool.
    fn next_nonce(&self, account: &Address) -> Option<u64>;

    /// The cursor of the next transaction that becomes pending.
    fn pending_cursor(&self) -> u64;

    /// Hashes of the transactions that became pending since `cursor`, at most `max`. Each
    /// transaction comes once.
    fn pending_since(&self, cursor: u64, max: usize) -> PendingHashes;

    /// Checks that a transaction with the content of this call would be allowed.
    ///
    /// # Errors
    /// −32000 with the reason if it would fail without being run.
    fn check_call(&self, request: &CallRequest) -> RpcResult<()>;
}

/// The facts of a MicroChain that do not come from its blocks.
pub(crate) struct WalletFacts {
    pub(crate) client_version: String,
    pub(crate) chain_id: u64,
}

impl NodeFacts for WalletFacts {
    fn client_version(&self) -> &str {
        &self.client_version
    }

    fn network_id(&self) -> u64 {
        self.chain_id
    }

    fn is_listening(&self) -> bool {
        true
    }

    fn peer_count(&self) -> u64 {
        0
    }
}

/// A MicroChain has no search for seals.
pub(crate) struct NoSearch;

impl MinerControl for NoSearch {
    fn hashrate(&self) -> f64 {
        0.0
    }

    fn start(&self, _: Option<usize>) -> Result<(), ControlError> {
        Err("blocks of a MicroChain have no seals".into())
    }

    fn stop(&self) {}
}
