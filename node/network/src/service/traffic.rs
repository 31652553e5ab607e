//! Counts what connections carry.

use std::sync::atomic::{AtomicU64, Ordering};

/// The traffic of all connections since the start, or of one connection since its begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrafficCounters {
    /// Messages that peers have sent.
    pub messages_in: u64,
    /// Their bytes, after decompression.
    pub bytes_in: u64,
    /// Messages to peers.
    pub messages_out: u64,
    /// Their bytes, before compression.
    pub bytes_out: u64,
    /// Nodes that were dialled.
    pub dials: u64,
    /// Dials that failed, the handshake included.
    pub failed_dials: u64,
    /// Nodes that were not dialled, because their records say that they are of another network.
    pub foreign_nodes: u64,
    /// Messages that could not be decoded.
    pub bad_messages: u64,
    /// Messages that were left out: nobody has asked for them, the peer has sent more of the kind
    /// than its share or pauses, or there was no memory for them. Some were left out in part.
    pub messages_left_out: u64,
}

#[derive(Debug, Default)]
pub(super) struct TrafficCells {
    messages_in: AtomicU64,
    bytes_in: AtomicU64,
    messages_out: AtomicU64,
    bytes_out: AtomicU64,
    dials: AtomicU64,
    failed_dials: AtomicU64,
    foreign_nodes: AtomicU64,
    bad_messages: AtomicU64,
    messages_left_out: AtomicU64,
}

impl TrafficCells {
    pub(super) fn came(&self, bytes: usize) {
        self.messages_in.fetch_add(1, Ordering::Relaxed);
        self.bytes_in.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn went(&self, bytes: usize) {
        self.messages_out.fetch_add(1, Ordering::Relaxed);
        self.bytes_out.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn dialled(&self, is_connected: bool) {
        self.dials.fetch_add(1, Ordering::Relaxed);
        self.failed_dials
            .fetch_add(u64::from(!is_connected), Ordering::Relaxed);
    }

    pub(super) fn was_foreign(&self) {
        self.foreign_nodes.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn was_bad(&self) {
        self.bad_messages.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn was_left_out(&self) {
        self.messages_left_out.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn read(&self) -> TrafficCounters {
        let value = |cell: &AtomicU64| cell.load(Ordering::Relaxed);
        TrafficCounters {
            messages_in: value(&self.messages_in),
            bytes_in: value(&self.bytes_in),
            messages_out: value(&self.messages_out),
            bytes_out: value(&self.bytes_out),
            dials: value(&self.dials),
            failed_dials: value(&self.failed_dials),
            foreign_nodes: value(&self.foreign_nodes),
            bad_messages: value(&self.bad_messages),
            messages_left_out: value(&self.messages_left_out),
        }
    }
}
