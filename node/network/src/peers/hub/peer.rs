//! What is known of one peer.

use std::collections::BTreeSet;
use std::time::Duration;

use primitives::{B256, B512, U256, hex};

use super::super::interface::{PeerFacts, PeerId};
use super::super::known::KnownHashes;
use super::{NewPeer, RequestNote};
use crate::messages::WireProtocol;
use crate::requests::RequestBook;

/// Blocks that are remembered of a peer.
pub const KNOWN_BLOCKS_MAX: usize = 1024;
/// Transactions that are remembered of a peer.
pub const KNOWN_TRANSACTIONS_MAX: usize = 32_768;

/// Where the conversation with a peer is.
#[derive(Debug)]
enum PeerPhase {
    /// Its Status must come before this time.
    Greeting(Duration),
    Active {
        head: B256,
        total_difficulty: U256,
    },
}

/// A peer.
#[derive(Debug)]
pub(super) struct PeerState {
    pub(super) node: B512,
    pub(super) protocol: WireProtocol,
    pub(super) is_inbound: bool,
    pub(super) is_exempt: bool,
    phase: PeerPhase,
    /// The head of this node that the peer was told in the Status.
    pub(super) told_head: B256,
    pub(super) requests: RequestBook<RequestNote>,
    pub(super) known_blocks: KnownHashes,
    pub(super) known_transactions: KnownHashes,
    /// Late answers since the last one in time.
    pub(super) late: u32,
    /// Answers since the last one that was asked for.
    pub(super) unasked: u32,
    /// Announced blocks that it did not deliver, one after the other.
    pub(super) empty_announcements: u32,
    /// Transactions that it has announced and that are waited for, and some that came already.
    pub(super) wanted: BTreeSet<B256>,
    /// A request for transactions waits.
    pub(super) asks_transactions: bool,
}

impl PeerState {
    pub(super) fn new(new: &NewPeer, status_deadline: Duration, told_head: B256) -> Self {
        Self {
            node: new.node,
            protocol: new.protocol,
            is_inbound: new.is_inbound,
            is_exempt: new.is_exempt,
            phase: PeerPhase::Greeting(status_deadline),
            told_head,
            requests: RequestBook::new(new.protocol),
            known_blocks: KnownHashes::new(KNOWN_BLOCKS_MAX),
            known_transactions: KnownHashes::new(KNOWN_TRANSACTIONS_MAX),
            late: 0,
            unasked: 0,
            empty_announcements: 0,
            wanted: BTreeSet::new(),
            asks_transactions: false,
        }
    }

    /// Whether the Status fits.
    pub(super) const fn is_active(&self) -> bool {
        matches!(self.phase, PeerPhase::Active { .. })
    }

    pub(super) fn activate(&mut self, head: B256, total_difficulty: U256) {
        self.phase = PeerPhase::Active {
            head,
            total_difficulty,
        };
        self.known_blocks.add(head);
    }

    pub(super) const fn facts(&self, peer: PeerId) -> PeerFacts {
        let (head, total_difficulty) = match self.phase {
            PeerPhase::Active {
                head,
                total_difficulty,
            } => (head, total_difficulty),
            PeerPhase::Greeting(_) => (B256::ZERO, U256::ZERO),
        };
        PeerFacts {
            peer,
            node: self.node,
            protocol: self.protocol,
            head,
            total_difficulty,
        }
    }

    /// Notes another head, if it has more total difficulty. Returns whether it has.
    pub(super) fn raise_head(&mut self, new_head: B256, difficulty: U256) -> bool {
        match &mut self.phase {
            PeerPhase::Active {
                head,
                total_difficulty,
            } if difficulty > *total_difficulty => {
                (*head, *total_difficulty) = (new_head, difficulty);
                true
            }
            _ => false,
        }
    }

    /// When something is due.
    pub(super) fn deadline(&self) -> Option<Duration> {
        match self.phase {
            PeerPhase::Greeting(deadline) => Some(deadline),
            PeerPhase::Active { .. } => self.requests.deadline(),
        }
    }

    /// The first digits of the node's id, for the log.
    pub(super) fn short_id(&self) -> String {
        hex::encode(&self.node[..8])
    }
}
