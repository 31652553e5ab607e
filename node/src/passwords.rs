//! Reads passwords from a file, the terminal, or standard input.
//!
//! On a terminal nothing is shown while a password is typed, and a new password is asked for twice.
//! Does not know accounts.

use std::fs::File;
use std::io::{self, BufRead, IsTerminal, Read};
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use crate::options::VnodeOptions;

/// A password. It is wiped from memory when it is dropped.
pub(crate) type Password = Zeroizing<String>;

/// Longest password file, in bytes.
const FILE_BYTES_MAX: u64 = 64 * 1024;
/// Most attempts at typing a password on a terminal.
const TRIES: usize = 3;

/// An error while a password is read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PasswordError {
    /// The file of `--password` cannot be read.
    #[error("cannot read passwords from {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The file of `--password` is not a valid password file.
    #[error("{}: got {got}, expected {expected}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// The content of the file.
        got: String,
        /// The content that was expected.
        expected: &'static str,
    },
    /// Reading standard input or the terminal failed.
    #[error("cannot read a password: {0}")]
    Input(#[from] io::Error),
    /// Standard input ended before a password.
    #[error("standard input: got its end, expected a password; --password FILE reads passwords from a file")]
    NoInput,
    /// A new password was typed twice, and the two differ.
    #[error("the two passwords differ")]
    Differ,
}

/// The place from which one command, or one start of the node, reads its passwords.
pub(crate) enum Passwords {
    /// A file with one password a line.
    File { path: PathBuf, lines: Vec<Password> },
    /// The user types them on the terminal.
    Terminal,
    /// Standard input, with one password a line.
    Input,
}

impl Passwords {
    /// Reads the file of `--password`. Without that option the source is the terminal, or standard
    /// input if that is not a terminal.
    pub(crate) fn of(options: &VnodeOptions) -> Result<Self, PasswordError> {
        match &options.password {
            Some(path) => Ok(Self::File {
                path: path.clone(),
                lines: read_lines(path)?,
            }),
            None if io::stdin().is_terminal() => Ok(Self::Terminal),
            None => Ok(Self::Input),
        }
    }

    /// Most attempts at reading a password.
    pub(crate) const fn tries(&self) -> usize {
        if matches!(self, Self::Terminal) { TRIES } else { 1 }
    }

    /// The existing password `index`. If a file has fewer lines, its last line is used, because
    /// several accounts may have the same password.
    pub(crate) fn present(&self, index: usize, question: &str) -> Result<Password, PasswordError> {
        match self {
            Self::File { lines, .. } => Ok(lines[index.min(lines.len() - 1)].clone()),
            Self::Terminal => ask(question),
            Self::Input => read_input(),
        }
    }

    /// A new password: line `index` of a file, or typed twice on a terminal.
    pub(crate) fn new_one(&self, index: usize, question: &str) -> Result<Password, PasswordError> {
        match self {
            Self::File { path, lines } => lines.get(index).cloned().ok_or_else(|| PasswordError::Content {
                path: path.clone(),
                got: format!("{} line(s)", lines.len()),
                expected: "the current password and, in a second line, the new one",
            }),
            Self::Terminal => {
                let password = ask(question)?;
                let again = ask("Repeat the password: ")?;
                if *password == *again {
                    Ok(password)
                } else {
                    Err(PasswordError::Differ)
                }
            }
            Self::Input => read_input(),
        }
    }
}

fn ask(question: &str) -> Result<Password, PasswordError> {
    Ok(Zeroizing::new(rpassword::prompt_password(question)?))
}

fn read_input() -> Result<Password, PasswordError> {
    let mut line = Zeroizing::new(String::new());
    let read = io::stdin().lock().take(FILE_BYTES_MAX).read_line(&mut line)?;
    if read == 0 {
        return Err(PasswordError::NoInput);
    }
    Ok(without_line_end(&line))
}

/// The lines of a file. There is at least one: an empty file is one empty password.
fn read_lines(path: &Path) -> Result<Vec<Password>, PasswordError> {
    let content = |got, expected| PasswordError::Content {
        path: path.to_owned(),
        got,
        expected,
    };
    // The buffer never grows, because growing would leave copies of the passwords in memory.
    let mut bytes = Zeroizing::new(Vec::with_capacity(FILE_BYTES_MAX as usize + 1));
    let read = File::open(path).and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes));
    let read = read.map_err(|source| PasswordError::File {
        path: path.to_owned(),
        source,
    })?;
    if read as u64 > FILE_BYTES_MAX {
        return Err(content(
            format!("{read} bytes or more"),
            "a short file with one password a line",
        ));
    }
    let text = std::str::from_utf8(&bytes).map_err(|error| {
        content(
            format!("invalid UTF-8 at byte {}", error.valid_up_to()),
            "UTF-8 text",
        )
    })?;
    let text = text.strip_suffix('\n').unwrap_or(text);
    Ok(text.split('\n').map(without_line_end).collect())
}

fn without_line_end(line: &str) -> Password {
    let line = line.strip_suffix('\n').unwrap_or(line);
    Zeroizing::new(line.strip_suffix('\r').unwrap_or(line).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(content: &[u8]) -> (tempfile::TempDir, PathBuf) {
        let home = tempfile::tempdir().expect("a temporary folder");
        let path = home.path().join("passwords");
        std::fs::write(&path, content).expect("writable");
        (home, path)
    }

    #[test]
    fn each_line_is_a_password() {
        let check = |content: &str, expected: &[&str]| {
            let (_home, path) = file(content.as_bytes());
            let lines = read_lines(&path).expect("readable");
            let lines: Vec<_> = lines.iter().map(|line| line.as_str()).collect();
            assert_eq!(lines, expected, "{content:?}");
        };
        check("", &[""]);
        check("\n", &[""]);
        check("one", &["one"]);
        check("one\n", &["one"]);
        check("one\r\ntwo words \r\n", &["one", "two words "]);
        check("\n\nthree\n\n", &["", "", "three", ""]);
    }

    #[test]
    fn the_last_line_is_used_again() {
        let (_home, path) = file(b"one\ntwo\n");
        let lines = read_lines(&path).expect("readable");
        let passwords = Passwords::File { path, lines };
        let present = |index| passwords.present(index, "").expect("a line").to_string();
        assert_eq!([present(0), present(1), present(2)], ["one", "two", "two"]);
        assert_eq!(*passwords.new_one(1, "").expect("a line"), "two");
        let missing = passwords.new_one(2, "").unwrap_err().to_string();
        assert!(missing.contains("got 2 line(s)"), "{missing}");
    }

    #[test]
    fn bad_password_files_are_refused() {
        let (home, path) = file(b"ok\n\xff");
        let error = read_lines(&path).unwrap_err().to_string();
        assert!(error.contains("invalid UTF-8 at byte 3"), "{error}");
        std::fs::write(&path, [b'x'; 70_000]).expect("writable");
        let error = read_lines(&path).unwrap_err().to_string();
        assert!(error.contains("got 65537 bytes or more"), "{error}");
        let error = read_lines(&home.path().join("none")).unwrap_err().to_string();
        assert!(error.starts_with("cannot read passwords from "), "{error}");
    }
}
