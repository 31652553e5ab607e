//! JSON-RPC on the local socket: a stream of JSON values in each direction, over a unix socket or,
//! on Windows, a named pipe.
//!
//! Values may be separated by space or by nothing. Each answer and each notification is followed by
//! a newline. The messages of a connection are answered side by side. Only the user who runs the
//! node may connect.
//!
//! `unix` and `pipe` know the system's sockets and pipes. `duplex` exchanges the messages, and
//! `stream` finds where they end.

#[cfg(windows)]
mod pipe;
#[cfg(unix)]
mod unix;

use std::future::Ready;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use daemon::{Place, PlaceLimits, Places, accept};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::watch;

#[cfg(windows)]
use self::pipe::{PipeName as SocketPath, listen};
#[cfg(unix)]
use self::unix::{UnixSocketFile as SocketPath, listen};
use super::acceptor::RequestSource;
use super::activity::Activity;
use super::duplex::{self, DuplexChannel, DuplexError};
use super::metered::Metered;
use super::pace::ReadPace;
use super::stream::{ValueStream, ValueStreamError};
use super::{ServeError, ServerTasks};
use crate::caller::RpcCaller;
use crate::dispatch::{Answering, Dispatcher};
use crate::error::RpcError;
use crate::health::Healthy;
use crate::message;
use crate::text::{PIECE_LEN, Text};

/// File name of the socket in the data directory. On Windows it is the pipe's name.
pub const SOCKET_NAME: &str = "vnode.ipc";

/// Bytes of one read.
const READ_LEN: usize = 16 * 1024;

/// A running server on the local socket. Dropping it closes it without waiting.
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
pub fn start<C: Healthy + Send + Sync + 'static>(
    dispatcher: Arc<Dispatcher<C>>,
    path: &Path,
) -> Result<IpcServer, ServeError> {
    start_server(dispatcher, path)
}

fn start_server(dispatcher: Arc<dyn Answering>, path: &Path) -> Result<IpcServer, ServeError> {
    let (listener, socket) = listen(path).map_err(ServeError::bind(path.display()))?;
    // Each connection is a client of its own.
    let places = Places::new(PlaceLimits {
        total: dispatcher.limits().ipc_connections_max,
        per_client: 1,
    });
    let mut tasks = ServerTasks::new(vec![places.clone()]);
    tasks.start(|stop| async move {
        let admit = |stream| {
            let limits = dispatcher.limits();
            let source = RequestSource::new(RpcCaller::local(dispatcher.traffic()), Activity::new(limits));
            let (client, activity) = (source.caller.client, source.activity.clone());
            let Some(place) = places.take(client, activity, Instant::now()) else {
                tracing::warn!("too many connections on the local socket: closing the newest");
                return None::<Ready<()>>;
            };
            // The connection ends by itself, and the server waits for its place.
            let dispatcher = Arc::clone(&dispatcher);
            tokio::spawn(serve(dispatcher, stream, source, place, stop.clone()));
            None
        };
        accept(listener, "the local socket", stop.clone(), admit).await;
    });
    Ok(IpcServer { socket, tasks })
}

/// Serves one connection until it ends or the server stops.
async fn serve(
    dispatcher: Arc<dyn Answering>,
    stream: impl ChannelStream,
    source: RequestSource,
    place: Place<Activity>,
    stop: watch::Receiver<bool>,
) {
    let limits = dispatcher.limits();
    let mut channel = IpcChannel {
        stream: Metered::new(stream, source.caller.memory.clone(), limits.body_len_max),
        values: ValueStream::new(limits.body_len_max, limits.depth_max),
        buffer: vec![0; READ_LEN],
        pace: ReadPace::new(limits),
        len_max: limits.body_len_max,
    };
    let ended = tokio::select! {
        ended = duplex::serve(&*dispatcher, &mut channel, &source, &stop) => ended,
        () = place.displaced() => {
            tracing::debug!("an idle connection on the local socket makes room for another");
            None
        }
    };
    if let Some(Err(error)) = ended {
        tracing::debug!(%error, "closing a connection on the local socket");
        if let DuplexError::Unreadable(error) = error {
            let _ = channel.send(message::error_response(&error), false).await;
        }
    }
    drop(place);
}

struct IpcChannel<S> {
    stream: Metered<S>,
    values: ValueStream,
    buffer: Vec<u8>,
    pace: ReadPace,
    len_max: usize,
}

/// The stream of a connection on the local socket.
trait ChannelStream: AsyncRead + AsyncWrite + Unpin + Send + Sync {
    /// Waits until the client can read no more.
    fn closed(&self) -> impl Future<Output = ()> + Send;
}

impl<S: ChannelStream> DuplexChannel for IpcChannel<S> {
    const HALF_CLOSES: bool = true;

    async fn receive(&mut self) -> Result<Option<Bytes>, DuplexError> {
        loop {
            match self.values.next() {
                Ok(Some(value)) => {
                    self.stream.reset();
                    return Ok(Some(value));
                }
                Ok(None) => {}
                Err(error) => return Err(unreadable(&error)),
            }
            match self.stream.read(&mut self.buffer).await {
                Ok(0) => return Ok(self.values.finish()),
                Ok(len) => self.values.push(&self.buffer[..len]),
                Err(error) if error.kind() == io::ErrorKind::OutOfMemory => {
                    return Err(DuplexError::NoMemory);
                }
                Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                    return Err(DuplexError::TooLong(self.len_max));
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn closed(&mut self) {
        self.stream.inner().closed().await;
    }

    async fn send(&mut self, mut message: Text, _: bool) -> Result<(), DuplexError> {
        message.push_end(b"\n");
        let mut paced = self.pace.begin();
        for piece in message.into_pieces() {
            // A shared piece may be long, and what the client has read counts part by part.
            for part in piece.chunks(PIECE_LEN) {
                let written = paced.write(part.len(), self.stream.write_all(part)).await;
                written.ok_or(DuplexError::SlowReader)??;
            }
        }
        Ok(())
    }
}

/// The last answer on a stream in which no further value can be found.
fn unreadable(error: &ValueStreamError) -> DuplexError {
    DuplexError::Unreadable(match error {
        ValueStreamError::TooLong(_) => RpcError::invalid_request(error),
        ValueStreamError::Unexpected(_) | ValueStreamError::TooDeep(_) => RpcError::parse(error),
    })
}
