//! The public miner `ethminer` against a node.
//!
//! `ETHMINER_BIN` names a build of `ethminer` that can mine on this machine with the arguments
//! `ETHMINER_ARGS` (default: `--cpu`). Without that variable the test prints this and is skipped.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use e2e::Vnode;
use e2e::wait::{note, wait_within};

/// Longest time for two blocks; `ethminer` generates its own dataset first.
const TIMEOUT: Duration = Duration::from_secs(900);

/// A running `ethminer`. Killed when dropped.
struct Ethminer(Child);

impl Drop for Ethminer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Path of `ethminer`; `None` if the test must be skipped.
fn ethminer_path() -> Option<PathBuf> {
    let path = std::env::var_os("ETHMINER_BIN").map(PathBuf::from);
    if path.is_none() {
        note("skipped: ETHMINER_BIN is not set");
    }
    path
}

/// Runs `ethminer` with `url` until it has sealed two blocks.
fn check_mining(binary: &Path, node: &Vnode, url: &str) {
    let extra = std::env::var("ETHMINER_ARGS").unwrap_or_else(|_| "--cpu".into());
    let child = Command::new(binary)
        .args(extra.split_whitespace())
        .args(["--nocolor", "-P", url])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap_or_else(|error| panic!("{}: {error}", binary.display()));
    let mut ethminer = Ethminer(child);
    let before = node.head();
    wait_within(TIMEOUT, &format!("two blocks of ethminer by {url}"), || {
        let ended = ethminer.0.try_wait().expect("a child can be waited for");
        assert!(ended.is_none(), "ethminer ended: {ended:?}");
        (node.head() >= before + 2).then_some(())
    });
}

#[test]
fn ethminer_mines_over_getwork_and_stratum() {
    let Some(binary) = ethminer_path() else { return };
    let node = Vnode::dev(["--mine", "--minerthreads", "0", "--stratum", "--stratumport", "0"]);
    let (rpc, stratum) = (node.url(), node.stratum());
    // stratum2 is left out: there `ethminer` accepts no difficulty below 0.0001, about 430,000
    // hashes, which takes hours on a processor.
    for url in [
        rpc,
        format!("stratum1+tcp://0xwallet.rig@{stratum}"),
        format!("stratum3+tcp://0xwallet.rig@{stratum}"),
    ] {
        check_mining(&binary, &node, &url);
    }
}
