//! A child process: its output is collected, signals end it, and it is killed when dropped.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::wait::{FairClock, PATIENCE};

/// The part of the log that a failing test prints, in bytes.
const LOG_SHOWN: usize = 6000;

/// An ended process: its exit and its output.
#[derive(Debug)]
pub struct EndedProcess {
    /// Exit code or signal.
    pub status: ExitStatus,
    /// The whole standard output.
    pub stdout: String,
    /// The whole standard error.
    pub stderr: String,
    /// Time since the signal, or since the wait began if no signal was sent.
    pub took: Duration,
}

/// The memory and the time that a process has used so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessUsage {
    /// Resident memory, in bytes.
    pub memory: usize,
    /// Processor time.
    pub processor: Duration,
    /// Threads at this moment.
    pub threads: usize,
    /// Open descriptors at this moment.
    pub descriptors: usize,
}

/// Signals that end a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndSignal {
    /// Ctrl-C.
    Interrupt,
    /// The signal that service managers send.
    Terminate,
    /// Ends the process at once.
    Kill,
}

/// Limits the length of each file that the process may write to `bytes`, as if the disk were full.
/// [`ChildProcess::free_file_length`] removes the limit.
pub(crate) fn limit_file_length(command: &mut Command, bytes: u64) {
    let limit = libc::rlimit {
        rlim_cur: bytes,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: the closure runs between fork and exec. It makes one system call on a value that it
    // owns, and allocates nothing.
    unsafe {
        command.pre_exec(
            move || match libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            },
        );
    }
}

/// A child process whose output is collected. Killed when dropped.
#[derive(Debug)]
pub(crate) struct ChildProcess {
    child: Child,
    /// The process and its arguments, for messages.
    label: String,
    started: Instant,
    stdout: CollectedOutput,
    stderr: CollectedOutput,
}

impl ChildProcess {
    /// Starts `command`, whose standard output and standard error must be piped.
    ///
    /// # Panics
    /// If the process cannot be started.
    pub(crate) fn start(mut command: Command, label: String) -> Self {
        let started = Instant::now();
        let mut child = command
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        Self {
            stdout: CollectedOutput::of(child.stdout.take().expect("piped")),
            stderr: CollectedOutput::of(child.stderr.take().expect("piped")),
            child,
            label,
            started,
        }
    }

    /// Returns the memory and the time that the process has used so far.
    ///
    /// # Panics
    /// If the system does not report it.
    pub(crate) fn usage(&self) -> ProcessUsage {
        let read = |name: &str| {
            let path = format!("/proc/{}/{name}", self.id());
            std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
        };
        let status = read("status");
        let number = |key: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(key));
            let word = line.and_then(|line| line.split_whitespace().next()?.parse::<usize>().ok());
            word.unwrap_or_else(|| panic!("no {key} in {status}"))
        };
        let descriptors = std::fs::read_dir(format!("/proc/{}/fd", self.id()));
        let descriptors = descriptors.expect("the descriptors of a process").count();
        let stat = read("stat");
        // The name of the program stands in brackets and may contain anything.
        let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
        let ticks: Vec<u64> = fields
            .skip(11)
            .take(2)
            .filter_map(|ticks| ticks.parse().ok())
            .collect();
        assert_eq!(ticks.len(), 2, "no times in {stat}");
        // SAFETY: the call has no conditions.
        let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
        ProcessUsage {
            memory: number("VmRSS:") * 1024,
            processor: Duration::from_secs_f64(ticks.iter().sum::<u64>() as f64 / per_second as f64),
            threads: number("Threads:"),
            descriptors,
        }
    }

    /// Process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The time of the process's start.
    pub(crate) const fn started(&self) -> Instant {
        self.started
    }

    /// The standard output so far.
    pub(crate) fn stdout(&self) -> String {
        self.stdout.text()
    }

    /// The standard error so far.
    pub(crate) fn stderr(&self) -> String {
        self.stderr.text()
    }

    /// The exit status; `None` while the process runs.
    pub(crate) fn exit_status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("a child can be waited for")
    }

    /// Sends a signal and waits for the end.
    ///
    /// # Panics
    /// If the process does not end.
    #[track_caller]
    pub(crate) fn end(self, signal: EndSignal) -> EndedProcess {
        let sent = Instant::now();
        self.send(signal);
        self.wait_since(sent)
    }

    /// Waits until the process ends by itself.
    ///
    /// # Panics
    /// If it does not end.
    #[track_caller]
    pub(crate) fn wait(self) -> EndedProcess {
        self.wait_since(Instant::now())
    }

    #[track_caller]
    fn wait_since(mut self, since: Instant) -> EndedProcess {
        let mut waiting = FairClock::start();
        loop {
            if let Some(status) = self.exit_status() {
                let took = since.elapsed();
                return EndedProcess {
                    status,
                    stdout: self.stdout.whole(),
                    stderr: self.stderr.whole(),
                    took,
                };
            }
            assert!(
                waiting.elapsed() <= PATIENCE,
                "{} has not ended after {PATIENCE:?}; its output:\n{}",
                self.label,
                self.stdout()
            );
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn send(&self, signal: EndSignal) {
        self.send_number(match signal {
            EndSignal::Interrupt => libc::SIGINT,
            EndSignal::Terminate => libc::SIGTERM,
            EndSignal::Kill => libc::SIGKILL,
        });
    }

    /// Sends the signal after which a server reads its files again.
    pub(crate) fn hang_up(&self) {
        self.send_number(libc::SIGHUP);
    }

    /// Removes the limit of [`limit_file_length`], as if space had become free.
    #[cfg(target_os = "linux")]
    pub(crate) fn free_file_length(&self) {
        let limit = libc::rlimit {
            rlim_cur: libc::RLIM_INFINITY,
            rlim_max: libc::RLIM_INFINITY,
        };
        let pid = libc::pid_t::try_from(self.id()).expect("a process id fits");
        // SAFETY: the call reads `limit` and writes nothing; the child has not been waited for, so
        // the id is its own.
        let result =
            unsafe { libc::prlimit(pid, libc::RLIMIT_FSIZE, &raw const limit, std::ptr::null_mut()) };
        let error = std::io::Error::last_os_error();
        assert_eq!(result, 0, "cannot change a limit of {}: {error}", self.label);
    }

    fn send_number(&self, number: libc::c_int) {
        let pid = libc::pid_t::try_from(self.id()).expect("a process id fits");
        // SAFETY: the arguments are numbers; the child has not been waited for, so the id is its
        // own.
        let result = unsafe { libc::kill(pid, number) };
        assert_eq!(
            result,
            0,
            "cannot send signal {number}: {}",
            std::io::Error::last_os_error()
        );
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let log = self.stderr();
            let from = log.ceil_char_boundary(log.len().saturating_sub(LOG_SHOWN));
            println!("log of {}:\n{}", self.label, &log[from..]);
        }
    }
}

/// The output of a process. A thread of its own reads the pipe, so that the process never waits.
#[derive(Debug)]
struct CollectedOutput {
    text: Arc<Mutex<String>>,
    reader: Option<JoinHandle<()>>,
}

impl CollectedOutput {
    fn of(pipe: impl Read + Send + 'static) -> Self {
        let text = Arc::new(Mutex::new(String::new()));
        let shared = text.clone();
        let reader = std::thread::spawn(move || {
            let mut pipe = BufReader::new(pipe);
            let mut line = Vec::new();
            while pipe.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
                shared
                    .lock()
                    .expect("no holder panics")
                    .push_str(&String::from_utf8_lossy(&line));
                line.clear();
            }
        });
        Self {
            text,
            reader: Some(reader),
        }
    }

    /// The text so far.
    fn text(&self) -> String {
        self.text.lock().expect("no holder panics").clone()
    }

    /// The whole text. The process must have ended.
    fn whole(&mut self) -> String {
        if let Some(reader) = self.reader.take() {
            reader.join().expect("the reader does not panic");
        }
        self.text()
    }
}
