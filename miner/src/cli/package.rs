//! Completions for shells and man pages, made from the definition of the command line.

use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;

use super::exit::{CommandOutput, ExitReason};
use super::options::CliOptions;

/// The completions of a shell.
pub(crate) fn completions(shell: Shell) -> CommandOutput {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut CliOptions::command(), "miner", &mut script);
    CommandOutput {
        text: String::from_utf8_lossy(&script).into_owned(),
        exit: ExitReason::Done,
    }
}

/// Writes a man page for the program and each of its commands into a folder, which is created if it
/// is missing.
pub(crate) fn manual(folder: &Path) -> Result<CommandOutput, ExitReason> {
    let written = std::fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(CliOptions::command().name("miner"), folder));
    match written {
        Ok(()) => Ok(CommandOutput {
            text: folder.display().to_string(),
            exit: ExitReason::Done,
        }),
        Err(error) => {
            eprintln!("error: cannot write {}: {error}", folder.display());
            Err(ExitReason::Usage)
        }
    }
}
