//! Work on all processors, with results in order, and two pieces of work at a time.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::{LazyLock, Mutex, PoisonError};

use crossbeam_channel::{Receiver, Sender, bounded};

/// Results that may wait to be consumed, for each thread.
const WAITING_RESULTS_PER_THREAD: usize = 2;

/// Number of processors. Asking the system takes longer than a small piece of work.
static PROCESSORS: LazyLock<usize> =
    LazyLock::new(|| std::thread::available_parallelism().map_or(1, NonZero::get));

/// Whether a second thread has a processor of its own.
pub(crate) fn has_processors() -> bool {
    *PROCESSORS > 1
}

/// Runs `other` on a thread of its own while `own` runs here, and returns both results. With one
/// processor, or if the system gives no thread, both run here.
///
/// # Panics
/// If one of them panics, with the same payload.
pub(crate) fn in_two_threads<A, B: Send>(
    own: impl FnOnce() -> A,
    other: impl FnOnce() -> B + Send,
) -> (A, B) {
    let waiting = Mutex::new(Some(other));
    let take = || waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
    std::thread::scope(|scope| {
        let run = || take().map(|other| other());
        let spawned = (*PROCESSORS > 1)
            .then(|| std::thread::Builder::new().spawn_scoped(scope, run))
            .and_then(Result::ok);
        let own = own();
        let joined = spawned.map(std::thread::ScopedJoinHandle::join);
        match joined {
            Some(Err(payload)) => std::panic::resume_unwind(payload),
            Some(Ok(Some(other))) => (own, other),
            Some(Ok(None)) | None => {
                let other = take().expect("only the other thread takes it, and there is none");
                (own, other())
            }
        }
    })
}

/// Runs `work` on each item, on all processors, and gives the results to `consume` in the order
/// of the items.
///
/// Items are taken from the iterator one at a time, each by the next free thread, so they may be
/// of different size and the iterator may be long. There are no more threads than items, if the
/// iterator says how many there are. `consume` runs in the calling thread. If it
/// returns an error, no further items are taken; those that other threads have begun with are
/// finished, and their results are dropped.
///
/// If the system gives fewer threads than there are processors, the work takes longer. If it
/// gives none, the calling thread does all of the work.
///
/// # Errors
/// The first error of `consume`.
///
/// # Panics
/// If `work` or the iterator panics, with the same payload.
pub fn for_each_in_order<I, R, E>(
    items: I,
    work: impl Fn(I::Item) -> R + Sync,
    mut consume: impl FnMut(R) -> Result<(), E>,
) -> Result<(), E>
where
    I: IntoIterator<IntoIter: Send>,
    R: Send,
{
    for_each_in_order_with(*PROCESSORS, items, work, &mut consume)
}

/// Like [`for_each_in_order`], on as many threads.
fn for_each_in_order_with<I, R, E>(
    threads: usize,
    items: I,
    work: impl Fn(I::Item) -> R + Sync,
    consume: &mut dyn FnMut(R) -> Result<(), E>,
) -> Result<(), E>
where
    I: IntoIterator<IntoIter: Send>,
    R: Send,
{
    let items = items.into_iter().enumerate();
    let threads = items.size_hint().1.map_or(threads, |count| threads.min(count));
    let items = Mutex::new(items);
    std::thread::scope(|scope| {
        let (sender, results) = bounded(threads * WAITING_RESULTS_PER_THREAD);
        let mut running = Vec::new();
        if threads > 1 {
            for _ in 0..threads {
                let (sender, items, work) = (sender.clone(), &items, &work);
                let worker = move || work_until_done(items, work, &sender);
                running.extend(std::thread::Builder::new().spawn_scoped(scope, worker));
            }
        }
        drop(sender);
        let consumed = if running.is_empty() {
            let mut items = items.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            items.try_for_each(|(_, item)| consume(work(item)))
        } else {
            consume_in_order(results, consume)
        };
        for thread in running {
            if let Err(payload) = thread.join() {
                std::panic::resume_unwind(payload);
            }
        }
        consumed
    })
}

/// Works on items until there are no more, or nobody wants the results.
fn work_until_done<T, R>(
    items: &Mutex<impl Iterator<Item = (usize, T)>>,
    work: impl Fn(T) -> R,
    results: &Sender<(usize, R)>,
) {
    loop {
        // A panic of the iterator ends its thread, and is passed on when that thread is joined.
        let next = items.lock().map_or(None, |mut items| items.next());
        let Some((index, item)) = next else { return };
        if results.send((index, work(item))).is_err() {
            return;
        }
    }
}

/// Consumes results by ascending index, from 0 on. The receiver is dropped at the end, also after
/// an error, which makes the threads that send results end.
fn consume_in_order<R, E>(
    results: Receiver<(usize, R)>,
    consume: &mut dyn FnMut(R) -> Result<(), E>,
) -> Result<(), E> {
    let (mut early, mut next) = (BTreeMap::new(), 0);
    for (index, result) in results {
        early.insert(index, result);
        while let Some(result) = early.remove(&next) {
            next += 1;
            consume(result)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::time::Duration;

    use super::*;

    /// Computes the squares of 0 to 99 on `threads` threads. The first ones take longest.
    fn squares(threads: usize) -> Vec<u64> {
        let mut squares = Vec::new();
        let square = |number: u64| {
            std::thread::sleep(Duration::from_micros(100 - number));
            number * number
        };
        let consumed: Result<(), Infallible> =
            for_each_in_order_with(threads, 0..100, square, &mut |square| {
                squares.push(square);
                Ok(())
            });
        consumed.unwrap();
        squares
    }

    #[test]
    fn results_come_in_order_on_any_number_of_threads() {
        let expected: Vec<_> = (0..100).map(|number| number * number).collect();
        for threads in [0, 1, 2, 7, 200] {
            assert_eq!(squares(threads), expected, "{threads} threads");
        }
        let none: Result<(), Infallible> = for_each_in_order([], |item: u8| item, |_| unreachable!());
        none.unwrap();
    }

    #[test]
    fn two_pieces_of_work_give_two_results() {
        let text = String::from("shared");
        let (own, other) = in_two_threads(|| text.len(), || text.clone());
        assert_eq!((own, other.as_str()), (6, "shared"));
        for side in [0, 1] {
            let panicked = primitives::catch_panic(|| {
                let fail = |fails: bool| assert!(!fails, "of the test");
                in_two_threads(|| fail(side == 0), || fail(side == 1))
            });
            assert!(panicked.unwrap_err().contains("of the test"));
        }
    }

    #[test]
    fn the_first_error_ends_the_work() {
        for threads in [1, 4] {
            let mut seen = Vec::new();
            // Without an end of the work this would never return.
            let result = for_each_in_order_with(threads, 0u64.., |number| number, &mut |number| {
                seen.push(number);
                if number < 10 { Ok(()) } else { Err(number) }
            });
            assert_eq!((result, seen.len()), (Err(10), 11));
        }
    }

    #[test]
    fn a_panic_of_the_work_is_passed_on() {
        let work = |number: u32| {
            if number == 50 {
                panic!("of the test")
            } else {
                number
            }
        };
        for threads in [1, 4] {
            let panicked = primitives::catch_panic(|| {
                for_each_in_order_with(threads, 0..100, work, &mut |_| Ok::<_, Infallible>(()))
            });
            assert_eq!(panicked.unwrap_err(), "of the test");
        }
    }
}
