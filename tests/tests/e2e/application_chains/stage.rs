//! VNODEs and SCSs of the tests of MicroChains.

use std::path::Path;
use std::time::Duration;

use e2e::scs::Scs;
use e2e::{Launch, Vnode, wait_for};
use primitives::{hex, keccak256};
use serde_json::json;

pub(crate) use e2e::address::free_port;
pub(crate) use e2e::microchain::{PROXY, counting};
pub(crate) use e2e::vnode::MAKES_BLOCKS;

/// The address that is paid by the second VNODE.
pub(crate) const OTHER_PROXY: &str = "0x1d96f2f6bef1202e4ce1ff6dad0c2cb002861d3e";

/// Longest wait for what takes many blocks of the base chain, one a second.
pub(crate) const PATIENCE: Duration = Duration::from_secs(240);

/// A development node that serves SCSs at `service` and is paid at `via`. Its data stay.
pub(crate) fn vnode(folder: &Path, service: &str, via: &str, options: &[&str]) -> Vnode {
    std::fs::create_dir_all(folder).expect("a folder");
    let settings = json!({"SCSService": true, "VnodeServiceCfg": service, "VnodeBeneficialAddress": via});
    std::fs::write(folder.join("vnodeconfig.json"), settings.to_string()).expect("a write");
    let all = ["--rpcapi", "mc,net,chain3,debug,vnode,admin,miner,evm"];
    Launch::dev(all.iter().chain(options).copied())
        .data(&folder.join("data"))
        .directory(folder)
        .start()
}

/// Arguments of an SCS that makes a block a second, logs much and serves metrics and a dashboard.
const SCS_ARGUMENTS: [&str; 10] = [
    "--period",
    "1",
    "--confirmations",
    "3",
    "--verbosity",
    "4",
    "--metrics",
    "127.0.0.1:0",
    "--dashboard",
    "127.0.0.1:0",
];

/// An SCS in `folder` behind the VNODE at `service`, with a block a second.
pub(crate) fn scs(folder: &Path, service: &str) -> Scs {
    Scs::configure(folder, service, 100);
    Scs::start(folder, &SCS_ARGUMENTS)
}

/// The same for an SCS whose files cannot become longer than so many bytes.
pub(crate) fn scs_within(folder: &Path, service: &str, file_bytes_max: u64) -> Scs {
    Scs::configure(folder, service, 100);
    Scs::start_within(folder, &SCS_ARGUMENTS, Some(file_bytes_max))
}

/// The selector of a function, as digits without 0x.
pub(crate) fn selector(signature: &str) -> String {
    hex::encode(&keccak256(signature)[..4])
}

/// Waits until the log of each of these SCSs has a line with all these words.
#[track_caller]
pub(crate) fn wait_for_lines(servers: &[&Scs], words: &[&str]) {
    wait_for(&format!("{words:?} in the logs of SCSs"), || {
        have_lines(servers, words).then_some(())
    });
}

/// Whether the log of each of these SCSs has a line with all these words.
pub(crate) fn have_lines(servers: &[&Scs], words: &[&str]) -> bool {
    let has_all = |line: &str| words.iter().all(|word| line.contains(word));
    servers.iter().all(|server| server.log().lines().any(has_all))
}
