//! Bytes into lines, with a bound: what a peer sends without a line feed is not collected for ever.
//!
//! Knows no JSON and no socket.

/// Longest line, without its line feed. The longest of the dialects is some hundred bytes; pools'
/// messages to people may be longer.
pub const LINE_LEN_MAX: usize = 16 * 1024;

/// A line that nobody means to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a line of more than {max} bytes")]
pub struct LineError {
    /// The most allowed.
    pub max: usize,
}

/// Collects bytes until they are lines.
#[derive(Debug, Default)]
pub struct LineBuffer {
    bytes: Vec<u8>,
    /// Bytes at the front that have been given out.
    taken: usize,
    /// Bytes after `taken` that are known to hold no line feed.
    seen: usize,
}

impl LineBuffer {
    /// Takes what came in.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.taken);
        self.taken = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole line without its end; empty lines are passed over. `None`: more bytes are
    /// needed.
    ///
    /// # Errors
    /// [`LineError`] when a line is too long; nothing after it can be read.
    pub fn next_line(&mut self) -> Result<Option<&[u8]>, LineError> {
        loop {
            let from = self.taken + self.seen;
            let Some(end) = self.bytes[from..].iter().position(|byte| *byte == b'\n') else {
                self.seen = self.bytes.len() - self.taken;
                return if self.seen > LINE_LEN_MAX {
                    Err(LineError { max: LINE_LEN_MAX })
                } else {
                    Ok(None)
                };
            };
            let (start, end) = (self.taken, from + end);
            self.taken = end + 1;
            self.seen = 0;
            if end - start > LINE_LEN_MAX {
                return Err(LineError { max: LINE_LEN_MAX });
            }
            let range = start..end;
            if !self.bytes[range.clone()].trim_ascii().is_empty() {
                return Ok(Some(self.bytes[range].trim_ascii()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(chunks: &[&[u8]]) -> Vec<String> {
        let mut buffer = LineBuffer::default();
        let mut lines = Vec::new();
        for chunk in chunks {
            buffer.push(chunk);
            while let Some(line) = buffer.next_line().expect("short lines") {
                lines.push(String::from_utf8_lossy(line).into_owned());
            }
        }
        lines
    }

    #[test]
    fn lines_end_at_line_feeds_wherever_the_pieces_end() {
        assert_eq!(lines(&[b"a\nb\r\n\n  \nc"]), ["a", "b"]);
        assert_eq!(
            lines(&[b"a", b"b", b"\nc", b"\n", b"d\ne\n"]),
            ["ab", "c", "d", "e"]
        );
        assert_eq!(lines(&[b"", b"\n"]), [""; 0]);
    }

    #[test]
    fn long_lines_are_an_error_with_and_without_an_end() {
        let mut buffer = LineBuffer::default();
        buffer.push(&[b'x'; LINE_LEN_MAX]);
        assert_eq!(buffer.next_line(), Ok(None));
        buffer.push(b"\n");
        assert_eq!(
            buffer.next_line().map(|line| line.map(<[u8]>::len)),
            Ok(Some(LINE_LEN_MAX))
        );
        buffer.push(&[b'x'; LINE_LEN_MAX + 1]);
        assert_eq!(buffer.next_line(), Err(LineError { max: LINE_LEN_MAX }));
        let mut buffer = LineBuffer::default();
        buffer.push(&[vec![b'x'; LINE_LEN_MAX + 1], b"\n".to_vec()].concat());
        assert!(buffer.next_line().is_err());
    }
}
