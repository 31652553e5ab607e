//! The streams of `ScsPush`: handshakes, pings and broadcasts come in, pushes go out.
//!
//! Every stream is read until its client ends it, also those that have shaken hands. A client may
//! end its half of a stream after a handshake: pushes go on.
//!
//! A client that says so in the headers of its stream proves its id: the headers of the answer have
//! a challenge, and the handshake that counts has a signature over it. It sends one without
//! signature before, for VNODEs that know no challenges; here that one is passed over.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use primitives::{B256, hex};
use tokio::task::AbortHandle;
use tonic::{Request, Response, Status, Streaming};

use super::queue::{Outbound, PushQueue};
use super::registry::{Applicant, ScsRegistration};
use super::server::{ConnectionState, OpenCall};
use super::service::ServiceState;
use crate::message::payload::{
    CHAIN_ID_ERROR, Handshake, INVALID_ID, NOT_INITIALIZED, PING_REPLY, SHAKE_REPLY, encode_text,
};
use crate::message::{MessageKind, ScsId, ScsMessage, ScsMessageError, message_hash};
use crate::proto::ScsPushMsg;
use crate::wire::metered::StreamMeter;
use crate::wire::{CAN_PROVE_HEADER, CHALLENGE_HEADER};

/// Which SCS a stream belongs to, if it has shaken hands.
struct StreamSlot {
    connection: Arc<ConnectionState>,
    state: Mutex<SlotState>,
}

enum SlotState {
    Open(Option<ScsRegistration>),
    Ended,
}

impl StreamSlot {
    /// Gives the stream to an SCS. The one that had it before loses it.
    fn put(&self, registration: ScsRegistration) {
        let state = &mut *self.state.lock();
        if let SlotState::Open(slot) = state
            && slot.replace(registration).is_none()
        {
            self.connection.add_registered();
        }
    }

    fn is_registered(&self) -> bool {
        matches!(&*self.state.lock(), SlotState::Open(Some(_)))
    }

    fn end(&self) {
        let ended = std::mem::replace(&mut *self.state.lock(), SlotState::Ended);
        if let SlotState::Open(Some(_)) = ended {
            self.connection.remove_registered();
        }
    }
}

/// Ends everything that belongs to a stream when its answer is dropped.
pub(super) struct StreamGuard {
    reader: AbortHandle,
    slot: Arc<StreamSlot>,
    _open: OpenCall,
}

impl Drop for StreamGuard {
    fn drop(&mut self) {
        self.reader.abort();
        self.slot.end();
    }
}

/// The queue of a new stream.
pub(super) fn new_queue(
    state: &ServiceState,
    connection: &ConnectionState,
) -> Result<Arc<PushQueue>, Status> {
    let limits = &state.config.limits;
    let permit = state.queued.take(connection.client.address.into(), 0);
    let permit = permit.map_err(|error| Status::resource_exhausted(error.to_string()))?;
    Ok(Arc::new(PushQueue::new(
        limits.queue_len_max,
        limits.queue_bytes_max,
        permit,
    )))
}

/// Opens a stream, whose messages wait in `queue`.
pub(super) fn open(
    state: Arc<ServiceState>,
    connection: Arc<ConnectionState>,
    open: OpenCall,
    meter: StreamMeter,
    queue: Arc<PushQueue>,
    request: Request<Streaming<ScsPushMsg>>,
) -> Result<Response<Outbound<StreamGuard>>, Status> {
    state.check_serving()?;
    let challenge = match request.metadata().get(CAN_PROVE_HEADER) {
        Some(_) => Some(new_challenge()?),
        None => None,
    };
    let slot = Arc::new(StreamSlot {
        connection: Arc::clone(&connection),
        state: Mutex::new(SlotState::Open(None)),
    });
    let reader = StreamReader {
        state,
        connection,
        meter,
        queue: Arc::clone(&queue),
        slot: Arc::clone(&slot),
        challenge,
    };
    let reader = tokio::spawn(reader.run(request.into_inner())).abort_handle();
    let guard = StreamGuard {
        reader,
        slot,
        _open: open,
    };
    let mut response = Response::new(Outbound::new(queue, guard));
    if let Some(challenge) = challenge {
        let digits = hex::encode(challenge).parse();
        let digits = digits.map_err(|_| Status::internal("a challenge is no header"))?;
        response.metadata_mut().insert(CHALLENGE_HEADER, digits);
    }
    Ok(response)
}

/// A random number that nobody can have signed before.
fn new_challenge() -> Result<B256, Status> {
    let mut challenge = B256::ZERO;
    let filled = getrandom::fill(&mut challenge.0);
    filled.map_err(|error| Status::unavailable(format!("no random number for a challenge: {error}")))?;
    Ok(challenge)
}

/// Reads what an SCS sends on a stream.
struct StreamReader {
    state: Arc<ServiceState>,
    connection: Arc<ConnectionState>,
    meter: StreamMeter,
    queue: Arc<PushQueue>,
    slot: Arc<StreamSlot>,
    /// The number to be signed by a client that proves its id.
    challenge: Option<B256>,
}

impl StreamReader {
    async fn run(self, mut incoming: Streaming<ScsPushMsg>) {
        let end = loop {
            match incoming.message().await {
                Ok(Some(wire)) => {
                    if let Err(status) = self.take(&wire).await {
                        break Err(status);
                    }
                    self.meter.release();
                }
                Ok(None) => break Ok(()),
                Err(status) => break Err(status),
            }
        };
        self.meter.release();
        match end {
            Ok(()) if self.slot.is_registered() => {}
            Ok(()) => self.queue.close(),
            Err(status) => {
                let peer = self.connection.client.address;
                tracing::debug!(%peer, %status, "a stream of the service ends");
                self.queue.fail(status);
            }
        }
    }

    async fn take(&self, wire: &ScsPushMsg) -> Result<(), Status> {
        let message = ScsMessage::decode(wire).map_err(refusal)?;
        match message.kind {
            MessageKind::ShakeHand { .. } => self.shake_hands(wire),
            MessageKind::Ping { .. } => {
                self.answer(wire, PING_REPLY);
                Ok(())
            }
            MessageKind::Broadcast(_) => self.broadcast(wire, &message).await,
            // Answers of an SCS to what it was pushed, and what this program does not know.
            MessageKind::DirectCall { .. } | MessageKind::Control(_) | MessageKind::Unknown { .. } => Ok(()),
        }
    }

    fn answer(&self, wire: &ScsPushMsg, text: &str) {
        self.queue.push(self.state.answer(wire, encode_text(text)), false);
    }

    fn shake_hands(&self, wire: &ScsPushMsg) -> Result<(), Status> {
        let Ok(id) = ScsId::from_wire(&wire.scsid) else {
            let got = String::from_utf8_lossy(&wire.scsid);
            self.answer(wire, &format!("{INVALID_ID}{got}"));
            return Ok(());
        };
        let handshake = Handshake::decode(&wire.msghash).map_err(refusal)?;
        let is_proven = match &self.challenge {
            Some(_) if !handshake.has_proof() => return Ok(()),
            Some(challenge) if !handshake.proves(&id, challenge) => {
                let text = format!("handshake: got no signature of {id} over the challenge, expected one");
                return Err(Status::unauthenticated(text));
            }
            challenge => challenge.is_some(),
        };
        if !self.state.host.is_ready() {
            self.answer(wire, NOT_INITIALIZED);
            return Ok(());
        }
        if handshake.chain_id != self.state.host.chain_id() {
            self.answer(wire, CHAIN_ID_ERROR);
            return Ok(());
        }
        let client = &self.connection.client;
        if !self.state.config.allow.may_shake_hands(&id, client.address) {
            let text = format!("SCS {id} at {} is not allowed here", client.address);
            return Err(Status::permission_denied(text));
        }
        let answer = self.state.answer(wire, encode_text(SHAKE_REPLY));
        let registry = &self.state.registry;
        let applicant = Applicant {
            id,
            is_proven,
            connection: self.connection.number,
            client,
            queue: &self.queue,
        };
        let registration = registry.register(applicant, answer)?;
        tracing::debug!(scs = %id, is_proven, peer = %client.address, "an SCS has shaken hands");
        self.slot.put(registration);
        Ok(())
    }

    async fn broadcast(&self, wire: &ScsPushMsg, message: &ScsMessage) -> Result<(), Status> {
        message.route().map_err(refusal)?;
        let client = &self.connection.client;
        if !self.state.config.allow.may_send(client.address) && !client.has_registered() {
            return Err(Status::permission_denied(
                "broadcasts are taken from addresses where an allowed SCS is connected",
            ));
        }
        while let Err(wait) = client.take_broadcast(Instant::now()) {
            tokio::time::sleep(wait).await;
        }
        let wire = wire.compact();
        self.state.host.relay_broadcast(&wire, &message_hash(&wire));
        self.state.push(wire, Some(client)).await.map_err(refusal)?;
        Ok(())
    }
}

/// The status for a malformed message.
pub(super) fn refusal(error: ScsMessageError) -> Status {
    Status::invalid_argument(error.to_string())
}
