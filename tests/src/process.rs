//! A running node: started from its binary, found through its banner, ended by signals.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::ops::Deref;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::binary::vnode_path;
use crate::call::Caller;
use crate::wait::{PATIENCE, wait_for};

/// How much of a node's log a failing test shows.
const LOG_SHOWN: usize = 6000;

/// A node about to be started.
#[derive(Debug)]
pub struct Launch {
    arguments: Vec<String>,
    command: Vec<String>,
    data: PathBuf,
    directory: PathBuf,
    /// Most bytes of a file that it may write.
    file_bytes_max: Option<u64>,
    home: TempDir,
}

impl Launch {
    /// A node with these arguments alone, in an empty working directory and home.
    pub fn bare<S: Into<String>>(arguments: impl IntoIterator<Item = S>) -> Self {
        // Short, as the path of a unix socket must fit about a hundred bytes.
        let home = tempfile::Builder::new()
            .prefix("vn")
            .tempdir()
            .expect("a temporary directory");
        Self {
            arguments: arguments.into_iter().map(Into::into).collect(),
            command: Vec::new(),
            data: home.path().join("data"),
            directory: home.path().to_owned(),
            file_bytes_max: None,
            home,
        }
    }

    /// The development network over HTTP on a free port, with fresh data, and these arguments.
    pub fn dev<S: Into<String>>(arguments: impl IntoIterator<Item = S>) -> Self {
        let mut launch = Self::bare(["--dev", "--rpc", "--rpcport", "0"]);
        launch.arguments.extend(arguments.into_iter().map(Into::into));
        launch
    }

    /// With a command and its arguments after the options.
    pub fn command(mut self, words: &[&str]) -> Self {
        self.command = words.iter().map(|word| (*word).to_owned()).collect();
        self
    }

    /// With the data in `directory`, which outlives the node.
    pub fn data(mut self, directory: &Path) -> Self {
        directory.clone_into(&mut self.data);
        self
    }

    /// Started from `directory`.
    pub fn directory(mut self, directory: &Path) -> Self {
        directory.clone_into(&mut self.directory);
        self
    }

    /// Without the right to make a file longer than `bytes`; [`Vnode::free_file_length`] gives it.
    pub fn file_bytes_max(mut self, bytes: u64) -> Self {
        self.file_bytes_max = Some(bytes);
        self
    }

    fn spawn(&self) -> (Child, Instant) {
        let mut command = Command::new(vnode_path());
        command
            .args(&self.arguments)
            .arg("--datadir")
            .arg(&self.data)
            .args(&self.command)
            .current_dir(&self.directory)
            .env("HOME", self.home.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(bytes) = self.file_bytes_max {
            let limit = libc::rlimit {
                rlim_cur: bytes,
                rlim_max: libc::RLIM_INFINITY,
            };
            // SAFETY: between fork and exec, where it does one system call on a value of its own.
            unsafe {
                command.pre_exec(move || match libc::setrlimit(libc::RLIMIT_FSIZE, &limit) {
                    0 => Ok(()),
                    _ => Err(std::io::Error::last_os_error()),
                });
            }
        }
        let started = Instant::now();
        let child = command
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        (child, started)
    }

    /// Starts the node and waits for its banner.
    ///
    /// # Panics
    /// When it ends, or says nothing, instead.
    #[track_caller]
    pub fn start(self) -> Vnode {
        match self.begin() {
            Ok(node) => node,
            Err((status, log)) => panic!("the node ended with {status} before it was up:\n{log}"),
        }
    }

    /// Starts the node; `None` where it ends by itself, with an error, instead of coming up.
    ///
    /// # Panics
    /// When it does neither, or ends otherwise.
    #[track_caller]
    pub fn try_start(self) -> Option<Vnode> {
        match self.begin() {
            Ok(node) => Some(node),
            Err((status, _)) if status.code() == Some(1) => None,
            Err((status, log)) => panic!("the node ended with {status}, want 1:\n{log}"),
        }
    }

    #[track_caller]
    fn begin(self) -> Result<Vnode, (ExitStatus, String)> {
        let (mut child, started) = self.spawn();
        let stdout = Output::of(child.stdout.take().expect("piped"));
        let stderr = Output::of(child.stderr.take().expect("piped"));
        let unbound = Caller::new(SocketAddr::from(([127, 0, 0, 1], 0)));
        let mut node = Vnode {
            child,
            started,
            stdout,
            stderr,
            addresses: Vec::new(),
            caller: unbound,
            launch: self,
        };
        match node.wait_for_banner() {
            None => Ok(node),
            Some(status) => Err((status, node.stderr.whole())),
        }
    }

    /// Starts the node and kills it `later` than the moment when `come` says so.
    ///
    /// # Panics
    /// When that moment does not come.
    #[track_caller]
    pub fn kill_after(self, mut come: impl FnMut() -> bool, later: Duration) {
        let (mut child, started) = self.spawn();
        while !come() && started.elapsed() < PATIENCE {
            std::hint::spin_loop();
        }
        let late = started.elapsed() >= PATIENCE;
        std::thread::sleep(later);
        child
            .kill()
            .expect("a child can be killed until it was waited for");
        child.wait().expect("a child can be waited for");
        assert!(!late, "waited {PATIENCE:?} for the moment to kill a node");
    }

    /// Runs a node that is to end by itself.
    ///
    /// # Panics
    /// When it goes on.
    #[track_caller]
    pub fn run(self) -> Ended {
        let (mut child, started) = self.spawn();
        let mut stdout = Output::of(child.stdout.take().expect("piped"));
        let mut stderr = Output::of(child.stderr.take().expect("piped"));
        let status = end(&mut child, started);
        let (Some(status), took) = status else {
            let _ = child.kill();
            let _ = child.wait();
            panic!(
                "{:?} goes on after {PATIENCE:?}; it says:\n{}",
                self.arguments,
                stdout.text()
            );
        };
        Ended {
            status,
            stdout: stdout.whole(),
            stderr: stderr.whole(),
            took,
        }
    }
}

/// Waits for the end of a process; gives the time since `from`.
pub(crate) fn end(child: &mut Child, from: Instant) -> (Option<ExitStatus>, Duration) {
    let waiting = Instant::now();
    loop {
        let status = child.try_wait().expect("a child can be waited for");
        if status.is_some() || waiting.elapsed() > PATIENCE {
            return (status, from.elapsed());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// What a process wrote, read by a thread of its own so that the process never waits.
#[derive(Debug)]
pub(crate) struct Output {
    text: Arc<Mutex<String>>,
    reader: Option<JoinHandle<()>>,
}

impl Output {
    pub(crate) fn of(pipe: impl Read + Send + 'static) -> Self {
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

    pub(crate) fn text(&self) -> String {
        self.text.lock().expect("no holder panics").clone()
    }

    /// All of it, once the process has ended.
    pub(crate) fn whole(&mut self) -> String {
        if let Some(reader) = self.reader.take() {
            reader.join().expect("the reader does not panic");
        }
        self.text()
    }
}

/// How a node ended.
#[derive(Debug)]
pub struct Ended {
    /// Exit code or signal.
    pub status: ExitStatus,
    /// All of its standard output.
    pub stdout: String,
    /// All of its standard error.
    pub stderr: String,
    /// Time since the signal, or since the start where there was none.
    pub took: Duration,
}

/// Signals that end a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Ctrl-C.
    Interrupt,
    /// What service managers send.
    Terminate,
    /// The end without notice.
    Kill,
}

/// A running node; calls go to its first endpoint. Killed when dropped.
#[derive(Debug)]
pub struct Vnode {
    child: Child,
    started: Instant,
    stdout: Output,
    stderr: Output,
    addresses: Vec<SocketAddr>,
    caller: Caller,
    launch: Launch,
}

impl Vnode {
    /// The development network with these arguments, running.
    #[track_caller]
    pub fn dev<S: Into<String>>(arguments: impl IntoIterator<Item = S>) -> Self {
        Launch::dev(arguments).start()
    }

    /// Waits for the banner; gives how the node ended where it did that instead.
    #[track_caller]
    fn wait_for_banner(&mut self) -> Option<ExitStatus> {
        let ended = wait_for("the banner of a node", || {
            if let Some(status) = self.child.try_wait().expect("a child can be waited for") {
                return Some(Some(status));
            }
            // The lines on mining end the banner.
            self.stdout.text().contains("\nmining ").then_some(None)
        });
        if ended.is_some() {
            return ended;
        }
        let addresses = self.banner_values("endpoint").into_iter();
        self.addresses = addresses
            .filter_map(|value| value.strip_prefix("http://")?.parse().ok())
            .collect();
        if let Some(first) = self.addresses.first() {
            self.caller = Caller::new(*first);
        }
        None
    }

    /// What the node has written to standard output.
    pub fn banner(&self) -> String {
        self.stdout.text()
    }

    /// What the node has written to standard error.
    pub fn log(&self) -> String {
        self.stderr.text()
    }

    /// The values of the banner's lines that begin with `key`.
    pub fn banner_values(&self, key: &str) -> Vec<String> {
        let banner = self.banner();
        let values = banner
            .lines()
            .filter_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
        values.map(|value| value.trim().to_owned()).collect()
    }

    /// The HTTP addresses of the banner, in its order.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The first HTTP endpoint as a URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.addresses.first().expect("started with --rpc"))
    }

    /// The first WebSocket address of the banner.
    ///
    /// # Panics
    /// When the node was started without `--ws`.
    pub fn ws_address(&self) -> SocketAddr {
        let endpoints = self.banner_values("endpoint");
        let address = endpoints.iter().find_map(|value| value.strip_prefix("ws://"));
        address
            .and_then(|address| address.parse().ok())
            .expect("started with --ws")
    }

    /// Memory of the process that is really there, in bytes.
    ///
    /// # Panics
    /// Where the system does not tell.
    pub fn memory(&self) -> usize {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let kib = status.lines().find_map(|line| {
            line.strip_prefix("VmRSS:")?
                .split_whitespace()
                .next()?
                .parse::<usize>()
                .ok()
        });
        kib.unwrap_or_else(|| panic!("{path} without VmRSS")) * 1024
    }

    /// Path of the local socket.
    pub fn socket(&self) -> PathBuf {
        let endpoints = self.banner_values("endpoint");
        let path = endpoints.iter().find_map(|value| value.strip_prefix("ipc "));
        path.expect("the banner names the socket").into()
    }

    /// The process's id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// When the process was started.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// Takes the limit of [`Launch::file_bytes_max`] away, as if space had become free.
    #[cfg(target_os = "linux")]
    pub fn free_file_length(&self) {
        let limit = libc::rlimit {
            rlim_cur: libc::RLIM_INFINITY,
            rlim_max: libc::RLIM_INFINITY,
        };
        let pid = libc::pid_t::try_from(self.child.id()).expect("a process id fits");
        // SAFETY: reads a value of ours and writes nowhere; the child is ours and not yet waited for.
        let result = unsafe { libc::prlimit(pid, libc::RLIMIT_FSIZE, &limit, std::ptr::null_mut()) };
        let error = std::io::Error::last_os_error();
        assert_eq!(result, 0, "cannot change a limit of the node: {error}");
    }

    /// Waits until the node ends by itself.
    ///
    /// # Panics
    /// When it goes on.
    #[track_caller]
    pub fn wait_for_end(mut self) -> Ended {
        let waiting = Instant::now();
        let (status, took) = end(&mut self.child, waiting);
        let Some(status) = status else {
            panic!("the node goes on after {PATIENCE:?}")
        };
        self.ended(status, took)
    }

    fn ended(&mut self, status: ExitStatus, took: Duration) -> Ended {
        Ended {
            status,
            stdout: self.stdout.whole(),
            stderr: self.stderr.whole(),
            took,
        }
    }

    /// Sends a signal and waits for the end.
    ///
    /// # Panics
    /// When the node goes on.
    #[track_caller]
    pub fn end(mut self, signal: Signal) -> Ended {
        let sent = Instant::now();
        self.send(signal);
        let (status, took) = end(&mut self.child, sent);
        let Some(status) = status else {
            panic!("the node goes on {PATIENCE:?} after {signal:?}")
        };
        self.ended(status, took)
    }

    fn send(&self, signal: Signal) {
        send(&self.child, signal);
    }

    /// Where miners connect by Stratum.
    pub fn stratum(&self) -> SocketAddr {
        let endpoints = self.banner_values("endpoint");
        let address = endpoints
            .iter()
            .find_map(|value| value.strip_prefix("stratum+tcp://"));
        let address = address.expect("started with --stratum");
        address.parse().expect("the banner names an address")
    }

    /// Where the status of Stratum is served.
    pub fn stratum_status(&self) -> SocketAddr {
        let endpoints = self.banner_values("endpoint");
        let address = endpoints
            .iter()
            .find_map(|value| value.strip_prefix("http status of Stratum "));
        let address = address.expect("started with --stratum.status");
        address.parse().expect("the banner names an address")
    }
}

/// Sends a signal to a child that was not yet waited for.
pub(crate) fn send(child: &Child, signal: Signal) {
    let number = match signal {
        Signal::Interrupt => libc::SIGINT,
        Signal::Terminate => libc::SIGTERM,
        Signal::Kill => libc::SIGKILL,
    };
    let pid = libc::pid_t::try_from(child.id()).expect("a process id fits");
    // SAFETY: takes numbers alone; the child is ours and not yet waited for, so the id is its own.
    let result = unsafe { libc::kill(pid, number) };
    assert_eq!(
        result,
        0,
        "cannot send {signal:?}: {}",
        std::io::Error::last_os_error()
    );
}

impl Deref for Vnode {
    type Target = Caller;

    fn deref(&self) -> &Caller {
        &self.caller
    }
}

impl Drop for Vnode {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let log = self.stderr.text();
            let from = log.ceil_char_boundary(log.len().saturating_sub(LOG_SHOWN));
            println!(
                "log of the node with {:?}:\n{}",
                self.launch.arguments,
                &log[from..]
            );
        }
    }
}
