//! What this process asks of the operating system: file size, open files, and threads for servers.
//!
//! What a failed write means is decided by the code that writes.

use std::io;

use inbound::SERVING_STACK_LEN;
use tokio::runtime::{Builder, Runtime};

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

/// Starts the threads of the servers, and those that answer their requests.
///
/// # Errors
/// If the system gives no thread.
pub(crate) fn network_threads() -> io::Result<Runtime> {
    Builder::new_multi_thread()
        .thread_stack_size(SERVING_STACK_LEN)
        .enable_all()
        .build()
}

/// Runs `work` on a thread with an eighth of the stack that strangers' work has. An overflow ends
/// the test's process.
#[cfg(test)]
pub(crate) fn on_small_stack(work: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(SERVING_STACK_LEN / 8);
    let ended = thread.spawn(work).expect("a thread").join();
    assert!(ended.is_ok(), "the work panicked");
}
