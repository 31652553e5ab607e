//! Cuts a stream of bytes into JSON values.
//!
//! Finds where each value ends and nothing more. The reader of a value checks whether it is valid
//! JSON and a request. The stream remembers how far it has scanned, so each byte is scanned once
//! even if a value comes in many pieces. Knows no sockets.

use bytes::Bytes;

/// The reason why no further value can be found in a stream: the end of the bad value is unknown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValueStreamError {
    /// A byte with which no JSON value begins.
    #[error("byte 0x{0:02x} begins no JSON value")]
    Unexpected(u8),
    /// A value is nested too deeply.
    #[error("nested deeper than {0} levels")]
    TooDeep(usize),
    /// A value is too long.
    #[error("value longer than {0} bytes")]
    TooLong(usize),
}

/// Bytes that were received and not yet returned as values.
#[derive(Debug)]
pub struct ValueStream {
    buffer: Vec<u8>,
    start: usize,
    scanned: usize,
    state: ScanState,
    len_max: usize,
    depth_max: usize,
}

/// Which part of a value was scanned last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ScanState {
    /// Before the next value.
    Between,
    /// In a number or a word. Only the byte after it shows where it ends.
    Word,
    /// In this many nested arrays and objects.
    Nested(usize),
    /// In a string in this many nested arrays and objects. `true`: the next byte is escaped.
    Text(usize, bool),
}

impl ValueStream {
    /// A stream of values of at most `len_max` bytes and `depth_max` levels.
    pub const fn new(len_max: usize, depth_max: usize) -> Self {
        Self {
            buffer: Vec::new(),
            start: 0,
            scanned: 0,
            state: ScanState::Between,
            len_max,
            depth_max,
        }
    }

    /// Appends bytes that were received.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.start);
        self.scanned -= self.start;
        self.start = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the next whole value, or `None` if more bytes are needed.
    ///
    /// # Errors
    /// If no further value can be found. The stream cannot be used any more then.
    #[expect(
        clippy::should_implement_trait,
        reason = "an iterator ends at None, and this stream goes on after it"
    )]
    pub fn next(&mut self) -> Result<Option<Bytes>, ValueStreamError> {
        while let Some(byte) = self.buffer.get(self.scanned).copied() {
            if self.state == ScanState::Word && !is_word(byte) {
                return Ok(Some(self.take()));
            }
            self.step(byte)?;
            self.scanned += 1;
            let len = self.scanned - self.start;
            if self.state == ScanState::Between && len == 1 && is_space(byte) {
                // Space between values.
                self.start = self.scanned;
                continue;
            }
            if len > self.len_max {
                return Err(ValueStreamError::TooLong(self.len_max));
            }
            if self.state == ScanState::Between {
                // The last byte of a string, an array or an object.
                return Ok(Some(self.take()));
            }
        }
        Ok(None)
    }

    /// Returns what is left when the stream has ended. A number or a word is whole then. Anything
    /// else lacks its end, and its reader reports that.
    pub fn finish(&mut self) -> Option<Bytes> {
        (self.start < self.buffer.len()).then(|| {
            self.scanned = self.buffer.len();
            self.take()
        })
    }

    fn take(&mut self) -> Bytes {
        let value = Bytes::copy_from_slice(&self.buffer[self.start..self.scanned]);
        self.start = self.scanned;
        self.state = ScanState::Between;
        value
    }

    #[expect(
        clippy::match_same_arms,
        reason = "each arm is one transition, and their order counts"
    )]
    const fn step(&mut self, byte: u8) -> Result<(), ValueStreamError> {
        self.state = match (self.state, byte) {
            (ScanState::Between, byte) if is_space(byte) => ScanState::Between,
            (ScanState::Between, b'"') => ScanState::Text(0, false),
            (ScanState::Between, b'[' | b'{') => ScanState::Nested(1),
            (ScanState::Between | ScanState::Word, byte) if is_word(byte) => ScanState::Word,
            (ScanState::Between | ScanState::Word, byte) => return Err(ValueStreamError::Unexpected(byte)),
            (ScanState::Nested(depth), b'"') => ScanState::Text(depth, false),
            (ScanState::Nested(depth), b'[' | b'{') if depth >= self.depth_max => {
                return Err(ValueStreamError::TooDeep(self.depth_max));
            }
            (ScanState::Nested(depth), b'[' | b'{') => ScanState::Nested(depth + 1),
            (ScanState::Nested(1), b']' | b'}') => ScanState::Between,
            (ScanState::Nested(depth), b']' | b'}') => ScanState::Nested(depth - 1),
            (ScanState::Nested(depth), _) => ScanState::Nested(depth),
            (ScanState::Text(depth, true), _) => ScanState::Text(depth, false),
            (ScanState::Text(depth, false), b'\\') => ScanState::Text(depth, true),
            (ScanState::Text(0, false), b'"') => ScanState::Between,
            (ScanState::Text(depth, false), b'"') => ScanState::Nested(depth),
            (ScanState::Text(depth, false), _) => ScanState::Text(depth, false),
        };
        Ok(())
    }
}

const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

/// Whether `byte` occurs in numbers or in words such as `true`.
const fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cuts `text` into values, fed in pieces of each size in turn. Every size must give the same.
    #[track_caller]
    fn check(text: &str, expected: &[&str], end: Result<(), ValueStreamError>) {
        for size in 1..=text.len().max(1) {
            let mut stream = ValueStream::new(20, 4);
            let mut values = Vec::new();
            let mut result = Ok(());
            'feed: for piece in text.as_bytes().chunks(size) {
                stream.push(piece);
                loop {
                    match stream.next() {
                        Ok(Some(value)) => values.push(value),
                        Ok(None) => break,
                        Err(error) => {
                            result = Err(error);
                            break 'feed;
                        }
                    }
                }
            }
            if result.is_ok() {
                values.extend(stream.finish());
            }
            assert_eq!(values, expected, "in pieces of {size}");
            assert_eq!(result, end, "in pieces of {size}");
        }
    }

    #[test]
    fn values() {
        check("", &[], Ok(()));
        check(" \n\t", &[], Ok(()));
        check("{}[]", &["{}", "[]"], Ok(()));
        check(" {\"a\":[1,{}]}\n\n[2] ", &["{\"a\":[1,{}]}", "[2]"], Ok(()));
        check(r#"{"]}\"":"\\"}{}"#, &[r#"{"]}\"":"\\"}"#, "{}"], Ok(()));
        check(
            "1 true\"a b\"null-1.5e3",
            &["1", "true", "\"a b\"", "null-1.5e3"],
            Ok(()),
        );
        check("{\"half\":", &["{\"half\":"], Ok(()));
    }

    #[test]
    fn bounds() {
        check("{} }", &["{}"], Err(ValueStreamError::Unexpected(b'}')));
        check("\u{1}", &[], Err(ValueStreamError::Unexpected(1)));
        check("[[[[]]]]", &["[[[[]]]]"], Ok(()));
        check("[] [[[[[", &["[]"], Err(ValueStreamError::TooDeep(4)));
        check("\"123456789012345678\"", &["\"123456789012345678\""], Ok(()));
        check("\"1234567890123456789\"", &[], Err(ValueStreamError::TooLong(20)));
        check(
            "\"1234567890123456789012",
            &[],
            Err(ValueStreamError::TooLong(20)),
        );
        check("                              {}", &["{}"], Ok(()));
    }
}
