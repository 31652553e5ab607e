//! The terminal: rows at its end that are updated in place, and the log above them.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use parking_lot::Mutex;
use tracing_subscriber::fmt::MakeWriter;

/// The width in columns if the terminal does not report it.
const WIDTH_DEFAULT: usize = 100;

/// The terminal of a program. Clones share the same terminal.
#[derive(Clone, Debug, Default)]
pub struct Screen {
    /// `None` if no table is shown.
    table: Option<LiveRows>,
    colours: bool,
}

/// Rows that are updated in place.
#[derive(Clone, Debug)]
struct LiveRows {
    rows: MultiProgress,
    drawn: Arc<Mutex<Vec<ProgressBar>>>,
    /// The width of the terminal when the rows were drawn.
    drawn_width: Arc<AtomicUsize>,
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
            table: (terminal && !plain && !dumb).then(|| LiveRows {
                rows: MultiProgress::new(),
                drawn: Arc::default(),
                drawn_width: Arc::default(),
            }),
            colours: terminal && !dumb && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
        }
    }

    /// Whether a table is shown.
    pub const fn is_live(&self) -> bool {
        self.table.is_some()
    }

    /// Whether colours are used.
    pub const fn colours(&self) -> bool {
        self.colours
    }

    /// The width in columns.
    pub fn width(&self) -> usize {
        terminal_width().unwrap_or(WIDTH_DEFAULT)
    }

    /// Shows `rows` in place of the previous ones.
    pub fn draw(&self, rows: &[String]) {
        let Some(table) = &self.table else { return };
        let mut drawn = table.drawn.lock();
        let width = self.width();
        if table.drawn_width.swap(width, Ordering::Relaxed) > width {
            // The terminal has folded the rows, which were made for a wider one.
            let folded = drawn.iter().map(|row| folds(&row.message(), width)).sum();
            table.rows.suspend(|| erase_above(folded));
        }
        while drawn.len() > rows.len() {
            if let Some(row) = drawn.pop() {
                table.rows.remove(&row);
            }
        }
        while drawn.len() < rows.len() {
            // The template is constant and valid. If it were not, the default bar would be used.
            let style =
                ProgressStyle::with_template("{msg}").unwrap_or_else(|_| ProgressStyle::default_bar());
            drawn.push(table.rows.add(ProgressBar::new_spinner().with_style(style)));
        }
        for (row, text) in drawn.iter().zip(rows) {
            // Setting the message also draws the row.
            row.set_message(text.clone());
        }
    }

    /// Removes the rows.
    pub fn clear(&self) {
        self.draw(&[]);
        if let Some(table) = &self.table {
            // An error means that the terminal is gone.
            let _ = table.rows.clear();
        }
    }
}

/// The number of lines that a row takes in a terminal of `width` columns, beyond the first.
fn folds(row: &str, width: usize) -> usize {
    // The codes of colours take no space.
    let mut parts = row.split('\u{1b}');
    let first = parts.next().map_or(0, |part| part.chars().count());
    let others = parts.map(|part| part.split_once('m').map_or(0, |(_, text)| text.chars().count()));
    (first + others.sum::<usize>()).saturating_sub(1) / width.max(1)
}

/// Erases the last `lines` lines above the cursor, and all that is below them.
fn erase_above(lines: usize) {
    if lines > 0 {
        // An error means that the terminal is gone.
        let _ = write!(io::stderr(), "\r\u{1b}[{lines}A\u{1b}[J");
    }
}

/// The width in columns of the terminal at standard error, if the system reports it.
fn terminal_width() -> Option<usize> {
    #[cfg(unix)]
    {
        // SAFETY: all zeros are a valid `winsize`, which is a struct of integers. `ioctl` with
        // `TIOCGWINSZ` writes only to the `winsize` at the given pointer, and does not keep the
        // pointer.
        let (result, size) = unsafe {
            let mut size: libc::winsize = std::mem::zeroed();
            (
                libc::ioctl(libc::STDERR_FILENO, libc::TIOCGWINSZ, &mut size),
                size,
            )
        };
        (result == 0 && size.ws_col > 0).then_some(usize::from(size.ws_col))
    }
    #[cfg(not(unix))]
    None
}

/// Writes the log above the rows.
#[derive(Debug)]
pub struct LogWriter(Screen);

impl Write for LogWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let write = || io::stderr().write(bytes);
        match &self.0.table {
            Some(table) => table.rows.suspend(write),
            None => write(),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

impl<'a> MakeWriter<'a> for Screen {
    type Writer = LogWriter;

    fn make_writer(&'a self) -> LogWriter {
        LogWriter(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_fold_in_a_narrower_terminal() {
        let check =
            |row: &str, width, expected| assert_eq!(folds(row, width), expected, "{row:?} in {width}");
        check("", 80, 0);
        check(&"x".repeat(80), 80, 0);
        check(&"x".repeat(81), 80, 1);
        check(&"x".repeat(81), 20, 4);
        check("\u{1b}[31mabcd\u{1b}[0m", 4, 0);
        check("\u{1b}[31mabcd\u{1b}[0me", 4, 1);
    }
}
