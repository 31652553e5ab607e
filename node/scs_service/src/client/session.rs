//! What happens on a connection: the handshake, then events until it breaks. Then the next one.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use primitives::{B256, Bytes};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tonic::client::Grpc;
use tonic::{Request, Streaming};

use super::dial::{Dialed, dial};
use super::{BROADCASTS_MAX, ClientShared, Link, RECONNECT_MIN, ScsClientConfig, ScsEvent};
use crate::message::payload::{SHAKE_REPLY, decode_head, decode_text};
use crate::message::{MessageKind, ScsMessage};
use crate::proto::ScsPushMsg;
use crate::wire::{RequestSender, SCS_PUSH, codec, path};

/// Messages of the handshake's stream that wait to be sent. There is one.
const HANDSHAKES_MAX: usize = 1;

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

/// Why a connection ended.
enum SessionEnd {
    /// For this reason. `true` if the handshake was taken.
    Broken(String, bool),
    NobodyListens,
}

impl From<NobodyListens> for SessionEnd {
    fn from(_: NobodyListens) -> Self {
        Self::NobodyListens
    }
}

/// Connects again and again, until nobody listens to the events.
pub(super) async fn stay_connected(shared: Arc<ClientShared>, events: mpsc::Sender<ScsEvent>) {
    let mut pause = RECONNECT_MIN;
    let mut told: Option<String> = None;
    loop {
        let (reason, was_connected) = match run_session(&shared, &events).await {
            SessionEnd::Broken(reason, was_connected) => (reason, was_connected),
            SessionEnd::NobodyListens => return,
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
async fn run_session(shared: &ClientShared, events: &mpsc::Sender<ScsEvent>) -> SessionEnd {
    let broken = |reason| SessionEnd::Broken(reason, false);
    let config = &shared.config;
    let dialed = match dial(config).await {
        Ok(dialed) => dialed,
        Err(reason) => return broken(reason),
    };
    let (handshakes, waiting) = mpsc::channel(HANDSHAKES_MAX);
    let hello = ScsMessage {
        request_id: format!("{}-handshake", config.id).into(),
        timestamp: None,
        is_request: true,
        kind: MessageKind::ShakeHand { status: 0 },
        scs_id: config.id.to_wire(),
        chain: None,
        sender: None,
        receiver: None,
        payload: config.handshake.encode(),
    };
    // The channel is empty and its receiver is here, so this cannot fail.
    let _ = handshakes.try_send(hello.encode());
    let opened = timeout(config.call_timeout, shake_hands(config, &dialed.sender, waiting)).await;
    let beneficiary;
    let mut incoming = match opened {
        Ok(Ok((incoming, payee))) => {
            beneficiary = payee;
            incoming
        }
        Ok(Err(reason)) => return broken(reason),
        Err(_) => {
            return broken(format!(
                "no answer to the handshake after {:?}",
                config.call_timeout
            ));
        }
    };
    let (broadcasts, outgoing) = mpsc::channel(BROADCASTS_MAX);
    *shared.link.write() = Some(Link {
        sender: dialed.sender.clone(),
        broadcasts,
    });
    let _unlink = Unlink(shared);
    if tell(events, ScsEvent::Connected { beneficiary }).await.is_err() {
        return SessionEnd::NobodyListens;
    }
    let mut sending = pin!(send_broadcasts(config, &dialed, outgoing, events));
    let end = tokio::select! {
        end = listen(&mut incoming, events) => end,
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

/// A client for the streams of a connection.
fn streams(config: &ScsClientConfig, sender: &RequestSender) -> Result<Grpc<RequestSender>, String> {
    let origin = origin(config)?;
    let grpc = Grpc::with_origin(sender.clone(), origin)
        .max_decoding_message_size(config.message_len_max)
        .max_encoding_message_size(config.message_len_max);
    Ok(grpc)
}

/// The URL of the VNODE.
pub(super) fn origin(config: &ScsClientConfig) -> Result<Uri, String> {
    let scheme = if config.tls.is_some() { "https" } else { "http" };
    let url = format!("{scheme}://{}", config.address);
    url.parse()
        .map_err(|error| format!("address: got {:?}, expected host:port: {error}", config.address))
}

/// Opens a stream, and waits until the VNODE has taken the handshake on it.
async fn shake_hands(
    config: &ScsClientConfig,
    sender: &RequestSender,
    outgoing: mpsc::Receiver<ScsPushMsg>,
) -> Result<(Streaming<ScsPushMsg>, primitives::Address), String> {
    let status = |status: tonic::Status| {
        let text = format!("handshake: {}: {}", status.code(), status.message());
        // A status with a source did not come from the VNODE: the bytes are no HTTP/2.
        if config.tls.is_none() && std::error::Error::source(&status).is_some() {
            return format!("{text}; over plain text, which a VNODE with TLS does not take");
        }
        text
    };
    let mut grpc = streams(config, sender)?;
    grpc.ready().await.map_err(|error| error.to_string())?;
    let request = Request::new(Outgoing(outgoing));
    let opened = grpc.streaming(request, path(SCS_PUSH), codec()).await;
    let mut incoming: Streaming<ScsPushMsg> = opened.map_err(status)?.into_inner();
    loop {
        let wire = incoming.message().await.map_err(status)?;
        let wire = wire.ok_or_else(|| "handshake: the VNODE has ended the stream".to_owned())?;
        let answer = ScsMessage::decode(&wire).map_err(|error| format!("handshake: {error}"))?;
        if !matches!(answer.kind, MessageKind::ShakeHand { .. }) {
            // The stream of an id may get pushes before its own answer.
            continue;
        }
        let text = decode_text(&answer.payload).map_err(|error| format!("handshake: {error}"))?;
        if text != SHAKE_REPLY {
            return Err(format!("handshake: got {text:?}, expected {SHAKE_REPLY:?}"));
        }
        let beneficiary = answer.sender.map(|sender| sender.address).unwrap_or_default();
        return Ok((incoming, beneficiary));
    }
}

/// Tells what comes on the stream of the handshake, until it ends.
async fn listen(incoming: &mut Streaming<ScsPushMsg>, events: &mpsc::Sender<ScsEvent>) -> SessionEnd {
    loop {
        let reason = match incoming.message().await {
            Ok(Some(wire)) => {
                if let Some(event) = event(&wire)
                    && tell(events, event).await.is_err()
                {
                    return SessionEnd::NobodyListens;
                }
                continue;
            }
            Ok(None) => "the VNODE has ended the stream".to_owned(),
            Err(status) => format!("{}: {}", status.code(), status.message()),
        };
        return SessionEnd::Broken(reason, true);
    }
}

/// Sends broadcasts over a stream of their own, and tells what comes on it, until it ends.
async fn send_broadcasts(
    config: &ScsClientConfig,
    dialed: &Dialed,
    outgoing: mpsc::Receiver<ScsPushMsg>,
    events: &mpsc::Sender<ScsEvent>,
) -> SessionEnd {
    let broken = |reason: String| SessionEnd::Broken(format!("stream of broadcasts: {reason}"), true);
    let mut grpc = match streams(config, &dialed.sender) {
        Ok(grpc) => grpc,
        Err(reason) => return broken(reason),
    };
    if let Err(error) = grpc.ready().await {
        return broken(error.to_string());
    }
    let request = Request::new(Outgoing(outgoing));
    // A VNODE of the public network answers only when it has something to say. Until then the
    // messages flow all the same.
    match grpc.streaming(request, path(SCS_PUSH), codec()).await {
        Ok(opened) => match listen(&mut opened.into_inner(), events).await {
            SessionEnd::Broken(reason, _) => broken(reason),
            end @ SessionEnd::NobodyListens => end,
        },
        Err(status) => broken(format!("{}: {}", status.code(), status.message())),
    }
}

/// What a message of the VNODE means. `None` for answers that need no event.
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
