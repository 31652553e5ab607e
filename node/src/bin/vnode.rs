//! The base-chain node's binary: parses the command line and runs the node.

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    miner::gpu::quiet_drivers();
    let options = node::VnodeOptions::parse();
    match node::run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("vnode: {error}");
            ExitCode::FAILURE
        }
    }
}
