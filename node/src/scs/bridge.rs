//! Between peers and the servers of application chains: messages of servers (code 31 of `mc`), and
//! transactions with a sharding flag.
//!
//! What comes from peers waits in a bounded queue, because peers must not wait for it. A node
//! without the service passes transactions on, too, once it has checked their signatures.

use std::sync::Arc;

use chain::Chain;
use network::messages::ApplicationChainMessage;
use network::service::{ApplicationChains, NetworkHandle};
use primitives::Transaction;
use scs_service::proto::ScsPushMsg;
use scs_service::vnode::ScsService;
use tokio::sync::mpsc;

use super::host::direct_call;

/// Messages and transactions of peers that wait. More are dropped.
const WAITING_MAX: usize = 256;

enum FromPeer {
    Message(Box<ScsPushMsg>),
    Transaction(Box<Transaction>),
}

struct PeerInbox(mpsc::Sender<FromPeer>);

impl ApplicationChains for PeerInbox {
    fn message(&self, message: &ApplicationChainMessage) {
        // Dropped if too many wait.
        let _ = self.0.try_send(FromPeer::Message(Box::new(pushed(message))));
    }

    fn transaction(&self, transaction: &Transaction) {
        let _ = self
            .0
            .try_send(FromPeer::Transaction(Box::new(transaction.clone())));
    }
}

/// Connects peers with the service, if there is one.
pub(crate) fn connect(network: &NetworkHandle, chain: &Chain, service: Option<ScsService>) {
    let (sender, inbox) = mpsc::channel(WAITING_MAX);
    network.connect_application_chains(Arc::new(PeerInbox(sender)));
    tokio::spawn(take(network.clone(), chain.clone(), service, inbox));
}

async fn take(
    network: NetworkHandle,
    chain: Chain,
    service: Option<ScsService>,
    mut inbox: mpsc::Receiver<FromPeer>,
) {
    while let Some(item) = inbox.recv().await {
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
                    let call = direct_call(&chain, &transaction)?;
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
