//! The tasks that make connections: one dials, one takes those that come in.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use primitives::SecretKey;
use tokio::sync::mpsc;

use super::connection;
use super::core::Core;
use super::threads::start_task;
use crate::address;
use crate::contact::NodeContact;
use crate::dial::{DIAL_TIMEOUT, DialTarget, DialTask};
use crate::discovery::DiscoveryHandle;
use crate::entropy::Entropy;
use crate::messages::WireFamily;
use crate::rlpx::{ConnectionError, RlpxDisconnect, RlpxSettings};
use crate::sockets::{InboundPeer, dial};

/// The dialer is asked at least at this interval.
const DIAL_INTERVAL: Duration = Duration::from_secs(1);

/// Addresses of one name that a dial tries, one after the other.
const NAME_ADDRESSES_MAX: usize = 4;

pub(super) struct DialLoop {
    pub(super) core: Arc<Core>,
    pub(super) key: SecretKey,
    pub(super) settings: RlpxSettings,
    pub(super) family: WireFamily,
    /// Asks nodes for their records, and static nodes whether they are there. `None` without
    /// discovery.
    pub(super) discovery: Option<DiscoveryHandle>,
    pub(super) entropy: Entropy,
}

impl DialLoop {
    /// Dials whom the dialer names, for ever.
    pub(super) async fn run(mut self) {
        loop {
            for task in self.next() {
                self.dial(task);
            }
            tokio::select! {
                () = self.core.dial.notified() => {}
                () = tokio::time::sleep(DIAL_INTERVAL) => {}
            }
        }
    }

    /// The nodes to dial now. Those that may not come back count as having failed.
    fn next(&self) -> Vec<DialTask> {
        let mut state = self.core.state.lock();
        let now = self.core.now();
        let mut tasks = state.dialer.next(now.elapsed);
        tasks.retain(|task| {
            let is_banned = state.hub.is_banned(&task.target.contact.id, now);
            if is_banned {
                state.dialer.ended(&task.target.contact.id, false, now.elapsed);
            }
            !is_banned
        });
        tasks
    }

    fn dial(&mut self, task: DialTask) {
        let (core, family) = (Arc::clone(&self.core), self.family);
        let (key, settings, mut entropy) = (self.key.clone(), self.settings.clone(), self.entropy.fork());
        let discovery = self.discovery.clone();
        start_task(async move {
            let known = task.target.contact;
            if !task.is_static && is_foreign(&core, discovery.as_ref(), known).await {
                core.traffic.was_foreign();
                tracing::debug!(node = %known, "a node is not dialled: its record has other forks");
                let now = core.now().elapsed;
                return core.state.lock().dialer.ended(&known.id, false, now);
            }
            let mut reached = Err(DialError::NoAddress);
            match locate(&core, &task).await {
                Ok(contacts) => {
                    for contact in contacts {
                        let dialled = dial(&contact, key.clone(), settings.clone(), entropy.fork()).await;
                        reached = dialled.map(|peer| (peer, contact)).map_err(DialError::from);
                        if reached.is_ok() {
                            break;
                        }
                    }
                }
                Err(error) => reached = Err(error.into()),
            }
            let taken = reached.and_then(|(peer, contact)| {
                let taken = connection::take(&core, family, peer, Some(contact));
                taken.map(|()| contact).map_err(DialError::Refused)
            });
            core.traffic.dialled(taken.is_ok());
            let now = core.now().elapsed;
            let id = task.target.contact.id;
            {
                let mut state = core.state.lock();
                // The connection may have ended already. Then nobody would tell the dialer of its
                // end.
                let is_connected = taken.is_ok() && state.reports.values().any(|report| report.node == id);
                state.dialer.ended(&id, is_connected, now);
            }
            match taken {
                // The user has named the node, so discovery may not know it, or at an old address.
                Ok(contact) if task.is_static => {
                    if let Some(discovery) = discovery {
                        discovery.probe_all([contact]).await;
                    }
                }
                Ok(_) => {}
                Err(reason) => {
                    tracing::debug!(node = %task.target, %reason, "a node was dialled, but is no peer");
                }
            }
        });
    }
}

/// The reason why a node that was dialled is no peer.
#[derive(Debug, thiserror::Error)]
enum DialError {
    #[error("got no address, expected one")]
    NoAddress,
    #[error(transparent)]
    Name(#[from] NameError),
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    #[error("{0}")]
    Refused(RlpxDisconnect),
}

/// The reason why a name gives no address.
#[derive(Debug, thiserror::Error)]
enum NameError {
    #[error("got no answer within {} s", DIAL_TIMEOUT.as_secs())]
    Late,
    #[error(transparent)]
    Resolver(#[from] io::Error),
    #[error("got no address that --netrestrict allows, expected one")]
    OutOfRange,
}

/// Returns the possible addresses of the node of a task. A name is resolved anew for each dial. If
/// that fails, the first failure is logged as a warning.
async fn locate(core: &Core, task: &DialTask) -> Result<Vec<NodeContact>, NameError> {
    let DialTarget { contact, name } = &task.target;
    let Some(name) = name else {
        return Ok(vec![*contact]);
    };
    let found = resolve(core, name, contact.tcp).await;
    if let Err(error) = &found
        && task.failures == 0
    {
        let node = &task.target;
        tracing::warn!(%node, %error, "the name of a static node is not resolved; it is resolved again later");
    }
    let at = |ip| NodeContact { ip, ..*contact };
    Ok(found?.into_iter().map(at).collect())
}

/// The addresses of a name that the ranges of the settings contain, at most
/// [`NAME_ADDRESSES_MAX`].
async fn resolve(core: &Core, name: &str, port: u16) -> Result<Vec<IpAddr>, NameError> {
    let lookup = tokio::time::timeout(DIAL_TIMEOUT, tokio::net::lookup_host((name, port)));
    let found = lookup.await.map_err(|_| NameError::Late)??;
    let state = core.state.lock();
    let found = found.map(|address| address::canonical(address.ip()));
    let in_range = found.filter(|ip| state.dialer.is_in_range(*ip));
    let in_range: Vec<_> = in_range.take(NAME_ADDRESSES_MAX).collect();
    if in_range.is_empty() {
        return Err(NameError::OutOfRange);
    }
    Ok(in_range)
}

/// Whether a node's record says that it is of another network. A record that is not known is asked
/// for if the node has said that it has one. Without a record the node may be of this network.
async fn is_foreign(core: &Core, discovery: Option<&DiscoveryHandle>, node: NodeContact) -> bool {
    let (is_known, is_foreign) = {
        let state = core.state.lock();
        // A family without fork ids has nothing to compare.
        let is_known = state.hub.fork_id().is_none() || state.records.has(&node.id);
        (is_known, state.is_foreign(&node.id))
    };
    match discovery.filter(|_| !is_known) {
        Some(discovery) => {
            let record = discovery.record_of(node).await;
            record.is_some_and(|record| !core.note_record(&record))
        }
        None => is_foreign,
    }
}

/// Takes the connections that come in, until the listener ends.
pub(super) async fn take_inbound(
    core: Arc<Core>,
    family: WireFamily,
    mut inbound: mpsc::Receiver<InboundPeer>,
) {
    while let Some((peer, from)) = inbound.recv().await {
        if let Err(reason) = connection::take(&core, family, peer, None) {
            tracing::debug!(%from, %reason, "a connection is refused");
        }
    }
}
