//! The local socket on unix: a socket file that has mode 0600 from the moment it appears.
//!
//! Knows the file and its owner, not what passes through the socket.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use daemon::Listener;
use tokio::io::Interest;
use tokio::net::{UnixListener, UnixStream};
use tokio::time::sleep;

use super::ChannelStream;

/// Mode of the socket: only the owner may read and write.
const MODE: u32 = 0o600;
/// Mode of the folder in which the socket is made.
const FOLDER_MODE: u32 = 0o700;

/// Accepts connections on a unix socket.
pub(super) struct UnixSocketListener(UnixListener);

impl Listener for UnixSocketListener {
    type Connection = UnixStream;

    async fn accept(&mut self) -> io::Result<UnixStream> {
        self.0.accept().await.map(|(stream, _)| stream)
    }
}

/// The time between two looks for a client that has stopped to send.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

impl ChannelStream for UnixStream {
    async fn closed(&self) {
        loop {
            match self.ready(Interest::WRITABLE).await {
                Ok(ready) if !ready.is_write_closed() => sleep(LOOK_INTERVAL).await,
                _ => return,
            }
        }
    }
}

/// Listens on the socket `path`. Dropping the second part removes the file.
pub(super) fn listen(path: &Path) -> io::Result<(UnixSocketListener, UnixSocketFile)> {
    bind(path).map(|(listener, socket)| (UnixSocketListener(listener), socket))
}

/// The file of a socket. It is removed with its server unless another server has replaced it.
pub(super) struct UnixSocketFile {
    pub(super) path: PathBuf,
    /// Device and inode.
    identity: (u64, u64),
}

impl UnixSocketFile {
    pub(super) fn remove(&self) {
        if identity(&self.path).is_ok_and(|identity| identity == self.identity)
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::warn!(%error, path = %self.path.display(), "cannot remove the socket");
        }
    }
}

impl Drop for UnixSocketFile {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Device and inode of a file.
fn identity(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|meta| (meta.dev(), meta.ino()))
}

/// Makes the socket and moves it to its path.
///
/// The socket is made in a folder that only its owner may enter, and gets its mode there. So it is
/// never open to another user, whatever the umask is. The move replaces a stale socket in one step.
fn bind(path: &Path) -> io::Result<(UnixListener, UnixSocketFile)> {
    check_free(path)?;
    let folder = PrivateFolder::make(path.with_file_name(format!(".{}.ipc", std::process::id())))?;
    // A short name: the path of a socket may have only about a hundred bytes.
    let in_folder = folder.0.join("s");
    let listener = UnixListener::bind(&in_folder)?;
    fs::set_permissions(&in_folder, fs::Permissions::from_mode(MODE))?;
    fs::rename(&in_folder, path)?;
    let socket = UnixSocketFile {
        path: path.to_owned(),
        identity: identity(path)?,
    };
    Ok((listener, socket))
}

/// A folder that only its owner may enter. Dropping it removes it with its content.
struct PrivateFolder(PathBuf);

impl PrivateFolder {
    fn make(path: PathBuf) -> io::Result<Self> {
        // A process with the same id may have been killed and have left its folder.
        match fs::remove_dir_all(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        fs::DirBuilder::new().mode(FOLDER_MODE).create(&path)?;
        Ok(Self(path))
    }
}

impl Drop for PrivateFolder {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            tracing::warn!(%error, path = %self.0.display(), "cannot remove the folder the socket was made in");
        }
    }
}

/// Refuses a path on which a running server listens, or that is not a socket.
fn check_free(path: &Path) -> io::Result<()> {
    let meta = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        meta => meta?,
    };
    if !meta.file_type().is_socket() {
        return Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "the path exists and is not a socket",
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
