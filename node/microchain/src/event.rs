//! The border of the engine: what comes in, and what goes out.
//!
//! The program around the engine feeds it with [`Event`]s, in any order, and carries out its
//! [`Action`]s. Both may get lost or come twice: the engine does the same work again when a later
//! event shows that it is not done.

use std::collections::BTreeSet;
use std::path::PathBuf;

use chain::import::StateRetention;
use primitives::{Address, B256, Bytes, SecretKey, Transaction, U256};

use crate::contract::{BaseCall, ContractState};

/// The properties of a MicroChain, for all its members alike. Block 0 follows from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MicroChainSetup {
    /// The address of the chain base.
    pub address: Address,
    /// The owner that the chain base names.
    pub owner: Address,
    /// BALANCE of the chain base: all tokens, in units of 10^-18.
    pub supply: U256,
    /// Seconds from one slot to the next, 1 to [`PERIOD_SECS_MAX`].
    pub period_secs: u64,
    /// The chain id in signatures: that of the base chain.
    pub chain_id: u64,
    /// The least withdrawal, in units of 10^-18: a rule of the chain, which follows from the chain
    /// base. A withdrawal of nothing is refused in any case.
    pub withdrawal_min: U256,
}

/// The longest time between two slots.
pub const PERIOD_SECS_MAX: u64 = 3600;

/// The options of an engine.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// The folder of this MicroChain's store. It is made if it does not exist.
    pub directory: PathBuf,
    /// The key of the SCS. Its address is the SCS id.
    pub key: SecretKey,
    /// Memory for cached pages of the store, in bytes.
    pub cache_bytes: usize,
    /// The base blocks that must follow a proposal and its uploads before this SCS votes for it.
    pub confirmations: u64,
    /// The `DappBase`s whose withdrawals this member votes for.
    pub dapp_bases: DappBaseRules,
    /// The past states that are kept. What the next flush needs is kept in any case.
    pub states: StateRetention,
    /// The number of newest blocks that are kept; `None` for all. What the next flush needs is kept
    /// in any case.
    pub blocks: Option<u64>,
}

/// The `DappBase`s whose withdrawals a member votes for. Known ones are always among them
/// ([`crate::codes`]).
#[derive(Clone, Debug, Default)]
pub struct DappBaseRules {
    /// Any `DappBase`: its owner can then take all that the chain base holds.
    pub any: bool,
    /// `DappBase`s whose code at their address has one of these hashes
    /// ([`crate::codes::code_hash`]).
    pub codes: BTreeSet<B256>,
}

/// The base blocks that must follow a proposal and its uploads before a member votes for it, unless
/// the options say otherwise (docs/confirmations.md).
pub const CONFIRMATIONS_DEFAULT: u64 = 12;

/// The most that the options may ask for: half of a turn. With more, no flush could pay anybody.
pub const CONFIRMATIONS_MAX: u64 = 24;

/// Memory for cached pages of one MicroChain's store unless the options say otherwise: 16 MiB.
pub const CACHE_BYTES_DEFAULT: usize = 16 << 20;

/// An event for the engine.
#[derive(Clone, Debug)]
pub enum Event {
    /// Time has passed. To be given at least at each moment that
    /// [`MemberEngine::next_tick`](crate::MemberEngine::next_tick) names.
    Tick,
    /// The chain base as it is after a base block: at each new head, after each connection, and
    /// whenever a notice says that something has changed.
    Contract(Box<ContractState>),
    /// A message of another SCS.
    Message(MemberMessage),
    /// A flagged transaction that the VNODE pushed, or any that a client sent to this SCS. Those
    /// of wallets, which no VNODE relays, go to the other SCSs at once.
    Transaction(Box<Transaction>),
    /// The connection to the VNODE is there again: blocks and state are sent once more.
    Connected,
}

/// An act of the engine. Acts are done in the given order. Only the engine repeats one that fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// A message for other SCSs.
    Send(MemberMessage),
    /// A transaction of this SCS to the chain base.
    Call(BaseCall),
    /// The transaction of this call must not get into a block any more: as long as it is in none,
    /// it is to be replaced by one without effect, with the same nonce. A vote is withdrawn when
    /// the proposal that it is for is not what it was.
    Withdraw(BaseCall),
}

/// A message between SCSs (docs/microchain-design.md, 7), without what the service around it adds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberMessage {
    /// The status of the broadcast. The engine ignores a status that it does not know.
    pub status: i32,
    /// The sender, by its own account. Nothing is proved by it; answers go there.
    pub sender: Address,
    /// The one SCS that gets it; `None` for all. Statuses 1 and 2 always have one.
    pub receiver: Option<Address>,
    /// The field msghash.
    pub payload: Bytes,
}
