//! The actions that the handling of peers asks of its caller, and its counters.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use primitives::{B256, Block, Header, Transaction};

use super::interface::{PeerId, PeerNews};
use super::offered::{HashedTransaction, TransactionPack};
use crate::messages::{ApplicationChainMessage, PackedBlock, PeerMessage};
use crate::rlpx::RlpxDisconnect;

/// An action for the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerAction {
    /// Send a message to these peers.
    Send {
        /// The receivers.
        to: Vec<PeerId>,
        /// The message.
        message: PeerMessage,
    },
    /// Tell a peer why the connection ends, and end it. The hub has forgotten the peer.
    Disconnect {
        /// The peer.
        peer: PeerId,
        /// The reason that the peer is told.
        reason: RlpxDisconnect,
    },
    /// Answer a request, with [`super::serve::answer`].
    Serve {
        /// The peer that asks.
        peer: PeerId,
        /// The request.
        request: PeerMessage,
    },
    /// Hash the transactions of a pack, part by part, and hand each part to
    /// `transactions_hashed`. After the last one, or if the pack is dropped, call
    /// `pack_done`.
    Take {
        /// The peer that sent them.
        peer: PeerId,
        /// The transactions.
        pack: TransactionPack,
    },
    /// Offer transactions to the pool ([`super::ChainAccess::submit`]), and tell
    /// `transactions_judged` how that went. Those that the pool takes come back
    /// by `pool_has`.
    Submit {
        /// The peer that sent them.
        peer: PeerId,
        /// The transactions.
        transactions: Vec<HashedTransaction>,
    },
    /// Take no transactions of the peer for a while.
    Pause {
        /// The peer.
        peer: PeerId,
        /// The length of the pause.
        time: Duration,
    },
    /// Compute the key of a message of an application chain, and hand both to
    /// `application_message_came`.
    Recognize {
        /// The peer that sent it.
        peer: PeerId,
        /// The message.
        message: Box<ApplicationChainMessage>,
    },
    /// Check a header ([`super::ChainAccess::check_header`]) and hand the result to
    /// [`super::PeerHub::header_checked`].
    CheckHeader {
        /// The peer that sent it.
        from: PeerId,
        /// The hash of the block.
        hash: B256,
        /// The header.
        header: Arc<Header>,
    },
    /// Check a block ([`super::ChainAccess::check`]) and hand the result to
    /// [`super::PeerHub::checked`]. At most `CHECKS_MAX` checks run, of headers and
    /// blocks.
    Check {
        /// The peer that sent it.
        from: PeerId,
        /// The hash of the block.
        hash: B256,
        /// The block.
        block: Arc<PackedBlock>,
    },
    /// Import a block and hand the result to [`super::PeerHub::imported`].
    Import {
        /// The hash of the block.
        hash: B256,
        /// The block.
        block: Box<Block>,
    },
    /// Hand the news to the synchronization.
    News(PeerNews),
    /// A message of an application chain that was not seen before. It is passed on to peers
    /// already.
    ApplicationChain(Box<ApplicationChainMessage>),
    /// A transaction for an application chain that was not seen before. If its signature is good,
    /// [`super::PeerHub::relay_transaction`] passes it on.
    ForApplicationChain(Box<Transaction>),
}

/// Counts since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerCounters {
    /// Peers whose Status fitted.
    pub joined: u64,
    /// Connections that ended after they were admitted, by the number of the reason that this node
    /// gave; 256 if the other side ended it.
    pub ended: BTreeMap<u16, u64>,
    /// Whole blocks that peers have sent.
    pub blocks_received: u64,
    /// Blocks of peers that were imported outside of the synchronization.
    pub blocks_imported: u64,
    /// Blocks that were fetched because a peer had announced them.
    pub blocks_fetched: u64,
    /// Transactions that peers have sent.
    pub transactions_received: u64,
    /// Requests of peers that were answered.
    pub requests: u64,
    /// Answers of peers that came too late.
    pub late_answers: u64,
    /// Peers that lost their place by their own fault.
    pub faults: u64,
}

/// The number in [`PeerCounters::ended`] for connections that the other side ended.
pub const ENDED_BY_OTHER: u16 = 256;
