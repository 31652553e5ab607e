//! A running SCS: started from its binary in a folder of its own, found by its first lines of
//! output, ended by signals.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::binary::scs_path;
use crate::call::Caller;
use crate::process::{ChildProcess, EndSignal, EndedProcess, ProcessUsage, limit_file_length};
use crate::wait::wait_for;

/// A running SCS. Killed when dropped.
#[derive(Debug)]
pub struct Scs {
    process: ChildProcess,
    caller: Caller,
    address: SocketAddr,
    id: String,
    folder: PathBuf,
}

/// Starts the program in `folder`. With a number of bytes, it can write no longer files.
fn launch(folder: &Path, arguments: &[&str], file_bytes_max: Option<u64>) -> ChildProcess {
    let mut command = Command::new(scs_path());
    command
        .args(arguments)
        .current_dir(folder)
        .env("HOME", folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if let Some(bytes) = file_bytes_max {
        limit_file_length(&mut command, bytes);
    }
    ChildProcess::start(command, format!("scs with {arguments:?}"))
}

impl Scs {
    /// Starts an SCS in `folder` with HTTP on a free port and these arguments.
    ///
    /// # Panics
    /// If it ends before its last line of output.
    #[track_caller]
    pub fn start(folder: &Path, arguments: &[&str]) -> Self {
        Self::start_within(folder, arguments, None)
    }

    /// The same for an SCS whose files cannot become longer than so many bytes.
    /// [`Self::free_file_length`] removes the limit.
    ///
    /// # Panics
    /// As for [`Self::start`].
    #[track_caller]
    pub fn start_within(folder: &Path, arguments: &[&str], file_bytes_max: Option<u64>) -> Self {
        let all: Vec<_> = ["--rpc", "--rpcport", "0", "--lightkdf"]
            .iter()
            .chain(arguments)
            .copied()
            .collect();
        let mut process = launch(folder, &all, file_bytes_max);
        wait_for("the first lines of an SCS", || {
            if let Some(status) = process.exit_status() {
                panic!("the SCS ended with {status}:\n{}", process.stderr());
            }
            process.stdout().contains("\nendpoint ").then_some(())
        });
        let text = process.stdout();
        let value = |key: &str| {
            let line = text.lines().find(|line| line.starts_with(key));
            let value = line.and_then(|line| line.split_whitespace().last());
            value.unwrap_or_else(|| panic!("no {key} in {text}")).to_owned()
        };
        let endpoint = value("endpoint");
        let address: SocketAddr = endpoint
            .split_once("://")
            .filter(|(scheme, _)| ["http", "https"].contains(scheme))
            .and_then(|(_, address)| address.parse().ok())
            .unwrap_or_else(|| panic!("endpoint: got {endpoint}"));
        Self {
            caller: Caller::new(address),
            address,
            id: value("SCS id"),
            folder: folder.to_owned(),
            process,
        }
    }

    /// Runs an SCS that ends by itself.
    ///
    /// # Panics
    /// If it does not end.
    #[track_caller]
    pub fn run(folder: &Path, arguments: &[&str]) -> EndedProcess {
        launch(folder, arguments, None).wait()
    }

    /// Writes `userconfig.json` for a VNODE at this address, a chain id, and the usual limits.
    ///
    /// # Panics
    /// If the folder cannot be written.
    pub fn configure(folder: &Path, vnode: &str, chain_id: u64) {
        Self::configure_for(folder, vnode, chain_id, 10);
    }

    /// The same for an SCS that serves so many MicroChains.
    ///
    /// # Panics
    /// If the folder cannot be written.
    pub fn configure_for(folder: &Path, vnode: &str, chain_id: u64, chains: usize) {
        std::fs::create_dir_all(folder).expect("a folder");
        let settings = serde_json::json!({
            "VnodeServiceCfg": vnode, "VnodechainId": chain_id, "DataDir": "./scsdata", "LogPath": "./_logs",
            "Beneficiary": "", "LogLevel": 4, "BondLimit": 1, "ReWardMin": 0.0001, "Capability": chains,
            "ReconnectInterval": 1,
        });
        std::fs::write(folder.join("userconfig.json"), settings.to_string()).expect("a write");
    }

    /// Returns the memory and the time that the process has used so far.
    ///
    /// # Panics
    /// If the system does not report it.
    pub fn usage(&self) -> ProcessUsage {
        self.process.usage()
    }

    /// Removes the limit of [`Self::start_within`], as if space had become free.
    #[cfg(target_os = "linux")]
    pub fn free_file_length(&self) {
        self.process.free_file_length();
    }

    /// The id, as it was printed.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The working directory.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The address of the HTTP server.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sends the signal after which the SCS reads its certificates and tokens again.
    pub fn hang_up(&self) {
        self.process.hang_up();
    }

    /// The HTTP endpoint.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The answer of `/health`.
    ///
    /// # Panics
    /// If there is no answer, or it is no JSON.
    #[track_caller]
    pub fn health(&self) -> Value {
        let answer = crate::http::get(self.address, "/health").expect("an answer");
        serde_json::from_str(&answer.body).expect("JSON")
    }

    /// The figure of this name, with its labels, among the metrics of the SCS; `None` if it has
    /// none. The SCS must serve metrics.
    ///
    /// # Panics
    /// If there is no answer.
    #[track_caller]
    pub fn figure(&self, name: &str) -> Option<f64> {
        let answer = crate::http::get(self.endpoint("metrics"), "/metrics").expect("an answer");
        let mut lines = answer.body.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.and_then(|value| value.parse().ok())
    }

    /// The answer of the dashboard at a path. The SCS must serve one.
    ///
    /// # Panics
    /// If there is no answer.
    #[track_caller]
    pub fn dashboard(&self, path: &str) -> crate::http::HttpAnswer {
        crate::http::get(self.endpoint("dashboard"), path).expect("an answer")
    }

    /// The address of what the SCS serves under this name.
    #[track_caller]
    fn endpoint(&self, name: &str) -> SocketAddr {
        let text = self.process.stdout();
        let mark = format!("http {name} http://");
        let address = text.split(&mark).nth(1).and_then(|rest| rest.split('/').next());
        let address = address.unwrap_or_else(|| panic!("no {name} in {text}"));
        address.parse().expect("an address")
    }

    /// The log so far.
    pub fn log(&self) -> String {
        self.process.stderr()
    }

    /// Calls a method. Returns its result.
    ///
    /// # Panics
    /// If the answer is an error.
    #[track_caller]
    pub fn rpc(&self, method: &str, params: Value) -> Value {
        self.caller.rpc(method, params)
    }

    /// Calls a method that must fail. Returns the message of the error.
    ///
    /// # Panics
    /// If there is a result.
    #[track_caller]
    pub fn refusal(&self, method: &str, params: Value) -> String {
        match self.caller.try_rpc(method, params) {
            Ok(result) => panic!("{method}: got {result}, expected an error"),
            Err(error) => error.to_string(),
        }
    }

    /// Ends the SCS.
    #[track_caller]
    pub fn end(self, signal: EndSignal) -> EndedProcess {
        self.process.end(signal)
    }
}
