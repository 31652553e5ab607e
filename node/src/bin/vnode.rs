//! The binary of the base-chain node: parses the command line and runs the node or a command.

use std::io::Write;
use std::process::ExitCode;

use mimalloc::MiMalloc;
use node::VnodeCommand;

/// Calls make and free several buffers of some ten KiB on many threads. The system's allocator
/// gives such memory back and takes it again for each call.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    // SAFETY: this is the only thread; none has been started yet.
    unsafe { miner::gpu::quiet_drivers() };
    node::system::ignore_file_size_signal();
    let (options, matches) = match node::parse_options(std::env::args_os().collect()) {
        Ok(parsed) => parsed,
        Err(error) => {
            eprintln!("vnode: {error}");
            return ExitCode::from(2);
        }
    };
    let result: Result<(), Box<dyn std::error::Error>> = match &options.command {
        None => node::run(&options).map_err(Into::into),
        Some(VnodeCommand::Dumpconfig) => std::io::stdout()
            .write_all(node::write_options(&matches).as_bytes())
            .map_err(Into::into),
        Some(VnodeCommand::Testvec { kind }) => {
            node::testvec::serve(*kind, std::io::stdin().lock(), std::io::stdout().lock()).map_err(Into::into)
        }
        Some(VnodeCommand::ScsDemo {
            rpcport,
            scs_rpcport,
            period,
        }) => node::run_demo(&options, *rpcport, *scs_rpcport, *period).map_err(Into::into),
        Some(VnodeCommand::Attach { endpoint, access }) => {
            node::console::attach(&options, endpoint.as_ref(), access).map_err(Into::into)
        }
        Some(VnodeCommand::Rpc {
            endpoint,
            access,
            method,
            params,
        }) => {
            return node::console::call(&options, endpoint.as_ref(), access, method, params);
        }
        Some(VnodeCommand::Version { json }) => node::package::print_version(*json).map_err(Into::into),
        Some(VnodeCommand::Completions { shell, program }) => {
            node::package::print_completions(*shell, *program).map_err(Into::into)
        }
        Some(VnodeCommand::Manual { folder }) => node::package::write_manual(folder).map_err(Into::into),
        Some(VnodeCommand::Account(command)) => node::accounts::run(&options, command).map_err(Into::into),
        Some(command) => node::commands::run(&options, command).map_err(Into::into),
    };
    let code = match result {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("vnode: {error}");
            1
        }
    };
    miner::end_if_hung(code);
    code.into()
}
