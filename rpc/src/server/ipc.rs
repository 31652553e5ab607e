//! JSON-RPC over a unix socket: a stream of JSON values in each direction.
//!
//! Values may be separated by space or by nothing; each answer is followed by a newline. A
//! connection's messages are answered one after the other, in order. Only the owner of the node may
//! connect: the socket appears under its path with mode 0600 from its first moment.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::time::timeout;

use super::stream::{StreamError, ValueStream};
use super::{ACCEPT_PAUSE, Place, Running, ServeError, stopped};
use crate::dispatch::Dispatcher;
use crate::error::RpcError;
use crate::message;

/// File name of the socket in the data directory.
pub const SOCKET_NAME: &str = "vnode.ipc";

/// Mode of the socket: the owner reads and writes.
const MODE: u32 = 0o600;
/// Bytes asked for in one read.
const READ_LEN: usize = 16 * 1024;
/// Time for a client to take in an answer.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// A running server on a unix socket. Dropping it closes it without waiting.
pub struct IpcServer {
    socket: SocketFile,
    running: Running,
}

impl IpcServer {
    /// The path of the socket.
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

/// Starts to listen on the socket `path` and to answer with `dispatcher`.
///
/// # Errors
/// If the socket is in use, if `path` is something else than a socket, or if it cannot be made.
pub fn start<C: Send + Sync + 'static>(
    dispatcher: Arc<Dispatcher<C>>,
    path: &Path,
) -> Result<IpcServer, ServeError> {
    let (listener, socket) = bind(path).map_err(ServeError::bind(path.display()))?;
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
                Ok((stream, _)) => match Arc::clone(&places).try_acquire_owned() {
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

/// The file of a socket, removed with its server unless another has taken the path.
struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
}

impl SocketFile {
    fn remove(&self) {
        if identity(&self.path).is_ok_and(|identity| identity == self.identity)
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::warn!(%error, path = %self.path.display(), "cannot remove the socket");
        }
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        self.remove();
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|meta| (meta.dev(), meta.ino()))
}

/// Makes the socket beside its path, closes it to others, then moves it there: it is never open to
/// anybody else, and a stale one is replaced in one step.
fn bind(path: &Path) -> io::Result<(UnixListener, SocketFile)> {
    check_free(path)?;
    let beside = path.with_file_name(format!(".{}.ipc", std::process::id()));
    match fs::remove_file(&beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(&beside)?;
    let placed = fs::set_permissions(&beside, fs::Permissions::from_mode(MODE))
        .and_then(|()| fs::rename(&beside, path))
        .and_then(|()| identity(path));
    match placed {
        Ok(identity) => Ok((
            listener,
            SocketFile {
                path: path.to_owned(),
                identity,
            },
        )),
        Err(error) => {
            let _ = fs::remove_file(&beside);
            Err(error)
        }
    }
}

/// Refuses a path that a living server listens on, or that is no socket.
fn check_free(path: &Path) -> io::Result<()> {
    let meta = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        meta => meta?,
    };
    if !meta.file_type().is_socket() {
        return Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "the path exists and is no socket",
        ));
    }
    match std::os::unix::net::UnixStream::connect(path) {
        Ok(_) => Err(io::Error::new(
            io::ErrorKind::AddrInUse,
            "another process listens on this socket",
        )),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
        Err(error) => Err(error),
    }
}

/// One connection, until it ends or the server stops.
async fn serve<C: Send + Sync + 'static>(
    dispatcher: Arc<Dispatcher<C>>,
    stream: UnixStream,
    place: Place,
    mut stop: watch::Receiver<bool>,
) {
    let mut told = stop.clone();
    let mut talk = std::pin::pin!(talk(&dispatcher, stream, &mut told));
    let ended = tokio::select! {
        ended = talk.as_mut() => Some(ended),
        () = stopped(&mut stop) => timeout(dispatcher.limits().stop_grace, talk).await.ok(),
    };
    if let Some(Err(error)) = ended {
        tracing::debug!(%error, "a connection on the local channel failed");
    }
    drop(place);
}

/// Answers values until the client hangs up, sends something that is no value, or, between two
/// values, the server stops.
async fn talk<C: Send + Sync + 'static>(
    dispatcher: &Dispatcher<C>,
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    stop: &mut watch::Receiver<bool>,
) -> io::Result<()> {
    let limits = dispatcher.limits();
    let mut values = ValueStream::new(limits.body_len_max, limits.depth_max);
    let mut buffer = vec![0; READ_LEN];
    loop {
        let value = match values.next() {
            Ok(Some(value)) => value,
            Ok(None) => {
                let len = tokio::select! {
                    () = stopped(stop) => return Ok(()),
                    len = stream.read(&mut buffer) => len?,
                };
                if len > 0 {
                    values.push(&buffer[..len]);
                    continue;
                }
                let Some(value) = values.finish() else {
                    return Ok(());
                };
                value
            }
            Err(error) => return send(&mut stream, message::error_response(lost(&error))).await,
        };
        if let Some(answer) = dispatcher.handle(value).await {
            send(&mut stream, answer).await?;
        }
    }
}

/// The last answer on a stream in which no further value can be found.
fn lost(error: &StreamError) -> RpcError {
    match error {
        StreamError::TooLong(_) => RpcError::invalid_request(error),
        StreamError::Unexpected(_) | StreamError::TooDeep(_) => RpcError::parse(error),
    }
}

async fn send(stream: &mut (impl AsyncWrite + Unpin), mut answer: Vec<u8>) -> io::Result<()> {
    answer.push(b'\n');
    timeout(WRITE_TIMEOUT, stream.write_all(&answer)).await?
}
