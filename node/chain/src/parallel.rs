//! Work on all processors, with results in order, and two pieces of work at a time.

use std::num::NonZero;
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError};

/// Results that may wait to be consumed, for each thread. A thread that is further ahead waits.
const WAITING_RESULTS_PER_THREAD: usize = 8;

/// Number of processors. Asking the system takes longer than a small piece of work.
static PROCESSORS: LazyLock<usize> =
    LazyLock::new(|| std::thread::available_parallelism().map_or(1, NonZero::get));

/// Whether a second thread has a processor of its own.
pub(crate) fn has_processors() -> bool {
    *PROCESSORS > 1
}

/// The number of processors.
pub(crate) fn processors() -> usize {
    *PROCESSORS
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
    let turns = Turns::new(threads, threads * WAITING_RESULTS_PER_THREAD);
    let results: Vec<_> = (0..turns.places).map(|_| Mutex::new(None)).collect();
    std::thread::scope(|scope| {
        let mut running = Vec::new();
        if threads > 1 {
            for _ in 0..threads {
                let worker = || work_until_done(&items, &work, &turns, &results);
                match std::thread::Builder::new().spawn_scoped(scope, worker) {
                    Ok(thread) => running.push(thread),
                    Err(_) => turns.thread_ends(false),
                }
            }
        }
        let consumed = if running.is_empty() {
            lock(&items).try_for_each(|(_, item)| consume(work(item)))
        } else {
            consume_in_order(&turns, &results, consume)
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
    turns: &Turns,
    results: &[Mutex<Option<R>>],
) {
    let _end = ThreadEnd(turns);
    loop {
        // A panic of the iterator ends its thread, and is passed on when that thread is joined.
        let next = items.lock().map_or(None, |mut items| items.next());
        let Some((index, item)) = next else { return };
        let result = work(item);
        let Some(place) = turns.wait_for_place(index) else {
            return;
        };
        *lock(&results[place]) = Some(result);
        turns.fill(place);
    }
}

/// Consumes results by ascending index, from 0 on. At the end, also after an error, the threads are
/// told to end.
fn consume_in_order<R, E>(
    turns: &Turns,
    results: &[Mutex<Option<R>>],
    consume: &mut dyn FnMut(R) -> Result<(), E>,
) -> Result<(), E> {
    let _end = ConsumerEnd(turns);
    while let Some(place) = turns.wait_for_result() {
        let result = lock(&results[place]).take();
        turns.free(place);
        if let Some(result) = result {
            consume(result)?;
        }
    }
    Ok(())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The order in which results are consumed. Does not know the results, so it is compiled once.
struct Turns {
    /// The number of results that may wait. Result N waits at the place N modulo this number.
    places: usize,
    state: Mutex<TurnState>,
    changed: Condvar,
}

struct TurnState {
    /// The index of the result that is consumed next.
    next: usize,
    /// Whether there is a result at each place.
    filled: Vec<bool>,
    /// The number of threads that work.
    threads: usize,
    /// Nobody wants further results.
    ended: bool,
}

impl Turns {
    fn new(threads: usize, places: usize) -> Self {
        Self {
            places,
            state: Mutex::new(TurnState {
                next: 0,
                filled: vec![false; places],
                threads,
                ended: false,
            }),
            changed: Condvar::new(),
        }
    }

    /// Waits until the result `index` has a place; `None` if nobody wants it any more.
    fn wait_for_place(&self, index: usize) -> Option<usize> {
        let must_wait = |state: &mut TurnState| !state.ended && index >= state.next + self.places;
        let state = self.changed.wait_while(lock(&self.state), must_wait);
        let state = state.unwrap_or_else(PoisonError::into_inner);
        (!state.ended).then_some(index % self.places)
    }

    fn fill(&self, place: usize) {
        lock(&self.state).filled[place] = true;
        self.changed.notify_all();
    }

    /// Waits for the next result and returns its place; `None` if all threads have ended without
    /// it.
    fn wait_for_result(&self) -> Option<usize> {
        let must_wait = |state: &mut TurnState| {
            !state.filled[state.next % self.places] && state.threads > 0 && !state.ended
        };
        let state = self.changed.wait_while(lock(&self.state), must_wait);
        let state = state.unwrap_or_else(PoisonError::into_inner);
        let place = state.next % self.places;
        state.filled[place].then_some(place)
    }

    /// Gives the place of the next result to a later one.
    fn free(&self, place: usize) {
        let mut state = lock(&self.state);
        state.filled[place] = false;
        state.next += 1;
        drop(state);
        self.changed.notify_all();
    }

    /// Notes that a thread ends. After a panic no further results are wanted.
    fn thread_ends(&self, panicked: bool) {
        let mut state = lock(&self.state);
        state.threads -= 1;
        state.ended |= panicked;
        drop(state);
        self.changed.notify_all();
    }
}

/// Notes the end of a thread, by a panic, too.
struct ThreadEnd<'a>(&'a Turns);

impl Drop for ThreadEnd<'_> {
    fn drop(&mut self) {
        self.0.thread_ends(std::thread::panicking());
    }
}

/// Tells the threads that nobody consumes results any more.
struct ConsumerEnd<'a>(&'a Turns);

impl Drop for ConsumerEnd<'_> {
    fn drop(&mut self) {
        lock(&self.0.state).ended = true;
        self.0.changed.notify_all();
    }
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
            assert!(panicked.unwrap_err().to_string().contains("of the test"));
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
            assert_eq!(panicked.unwrap_err(), "of the test".into());
        }
    }
}
