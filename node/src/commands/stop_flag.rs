//! Stops a command by signals: the first SIGINT or SIGTERM sets a flag, the second ends the
//! process.

use std::process::exit;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use daemon::{Screen, StopSignal};

use super::error::CommandError;

/// Exit code of a process that the second signal ends.
const SECOND_SIGNAL_EXIT_CODE: i32 = 130;

/// Returns the flag, which the first signal sets to true. After this call signals no longer end the
/// process by themselves.
pub fn stop_flag() -> Result<Arc<AtomicBool>, CommandError> {
    let system = |what| move |source| CommandError::System { what, source };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(system("cannot listen for signals"))?;
    let mut signal = {
        let _guard = runtime.enter();
        StopSignal::listen().map_err(system("cannot listen for signals"))?
    };
    let flag = Arc::new(AtomicBool::new(false));
    let raised = flag.clone();
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            runtime.block_on(async {
                signal.wait().await;
                raised.store(true, Ordering::Release);
                signal.wait().await;
                Screen::finish();
                exit(SECOND_SIGNAL_EXIT_CODE);
            });
        })
        .map_err(system("cannot start a thread"))?;
    Ok(flag)
}
