//! A running miner: started from its binary, watched by its log and status, ended by signals.

use std::net::SocketAddr;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::binary::miner_path;
use crate::http;
use crate::process::{ChildProcess, EndSignal, EndedProcess, ProcessUsage};
use crate::wait::wait_for;

/// The words before the address of the status in the log.
const STATUS_MARK: &str = "status at http://";
/// The words before the address of the dashboard in the log.
const DASHBOARD_MARK: &str = "dashboard at http://";

/// A running miner. Killed when dropped.
#[derive(Debug)]
pub struct MinerProcess {
    process: ChildProcess,
}

impl MinerProcess {
    /// Starts a miner with only these arguments.
    ///
    /// # Panics
    /// If the miner cannot be started.
    pub fn bare<S: Into<String>>(arguments: impl IntoIterator<Item = S>) -> Self {
        let arguments: Vec<String> = arguments.into_iter().map(Into::into).collect();
        let mut command = Command::new(miner_path());
        command
            .args(&arguments)
            .env_remove("RUST_LOG")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Self {
            process: ChildProcess::start(command, format!("miner with {arguments:?}")),
        }
    }

    /// Starts a miner with these arguments, its status on a free port, and one thread that hashes
    /// with the light cache, which is fast enough for the development network.
    pub fn start<S: Into<String>>(arguments: impl IntoIterator<Item = S>) -> Self {
        let mut all: Vec<String> = arguments.into_iter().map(Into::into).collect();
        let common = "--device cpu --threads 1 --dataset never --nice 0 --status 127.0.0.1:0 --log-every 1";
        all.extend(common.split(' ').map(str::to_owned));
        Self::bare(all)
    }

    /// The standard error of the miner so far.
    pub fn log(&self) -> String {
        self.process.stderr()
    }

    /// Returns the memory and the time that the miner has used so far.
    ///
    /// # Panics
    /// If the system does not report it.
    pub fn usage(&self) -> ProcessUsage {
        self.process.usage()
    }

    /// Waits until the log contains `text`.
    ///
    /// # Panics
    /// If it never does.
    #[track_caller]
    pub fn wait_for_log(&self, text: &str) {
        wait_for(&format!("{text:?} in the log of a miner"), || {
            self.log().contains(text).then_some(())
        });
    }

    /// Address of the status.
    ///
    /// # Panics
    /// If the miner serves no status.
    #[track_caller]
    pub fn status_address(&self) -> SocketAddr {
        self.address_after(STATUS_MARK)
    }

    /// Address of the dashboard.
    ///
    /// # Panics
    /// If the miner serves no dashboard.
    #[track_caller]
    pub fn dashboard(&self) -> SocketAddr {
        self.address_after(DASHBOARD_MARK)
    }

    /// Waits for the address after `mark` in the log.
    #[track_caller]
    fn address_after(&self, mark: &str) -> SocketAddr {
        wait_for(&format!("the address after {mark:?} in the log"), || {
            let log = self.log();
            let rest = &log[log.find(mark)? + mark.len()..];
            rest.split('/').next()?.parse().ok()
        })
    }

    /// The status as JSON.
    ///
    /// # Panics
    /// If the miner serves no status.
    #[track_caller]
    pub fn status(&self) -> Value {
        let answer = http::get(self.status_address(), "/status").expect("the status is served");
        assert_eq!(answer.status, 200, "{}", answer.body);
        serde_json::from_str(&answer.body).expect("the status is JSON")
    }

    /// Waits until `condition` holds for the status. Returns that status.
    ///
    /// # Panics
    /// If the condition never holds; `what` names it.
    #[track_caller]
    pub fn wait_for_status(&self, what: &str, condition: impl Fn(&Value) -> bool) -> Value {
        wait_for(what, || Some(self.status()).filter(&condition))
    }

    /// Sends a signal and waits for the end.
    ///
    /// # Panics
    /// If the miner does not end.
    #[track_caller]
    pub fn end(self, signal: EndSignal) -> EndedProcess {
        self.process.end(signal)
    }

    /// Waits until the miner ends by itself.
    ///
    /// # Panics
    /// If the miner does not end.
    #[track_caller]
    pub fn wait(self) -> EndedProcess {
        self.process.wait()
    }
}
