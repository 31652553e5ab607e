//! The local socket on Windows: a named pipe.
//!
//! The pipe has the system's default security descriptor: the user who runs the node and
//! administrators may write to it, and nobody else. Clients on other machines are refused. Knows
//! names and instances of pipes, not what passes through them.

use std::io;
use std::path::{Path, PathBuf};

use daemon::Listener;
use tokio::net::windows::named_pipe::{NamedPipeServer, ServerOptions};

use super::ChannelStream;

/// The beginning of every pipe name.
const PIPES: &str = r"\\.\pipe\";

/// Accepts connections on a named pipe. One instance of the pipe always waits for a client.
pub(super) struct PipeListener {
    path: PathBuf,
    waiting: NamedPipeServer,
}

impl Listener for PipeListener {
    type Connection = NamedPipeServer;

    async fn accept(&mut self) -> io::Result<NamedPipeServer> {
        self.waiting.connect().await?;
        // The next instance is made at once. Without it a client would find no pipe meanwhile.
        let next = ServerOptions::new()
            .reject_remote_clients(true)
            .create(&self.path)?;
        Ok(std::mem::replace(&mut self.waiting, next))
    }
}

impl ChannelStream for NamedPipeServer {
    /// A pipe has no half that could close alone, so its end is noticed by reading it.
    async fn closed(&self) {
        std::future::pending().await
    }
}

pub(super) struct PipeName {
    pub(super) path: PathBuf,
}

impl PipeName {
    /// Does nothing: the system removes the name with the pipe's last instance.
    pub(super) fn remove(&self) {}
}

/// Listens on the pipe `path`. If `path` is not a pipe name, its last part is taken as the name.
pub(super) fn listen(path: &Path) -> io::Result<(PipeListener, PipeName)> {
    let path = match path.to_str() {
        Some(text) if text.starts_with(PIPES) => path.to_owned(),
        _ => Path::new(PIPES).join(path.file_name().unwrap_or(path.as_os_str())),
    };
    // Fails if another process uses the name.
    let waiting = ServerOptions::new()
        .first_pipe_instance(true)
        .reject_remote_clients(true)
        .create(&path)?;
    let listener = PipeListener {
        path: path.clone(),
        waiting,
    };
    Ok((listener, PipeName { path }))
}
