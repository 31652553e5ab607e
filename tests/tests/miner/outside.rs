//! Other people's miners against our node, where there is one on this machine.
//!
//! `ETHMINER_BIN` names a build of `ethminer` that can mine on what is here, with `ETHMINER_ARGS` (`--cpu` unless
//! given); without it these tests say so and skip.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use e2e::Vnode;
use e2e::wait::{note, wait_within};

/// It has to make its own dataset first.
const PATIENCE: Duration = Duration::from_secs(900);

struct Ethminer(Child);

impl Drop for Ethminer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn ethminer() -> Option<PathBuf> {
    let path = std::env::var_os("ETHMINER_BIN").map(PathBuf::from);
    if path.is_none() {
        note("skipped: ETHMINER_BIN names no ethminer");
    }
    path
}

fn mines(binary: &Path, node: &Vnode, url: &str) {
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
    wait_within(PATIENCE, &format!("two blocks of ethminer by {url}"), || {
        let ended = ethminer.0.try_wait().expect("a child can be waited for");
        assert!(ended.is_none(), "ethminer ended: {ended:?}");
        (node.head() >= before + 2).then_some(())
    });
}

#[test]
fn ethminer_mines_over_getwork_and_stratum() {
    let Some(binary) = ethminer() else { return };
    let node = Vnode::dev(["--mine", "--minerthreads", "0", "--stratum", "--stratumport", "0"]);
    let (rpc, stratum) = (node.url(), node.stratum());
    // Not stratum2: there it takes no difficulty below 0.0001, some 430,000 hashes, for hours of a processor.
    for url in [
        rpc,
        format!("stratum1+tcp://0xwallet.rig@{stratum}"),
        format!("stratum3+tcp://0xwallet.rig@{stratum}"),
    ] {
        mines(&binary, &node, &url);
    }
}
