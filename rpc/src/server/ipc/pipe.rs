//! The local channel's end on Windows: a named pipe.
//!
//! Its security descriptor is the system's default: whoever runs the node and administrators may
//! write to it, everyone else may not. It is refused to other machines.

use std::io;
use std::path::{Path, PathBuf};

use tokio::net::windows::named_pipe::{NamedPipeServer, ServerOptions};

/// Where all pipes lie.
const PIPES: &str = r"\\.\pipe\";

/// A pipe that is listened on: always one instance that waits for its client.
pub(super) struct Listener {
    path: PathBuf,
    waiting: NamedPipeServer,
}

impl Listener {
    /// The next connection.
    pub(super) async fn accept(&mut self) -> io::Result<NamedPipeServer> {
        self.waiting.connect().await?;
        // The next instance first: without one, a client meanwhile would find no pipe.
        let next = ServerOptions::new()
            .reject_remote_clients(true)
            .create(&self.path)?;
        Ok(std::mem::replace(&mut self.waiting, next))
    }
}

/// The name of a pipe. It needs no removal: it goes with its last instance.
pub(super) struct SocketFile {
    pub(super) path: PathBuf,
}

impl SocketFile {
    pub(super) fn remove(&self) {}
}

/// Listens on the pipe `path`; a path that names no pipe stands for the pipe of its last part.
pub(super) fn listen(path: &Path) -> io::Result<(Listener, SocketFile)> {
    let path = match path.to_str() {
        Some(text) if text.starts_with(PIPES) => path.to_owned(),
        _ => Path::new(PIPES).join(path.file_name().unwrap_or(path.as_os_str())),
    };
    // Refused where another process has the name.
    let waiting = ServerOptions::new()
        .first_pipe_instance(true)
        .reject_remote_clients(true)
        .create(&path)?;
    let listener = Listener {
        path: path.clone(),
        waiting,
    };
    Ok((listener, SocketFile { path }))
}
