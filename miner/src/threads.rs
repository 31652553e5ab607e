//! Threads of an engine: how they are started, and how one is ended that has some which never end.
//!
//! A driver that hangs holds whoever called it, and nothing of this process can free them. Such a thread is
//! left behind, and the process must not wait for it at its own end either.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::error::MinerError;

/// Between two looks at a thread that is to end.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// Whether any thread of this process was left behind.
static LEFT_BEHIND: AtomicBool = AtomicBool::new(false);

/// Starts a thread.
pub(crate) fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, MinerError> {
    let no_thread = |error: io::Error| MinerError::NoThread {
        what: name.to_owned(),
        reason: error.to_string(),
    };
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(run)
        .map_err(no_thread)
}

/// Waits for the end of `thread`, until `deadline`. False where it goes on beyond: then it is left behind.
pub(crate) fn join_until(thread: JoinHandle<()>, deadline: Instant) -> bool {
    while !thread.is_finished() {
        if Instant::now() >= deadline {
            LEFT_BEHIND.store(true, Ordering::Relaxed);
            let name = thread.thread().name().unwrap_or("a thread").to_owned();
            tracing::error!("{name} does not end (a driver or a disk that hangs?), it is left behind");
            return false;
        }
        std::thread::sleep(LOOK_EVERY);
    }
    // Whoever panicked has said so.
    let _ = thread.join();
    true
}

/// Ends the process with `code` at once if an engine has left threads behind; else returns.
///
/// For the end of a program. The usual way out runs what libraries have to do at the end, and the library of
/// a driver that hangs may wait for itself there.
pub fn end_if_hung(code: u8) {
    if !LEFT_BEHIND.load(Ordering::Relaxed) {
        return;
    }
    let _ = io::Write::flush(&mut io::stdout());
    #[cfg(unix)]
    // SAFETY: ends the process, whatever its threads are at; nothing runs after it.
    unsafe {
        libc::_exit(code.into())
    };
    #[cfg(not(unix))]
    std::process::exit(code.into());
}

/// Sets the niceness of the calling thread, from 0 (normal priority) to 19 (lowest priority).
///
/// This works on Linux only, where each thread has a niceness of its own. On other systems it does nothing.
pub(crate) fn set_thread_niceness(niceness: u8) {
    #[cfg(target_os = "linux")]
    if niceness > 0 {
        // SAFETY: `setpriority` takes only numbers. On Linux process 0 is the calling thread. A failure
        // changes nothing.
        let _ = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, niceness.into()) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = niceness;
}

/// Runs `work` on `threads` threads, of which the calling thread is one, and returns all results.
///
/// `work` gets the number of its thread, from 0. If the system starts fewer threads, fewer run. A panic in
/// one of them is passed on.
pub(crate) fn run_parallel<R: Send>(name: &str, threads: usize, work: impl Fn(usize) -> R + Sync) -> Vec<R> {
    let work = &work;
    std::thread::scope(|scope| {
        let helpers: Vec<_> = (1..threads)
            .filter_map(|thread| {
                let builder = std::thread::Builder::new().name(name.to_owned());
                builder.spawn_scoped(scope, move || work(thread)).ok()
            })
            .collect();
        let mut results = vec![work(0)];
        results.extend(helpers.into_iter().map(|helper| {
            helper
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        }));
        results
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_waited_for_until_the_deadline() {
        let soon = spawn("soon", || std::thread::sleep(Duration::from_millis(20))).expect("a thread");
        assert!(join_until(soon, Instant::now() + Duration::from_secs(20)));
        let (release, held) = crossbeam_channel::bounded::<()>(0);
        let hung = spawn("hung", move || {
            let _ = held.recv();
        });
        let deadline = Instant::now() + Duration::from_millis(20);
        assert!(!join_until(hung.expect("a thread"), deadline));
        assert!(LEFT_BEHIND.load(Ordering::Relaxed));
        drop(release);
        let panics = spawn("panics", || panic!("as it should"));
        assert!(join_until(
            panics.expect("a thread"),
            Instant::now() + Duration::from_secs(20)
        ));
    }
}
