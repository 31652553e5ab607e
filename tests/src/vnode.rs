//! A running node: started from its binary, found by its banner, ended by signals.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::binary::vnode_path;
use crate::call::Caller;
use crate::http;
use crate::process::{ChildProcess, EndSignal, EndedProcess, ProcessUsage, limit_file_length};
use crate::wait::{FairClock, PATIENCE, wait_for};

/// Commands that start no node.
const COMMANDS: [&str; 11] = [
    "init",
    "import",
    "export",
    "db",
    "dump",
    "dumpconfig",
    "account",
    "attach",
    "rpc",
    "testvec",
    "version",
];

/// Options of a development node that makes a block each second. No processor searches for seals.
pub const MAKES_BLOCKS: [&str; 4] = ["--dev.seal", "instant", "--dev.period", "1"];

/// A node that has not been started yet.
#[derive(Debug)]
pub struct Launch {
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    command: Vec<String>,
    data: PathBuf,
    directory: PathBuf,
    /// Longest file that the node may write, in bytes.
    file_bytes_max: Option<u64>,
    /// Program and arguments that execute the node; none for the node itself.
    runner: Vec<OsString>,
    home: TempDir,
}

impl Launch {
    /// A node with only these arguments, in an empty working directory and home.
    pub fn bare<S: Into<String>>(arguments: impl IntoIterator<Item = S>) -> Self {
        // The name is short, because the path of a Unix socket has at most about a hundred bytes.
        let home = tempfile::Builder::new()
            .prefix("vn")
            .tempdir()
            .expect("a temporary directory");
        Self {
            arguments: arguments.into_iter().map(Into::into).collect(),
            environment: Vec::new(),
            command: Vec::new(),
            data: home.path().join("data"),
            directory: home.path().to_owned(),
            file_bytes_max: None,
            runner: Vec::new(),
            home,
        }
    }

    /// A node of the development network with new data, HTTP on a free port, and these arguments.
    /// If it mines, it does so with one thread, because other tests need the processors.
    pub fn dev<S: Into<String>>(arguments: impl IntoIterator<Item = S>) -> Self {
        let mut launch = Self::bare(["--dev", "--rpc", "--rpcport", "0"]);
        launch.arguments.extend(arguments.into_iter().map(Into::into));
        let has = |option: &str| launch.arguments.iter().any(|argument| argument == option);
        if has("--mine") && !has("--minerthreads") {
            launch
                .arguments
                .extend(["--minerthreads", "1"].map(str::to_owned));
        }
        launch
    }

    /// A node of the development network that makes a block each second without a search
    /// ([`MAKES_BLOCKS`]), for tests that are not about seals.
    pub fn with_blocks<S: Into<String>>(arguments: impl IntoIterator<Item = S>) -> Self {
        let mut launch = Self::dev(MAKES_BLOCKS);
        launch.arguments.extend(arguments.into_iter().map(Into::into));
        launch
    }

    /// Sets a variable of the environment.
    pub fn environment(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Adds a command and its arguments after the options.
    pub fn command(mut self, words: &[&str]) -> Self {
        self.command = words.iter().map(|word| (*word).to_owned()).collect();
        self
    }

    /// Sets the data directory, which is kept after the node has ended.
    pub fn data(mut self, directory: &Path) -> Self {
        directory.clone_into(&mut self.data);
        self
    }

    /// Sets the working directory.
    pub fn directory(mut self, directory: &Path) -> Self {
        directory.clone_into(&mut self.directory);
        self
    }

    /// Runs the node by this program with these arguments, which must execute the words after them.
    pub fn by(mut self, words: Vec<OsString>) -> Self {
        self.runner = words;
        self
    }

    /// Limits the length of each file to `bytes`; [`Vnode::free_file_length`] removes the limit.
    pub const fn file_bytes_max(mut self, bytes: u64) -> Self {
        self.file_bytes_max = Some(bytes);
        self
    }

    /// Options that keep a node from looking for nodes outside of the test, and from taking a port
    /// that another test uses. What the test says itself stays.
    fn quiet_options(&self) -> Vec<&'static str> {
        let has = |name: &str| self.arguments.iter().any(|argument| argument.starts_with(name));
        let is_command = |argument: &String| COMMANDS.contains(&argument.as_str());
        let has_command = !self.command.is_empty() || self.arguments.iter().any(is_command);
        if has_command || has("--help") || has("--version") {
            return Vec::new();
        }
        let mut options = Vec::new();
        if !has("--port") && !has("--dev") {
            options.extend(["--port", "0"]);
        }
        if !has("--nodiscover") && !has("--bootnodes") {
            options.push("--nodiscover");
        }
        if !has("--nat") {
            options.extend(["--nat", "none"]);
        }
        options
    }

    fn spawn(&self) -> ChildProcess {
        let node = vnode_path().into();
        let mut words = self.runner.iter().chain([&node]);
        let mut command = Command::new(words.next().unwrap_or(&node));
        command
            .args(words)
            .args(&self.arguments)
            .args(self.quiet_options())
            .arg("--datadir")
            .arg(&self.data)
            .args(&self.command)
            .current_dir(&self.directory)
            .env("HOME", self.home.path())
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(bytes) = self.file_bytes_max {
            limit_file_length(&mut command, bytes);
        }
        ChildProcess::start(
            command,
            format!("vnode with {:?} {:?}", self.arguments, self.command),
        )
    }

    /// Starts the node and waits for its banner.
    ///
    /// # Panics
    /// If the node ends before its banner, or prints no banner.
    #[track_caller]
    pub fn start(self) -> Vnode {
        match self.wait_for_banner() {
            Ok(node) => node,
            Err(ended) => panic!(
                "the node ended with {} before its banner:\n{}",
                ended.status, ended.stderr
            ),
        }
    }

    /// Starts the node and waits for its banner. Returns `None` if the node ends with exit code 1
    /// before its banner.
    ///
    /// # Panics
    /// If the node ends with another status, or prints no banner.
    #[track_caller]
    pub fn try_start(self) -> Option<Vnode> {
        match self.wait_for_banner() {
            Ok(node) => Some(node),
            Err(ended) if ended.status.code() == Some(1) => None,
            Err(ended) => panic!("exit: got {}, expected 1:\n{}", ended.status, ended.stderr),
        }
    }

    /// Starts the node and waits for its banner.
    ///
    /// # Errors
    /// The end of the node, if it came instead.
    #[track_caller]
    pub fn wait_for_banner(self) -> Result<Vnode, EndedProcess> {
        let mut process = self.spawn();
        let exited: Option<ExitStatus> = wait_for("the banner of a node", || {
            if let Some(status) = process.exit_status() {
                return Some(Some(status));
            }
            // The last lines of the banner are those on mining.
            process.stdout().contains("\nmining ").then_some(None)
        });
        if exited.is_some() {
            return Err(process.wait());
        }
        let addresses: Vec<SocketAddr> = banner_values(&process.stdout(), "endpoint")
            .iter()
            .filter_map(|value| value.strip_prefix("http://")?.parse().ok())
            .collect();
        let unreachable = SocketAddr::from(([127, 0, 0, 1], 0));
        Ok(Vnode {
            caller: Caller::new(addresses.first().copied().unwrap_or(unreachable)),
            addresses,
            process,
            _home: self.home,
        })
    }

    /// Starts the node, waits until `condition` holds, and kills the node `delay` later.
    ///
    /// # Panics
    /// If the condition never holds.
    #[track_caller]
    pub fn kill_after(self, mut condition: impl FnMut() -> bool, delay: Duration) {
        let process = self.spawn();
        let mut clock = FairClock::start();
        // Polls without a pause, because the delays of some tests are microseconds.
        while !condition() {
            assert!(
                clock.elapsed() < PATIENCE,
                "waited {PATIENCE:?} for the moment to kill a node"
            );
            std::hint::spin_loop();
        }
        std::thread::sleep(delay);
        // Dropping the process kills it.
        drop(process);
    }

    /// Runs a node that ends by itself.
    ///
    /// # Panics
    /// If the node does not end.
    #[track_caller]
    pub fn run(self) -> EndedProcess {
        self.spawn().wait()
    }
}

/// A running node. Calls go to its first HTTP endpoint. Killed when dropped.
#[derive(Debug)]
pub struct Vnode {
    process: ChildProcess,
    addresses: Vec<SocketAddr>,
    caller: Caller,
    /// Keeps the home directory until the node has ended.
    _home: TempDir,
}

impl Vnode {
    /// Starts a node of the development network with these arguments.
    #[track_caller]
    pub fn dev<S: Into<String>>(arguments: impl IntoIterator<Item = S>) -> Self {
        Launch::dev(arguments).start()
    }

    /// Starts a node of the development network that makes a block each second without a search.
    #[track_caller]
    pub fn with_blocks<S: Into<String>>(arguments: impl IntoIterator<Item = S>) -> Self {
        Launch::with_blocks(arguments).start()
    }

    /// Starts a node of the development network that does not mine, with a Stratum server, the
    /// status of that server and these arguments.
    #[track_caller]
    pub fn with_stratum(arguments: &[&str]) -> Self {
        let stratum = [
            "--stratum",
            "--stratumport",
            "0",
            "--stratum.status",
            "127.0.0.1:0",
        ];
        Self::dev(stratum.into_iter().chain(arguments.iter().copied()))
    }

    /// The standard output of the node so far.
    pub fn banner(&self) -> String {
        self.process.stdout()
    }

    /// The standard error of the node so far.
    pub fn log(&self) -> String {
        self.process.stderr()
    }

    /// The values of the banner lines that begin with `key`.
    pub fn banner_values(&self, key: &str) -> Vec<String> {
        banner_values(&self.banner(), key)
    }

    /// The first endpoint in the banner that begins with `prefix`, without the prefix.
    fn endpoint(&self, prefix: &str) -> Option<String> {
        let endpoints = self.banner_values("endpoint");
        let mut values = endpoints.iter().filter_map(|value| value.strip_prefix(prefix));
        values.next().map(str::to_owned)
    }

    /// The HTTP addresses, in the order of the banner.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The first HTTP endpoint as a URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.addresses.first().expect("started with --rpc"))
    }

    /// The first WebSocket address.
    ///
    /// # Panics
    /// If the node was started without `--ws`.
    pub fn ws_address(&self) -> SocketAddr {
        let address = self.endpoint("ws://").expect("started with --ws");
        address.parse().expect("the banner has an address")
    }

    /// Path of the local socket.
    pub fn socket(&self) -> PathBuf {
        self.endpoint("ipc ").expect("the banner has the socket").into()
    }

    /// Address of the Stratum server.
    ///
    /// # Panics
    /// If the node was started without `--stratum`.
    pub fn stratum(&self) -> SocketAddr {
        let address = self.endpoint("stratum+tcp://").expect("started with --stratum");
        address.parse().expect("the banner has an address")
    }

    /// Address of the status of the Stratum server.
    ///
    /// # Panics
    /// If the node was started without `--stratum.status`.
    pub fn stratum_status(&self) -> SocketAddr {
        let address = self.endpoint("http status of Stratum ");
        let address = address.expect("started with --stratum.status");
        address.parse().expect("the banner has an address")
    }

    /// Address of the dashboard.
    ///
    /// # Panics
    /// If the node was started without `--dashboard`.
    pub fn dashboard(&self) -> SocketAddr {
        let address = self
            .endpoint("http dashboard http://")
            .expect("started with --dashboard");
        let address = address.trim_end_matches('/');
        address.parse().expect("the banner has an address")
    }

    /// The answer of the status of the Stratum server.
    ///
    /// # Panics
    /// If the node was started without `--stratum.status`, or the status is not JSON.
    pub fn stratum_figures(&self) -> Value {
        let answer = http::get(self.stratum_status(), "/status").expect("the status is served");
        serde_json::from_str(&answer.body).expect("the status is JSON")
    }

    /// Resident memory of the process, in bytes.
    ///
    /// # Panics
    /// If the system does not report it.
    pub fn memory(&self) -> usize {
        self.usage().memory
    }

    /// Processor time that the process has used so far.
    ///
    /// # Panics
    /// If the system does not report it.
    pub fn cpu_time(&self) -> Duration {
        self.usage().processor
    }

    /// Returns the memory and the time that the process has used so far.
    ///
    /// # Panics
    /// If the system does not report it.
    pub fn usage(&self) -> ProcessUsage {
        self.process.usage()
    }

    /// Sends the signal after which the node reads its certificates and tokens again.
    pub fn hang_up(&self) {
        self.process.hang_up();
    }

    /// Whether the node has ended.
    pub fn has_ended(&mut self) -> bool {
        self.process.exit_status().is_some()
    }

    /// Process id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// The time of the process's start.
    pub const fn started(&self) -> Instant {
        self.process.started()
    }

    /// Removes the limit of [`Launch::file_bytes_max`], as if space had become free.
    #[cfg(target_os = "linux")]
    pub fn free_file_length(&self) {
        self.process.free_file_length();
    }

    /// Waits until the node ends by itself.
    ///
    /// # Panics
    /// If the node does not end.
    #[track_caller]
    pub fn wait_for_end(self) -> EndedProcess {
        self.process.wait()
    }

    /// Sends a signal and waits for the end.
    ///
    /// # Panics
    /// If the node does not end.
    #[track_caller]
    pub fn end(self, signal: EndSignal) -> EndedProcess {
        self.process.end(signal)
    }
}

/// The values of the lines of `banner` that begin with `key`.
fn banner_values(banner: &str, key: &str) -> Vec<String> {
    let values = banner
        .lines()
        .filter_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
    values.map(|value| value.trim().to_owned()).collect()
}

impl Deref for Vnode {
    type Target = Caller;

    fn deref(&self) -> &Caller {
        &self.caller
    }
}
