//! Threads with little stack, for the servers under test.

use daemon::SERVING_STACK_LEN;
use tokio::runtime::{Builder, Runtime};

/// Threads with an eighth of the stack that a node gives them. What a stranger sends must not need
/// more, even in a build without optimizations.
pub(crate) fn runtime() -> Runtime {
    Builder::new_multi_thread()
        .thread_stack_size(SERVING_STACK_LEN / 8)
        .enable_all()
        .build()
        .expect("a runtime")
}
