//! What a package of this software needs beside the programs: the version for scripts, completions
//! for shells, man pages.
//!
//! All are made from the definitions of the command lines.

use std::io::{self, Write};
use std::path::Path;

use clap::{Command, CommandFactory};
use clap_complete::Shell;

use crate::options::{NodeProgram, VnodeOptions};
use crate::scs_program::ScsProgramOptions;
use crate::version::{client_version, version_json};

fn command_line(program: NodeProgram) -> Command {
    match program {
        NodeProgram::Vnode => VnodeOptions::command(),
        NodeProgram::Scs => ScsProgramOptions::command_line(),
    }
}

/// Prints the version, as one line or as JSON.
///
/// # Errors
/// An error of the standard output.
pub fn print_version(json: bool) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match json {
        true => writeln!(out, "{:#}", version_json()),
        false => writeln!(out, "{}", client_version()),
    }
}

/// Prints the completions of a shell for a program.
///
/// # Errors
/// An error of the standard output.
pub fn print_completions(shell: Shell, program: NodeProgram) -> io::Result<()> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_has_a_man_page() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("man");
        write_manual(&path).expect("written");
        for name in ["vnode.1", "scs.1", "vnode-import.1", "vnode-db-check.1"] {
            let page = std::fs::read_to_string(path.join(name)).expect(name);
            assert!(page.contains(".SH"), "{name}");
        }
        let page = std::fs::read_to_string(path.join("vnode.1")).expect("read");
        assert!(page.contains("rpcport"));
    }

    #[test]
    fn each_shell_has_completions() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut command_line(NodeProgram::Vnode), "vnode", &mut script);
            let script = String::from_utf8(script).expect("text");
            assert!(script.contains("rpcport") && script.contains("import"), "{shell}");
        }
    }
}
