//! The binary of the base-chain node: parses the command line and runs the node or a command.

use std::io::Write;
use std::process::ExitCode;

use node::{VnodeCommand, VnodeOptions};

fn main() -> ExitCode {
    // SAFETY: this is the only thread; none has been started yet.
    unsafe { node::system::prepare_process() };
    let (options, matches) = match node::parse_options(std::env::args_os().collect()) {
        Ok(parsed) => parsed,
        Err(error) => {
            return node::system::end("vnode", Err(error.into()));
        }
    };
    match &options.command {
        Some(command) if command.is_of_tools() => match node::tools::run() {
            Ok(code) => code,
            Err(error) => node::system::end("vnode", Err(error.into())),
        },
        Some(VnodeCommand::Testvec(vectors)) => match testvec::run(vectors) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("ERROR({}): {error}", error.exit_code());
                ExitCode::from(error.exit_code())
            }
        },
        _ => node::system::end("vnode", run(&options, &matches)),
    }
}

fn run(options: &VnodeOptions, matches: &clap::ArgMatches) -> Result<(), Box<dyn std::error::Error>> {
    match &options.command {
        None => Ok(node::run(options)?),
        Some(VnodeCommand::Dumpconfig) => {
            Ok(std::io::stdout().write_all(node::write_options(matches).as_bytes())?)
        }
        Some(VnodeCommand::Attach {
            endpoint,
            exec,
            access,
        }) => {
            options.warn();
            let endpoint = endpoint.as_ref();
            match exec {
                Some(line) => node::console::execute(options, endpoint, access, line)?,
                None => node::console::attach(options, endpoint, access)?,
            }
            Ok(())
        }
        Some(VnodeCommand::Rpc {
            endpoint,
            access,
            method,
            params,
        }) => {
            options.warn();
            Ok(node::console::call(
                options,
                endpoint.as_ref(),
                access,
                method,
                params,
            )?)
        }
        Some(VnodeCommand::Version { json }) => Ok(node::print_version(*json)?),
        Some(VnodeCommand::Account(command)) => {
            options.warn();
            Ok(node::accounts::run(options, command)?)
        }
        Some(command) => Ok(node::commands::run(options, command)?),
    }
}
