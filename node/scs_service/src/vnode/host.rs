//! The node, as the service asks it.
//!
//! All functions of [`ScsHost`] may read the disk or run code. The service calls them on threads
//! for blocking work, except for those that say otherwise.

use primitives::{Address, B256, Bytes, Header, U256};

use super::filter::ScsRole;
use crate::message::ScsId;
use crate::proto::ScsPushMsg;
use crate::witness::WitnessWish;

/// The reason why the node does not answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// The request is refused. The text is for whoever sent it.
    #[error("{0}")]
    Refused(String),
    /// The answer would take too much time or memory. The text is for whoever asked.
    #[error("{0}")]
    TooMuch(String),
    /// The node failed.
    #[error("{0}")]
    Failed(String),
}

/// The answer of a contract that is asked for a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoleAnswer {
    /// The role. An account without code gives [`ScsRole::None`].
    Role(ScsRole),
    /// The call failed.
    CallFailed,
}

/// A notice that a contract sent through 0x0d.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostNotice {
    /// The hash of the transaction.
    pub transaction: B256,
    /// The contract.
    pub caller: Address,
    /// The input of 0x0d.
    pub input: Bytes,
}

/// The notices of a canonical block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockNotices {
    /// The hash of the block.
    pub hash: B256,
    /// The notices in their order.
    pub notices: Vec<HostNotice>,
}

/// An account of the base chain at the head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostAccount {
    /// The balance in sha.
    pub balance: U256,
    /// The number of transactions sent, those that are pending in the pool included.
    pub tx_nonce: u64,
    /// The hash of the code; zero if the account does not exist.
    pub code_hash: B256,
}

/// An account of the base chain that exists, without its storage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostContract {
    /// The balance in sha.
    pub balance: U256,
    /// The number of transactions sent or contracts created.
    pub tx_nonce: u64,
    /// The root of the storage.
    pub storage_root: B256,
    /// The hash of the code.
    pub code_hash: B256,
    /// The code.
    pub code: Bytes,
}

/// An account at one head, with its storage.
pub trait ContractView {
    /// The account.
    fn contract(&self) -> &HostContract;

    /// The value of a slot.
    ///
    /// # Errors
    /// [`HostError`] if the node fails.
    fn slot(&self, slot: &U256) -> Result<U256, HostError>;

    /// Calls `visit` with the slots that are not zero and their values, until it returns `false`.
    /// Of some slots only the hash may be known after a state was fetched: they come without a
    /// number.
    ///
    /// # Errors
    /// [`HostError`] if the node fails.
    fn visit_slots(&self, visit: &mut dyn FnMut(Option<U256>, U256) -> bool) -> Result<(), HostError>;
}

/// A signed transaction for a MicroChain, whose signature was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectCall {
    /// The hash of the transaction.
    pub hash: B256,
    /// The signer.
    pub sender: Address,
    /// The MicroChain.
    pub chain: Address,
    /// The RLP of the transaction with twelve fields.
    pub rlp: Bytes,
}

/// The fate of a transaction that an SCS has sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AcceptedTransaction {
    /// The transaction is in the pool of the base chain.
    Pooled,
    /// The transaction is for a MicroChain. The service takes it on.
    ForChain(DirectCall),
}

/// The node behind the service.
pub trait ScsHost: Send + Sync + 'static {
    /// The chain id of the base chain. Called on network threads: it must not wait.
    fn chain_id(&self) -> u64;

    /// Whether the node can serve. Called on network threads: it must not wait.
    fn is_ready(&self) -> bool {
        true
    }

    /// Whether the base chain has MicroChains at its head. Called on network threads: it must not
    /// wait.
    fn has_micro_chains(&self) -> bool;

    /// Whether the node is far behind the network. Then notices are old, and are not pushed.
    fn is_syncing(&self) -> bool {
        false
    }

    /// The hash of the canonical block `number`; `None` above the head.
    ///
    /// # Errors
    /// [`HostError`] if the node fails.
    fn canonical_hash(&self, number: u64) -> Result<Option<B256>, HostError>;

    /// The notices of the canonical block `number`; `None` above the head.
    ///
    /// # Errors
    /// [`HostError`] if the node fails.
    fn notices(&self, number: u64) -> Result<Option<BlockNotices>, HostError>;

    /// The role of an SCS in a MicroChain: what the contract `chain` answers to `getSCSRole` at the
    /// head.
    ///
    /// # Errors
    /// [`HostError`] if the node fails, or the call takes too long.
    fn role(&self, chain: &Address, id: &ScsId) -> Result<RoleAnswer, HostError>;

    /// An account at the head.
    ///
    /// # Errors
    /// [`HostError`] if the node fails.
    fn account(&self, address: &Address) -> Result<HostAccount, HostError>;

    /// An account at the head with its storage; `None` if it does not exist.
    ///
    /// # Errors
    /// [`HostError`] if the node fails.
    fn contract(&self, address: &Address) -> Result<Option<Box<dyn ContractView + '_>>, HostError>;

    /// Calls a contract at the head, in its own name, without value. The result is what it
    /// returned; if it reverted, the data of the revert, and if it failed otherwise, nothing.
    /// Without a contract the input is run as the code that creates one.
    ///
    /// # Errors
    /// [`HostError`] if the node fails, or the call takes too long.
    fn call(&self, contract: Option<&Address>, input: Bytes) -> Result<Bytes, HostError>;

    /// The headers of at most `count` canonical blocks from block `number` on.
    ///
    /// # Errors
    /// [`HostError`] if the node fails.
    fn headers(&self, number: u64, count: u64) -> Result<Vec<Header>, HostError>;

    /// The proof of a part of the state after a canonical block: the RLP of a witness
    /// (docs/scs-wire.md, 9). `None` if the block is not canonical, or if the nodes of its state
    /// are not kept.
    ///
    /// # Errors
    /// [`HostError`] if the node fails, or the call takes too long.
    fn witness(&self, wish: &WitnessWish) -> Result<Option<Bytes>, HostError>;

    /// Puts a signed transaction into the pool, or reads one that is for a MicroChain.
    ///
    /// # Errors
    /// [`HostError`] if the transaction is refused, with the text of the pool.
    fn submit(&self, raw: &[u8]) -> Result<AcceptedTransaction, HostError>;

    /// Passes a broadcast of an SCS on to the peers of this node. `hash` is that of
    /// [`crate::message::message_hash`]: a peer gets a message once. Called on network threads: it
    /// must not wait.
    fn relay_broadcast(&self, message: &ScsPushMsg, hash: &B256) {
        let _ = (message, hash);
    }

    /// Passes a transaction for a MicroChain on to the peers of this node. It must not wait.
    fn relay_call(&self, call: &DirectCall) {
        let _ = call;
    }
}
