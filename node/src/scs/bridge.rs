//! Between peers and the servers of application chains: messages of servers (code 31 of `mc`), and
//! transactions with a sharding flag.
//!
//! Messages of peers wait in a queue, bounded in number and in bytes, because peers must not
//! wait for it. A node without the service passes transactions on, too, once it has checked their
//! signatures.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use chain::Chain;
use network::{ApplicationChainMessage, ApplicationChains, NetworkHandle};
use primitives::Transaction;
use scs_service::proto::ScsPushMsg;
use scs_service::vnode::ScsService;
use tokio::sync::mpsc;

use super::host::direct_call;

/// Messages and transactions of peers that wait. More are dropped.
const WAITING_MAX: usize = 256;
/// Bytes of messages and transactions of peers that wait. More are dropped.
const WAITING_BYTES_MAX: usize = 32 << 20;

enum FromPeer {
    Message(Box<ScsPushMsg>),
    Transaction(Box<Transaction>),
}

/// Bytes of what waits, until this is dropped.
struct WaitingBytes {
    bytes: usize,
    all: Arc<AtomicUsize>,
}

impl Drop for WaitingBytes {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

struct PeerInbox {
    sender: mpsc::Sender<(FromPeer, WaitingBytes)>,
    waiting: Arc<AtomicUsize>,
    /// Without the service nobody takes messages.
    has_service: bool,
}

impl PeerInbox {
    fn new(has_service: bool) -> (Self, mpsc::Receiver<(FromPeer, WaitingBytes)>) {
        let (sender, inbox) = mpsc::channel(WAITING_MAX);
        let own = Self {
            sender,
            waiting: Arc::default(),
            has_service,
        };
        (own, inbox)
    }

    /// Drops it if too much waits.
    fn put(&self, bytes: usize, item: impl FnOnce() -> FromPeer) {
        let before = self.waiting.fetch_add(bytes, Ordering::AcqRel);
        let waiting = WaitingBytes {
            bytes,
            all: Arc::clone(&self.waiting),
        };
        if before + bytes <= WAITING_BYTES_MAX {
            let _ = self.sender.try_send((item(), waiting));
        }
    }
}

impl ApplicationChains for PeerInbox {
    fn message(&self, message: &ApplicationChainMessage) {
        if self.has_service {
            self.put(message.length(), || FromPeer::Message(Box::new(pushed(message))));
        }
    }

    fn transaction(&self, transaction: &Transaction) {
        self.put(transaction.encoded_length(), || {
            FromPeer::Transaction(Box::new(transaction.clone()))
        });
    }
}

/// Connects peers with the service, if there is one.
pub(crate) fn connect(network: &NetworkHandle, chain: &Chain, service: Option<ScsService>) {
    let (own, inbox) = PeerInbox::new(service.is_some());
    network.connect_application_chains(Arc::new(own));
    tokio::spawn(take(network.clone(), chain.clone(), service, inbox));
}

async fn take(
    network: NetworkHandle,
    chain: Chain,
    service: Option<ScsService>,
    mut inbox: mpsc::Receiver<(FromPeer, WaitingBytes)>,
) {
    while let Some((item, _waiting)) = inbox.recv().await {
        match item {
            FromPeer::Message(message) => {
                let Some(service) = &service else { continue };
                if let Err(error) = service.push_from_peer(&message).await {
                    tracing::debug!(%error, "a message of a peer is not pushed to SCS servers");
                }
            }
            FromPeer::Transaction(transaction) => {
                let (network, chain, service) = (network.clone(), chain.clone(), service.clone());
                // Checking a signature takes a part of a millisecond, and reads the pool.
                let checked = tokio::task::spawn_blocking(move || {
                    let call = direct_call(&chain, &transaction).map_err(|error| error.to_string())?;
                    match service {
                        // The service passes it on to peers, too.
                        Some(service) => service.submit(call).map(drop).map_err(|error| error.to_string()),
                        None => {
                            network.relay_transaction(&transaction);
                            Ok(())
                        }
                    }
                });
                if let Ok(Err(error)) = checked.await {
                    tracing::debug!(
                        error,
                        "a transaction of a peer for an application chain is not taken"
                    );
                }
            }
        }
    }
}

/// A message of a peer as the service has it.
fn pushed(message: &ApplicationChainMessage) -> ScsPushMsg {
    let ApplicationChainMessage {
        request_id,
        timestamp,
        is_request,
        kind,
        status,
        scs_id,
        subchain_id,
        sender,
        receiver,
        content,
    } = message;
    let bytes = |bytes: &primitives::Bytes| bytes.0.clone();
    ScsPushMsg {
        requestid: bytes(request_id),
        timestamp: bytes(timestamp),
        requestflag: *is_request,
        r#type: bytes(kind),
        status: bytes(status),
        scsid: bytes(scs_id),
        subchainid: bytes(subchain_id),
        sender: bytes(sender),
        receiver: bytes(receiver),
        msghash: bytes(content),
    }
}

/// A message of the service as peers get it.
pub(super) fn for_peers(message: &ScsPushMsg) -> ApplicationChainMessage {
    ApplicationChainMessage {
        request_id: message.requestid.clone().into(),
        timestamp: message.timestamp.clone().into(),
        is_request: message.requestflag,
        kind: message.r#type.clone().into(),
        status: message.status.clone().into(),
        scs_id: message.scsid.clone().into(),
        subchain_id: message.subchainid.clone().into(),
        sender: message.sender.clone().into(),
        receiver: message.receiver.clone().into(),
        content: message.msghash.clone().into(),
    }
}

#[cfg(test)]
mod tests {
    use scs_service::message::message_hash;

    use super::*;

    #[test]
    fn what_waits_is_bounded_in_bytes() {
        let (peers, mut inbox) = PeerInbox::new(true);
        let large = ApplicationChainMessage {
            content: vec![7; 4 << 20].into(),
            ..ApplicationChainMessage::default()
        };
        for _ in 0..WAITING_MAX {
            peers.message(&large);
        }
        assert_eq!(inbox.len(), WAITING_BYTES_MAX / large.length());
        assert_eq!(peers.waiting.load(Ordering::Acquire), WAITING_BYTES_MAX);
        // A message that was taken makes room.
        drop(inbox.try_recv());
        peers.message(&large);
        assert_eq!(inbox.len(), WAITING_BYTES_MAX / large.length());
        let (peers, inbox) = PeerInbox::new(false);
        peers.message(&large);
        assert!(inbox.is_empty(), "nobody takes it");
    }

    #[test]
    fn both_sides_know_a_message_by_the_same_hash() {
        let message = ScsPushMsg {
            requestid: "id-1".into(),
            timestamp: vec![0; 8].into(),
            requestflag: true,
            scsid: "0x12".into(),
            msghash: vec![7; 40].into(),
            ..ScsPushMsg::default()
        };
        let sent = for_peers(&message);
        assert_eq!(sent.key(), message_hash(&message));
        assert_eq!(pushed(&sent), message);
    }
}
