//! Every bound of the servers, by name, with its default.
//!
//! The bounds protect the node from careless or hostile clients. A well-behaved request never meets
//! them. The bounds of single methods, such as block ranges and filters, are in the files of those
//! methods.

use std::time::Duration;

use alloy_primitives::U256;

/// Default of [`Limits::body_len_max`]: 5 MiB.
pub const BODY_LEN_MAX: usize = 5 * 1024 * 1024;
/// The most sha that the gas of a transaction may cost which the node signs under Ethereum's names:
/// a coin.
pub(crate) const FEE_MAX_DEFAULT: U256 = U256::from_limbs([1_000_000_000_000_000_000, 0, 0, 0]);
/// Default of [`Limits::response_len_max`]: 64 MiB.
pub const RESPONSE_LEN_MAX: usize = 64 * 1024 * 1024;
/// Default of [`Limits::batch_len_max`].
pub const BATCH_LEN_MAX: usize = 1000;
/// Default of [`Limits::depth_max`].
pub const DEPTH_MAX: usize = 64;
/// Default of [`Limits::connections_max`].
pub const CONNECTIONS_MAX: usize = 1024;
/// Default of [`Limits::ipc_connections_max`].
pub(crate) const IPC_CONNECTIONS_MAX: usize = 64;
/// Default of [`Limits::blocking_calls_max`].
pub(crate) const BLOCKING_CALLS_MAX: usize = 32;
/// Default of [`Limits::heavy_calls_max`].
pub(crate) const HEAVY_CALLS_MAX: usize = 4;
/// Default of [`Limits::connection_calls_max`]: half of `BLOCKING_CALLS_MAX`, so that no single
/// connection takes all threads.
pub const CONNECTION_CALLS_MAX: usize = BLOCKING_CALLS_MAX / 2;
/// Default of [`Limits::header_timeout`].
pub const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// Default of [`Limits::body_timeout`].
pub const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// Default of [`Limits::request_timeout`].
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Default of [`Limits::idle_timeout`].
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(120);
/// Default of [`Limits::write_timeout`].
pub const WRITE_TIMEOUT: Duration = Duration::from_secs(20);
/// Default of [`Limits::subscriptions_max`].
pub const SUBSCRIPTIONS_MAX: usize = 1024;
/// Default of [`Limits::traffic_len_max`]: 512 MiB.
pub const TRAFFIC_LEN_MAX: usize = 512 * 1024 * 1024;
/// Default of [`Limits::client_share_percent`].
pub const CLIENT_SHARE_PERCENT: usize = 50;
/// Default of [`Limits::waiting_calls_max`].
pub const WAITING_CALLS_MAX: usize = 1024;
/// Default of [`Limits::read_rate_min`]: 128 KiB a second.
pub const READ_RATE_MIN: usize = 128 * 1024;
/// Default of the longest time that a search for logs may take.
pub const LOGS_TIMEOUT: Duration = Duration::from_secs(10);
/// Default of the longest time that a trace may take.
pub const TRACE_TIMEOUT_MAX: Duration = Duration::from_secs(10);
/// Default of [`Limits::ready_age_max`]: more than twenty blocks of a usual network.
pub const READY_AGE_MAX: Duration = Duration::from_secs(300);
/// Default of [`Limits::stop_grace`].
pub const STOP_GRACE: Duration = Duration::from_secs(2);

/// The bounds of one node's servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest request body, or the longest single JSON value on a stream, in bytes.
    pub body_len_max: usize,
    /// The longest response in bytes. When a batch has reached it, the remaining requests are
    /// answered with an error and not run.
    pub response_len_max: usize,
    /// The most requests in one batch.
    pub batch_len_max: usize,
    /// The deepest nesting of arrays and objects in a request.
    pub depth_max: usize,
    /// The most open connections of the HTTP server, and of the WebSocket server. One more takes
    /// the place of an idle one ([`daemon::Places`] chooses it). If none is idle, it gets the
    /// status 503 and is closed.
    pub connections_max: usize,
    /// The most open connections of the local socket. One more takes the place of the connection
    /// that is idle longest. If none is idle, it is closed.
    pub ipc_connections_max: usize,
    /// The most calls that read the disk at the same time. Others wait.
    pub blocking_calls_max: usize,
    /// The most calls that execute code at the same time. Others wait.
    pub heavy_calls_max: usize,
    /// The most calls that wait for one of these two. One more is refused.
    pub waiting_calls_max: usize,
    /// The part of the connections, of the waiting calls, and of the memory for messages that no
    /// other client has, that one client address may have, in percent.
    pub client_share_percent: usize,
    /// The most messages of one WebSocket, or of one connection on the local socket, that are
    /// answered at the same time. The next message is not read before one of them is answered.
    pub connection_calls_max: usize,
    /// The time from the first byte of a request, or from the start of the connection, to the end
    /// of the header.
    pub header_timeout: Duration,
    /// The time for the whole request body.
    pub body_timeout: Duration,
    /// The time for the work on one message, which is a request or a batch.
    pub request_timeout: Duration,
    /// The time that a connection may pass without a byte in either direction. It is longer than
    /// the body and request time-outs together, so that it ends no request that they allow.
    pub idle_timeout: Duration,
    /// The age of the head up to which a node is ready, see `GET /ready`.
    pub ready_age_max: Duration,
    /// The time that a client has to read one answer or notification. If it reads at
    /// [`Limits::read_rate_min`], it gets the same time again. A client that is slower is
    /// disconnected.
    pub write_timeout: Duration,
    /// The least rate, in bytes a second, at which a client must read a message that it has not
    /// read after [`Limits::write_timeout`].
    pub read_rate_min: usize,
    /// The most subscriptions of one connection.
    pub subscriptions_max: usize,
    /// The most bytes in memory of all requests that are being read or answered, and of all
    /// responses and notifications that are being made or sent, over all connections. An eighth of
    /// it is left for the local socket.
    pub traffic_len_max: usize,
    /// The time that running requests have to finish when a server stops.
    pub stop_grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_len_max: BODY_LEN_MAX,
            response_len_max: RESPONSE_LEN_MAX,
            batch_len_max: BATCH_LEN_MAX,
            depth_max: DEPTH_MAX,
            connections_max: CONNECTIONS_MAX,
            ipc_connections_max: IPC_CONNECTIONS_MAX,
            blocking_calls_max: BLOCKING_CALLS_MAX,
            heavy_calls_max: HEAVY_CALLS_MAX,
            waiting_calls_max: WAITING_CALLS_MAX,
            client_share_percent: CLIENT_SHARE_PERCENT,
            connection_calls_max: CONNECTION_CALLS_MAX,
            header_timeout: HEADER_TIMEOUT,
            body_timeout: BODY_TIMEOUT,
            request_timeout: REQUEST_TIMEOUT,
            idle_timeout: IDLE_TIMEOUT,
            write_timeout: WRITE_TIMEOUT,
            read_rate_min: READ_RATE_MIN,
            ready_age_max: READY_AGE_MAX,
            subscriptions_max: SUBSCRIPTIONS_MAX,
            traffic_len_max: TRAFFIC_LEN_MAX,
            stop_grace: STOP_GRACE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_time_covers_a_whole_request() {
        let limits = Limits::default();
        assert!(limits.idle_timeout > limits.body_timeout + limits.request_timeout);
    }
}
