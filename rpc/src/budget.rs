//! The bounds of the work on one message: time, bytes for its results, and the client's memory.
//!
//! The requests of a batch share one budget and use it in order. A thread that runs a call knows
//! the budget of the call ([`MessageBudget::run`]). So every text that is written during the call
//! is counted, whoever writes it, and work that takes long stops when nobody waits for it any more.
//! This module knows neither methods nor gates.
//!
//! A budget is no `Quota`: it belongs to one message, and nobody shares it. The client's memory,
//! which clients do share, is in `traffic`.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use chain::query_limit::{CancelFlag, QueryLimit, QueryMemory};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::error::{RpcError, RpcResult};
use crate::limits::Limits;
use crate::text::{TextError, TextWriter};
use crate::traffic::{ClientMemory, FREE_LEN, MemoryReservation};

/// The time and the room that are left for one message.
pub(crate) struct MessageBudget {
    /// The time at which the work must be finished.
    pub(crate) deadline: Instant,
    memory: ClientMemory,
    /// A text of at most this many bytes is not counted.
    free_len: usize,
    /// Bytes left for results.
    len_left: AtomicUsize,
    len_max: usize,
    /// Set when nobody waits for the answer any more.
    cancelled: CancelFlag,
    /// The memory of the values that the running call has collected.
    values: Mutex<MemoryReservation>,
}

thread_local! {
    /// The budget of the call that this thread runs.
    static CURRENT: RefCell<Option<Arc<MessageBudget>>> = const { RefCell::new(None) };
}

impl MessageBudget {
    /// The budget of a message that comes now, with its memory in `memory`.
    pub(crate) fn new(limits: &Limits, memory: ClientMemory) -> Arc<Self> {
        Self::with_free_len(limits, memory, FREE_LEN)
    }

    /// As [`Self::new`], and texts of at most `free_len` bytes are not counted.
    pub(crate) fn with_free_len(limits: &Limits, memory: ClientMemory, free_len: usize) -> Arc<Self> {
        Arc::new(Self {
            deadline: Instant::now() + limits.request_timeout,
            memory,
            free_len,
            len_left: AtomicUsize::new(limits.response_len_max),
            len_max: limits.response_len_max,
            cancelled: CancelFlag::default(),
            values: Mutex::default(),
        })
    }

    /// Tells the work on the message that nobody waits for it any more.
    pub(crate) fn cancel(&self) {
        self.cancelled.cancel();
    }

    /// Cancels the work on the message when the guard is dropped.
    pub(crate) fn cancel_on_drop(self: &Arc<Self>) -> CancelOnDrop {
        CancelOnDrop(self.cancelled.clone())
    }

    /// Checks that another call may start.
    ///
    /// # Errors
    /// −32000 if no bytes or no time is left, or nobody waits.
    pub(crate) fn admit(&self) -> RpcResult<()> {
        if self.len_left.load(Relaxed) == 0 {
            return Err(self.too_long("not run: "));
        }
        if Instant::now() >= self.deadline {
            return Err(RpcError::refused("not run: the request timed out"));
        }
        if self.cancelled.is_cancelled() {
            return Err(RpcError::refused("not run: the client hung up"));
        }
        Ok(())
    }

    /// Takes `len` bytes of a result from the budget. After a result that does not fit, no bytes
    /// are left for later results.
    ///
    /// # Errors
    /// −32000 if the result does not fit.
    pub(crate) fn charge(&self, len: usize) -> RpcResult<()> {
        let left = self.len_left.load(Relaxed);
        self.len_left.store(left.saturating_sub(len), Relaxed);
        if len > left {
            return Err(self.too_long(""));
        }
        Ok(())
    }

    /// Runs a part of a call on this thread, within this budget. The memory of the values that the
    /// part collects is released at its end.
    pub(crate) fn run<T>(self: &Arc<Self>, part: impl FnOnce() -> T) -> T {
        /// Restores what the thread did before, even if the part panics.
        struct Restore(Option<Arc<MessageBudget>>);

        impl Drop for Restore {
            fn drop(&mut self) {
                let ended = CURRENT.replace(self.0.take());
                if let Some(ended) = ended {
                    ended.values.lock().shrink(0);
                }
            }
        }

        let _restore = Restore(CURRENT.replace(Some(Arc::clone(self))));
        part()
    }

    /// A writer for text that belongs to the answer, but not to the result of a call.
    pub(crate) fn writer(&self) -> TextWriter {
        TextWriter::new(Some(self.memory.clone()), usize::MAX)
    }

    /// Explains why a text was not written.
    fn text_error(&self, error: TextError) -> RpcError {
        match error {
            TextError::TooLong => {
                self.len_left.store(0, Relaxed);
                self.too_long("")
            }
            TextError::NoMemory => RpcError::no_memory(),
            TextError::Cancelled => abandoned(),
        }
    }

    /// Takes the bytes of an error from the budget. Short errors are free.
    ///
    /// # Errors
    /// −32000 if the error is long and does not fit.
    pub(crate) fn charge_error(&self, len: usize) -> RpcResult<()> {
        if len > FREE_LEN { self.charge(len) } else { Ok(()) }
    }

    fn too_long(&self, prefix: &str) -> RpcError {
        RpcError::too_long(prefix, self.len_max)
    }
}

impl QueryMemory for MessageBudget {
    fn reserve(&self, len: usize) -> bool {
        self.memory.reserve(&mut self.values.lock(), len)
    }
}

/// Cancels the work on a message when it is dropped. Work that has ended does not mind.
pub(crate) struct CancelOnDrop(CancelFlag);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// The budget of the call that this thread runs. `None` outside of calls.
fn current() -> Option<Arc<MessageBudget>> {
    CURRENT.with_borrow(Clone::clone)
}

/// A writer for the result of the call that this thread runs. Outside of calls nothing is counted.
pub(crate) fn result_writer() -> TextWriter {
    CURRENT.with_borrow(|current| match current {
        Some(budget) => TextWriter::new(Some(budget.memory.clone()), budget.len_left.load(Relaxed))
            .free_up_to(budget.free_len)
            .cancelled_by(&budget.cancelled),
        None => TextWriter::new(None, usize::MAX),
    })
}

/// Explains why the result of the call that this thread runs was not written.
pub(crate) fn result_error(error: TextError) -> RpcError {
    match current() {
        Some(budget) => budget.text_error(error),
        None => RpcError::no_memory(),
    }
}

/// Reserves memory for values that the call collects before it writes its result. The memory is
/// released when the call ends.
///
/// # Errors
/// −32000 if too little is left, or nobody waits for the answer any more.
pub(crate) fn reserve_values(len: usize) -> RpcResult<()> {
    match current() {
        Some(budget) if budget.cancelled.is_cancelled() => Err(abandoned()),
        Some(budget) if !QueryMemory::reserve(&*budget, len) => Err(RpcError::no_memory()),
        _ => Ok(()),
    }
}

/// Runs a part of a call whose values end with it. Their memory is released at its end, so a call
/// can walk over many blocks with the memory for one of them.
pub(crate) fn run_part<T>(part: impl FnOnce() -> T) -> T {
    let Some(budget) = current() else {
        return part();
    };
    let before = std::mem::take(&mut *budget.values.lock());
    let result = part();
    *budget.values.lock() = before;
    result
}

/// Ends a call whose client has left, or whose time is over. Nobody reads this error.
fn abandoned() -> RpcError {
    RpcError::refused("not finished: nobody waits for the answer")
}

/// The limit of a long query for the call that this thread runs: at most `timeout`, and until
/// nobody waits any more. When the message's time is over, nobody does.
pub(crate) fn query_limit(timeout: Duration) -> QueryLimit {
    let limit = QueryLimit::new(timeout);
    match current() {
        Some(budget) => limit.cancelled_by(&budget.cancelled).within(budget),
        None => limit,
    }
}

#[cfg(test)]
mod tests {
    use daemon::ClientId;

    use super::*;
    use crate::traffic::TrafficMemory;

    fn budget(response_len_max: usize, room: usize) -> (TrafficMemory, Arc<MessageBudget>) {
        let limits = Limits {
            response_len_max,
            ..Limits::default()
        };
        let traffic = TrafficMemory::new(room, 100);
        let memory = traffic.client(ClientId::Local(0));
        (traffic, MessageBudget::new(&limits, memory))
    }

    #[test]
    fn bytes_and_time_run_out() {
        let (_, budget) = self::budget(10, 0);
        assert!(budget.charge(6).is_ok() && budget.admit().is_ok());
        assert_eq!(
            budget.charge(5).unwrap_err().message(),
            "the response is longer than 10 bytes"
        );
        assert_eq!(
            budget.admit().unwrap_err().message(),
            "not run: the response is longer than 10 bytes"
        );

        let (_, budget) = self::budget(10, 0);
        assert!(budget.charge(10).is_ok(), "the last byte may be used");
        let (_, mut budget) = self::budget(10, 0);
        Arc::get_mut(&mut budget).expect("no other").deadline = Instant::now();
        assert_eq!(
            budget.admit().unwrap_err().message(),
            "not run: the request timed out"
        );
        let (_, budget) = self::budget(10, 0);
        drop(budget.cancel_on_drop());
        assert_eq!(
            budget.admit().unwrap_err().message(),
            "not run: the client hung up"
        );
    }

    #[test]
    fn a_call_writes_and_collects_within_its_budget() {
        let (traffic, budget) = self::budget(100_000, 50_000);
        budget.run(|| {
            let mut writer = result_writer();
            assert_eq!(writer.push(&[b'x'; 90_000]), Err(TextError::NoMemory));
            drop(writer);
            reserve_values(30_000).expect("memory");
            assert_eq!(reserve_values(30_000).unwrap_err(), RpcError::no_memory());
            assert_eq!(traffic.used(), 30_000);
            assert!(!query_limit(Duration::MAX).reserve(30_000));
            for _ in 0..3 {
                run_part(|| assert!(query_limit(Duration::MAX).reserve(20_000)));
            }
            assert_eq!(traffic.used(), 30_000, "a part gives back only what is its own");
        });
        assert_eq!(traffic.used(), 0, "the values are gone when the call has ended");
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            budget.run(|| {
                reserve_values(30_000).expect("memory");
                panic!("as asked");
            });
        }));
        assert!(panicked.is_err() && traffic.used() == 0);
        assert!(
            reserve_values(usize::MAX).is_ok(),
            "nothing is counted outside of calls"
        );
        budget.charge(99_990).expect("bytes");
        budget.run(|| assert_eq!(result_writer().push(&[b'x'; 11]), Err(TextError::TooLong)));
    }

    #[test]
    fn work_ends_with_its_message() {
        let (_, budget) = self::budget(10, 0);
        let limit = budget.run(|| query_limit(Duration::MAX));
        assert!(limit.check().is_ok());
        drop(budget.cancel_on_drop());
        assert!(limit.check().is_err());
        // Work that asks for no limit ends at its next piece of text, or of memory.
        let (_, budget) = self::budget(1 << 20, 1 << 20);
        budget.run(|| {
            let mut writer = result_writer();
            reserve_values(1).expect("memory");
            writer.push(b"begun").expect("room");
            budget.cancel();
            assert_eq!(writer.push(&[b'x'; 100_000]), Err(TextError::Cancelled));
            assert_eq!(reserve_values(1).unwrap_err(), abandoned());
            assert_eq!(result_error(TextError::Cancelled), abandoned());
        });
    }
}
