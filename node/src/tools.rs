//! Hands a command over to `vnode-tools`, a program beside this one. So `vnode` is built without
//! what only such commands need.

use std::env;
use std::io;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// Name of the program.
const PROGRAM: &str = "vnode-tools";

/// An error while a command is handed over.
#[derive(Debug, thiserror::Error)]
pub enum ToolsError {
    /// The program is missing.
    #[error(
        "this command needs the program {}: got no such file, expected what \
         `cargo build --release -p tools` makes",
        .0.display()
    )]
    Missing(PathBuf),
    /// The program cannot be started.
    #[error("cannot start {}: {source}", path.display())]
    Start {
        /// The program.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

/// Runs `vnode-tools` with the arguments of this process. On Unix it replaces this process.
///
/// # Errors
/// [`ToolsError`] if the program cannot be started.
pub fn run() -> Result<ExitCode, ToolsError> {
    let name = format!("{PROGRAM}{}", env::consts::EXE_SUFFIX);
    let own = env::current_exe().map_err(|source| ToolsError::Start {
        path: PathBuf::from(&name),
        source,
    })?;
    let path = own.with_file_name(name);
    let mut command = Command::new(&path);
    command.args(env::args_os().skip(1));
    start(command).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => ToolsError::Missing(path),
        _ => ToolsError::Start { path, source },
    })
}

#[cfg(unix)]
fn start(mut command: Command) -> io::Result<ExitCode> {
    use std::os::unix::process::CommandExt;
    Err(command.exec())
}

#[cfg(not(unix))]
fn start(mut command: Command) -> io::Result<ExitCode> {
    let code = command.status()?.code();
    let code = code.and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}
