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

    /// `text` with the room it takes up; `None` where there is none left.
    pub(crate) fn hold(&self, text: Vec<u8>) -> Option<Held> {
        let mut room = Room::default();
        self.take(&mut room, text.len()).then_some(Held { text, room })
    }
}

impl Room {
    /// Gives back what `len` bytes do not need.
    fn shrink(&mut self, len: usize) {
        if let Some(room) = &mut self.0 {
            let surplus = room.num_permits().saturating_sub(len / PIECE_LEN);
            drop(room.split(surplus));
        }
    }
}

/// Text with the room it takes up.
#[derive(Debug, Default)]
pub(crate) struct Held {
    text: Vec<u8>,
    room: Room,
}

impl Held {
    /// Another, shorter form of what is held, which needs less room.
    pub(crate) fn replace(mut self, text: Vec<u8>) -> Self {
        self.text = text;
        self.room.shrink(self.text.len());
        self
    }
}

/// Bytes that hold their room until the last of them is sent.
impl From<Held> for Bytes {
    fn from(held: Held) -> Self {
        match held.room.0 {
            None => held.text.into(),
            Some(_) => Self::from_owner(held),
        }
    }
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
        let held = Bytes::from(held);
        assert_eq!(held, vec![7; 4 * PIECE_LEN]);
        assert!(!traffic.take(&mut room, PIECE_LEN));
        drop(held);
        drop(room);
        assert!(traffic.hold(vec![0; 10 * PIECE_LEN]).is_some());
    }

    #[test]
    fn a_shorter_form_needs_less_room() {
        let traffic = Traffic::new(10 * PIECE_LEN);
        let free = || {
            (0..=10)
                .rev()
                .find(|pieces| traffic.hold(vec![0; pieces * PIECE_LEN]).is_some())
        };
        let held = traffic.hold(vec![0; 8 * PIECE_LEN]).expect("enough");
        assert_eq!(free(), Some(2));
        let held = held.replace(vec![1; 3 * PIECE_LEN]);
        assert_eq!(free(), Some(7));
        let held = Bytes::from(held.replace(vec![2; PIECE_LEN - 1]));
        assert_eq!((free(), held.len()), (Some(10), PIECE_LEN - 1));
    }
}
