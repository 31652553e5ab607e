//! Why an endpoint gives no work. None of these ends the process: another endpoint is tried, or the
//! same again.

use std::io;
use std::time::Duration;

use ethash::B256;
use stratum::LineError;
use stratum::client::SessionError;

use super::TlsError;

/// See the module.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// There is no connection.
    #[error("cannot connect: {0}")]
    Connect(io::Error),
    /// TLS failed.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The connection broke.
    #[error("connection lost: {0}")]
    Lost(io::Error),
    /// The other side closed the connection.
    #[error("the other side closed the connection")]
    Closed,
    /// Nothing came in time.
    #[error("{what} not within {after:?}")]
    Timeout {
        /// What was waited for.
        what: &'static str,
        /// How long.
        after: Duration,
    },
    /// The work has not changed for too long.
    #[error("no new work within {after:?}, still {header_hash}")]
    NoNewWork {
        /// The header that was given all the time.
        header_hash: B256,
        /// How long.
        after: Duration,
    },
    /// HTTP went wrong.
    #[error("HTTP failed: {0}")]
    Http(String),
    /// Another status than 200.
    #[error("HTTP status {got}, expected 200")]
    Status {
        /// The status.
        got: u16,
    },
    /// The node answers with an error.
    #[error("{method}: {message} ({code})")]
    Refused {
        /// What was called.
        method: String,
        /// JSON-RPC's code.
        code: i64,
        /// The node's words.
        message: String,
    },
    /// The answer is not what it should be.
    #[error("{what}: got {got}, expected {expected}")]
    Answer {
        /// Which part of it.
        what: &'static str,
        /// What stood there.
        got: String,
        /// What should have.
        expected: &'static str,
    },
    /// A line too long.
    #[error(transparent)]
    Line(#[from] LineError),
    /// The conversation with a pool failed.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The pool speaks none of the dialects.
    #[error("the pool speaks no dialect known here; the last one tried: {0}")]
    NoDialect(Box<Self>),
    /// The pool has ended the session.
    #[error("the pool ended the session")]
    Bye,
    /// The pool asks to be left for another address.
    #[error("the pool asks to reconnect to {host}:{port}")]
    Moved {
        /// The host.
        host: String,
        /// The port.
        port: u16,
        /// Not before this time has passed.
        wait: Duration,
    },
}

impl ClientError {
    /// A value of the wrong kind, shortened for the log.
    pub(super) fn answer(what: &'static str, got: &impl ToString, expected: &'static str) -> Self {
        Self::Answer {
            what,
            got: printable(&got.to_string(), 80),
            expected,
        }
    }
}

/// Another's words, fit for a log and a terminal: without control characters, and of `length`
/// characters at most.
pub(super) fn printable(words: &str, length: usize) -> String {
    let printed = words.chars().filter(|character| !character.is_control());
    printed.take(length).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_send_cannot_command_a_terminal() {
        let error = ClientError::answer("response", &"\x1b[2Jno\r\n\u{9b}31m", "work");
        assert_eq!(error.to_string(), "response: got [2Jno31m, expected work");
        assert_eq!(printable("abc\0def", 4), "abcd");
    }
}
