//! Completions for shells and man pages, made from the definitions of the command lines.

use std::io::{self, Write};
use std::path::Path;

use clap::Command;
use clap_complete::Shell;
use node::{NodeProgram, vnode_command};

use crate::scs_program::ScsProgramOptions;

fn command_line(program: NodeProgram) -> Command {
    match program {
        NodeProgram::Vnode => vnode_command(),
        NodeProgram::Scs => ScsProgramOptions::command_line(),
    }
}

/// Prints the completions of a shell for a program.
///
/// # Errors
/// An error of the standard output, or an unknown shell.
pub fn print_completions(shell: &str, program: NodeProgram) -> io::Result<()> {
    let shell: Shell = shell.parse().map_err(io::Error::other)?;
    let mut command = command_line(program);
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, name, &mut script);
    io::stdout().lock().write_all(&script)
}

/// Writes a man page for each program and each command of it into a folder, which is created if it
/// is missing.
///
/// # Errors
/// An error of the file system.
pub fn write_manual(folder: &Path) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    for program in [NodeProgram::Vnode, NodeProgram::Scs] {
        clap_mangen::generate_to(command_line(program), folder)?;
    }
    Ok(())
}
