//! The memory that requests being read and responses being sent share.
//!
//! Each request and each response has a bound of its own. This bound holds for all connections
//! together, so that a thousand slow clients cannot each fill their own bound. A request that finds
//! too little memory left is refused at once. If it waited, it would hold the memory that it has
//! already.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Memory is reserved in pieces of this many bytes. A text shorter than a piece is not counted.
const PIECE_LEN: usize = 1024;

/// The memory that all connections share.
#[derive(Clone, Debug)]
pub(crate) struct TrafficMemory(Arc<Semaphore>);

/// Reserved memory. It is released when the reservation is dropped.
#[derive(Debug, Default)]
pub(crate) struct MemoryReservation(Option<OwnedSemaphorePermit>);

impl TrafficMemory {
    pub(crate) fn new(len_max: usize) -> Self {
        Self(Arc::new(Semaphore::new(
            (len_max / PIECE_LEN).min(Semaphore::MAX_PERMITS),
        )))
    }

    /// Adds `len` bytes to `reservation`. Returns whether that much was left.
    pub(crate) fn reserve(&self, reservation: &mut MemoryReservation, len: usize) -> bool {
        let Ok(pieces) = u32::try_from(len / PIECE_LEN) else {
            return false;
        };
        if pieces == 0 {
            return true;
        }
        let Ok(more) = Arc::clone(&self.0).try_acquire_many_owned(pieces) else {
            return false;
        };
        match &mut reservation.0 {
            Some(permit) => permit.merge(more),
            none => *none = Some(more),
        }
        true
    }

    /// `text` with memory reserved for it. Returns `None` if too little memory is left.
    pub(crate) fn reserve_text(&self, text: Vec<u8>) -> Option<ReservedText> {
        let mut reservation = MemoryReservation::default();
        self.reserve(&mut reservation, text.len())
            .then_some(ReservedText { text, reservation })
    }
}

impl MemoryReservation {
    /// Releases what `len` bytes do not need.
    fn shrink(&mut self, len: usize) {
        if let Some(permit) = &mut self.0 {
            let surplus = permit.num_permits().saturating_sub(len / PIECE_LEN);
            drop(permit.split(surplus));
        }
    }
}

/// Text with the memory reserved for it.
#[derive(Debug, Default)]
pub(crate) struct ReservedText {
    text: Vec<u8>,
    reservation: MemoryReservation,
}

impl ReservedText {
    /// The same text in another, shorter form, with a smaller reservation.
    pub(crate) fn replace(mut self, text: Vec<u8>) -> Self {
        self.text = text;
        self.reservation.shrink(self.text.len());
        self
    }
}

/// The bytes keep their reservation until the last of them is sent.
impl From<ReservedText> for Bytes {
    fn from(reserved: ReservedText) -> Self {
        match reserved.reservation.0 {
            None => reserved.text.into(),
            Some(_) => Self::from_owner(reserved),
        }
    }
}

impl AsRef<[u8]> for ReservedText {
    fn as_ref(&self) -> &[u8] {
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_released() {
        let traffic = TrafficMemory::new(10 * PIECE_LEN);
        let mut reservation = MemoryReservation::default();
        assert!(
            traffic.reserve(&mut reservation, 4 * PIECE_LEN)
                && traffic.reserve(&mut reservation, 2 * PIECE_LEN)
        );
        assert!(traffic.reserve_text(vec![0; 5 * PIECE_LEN]).is_none());
        assert!(
            traffic.reserve_text(vec![0; PIECE_LEN - 1]).is_some(),
            "a short text is not counted"
        );
        let text = traffic.reserve_text(vec![7; 4 * PIECE_LEN]).expect("just enough");
        let text = Bytes::from(text);
        assert_eq!(text, vec![7; 4 * PIECE_LEN]);
        assert!(!traffic.reserve(&mut reservation, PIECE_LEN));
        drop(text);
        drop(reservation);
        assert!(traffic.reserve_text(vec![0; 10 * PIECE_LEN]).is_some());
    }

    #[test]
    fn a_shorter_form_releases_memory() {
        let traffic = TrafficMemory::new(10 * PIECE_LEN);
        let free = || {
            (0..=10)
                .rev()
                .find(|pieces| traffic.reserve_text(vec![0; pieces * PIECE_LEN]).is_some())
        };
        let text = traffic.reserve_text(vec![0; 8 * PIECE_LEN]).expect("enough");
        assert_eq!(free(), Some(2));
        let text = text.replace(vec![1; 3 * PIECE_LEN]);
        assert_eq!(free(), Some(7));
        let text = Bytes::from(text.replace(vec![2; PIECE_LEN - 1]));
        assert_eq!((free(), text.len()), (Some(10), PIECE_LEN - 1));
    }
}
