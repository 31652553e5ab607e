//! System calls of a running node fail, one kind after the other, under load: the node keeps
//! answering, or ends with a message. No block is lost, and the database has no fault.
//!
//! A usual run takes a few kinds, `SYSTEM_FAULTS=all` takes all, and `SYSTEM_FAULTS=fsync` one.

#![cfg(target_os = "linux")]

use std::path::Path;
use std::time::Duration;

use e2e::injection::{CallFault, FaultInjection, failed_calls};
use e2e::process::{EndSignal, EndedProcess};
use e2e::wait::FairClock;
use e2e::{Caller, Launch, Vnode, note, wait_for};
use serde_json::{Value, json};

use crate::vnode::offline::{assert_contains, run_ok};

/// The kinds of a usual run.
const USUAL: [&str; 4] = ["fdatasync", "write", "accept4", "mmap"];
/// So many failed calls are enough.
const FAILED_CALLS: usize = 6;
/// The longest load. Some calls are rare.
const LOAD_MAX: Duration = Duration::from_secs(2);

/// Parts of the last words of a process.
const REASONS: [&str; 3] = ["rror", "memory allocation", "OS can't spawn"];
/// Parts of the paths of the standard library and of other libraries.
const LIBRARIES: [&str; 2] = ["/rustc/", "/registry/"];

const fn of_files(call: &'static str, error: &'static str) -> CallFault {
    CallFault {
        call,
        error,
        of_files: true,
    }
}

const fn of_all(call: &'static str, error: &'static str) -> CallFault {
    CallFault {
        call,
        error,
        of_files: false,
    }
}

const FAULTS: [CallFault; 22] = [
    of_files("read", "EIO"),
    of_files("pread64", "EIO"),
    of_files("write", "EIO"),
    of_files("pwrite64", "EIO"),
    of_files("pwrite64", "ENOSPC"),
    of_files("fsync", "EIO"),
    of_files("fdatasync", "EIO"),
    of_files("ftruncate", "ENOSPC"),
    of_files("openat", "EMFILE"),
    of_files("lseek", "EIO"),
    of_files("statx", "EIO"),
    of_files("unlink", "EIO"),
    of_files("flock", "ENOLCK"),
    of_all("mmap", "ENOMEM"),
    of_all("madvise", "ENOMEM"),
    of_all("clone3", "EAGAIN"),
    of_all("futex", "EINTR"),
    of_all("epoll_wait", "EINTR"),
    of_all("epoll_ctl", "ENOMEM"),
    of_all("accept4", "EMFILE"),
    of_all("recvfrom", "ECONNRESET"),
    of_all("writev", "EPIPE"),
];

/// The kinds that this run takes.
fn chosen() -> Vec<CallFault> {
    let wish = std::env::var("SYSTEM_FAULTS").ok();
    let is_wanted = |fault: &&CallFault| match wish.as_deref() {
        None => USUAL.contains(&fault.call),
        Some("all") => true,
        Some(call) => fault.call == call,
    };
    let chosen: Vec<_> = FAULTS.iter().filter(is_wanted).copied().collect();
    assert!(
        !chosen.is_empty(),
        "SYSTEM_FAULTS: got {wish:?}, expected `all` or a call"
    );
    chosen
}

/// A node of which each transaction makes a block, on the same data again and again.
struct Patient {
    /// The node; `None` while it is started again.
    node: Option<Vnode>,
    accounts: Vec<String>,
    /// The last block that the node returned.
    seen: Value,
}

fn launch(data: &Path) -> Launch {
    let launch = Launch::dev(["--dev.seal", "instant"]).data(data);
    // The place of a panic is enough, and is there at once.
    launch.environment("RUST_BACKTRACE", "0")
}

impl Patient {
    fn new(data: &Path) -> Self {
        let node = launch(data).start();
        let accounts = node.accounts();
        let seen = node.block(0);
        Self {
            node: Some(node),
            accounts,
            seen,
        }
    }

    const fn node(&mut self) -> &mut Vnode {
        self.node.as_mut().expect("a node runs")
    }

    /// Sends a transaction and reads the head, on a new connection. Whether there is a new block.
    fn work(&mut self) -> bool {
        let transfer = json!([{"from": self.accounts[0], "to": self.accounts[1], "value": "0x9"}]);
        let caller = Caller::new(self.node().addresses()[0]);
        let sent = caller.try_rpc("mc_sendTransaction", transfer);
        let head = caller.try_rpc("mc_getBlockByNumber", json!(["latest", false]));
        match head {
            Ok(block) if block["hash"].is_string() => {
                let is_new = sent.is_ok() && block["number"] != self.seen["number"];
                self.seen = block;
                is_new
            }
            _ => false,
        }
    }

    /// The node has the last block that it returned.
    fn check_seen(&mut self) {
        let hash = json!([self.seen["hash"], false]);
        let again = self.node().rpc("mc_getBlockByHash", hash);
        assert_eq!(again, self.seen, "a block that was returned");
    }

    /// Injects a fault under load; if no call comes, at the end of the node and then at its start.
    /// Returns what happened; `None` if nothing can be injected here.
    fn suffer(&mut self, fault: CallFault, data: &Path) -> Option<String> {
        let injection = FaultInjection::start(fault, self.node().id(), data)?;
        self.work_until(|| injection.failed_calls());
        if injection.failed_calls() == 0 {
            self.stop(true);
            let count = injection.end();
            return Some(match count {
                0 => self.suffer_at_start(fault, data),
                _ => {
                    self.start(data);
                    format!("{count} at the end")
                }
            });
        }
        let count = injection.end();
        let goes_on = wait_for("a block or the end", || {
            (self.work() || self.node().has_ended()).then(|| !self.node().has_ended())
        });
        if goes_on {
            self.check_seen();
            return Some(format!("{count}, it goes on"));
        }
        let reason = self.stop(false);
        self.start(data);
        Some(format!("{count}, it ends: {reason}"))
    }

    /// Works until enough calls have failed, the node has ended, or it has lasted long enough.
    fn work_until(&mut self, failed_calls: impl Fn() -> usize) {
        let mut clock = FairClock::start();
        while failed_calls() < FAILED_CALLS && clock.elapsed() < LOAD_MAX && !self.node().has_ended() {
            self.work();
        }
    }

    /// Starts the node with the fault. At last a whole node runs.
    fn suffer_at_start(&mut self, fault: CallFault, data: &Path) -> String {
        let home = tempfile::tempdir().expect("a temporary directory");
        let output = home.path().join("calls");
        let outcome = match launch(data).by(fault.runner(data, &output)).wait_for_banner() {
            Ok(node) => {
                self.node = Some(node);
                self.work_until(|| failed_calls(&output));
                self.stop(true)
            }
            Err(ended) => reason(&ended),
        };
        self.start(data);
        format!("{} at the start {outcome}", failed_calls(&output))
    }

    /// Starts the node without a fault. It has all that it had.
    fn start(&mut self, data: &Path) {
        self.node = Some(launch(data).start());
        self.check_seen();
    }

    /// Ends the node, by a signal if it does not end by itself. Returns the reason that it gives.
    fn stop(&mut self, by_signal: bool) -> String {
        let mut node = self.node.take().expect("a node runs");
        let ended = match by_signal && !node.has_ended() {
            true => node.end(EndSignal::Interrupt),
            false => node.wait_for_end(),
        };
        reason(&ended)
    }
}

/// The reason that a node gives for its end, which is no success without one. Libraries end a
/// process that has no memory for a thread, or gets none; code of the node does not.
fn reason(ended: &EndedProcess) -> String {
    let log = &ended.stderr;
    let is_own =
        |line: &&str| line.contains("panicked at") && !LIBRARIES.iter().any(|path| line.contains(path));
    assert_eq!(log.lines().find(is_own), None, "{log}");
    let is_reason = |line: &&str| REASONS.iter().any(|reason| line.contains(reason));
    let reason = log.lines().rfind(is_reason);
    assert!(
        ended.status.success() || reason.is_some(),
        "{}, without a reason: {log}",
        ended.status
    );
    reason.unwrap_or_default().to_owned()
}

#[test]
fn a_node_survives_failing_system_calls_or_says_why_it_ends() {
    let home = tempfile::Builder::new()
        .prefix("vn")
        .tempdir()
        .expect("a temporary directory");
    let chosen = chosen();
    let mut patient = Patient::new(home.path());
    for fault in &chosen {
        let CallFault { call, error, .. } = fault;
        let Some(outcome) = patient.suffer(*fault, home.path()) else {
            return;
        };
        note(&format!("{call}, {error}: {outcome}"));
    }
    let ended = patient
        .node
        .take()
        .expect("a node runs")
        .end(EndSignal::Interrupt);
    assert!(ended.status.success(), "{}", ended.stderr);
    assert_contains(&run_ok(home.path(), &["db", "check", "--full"]), &["no faults"]);
}
