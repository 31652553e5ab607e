//! The parts of this package, for tests, fuzzing and benchmarks of other packages.
//!
//! No program uses this module.

mod loopback_node;

pub use alloy_eip2124::{ForkHash, ForkId};

pub use crate::dial::{InboundGuard, InboundRefusal};
pub use crate::discovery::{
    Discovery, DiscoveryAction, DiscoveryDialect, DiscoveryEvent, DiscoveryHandle, DiscoveryPacket,
    DiscoverySettings, DiscoverySocket, PACKET_BYTES_MAX, PacketEndpoint, PacketError, PacketTail,
};
pub use crate::dns::{
    DNS_DEPTH_MAX, DNS_ENTRIES_MAX, DNS_ROOT_INTERVAL, DnsFound, DnsListWalk, DnsLookupError, DnsWalkError,
};
pub use crate::enr::{NodeClaims, NodeRecord, NodeRecordError};
pub use crate::entropy::{Entropy, EntropyError};
pub use crate::fork_id::fork_filter;
pub use crate::messages::snap::{AccountRangeRequest, SNAP_OFFER, SnapMessage};
pub use crate::messages::{
    ANNOUNCED_TRANSACTIONS_MAX, AnnouncedBlock, AnnouncedTransaction, ETH_VERSIONS, ETH_VERSIONS_OFFERED,
    HeadersRequest, HeadersStart, MC_VERSIONS, MESSAGE_TRANSACTIONS_MAX, PackedBlock, PeerBody, PeerMessage,
    PeerMessageError, PeerStatus, SNAP, WireProtocol,
};
pub use crate::moment::{Moment, SystemClock};
pub use crate::peers::{
    BLOCKS_WAITING_MAX, BlockFault, ChainAccess, ChainAccessError, ChainHead, ChainReader, HashedTransaction,
    HubSettings, ImportResult, JudgedTransactions, NewPeer, PeerAction, PeerHub, PeerId, PeerNews,
    RequestTicket, TransactionVerdict, WAITING_BYTES_MAX, WaitingUse, serve,
};
pub use crate::requests::{REQUEST_TIMEOUT_MAX, REQUEST_TIMEOUT_MIN};
pub use crate::rlpx::{
    Capability, ConnectionError, HandshakeForm, Hello, InboundMessage, OfferedCapability, PeerConnection,
    RlpxError, RlpxEvent, RlpxSession, RlpxSettings, SendError,
};
pub use crate::sockets::{InboundPeer, PeerListener, dial};
pub use crate::sync::{
    ChainRefusal, SyncActions, SyncJob, SyncOutcome, SyncTarget, Synchronizer, WINDOW_BLOCKS, WantedBody,
    run_job,
};
pub use loopback_node::{LoopbackNode, chain_config, contact_of, loopback_settings};
