//! Cuts a stream of bytes into JSON values.
//!
//! Finds where each value ends and nothing more: whether it is valid JSON, and a request, is for
//! its reader to say. Remembers how far it has looked, so a value that comes in many pieces is
//! scanned once.

use bytes::Bytes;

/// Why no further value can be found in a stream. What follows cannot be told apart any more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// A byte that begins no JSON value.
    #[error("byte 0x{0:02x} begins no JSON value")]
    Unexpected(u8),
    /// A value nests too deep.
    #[error("nested deeper than {0} levels")]
    TooDeep(usize),
    /// A value is too long.
    #[error("value longer than {0} bytes")]
    TooLong(usize),
}

/// Bytes received and not yet given out as values.
#[derive(Debug)]
pub struct ValueStream {
    buffer: Vec<u8>,
    start: usize,
    scanned: usize,
    state: State,
    len_max: usize,
    depth_max: usize,
}

/// Where in a value the scan stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Before the next value.
    Between,
    /// In a number or a word, which only the byte after it ends.
    Word,
    /// Inside so many arrays and objects.
    Nested(usize),
    /// In a string inside so many arrays and objects; whether the next byte is escaped.
    Text(usize, bool),
}

impl ValueStream {
    /// A stream of values of at most this length and depth.
    pub fn new(len_max: usize, depth_max: usize) -> Self {
        Self {
            buffer: Vec::new(),
            start: 0,
            scanned: 0,
            state: State::Between,
            len_max,
            depth_max,
        }
    }

    /// Takes in what has been received.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.start);
        self.scanned -= self.start;
        self.start = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole value; `None` until more bytes come.
    ///
    /// # Errors
    /// If no value can follow. The stream is of no further use then.
    #[expect(
        clippy::should_implement_trait,
        reason = "an iterator would end where this waits for more"
    )]
    pub fn next(&mut self) -> Result<Option<Bytes>, StreamError> {
        while let Some(byte) = self.buffer.get(self.scanned).copied() {
            let ends_before = self.state == State::Word && !is_word(byte);
            if !ends_before {
                self.step(byte)?;
                self.scanned += 1;
                let len = self.scanned - self.start;
                if self.state == State::Between && len == 1 && is_space(byte) {
                    // Between values.
                    self.start = self.scanned;
                    continue;
                }
                if len > self.len_max {
                    return Err(StreamError::TooLong(self.len_max));
                }
                if self.state == State::Between {
                    // The last byte of a value that knows its end.
                    return Ok(Some(self.take()));
                }
                continue;
            }
            return Ok(Some(self.take()));
        }
        Ok(None)
    }

    /// What is left when the stream has ended: a number or word is whole then, and of anything
    /// else the missing end is worth an error.
    pub fn finish(&mut self) -> Option<Bytes> {
        (self.start < self.buffer.len()).then(|| {
            self.scanned = self.buffer.len();
            self.take()
        })
    }

    fn take(&mut self) -> Bytes {
        let value = Bytes::copy_from_slice(&self.buffer[self.start..self.scanned]);
        self.start = self.scanned;
        self.state = State::Between;
        value
    }

    fn step(&mut self, byte: u8) -> Result<(), StreamError> {
        self.state = match (self.state, byte) {
            (State::Between, byte) if is_space(byte) => State::Between,
            (State::Between, b'"') => State::Text(0, false),
            (State::Between, b'[' | b'{') => State::Nested(1),
            (State::Between | State::Word, byte) if is_word(byte) => State::Word,
            (State::Between | State::Word, byte) => return Err(StreamError::Unexpected(byte)),
            (State::Nested(depth), b'"') => State::Text(depth, false),
            (State::Nested(depth), b'[' | b'{') if depth >= self.depth_max => {
                return Err(StreamError::TooDeep(self.depth_max));
            }
            (State::Nested(depth), b'[' | b'{') => State::Nested(depth + 1),
            (State::Nested(1), b']' | b'}') => State::Between,
            (State::Nested(depth), b']' | b'}') => State::Nested(depth - 1),
            (State::Nested(depth), _) => State::Nested(depth),
            (State::Text(depth, true), _) => State::Text(depth, false),
            (State::Text(depth, false), b'\\') => State::Text(depth, true),
            (State::Text(0, false), b'"') => State::Between,
            (State::Text(depth, false), b'"') => State::Nested(depth),
            (State::Text(depth, false), _) => State::Text(depth, false),
        };
        Ok(())
    }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

/// Bytes of numbers and of words such as `true`.
fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cuts `text`, fed in pieces of each size in turn; every size must give the same.
    #[track_caller]
    fn check(text: &str, expected: &[&str], end: Result<(), StreamError>) {
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
        check("{} }", &["{}"], Err(StreamError::Unexpected(b'}')));
        check("\u{1}", &[], Err(StreamError::Unexpected(1)));
        check("[[[[]]]]", &["[[[[]]]]"], Ok(()));
        check("[] [[[[[", &["[]"], Err(StreamError::TooDeep(4)));
        check("\"123456789012345678\"", &["\"123456789012345678\""], Ok(()));
        check("\"1234567890123456789\"", &[], Err(StreamError::TooLong(20)));
        check("\"1234567890123456789012", &[], Err(StreamError::TooLong(20)));
        check("                              {}", &["{}"], Ok(()));
    }
}
