//! Where a command writes: standard output, or a file that is there whole or not at all.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Result, Stdout, Write};
use std::path::{Path, PathBuf};

use crate::files::note_synced;

/// Bytes that are written at once.
const BUFFER_BYTES: usize = 1 << 20;

/// A place to write to. Dropped without [`Sink::finish`] it leaves no file.
#[derive(Debug)]
pub(super) enum Sink {
    /// Standard output.
    Out(BufWriter<Stdout>),
    /// Something that is no ordinary file, like a pipe: written to as it is.
    Special(BufWriter<File>),
    /// A file, under another name until it is whole.
    File(BufWriter<File>, Unnamed),
}

/// A file that has not got its name yet.
#[derive(Debug)]
pub(super) struct Unnamed {
    path: PathBuf,
    target: PathBuf,
}

impl Drop for Unnamed {
    fn drop(&mut self) {
        // Gone already where it has its name.
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Sink {
    /// Opens the place that a command line names; `-` is standard output.
    pub(super) fn open(path: &Path) -> Result<Self> {
        if is_standard(path) {
            return Ok(Self::Out(BufWriter::with_capacity(
                BUFFER_BYTES,
                std::io::stdout(),
            )));
        }
        // Behind a link lies the file that is meant.
        let target = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        if std::fs::metadata(&target).is_ok_and(|found| !found.is_file()) {
            let file = OpenOptions::new().write(true).open(&target)?;
            return Ok(Self::Special(BufWriter::with_capacity(BUFFER_BYTES, file)));
        }
        let name = target.file_name().ok_or(std::io::ErrorKind::IsADirectory)?;
        let mut unnamed = std::ffi::OsString::from(".");
        unnamed.push(name);
        unnamed.push(format!(".{}.part", std::process::id()));
        let path = target.with_file_name(unnamed);
        let file = File::create(&path)?;
        Ok(Self::File(
            BufWriter::with_capacity(BUFFER_BYTES, file),
            Unnamed { path, target },
        ))
    }

    /// Brings everything to where it belongs; a file has its name after this.
    pub(super) fn finish(mut self) -> Result<()> {
        self.flush()?;
        if let Self::File(file, unnamed) = &self {
            file.get_ref().sync_all()?;
            std::fs::rename(&unnamed.path, &unnamed.target)?;
            note_synced(&unnamed.target, store::sync_name(&unnamed.target));
        }
        Ok(())
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        match self {
            Self::Out(out) => out.write(bytes),
            Self::Special(file) | Self::File(file, _) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> Result<()> {
        match self {
            Self::Out(out) => out.flush(),
            Self::Special(file) | Self::File(file, _) => file.flush(),
        }
    }
}

/// Whether a command line means standard input or output.
pub(super) fn is_standard(path: &Path) -> bool {
    path == Path::new("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_there_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        std::fs::write(&path, "before").unwrap();
        let mut sink = Sink::open(&path).unwrap();
        sink.write_all(b"part").unwrap();
        drop(sink);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "before");
        assert_eq!(names(folder.path()), ["f"]);
        let mut sink = Sink::open(&path).unwrap();
        sink.write_all(b"whole").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "before");
        sink.finish().unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "whole");
        assert_eq!(names(folder.path()), ["f"]);
        assert!(Sink::open(&folder.path().join("no").join("f")).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn links_are_followed_and_devices_are_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("f"), folder.path().join("l"));
        std::fs::write(&file, "before").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let mut sink = Sink::open(&link).unwrap();
        sink.write_all(b"after").unwrap();
        sink.finish().unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "after");
        assert!(link.symlink_metadata().unwrap().is_symlink());
        assert!(matches!(
            Sink::open(Path::new("/dev/null")).unwrap(),
            Sink::Special(_)
        ));
    }
}
