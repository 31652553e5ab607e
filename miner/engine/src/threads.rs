//! Starts threads, and ends them even if one of them hangs.
//!
//! A driver that hangs blocks the thread that called it, and this process cannot free that thread.
//! Such a thread is left behind, and the process must not wait for it when it ends.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::error::MinerError;

/// Time between two checks whether a thread has ended.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// Whether a thread of this process was left behind.
static LEFT_BEHIND: AtomicBool = AtomicBool::new(false);

/// Starts a thread.
pub fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, MinerError> {
    let no_thread = |error: io::Error| MinerError::NoThread {
        what: name.to_owned(),
        reason: error.to_string(),
    };
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(run)
        .map_err(no_thread)
}

/// Waits until `thread` ends, or until `deadline`.
///
/// Returns false if the thread is still running at the deadline. Then the thread is left behind.
pub fn join_until(thread: JoinHandle<()>, deadline: Instant) -> bool {
    while !thread.is_finished() {
        if Instant::now() >= deadline {
            LEFT_BEHIND.store(true, Ordering::Relaxed);
            let name = thread.thread().name().unwrap_or("a thread").to_owned();
            tracing::error!("{name} does not end and is left behind; a driver or a disk may hang");
            return false;
        }
        std::thread::sleep(LOOK_EVERY);
    }
    // A thread that panicked has already reported it.
    let _ = thread.join();
    true
}

/// Ends the process with `code` at once if a thread was left behind. Otherwise returns.
///
/// Call this at the end of the program. The usual end of a process runs the exit code of its
/// libraries, and the library of a driver that hangs may wait forever there.
pub fn end_if_hung(code: u8) {
    if !LEFT_BEHIND.load(Ordering::Relaxed) {
        return;
    }
    let _ = io::Write::flush(&mut io::stdout());
    #[cfg(unix)]
    // SAFETY: `_exit` ends the process, and nothing runs after it.
    unsafe {
        libc::_exit(code.into())
    };
    #[cfg(not(unix))]
    std::process::exit(code.into());
}

/// Sets the niceness of the calling thread, from 0 (normal priority) to 19 (lowest priority).
///
/// Works on Linux only, where each thread has a niceness of its own. On other systems it does
/// nothing.
pub(crate) fn set_thread_niceness(niceness: u8) {
    #[cfg(target_os = "linux")]
    if niceness > 0 {
        // SAFETY: `setpriority` takes only numbers. On Linux process 0 is the calling thread. A
        // failure changes nothing.
        let _ = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, niceness.into()) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = niceness;
}

/// Runs `work` on `threads` threads, and returns all results. The calling thread is one of the
/// threads.
///
/// `work` gets the number of its thread. The calling thread has number 0. If the system starts
/// fewer threads, fewer run. If one of them panics, this function panics too.
pub fn run_parallel<R: Send>(name: &str, threads: usize, work: impl Fn(usize) -> R + Sync) -> Vec<R> {
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
    fn join_waits_until_the_deadline() {
        let soon = spawn("soon", || std::thread::sleep(Duration::from_millis(20))).expect("a thread");
        assert!(join_until(soon, Instant::now() + Duration::from_secs(20)));
        let (release, released) = crossbeam_channel::bounded::<()>(0);
        let hung = spawn("hung", move || {
            let _ = released.recv();
        });
        let deadline = Instant::now() + Duration::from_millis(20);
        assert!(!join_until(hung.expect("a thread"), deadline));
        assert!(LEFT_BEHIND.load(Ordering::Relaxed));
        drop(release);
        let panics = spawn("panics", || panic!("on purpose"));
        assert!(join_until(
            panics.expect("a thread"),
            Instant::now() + Duration::from_secs(20)
        ));
    }
}
