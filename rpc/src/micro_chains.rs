//! An application-chain node (SCS) and its MicroChains, as the methods see them.
//!
//! Both traits are implemented where an SCS is put together. Knows neither how a MicroChain works
//! nor where its data are.

use std::sync::Arc;

use chain::pool::PoolContent;
use primitives::{Address, B256, Bytes, Header, Log, Transaction, U256};

use crate::error::RpcResult;
use crate::health::Health;
use crate::node::Node;
use crate::objects::TransactionPlace;

/// An SCS as its methods see it.
pub trait MicroChains: Send + Sync + 'static {
    /// The id: the address of the SCS's own account.
    fn id(&self) -> Address;

    /// The folder of the data.
    fn data_directory(&self) -> &str;

    /// The MicroChains that this SCS serves, in a fixed order.
    fn chains(&self) -> Vec<Address>;

    /// A MicroChain of this program.
    fn chain(&self, address: &Address) -> Option<Arc<dyn ServedChain>>;

    /// A MicroChain as a node for the methods of wallets. It is made when it is first asked for.
    ///
    /// # Errors
    /// −32603 if it cannot be made.
    fn wallet_node(&self, address: &Address) -> RpcResult<Option<Arc<Node>>>;

    /// Takes a signed transaction of a MicroChain. Returns its hash.
    ///
    /// # Errors
    /// −32000 with the reason if the transaction is refused.
    fn submit(&self, raw: &[u8]) -> RpcResult<B256>;

    /// The state of the SCS for monitoring tools. The head is that of the base chain.
    ///
    /// # Errors
    /// If it cannot be read.
    fn health(&self) -> RpcResult<Health>;
}

/// A MicroChain. Reads go to its head.
pub trait ServedChain: Send + Sync + 'static {
    /// The number of the highest block.
    ///
    /// # Errors
    /// −32603 if the data cannot be read. This holds for all functions.
    fn head(&self) -> RpcResult<u64>;

    /// A block of the chain.
    ///
    /// # Errors
    /// As for [`Self::head`].
    fn block(&self, number: u64) -> RpcResult<Option<ServedBlock>>;

    /// Balance and number of transactions of an account.
    ///
    /// # Errors
    /// As for [`Self::head`].
    fn account(&self, account: &Address) -> RpcResult<ServedAccount>;

    /// The Dapps: `DappBase`, then those that are registered with it. Empty before `DappBase`.
    ///
    /// # Errors
    /// As for [`Self::head`].
    fn dapps(&self) -> RpcResult<Vec<Address>>;

    /// The state of the chain in its contract on the base chain. `None` if it was not read yet.
    ///
    /// # Errors
    /// As for [`Self::head`].
    fn info(&self) -> RpcResult<Option<ServedChainInfo>>;

    /// A transaction in a block.
    ///
    /// # Errors
    /// As for [`Self::head`].
    fn transaction(&self, hash: &B256) -> RpcResult<Option<ServedTransaction>>;

    /// The transaction of `sender` with this nonce, if it is in a block.
    ///
    /// # Errors
    /// As for [`Self::head`].
    fn transaction_of(&self, sender: &Address, tx_nonce: u64) -> RpcResult<Option<ServedTransaction>>;

    /// Executes a call on the state of the head. Nothing of it stays.
    ///
    /// # Errors
    /// −32000 if the call fails.
    fn call(&self, call: &DappCall) -> RpcResult<Bytes>;

    /// The transactions that wait.
    ///
    /// # Errors
    /// As for [`Self::head`].
    fn pool(&self) -> RpcResult<PoolContent>;

    /// The tokens that go between the MicroChain and the base chain for `user`, or for all users.
    /// Of the withdrawals that wait, only the `newest` are wanted.
    /// Waits for the base chain: it is called on threads for blocking work only.
    ///
    /// # Errors
    /// −32000 if the base chain cannot be read now.
    fn exchange(&self, user: Option<Address>, newest: u64) -> RpcResult<Exchange>;
}

/// A block of a MicroChain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedBlock {
    /// The hash.
    pub hash: B256,
    /// The header.
    pub header: Header,
    /// The hashes of the transactions, in order.
    pub transactions: Vec<B256>,
}

/// An account of a MicroChain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServedAccount {
    /// The balance in the smallest unit of the chain's token.
    pub balance: U256,
    /// The number of its transactions in blocks.
    pub tx_nonce: u64,
}

/// The state of a MicroChain in its contract on the base chain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServedChainInfo {
    /// The supply of tokens, in their smallest unit.
    pub balance: U256,
    /// The reward for a block, in sha.
    pub block_reward: U256,
    /// The bond that a member has at stake, in sha.
    pub bond_limit: U256,
    /// The owner.
    pub owner: Address,
    /// The members.
    pub members: Vec<Address>,
    /// The reward for a transaction, in sha.
    pub tx_reward: U256,
    /// The reward for relaying, in sha.
    pub via_reward: U256,
}

/// A transaction in a block, with what it did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedTransaction {
    /// The transaction.
    pub transaction: Transaction,
    /// The signer.
    pub sender: Address,
    /// The place of the transaction.
    pub place: TransactionPlace,
    /// Whether it succeeded.
    pub success: bool,
    /// The contract that it created.
    pub created: Option<Address>,
    /// The logs.
    pub logs: Vec<Log>,
    /// The index of the first log among the logs of the block.
    pub first_log: usize,
    /// The bloom filter of the logs.
    pub logs_bloom: primitives::Bloom,
    /// The output of the call, if it is known.
    pub output: Bytes,
}

/// A call of a Dapp.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DappCall {
    /// The caller; the zero address without one.
    pub from: Address,
    /// The Dapp; `None` for `DappBase`.
    pub dapp: Option<Address>,
    /// Selector and arguments.
    pub input: Bytes,
}

/// Money between a MicroChain and the base chain, each list with the oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exchange {
    /// Deposits that the MicroChain has credited. Only for one user.
    pub deposits: Vec<ExchangeEntry>,
    /// Deposits that wait for the MicroChain.
    pub depositing: Vec<ExchangeEntry>,
    /// Withdrawals that the base chain has paid. Only for one user.
    pub withdrawals: Vec<ExchangeEntry>,
    /// The newest withdrawals that wait for a flush.
    pub withdrawing: Vec<ExchangeEntry>,
    /// The number of all withdrawals that wait.
    pub withdrawing_count: u64,
}

/// A deposit or a withdrawal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExchangeEntry {
    /// The owner.
    pub user: Address,
    /// The amount of tokens, or of sha for what was paid.
    pub amount: U256,
    /// The time, in unix seconds.
    pub time: u64,
}

/// The context of the methods of an SCS.
pub struct ScsNode(pub Arc<dyn MicroChains>);

impl crate::health::Healthy for ScsNode {
    fn health(&self) -> RpcResult<Health> {
        self.0.health()
    }
}

impl std::fmt::Debug for ScsNode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ScsNode").field(&self.0.id()).finish()
    }
}
