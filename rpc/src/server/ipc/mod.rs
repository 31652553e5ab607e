//! JSON-RPC on the local channel: a stream of JSON values in each direction, over a unix socket or,
//! on Windows, a named pipe.
//!
//! Values may be separated by space or by nothing; each answer and each notification is followed by
//! a newline. A connection's messages are answered side by side. Only the owner of the node may
//! connect.

#[cfg(windows)]
#[path = "pipe.rs"]
mod end;
#[cfg(unix)]
#[path = "unix.rs"]
mod end;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::watch;
use tokio::time::timeout;

use super::stream::{StreamError, ValueStream};
use super::talk::{Channel, Fault, talk};
use super::{ACCEPT_PAUSE, Place, Running, ServeError, stopped};
use crate::dispatch::Dispatcher;
use crate::error::RpcError;
use crate::message;

/// File name of the socket in the data directory; on Windows the pipe's name.
pub const SOCKET_NAME: &str = "vnode.ipc";

/// Bytes asked for in one read.
const READ_LEN: usize = 16 * 1024;

/// A running server on the local channel. Dropping it closes it without waiting.
pub struct IpcServer {
    socket: end::SocketFile,
    running: Running,
}

impl IpcServer {
    /// The path of the socket or pipe.
    pub fn path(&self) -> &Path {
        &self.socket.path
    }

    /// Removes the socket, gives messages under way their grace, waits for the last connection.
    pub async fn stop(mut self) {
        self.socket.remove();
        self.running.close().await;
        self.running.drain().await;
    }
}

/// Starts to listen on `path` and to answer with `dispatcher`.
///
/// # Errors
/// If the path is in use, if it is something else than a socket, or if it cannot be made.
pub fn start<C: Send + Sync + 'static>(
    dispatcher: Arc<Dispatcher<C>>,
    path: &Path,
) -> Result<IpcServer, ServeError> {
    let (mut listener, socket) = end::listen(path).map_err(ServeError::bind(path.display()))?;
    let mut running = Running::new(dispatcher.limits().ipc_connections_max);
    let places = Arc::clone(&running.places);
    let mut stop = running.stop.subscribe();
    running.listeners.spawn(async move {
        loop {
            let accepted = tokio::select! {
                biased;
                () = stopped(&mut stop) => return,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok(stream) => match Arc::clone(&places).try_acquire_owned() {
                    Ok(place) => drop(tokio::spawn(serve(
                        Arc::clone(&dispatcher),
                        stream,
                        place,
                        stop.clone(),
                    ))),
                    Err(_) => tracing::warn!("too many connections on the local channel, one is closed"),
                },
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection on the local channel");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    });
    Ok(IpcServer { socket, running })
}

/// One connection, until it ends or the server stops.
async fn serve<C, S>(dispatcher: Arc<Dispatcher<C>>, stream: S, place: Place, mut stop: watch::Receiver<bool>)
where
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
    let mut told = stop.clone();
    let ended = {
        let mut talk = std::pin::pin!(talk(&dispatcher, &mut channel, &mut told));
        tokio::select! {
            ended = talk.as_mut() => Some(ended),
            () = stopped(&mut stop) => timeout(limits.stop_grace, talk).await.ok(),
        }
    };
    if let Some(Err(fault)) = ended {
        tracing::debug!(error = %fault, "a connection on the local channel is given up");
        if let Fault::Broken(error) = fault {
            let _ = channel.send(message::error_response(error)).await;
        }
    }
    drop(place);
}

struct IpcChannel<S> {
    stream: S,
    values: ValueStream,
    buffer: Vec<u8>,
    write_timeout: Duration,
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Channel for IpcChannel<S> {
    const HALF_CLOSES: bool = true;

    async fn receive(&mut self) -> Result<Option<Bytes>, Fault> {
        loop {
            match self.values.next() {
                Ok(Some(value)) => return Ok(Some(value)),
                Ok(None) => {}
                Err(error) => return Err(lost(&error)),
            }
            match self.stream.read(&mut self.buffer).await? {
                0 => return Ok(self.values.finish()),
                len => self.values.push(&self.buffer[..len]),
            }
        }
    }

    async fn send(&mut self, mut message: Vec<u8>) -> Result<(), Fault> {
        message.push(b'\n');
        let sent = timeout(self.write_timeout, self.stream.write_all(&message)).await;
        Ok(sent.map_err(|_| Fault::Slow)??)
    }
}

/// The last answer on a stream in which no further value can be found.
fn lost(error: &StreamError) -> Fault {
    Fault::Broken(match error {
        StreamError::TooLong(_) => RpcError::invalid_request(error),
        StreamError::Unexpected(_) | StreamError::TooDeep(_) => RpcError::parse(error),
    })
}
