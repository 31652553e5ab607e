//! The log lines and rows that wait to be written to standard error.
//!
//! A terminal that is stopped (Ctrl-S), or a pipe that nobody reads, blocks a thread that writes
//! to it. So all threads add their output here, and one thread that has nothing else to do writes
//! it. This module knows neither terminals nor threads.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// The most bytes of log lines that wait.
const LINES_LEN_MAX: usize = 1 << 20;

/// The output that waits to be written.
#[derive(Debug)]
pub(super) struct OutputQueue {
    state: Mutex<OutputState>,
    /// Notified when output is added.
    added: Condvar,
    /// Notified when output is written.
    written: Condvar,
    /// A line waits at most this long for room.
    room_wait: Duration,
}

#[derive(Debug)]
struct OutputState {
    lines: VecDeque<Vec<u8>>,
    /// Bytes of `lines`.
    lines_len: usize,
    /// Lines that were dropped after `lines`.
    dropped: u64,
    /// The newest rows, if they are not drawn yet.
    rows: Option<Vec<String>>,
    /// Whether output that was taken is being written.
    is_writing: bool,
}

/// The next part of the output.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum OutputPart {
    /// A log line.
    Line(Vec<u8>),
    /// The number of log lines that are missing here, because they were dropped.
    Dropped(u64),
    /// Rows, in place of the previous ones.
    Rows(Vec<String>),
}

impl OutputQueue {
    /// An empty queue, in which a line waits for room for at most `room_wait`.
    pub(super) const fn new(room_wait: Duration) -> Self {
        Self {
            state: Mutex::new(OutputState {
                lines: VecDeque::new(),
                lines_len: 0,
                dropped: 0,
                rows: None,
                is_writing: false,
            }),
            added: Condvar::new(),
            written: Condvar::new(),
            room_wait,
        }
    }

    /// Adds a log line. If there is no room in time, the line is dropped, and the next lines are
    /// dropped without a wait until all output is written.
    pub(super) fn add_line(&self, line: &[u8]) {
        let mut state = self.state.lock();
        if state.dropped == 0 {
            let is_full = |state: &mut OutputState| !state.has_room(line.len());
            self.written.wait_while_for(&mut state, is_full, self.room_wait);
        }
        if state.has_room(line.len()) {
            state.lines_len += line.len();
            state.lines.push_back(line.to_vec());
        } else {
            state.dropped += 1;
        }
        self.added.notify_one();
    }

    /// Sets the rows. Earlier rows that are not drawn yet are forgotten.
    pub(super) fn set_rows(&self, rows: &[String]) {
        self.state.lock().rows = Some(rows.to_vec());
        self.added.notify_one();
    }

    /// Waits until all output is written, for at most `time_limit`.
    pub(super) fn flush(&self, time_limit: Duration) {
        let mut state = self.state.lock();
        let is_unwritten = |state: &mut OutputState| !state.is_written();
        self.written.wait_while_for(&mut state, is_unwritten, time_limit);
    }

    /// Waits for output and takes it. The output that the thread has taken before is now written.
    pub(super) fn take(&self) -> OutputPart {
        let mut state = self.state.lock();
        state.is_writing = false;
        self.written.notify_all();
        loop {
            if let Some(part) = state.next() {
                state.is_writing = true;
                return part;
            }
            self.added.wait(&mut state);
        }
    }
}

impl OutputState {
    /// Whether a line of `len` bytes can be added. The number of dropped lines must be written
    /// before that.
    fn has_room(&self, len: usize) -> bool {
        self.dropped == 0 && (self.lines.is_empty() || self.lines_len + len <= LINES_LEN_MAX)
    }

    fn is_written(&self) -> bool {
        !self.is_writing && self.lines.is_empty() && self.dropped == 0 && self.rows.is_none()
    }

    fn next(&mut self) -> Option<OutputPart> {
        if let Some(line) = self.lines.pop_front() {
            self.lines_len -= line.len();
            return Some(OutputPart::Line(line));
        }
        if self.dropped > 0 {
            return Some(OutputPart::Dropped(std::mem::take(&mut self.dropped)));
        }
        self.rows.take().map(OutputPart::Rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &[u8] = b"a log line that has 32 bytes...\n";
    /// The lines for which there is room.
    const LINES_MAX: usize = LINES_LEN_MAX / LINE.len();
    /// A limit that is longer than any test.
    const LONG: Duration = Duration::from_secs(3600);

    fn add_lines(queue: &OutputQueue, lines: usize) {
        for _ in 0..lines {
            queue.add_line(LINE);
        }
    }

    /// Takes this number of lines, which must come next.
    #[track_caller]
    fn take_lines(queue: &OutputQueue, lines: usize) {
        for _ in 0..lines {
            assert_eq!(queue.take(), OutputPart::Line(LINE.to_vec()));
        }
    }

    #[test]
    fn lines_keep_their_order_and_only_the_newest_rows_are_drawn() {
        let queue = OutputQueue::new(Duration::ZERO);
        for number in ["0", "1", "2"] {
            queue.add_line(number.as_bytes());
            queue.set_rows(&[format!("row {number}")]);
        }
        for number in ["0", "1", "2"] {
            assert_eq!(queue.take(), OutputPart::Line(number.into()));
        }
        assert_eq!(queue.take(), OutputPart::Rows(vec!["row 2".to_owned()]));
    }

    #[test]
    fn a_full_queue_drops_lines_and_says_how_many() {
        let queue = OutputQueue::new(Duration::ZERO);
        add_lines(&queue, LINES_MAX + 3);
        take_lines(&queue, 1);
        // There is room again, but this line would stand before the number of those dropped.
        add_lines(&queue, 1);
        take_lines(&queue, LINES_MAX - 1);
        assert_eq!(queue.take(), OutputPart::Dropped(4));
        add_lines(&queue, 1);
        take_lines(&queue, 1);
    }

    #[test]
    fn a_line_that_is_longer_than_the_queue_is_written() {
        let queue = OutputQueue::new(Duration::ZERO);
        let long = vec![b'x'; LINES_LEN_MAX + 1];
        queue.add_line(&long);
        assert_eq!(queue.take(), OutputPart::Line(long));
    }

    #[test]
    fn no_line_is_dropped_while_others_are_written() {
        let queue = OutputQueue::new(LONG);
        std::thread::scope(|scope| {
            scope.spawn(|| take_lines(&queue, 3 * LINES_MAX));
            add_lines(&queue, 3 * LINES_MAX);
        });
    }

    #[test]
    fn a_flush_ends_when_all_is_written_or_its_time_is_over() {
        let queue = OutputQueue::new(Duration::ZERO);
        queue.flush(LONG);
        add_lines(&queue, 1);
        queue.flush(Duration::from_millis(1));
        std::thread::scope(|scope| {
            scope.spawn(|| take_lines(&queue, 2));
            // The thread waits for a second line: the first is written.
            queue.flush(LONG);
            add_lines(&queue, 1);
        });
    }
}
