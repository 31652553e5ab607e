//! The local channel's end on unix: a socket under a path, with mode 0600 from its first moment.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tokio::net::{UnixListener, UnixStream};

/// Mode of the socket: the owner reads and writes.
const MODE: u32 = 0o600;
/// Mode of the folder it is made in.
const FOLDER_MODE: u32 = 0o700;

/// A socket that is listened on.
pub(super) struct Listener(UnixListener);

impl Listener {
    /// The next connection.
    pub(super) async fn accept(&mut self) -> io::Result<UnixStream> {
        self.0.accept().await.map(|(stream, _)| stream)
    }
}

/// Listens on the socket `path`, which lasts as long as the second part.
pub(super) fn listen(path: &Path) -> io::Result<(Listener, SocketFile)> {
    bind(path).map(|(listener, socket)| (Listener(listener), socket))
}

/// The file of a socket, removed with its server unless another has taken the path.
pub(super) struct SocketFile {
    pub(super) path: PathBuf,
    identity: (u64, u64),
}

impl SocketFile {
    pub(super) fn remove(&self) {
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

/// Makes the socket in a folder of its own that nobody else may enter, closes it to others, then moves it to its
/// path: it is never open to anybody else, whatever the umask, and a stale one is replaced in one step.
fn bind(path: &Path) -> io::Result<(UnixListener, SocketFile)> {
    check_free(path)?;
    let folder = Folder::make(path.with_file_name(format!(".{}.ipc", std::process::id())))?;
    // Short, as such paths have some hundred bytes.
    let within = folder.0.join("s");
    let listener = UnixListener::bind(&within)?;
    fs::set_permissions(&within, fs::Permissions::from_mode(MODE))?;
    fs::rename(&within, path)?;
    let socket = SocketFile {
        path: path.to_owned(),
        identity: identity(path)?,
    };
    Ok((listener, socket))
}

/// A folder for its owner alone, removed with what is in it.
struct Folder(PathBuf);

impl Folder {
    fn make(path: PathBuf) -> io::Result<Self> {
        // Left by a process of the same number that was killed.
        match fs::remove_dir_all(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        fs::DirBuilder::new().mode(FOLDER_MODE).create(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            tracing::warn!(%error, path = %self.0.display(), "cannot remove the folder the socket was made in");
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
