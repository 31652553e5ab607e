//! The life of a connection: the handshake, then events until it breaks. Then the client connects
//! again.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use primitives::{Address, B256, Bytes, hex};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout, timeout_at};
use tonic::client::Grpc;
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::{Request, Status, Streaming};

use super::dial::{Dialed, dial};
use super::{BROADCASTS_MAX, ClientShared, Link, RECONNECT_MIN, ScsClientConfig, ScsEvent, ScsLinkError};
use crate::message::payload::{Handshake, SHAKE_REPLY, decode_head, decode_text};
use crate::message::{MessageKind, ScsMessage};
use crate::proto::ScsPushMsg;
use crate::wire::{CAN_PROVE_HEADER, CHALLENGE_HEADER, RequestSender, SCS_PUSH, codec, path};

/// Messages of the handshake's stream that wait to be sent: one without proof, and one with it.
const HANDSHAKES_MAX: usize = 2;

/// The messages that come out of a channel, as a stream.
struct Outgoing(mpsc::Receiver<ScsPushMsg>);

impl tokio_stream::Stream for Outgoing {
    type Item = ScsPushMsg;

    fn poll_next(mut self: std::pin::Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<ScsPushMsg>> {
        self.0.poll_recv(context)
    }
}

/// Nobody listens to the events any more.
struct NobodyListens;

/// The reason why a connection ended.
enum LinkEnd {
    /// The connection broke. `true` if the handshake was taken.
    Broken(ScsLinkError, bool),
    NobodyListens,
}

impl From<NobodyListens> for LinkEnd {
    fn from(_: NobodyListens) -> Self {
        Self::NobodyListens
    }
}

/// Connects again and again, until nobody listens to the events.
pub(super) async fn stay_connected(shared: Arc<ClientShared>, events: mpsc::Sender<ScsEvent>) {
    let mut pause = RECONNECT_MIN;
    let mut told: Option<String> = None;
    loop {
        let (reason, was_connected) = match run_link(&shared, &events).await {
            LinkEnd::Broken(error, was_connected) => (error.to_string(), was_connected),
            LinkEnd::NobodyListens => return,
        };
        if was_connected {
            pause = RECONNECT_MIN;
            told = None;
        }
        if told.as_ref() != Some(&reason) {
            let event = ScsEvent::Disconnected {
                reason: reason.clone(),
            };
            if tell(&events, event).await.is_err() {
                return;
            }
            told = Some(reason);
        }
        tokio::time::sleep(with_jitter(pause)).await;
        pause = (pause * 2).min(shared.config.reconnect_max).max(RECONNECT_MIN);
    }
}

/// The pause and up to a quarter more, so that many SCSs do not come back at the same moment.
fn with_jitter(pause: Duration) -> Duration {
    let random = getrandom::u32().unwrap_or_default();
    pause + pause.mul_f64(f64::from(random) / f64::from(u32::MAX) / 4.0)
}

async fn tell(events: &mpsc::Sender<ScsEvent>, event: ScsEvent) -> Result<(), NobodyListens> {
    events.send(event).await.map_err(|_| NobodyListens)
}

/// Connects once, and stays until the connection breaks.
async fn run_link(shared: &ClientShared, events: &mpsc::Sender<ScsEvent>) -> LinkEnd {
    let config = &shared.config;
    let dialed = match dial(config).await {
        Ok(dialed) => dialed,
        Err(error) => return LinkEnd::Broken(error, false),
    };
    let (handshakes, waiting) = mpsc::channel(HANDSHAKES_MAX);
    // The channel is empty and its receiver is here, so this cannot fail.
    let _ = handshakes.try_send(hello(config, &config.handshake));
    let shaken = shake_hands(config, &dialed.sender, &handshakes, waiting);
    let opened = timeout(config.call_timeout, shaken).await;
    let late = Err(ScsLinkError::HandshakeTimeout(config.call_timeout));
    let (mut incoming, beneficiary) = match opened.unwrap_or(late) {
        Ok(opened) => opened,
        Err(error) => return LinkEnd::Broken(error, false),
    };
    let (broadcasts, outgoing) = mpsc::channel(BROADCASTS_MAX);
    *shared.link.write() = Some(Link {
        sender: dialed.sender.clone(),
        broadcasts,
    });
    let _unlink = Unlink(shared);
    if tell(events, ScsEvent::Connected { beneficiary }).await.is_err() {
        return LinkEnd::NobodyListens;
    }
    let mut sending = pin!(send_broadcasts(config, &dialed, outgoing, events));
    let end = tokio::select! {
        end = listen(&mut incoming, events, Some(config.ping_wait_max)) => end,
        end = sending.as_mut() => end,
    };
    // The stream of the handshake stays open as long as its sender lives.
    drop(handshakes);
    end
}

/// Takes the connection away from the client when it ends.
struct Unlink<'a>(&'a ClientShared);

impl Drop for Unlink<'_> {
    fn drop(&mut self) {
        *self.0.link.write() = None;
    }
}

/// A gRPC client on a connection.
pub(super) fn grpc(
    config: &ScsClientConfig,
    sender: RequestSender,
) -> Result<Grpc<RequestSender>, ScsLinkError> {
    let scheme = if config.tls.is_some() { "https" } else { "http" };
    let origin: Uri = format!("{scheme}://{}", config.address)
        .parse()
        .map_err(|error| ScsLinkError::Address {
            address: config.address.clone(),
            error,
        })?;
    Ok(Grpc::with_origin(sender, origin)
        .max_decoding_message_size(config.message_len_max)
        .max_encoding_message_size(config.message_len_max))
}

/// The message of a handshake.
fn hello(config: &ScsClientConfig, handshake: &Handshake) -> ScsPushMsg {
    ScsMessage {
        request_id: format!("{}-handshake", config.id).into(),
        timestamp: None,
        is_request: true,
        kind: MessageKind::ShakeHand { status: 0 },
        scs_id: config.id.to_wire(),
        chain: None,
        sender: None,
        receiver: None,
        payload: handshake.encode(),
    }
    .encode()
}

/// The challenge of a VNODE of ours; `None` from any other.
fn challenge(headers: &MetadataMap) -> Option<B256> {
    let mut challenge = B256::ZERO;
    let digits = headers.get(CHALLENGE_HEADER)?.to_str().ok()?;
    hex::decode_to_slice(digits, &mut challenge.0).ok()?;
    Some(challenge)
}

/// Opens a stream, and waits until the VNODE has taken the handshake on it, which is in `outgoing`.
/// A VNODE that sends a challenge gets another one with a proof.
async fn shake_hands(
    config: &ScsClientConfig,
    sender: &RequestSender,
    handshakes: &mpsc::Sender<ScsPushMsg>,
    outgoing: mpsc::Receiver<ScsPushMsg>,
) -> Result<(Streaming<ScsPushMsg>, Address), ScsLinkError> {
    let failed = |status: Status| {
        // A status with a source did not come from the VNODE: the bytes are no HTTP/2.
        if config.tls.is_none() && std::error::Error::source(&status).is_some() {
            ScsLinkError::PlainText(Box::new(status))
        } else {
            ScsLinkError::Handshake(Box::new(status))
        }
    };
    let mut grpc = grpc(config, sender.clone())?;
    grpc.ready().await?;
    let mut request = Request::new(Outgoing(outgoing));
    if config.key.is_some() {
        let yes = MetadataValue::from_static("1");
        request.metadata_mut().insert(CAN_PROVE_HEADER, yes);
    }
    let opened = grpc.streaming(request, path(SCS_PUSH), codec()).await;
    let opened = opened.map_err(failed)?;
    if let Some(key) = &config.key
        && let Some(challenge) = challenge(opened.metadata())
    {
        let proof = config.handshake.with_proof(key, &challenge);
        // There is room: the channel has had one message so far.
        let _ = handshakes.try_send(hello(config, &proof));
    }
    let mut incoming: Streaming<ScsPushMsg> = opened.into_inner();
    loop {
        let wire = incoming.message().await.map_err(failed)?;
        let answer = ScsMessage::decode(&wire.ok_or(ScsLinkError::NoReply)?)?;
        if !matches!(answer.kind, MessageKind::ShakeHand { .. }) {
            // The stream of an id may get pushes before its own answer.
            continue;
        }
        let got = decode_text(&answer.payload)?;
        if got != SHAKE_REPLY {
            return Err(ScsLinkError::Reply { got });
        }
        let beneficiary = answer.sender.map(|sender| sender.address).unwrap_or_default();
        return Ok((incoming, beneficiary));
    }
}

/// Tells what comes on a stream, until it ends, or no ping has come for `ping_wait_max`. Of the
/// heads those are told that are higher than the ones before.
async fn listen(
    incoming: &mut Streaming<ScsPushMsg>,
    events: &mpsc::Sender<ScsEvent>,
    ping_wait_max: Option<Duration>,
) -> LinkEnd {
    let mut pinged_at = Instant::now();
    let mut highest = None;
    loop {
        let next = incoming.message();
        let next = match ping_wait_max {
            None => Ok(next.await),
            Some(max) => timeout_at(pinged_at + max, next)
                .await
                .map_err(|_| ScsLinkError::NoPing(max)),
        };
        let next = next.and_then(|next| next.map_err(|status| ScsLinkError::Broken(Box::new(status))));
        let error = match next {
            Ok(Some(wire)) => {
                let event = event(&wire);
                if let Some(ScsEvent::Head(head)) = event {
                    pinged_at = Instant::now();
                    if highest.is_some_and(|highest| head <= highest) {
                        continue;
                    }
                    highest = Some(head);
                }
                if let Some(event) = event {
                    let told_at = Instant::now();
                    if tell(events, event).await.is_err() {
                        return LinkEnd::NobodyListens;
                    }
                    // While the event waited for its place, no ping was looked for.
                    pinged_at += told_at.elapsed();
                }
                continue;
            }
            Ok(None) => ScsLinkError::Ended,
            Err(error) => error,
        };
        return LinkEnd::Broken(error, true);
    }
}

/// Sends broadcasts over a stream of their own, and tells what comes on it, until it ends.
async fn send_broadcasts(
    config: &ScsClientConfig,
    dialed: &Dialed,
    outgoing: mpsc::Receiver<ScsPushMsg>,
    events: &mpsc::Sender<ScsEvent>,
) -> LinkEnd {
    let broken = |error| LinkEnd::Broken(ScsLinkError::Broadcasts(Box::new(error)), true);
    let mut grpc = match grpc(config, dialed.sender.clone()) {
        Ok(grpc) => grpc,
        Err(error) => return broken(error),
    };
    if let Err(error) = grpc.ready().await {
        return broken(error.into());
    }
    let request = Request::new(Outgoing(outgoing));
    // A VNODE of the public network answers only when it has something to say. Until then the
    // messages flow all the same.
    match grpc.streaming(request, path(SCS_PUSH), codec()).await {
        Ok(opened) => match listen(&mut opened.into_inner(), events, None).await {
            LinkEnd::Broken(error, _) => broken(error),
            end @ LinkEnd::NobodyListens => end,
        },
        Err(status) => broken(ScsLinkError::Broken(Box::new(status))),
    }
}

/// The event of a message of the VNODE. `None` for answers that need no event.
fn event(wire: &ScsPushMsg) -> Option<ScsEvent> {
    let ignored = |reason: String| Some(ScsEvent::Ignored { reason });
    let message = match ScsMessage::decode(wire) {
        Ok(message) => message,
        Err(error) => return ignored(error.to_string()),
    };
    let chain = message.chain.map(|chain| chain.address);
    match (message.kind, chain) {
        (MessageKind::ShakeHand { .. }, _) => None,
        (MessageKind::Ping { .. }, _) if !message.is_request => None,
        (MessageKind::Ping { .. }, _) => match decode_head(&message.payload) {
            Ok(head) => Some(ScsEvent::Head(head)),
            Err(error) => ignored(error.to_string()),
        },
        (MessageKind::Unknown { kind, .. }, _) => ignored(format!("type: got {kind}, expected 1 to 5")),
        (_, None) => ignored("subchainid: got 0 bytes, expected 20 or 21".to_owned()),
        (MessageKind::Control(status), Some(chain)) => match B256::try_from(&message.payload[..]) {
            Ok(transaction) => Some(ScsEvent::Notice {
                chain,
                status,
                transaction,
            }),
            Err(_) => ignored(format!(
                "msghash of a notice: got {} bytes, expected 32",
                message.payload.len()
            )),
        },
        (MessageKind::DirectCall { .. }, Some(chain)) => match message.sender {
            Some(sender) => Some(ScsEvent::DirectCall {
                chain,
                sender: sender.address,
                transaction: Bytes::copy_from_slice(&message.payload),
            }),
            None => ignored("sender: got 0 bytes, expected 20 or 21".to_owned()),
        },
        (MessageKind::Broadcast(_), Some(_)) => match ScsMessage::decode(&wire.compact()) {
            Ok(message) => Some(ScsEvent::Broadcast(message)),
            Err(error) => ignored(error.to_string()),
        },
    }
}
