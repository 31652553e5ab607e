//! Every bound the servers keep, by name, with its default.
//!
//! A bound protects the node from a client that is careless or hostile; none of them changes what
//! a well-behaved request is answered. Bounds of single methods (block ranges, filters) live
//! beside those methods.

use std::time::Duration;

/// Default of [`Limits::body_len_max`]: 5 MiB.
pub const BODY_LEN_MAX: usize = 5 * 1024 * 1024;
/// Default of [`Limits::response_len_max`]: 64 MiB.
pub const RESPONSE_LEN_MAX: usize = 64 * 1024 * 1024;
/// Default of [`Limits::batch_len_max`].
pub const BATCH_LEN_MAX: usize = 1000;
/// Default of [`Limits::depth_max`].
pub const DEPTH_MAX: usize = 64;
/// Default of [`Limits::connections_max`].
pub const CONNECTIONS_MAX: usize = 1024;
/// Default of [`Limits::ipc_connections_max`].
pub const IPC_CONNECTIONS_MAX: usize = 64;
/// Default of [`Limits::blocking_calls_max`].
pub const BLOCKING_CALLS_MAX: usize = 32;
/// Default of [`Limits::heavy_calls_max`].
pub const HEAVY_CALLS_MAX: usize = 4;
/// Default of [`Limits::connection_calls_max`]: half of [`BLOCKING_CALLS_MAX`], so that no single
/// connection takes all the threads there are.
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
/// Default of [`Limits::stop_grace`].
pub const STOP_GRACE: Duration = Duration::from_secs(2);

/// The bounds of one node's servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest request body, or longest single value on a stream, in bytes.
    pub body_len_max: usize,
    /// Longest response in bytes; batch members past it are answered with an error, not run.
    pub response_len_max: usize,
    /// Most requests in one batch.
    pub batch_len_max: usize,
    /// Deepest nesting of arrays and objects in a request.
    pub depth_max: usize,
    /// Most open connections of the HTTP server, and of the WebSocket server; one more is told 503 and closed.
    pub connections_max: usize,
    /// Most open connections of the local channel; one more is closed.
    pub ipc_connections_max: usize,
    /// Most calls that read the disk at the same time; others wait for their turn.
    pub blocking_calls_max: usize,
    /// Most calls that execute code at the same time; others wait for their turn.
    pub heavy_calls_max: usize,
    /// Most messages of one WebSocket, or of one connection on the local channel, that are answered
    /// side by side; the next is not read before one of them is answered.
    pub connection_calls_max: usize,
    /// Time from the first byte of a request, or from the start of the connection, to the end of
    /// the header.
    pub header_timeout: Duration,
    /// Time for the whole request body.
    pub body_timeout: Duration,
    /// Time to work on one message, batch or single.
    pub request_timeout: Duration,
    /// Time a connection may go without a byte in either direction. Longer than the body and
    /// request time-outs together, so that it ends no request that they allow.
    pub idle_timeout: Duration,
    /// Time for a client to take in one answer or notification on a connection that lasts.
    pub write_timeout: Duration,
    /// Most subscriptions of one connection.
    pub subscriptions_max: usize,
    /// Most bytes of requests being read or answered and of responses being sent, of all connections
    /// together.
    pub traffic_len_max: usize,
    /// Time that requests under way are given when a server stops.
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
            connection_calls_max: CONNECTION_CALLS_MAX,
            header_timeout: HEADER_TIMEOUT,
            body_timeout: BODY_TIMEOUT,
            request_timeout: REQUEST_TIMEOUT,
            idle_timeout: IDLE_TIMEOUT,
            write_timeout: WRITE_TIMEOUT,
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
