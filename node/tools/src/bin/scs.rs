//! The binary of the server of application chains: parses the command line and runs it.

use std::process::ExitCode;

use tools::scs_program::{ScsProgramOptions, run};

fn main() -> ExitCode {
    node::system::ignore_file_size_signal();
    let (options, warnings) = ScsProgramOptions::of_process();
    node::system::end("scs", run(&options, &warnings).map_err(Into::into))
}
