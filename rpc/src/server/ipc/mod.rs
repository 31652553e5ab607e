//! JSON-RPC on the local channel: a stream of JSON values in each direction, over a unix socket or,
//! on Windows, a named pipe.
//!
//! Values may be separated by space or by nothing. Each answer and each notification is followed by
//! a newline. The messages of a connection are answered side by side. Only the user who runs the
//! node may connect.

#[cfg(windows)]
mod pipe;
#[cfg(unix)]
mod unix;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::watch;
use tokio::time::timeout;

#[cfg(windows)]
use self::pipe::{PipeName as SocketPath, listen};
#[cfg(unix)]
use self::unix::{UnixSocketFile as SocketPath, listen};
use super::duplex::{self, DuplexChannel, DuplexError};
use super::stream::{ValueStream, ValueStreamError};
use super::{ACCEPT_PAUSE, ConnectionSlot, ServeError, ServerTasks, stopped};
use crate::client::ClientId;
use crate::dispatch::Dispatcher;
use crate::error::RpcError;
use crate::message;

/// File name of the socket in the data directory. On Windows it is the pipe's name.
pub const SOCKET_NAME: &str = "vnode.ipc";

/// Bytes of one read.
const READ_LEN: usize = 16 * 1024;

/// A running server on the local channel. Dropping it closes it without waiting.
pub struct IpcServer {
    socket: SocketPath,
    tasks: ServerTasks,
}

impl IpcServer {
    /// The path of the socket or pipe.
    pub fn path(&self) -> &Path {
        &self.socket.path
    }

    /// Removes the socket, stops listening, and waits until the last connection has ended, at most
    /// the grace for stopping.
    pub async fn stop(mut self) {
        self.socket.remove();
        self.tasks.close().await;
        self.tasks.drain().await;
    }
}

/// Starts to listen on `path` and to answer with `dispatcher`.
///
/// # Errors
/// If the path is in use, if it is not a socket, or if the socket cannot be made.
pub fn start<C: Send + Sync + 'static>(
    dispatcher: Arc<Dispatcher<C>>,
    path: &Path,
) -> Result<IpcServer, ServeError> {
    let (mut listener, socket) = listen(path).map_err(ServeError::bind(path.display()))?;
    let mut tasks = ServerTasks::new(dispatcher.limits().ipc_connections_max);
    let slots = Arc::clone(&tasks.slots);
    let mut stop = tasks.stop.subscribe();
    tasks.accept_loops.spawn(async move {
        let mut connections = 0;
        loop {
            let accepted = tokio::select! {
                biased;
                () = stopped(&mut stop) => return,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok(stream) => match Arc::clone(&slots).try_acquire_owned() {
                    Ok(slot) => {
                        connections += 1;
                        let (dispatcher, client) = (Arc::clone(&dispatcher), ClientId::Local(connections));
                        tokio::spawn(serve(dispatcher, stream, client, slot, stop.clone()));
                    }
                    Err(_) => {
                        tracing::warn!("too many connections on the local channel: closing the newest");
                    }
                },
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection on the local channel");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    });
    Ok(IpcServer { socket, tasks })
}

/// Serves one connection until it ends or the server stops.
async fn serve<C, S>(
    dispatcher: Arc<Dispatcher<C>>,
    stream: S,
    client: ClientId,
    slot: ConnectionSlot,
    stop: watch::Receiver<bool>,
) where
    C: Send + Sync + 'static,
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let limits = dispatcher.limits();
    let mut channel = IpcChannel {
        stream,
        values: ValueStream::new(limits.body_len_max, limits.depth_max),
        buffer: vec![0; READ_LEN],
        write_timeout: limits.write_timeout,
    };
    if let Some(Err(error)) = duplex::serve(&dispatcher, &mut channel, client, &stop).await {
        tracing::debug!(%error, "closing a connection on the local channel");
        if let DuplexError::Unreadable(error) = error {
            let _ = channel.send(message::error_response(error)).await;
        }
    }
    drop(slot);
}

struct IpcChannel<S> {
    stream: S,
    values: ValueStream,
    buffer: Vec<u8>,
    write_timeout: Duration,
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> DuplexChannel for IpcChannel<S> {
    const HALF_CLOSES: bool = true;

    async fn receive(&mut self) -> Result<Option<Bytes>, DuplexError> {
        loop {
            match self.values.next() {
                Ok(Some(value)) => return Ok(Some(value)),
                Ok(None) => {}
                Err(error) => return Err(unreadable(&error)),
            }
            match self.stream.read(&mut self.buffer).await? {
                0 => return Ok(self.values.finish()),
                len => self.values.push(&self.buffer[..len]),
            }
        }
    }

    async fn send(&mut self, mut message: Vec<u8>) -> Result<(), DuplexError> {
        message.push(b'\n');
        let sent = timeout(self.write_timeout, self.stream.write_all(&message)).await;
        Ok(sent.map_err(|_| DuplexError::SlowReader)??)
    }
}

/// The last answer on a stream in which no further value can be found.
fn unreadable(error: &ValueStreamError) -> DuplexError {
    DuplexError::Unreadable(match error {
        ValueStreamError::TooLong(_) => RpcError::invalid_request(error),
        ValueStreamError::Unexpected(_) | ValueStreamError::TooDeep(_) => RpcError::parse(error),
    })
}
