//! The command `miner`: mines for nodes and pools, lists and measures devices, judges solutions.
//!
//! What was asked for goes to standard output, all else to standard error. Exit codes are in
//! `cli/exit.rs`.

mod cli;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use miner::display::Screen;
use tracing_subscriber::EnvFilter;

use cli::exit::Exit;
use cli::{Command, Options};

fn main() -> ExitCode {
    // SAFETY: nothing has started a thread yet.
    unsafe { miner::gpu::quiet_drivers() };
    let options = match Options::try_parse() {
        Ok(options) => options,
        Err(error) => {
            // Help and version are asked for; everything else is a mistake.
            let exit = if error.use_stderr() {
                Exit::Usage
            } else {
                Exit::Done
            };
            let _ = error.print();
            return exit.into();
        }
    };
    let exit = match &options.command {
        Command::Getwork(options) => cli::getwork(options),
        Command::Stratum(options) => cli::stratum(options),
        Command::Devices => {
            start_log(&Screen::choose(true), false);
            print(Ok((cli::devices(), Exit::Done)))
        }
        Command::Bench(options) => {
            start_log(&Screen::choose(true), false);
            print(cli::bench(options))
        }
        Command::Verify(options) => print(cli::verify(options)),
    };
    miner::end_if_hung(exit.code());
    exit.into()
}

/// Starts the log on `screen`: this program's own news, and of the libraries' only what is wrong.
pub(crate) fn start_log(screen: &Screen, json: bool) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn,miner=info"));
    let builder = tracing_subscriber::fmt()
        .with_writer(screen.clone())
        .with_env_filter(filter)
        .with_target(false);
    if json {
        builder.json().flatten_event(true).init();
    } else {
        builder.with_ansi(screen.colours()).init();
    }
}

/// Prints what a command has to say.
fn print(said: Result<(String, Exit), Exit>) -> Exit {
    match said {
        Ok((text, exit)) => {
            // A reader that has gone, as in `miner devices | head -1`, is no error worth a word.
            let _ = writeln!(std::io::stdout(), "{text}");
            exit
        }
        Err(exit) => exit,
    }
}
