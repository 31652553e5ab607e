//! The base-chain node's binary: parses the command line and runs the node, or a command.

use std::process::ExitCode;

use clap::Parser;
use node::Command;

fn main() -> ExitCode {
    // SAFETY: nothing has started a thread yet.
    unsafe { miner::gpu::quiet_drivers() };
    node::system::outlive_file_limits();
    let options = node::VnodeOptions::parse();
    let done: Result<(), Box<dyn std::error::Error>> = match &options.command {
        None => node::run(&options).map_err(Into::into),
        Some(Command::Testvec { kind }) => {
            node::testvec::serve(*kind, std::io::stdin().lock(), std::io::stdout().lock()).map_err(Into::into)
        }
        Some(Command::Attach { endpoint }) => {
            node::console::attach(&options, endpoint.as_ref()).map_err(Into::into)
        }
        Some(Command::Rpc {
            endpoint,
            method,
            params,
        }) => {
            return node::console::call(&options, endpoint.as_ref(), method, params);
        }
        Some(Command::Account(command)) => node::accounts::run(&options, command).map_err(Into::into),
        Some(command) => node::commands::run(&options, command).map_err(Into::into),
    };
    let code = match done {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("vnode: {error}");
            1
        }
    };
    miner::end_if_hung(code);
    code.into()
}
