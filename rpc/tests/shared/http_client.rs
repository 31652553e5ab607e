//! One HTTP request on a connection of its own, as bytes.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Posts `body` as JSON. Returns the body of the response, whose status must be 200.
pub(crate) fn post(address: SocketAddr, body: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("the server listens");
    let timeout = Some(Duration::from_secs(20));
    stream.set_read_timeout(timeout).expect("a valid timeout");
    write!(
        stream,
        "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .expect("the server reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer in time");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a response");
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    body.to_owned()
}
