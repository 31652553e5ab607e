//! The room in memory that requests being read and responses being sent share.
//!
//! Each has its own bound already; this one holds for all connections together, so that a thousand
//! clients that send or read slowly cannot each have their bound's worth. Whoever finds no room is
//! refused at once: waiting would hold what is there.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Room is given in pieces of this many bytes; what is shorter is not worth counting.
const PIECE_LEN: usize = 1024;

/// The room all connections share.
#[derive(Clone, Debug)]
pub(crate) struct Traffic(Arc<Semaphore>);

/// Room taken; given back when dropped.
#[derive(Debug, Default)]
pub(crate) struct Room(Option<OwnedSemaphorePermit>);

impl Traffic {
    pub(crate) fn new(len_max: usize) -> Self {
        Self(Arc::new(Semaphore::new(
            (len_max / PIECE_LEN).min(Semaphore::MAX_PERMITS),
        )))
    }

    /// Adds room for `len` bytes to `room`; `false` where there is none left.
    pub(crate) fn take(&self, room: &mut Room, len: usize) -> bool {
        let Ok(pieces) = u32::try_from(len / PIECE_LEN) else {
            return false;
        };
        if pieces == 0 {
            return true;
        }
        let Ok(more) = Arc::clone(&self.0).try_acquire_many_owned(pieces) else {
            return false;
        };
        match &mut room.0 {
            Some(room) => room.merge(more),
            none => *none = Some(more),
        }
        true
    }

    /// `text` as bytes that hold their room until the last of them is sent; `None` where there is no
    /// room left.
    pub(crate) fn hold(&self, text: Vec<u8>) -> Option<Bytes> {
        let mut room = Room::default();
        if !self.take(&mut room, text.len()) {
            return None;
        }
        Some(match room.0 {
            None => text.into(),
            Some(_) => Bytes::from_owner(Held { text, _room: room }),
        })
    }
}

/// Text with the room it takes up.
struct Held {
    text: Vec<u8>,
    _room: Room,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_comes_back() {
        let traffic = Traffic::new(10 * PIECE_LEN);
        let mut room = Room::default();
        assert!(traffic.take(&mut room, 4 * PIECE_LEN) && traffic.take(&mut room, 2 * PIECE_LEN));
        assert!(traffic.hold(vec![0; 5 * PIECE_LEN]).is_none());
        assert!(
            traffic.hold(vec![0; PIECE_LEN - 1]).is_some(),
            "what is short is not counted"
        );
        let held = traffic.hold(vec![7; 4 * PIECE_LEN]).expect("just enough");
        assert_eq!(held, vec![7; 4 * PIECE_LEN]);
        assert!(!traffic.take(&mut room, PIECE_LEN));
        drop(held);
        drop(room);
        assert!(traffic.hold(vec![0; 10 * PIECE_LEN]).is_some());
    }
}
