//! Text of a message in pieces, with the memory that is reserved for it.
//!
//! A long text is never in one allocation: it grows piece by piece, and each piece is released as
//! soon as it was sent. A [`TextWriter`] reserves memory before it allocates, and stops when there
//! is none, when the text becomes too long, and when nobody waits for it any more. Small texts are
//! one short allocation.

use std::collections::VecDeque;
use std::{fmt, io};

use bytes::Bytes;
use chain::query_limit::CancelFlag;

use crate::traffic::{ClientMemory, FREE_LEN, MemoryReservation};

/// The most bytes of a piece.
pub(crate) const PIECE_LEN: usize = 64 * 1024;
/// The sizes to which the last piece grows.
const PIECE_STEPS: [usize; 5] = [128, FREE_LEN, 4 * 1024, 16 * 1024, PIECE_LEN];
/// Bytes that a piece takes in addition to its text. They are reserved where a text is moved,
/// because the pieces around it may be short.
const PIECE_OVERHEAD: usize = 256;
/// A text of at most this many bytes is copied when it is appended. A longer one is moved.
pub(crate) const COPY_LEN_MAX: usize = 16 * 1024;

/// A finished text.
#[derive(Default)]
pub(crate) struct Text {
    /// The pieces before the last one.
    full: VecDeque<Bytes>,
    last: Vec<u8>,
    /// The memory of `last`.
    reservation: MemoryReservation,
    len: usize,
}

/// A full piece with its memory.
struct TextPiece {
    bytes: Vec<u8>,
    _reservation: MemoryReservation,
}

impl AsRef<[u8]> for TextPiece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// The reason why a text was not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextError {
    /// The text is longer than allowed.
    TooLong,
    /// Too little memory is left for it.
    NoMemory,
    /// Nobody waits for it any more.
    Cancelled,
}

impl From<TextError> for io::Error {
    fn from(error: TextError) -> Self {
        match error {
            TextError::TooLong => io::ErrorKind::FileTooLarge.into(),
            TextError::NoMemory => io::ErrorKind::OutOfMemory.into(),
            TextError::Cancelled => io::ErrorKind::ConnectionAborted.into(),
        }
    }
}

impl Text {
    /// A text that others share. It takes no memory of its own.
    pub(crate) fn shared(text: &Bytes) -> Self {
        Self {
            len: text.len(),
            full: VecDeque::from([text.clone()]),
            ..Self::default()
        }
    }

    /// Bytes of the text.
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// Appends a few bytes, without memory reserved for them.
    pub(crate) fn push_end(&mut self, bytes: &[u8]) {
        debug_assert!(bytes.len() <= FREE_LEN, "a long end");
        if bytes.len() > self.last.capacity() - self.last.len() {
            self.seal();
        }
        self.last.extend_from_slice(bytes);
        self.len += bytes.len();
    }

    /// Ends the last piece.
    fn seal(&mut self) {
        let last = std::mem::take(&mut self.last);
        let reservation = std::mem::take(&mut self.reservation);
        if !last.is_empty() {
            self.full.push_back(sealed(last, reservation));
        }
    }

    /// The pieces. Each of them releases its memory when it is dropped.
    pub(crate) fn into_pieces(self) -> VecDeque<Bytes> {
        let mut text = self;
        text.seal();
        text.full
    }

    /// The pieces, borrowed.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        let last = (!self.last.is_empty()).then_some(self.last.as_slice());
        self.full.iter().map(AsRef::as_ref).chain(last)
    }

    /// The text in one piece, without the memory that was reserved for it.
    pub(crate) fn to_vec(&self) -> Vec<u8> {
        self.pieces().collect::<Vec<_>>().concat()
    }
}

/// Text that somebody else has allocated, without memory reserved for it.
impl From<Vec<u8>> for Text {
    fn from(last: Vec<u8>) -> Self {
        Self {
            len: last.len(),
            last,
            ..Self::default()
        }
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        String::from_utf8_lossy(&self.to_vec()).fmt(f)
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.pieces().flatten().eq(other.pieces().flatten())
    }
}

impl Eq for Text {}

fn sealed(mut bytes: Vec<u8>, mut reservation: MemoryReservation) -> Bytes {
    if bytes.len() < bytes.capacity() / 2 {
        bytes.shrink_to_fit();
        reservation.shrink(counted(bytes.capacity(), FREE_LEN) + PIECE_OVERHEAD);
    }
    Bytes::from_owner(TextPiece {
        bytes,
        _reservation: reservation,
    })
}

/// The bytes that are reserved for a piece of this capacity, if `free_len` bytes are free.
const fn counted(capacity: usize, free_len: usize) -> usize {
    if capacity > free_len { capacity } else { 0 }
}

/// Writes a text.
#[derive(Debug)]
pub(crate) struct TextWriter {
    text: Text,
    /// The memory that the text takes its own from. `None`: it is not counted.
    memory: Option<ClientMemory>,
    len_max: usize,
    /// A piece of at most this capacity is not counted.
    free_len: usize,
    /// Set when nobody waits for the text any more.
    cancelled: CancelFlag,
    error: Option<TextError>,
}

impl TextWriter {
    /// A text of at most `len_max` bytes with its memory reserved in `memory`.
    pub(crate) fn new(memory: Option<ClientMemory>, len_max: usize) -> Self {
        Self {
            text: Text::default(),
            memory,
            len_max,
            free_len: FREE_LEN,
            cancelled: CancelFlag::default(),
            error: None,
        }
    }

    /// The same text, which ends when `flag` is set.
    pub(crate) fn cancelled_by(mut self, flag: &CancelFlag) -> Self {
        self.cancelled = flag.clone();
        self
    }

    /// The same text, which is not counted as long as it takes at most `free_len` bytes.
    pub(crate) const fn free_up_to(mut self, free_len: usize) -> Self {
        self.free_len = free_len;
        self
    }

    /// Bytes written so far.
    pub(crate) const fn len(&self) -> usize {
        self.text.len
    }

    /// The reason why the last write failed.
    pub(crate) const fn error(&self) -> Option<TextError> {
        self.error
    }

    pub(crate) fn finish(self) -> Text {
        self.text
    }

    /// Appends `bytes`.
    ///
    /// # Errors
    /// [`TextError`] if they do not fit. Then a part of them may have been written.
    pub(crate) fn push(&mut self, mut bytes: &[u8]) -> Result<(), TextError> {
        let last = &mut self.text.last;
        if bytes.len() <= last.capacity() - last.len() && bytes.len() <= self.len_max - self.text.len {
            last.extend_from_slice(bytes);
            self.text.len += bytes.len();
            return Ok(());
        }
        while !bytes.is_empty() {
            self.make_room(bytes.len().min(PIECE_LEN / 2))?;
            let last = &mut self.text.last;
            let (now, later) = bytes.split_at(bytes.len().min(last.capacity() - last.len()));
            last.extend_from_slice(now);
            self.text.len += now.len();
            bytes = later;
        }
        Ok(())
    }

    /// Makes room for `len` more bytes, also if too little memory is left: then in a new short
    /// piece, which is not counted.
    pub(crate) fn always_make_room(&mut self, len: usize) {
        debug_assert!(len <= FREE_LEN, "more than a piece that is not counted");
        if self.make_room(len).is_err() {
            self.text.seal();
            self.text.last.reserve_exact(FREE_LEN);
        }
    }

    /// Makes room for `len` more bytes in the last piece.
    ///
    /// # Errors
    /// [`TextError`] if they do not fit.
    fn make_room(&mut self, len: usize) -> Result<(), TextError> {
        debug_assert!(len <= PIECE_LEN, "more than a piece");
        if len > self.len_max - self.text.len {
            return self.fail(TextError::TooLong);
        }
        let last = &mut self.text.last;
        let needed = last.len() + len;
        if needed <= last.capacity() {
            return Ok(());
        }
        if self.cancelled.is_cancelled() {
            return self.fail(TextError::Cancelled);
        }
        if needed > PIECE_LEN {
            self.text.seal();
        }
        let last = &mut self.text.last;
        let needed = last.len() + len;
        // A text that has filled a piece is long, so its next piece is a whole one.
        let is_long = !self.text.full.is_empty() && needed > FREE_LEN;
        let steps = PIECE_STEPS.into_iter();
        let step = steps.filter(|step| !is_long || *step == PIECE_LEN);
        let capacity = step.filter(|step| *step >= needed).min().unwrap_or(PIECE_LEN);
        if let Some(memory) = &self.memory {
            let counted = |capacity| counted(capacity, self.free_len);
            let more = counted(capacity).saturating_sub(counted(last.capacity()));
            if !memory.reserve(&mut self.text.reservation, more) {
                return self.fail(TextError::NoMemory);
            }
        }
        let last = &mut self.text.last;
        last.reserve_exact(capacity - last.len());
        Ok(())
    }

    /// Appends `before`, `text` and `after`, which is short.
    ///
    /// # Errors
    /// [`TextError`] if they do not fit. Then nothing is written, or a part of a `before` that is
    /// longer than half a piece.
    pub(crate) fn append(&mut self, before: &[u8], text: Text, after: &[u8]) -> Result<(), TextError> {
        let len = before.len() + text.len + after.len();
        if len > self.len_max - self.text.len {
            return self.fail(TextError::TooLong);
        }
        if len <= COPY_LEN_MAX {
            self.make_room(len)?;
            self.push(before)?;
            for piece in text.pieces() {
                self.push(piece)?;
            }
            return self.push(after);
        }
        if let Some(memory) = &self.memory
            && !memory.reserve(&mut self.text.reservation, PIECE_OVERHEAD)
        {
            return self.fail(TextError::NoMemory);
        }
        self.push(before)?;
        self.text.seal();
        self.text.len += text.len;
        self.text.full.extend(text.into_pieces());
        self.text.push_end(after);
        Ok(())
    }

    const fn fail<T>(&mut self, error: TextError) -> Result<T, TextError> {
        self.error = Some(error);
        Err(error)
    }
}

impl io::Write for TextWriter {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.push(bytes)?;
        Ok(bytes.len())
    }

    #[inline]
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        Ok(self.push(bytes)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use daemon::ClientId;

    use super::*;
    use crate::traffic::TrafficMemory;

    fn room(len: usize) -> (TrafficMemory, ClientMemory) {
        let traffic = TrafficMemory::new(len, 100);
        let client = traffic.client(ClientId::Local(0));
        (traffic, client)
    }

    fn written(memory: &ClientMemory, bytes: &[u8]) -> Text {
        let mut writer = TextWriter::new(Some(memory.clone()), usize::MAX);
        for chunk in bytes.chunks(777) {
            writer.push(chunk).expect("memory");
        }
        writer.finish()
    }

    fn sample(len: usize) -> Vec<u8> {
        (0..len).map(|index| (index % 251) as u8).collect()
    }

    #[test]
    fn memory_is_reserved_before_it_is_used_and_released_piece_by_piece() {
        let (traffic, memory) = room(10 * PIECE_LEN);
        for len in [
            0,
            1,
            127,
            128,
            FREE_LEN,
            FREE_LEN + 1,
            5000,
            PIECE_LEN,
            5 * PIECE_LEN + 3,
        ] {
            let bytes = sample(len);
            let text = written(&memory, &bytes);
            assert_eq!((text.len(), text.to_vec()), (len, bytes));
            let used = traffic.used();
            assert!(len <= FREE_LEN || used >= len, "{len} bytes: {used} reserved");
            assert!(used <= 4 * len, "{len} bytes: {used} reserved");
            let mut pieces = text.into_pieces();
            assert!(pieces.iter().all(|piece| piece.len() <= PIECE_LEN));
            while let Some(piece) = pieces.pop_front() {
                let before = traffic.used();
                let is_counted = piece.len() > FREE_LEN;
                drop(piece);
                assert!(!is_counted || traffic.used() < before, "a sent piece is released");
            }
            assert_eq!(traffic.used(), 0);
        }
    }

    #[test]
    fn a_text_ends_where_memory_or_length_ends() {
        let (traffic, memory) = room(3 * PIECE_LEN);
        let mut writer = TextWriter::new(Some(memory.clone()), usize::MAX);
        let chunk = sample(1000);
        let error = (0..).find_map(|_| writer.push(&chunk).err());
        assert_eq!(
            (error, writer.error()),
            (Some(TextError::NoMemory), Some(TextError::NoMemory))
        );
        assert!(writer.len() <= 3 * PIECE_LEN && traffic.used() <= 3 * PIECE_LEN);
        drop(writer);
        assert_eq!(traffic.used(), 0);

        let mut writer = TextWriter::new(Some(memory), 2500);
        assert!(writer.push(&chunk).is_ok() && writer.push(&chunk).is_ok());
        assert_eq!(writer.push(&chunk), Err(TextError::TooLong));
        assert!(writer.push(&chunk[..500]).is_ok(), "the last byte may be used");
        assert_eq!(writer.push(b"x"), Err(TextError::TooLong));
    }

    #[test]
    fn long_texts_are_moved_and_short_ones_copied() {
        let (traffic, memory) = room(100 * PIECE_LEN);
        let mut expected = Vec::new();
        let mut writer = TextWriter::new(Some(memory.clone()), usize::MAX);
        for len in [10, COPY_LEN_MAX, COPY_LEN_MAX + 1, 3 * PIECE_LEN, 0, 50_000, 70] {
            let bytes = sample(len);
            let text = written(&memory, &bytes);
            let before = traffic.used();
            writer.append(b"{", text, b"}").expect("memory");
            let more = traffic.used().saturating_sub(before);
            assert!(more <= PIECE_LEN, "{len} bytes took {more} more");
            expected.extend([b"{".as_slice(), &bytes, b"}"].concat());
        }
        let text = writer.finish();
        assert_eq!((text.len(), text.to_vec()), (expected.len(), expected));
        drop(text);
        assert_eq!(traffic.used(), 0);
    }

    #[test]
    fn a_text_that_does_not_fit_is_not_appended_at_all() {
        let (traffic, memory) = room(PIECE_LEN);
        let mut writer = TextWriter::new(Some(memory.clone()), usize::MAX);
        writer
            .append(b"[", Text::from(sample(100)), b"]")
            .expect("memory");
        let before = writer.len();
        let mut taken = MemoryReservation::default();
        assert!(memory.reserve(&mut taken, PIECE_LEN - traffic.used()));
        let copied = writer.append(b"[", Text::from(sample(5000)), b"]");
        let moved = writer.append(b"[", Text::shared(&sample(50_000).into()), b"]");
        assert_eq!(
            (copied, moved),
            (Err(TextError::NoMemory), Err(TextError::NoMemory))
        );
        assert_eq!(writer.len(), before);
        writer
            .append(b"[", Text::from(sample(100)), b"]")
            .expect("small texts fit");
        drop(taken);
        let shared = Bytes::from(sample(50_000));
        writer
            .append(b"[", Text::shared(&shared), b"]")
            .expect("a shared text needs no memory");
        assert!(traffic.used() < 5000, "{}", traffic.used());
    }
}
