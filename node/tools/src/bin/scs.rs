//! The binary of the server of application chains: parses the command line and runs it.

use std::process::ExitCode;

use tools::scs_program::{ScsProgramOptions, run};

fn main() -> ExitCode {
    node::system::ignore_file_size_signal();
    match run(&ScsProgramOptions::of_process()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("scs: {error}");
            ExitCode::FAILURE
        }
    }
}
