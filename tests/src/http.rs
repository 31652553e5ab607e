//! A small HTTP/1.1 client: one connection that is kept open, one request at a time.
//!
//! The client reads bodies with a length, as the node sends them, and bodies in chunks, as other
//! nodes do. It knows no TLS.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

use socket2::{Domain, Socket, Type};

use crate::wait::SOCKET_PATIENCE;

/// Longest time for one answer; longer than every timeout of the node.
const TIMEOUT: Duration = SOCKET_PATIENCE;
/// Longest header line, in bytes.
const LINE_LEN_MAX: u64 = 8192;
/// Most header lines.
const LINES_MAX: usize = 64;
/// Longest body in chunks, in bytes.
const CHUNKED_LEN_MAX: usize = 256 << 20;

/// An HTTP answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpAnswer {
    /// The status code.
    pub status: u16,
    /// The body.
    pub body: String,
}

/// A client of one address. The connection is opened by the first request.
#[derive(Debug)]
pub struct TestHttpClient {
    address: SocketAddr,
    /// The address of this machine that connections come from, if not the usual one.
    source: Option<IpAddr>,
    connection: Option<BufReader<TcpStream>>,
}

fn invalid(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.into())
}

impl TestHttpClient {
    /// Creates a client of `address`.
    pub const fn new(address: SocketAddr) -> Self {
        Self {
            address,
            source: None,
            connection: None,
        }
    }

    /// Creates a client of `address` that connects from the address `source` of this machine.
    pub const fn from_source(source: IpAddr, address: SocketAddr) -> Self {
        Self {
            address,
            source: Some(source),
            connection: None,
        }
    }

    /// Posts `body` as JSON.
    ///
    /// # Errors
    /// If the connection fails or the answer is not HTTP. The next request then opens a new
    /// connection.
    pub fn post(&mut self, body: &str) -> io::Result<HttpAnswer> {
        if let Some(open) = self.connection.take() {
            match self.post_on(open, body) {
                // The server may close a connection on which nothing was asked for long.
                Err(error) if has_ended(&error) => {}
                answered => return answered,
            }
        }
        let new = BufReader::new(connect_from(self.source, self.address)?);
        self.post_on(new, body)
    }

    fn post_on(&mut self, mut connection: BufReader<TcpStream>, body: &str) -> io::Result<HttpAnswer> {
        let request = format!(
            "POST / HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        );
        connection.get_mut().write_all(request.as_bytes())?;
        let (answer, keep) = read_answer(&mut connection)?;
        self.connection = keep.then_some(connection);
        Ok(answer)
    }
}

/// Whether the other end has closed the connection.
fn has_ended(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(
        error.kind(),
        BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof
    )
}

/// Gets `path` from `address` on a new connection.
///
/// # Errors
/// If the connection fails or the answer is not HTTP.
pub fn get(address: SocketAddr, path: &str) -> io::Result<HttpAnswer> {
    request(address, "GET", path, &address.to_string())
}

/// Sends a request without a body on a new connection. `host` is the value of the header `Host`.
///
/// # Errors
/// If the connection fails or the answer is not HTTP.
pub fn request(address: SocketAddr, method: &str, path: &str, host: &str) -> io::Result<HttpAnswer> {
    let mut connection = BufReader::new(connect_from(None, address)?);
    let request = format!("{method} {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    connection.get_mut().write_all(request.as_bytes())?;
    read_answer(&mut connection).map(|(answer, _)| answer)
}

/// Connects to `address`, from the address `source` of this machine if one is given.
///
/// # Errors
/// If nothing listens there, or the address is not this machine's.
pub fn connect_from(source: Option<IpAddr>, address: SocketAddr) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    if let Some(source) = source {
        socket.bind(&SocketAddr::new(source, 0).into())?;
    }
    socket.connect_timeout(&address.into(), TIMEOUT)?;
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Reads an answer. Also returns whether the connection stays open.
fn read_answer(connection: &mut impl BufRead) -> io::Result<(HttpAnswer, bool)> {
    let status = line(connection)?;
    let code = status
        .strip_prefix("HTTP/1.1 ")
        .and_then(|rest| rest.get(..3))
        .and_then(|code| code.parse().ok());
    let code = code.ok_or_else(|| invalid(format!("got {status:?}, expected a status line")))?;
    let (mut length, mut chunked, mut keep) = (None, false, true);
    for _ in 0..LINES_MAX {
        let header = line(connection)?;
        if header.is_empty() {
            let body = if chunked {
                read_chunks(connection)?
            } else {
                let length = length.ok_or_else(|| invalid("the answer has no length"))?;
                let mut body = vec![0; length];
                connection.read_exact(&mut body)?;
                body
            };
            let body = String::from_utf8(body).map_err(|error| invalid(error.to_string()))?;
            return Ok((HttpAnswer { status: code, body }, keep));
        }
        let (name, value) = header.split_once(':').unwrap_or((&header, ""));
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().ok(),
            "transfer-encoding" => chunked = value.trim().eq_ignore_ascii_case("chunked"),
            "connection" => keep = !value.trim().eq_ignore_ascii_case("close"),
            _ => {}
        }
    }
    Err(invalid("too many header lines"))
}

/// Reads a body in chunks, with the lines after it.
fn read_chunks(connection: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let size = line(connection)?;
        let digits = size.split(';').next().unwrap_or_default().trim();
        let size = usize::from_str_radix(digits, 16)
            .map_err(|_| invalid(format!("got {digits:?}, expected the length of a chunk")))?;
        if size == 0 {
            // Lines of a trailer, then an empty line.
            while !line(connection)?.is_empty() {}
            return Ok(body);
        }
        if size > CHUNKED_LEN_MAX - body.len() {
            return Err(invalid("the body is too long"));
        }
        let start = body.len();
        body.resize(start + size, 0);
        connection.read_exact(&mut body[start..])?;
        if !line(connection)?.is_empty() {
            return Err(invalid("a chunk is longer than it says"));
        }
    }
}

fn line(connection: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    connection.take(LINE_LEN_MAX).read_line(&mut line)?;
    match line.strip_suffix("\r\n") {
        Some(whole) => Ok(whole.to_owned()),
        None if line.is_empty() => Err(io::ErrorKind::UnexpectedEof.into()),
        None => Err(invalid(format!("got {line:?}, expected a header line"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<(u16, &str, bool)>) {
        let got = read_answer(&mut text.as_bytes()).ok();
        let expected = expected.map(|(status, body, keep)| {
            (
                HttpAnswer {
                    status,
                    body: body.to_owned(),
                },
                keep,
            )
        });
        assert_eq!(got, expected, "{text:?}");
    }

    #[test]
    fn answers_are_read_to_their_length() {
        check(
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}rest",
            Some((200, "{}", true)),
        );
        check(
            "HTTP/1.1 413 x\r\nconnection: close\r\ncontent-length: 0\r\n\r\n",
            Some((413, "", false)),
        );
        check("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n{}", None);
        check("HTTP/1.1 200 OK\r\n\r\n{}", None);
        let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        check(
            &format!("{chunked}3;x=y\r\n{{\"a\r\n1\r\n}}\r\n0\r\nx: y\r\n\r\nrest"),
            Some((200, "{\"a}", true)),
        );
        check(&format!("{chunked}2\r\n{{}}x\r\n0\r\n\r\n"), None);
        check(&format!("{chunked}zz\r\n"), None);
        check("nonsense\r\n\r\n", None);
        check("", None);
    }
}
