//! Completions for shells and man pages, made from the definition of the command line.

use std::path::Path;

use clap_complete::Shell;
use command_line::ExitReason;

use super::CommandOutput;
use super::help::miner_command;

/// The completions of a shell.
pub(crate) fn completions(shell: Shell) -> CommandOutput {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut miner_command(), "miner", &mut script);
    CommandOutput {
        text: String::from_utf8_lossy(&script).into_owned(),
        exit: ExitReason::Done,
    }
}

/// Writes a man page for the program and each of its commands into a folder, which is created if it
/// is missing.
pub(crate) fn manual(folder: &Path) -> Result<CommandOutput, ExitReason> {
    let written =
        std::fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(miner_command(), folder));
    match written {
        Ok(()) => Ok(CommandOutput {
            text: folder.display().to_string(),
            exit: ExitReason::Done,
        }),
        Err(error) => {
            eprintln!("error: cannot write {}: {error}", folder.display());
            Err(ExitReason::Failed)
        }
    }
}
