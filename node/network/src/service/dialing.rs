//! The tasks that make connections: one dials, one takes those that come in.

use std::sync::Arc;
use std::time::Duration;

use primitives::SecretKey;
use tokio::sync::mpsc;

use super::connection;
use super::core::Core;
use crate::dial::DialTask;
use crate::entropy::Entropy;
use crate::messages::WireFamily;
use crate::rlpx::RlpxSettings;
use crate::sockets::{InboundPeer, dial};

/// How often the dialer is asked at least.
const DIAL_INTERVAL: Duration = Duration::from_secs(1);

/// What a dial needs.
pub(super) struct DialLoop {
    pub(super) core: Arc<Core>,
    pub(super) key: SecretKey,
    pub(super) settings: RlpxSettings,
    pub(super) family: WireFamily,
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
            let is_banned = state.hub.is_banned(&task.contact.id, now);
            if is_banned {
                state.dialer.ended(&task.contact.id, false, now.elapsed);
            }
            !is_banned
        });
        tasks
    }

    fn dial(&mut self, task: DialTask) {
        let (core, family) = (Arc::clone(&self.core), self.family);
        let (key, settings, entropy) = (self.key.clone(), self.settings.clone(), self.entropy.fork());
        tokio::spawn(async move {
            let contact = task.contact;
            let taken = match dial(&contact, key, settings, entropy).await {
                Ok(peer) => connection::take(&core, family, peer, true).map_err(|reason| reason.to_string()),
                Err(error) => Err(error.to_string()),
            };
            core.traffic.dialled(taken.is_ok());
            let now = core.now().elapsed;
            core.state.lock().dialer.ended(&contact.id, taken.is_ok(), now);
            if let Err(reason) = taken {
                tracing::debug!(node = %contact, reason, "a node was dialled, but is no peer");
            }
        });
    }
}

/// Takes the connections that come in, until the listener ends.
pub(super) async fn take_inbound(
    core: Arc<Core>,
    family: WireFamily,
    mut inbound: mpsc::Receiver<InboundPeer>,
) {
    while let Some((peer, from)) = inbound.recv().await {
        if let Err(reason) = connection::take(&core, family, peer, false) {
            tracing::debug!(%from, %reason, "a connection is refused");
        }
    }
}
