//! The state of one peer.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use primitives::{B256, B512, U256, hex};

use super::super::interface::{PeerFacts, PeerId};
use super::super::known::KnownHashes;
use super::super::share::{ShareHolder, UsedShare};
use super::transactions::TransactionRecord;
use super::{NewPeer, RequestNote, STATUS_TIMEOUT};
use crate::messages::WireProtocol;
use crate::requests::RequestBook;

/// Blocks that are remembered of a peer.
pub(crate) const KNOWN_BLOCKS_MAX: usize = 1024;
/// Transactions that are remembered of a peer.
pub(crate) const KNOWN_TRANSACTIONS_MAX: usize = 32_768;

/// The figures of a peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeerFigures {
    /// The usual time from a request to its answer. `None` before the first answer.
    pub round_trip: Option<Duration>,
    /// Requests that it did not answer in time.
    pub late_answers: u64,
    /// Faults that did not cost the peer its place: answers that nobody has asked for, announced
    /// blocks and transactions that it did not deliver, blocks too far ahead of the clock, wrong
    /// bodies.
    pub faults: u64,
}

/// The stage of the conversation with a peer.
#[derive(Debug)]
enum PeerPhase {
    /// The Status must come before this time.
    Greeting(Duration),
    Active {
        head: B256,
        total_difficulty: U256,
    },
}

#[derive(Debug)]
pub(super) struct PeerState {
    pub(super) node: B512,
    address: IpAddr,
    pub(super) protocol: WireProtocol,
    pub(super) has_snap: bool,
    pub(super) is_inbound: bool,
    pub(super) is_exempt: bool,
    /// The time at which it got its place.
    pub(super) began: Duration,
    phase: PeerPhase,
    /// The head of this node that the peer was told in the Status.
    pub(super) told_head: B256,
    pub(super) requests: RequestBook<RequestNote>,
    pub(super) known_blocks: KnownHashes,
    pub(super) known_transactions: KnownHashes,
    /// Late answers since the last one in time.
    pub(super) late: u32,
    /// Late answers, all of them.
    pub(super) late_answers: u64,
    /// See [`PeerFigures::faults`].
    pub(super) faults: u64,
    /// Answers since the last one that was asked for.
    pub(super) unasked: u32,
    /// Blocks that it has announced, and for which it was not asked yet.
    pub(super) announcements: usize,
    /// Blocks too far ahead of the clock, one after the other.
    pub(super) blocks_ahead: u32,
    /// Bodies that were not their header's, one after the other.
    pub(super) wrong_bodies: u32,
    /// Announced blocks that it did not deliver, one after the other.
    pub(super) empty_announcements: u32,
    /// Transactions that it has announced and that are waited for, and some that came already.
    pub(super) wanted: BTreeSet<B256>,
    /// A request for transactions waits, or its answer is worked on.
    pub(super) asks_transactions: bool,
    /// Answers in a row without the transactions that the peer had announced.
    pub(super) empty_answers: u32,
    /// The pool's verdicts on its transactions.
    pub(super) transaction_record: TransactionRecord,
    /// Hashes in announcements.
    pub(super) announced_hashes: UsedShare,
}

impl PeerState {
    pub(super) fn new(new: &NewPeer, began: Duration, told_head: B256) -> Self {
        Self {
            node: new.node,
            address: new.address,
            protocol: new.protocol,
            has_snap: new.has_snap,
            is_inbound: new.is_inbound,
            is_exempt: new.is_exempt,
            began,
            phase: PeerPhase::Greeting(began + STATUS_TIMEOUT),
            told_head,
            requests: RequestBook::new(new.protocol),
            known_blocks: KnownHashes::new(KNOWN_BLOCKS_MAX),
            known_transactions: KnownHashes::new(KNOWN_TRANSACTIONS_MAX),
            late: 0,
            late_answers: 0,
            faults: 0,
            unasked: 0,
            announcements: 0,
            blocks_ahead: 0,
            wrong_bodies: 0,
            empty_announcements: 0,
            wanted: BTreeSet::new(),
            asks_transactions: false,
            empty_answers: 0,
            transaction_record: TransactionRecord::default(),
            announced_hashes: UsedShare::default(),
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
            has_snap: self.has_snap,
            head,
            total_difficulty,
            address: self.address,
            is_exempt: self.is_exempt,
        }
    }

    /// The holder of the share that its work uses up.
    pub(super) const fn share_holder(&self) -> ShareHolder {
        ShareHolder::of(self.node, self.address, self.is_exempt)
    }

    pub(super) const fn figures(&self) -> PeerFigures {
        PeerFigures {
            round_trip: self.requests.round_trip(),
            late_answers: self.late_answers,
            faults: self.faults,
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

    /// The time at which something is due.
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
