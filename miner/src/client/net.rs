//! TCP connections, with or without TLS, to the address of a name that answers first. This module
//! knows neither HTTP nor Stratum.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use daemon::tls::{ClientStream, TlsClient};
use tokio::net::{TcpStream, lookup_host};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::endpoint::MiningEndpoint;
use super::error::ClientError;

/// The next address is tried beside those before it if none has answered for this time (RFC 8305,
/// section 5).
const NEXT_ADDRESS_AFTER: Duration = Duration::from_millis(250);
/// The most addresses of a name that are tried.
const ADDRESSES_MAX: usize = 16;

/// Connects to `endpoint` within `time_limit`.
pub(super) async fn connect(
    endpoint: &MiningEndpoint,
    tls: &TlsClient,
    time_limit: Duration,
) -> Result<ClientStream, ClientError> {
    let deadline = Instant::now() + time_limit;
    let timed_out = |what| {
        move |_| ClientError::Timeout {
            what,
            after: time_limit,
        }
    };
    let name = (endpoint.host.as_str(), endpoint.port);
    let addresses = timeout_at(deadline, lookup_host(name))
        .await
        .map_err(timed_out("the addresses of a name"))?
        .map_err(ClientError::Connect)?;
    let stream = connect_any(addresses.collect(), deadline).await?;
    // Messages are small and must be sent at once.
    stream.set_nodelay(true).map_err(ClientError::Connect)?;
    if !endpoint.tls {
        return Ok(ClientStream::Plain(stream));
    }
    let stream = timeout_at(deadline, tls.connect(&endpoint.host, stream));
    Ok(stream.await.map_err(timed_out("a TLS handshake"))??)
}

/// Connects to that of `addresses` which answers first. An address is tried once those before it
/// have failed, or have not answered for [`NEXT_ADDRESS_AFTER`].
///
/// # Errors
/// [`ClientError::NoAddress`] if all of them have failed, or if none has answered at `deadline`.
async fn connect_any(addresses: Vec<SocketAddr>, deadline: Instant) -> Result<TcpStream, ClientError> {
    let mut untried = alternate(addresses).into_iter().take(ADDRESSES_MAX);
    // The attempts end when this set is dropped.
    let mut attempts = JoinSet::new();
    let mut tried = 0;
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    loop {
        if let Some(address) = untried.next() {
            tried += 1;
            attempts.spawn(TcpStream::connect(address));
        }
        let until = match untried.len() {
            0 => deadline,
            _ => deadline.min(Instant::now() + NEXT_ADDRESS_AFTER),
        };
        match timeout_at(until, attempts.join_next()).await {
            Ok(Some(ended)) => match ended.unwrap_or_else(|error| Err(error.into())) {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            },
            Ok(None) => return Err(ClientError::NoAddress { tried, last }),
            Err(_) if Instant::now() < deadline => {}
            Err(_) => {
                let last = io::ErrorKind::TimedOut.into();
                return Err(ClientError::NoAddress { tried, last });
            }
        }
    }
}

/// Orders addresses so that IPv6 and IPv4 take turns, as long as there are both. Each family keeps
/// its order, and the first address stays the first.
fn alternate(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let is_ipv6 = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let (first, second): (Vec<_>, Vec<_>) = addresses
        .into_iter()
        .partition(|address| address.is_ipv6() == is_ipv6);
    let mut second = second.into_iter();
    let mut ordered = Vec::new();
    for address in first {
        ordered.push(address);
        ordered.extend(second.next());
    }
    ordered.extend(second);
    ordered
}

#[cfg(test)]
mod tests {
    use tokio::net::{TcpListener, TcpSocket};
    use tokio::time::timeout;

    use super::*;

    /// A limit that is longer than any test.
    fn far() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    async fn listen() -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        (listener, address)
    }

    /// An address where nobody listens.
    async fn closed() -> SocketAddr {
        listen().await.1
    }

    /// An address that does not answer, and what must live as long as that: a listener whose queue
    /// is full.
    async fn silent() -> (SocketAddr, TcpListener, Vec<TcpStream>) {
        let socket = TcpSocket::new_v4().expect("a socket");
        let any_port = "127.0.0.1:0".parse().expect("an address");
        socket.bind(any_port).expect("a free port");
        let listener = socket.listen(0).expect("it is bound");
        let address = listener.local_addr().expect("it is bound");
        let mut queue = Vec::new();
        let answer_max = Duration::from_millis(300);
        while let Ok(Ok(stream)) = timeout(answer_max, TcpStream::connect(address)).await {
            queue.push(stream);
            assert!(queue.len() < 100, "the queue of {address} has no end");
        }
        (address, listener, queue)
    }

    #[tokio::test]
    async fn an_address_that_does_not_answer_does_not_keep_others_waiting() {
        let (silent, _listener, _queue) = silent().await;
        let (_open, open) = listen().await;
        let addresses = vec![silent, closed().await, silent, open];
        let stream = connect_any(addresses, far()).await.expect("one is open");
        assert_eq!(stream.peer_addr().ok(), Some(open));
    }

    #[tokio::test]
    async fn the_error_has_the_number_of_addresses_and_the_last_fault() {
        let (silent, _listener, _queue) = silent().await;
        let refused = vec![closed().await, closed().await];
        let soon = Instant::now() + Duration::from_millis(300);
        for (addresses, deadline, expected) in [
            (
                vec![],
                far(),
                "cannot connect: the name has no address (addresses tried: 0)",
            ),
            (refused, far(), "(addresses tried: 2)"),
            (
                vec![silent],
                soon,
                "cannot connect: timed out (addresses tried: 1)",
            ),
            (vec![closed().await; 99], far(), "(addresses tried: 16)"),
        ] {
            let error = connect_any(addresses, deadline).await.expect_err("none is open");
            assert!(
                error.to_string().contains(expected),
                "got {error}, expected {expected}"
            );
        }
    }

    #[test]
    fn the_families_of_addresses_take_turns() {
        let check = |addresses: &[&str], expected: &[&str]| {
            let parse = |texts: &[&str]| -> Vec<SocketAddr> {
                let parsed = texts.iter().map(|text| text.parse().expect("an address"));
                parsed.collect()
            };
            assert_eq!(alternate(parse(addresses)), parse(expected));
        };
        check(&[], &[]);
        let [a, b, c, d] = ["[::1]:1", "[::2]:1", "[::3]:1", "1.1.1.1:1"];
        check(&[a, b, c, d], &[a, d, b, c]);
        check(&[d, a, b], &[d, a, b]);
        check(&[a, b], &[a, b]);
    }
}
