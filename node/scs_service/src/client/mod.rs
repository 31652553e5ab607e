//! The SCS's side of the service: a connection to a VNODE that is made again whenever it breaks.
//!
//! | question | module |
//! |---|---|
//! | how is a connection made? | `dial` |
//! | what happens on it? | `link` |
//! | what do the unary calls return? | `calls` |
//! | how is an SCS asked directly? | `sync` |
//! | what can go wrong? | `error` |
//!
//! A VNODE may push a message twice or never. So a message only says that something may have
//! changed, and the SCS then reads the state of the contract. [`ScsEvent::Disconnected`] says that
//! messages may be missing, and [`ScsEvent::Connected`] that it is time to read everything again.

mod calls;
mod dial;
mod error;
mod link;
mod sync;

pub use calls::{AccountSummary, ContractSummary, UNKNOWN_CALL};
pub use dial::{ClientCertificate, ClientTls};
pub use error::{AnswerError, AuthorityError, AuthorityFault, ScsClientError, ScsLinkError};
pub use sync::ask_for_block;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use primitives::{Address, B256, Bytes, SecretKey};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use crate::message::payload::Handshake;
use crate::message::{ControlStatus, ScsId, ScsMessage};
use crate::proto::ScsPushMsg;
use crate::wire::{MESSAGE_LEN_MAX, RequestSender};

/// Default for the longest pause before the connection is made again.
pub(crate) const RECONNECT_MAX: Duration = Duration::from_secs(5);
/// The pause before the first attempt to make the connection again.
const RECONNECT_MIN: Duration = Duration::from_millis(200);
/// Default for the longest time between two pings: some blocks of the public network.
const PING_WAIT_MAX: Duration = Duration::from_secs(60);
/// Events that wait to be handled. If more come, no more is read from the VNODE.
const EVENTS_MAX: usize = 4096;
/// Broadcasts that wait to be sent. If more come, [`ScsClient::broadcast`] waits. Few, because
/// who sends decides what goes first, and how many bytes may wait.
const BROADCASTS_MAX: usize = 4;

/// The settings of a connection.
#[derive(Clone, Debug)]
pub struct ScsClientConfig {
    /// The VNODE: `host:port`.
    pub address: String,
    /// The certificate of the VNODE; `None` for a connection in plain text.
    pub tls: Option<ClientTls>,
    /// The id of the SCS.
    pub id: ScsId,
    /// The key of the id, with which it is proven to a VNODE of ours; `None` to prove nothing.
    pub key: Option<SecretKey>,
    /// The announcement of the SCS about itself.
    pub handshake: Handshake,
    /// The longest pause before the connection is made again.
    pub reconnect_max: Duration,
    /// The longest time for a call, and for the answer to the handshake.
    pub call_timeout: Duration,
    /// The time after which a silent VNODE is asked for a sign of life, and the longest time for
    /// the answer.
    pub keep_alive: Duration,
    /// The longest time between two pings of the VNODE. If none comes, the connection is made
    /// again: somebody else may have the place of this SCS. A VNODE of ours pings every 10
    /// seconds, one of the public network with each block.
    pub ping_wait_max: Duration,
    /// Most bytes of a message, in both directions.
    pub message_len_max: usize,
}

impl ScsClientConfig {
    /// The usual settings for the SCS `id` at the VNODE `address` of a chain.
    pub fn new(address: impl Into<String>, id: ScsId, chain_id: u64) -> Self {
        Self {
            address: address.into(),
            tls: None,
            id,
            key: None,
            handshake: Handshake {
                chain_id,
                ..Handshake::default()
            },
            reconnect_max: RECONNECT_MAX,
            call_timeout: Duration::from_secs(15),
            keep_alive: Duration::from_secs(10),
            ping_wait_max: PING_WAIT_MAX,
            message_len_max: MESSAGE_LEN_MAX,
        }
    }
}

/// The events that an SCS hears.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScsEvent {
    /// The VNODE has taken the handshake. Messages may have been missed before.
    Connected {
        /// The address that the VNODE wants to be paid at for relaying.
        beneficiary: Address,
    },
    /// The connection broke, or cannot be made. Told once for each reason until there is a
    /// connection again. Messages on their way, in both directions, may be lost.
    Disconnected {
        /// The reason.
        reason: String,
    },
    /// The head of the base chain has risen.
    Head(u64),
    /// A contract has sent a notice.
    Notice {
        /// The MicroChain.
        chain: Address,
        /// The sort of notice.
        status: ControlStatus,
        /// The transaction in which it was sent.
        transaction: B256,
    },
    /// A transaction for a MicroChain.
    DirectCall {
        /// The MicroChain.
        chain: Address,
        /// The signer, as the VNODE says.
        sender: Address,
        /// The RLP of the transaction with twelve fields.
        transaction: Bytes,
    },
    /// A message of another SCS.
    Broadcast(ScsMessage),
    /// A message that this program does not understand.
    Ignored {
        /// The reason.
        reason: String,
    },
}

/// A client of a VNODE. Clones are the same. The connection ends with the last one.
#[derive(Clone, Debug)]
pub struct ScsClient(Arc<ClientInner>);

#[derive(Debug)]
struct ClientInner {
    shared: Arc<ClientShared>,
    task: AbortHandle,
}

impl Drop for ClientInner {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The state that the client and its task share.
#[derive(Debug)]
struct ClientShared {
    config: ScsClientConfig,
    /// The connection, after the handshake.
    link: RwLock<Option<Link>>,
}

/// A connection on which the handshake was taken.
#[derive(Clone, Debug)]
struct Link {
    sender: RequestSender,
    broadcasts: mpsc::Sender<ScsPushMsg>,
}

impl ScsClient {
    /// Connects in the background, and again whenever the connection breaks. Returns the client
    /// and what it hears. Must be called within a tokio runtime.
    pub fn start(config: ScsClientConfig) -> (Self, mpsc::Receiver<ScsEvent>) {
        let (events, heard) = mpsc::channel(EVENTS_MAX);
        let shared = Arc::new(ClientShared {
            config,
            link: RwLock::default(),
        });
        let task = tokio::spawn(link::stay_connected(Arc::clone(&shared), events));
        let inner = ClientInner {
            shared,
            task: task.abort_handle(),
        };
        (Self(Arc::new(inner)), heard)
    }

    /// Whether the handshake was taken and the connection stands, as far as is known.
    pub fn is_connected(&self) -> bool {
        self.0.shared.link.read().is_some()
    }

    /// Sends a message to other SCSs, over a stream of its own. A VNODE of the public network does
    /// not read the stream of the handshake any more.
    ///
    /// # Errors
    /// [`ScsClientError`] if the message is malformed, or there is no connection. There is no
    /// receipt: a message is lost if the connection breaks before it arrives.
    pub async fn broadcast(&self, message: &ScsMessage) -> Result<(), ScsClientError> {
        message.route()?;
        let wire = message.encode();
        ScsMessage::decode(&wire)?;
        let broadcasts = self.link()?.broadcasts;
        let sent = broadcasts.send(wire).await;
        sent.map_err(|_| ScsClientError::NotConnected)
    }

    fn link(&self) -> Result<Link, ScsClientError> {
        self.0
            .shared
            .link
            .read()
            .clone()
            .ok_or(ScsClientError::NotConnected)
    }

    fn config(&self) -> &ScsClientConfig {
        &self.0.shared.config
    }
}
