//! A log file of bounded size: when it is full it becomes `FILE.1`, the one before `FILE.2`, and so
//! on, and the oldest goes.
//!
//! A line is never divided between two files. Knows files and sizes, not what is logged.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The log file and the files before it.
#[derive(Debug)]
pub(crate) struct LogFile {
    path: PathBuf,
    /// Bytes after which a new file begins.
    bytes_max: u64,
    /// The number of older files that are kept.
    backups: u32,
    file: File,
    /// Size of the file, in bytes.
    bytes: u64,
    /// The last attempt to begin a new file failed.
    cannot_rotate: bool,
}

impl LogFile {
    /// Opens the file and appends to what is there. Creates it, and its folder, if missing.
    pub(crate) fn open(path: &Path, bytes_max: u64, backups: u32) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let file = append_to(path)?;
        let bytes = file.metadata()?.len();
        Ok(Self {
            path: path.to_owned(),
            bytes_max,
            backups,
            file,
            bytes,
            cannot_rotate: false,
        })
    }

    /// Path of the older file `number`; 1 is the newest of them.
    fn backup(&self, number: u32) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{number}"));
        name.into()
    }

    /// Makes the file an older one and begins a new one.
    fn rotate(&mut self) -> io::Result<()> {
        for number in (1..self.backups).rev() {
            match std::fs::rename(self.backup(number), self.backup(number + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        match self.backups {
            0 => std::fs::remove_file(&self.path)?,
            _ => std::fs::rename(&self.path, self.backup(1))?,
        }
        self.file = append_to(&self.path)?;
        self.bytes = 0;
        Ok(())
    }
}

fn append_to(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

impl Write for LogFile {
    /// Writes a line. If no new file can be begun, the old one goes on.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let is_full = self.bytes > 0 && self.bytes + line.len() as u64 > self.bytes_max;
        if is_full {
            let rotated = self.rotate();
            if let (Err(error), false) = (&rotated, self.cannot_rotate) {
                eprintln!("the log file {} grows on: {error}", self.path.display());
            }
            self.cannot_rotate = rotated.is_err();
        }
        self.file.write_all(line)?;
        self.bytes += line.len() as u64;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(folder: &Path, name: &str) -> Option<String> {
        std::fs::read_to_string(folder.join(name)).ok()
    }

    #[test]
    fn a_full_file_makes_room_and_the_oldest_goes() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("below").join("log");
        let mut log = LogFile::open(&path, 10, 2).expect("opened");
        for line in ["1234\n", "5678\n", "abcd\n", "efghijklmnop\n", "x\n"] {
            log.write_all(line.as_bytes()).expect("written");
        }
        let below = folder.path().join("below");
        assert_eq!(read(&below, "log").as_deref(), Some("x\n"));
        assert_eq!(read(&below, "log.1").as_deref(), Some("efghijklmnop\n"));
        assert_eq!(read(&below, "log.2").as_deref(), Some("abcd\n"));
        assert_eq!(read(&below, "log.3"), None);
    }

    #[test]
    fn a_file_that_is_there_is_continued() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        std::fs::write(&path, "12345678\n").expect("written");
        let mut log = LogFile::open(&path, 10, 0).expect("opened");
        log.write_all(b"ab\n").expect("written");
        assert_eq!(
            read(folder.path(), "log").as_deref(),
            Some("ab\n"),
            "none is kept"
        );
        log.write_all(b"cd\n").expect("written");
        assert_eq!(read(folder.path(), "log").as_deref(), Some("ab\ncd\n"));
        assert_eq!(std::fs::read_dir(folder.path()).expect("read").count(), 1);
    }

    #[test]
    fn without_a_new_file_the_old_one_grows() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        let mut log = LogFile::open(&path, 4, 1).expect("opened");
        // A folder with something in it cannot be replaced.
        std::fs::create_dir_all(folder.path().join("log.1").join("x")).expect("made");
        for line in ["123\n", "456\n", "789\n"] {
            log.write_all(line.as_bytes()).expect("written");
        }
        assert_eq!(read(folder.path(), "log").as_deref(), Some("123\n456\n789\n"));
    }

    #[test]
    fn a_path_that_is_no_file_is_an_error() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(LogFile::open(folder.path(), 1, 1).is_err());
    }
}
