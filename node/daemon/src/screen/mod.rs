//! The terminal: rows at its end that are updated in place, and the log above them.
//!
//! A thread of its own writes to standard error, so that no other thread waits for a terminal that
//! takes no output.

mod queue;
mod rows;

use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;
use std::time::Duration;

use tracing_subscriber::fmt::MakeWriter;

use queue::{OutputPart, OutputQueue};
use rows::{LiveRows, terminal_width};

/// A terminal that takes no output for this time is stopped. While it is, nothing waits for it.
const STOPPED_AFTER: Duration = Duration::from_millis(200);
/// At the end of the program, the last output may take this long.
const LAST_OUTPUT_MAX: Duration = Duration::from_millis(500);

/// The output of this process.
static OUTPUT: OutputQueue = OutputQueue::new(STOPPED_AFTER);

/// The terminal of a program. All screens of a process share the same terminal.
#[derive(Clone, Debug, Default)]
pub struct Screen {
    /// Whether a table is shown.
    is_live: bool,
    colours: bool,
}

impl Screen {
    /// The screen at standard error.
    ///
    /// Rows are shown if standard error is a terminal, `plain` is false and `TERM` is not `dumb`.
    /// Colours are used if standard error is a terminal, `TERM` is not `dumb` and `NO_COLOR` is not
    /// set.
    pub fn choose(plain: bool) -> Self {
        let terminal = io::stderr().is_terminal();
        let dumb = std::env::var("TERM").is_ok_and(|term| term == "dumb");
        Self {
            is_live: terminal && !plain && !dumb,
            colours: terminal && !dumb && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
        }
    }

    /// Whether a table is shown.
    pub const fn is_live(&self) -> bool {
        self.is_live
    }

    /// Whether colours are used.
    pub const fn colours(&self) -> bool {
        self.colours
    }

    /// The width in columns.
    pub fn width(&self) -> usize {
        terminal_width()
    }

    /// Shows `rows` in place of the previous ones.
    pub fn draw(&self, rows: &[String]) {
        if self.is_live
            && let Some(output) = output()
        {
            output.set_rows(rows);
        }
    }

    /// Removes the rows.
    pub fn clear(&self) {
        self.draw(&[]);
    }

    /// Waits until the log and the rows are written, for at most half a second. A program calls
    /// this before its last message, and before it ends.
    pub fn finish() {
        OUTPUT.flush(LAST_OUTPUT_MAX);
    }
}

/// The output of this process, for which a thread runs. `None` if the system gives no thread.
fn output() -> Option<&'static OutputQueue> {
    static HAS_THREAD: OnceLock<bool> = OnceLock::new();
    let start = || {
        let thread = std::thread::Builder::new().name("screen".to_owned());
        thread.spawn(|| write_output(&OUTPUT)).is_ok()
    };
    HAS_THREAD.get_or_init(start).then_some(&OUTPUT)
}

/// Writes all that comes through `queue` to standard error.
fn write_output(queue: &OutputQueue) -> ! {
    let mut rows: Option<LiveRows> = None;
    loop {
        match (queue.take(), &mut rows) {
            (OutputPart::Line(line), Some(rows)) => rows.write_above(&line),
            // An error means that nobody can read the log.
            (OutputPart::Line(line), None) => drop(io::stderr().write_all(&line)),
            (OutputPart::Dropped(lines), _) => {
                tracing::warn!(lines, "log lines dropped: standard error took no output");
            }
            (OutputPart::Rows(new), rows) => rows.get_or_insert_default().draw(new),
        }
    }
}

/// Writes the log above the rows.
#[derive(Debug)]
pub struct LogWriter(());

impl Write for LogWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        match output() {
            Some(output) => output.add_line(line),
            None => io::stderr().write_all(line)?,
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Screen {
    type Writer = LogWriter;

    fn make_writer(&'a self) -> LogWriter {
        LogWriter(())
    }
}
