//! Rows at the end of a terminal that are updated in place.
//!
//! All functions but [`terminal_width`] write to standard error, and wait as long as it takes no
//! output.

use std::io::{self, Write};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

/// The width in columns if the terminal does not report it.
const WIDTH_DEFAULT: usize = 100;

/// Rows that are updated in place.
#[derive(Debug, Default)]
pub(super) struct LiveRows {
    rows: MultiProgress,
    drawn: Vec<ProgressBar>,
    /// The width of the terminal when the rows were drawn.
    drawn_width: usize,
}

impl LiveRows {
    /// Shows `rows` in place of the previous ones.
    pub(super) fn draw(&mut self, rows: Vec<String>) {
        let width = terminal_width();
        if self.drawn_width > width {
            // The terminal has folded the rows, which were made for a wider one.
            let folded = self.drawn.iter().map(|row| folds(&row.message(), width)).sum();
            self.rows.suspend(|| erase_above(folded));
        }
        self.drawn_width = width;
        while self.drawn.len() > rows.len() {
            if let Some(row) = self.drawn.pop() {
                self.rows.remove(&row);
            }
        }
        while self.drawn.len() < rows.len() {
            // The template is constant and valid. If it were not, the default bar would be used.
            let style =
                ProgressStyle::with_template("{msg}").unwrap_or_else(|_| ProgressStyle::default_bar());
            self.drawn
                .push(self.rows.add(ProgressBar::new_spinner().with_style(style)));
        }
        if rows.is_empty() {
            // An error means that the terminal is gone.
            let _ = self.rows.clear();
        }
        for (row, text) in self.drawn.iter().zip(rows) {
            // Setting the message also draws the row.
            row.set_message(text);
        }
    }

    /// Writes a log line above the rows.
    pub(super) fn write_above(&self, line: &[u8]) {
        // An error means that the terminal is gone.
        let _ = self.rows.suspend(|| io::stderr().write_all(line));
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

/// The width in columns of the terminal at standard error.
pub(super) fn terminal_width() -> usize {
    reported_width().unwrap_or(WIDTH_DEFAULT)
}

/// The width in columns of the terminal at standard error, if the system reports it.
fn reported_width() -> Option<usize> {
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
