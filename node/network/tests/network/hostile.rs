//! Peers that send junk, too much, or nothing: good peers go on.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use network::testing::{
    ConnectionError, HandshakeForm, InboundPeer, PeerConnection, RlpxError, RlpxSettings, dial,
};
use network::{INBOUND_HANDSHAKES_MAX, WireFamily};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::support::{entropy, exchange, key, listen, protocol, settings, status};

/// A good peer can still come.
async fn check_good_peer(
    contact: &network::NodeContact,
    peers: &mut tokio::sync::mpsc::Receiver<InboundPeer>,
) {
    let dialled = dial(contact, key(1), settings(WireFamily::Eth, 5), entropy(1)).await;
    let mut connection = dialled.expect("a good handshake");
    let (mut peer, _) = peers.recv().await.expect("a peer");
    let protocol = protocol(&connection, WireFamily::Eth);
    let own = status(protocol);
    let (one, two) = tokio::join!(
        exchange(&mut connection, protocol, &own),
        exchange(&mut peer, protocol, &own)
    );
    assert_eq!(one, two);
}

#[tokio::test]
async fn junk_is_closed() {
    let (_listener, mut peers, contact) = listen(2, settings(WireFamily::Eth, 5)).await;
    let junk: [&[u8]; 5] = [
        b"GET / HTTP/1.1\r\n\r\n",
        &[0xff; 5000],
        &[0x04; 400],
        &[0x01, 0xb3, 0x04, 0, 0],
        &[0; 3],
    ];
    for bytes in junk {
        let mut stream = TcpStream::connect(contact.tcp_address())
            .await
            .expect("it listens");
        // The node may have closed the socket before all is written.
        let _ = stream.write_all(bytes).await;
        let _ = stream.shutdown().await;
        let mut answer = Vec::new();
        // A reset is as good as an end.
        let _ = stream.read_to_end(&mut answer).await;
        assert!(
            answer.is_empty(),
            "nothing is said before the handshake: {answer:02x?}"
        );
    }
    check_good_peer(&contact, &mut peers).await;
}

#[tokio::test]
async fn whoever_sends_too_large_a_hello_learns_why_it_ends() {
    let (_listener, mut peers, contact) = listen(2, settings(WireFamily::Eth, 5)).await;
    let large = RlpxSettings {
        client: "x".repeat(4 << 20),
        ..settings(WireFamily::Eth, 5)
    };
    let dialled = dial(&contact, key(3), large, entropy(3)).await;
    let error = match dialled {
        Ok(mut connection) => connection.next().await.expect_err("the connection ends"),
        Err(error) => error,
    };
    assert!(
        matches!(error, ConnectionError::Rlpx(RlpxError::Disconnected(_))),
        "{error}"
    );
    check_good_peer(&contact, &mut peers).await;
}

#[tokio::test]
async fn half_open_connections_are_bounded() {
    let (_listener, mut peers, contact) = listen(2, settings(WireFamily::Eth, 5)).await;
    let mut streams = Vec::new();
    for _ in 0..4 * INBOUND_HANDSHAKES_MAX {
        streams.push(
            TcpStream::connect(contact.tcp_address())
                .await
                .expect("it listens"),
        );
    }
    // Connections beyond the bound are closed at once, the others when their time is over.
    let mut ended = 0;
    for stream in &mut streams {
        let mut byte = [0];
        if matches!(stream.read(&mut byte).await, Ok(0) | Err(_)) {
            ended += 1;
        }
    }
    assert_eq!(ended, streams.len());
    check_good_peer(&contact, &mut peers).await;
}

/// A connection from an address of this machine.
async fn connect_from(ip: [u8; 4], to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::from((ip, 0)))?;
    socket.connect(to).await
}

/// Opens connections without a word from hosts of one network, one after the other, until it is
/// dropped.
struct HalfOpenFlood {
    opened: Arc<AtomicUsize>,
    task: tokio::task::JoinHandle<()>,
}

impl HalfOpenFlood {
    fn start(to: SocketAddr) -> Self {
        let opened = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&opened);
        let task = tokio::spawn(async move {
            let mut streams = VecDeque::new();
            for host in (1..=250).cycle() {
                if let Ok(stream) = connect_from([127, 1, 1, host], to).await {
                    streams.push_back(stream);
                    count.fetch_add(1, Ordering::Relaxed);
                }
                // Streams that are dropped have been closed by the node.
                if streams.len() > 4 * INBOUND_HANDSHAKES_MAX {
                    streams.pop_front();
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
        Self { opened, task }
    }

    fn opened(&self) -> usize {
        self.opened.load(Ordering::Relaxed)
    }
}

impl Drop for HalfOpenFlood {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn honest_dials_come_in_beside_a_flood() {
    let (_listener, mut peers, contact) = listen(2, settings(WireFamily::Eth, 5)).await;
    let to = contact.tcp_address();
    let flood = HalfOpenFlood::start(to);
    let mut good = 0;
    for number in 0..60_u8 {
        // The places are taken, and more half-open connections come before each honest one.
        let wanted = 2 * INBOUND_HANDSHAKES_MAX + usize::from(number);
        while flood.opened() < wanted {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let stream = connect_from([127, 2, number, 1], to).await.expect("it listens");
        let eth = settings(WireFamily::Eth, 5);
        let form = HandshakeForm::Eip8;
        let dialled = PeerConnection::dial(stream, key(1), contact.id, form, eth, entropy(number)).await;
        if dialled.is_ok() && peers.recv().await.is_some() {
            good += 1;
        }
    }
    assert_eq!(good, 60, "beside {} half-open connections", flood.opened());
}

#[tokio::test]
async fn a_changed_byte_ends_the_connection_with_a_reason() {
    let (near, far) = tokio::io::duplex(1 << 20);
    let (middle, end) = tokio::io::duplex(1 << 20);
    // Between the two sits someone who changes one bit of what the dialler sends after a while.
    let (mut from_dialler, mut to_dialler) = tokio::io::split(far);
    let (mut from_listener, mut to_listener) = tokio::io::split(middle);
    tokio::spawn(async move { tokio::io::copy(&mut from_listener, &mut to_dialler).await });
    let (change, mut changes) = tokio::sync::mpsc::channel::<()>(1);
    tokio::spawn(async move {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = from_dialler.read(&mut bytes).await {
            if changes.try_recv().is_ok() {
                bytes[count / 2] ^= 1;
            }
            if to_listener.write_all(&bytes[..count]).await.is_err() {
                return;
            }
        }
    });
    let eth = || settings(WireFamily::Eth, 5);
    let dial = PeerConnection::dial(
        near,
        key(1),
        key(2).public_key(),
        HandshakeForm::Eip8,
        eth(),
        entropy(1),
    );
    let accept = PeerConnection::accept(end, key(2), eth(), entropy(2));
    let (one, two) = tokio::join!(dial, accept);
    let (mut one, mut two) = (one.expect("good"), two.expect("good"));
    change.send(()).await.expect("he listens");
    one.send(0, 2, &[0xc0]).expect("there is room");
    let (left, right) = tokio::join!(one.next(), two.next());
    let error = right.expect_err("a wrong MAC");
    assert!(
        matches!(error, ConnectionError::Rlpx(RlpxError::Frame(_))),
        "{error}"
    );
    let told = left.expect_err("it was told");
    assert_eq!(told.to_string(), "the peer disconnects: breach of protocol");
}

#[tokio::test]
async fn a_large_frame_is_refused_by_its_header() {
    // The peer is allowed more than this node accepts. Only its header arrives.
    let large = || settings(WireFamily::Eth, 4);
    let mut small = settings(WireFamily::Eth, 4);
    small.message_bytes_max = 1 << 16;
    let (near, far) = tokio::io::duplex(1 << 16);
    let dial = PeerConnection::dial(
        near,
        key(1),
        key(2).public_key(),
        HandshakeForm::Eip8,
        large(),
        entropy(1),
    );
    let accept = PeerConnection::accept(far, key(2), small, entropy(2));
    let (one, two) = tokio::join!(dial, accept);
    let (mut one, mut two) = (one.expect("good"), two.expect("good"));
    one.send(0, 2, &vec![7; 12 << 20]).expect("there is room");
    let (left, right) = tokio::join!(one.next(), two.next());
    let error = right.expect_err("too large");
    assert!(
        matches!(error, ConnectionError::Rlpx(RlpxError::Frame(_))),
        "{error}"
    );
    // The body is read away, so that the other side can read why it ends.
    let error = left.expect_err("the connection ends");
    assert!(
        matches!(error, ConnectionError::Rlpx(RlpxError::Disconnected(_))),
        "{error}"
    );
}
