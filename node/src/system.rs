//! Requests of this process to the operating system: file size, open files, threads for servers.
//!
//! The code that writes decides what a failed write means.

use std::io;
use std::process::ExitCode;

use command_line::ExitReason;
use daemon::{SERVING_STACK_LEN, Screen};
use engine::MinerError;
use tokio::runtime::{Builder, Runtime};

use crate::config_file::ConfigError;
use crate::console::{NodeCallError, TransportError, error_text};
use crate::options::{OptionsError, OptionsFileError};

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

/// Says on standard error why `program` failed, if it did, and returns the exit code. Ends the
/// process if a driver hangs.
pub fn end(program: &str, result: Result<(), Box<dyn std::error::Error>>) -> ExitCode {
    Screen::finish();
    let exit = match result {
        Ok(()) => ExitReason::Done,
        Err(error) => {
            match sources(&*error).find_map(|cause| cause.downcast_ref()) {
                Some(refused @ NodeCallError::Refused { .. }) => eprintln!("{}", error_text(refused)),
                _ => eprintln!("{program}: {error}"),
            }
            exit_reason(&*error)
        }
    };
    engine::end_if_hung(exit.code());
    exit.into()
}

/// The reason for which an error ends a program: the same for the same cause, whatever the command.
fn exit_reason(error: &(dyn std::error::Error + 'static)) -> ExitReason {
    let reason = sources(error).find_map(|cause| {
        let transport = match cause.downcast_ref() {
            Some(NodeCallError::Transport { reason, .. }) => Some(reason),
            _ => None,
        };
        let bad_token = matches!(transport, Some(TransportError::Token));
        let no_device = matches!(cause.downcast_ref(), Some(MinerError::NoAdapter { .. }));
        let is_usage = bad_token
            || cause.is::<OptionsError>()
            || cause.is::<OptionsFileError>()
            || cause.is::<ConfigError>();
        match () {
            () if is_usage => Some(ExitReason::Usage),
            () if transport.is_some() => Some(ExitReason::NoConnection),
            () if no_device => Some(ExitReason::NoDevice),
            () => None,
        }
    });
    reason.unwrap_or(ExitReason::Failed)
}

/// An error and its causes.
fn sources<'a>(
    error: &'a (dyn std::error::Error + 'static),
) -> impl Iterator<Item = &'a (dyn std::error::Error + 'static)> {
    std::iter::successors(Some(error), |error| error.source())
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

/// Starts the threads of the servers, and those that answer their requests. Memory that they free
/// goes back to the system.
///
/// # Errors
/// If the system gives no thread.
pub fn network_threads() -> io::Result<Runtime> {
    let runtime = Builder::new_multi_thread()
        .thread_stack_size(SERVING_STACK_LEN)
        .enable_all()
        .build()?;
    runtime.spawn(rpc::memory::give_back());
    Ok(runtime)
}

/// Runs `work` on a thread with an eighth of the stack that strangers' work has. An overflow ends
/// the test's process.
#[cfg(test)]
pub(crate) fn on_small_stack(work: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(SERVING_STACK_LEN / 8);
    let ended = thread.spawn(work).expect("a thread").join();
    assert!(ended.is_ok(), "the work panicked");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::CommandError;
    use crate::console::ConsoleError;
    use crate::data_directory::DataDirectoryError;
    use crate::vnode::StartError;

    #[test]
    fn the_same_cause_has_the_same_exit_code() {
        let check = |error: &(dyn std::error::Error + 'static), expected| {
            assert_eq!(exit_reason(error), expected, "{error}");
        };
        let usage = || OptionsError::DatasetFolder;
        check(&StartError::from(usage()), ExitReason::Usage);
        check(
            &StartError::from(DataDirectoryError::from(usage())),
            ExitReason::Usage,
        );
        check(&CommandError::from(usage()), ExitReason::Usage);
        check(
            &CommandError::from(DataDirectoryError::from(usage())),
            ExitReason::Usage,
        );
        check(&ConsoleError::from(usage()), ExitReason::Usage);
        let transport = || NodeCallError::Transport {
            endpoint: "x".to_owned(),
            reason: TransportError::Closed,
        };
        check(&ConsoleError::from(transport()), ExitReason::NoConnection);
        check(&CommandError::from(transport()), ExitReason::NoConnection);
        // The node was not even asked.
        let token = NodeCallError::Transport {
            endpoint: "x".to_owned(),
            reason: TransportError::Token,
        };
        check(&ConsoleError::from(token), ExitReason::Usage);
        let missing = MinerError::NoAdapter {
            wanted: Some(4),
            found: 1,
        };
        check(&StartError::from(missing), ExitReason::NoDevice);
        let refused = NodeCallError::Refused {
            code: -32000,
            message: "no".to_owned(),
            data: None,
        };
        check(&ConsoleError::from(refused), ExitReason::Failed);
        check(&CommandError::Faults(1), ExitReason::Failed);
    }
}
