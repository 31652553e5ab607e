//! The threads that answer requests for parts of a state.
//!
//! A peer that downloads a state asks all the time, and may be one of many. So these threads are
//! few, and whoever waits for one of them keeps no other request waiting. A peer gets one answer at
//! a time, and all are answered in turn. A low priority was tried: imports beside eight askers lost
//! more with it, probably because such a thread waits while it holds a lock of the store.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use primitives::catch_panic;
use tokio::sync::oneshot;

use super::core::Core;
use super::threads;
use crate::messages::PeerMessage;
use crate::messages::snap::SnapMessage;
use crate::peers::{ChainAccess, ChainAccessError, snap_serve};

/// Trie nodes are read for one answer for so long.
const ANSWER_TIME: Duration = Duration::from_secs(5);
/// Requests that wait. Each connection has one. If there are more, the next ones get no answer.
const WAITING_MAX: usize = 1024;
/// One of this many processors answers.
const PROCESSORS_FOR_ONE: usize = 2;

/// A request, and whoever waits for the answer.
pub(super) struct StateRequest {
    request: SnapMessage,
    answered: oneshot::Sender<Option<PeerMessage>>,
}

/// The queue of the threads.
pub(super) fn queue() -> (Sender<StateRequest>, Receiver<StateRequest>) {
    bounded(WAITING_MAX)
}

/// Starts the threads. They end when the queue does.
pub(super) fn start(core: &Arc<Core>, requests: &Receiver<StateRequest>) -> std::io::Result<()> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    for _ in 0..(processors / PROCESSORS_FOR_ONE).max(1) {
        let (core, requests) = (Arc::downgrade(core), requests.clone());
        threads::start("peer-states", move || work(&core, &requests))?;
    }
    Ok(())
}

/// Waits for the answer to a request. `None` if this node gives none.
pub(super) async fn answer(queue: &Sender<StateRequest>, request: SnapMessage) -> Option<PeerMessage> {
    let (answered, answer) = oneshot::channel();
    match queue.try_send(StateRequest { request, answered }) {
        Ok(()) => answer.await.ok().flatten(),
        Err(TrySendError::Full(_)) => {
            tracing::debug!("a request for a state is dropped: got {WAITING_MAX} that wait, expected fewer");
            None
        }
        Err(TrySendError::Disconnected(_)) => None,
    }
}

fn work(core: &Weak<Core>, requests: &Receiver<StateRequest>) {
    for StateRequest { request, answered } in requests {
        let Some(core) = core.upgrade() else { return };
        if answered.is_closed() || core.state.lock().is_stopping {
            continue;
        }
        let answer = catch_panic(|| answer_of(&*core.chain, &request)).unwrap_or_else(|panic| {
            tracing::error!(%panic, "a request of a peer for a state cannot be answered");
            Ok(None)
        });
        let answer = answer.unwrap_or_else(|error| {
            tracing::warn!(%error, "a request of a peer for a state is not answered");
            None
        });
        // The connection may have ended meanwhile.
        let _ = answered.send(answer);
    }
}

fn answer_of(
    chain: &dyn ChainAccess,
    request: &SnapMessage,
) -> Result<Option<PeerMessage>, ChainAccessError> {
    let Some(source) = chain.snap() else {
        return Ok(None);
    };
    let end = Instant::now() + ANSWER_TIME;
    let answer = snap_serve::answer(&*source, request, &|| Instant::now() < end)?;
    Ok(answer.map(PeerMessage::Snap))
}
