//! The command `miner`: mines for nodes and pools, lists and measures devices, checks solutions,
//! prints completions and man pages.
//!
//! Results go to standard output, the log and errors to standard error. The exit codes are those of
//! all programs ([`ExitReason`]).

mod cli;

use std::io::Write;
use std::process::ExitCode;

use command_line::ExitReason;
use daemon::Screen;
use tracing_subscriber::EnvFilter;

use cli::{CommandOutput, MinerCommand};

fn main() -> ExitCode {
    // SAFETY: this is the first call in `main`, so no other thread exists that could read the
    // environment while it is changed.
    unsafe { engine::gpu::quiet_drivers() };
    let arguments: Vec<_> = std::env::args_os().collect();
    let (options, warnings) = match cli::read(&arguments) {
        Ok(read) => read,
        Err(error) => {
            // Help and version are reported as errors too, but not for standard error.
            let exit = if error.use_stderr() {
                ExitReason::Usage
            } else {
                ExitReason::Done
            };
            let _ = error.print();
            return exit.into();
        }
    };
    for warning in warnings {
        eprintln!("warning: {warning}");
    }
    let exit = match &options.command {
        MinerCommand::Getwork(options) => cli::getwork(options),
        MinerCommand::Stratum(options) => cli::stratum(options),
        MinerCommand::Devices { device } => {
            start_log(&Screen::choose(true), false);
            print(Ok(CommandOutput {
                text: cli::devices(device),
                exit: ExitReason::Done,
            }))
        }
        MinerCommand::Bench(options) => {
            start_log(&Screen::choose(true), false);
            print(cli::bench(options))
        }
        MinerCommand::Verify(options) => print(cli::verify(options)),
        MinerCommand::Completions { shell } => print(Ok(cli::completions(*shell))),
        MinerCommand::Manual { folder } => print(cli::manual(folder)),
    };
    Screen::finish();
    engine::end_if_hung(exit.code());
    exit.into()
}

/// Starts the log on `screen`. By default it contains the messages of this program from level info
/// on, and those of libraries from level warn on.
pub(crate) fn start_log(screen: &Screen, json: bool) {
    let filter =
        EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn,engine=info,miner=info"));
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

/// Prints the result of a command to standard output and returns the exit code.
fn print(result: Result<CommandOutput, ExitReason>) -> ExitReason {
    match result {
        Ok(CommandOutput { text, exit }) => {
            // The reader may be gone, as in `miner devices | head -1`. That is not an error.
            if !text.is_empty() {
                let _ = writeln!(std::io::stdout(), "{text}");
            }
            exit
        }
        Err(exit) => exit,
    }
}
