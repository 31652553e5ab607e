//! The binary of the server of application chains: parses the command line and runs it.

use std::process::ExitCode;

use mimalloc::MiMalloc;
use tools::scs_program::{ScsProgramOptions, run};

/// As in `vnode`: faster than the system's where many threads make and free small buffers.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

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
