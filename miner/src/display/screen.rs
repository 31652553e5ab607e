//! The terminal: rows at its end that are drawn again and again, and a log above them.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use parking_lot::Mutex;
use tracing_subscriber::fmt::MakeWriter;

/// Columns where the terminal does not tell.
const WIDTH_DEFAULT: usize = 100;

/// Where a rig is shown. Clones are the same screen.
#[derive(Clone, Debug, Default)]
pub struct Screen {
    live: Option<Live>,
    colours: bool,
}

#[derive(Clone, Debug)]
struct Live {
    rows: MultiProgress,
    drawn: Arc<Mutex<Vec<ProgressBar>>>,
}

impl Screen {
    /// The terminal at standard error with a table, if it is one and none of `plain` and `NO_COLOR`
    /// speak against it.
    pub fn choose(plain: bool) -> Self {
        let terminal = io::stderr().is_terminal();
        let dumb = std::env::var("TERM").is_ok_and(|term| term == "dumb");
        Self {
            live: (terminal && !plain && !dumb).then(|| Live {
                rows: MultiProgress::new(),
                drawn: Arc::default(),
            }),
            colours: terminal && !dumb && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
        }
    }

    /// Whether a table is shown.
    pub fn is_live(&self) -> bool {
        self.live.is_some()
    }

    /// Whether colours are welcome.
    pub fn colours(&self) -> bool {
        self.colours
    }

    /// Columns.
    pub(crate) fn width(&self) -> usize {
        terminal_width().unwrap_or(WIDTH_DEFAULT)
    }

    /// Shows `rows` in place of those before.
    pub(crate) fn draw(&self, rows: &[String]) {
        let Some(live) = &self.live else { return };
        let mut drawn = live.drawn.lock();
        while drawn.len() > rows.len() {
            if let Some(row) = drawn.pop() {
                live.rows.remove(&row);
            }
        }
        while drawn.len() < rows.len() {
            // The template is fixed; were it ever wrong, the plain bar would do.
            let style =
                ProgressStyle::with_template("{msg}").unwrap_or_else(|_| ProgressStyle::default_bar());
            drawn.push(live.rows.add(ProgressBar::new_spinner().with_style(style)));
        }
        for (row, text) in drawn.iter().zip(rows) {
            // Draws the row too.
            row.set_message(text.clone());
        }
    }

    /// Takes the rows away.
    pub fn clear(&self) {
        self.draw(&[]);
        if let Some(live) = &self.live {
            // A terminal that has gone needs no clearing.
            let _ = live.rows.clear();
        }
    }
}

/// The columns of the terminal at standard error, where the system tells them.
fn terminal_width() -> Option<usize> {
    #[cfg(unix)]
    {
        // SAFETY: the call fills the structure it is given and keeps nothing of it.
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

/// Writes a line of the log above the rows.
#[derive(Debug)]
pub struct LogWriter(Screen);

impl Write for LogWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let write = || io::stderr().write(bytes);
        match &self.0.live {
            Some(live) => live.rows.suspend(write),
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
