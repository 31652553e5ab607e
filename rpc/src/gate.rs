//! Gates: how many calls of a kind run at the same time, and whose turn it is. Long answers that
//! are compressed wait at a gate too.
//!
//! A call that finds no permit waits. Permits go round: first among the clients, then among the
//! methods that a client waits for, then among the connections that call the method. So a client
//! with a thousand calls delays another one by one call, and a flood of one method from behind a
//! proxy does not keep the other methods of the same address waiting. A place to wait is given back
//! when the waiting ends in any way.
//!
//! The places to wait are no `Quota`: one is taken back from the client of which the most calls
//! wait, so nothing has to be left over for clients that come later.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use daemon::{ClientId, percent_of};
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use crate::caller::RpcCaller;

/// A gate. Clones are the same gate.
#[derive(Clone)]
pub(crate) struct Gate(Arc<Mutex<GateState>>);

struct GateState {
    free: usize,
    /// The most calls that wait.
    waiting_max: usize,
    /// The most calls of one client that wait.
    client_max: usize,
    waiting: usize,
    waiting_of: HashMap<ClientId, usize>,
    line: Round<ClientId, Round<&'static str, Round<u64, VecDeque<Waiter>>>>,
}

/// A call that waits.
struct Waiter {
    /// Tells the call that it has a permit. Dropped without a word if the call must leave.
    permit: oneshot::Sender<()>,
}

/// The right to run. Dropping it gives it to the next call.
pub(crate) struct Permit(Gate);

/// The reason why a call gets no permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GateError {
    /// As many calls wait as may wait.
    Full,
    /// As many calls of the client wait as may wait.
    ClientFull {
        /// The most calls of a client that may wait.
        max: usize,
    },
    /// No permit was free in time.
    Late,
}

/// Something that waiters stand in.
trait Line: Default {
    /// The names of the lines on the way to a waiter.
    type Path: Copy;

    fn push(&mut self, path: Self::Path, waiter: Waiter);

    /// The waiter whose turn it is.
    fn pop(&mut self) -> Option<Waiter>;

    /// Removes the waiters on `path` that do not wait any more.
    fn remove_gone(&mut self, path: Self::Path);

    fn is_empty(&self) -> bool;
}

impl Line for VecDeque<Waiter> {
    type Path = ();

    fn push(&mut self, (): (), waiter: Waiter) {
        self.push_back(waiter);
    }

    fn pop(&mut self) -> Option<Waiter> {
        self.pop_front()
    }

    fn remove_gone(&mut self, (): ()) {
        self.retain(|waiter| !waiter.permit.is_closed());
    }

    fn is_empty(&self) -> bool {
        Self::is_empty(self)
    }
}

/// Lines that take turns. None of them is empty. The next turn is that of the first.
struct Round<K, L>(VecDeque<(K, L)>);

impl<K, L> Default for Round<K, L> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<K: PartialEq, L: Line> Round<K, L> {
    /// Takes a waiter of this line, without regard to turns.
    fn pop_of(&mut self, key: K) -> Option<Waiter> {
        let (_, line) = self.0.iter_mut().find(|(other, _)| *other == key)?;
        let waiter = line.pop();
        self.0.retain(|(_, line)| !line.is_empty());
        waiter
    }
}

impl<K: Copy + PartialEq, L: Line> Line for Round<K, L> {
    type Path = (K, L::Path);

    fn push(&mut self, (key, path): Self::Path, waiter: Waiter) {
        let known = self.0.iter_mut().find(|(other, _)| *other == key);
        match known {
            Some((_, line)) => line.push(path, waiter),
            None => {
                let mut line = L::default();
                line.push(path, waiter);
                self.0.push_back((key, line));
            }
        }
    }

    fn pop(&mut self) -> Option<Waiter> {
        let (key, mut line) = self.0.pop_front()?;
        let waiter = line.pop();
        if !line.is_empty() {
            self.0.push_back((key, line));
        }
        waiter
    }

    fn remove_gone(&mut self, (key, path): Self::Path) {
        self.0.retain_mut(|(other, line)| {
            if *other == key {
                line.remove_gone(path);
            }
            !line.is_empty()
        });
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Client, method and connection of a call that waits.
type WaitingPath = (ClientId, (&'static str, (u64, ())));

/// The place of a call that waits. Dropping it gives the place back.
struct WaitingPlace<'g> {
    gate: &'g Gate,
    path: WaitingPath,
    permit: oneshot::Receiver<()>,
}

impl Drop for WaitingPlace<'_> {
    fn drop(&mut self) {
        self.permit.close();
        // A permit that came at the last moment goes on to the next call.
        let unused = self.permit.try_recv().map(|()| Permit(self.gate.clone()));
        let mut state = self.gate.0.lock();
        state.line.remove_gone(self.path);
        state.waiting -= 1;
        let client = self.path.0;
        if let Some(count) = state.waiting_of.get_mut(&client) {
            *count -= 1;
            if *count == 0 {
                state.waiting_of.remove(&client);
            }
        }
        drop(state);
        drop(unused);
    }
}

impl Gate {
    /// A gate with `permits` permits. At most `waiting_max` calls wait, of them at most
    /// `share_percent` of one client.
    pub(crate) fn new(permits: usize, waiting_max: usize, share_percent: usize) -> Self {
        Self(Arc::new(Mutex::new(GateState {
            free: permits,
            waiting_max,
            client_max: percent_of(waiting_max, share_percent).max(1),
            waiting: 0,
            waiting_of: HashMap::new(),
            line: Round::default(),
        })))
    }

    /// Waits for a permit to run `method` for `caller`, until `deadline` at most.
    ///
    /// # Errors
    /// [`GateError`] if there is no place to wait, or the time is over.
    pub(crate) async fn acquire(
        &self,
        caller: &RpcCaller,
        method: &'static str,
        deadline: Instant,
    ) -> Result<Permit, GateError> {
        let mut place = match self.enter(caller, method)? {
            Ok(permit) => return Ok(permit),
            Err(place) => place,
        };
        match timeout_at(deadline, &mut place.permit).await {
            Ok(Ok(())) => Ok(Permit(self.clone())),
            Ok(Err(_)) => Err(GateError::Full),
            Err(_) => Err(GateError::Late),
        }
    }

    /// Takes a free permit, or a place to wait.
    fn enter(
        &self,
        caller: &RpcCaller,
        method: &'static str,
    ) -> Result<Result<Permit, WaitingPlace<'_>>, GateError> {
        let client = caller.client;
        let mut state = self.0.lock();
        if state.free > 0 {
            state.free -= 1;
            return Ok(Ok(Permit(self.clone())));
        }
        let of_client = state.waiting_of.get(&client).copied().unwrap_or_default();
        if of_client >= state.client_max {
            return Err(GateError::ClientFull {
                max: state.client_max,
            });
        }
        if state.waiting >= state.waiting_max {
            state.make_place(of_client)?;
        }
        *state.waiting_of.entry(client).or_default() += 1;
        state.waiting += 1;
        let path = (client, (method, (caller.connection, ())));
        let (sender, permit) = oneshot::channel();
        state.line.push(path, Waiter { permit: sender });
        Ok(Err(WaitingPlace {
            gate: self,
            path,
            permit,
        }))
    }

    /// Whether calls wait for a permit.
    pub(crate) fn has_waiting(&self) -> bool {
        !self.0.lock().line.is_empty()
    }
}

impl GateState {
    /// Makes place for a call of a client of which `count` calls wait: the client of which the most
    /// calls wait loses one.
    ///
    /// # Errors
    /// [`GateError::Full`] if no client has clearly more.
    fn make_place(&mut self, count: usize) -> Result<(), GateError> {
        let most = self.waiting_of.iter().max_by_key(|(_, count)| **count);
        match most {
            Some((client, most)) if *most > count + 1 => {
                // Dropping the waiter tells its call.
                self.line.pop_of(*client);
                Ok(())
            }
            _ => Err(GateError::Full),
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        loop {
            let mut state = self.0.0.lock();
            let Some(waiter) = state.line.pop() else {
                state.free += 1;
                return;
            };
            drop(state);
            // Sending fails if the call does not wait any more.
            if waiter.permit.send(()).is_ok() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::task::JoinHandle;

    use super::*;
    use crate::caller::remote_client;
    use crate::traffic::TrafficMemory;

    const PATIENCE: Duration = Duration::from_secs(20);

    fn caller(address: u8, connection: u64) -> RpcCaller {
        let traffic = TrafficMemory::new(0, 100);
        RpcCaller {
            connection,
            ..RpcCaller::remote(remote_client(address), &traffic)
        }
    }

    /// Waits at the gate. Calls stand in line in the order in which they are made.
    async fn wait(
        gate: &Gate,
        caller: RpcCaller,
        method: &'static str,
    ) -> JoinHandle<Result<Permit, GateError>> {
        let own = gate.clone();
        let call = tokio::spawn(async move {
            let deadline = Instant::now() + PATIENCE;
            own.acquire(&caller, method, deadline).await
        });
        // The runtime has one thread, so the call has its turn meanwhile.
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        call
    }

    async fn permit(gate: &Gate) -> Permit {
        let permit = wait(gate, caller(99, 99), "m").await.await;
        permit
            .expect("no panic")
            .unwrap_or_else(|error| panic!("{error:?}"))
    }

    fn counts(gate: &Gate) -> (usize, usize, usize) {
        let state = gate.0.lock();
        assert_eq!(state.waiting_of.values().sum::<usize>(), state.waiting);
        assert_eq!(state.line.is_empty(), state.waiting == 0);
        (state.free, state.waiting, state.waiting_of.len())
    }

    /// Lets calls with these names pass one by one, and returns the names in their order.
    async fn order(gate: &Gate, calls: Vec<(&'static str, RpcCaller, &'static str)>) -> Vec<&'static str> {
        let first = permit(gate).await;
        let passed = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = Vec::new();
        for (name, caller, method) in calls {
            let call = wait(gate, caller, method).await;
            let passed = Arc::clone(&passed);
            tasks.push(tokio::spawn(async move {
                let permit = call.await.expect("no panic").expect("a permit");
                passed.lock().push(name);
                drop(permit);
            }));
        }
        drop(first);
        for task in tasks {
            task.await.expect("no panic");
        }
        assert_eq!(counts(gate), (1, 0, 0));
        passed.lock().clone()
    }

    #[tokio::test]
    async fn permits_go_round_among_clients_methods_and_connections() {
        let gate = Gate::new(1, 100, 100);
        let flood = || (0..4).map(|call| ("flood", caller(1, call), "mc_call"));
        let calls: Vec<_> = flood().chain([("other", caller(2, 9), "mc_call")]).collect();
        let passed = order(&gate, calls).await;
        assert_eq!(passed, ["flood", "other", "flood", "flood", "flood"]);
        let calls: Vec<_> = flood().chain([("other", caller(1, 9), "mc_getLogs")]).collect();
        let passed = order(&gate, calls).await;
        assert_eq!(passed, ["flood", "other", "flood", "flood", "flood"]);
        let flood = (0..4).map(|_| ("flood", caller(1, 0), "mc_call"));
        let calls: Vec<_> = flood.chain([("other", caller(1, 9), "mc_call")]).collect();
        let passed = order(&gate, calls).await;
        assert_eq!(passed, ["flood", "other", "flood", "flood", "flood"]);
    }

    #[tokio::test]
    async fn places_to_wait_are_bounded_for_each_client_and_for_all() {
        let gate = Gate::new(1, 4, 50);
        let first = permit(&gate).await;
        let mut waiting = Vec::new();
        for (address, count) in [(1, 3), (2, 1), (3, 1), (4, 1)] {
            for call in 0..count {
                waiting.push(wait(&gate, caller(address, call), "m").await);
            }
        }
        let refused = |call: JoinHandle<Result<Permit, _>>| async { call.await.expect("no panic").err() };
        assert_eq!(
            refused(waiting.remove(2)).await,
            Some(GateError::ClientFull { max: 2 })
        );
        assert_eq!(
            refused(waiting.remove(0)).await,
            Some(GateError::Full),
            "the client with the most places gives one to a client with none"
        );
        assert_eq!(counts(&gate), (0, 4, 4));
        let full = gate.acquire(&caller(3, 2), "m", Instant::now()).await;
        assert_eq!(full.err(), Some(GateError::Full));
        drop(first);
        for call in waiting {
            assert!(call.await.expect("no panic").is_ok());
        }
        assert_eq!(counts(&gate), (1, 0, 0));
    }

    #[tokio::test]
    async fn calls_that_end_while_they_wait_leave_nothing_behind() {
        let gate = Gate::new(1, 4, 100);
        let first = permit(&gate).await;
        for _ in 0..20 {
            let abandoned = wait(&gate, caller(1, 1), "m").await;
            abandoned.abort();
            assert!(abandoned.await.is_err());
            assert_eq!(counts(&gate), (0, 0, 0));
        }
        let late = gate.acquire(&caller(1, 1), "m", Instant::now()).await;
        assert_eq!(late.err(), Some(GateError::Late));
        let next = wait(&gate, caller(1, 2), "m").await;
        assert_eq!(counts(&gate), (0, 1, 1));
        drop(first);
        drop(next.await.expect("no panic").expect("a permit"));
        assert_eq!(counts(&gate), (1, 0, 0));
    }

    #[tokio::test]
    async fn a_permit_that_comes_too_late_goes_on() {
        let gate = Gate::new(1, 4, 100);
        let first = permit(&gate).await;
        let Ok(Err(place)) = gate.enter(&caller(1, 1), "m") else {
            panic!("expected a place to wait")
        };
        drop(first);
        assert_eq!(gate.0.lock().free, 0, "the permit is on its way to the place");
        drop(place);
        assert_eq!(counts(&gate), (1, 0, 0));
    }
}
