//! A running miner: started from its binary, watched through its log and its status, ended by signals.

use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use serde_json::Value;

use crate::binary::miner_path;
use crate::http;
use crate::process::{Ended, Output, Signal, end, send};
use crate::wait::{PATIENCE, wait_for};

/// How much of a miner's log a failing test shows.
const LOG_SHOWN: usize = 6000;
/// The line that names the address of the status.
const STATUS_MARK: &str = "status at http://";

/// A running miner. Killed when dropped.
#[derive(Debug)]
pub struct Rig {
    child: Child,
    stdout: Output,
    stderr: Output,
    arguments: Vec<String>,
}

impl Rig {
    /// A miner with these arguments alone.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn bare<S: Into<String>>(arguments: impl IntoIterator<Item = S>) -> Self {
        let arguments: Vec<String> = arguments.into_iter().map(Into::into).collect();
        let mut command = Command::new(miner_path());
        command
            .args(&arguments)
            .env_remove("RUST_LOG")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        Self {
            stdout: Output::of(child.stdout.take().expect("piped")),
            stderr: Output::of(child.stderr.take().expect("piped")),
            child,
            arguments,
        }
    }

    /// A miner with one thread that hashes from the light cache, which is enough for the development
    /// network, and with its status on a free port; and with these arguments.
    pub fn start<S: Into<String>>(arguments: impl IntoIterator<Item = S>) -> Self {
        let mut all: Vec<String> = arguments.into_iter().map(Into::into).collect();
        let common = "--device cpu --threads 1 --dataset never --nice 0 --status 127.0.0.1:0 --log-every 1";
        all.extend(common.split(' ').map(str::to_owned));
        Self::bare(all)
    }

    /// What it has written to standard error.
    pub fn log(&self) -> String {
        self.stderr.text()
    }

    /// Waits until its log holds `text`.
    ///
    /// # Panics
    /// When it never does.
    #[track_caller]
    pub fn wait_for_log(&self, text: &str) {
        wait_for(&format!("{text:?} in the log of a miner"), || {
            self.log().contains(text).then_some(())
        });
    }

    /// Where its status is served.
    ///
    /// # Panics
    /// When it is not.
    #[track_caller]
    pub fn status_address(&self) -> SocketAddr {
        wait_for("the address of the status", || {
            let log = self.log();
            let rest = &log[log.find(STATUS_MARK)? + STATUS_MARK.len()..];
            rest.split('/').next()?.parse().ok()
        })
    }

    /// Its status.
    ///
    /// # Panics
    /// When it is not served.
    #[track_caller]
    pub fn status(&self) -> Value {
        let answer = http::get(self.status_address(), "/status").expect("the status is served");
        assert_eq!(answer.status, 200, "{}", answer.body);
        serde_json::from_str(&answer.body).expect("the status is JSON")
    }

    /// Waits until its status is as wanted; gives it.
    ///
    /// # Panics
    /// When it never is.
    #[track_caller]
    pub fn wait_for_status(&self, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        wait_for(what, || Some(self.status()).filter(&holds))
    }

    /// Sends a signal and waits for the end.
    ///
    /// # Panics
    /// When the miner goes on.
    #[track_caller]
    pub fn end(self, signal: Signal) -> Ended {
        send(&self.child, signal);
        self.wait()
    }

    /// Waits until it ends by itself.
    ///
    /// # Panics
    /// When it goes on.
    #[track_caller]
    pub fn wait(mut self) -> Ended {
        let (status, took) = end(&mut self.child, Instant::now());
        let Some(status) = status else {
            panic!("the miner goes on after {PATIENCE:?}")
        };
        Ended {
            status,
            stdout: self.stdout.whole(),
            stderr: self.stderr.whole(),
            took,
        }
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let log = self.stderr.text();
            let from = log.ceil_char_boundary(log.len().saturating_sub(LOG_SHOWN));
            println!("log of the miner with {:?}:\n{}", self.arguments, &log[from..]);
        }
    }
}
