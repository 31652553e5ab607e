//! Errors of system calls in a running process, which `strace` injects.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::process::{ChildProcess, EndSignal};
use crate::wait::{note, wait_for};

/// The mark of a call in the output of `strace` that did nothing but fail.
const MARK: &str = "(INJECTED)";

/// Kind of a system call that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallFault {
    /// Name of the system call.
    pub call: &'static str,
    /// The error that the process gets.
    pub error: &'static str,
    /// Only calls on files of the process's directory fail.
    pub of_files: bool,
}

impl CallFault {
    /// The arguments of `strace` that let each second call of this kind fail, and write all calls
    /// of the kind to `output`. The files are those of `directory`.
    fn arguments(self, directory: &Path, output: &Path) -> Vec<OsString> {
        let Self {
            call,
            error,
            of_files,
        } = self;
        let mut words: Vec<OsString> = vec!["-f".into(), "-o".into(), output.into()];
        let inject = format!("inject={call}:error={error}:when=1+2");
        words.extend([
            "-e".into(),
            format!("trace={call}").into(),
            "-e".into(),
            inject.into(),
        ]);
        if of_files {
            let files = std::fs::read_dir(directory).expect("the directory of a node");
            let files = files.map(|file| file.expect("a file").path());
            for file in files.chain([directory.to_owned()]) {
                words.extend(["-P".into(), file.into()]);
            }
        }
        words
    }

    /// The words before a program in which the calls fail from its start. The program stays the
    /// child of whoever starts it.
    pub fn runner(self, directory: &Path, output: &Path) -> Vec<OsString> {
        let mut words: Vec<OsString> = vec!["strace".into(), "-D".into()];
        words.extend(self.arguments(directory, output));
        words
    }
}

/// A process in which each second call of a kind fails. It goes on as before when this is dropped.
#[derive(Debug)]
pub struct FaultInjection {
    process: ChildProcess,
    output: PathBuf,
    _home: TempDir,
}

impl FaultInjection {
    /// Begins in the process `id`, whose files are in `directory`. If `strace` is missing or may
    /// not look into the process, prints this and returns `None`.
    ///
    /// # Panics
    /// If `strace` is missing and `REQUIRE_CLIENTS` is set.
    pub fn start(fault: CallFault, id: u32, directory: &Path) -> Option<Self> {
        if let Err(error) = Command::new("strace").arg("-V").output() {
            let required = std::env::var_os("REQUIRE_CLIENTS").is_some();
            assert!(!required, "strace: {error} (Debian: strace)");
            note(&format!("skipped, strace: {error} (Debian: strace)"));
            return None;
        }
        let home = tempfile::tempdir().expect("a temporary directory");
        let output = home.path().join("calls");
        let mut command = Command::new("strace");
        command
            .args(["-p", &id.to_string()])
            .args(fault.arguments(directory, &output))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut process = ChildProcess::start(command, format!("strace for {fault:?}"));
        let has_begun = wait_for("strace", || {
            let is_attached = process.stderr().contains("attached");
            (is_attached || process.exit_status().is_some()).then_some(is_attached)
        });
        if !has_begun {
            let text = process.stderr();
            assert!(text.contains("not permitted"), "strace: {text}");
            note(&format!("skipped, strace: {text}"));
            return None;
        }
        Some(Self {
            process,
            output,
            _home: home,
        })
    }

    /// The number of calls that have failed so far.
    pub fn failed_calls(&self) -> usize {
        failed_calls(&self.output)
    }

    /// Ends the injection. Returns the number of calls that have failed.
    pub fn end(self) -> usize {
        let Self {
            process,
            output,
            _home: home,
        } = self;
        process.end(EndSignal::Interrupt);
        let count = failed_calls(&output);
        drop(home);
        count
    }
}

/// The number of failed calls in the output of `strace`.
pub fn failed_calls(output: &Path) -> usize {
    let text = std::fs::read(output).unwrap_or_default();
    String::from_utf8_lossy(&text).matches(MARK).count()
}
