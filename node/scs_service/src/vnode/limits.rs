//! The limits of each client and of all clients.

use std::time::Duration;

use crate::wire::MESSAGE_LEN_MAX;

/// Default for the most connections.
pub const CONNECTIONS_MAX: usize = 1024;
/// Default for the most connections of one address.
pub const ADDRESS_CONNECTIONS_MAX: usize = 256;

/// Hashes of pushed messages that are remembered, and those of transactions for MicroChains: as
/// many as in the published node.
pub(super) const SEEN_MAX: usize = 32_768;
/// Transactions for MicroChains that wait to be pushed.
pub(super) const CALLS_WAITING_MAX: usize = 8192;
/// The time after which an SCS is pinged although the head has not risen. So an SCS that hears
/// nothing for longer knows that it has lost its VNODE.
pub(super) const PING_REPEAT: Duration = Duration::from_secs(10);
/// Bytes that HTTP/2 keeps of a stream that nobody reads, and of a connection.
pub(super) const STREAM_WINDOW: u32 = 256 << 10;
pub(super) const CONNECTION_WINDOW: u32 = 1 << 20;
/// Bytes of an answer that HTTP/2 keeps for a stream.
pub(super) const SEND_BUFFER_MAX: usize = 256 << 10;
/// Bytes of the headers of a request.
pub(super) const HEADERS_LEN_MAX: u32 = 16 << 10;
/// Resets of streams that a client may cause before its connection ends.
pub(super) const RESETS_MAX: usize = 64;
/// The part of a queue that broadcasts of other SCSs may fill. The rest is left for notices,
/// transactions and pings.
pub(super) const BROADCAST_PERCENT: usize = 75;
/// Most requests for storage in one `ChainInfo`.
pub(super) const STORAGE_REQUESTS_MAX: usize = 1024;
/// Most slots in the answer of one `ChainInfo`.
pub(super) const STORAGE_SLOTS_MAX: usize = 16_384;

/// The limits of the service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceLimits {
    /// Connections.
    pub connections_max: usize,
    /// Connections of one address.
    pub address_connections_max: usize,
    /// Streams and calls of one connection that are open at the same time. Libraries for gRPC put
    /// all SCSs of a machine on one connection, and each has two streams and a call: 512 are
    /// enough for 170 of them.
    pub streams_max: u32,
    /// Streams and calls of one address that are open at the same time, on all its connections.
    /// Each takes some kilobytes.
    pub address_streams_max: usize,
    /// Bytes of a message, in both directions.
    pub message_len_max: usize,
    /// Bytes of messages that are being received, worked on or answered, and of answers that are
    /// not sent yet, for all clients together.
    pub received_len_max: usize,
    /// Ids of SCSs that are connected.
    pub ids_max: usize,
    /// Ids of one address.
    pub address_ids_max: usize,
    /// Messages that wait for one SCS: as many as in the published node.
    pub queue_len_max: usize,
    /// Bytes of messages that wait for one SCS.
    pub queue_bytes_max: usize,
    /// Bytes of messages that wait, for all SCSs together.
    pub queued_bytes_max: usize,
    /// Uploaded blocks.
    pub uploads_max: usize,
    /// Bytes of uploaded blocks.
    pub upload_bytes_max: usize,
    /// The time for which an uploaded block is kept.
    pub upload_age_max: Duration,
    /// Calls that are answered at the same time.
    pub calls_max: usize,
    /// Calls of one address that are answered at the same time.
    pub address_calls_max: usize,
    /// The longest time that a call waits for its turn.
    pub call_wait_max: Duration,
    /// The longest time that a client may take to read an answer.
    pub answer_timeout: Duration,
    /// Broadcasts that are taken from one address in a second; the others wait.
    pub broadcasts_per_second: u32,
    /// The time for which a connection without a stream and without a call stays open.
    pub idle_timeout: Duration,
    /// The time after which a silent client is asked for a sign of life. The place of an SCS that
    /// proves nothing is free again when its old connection has not answered, so this is short.
    pub keep_alive: Duration,
    /// The longest time for the sign of life. A machine that is short of time needs some seconds.
    pub keep_alive_answer: Duration,
}

impl Default for ServiceLimits {
    fn default() -> Self {
        Self {
            connections_max: CONNECTIONS_MAX,
            address_connections_max: ADDRESS_CONNECTIONS_MAX,
            streams_max: 512,
            address_streams_max: 2048,
            message_len_max: MESSAGE_LEN_MAX,
            received_len_max: 128 << 20,
            ids_max: 4096,
            address_ids_max: 512,
            queue_len_max: 32_768,
            queue_bytes_max: 16 << 20,
            queued_bytes_max: 256 << 20,
            uploads_max: 8192,
            upload_bytes_max: 256 << 20,
            upload_age_max: Duration::from_secs(60 * 60),
            calls_max: 4,
            address_calls_max: 2,
            call_wait_max: Duration::from_secs(10),
            answer_timeout: Duration::from_secs(60),
            broadcasts_per_second: 1000,
            idle_timeout: Duration::from_secs(120),
            keep_alive: Duration::from_secs(5),
            keep_alive_answer: Duration::from_secs(10),
        }
    }
}
