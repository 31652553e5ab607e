//! Splits received bytes into lines of bounded length, so that a peer that never sends a line feed
//! cannot fill the memory.
//!
//! Knows neither JSON nor sockets.

/// Length in bytes of the longest accepted line, without its line feed. The messages of the
/// dialects have a few hundred bytes; texts of pools for people may be longer.
pub const LINE_LEN_MAX: usize = 16 * 1024;

/// A line is longer than [`LINE_LEN_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a line of more than {max} bytes")]
pub struct LineTooLong {
    /// The maximum length in bytes.
    pub max: usize,
}

/// Collects bytes and returns them as lines.
#[derive(Debug, Default)]
pub struct LineBuffer {
    bytes: Vec<u8>,
    /// Bytes at the front that were returned as lines.
    consumed: usize,
    /// Bytes after `consumed` that are known to contain no line feed.
    scanned: usize,
}

impl LineBuffer {
    /// Appends received bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.consumed);
        self.consumed = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole line, without leading and trailing white space. Skips empty lines. `None` if
    /// more bytes are needed.
    ///
    /// # Errors
    /// [`LineTooLong`] if the line is too long. Lines after it cannot be read.
    pub fn next_line(&mut self) -> Result<Option<&[u8]>, LineTooLong> {
        loop {
            let from = self.consumed + self.scanned;
            let Some(end) = self.bytes[from..].iter().position(|byte| *byte == b'\n') else {
                self.scanned = self.bytes.len() - self.consumed;
                return if self.scanned > LINE_LEN_MAX {
                    Err(LineTooLong { max: LINE_LEN_MAX })
                } else {
                    Ok(None)
                };
            };
            let (start, end) = (self.consumed, from + end);
            self.consumed = end + 1;
            self.scanned = 0;
            if end - start > LINE_LEN_MAX {
                return Err(LineTooLong { max: LINE_LEN_MAX });
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
    fn lines_end_at_line_feeds_however_the_bytes_are_split() {
        assert_eq!(lines(&[b"a\nb\r\n\n  \nc"]), ["a", "b"]);
        assert_eq!(
            lines(&[b"a", b"b", b"\nc", b"\n", b"d\ne\n"]),
            ["ab", "c", "d", "e"]
        );
        assert_eq!(lines(&[b"", b"\n"]), [""; 0]);
    }

    #[test]
    fn long_lines_are_an_error_with_and_without_a_line_feed() {
        let mut buffer = LineBuffer::default();
        buffer.push(&[b'x'; LINE_LEN_MAX]);
        assert_eq!(buffer.next_line(), Ok(None));
        buffer.push(b"\n");
        assert_eq!(
            buffer.next_line().map(|line| line.map(<[u8]>::len)),
            Ok(Some(LINE_LEN_MAX))
        );
        buffer.push(&[b'x'; LINE_LEN_MAX + 1]);
        assert_eq!(buffer.next_line(), Err(LineTooLong { max: LINE_LEN_MAX }));
        let mut buffer = LineBuffer::default();
        buffer.push(&[vec![b'x'; LINE_LEN_MAX + 1], b"\n".to_vec()].concat());
        assert!(buffer.next_line().is_err());
    }
}
