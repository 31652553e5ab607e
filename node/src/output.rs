//! Lines on standard output, for the commands of the binary.

use std::io::Write;

/// Prints a line to standard output.
///
/// An error is ignored: the work is done, also if nobody reads the output any more.
pub fn print_line(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}
