//! The file of measured figures: one JSON object in each line, appended as the figures come.
//!
//! A figure has a key. A line without its end, from a run that was killed, is removed. Knows
//! nothing of what the figures mean.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use serde_json::Value;

/// The name of the file.
const FILE_NAME: &str = "figures.jsonl";
/// Largest size of the file.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// The reasons why the file of figures cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The file cannot be read or written.
    #[error("{}: {reason}", path.display())]
    File {
        /// The file or its folder.
        path: PathBuf,
        /// The error of the operating system.
        reason: io::Error,
    },
    /// A line is not an object.
    #[error("{}, line {line}: expected an object of JSON: {reason}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The number of the line, from 1 on.
        line: usize,
        /// The fault.
        reason: String,
    },
}

/// The file of figures, open for more.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    file: File,
    records: Vec<Value>,
}

impl Journal {
    /// Opens the file in `folder`, or begins it.
    pub(super) fn open(folder: &Path) -> Result<Self, JournalError> {
        let path = folder.join(FILE_NAME);
        let failed = |reason| JournalError::File {
            path: path.clone(),
            reason,
        };
        fs::create_dir_all(folder).map_err(failed)?;
        let mut file = File::options()
            .read(true)
            .append(true)
            .create(true)
            .open(&path)
            .map_err(failed)?;
        let bytes = read_bounded(&mut file).map_err(failed)?;
        let whole = bytes
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |end| end + 1);
        if whole < bytes.len() {
            tracing::warn!(path = %path.display(), "the last line has no end and is removed");
            file.set_len(whole as u64).map_err(failed)?;
        }
        let records = parse(&path, &bytes[..whole])?;
        Ok(Self { path, file, records })
    }

    /// Reads the records of the file in `folder`.
    pub(super) fn read(folder: &Path) -> Result<Vec<Value>, JournalError> {
        let path = folder.join(FILE_NAME);
        let failed = |reason| JournalError::File {
            path: path.clone(),
            reason,
        };
        let mut file = File::open(&path).map_err(failed)?;
        let bytes = read_bounded(&mut file).map_err(failed)?;
        let whole = bytes
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |end| end + 1);
        parse(&path, &bytes[..whole])
    }

    /// Appends a record, and waits until it is on the disk.
    pub(super) fn append(&mut self, record: Value) -> Result<(), JournalError> {
        let line = format!("{record}\n");
        let written = self.file.write_all(line.as_bytes());
        written
            .and_then(|()| self.file.sync_data())
            .map_err(|reason| JournalError::File {
                path: self.path.clone(),
                reason,
            })?;
        self.records.push(record);
        Ok(())
    }

    /// All records, the oldest first.
    pub(super) fn records(&self) -> &[Value] {
        &self.records
    }

    /// Whether the figure with this key needs no further measurement: it has a value, or it can
    /// have none here.
    pub(super) fn is_done(&self, key: &str) -> bool {
        self.records
            .iter()
            .any(|record| record["key"] == key && (!record["value"].is_null() || record["final"] == true))
    }
}

fn read_bounded(file: &mut File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        let text = format!("got more than {FILE_BYTES_MAX} bytes, expected at most that many");
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    Ok(bytes)
}

fn parse(path: &Path, bytes: &[u8]) -> Result<Vec<Value>, JournalError> {
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    (1..)
        .zip(lines)
        .map(|(line, text)| {
            let bad = |reason: String| JournalError::Line {
                path: path.to_owned(),
                line,
                reason,
            };
            let value: Value = serde_json::from_slice(text).map_err(|error| bad(error.to_string()))?;
            if value.is_object() {
                Ok(value)
            } else {
                Err(bad(format!("got {value}")))
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn figures_are_found_again_and_a_torn_line_is_not() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let inner = folder.path().join("new");
        let mut journal = Journal::open(&inner).expect("a new file");
        for record in [
            json!({"key": "a", "value": 1.5}),
            json!({"key": "b", "error": "busy"}),
            json!({"key": "c", "error": "never", "final": true}),
        ] {
            journal.append(record).expect("written");
        }
        let mut file = File::options()
            .append(true)
            .open(inner.join(FILE_NAME))
            .expect("the file");
        file.write_all(b"{\"key\": \"d\", \"val").expect("written");
        assert_eq!(Journal::read(&inner).expect("readable").len(), 3);
        let mut again = Journal::open(&inner).expect("the same file");
        let done: Vec<_> = ["a", "b", "c", "d"].map(|key| again.is_done(key)).into();
        assert_eq!(done, [true, false, true, false]);
        again.append(json!({"key": "b", "value": 2})).expect("written");
        let records = Journal::open(&inner).expect("whole lines").records;
        assert_eq!(records.len(), 4);
        assert_eq!(records[3]["value"], 2);
    }

    #[test]
    fn a_bad_line_is_named() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for bad in ["{}\n7\n", "{}\n{\n", "{}\n\u{0}\n"] {
            fs::write(folder.path().join(FILE_NAME), bad).expect("written");
            let error = Journal::open(folder.path())
                .expect_err("line 2 is bad")
                .to_string();
            assert!(error.contains("line 2"), "{error}");
        }
    }
}
