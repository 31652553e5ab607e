//! Requests of this process to the operating system: file size, open files, threads for servers.
//!
//! The code that writes decides what a failed write means.

use std::io;
use std::process::ExitCode;

use daemon::SERVING_STACK_LEN;
use tokio::runtime::{Builder, Runtime};

/// Prepares a process that may search on cards: drivers stay quiet, and a write beyond the largest
/// allowed file size fails with an error.
///
/// # Safety
/// The process has no other thread yet, because its environment is changed.
pub unsafe fn prepare_process() {
    // SAFETY: the caller promises that there is no other thread.
    unsafe { engine::gpu::quiet_drivers() };
    ignore_file_size_signal();
}

/// Says on standard error why a command failed, if it did, and returns the exit code. Ends the
/// process if a driver hangs.
pub fn end(result: Result<(), Box<dyn std::error::Error>>) -> ExitCode {
    let code = match result {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("vnode: {error}");
            1
        }
    };
    engine::end_if_hung(code);
    code.into()
}

/// Ignores the signal SIGXFSZ. By default the system ends the process without a message.
pub fn ignore_file_size_signal() {
    #[cfg(unix)]
    // SAFETY: the call sets one signal to be ignored; it installs no handler.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
}

/// Raises the limit of open files as far as the system allows. Each connection is an open file, and
/// the usual limit is lower than the number of connections that the servers accept.
pub fn raise_open_files() {
    #[cfg(unix)]
    if let Err(error) = rlimit::increase_nofile_limit(rlimit::INFINITY) {
        tracing::debug!(%error, "cannot raise the limit of open files");
    }
}

/// Starts the threads of the servers, and those that answer their requests.
///
/// # Errors
/// If the system gives no thread.
pub fn network_threads() -> io::Result<Runtime> {
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
