//! The reasons why an endpoint gives no work. None of these errors ends the process: the client
//! tries another endpoint, or the same one again.

use std::io;
use std::time::Duration;

use daemon::tls::TlsError;
use engine::EpochRefusal;
use ethash::B256;
use stratum::LineTooLong;
use stratum::client::ClientSessionError;

/// The reasons why an endpoint gives no work.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The connection cannot be made.
    #[error("cannot connect: {0}")]
    Connect(io::Error),
    /// No address of the endpoint's name takes a connection.
    #[error("cannot connect: {last} (addresses tried: {tried})")]
    NoAddress {
        /// The number of addresses that were tried.
        tried: usize,
        /// The last fault.
        last: io::Error,
    },
    /// TLS failed.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The connection has broken.
    #[error("connection lost: {0}")]
    Lost(io::Error),
    /// The other side has closed the connection.
    #[error("the other side closed the connection")]
    Closed,
    /// Nothing came in time.
    #[error("timed out after {after:?} waiting for {what}")]
    Timeout {
        /// The missing event.
        what: &'static str,
        /// The time limit.
        after: Duration,
    },
    /// The work has not changed for too long.
    #[error("no new work for {after:?}, still header hash {header_hash}")]
    NoNewWork {
        /// The header hash of the unchanged work.
        header_hash: B256,
        /// The time limit.
        after: Duration,
    },
    /// An HTTP exchange has failed.
    #[error("HTTP failed: {0}")]
    Http(String),
    /// The HTTP status is not 200.
    #[error("HTTP status: got {got}, expected 200")]
    Status {
        /// The status.
        got: u16,
    },
    /// The node has answered with a JSON-RPC error.
    #[error("{method}: {message} ({code})")]
    Refused {
        /// The called method.
        method: String,
        /// The JSON-RPC error code.
        code: i64,
        /// The error message of the node.
        message: String,
    },
    /// A value in an answer is wrong.
    #[error("{what}: got {got}, expected {expected}")]
    Answer {
        /// The name of the value.
        what: &'static str,
        /// The actual value.
        got: String,
        /// The expected form.
        expected: &'static str,
    },
    /// A line from the pool is too long.
    #[error(transparent)]
    Line(#[from] LineTooLong),
    /// The session with a pool must end.
    #[error(transparent)]
    Session(#[from] ClientSessionError),
    /// The pool speaks none of the known dialects.
    #[error("the pool speaks no known dialect; error of the last one tried: {0}")]
    NoDialect(Box<Self>),
    /// Too many messages were skipped.
    #[error("odd messages: got {got} {what}, expected at most {max}; the last: {last}")]
    OddMessages {
        /// The number of messages.
        got: usize,
        /// The name and the place of the bytes.
        what: &'static str,
        /// The limit.
        max: usize,
        /// The fault of the last one.
        last: String,
    },
    /// No chain has this epoch.
    #[error("epoch: got {got}, expected at most {max}, which no public chain has reached")]
    EpochTooHigh {
        /// The epoch of the job.
        got: u32,
        /// The limit.
        max: u32,
    },
    /// The epoch is far from those of the last hour.
    #[error(
        "epoch: got {got} with {steps} seed steps, expected {min} to {max} seed steps, near the last hour's; a new \
         session may begin with another epoch"
    )]
    EpochTooFar {
        /// The epoch of the job.
        got: u32,
        /// Its seed steps, one for every 30,000 blocks.
        steps: u32,
        /// The fewest accepted seed steps.
        min: u32,
        /// The most accepted seed steps.
        max: u32,
    },
    /// The endpoint changes between far epochs too often.
    #[error("changes to a far epoch: got {got} within an hour, expected at most {max}")]
    EpochChanges {
        /// The number of changes.
        got: usize,
        /// The limit.
        max: usize,
    },
    /// The devices have too little memory for the epoch.
    #[error("epoch {got} cannot be searched here: {reason}")]
    EpochTooLarge {
        /// The epoch of the job.
        got: u32,
        /// The part that is too small.
        reason: EpochRefusal,
    },
    /// The rig works in vain.
    #[error("the rig wants a new connection")]
    Fruitless,
    /// The pool has ended the session.
    #[error("the pool ended the session")]
    Bye,
    /// The pool asks the miner to connect to another address.
    #[error("the pool asks to reconnect to {host}:{port}")]
    Redirected {
        /// The new host.
        host: String,
        /// The new port.
        port: u16,
        /// The time to wait before that.
        wait: Duration,
    },
}

impl ClientError {
    /// The error for a value of the wrong form. The value is shortened for the log.
    pub(super) fn answer(what: &'static str, got: &impl ToString, expected: &'static str) -> Self {
        Self::Answer {
            what,
            got: printable(&got.to_string(), 80),
            expected,
        }
    }
}

/// A text from the other side, made safe for log and terminal: without control characters, and at
/// most `len_max` characters long.
pub(super) fn printable(text: &str, len_max: usize) -> String {
    let printed = text.chars().filter(|character| !character.is_control());
    printed.take(len_max).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_others_cannot_control_a_terminal() {
        let error = ClientError::answer("response", &"\x1b[2Jno\r\n\u{9b}31m", "work");
        assert_eq!(error.to_string(), "response: got [2Jno31m, expected work");
        assert_eq!(printable("abc\0def", 4), "abcd");
    }
}
