//! The allocator of programs with servers, and memory that goes back to the system.
//!
//! Calls make and free several buffers of some ten KiB on many threads. The system's allocator
//! gives such memory back and takes it again for each call. All programs with servers of this
//! package use this one. It gives free memory back when a later allocation finds that it was free
//! for a second. After a load nothing is allocated, so hundreds of MiB of threads that are gone
//! would stay. A task gives them back.
//!
//! The allocator is built without its advice to the system to use huge pages (feature `no_thp`).
//! With it, a small node took half as much memory again, in pages of 2 MiB of which little was
//! used. Light caches ask for huge pages themselves.

use std::time::Duration;

use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// The time between two looks at free memory.
const INTERVAL: Duration = Duration::from_secs(10);

unsafe extern "C" {
    /// Frees what this thread has kept for later. With `force`, also gives all free memory of the
    /// process back to the system.
    fn mi_collect(force: bool);
}

/// Gives free memory back to the system, again and again. Ends with its runtime.
pub async fn give_back() {
    loop {
        tokio::time::sleep(INTERVAL).await;
        // SAFETY: the function of the allocator has this form, and any thread may call it.
        unsafe { mi_collect(true) };
    }
}
