//! Runs the commands of `vnode` that need more than a node has. `vnode` starts this program with
//! its own arguments.

use std::process::ExitCode;

use node::{ExportFormat, VnodeCommand, VnodeOptions};
use tools::{export_tables, package, scs_demo};

fn main() -> ExitCode {
    // SAFETY: this is the only thread; none has been started yet.
    unsafe { node::system::prepare_process() };
    let options = match node::parse_options(std::env::args_os().collect()) {
        Ok((options, _)) => options,
        Err(error) => {
            return node::system::end("vnode", Err(error.into()));
        }
    };
    node::system::end("vnode", run(&options))
}

fn run(options: &VnodeOptions) -> Result<(), Box<dyn std::error::Error>> {
    match &options.command {
        Some(VnodeCommand::ScsDemo {
            rpcport,
            scs_rpcport,
            period,
        }) => Ok(scs_demo::run(options, *rpcport, *scs_rpcport, *period)?),
        Some(VnodeCommand::Export {
            format: ExportFormat::Parquet,
            tables,
            partition,
            file,
            first,
            last,
        }) => Ok(export_tables::run(
            options,
            file,
            (*first, *last),
            (tables, *partition),
        )?),
        Some(VnodeCommand::Completions { shell, program }) => {
            Ok(package::print_completions(shell, *program)?)
        }
        Some(VnodeCommand::Manual { folder }) => Ok(package::write_manual(folder)?),
        _ => Err("this command is one of vnode itself".into()),
    }
}
