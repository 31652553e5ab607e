//! The conversation between the synchronization and the handling of peers.
//!
//! The handler of the peers hands [`PeerNews`] to the synchronization, with the time; it returns
//! [`PeerOrder`]s. An order to ask names a ticket of the synchronization's choice. Exactly one news
//! follows for each ticket: the answer, that none came in time, or that the order was not carried
//! out. A peer that is gone ends its open tickets with [`PeerNews::Left`].
//!
//! The synchronization is a state machine like the others here: `handle(now, news)` and
//! `on_time(now)` return what to do, and `deadline()` says when `on_time` must be called. It keeps
//! its work on the chain apart from these orders: a job that is run elsewhere, and an outcome that
//! is handed back.

use std::net::IpAddr;
use std::time::Duration;

use primitives::{B256, B512, U256};

use crate::messages::snap::SnapMessage;
use crate::messages::{AnnouncedBlock, HeadersRequest, PeerMessage, WireProtocol};
use crate::rlpx::RlpxDisconnect;

/// The number of a connection to a peer. No number is used twice in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerId(pub u64);

/// A question of the synchronization, which its answer names again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestTicket(pub u64);

/// The facts about a peer once its Status fits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerFacts {
    /// The connection.
    pub peer: PeerId,
    /// The node.
    pub node: B512,
    /// The version of the connection. Before 63 there are no receipts.
    pub protocol: WireProtocol,
    /// The connection has `snap/1`, too.
    pub has_snap: bool,
    /// The hash of its head.
    pub head: B256,
    /// The total difficulty with its head, as the peer says.
    pub total_difficulty: U256,
    /// The address of the other side.
    pub address: IpAddr,
    /// A static or trusted node. What it claims is followed first.
    pub is_exempt: bool,
}

/// A question to a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerRequest {
    /// Headers; the answer is [`PeerMessage::BlockHeaders`].
    Headers(HeadersRequest),
    /// The bodies of these blocks; the answer is [`PeerMessage::BlockBodies`].
    Bodies(Vec<B256>),
    /// The receipts of these blocks; the answer is [`PeerMessage::Receipts`].
    Receipts(Vec<B256>),
    /// Parts of a state; the answer is of `snap/1`, too. The id of the message is chosen here.
    Snap(SnapMessage),
}

/// The reason why a peer loses its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerFault {
    /// The deed of the peer, for the log: what was got and what was expected.
    pub text: String,
    /// The reason that the peer is told.
    pub disconnect: RlpxDisconnect,
    /// The time for which the node may not come back. Zero: it may at once.
    pub banned: Duration,
}

/// An event of peers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerNews {
    /// A peer's Status fits. Always the first news of a peer.
    Joined(PeerFacts),
    /// A peer is gone, whoever ended the connection. Always the last news of a peer.
    Left(PeerId),
    /// A peer has sent a whole block that is no child of a stored block, or is far above the head,
    /// or for which there is no space. Others are imported without the synchronization.
    DistantBlock {
        /// The peer.
        peer: PeerId,
        /// The hash of the block. Its seal is not checked.
        hash: B256,
        /// The total difficulty with it, as the peer says.
        total_difficulty: U256,
    },
    /// A peer has another head now: it has sent a block or said that it has one.
    Head {
        /// The peer.
        peer: PeerId,
        /// The hash of its head, as far as it has told.
        head: B256,
        /// The total difficulty with it, as the peer says, or at least.
        total_difficulty: U256,
    },
    /// A peer has blocks that this node does not get without the synchronization: they are far
    /// above the head, or their parents are missing, or they could not be imported. How heavy they
    /// are is not known.
    DistantAnnouncement {
        /// The peer.
        peer: PeerId,
        /// The blocks.
        blocks: Vec<AnnouncedBlock>,
    },
    /// A peer has answered.
    Answer {
        /// The peer.
        peer: PeerId,
        /// The question.
        ticket: RequestTicket,
        /// The answer, of the kind that was asked for. Its content is not checked.
        answer: PeerMessage,
        /// The time that the answer took.
        took: Duration,
    },
    /// A peer did not answer in time. It is still a peer.
    Late {
        /// The peer.
        peer: PeerId,
        /// The question.
        ticket: RequestTicket,
    },
    /// The question was not asked: the peer is gone, or too many questions wait for it.
    NotAsked {
        /// The peer.
        peer: PeerId,
        /// The question.
        ticket: RequestTicket,
    },
}

/// An order of the synchronization about a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerOrder {
    /// Ask a peer.
    Ask {
        /// The peer.
        peer: PeerId,
        /// The ticket of the answer.
        ticket: RequestTicket,
        /// The question.
        request: PeerRequest,
    },
    /// End the connection with a peer. [`PeerNews::Left`] follows.
    Drop {
        /// The peer.
        peer: PeerId,
        /// The reason.
        fault: PeerFault,
    },
}
