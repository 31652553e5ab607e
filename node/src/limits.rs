//! What the system does to a process that meets one of its limits.
//!
//! Knows signals alone; what a failed write means is said where it is written.

/// From here on a write beyond the largest allowed file size fails, and the process goes on:
/// unasked, the system ends it without a word.
pub fn outlive_file_limits() {
    #[cfg(unix)]
    // SAFETY: sets the disposition of one signal to a constant of the system's; no handler of ours runs.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
}
