//! The limits that the system sets a process, and what it does when one is met.
//!
//! Knows signals and open files alone; what a failed write means is said where it is written.

/// From here on a write beyond the largest allowed file size fails, and the process goes on:
/// unasked, the system ends it without a word.
pub fn outlive_file_limits() {
    #[cfg(unix)]
    // SAFETY: sets the disposition of one signal to a constant of the system's; no handler of ours runs.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
}

/// Takes all the open files that the system allows: every connection is one, and the usual limit
/// leaves no room for as many as the servers take.
pub(crate) fn raise_open_files() {
    #[cfg(unix)]
    if let Err(error) = rlimit::increase_nofile_limit(rlimit::INFINITY) {
        tracing::debug!(%error, "the limit of open files stays as it is");
    }
}
