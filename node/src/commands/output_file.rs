//! The output of a command: standard output, or a file that is written completely or not
//! at all.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Result, Stdout, Write};
use std::path::{Path, PathBuf};

use crate::files::warn_if_unsynced;

/// Size of the write buffer, in bytes.
const BUFFER_BYTES: usize = 1 << 20;

/// The target of a command. If it is dropped before [`OutputFile::finish`], no file is left.
#[derive(Debug)]
pub(super) enum OutputFile {
    /// Standard output.
    Stdout(BufWriter<Stdout>),
    /// A pipe, a device or another special file, which is written directly.
    Special(BufWriter<File>),
    /// A regular file, which has a temporary name until it is complete.
    File(BufWriter<File>, TemporaryName),
}

/// The temporary name of a file. Dropping it removes a file that still has that name.
#[derive(Debug)]
pub(super) struct TemporaryName {
    path: PathBuf,
    target: PathBuf,
}

impl Drop for TemporaryName {
    fn drop(&mut self) {
        // Removing fails if the file has been renamed to its target, as it should.
        let _ = std::fs::remove_file(&self.path);
    }
}

impl OutputFile {
    /// Opens the file that the command line names; `-` is standard output.
    pub(super) fn open(path: &Path) -> Result<Self> {
        if is_standard(path) {
            return Ok(Self::Stdout(BufWriter::with_capacity(
                BUFFER_BYTES,
                std::io::stdout(),
            )));
        }
        // A symbolic link stays; the file that it points to is replaced.
        let target = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        if std::fs::metadata(&target).is_ok_and(|metadata| !metadata.is_file()) {
            let file = OpenOptions::new().write(true).open(&target)?;
            return Ok(Self::Special(BufWriter::with_capacity(BUFFER_BYTES, file)));
        }
        let name = target.file_name().ok_or(std::io::ErrorKind::IsADirectory)?;
        let mut temporary = std::ffi::OsString::from(".");
        temporary.push(name);
        temporary.push(format!(".{}.part", std::process::id()));
        let path = target.with_file_name(temporary);
        let file = File::create(&path)?;
        Ok(Self::File(
            BufWriter::with_capacity(BUFFER_BYTES, file),
            TemporaryName { path, target },
        ))
    }

    /// Writes everything to the disk. After this a file has its own name.
    pub(super) fn finish(mut self) -> Result<()> {
        self.flush()?;
        if let Self::File(file, TemporaryName { path, target }) = &self {
            file.get_ref().sync_all()?;
            std::fs::rename(path, target)?;
            warn_if_unsynced(target, store::sync_name(target));
        }
        Ok(())
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        match self {
            Self::Stdout(out) => out.write(bytes),
            Self::Special(file) | Self::File(file, _) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> Result<()> {
        match self {
            Self::Stdout(out) => out.flush(),
            Self::Special(file) | Self::File(file, _) => file.flush(),
        }
    }
}

/// Whether `path` stands for standard input or output on the command line.
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
    fn a_file_is_written_completely_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        std::fs::write(&path, "before").unwrap();
        let mut output = OutputFile::open(&path).unwrap();
        output.write_all(b"part").unwrap();
        drop(output);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "before");
        assert_eq!(names(folder.path()), ["f"]);
        let mut output = OutputFile::open(&path).unwrap();
        output.write_all(b"whole").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "before");
        output.finish().unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "whole");
        assert_eq!(names(folder.path()), ["f"]);
        assert!(OutputFile::open(&folder.path().join("no").join("f")).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn links_are_followed_and_devices_are_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("f"), folder.path().join("l"));
        std::fs::write(&file, "before").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let mut output = OutputFile::open(&link).unwrap();
        output.write_all(b"after").unwrap();
        output.finish().unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "after");
        assert!(link.symlink_metadata().unwrap().is_symlink());
        assert!(matches!(
            OutputFile::open(Path::new("/dev/null")).unwrap(),
            OutputFile::Special(_)
        ));
    }
}
