//! The limits that the operating system sets for this process: file size and open files.
//!
//! What a failed write means is decided by the code that writes.

/// Ignores the signal SIGXFSZ. After this call a write beyond the largest allowed file size fails
/// with an error; by default the system ends the process without a message.
pub fn ignore_file_size_signal() {
    #[cfg(unix)]
    // SAFETY: the call sets one signal to be ignored; it installs no handler.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
}

/// Raises the limit of open files as far as the system allows. Each connection is an open file, and
/// the usual limit is lower than the number of connections that the servers accept.
pub(crate) fn raise_open_files() {
    #[cfg(unix)]
    if let Err(error) = rlimit::increase_nofile_limit(rlimit::INFINITY) {
        tracing::debug!(%error, "cannot raise the limit of open files");
    }
}
