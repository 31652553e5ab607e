//! A flag that the first SIGINT or SIGTERM raises; the second ends the process.

use std::process::exit;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use miner::StopSignal;

use super::CommandError;

/// Exit code of a process that a second signal ends.
const IMPATIENT: i32 = 130;

/// The flag. From here on signals end the process no more by themselves.
pub(super) fn flag() -> Result<Arc<AtomicBool>, CommandError> {
    let system = |what| move |source| CommandError::System { what, source };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(system("cannot listen for signals"))?;
    let mut signal = {
        let _inside = runtime.enter();
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
                exit(IMPATIENT);
            });
        })
        .map_err(system("cannot start a thread"))?;
    Ok(flag)
}
