//! VNODEs and SCSs of the tests of MicroChains.

use std::net::TcpListener;
use std::path::Path;

use e2e::microchain::{Argument, calldata};
use e2e::scs::Scs;
use e2e::{Launch, Vnode};
use serde_json::json;

/// The address that is paid for relaying.
pub(crate) const PROXY: &str = "0x71bef1a57901d4c73de7683edb830f0b9914311a";

/// A port that nobody listens on.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    listener.local_addr().expect("it listens").port()
}

/// A development node that serves SCSs at `service` and is paid at `via`. Its data stay.
pub(crate) fn vnode(folder: &Path, service: &str, via: &str, options: &[&str]) -> Vnode {
    std::fs::create_dir_all(folder).expect("a folder");
    let settings = json!({"SCSService": true, "VnodeServiceCfg": service, "VnodeBeneficialAddress": via});
    std::fs::write(folder.join("vnodeconfig.json"), settings.to_string()).expect("a write");
    let all = ["--rpcapi", "mc,net,chain3,debug,vnode,admin"];
    Launch::dev(all.iter().chain(options).copied())
        .data(&folder.join("data"))
        .directory(folder)
        .start()
}

/// An SCS in `folder` behind the VNODE at `service`, with a block a second.
pub(crate) fn scs(folder: &Path, service: &str) -> Scs {
    Scs::configure(folder, service, 100);
    Scs::start(folder, &["--period", "1", "--verbosity", "4"])
}

/// Data of a call that counts `steps` up.
pub(crate) fn counting(counter: &str, steps: u128) -> String {
    // count(uint256)
    let call = calldata("3b3546c8", &[Argument::Number(steps)]);
    format!("{counter}{}", call.trim_start_matches("0x"))
}
