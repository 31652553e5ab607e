//! Computing the state roots of a run's blocks on another thread, while the next blocks are
//! executed.
//!
//! The thread owns the tries for as long as it lives. It gets the changes of one block after the
//! other and answers each with its root. Nodes that are not in memory are read from a snapshot.
//! Knows tries and changes; what a wrong root means is for `open_state` to say.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};
use primitives::{B256, EMPTY_ROOT};
use store::{AccountWrite, Snapshot, StoreError};

use crate::parallel::has_processors;
use crate::trie::{ShareableNodes, StateTrie};

/// The most blocks whose roots are not computed yet.
pub(super) const BLOCKS_WITHOUT_ROOT_MAX: usize = 4;

/// The root of a block.
pub(super) struct ComputedRoot {
    /// The state root after the block.
    pub(super) root: Result<B256, StoreError>,
    /// The changes of the block, with the storage roots after it.
    pub(super) changes: Vec<AccountWrite>,
    /// The time that it took.
    pub(super) took: Duration,
    /// Memory that the tries take, in bytes, roughly.
    pub(super) trie_bytes: usize,
}

/// A thread that computes roots. Dropping it waits for the blocks that it was given.
pub(super) struct RootWorker {
    /// `None` when no more blocks are to come.
    changes: Option<Sender<Vec<AccountWrite>>>,
    roots: Receiver<ComputedRoot>,
    thread: Option<JoinHandle<StateTrie>>,
}

impl std::fmt::Debug for RootWorker {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("RootWorker").finish_non_exhaustive()
    }
}

impl RootWorker {
    /// Starts the thread. Tries read nodes from `nodes` that are not in memory.
    ///
    /// # Errors
    /// The tries, if there is one processor only or the system gives no thread.
    pub(super) fn start(nodes: Arc<Snapshot>, trie: StateTrie) -> Result<Self, Box<StateTrie>> {
        if !has_processors() {
            return Err(Box::new(trie));
        }
        let (changes, to_do) = bounded(BLOCKS_WITHOUT_ROOT_MAX + 1);
        let (done, roots) = bounded(BLOCKS_WITHOUT_ROOT_MAX + 1);
        // The tries must not be lost with a thread that does not start.
        let (give, taken) = bounded(1);
        let spawned = std::thread::Builder::new()
            .name("state-roots".to_owned())
            .spawn(move || {
                let mut trie = taken.recv().unwrap_or_else(|_| StateTrie::new(EMPTY_ROOT));
                work(&nodes, &mut trie, &to_do, &done);
                trie
            });
        match spawned {
            Ok(thread) => {
                // The thread waits for them, so this cannot fail.
                let _ = give.send(trie);
                Ok(Self {
                    changes: Some(changes),
                    roots,
                    thread: Some(thread),
                })
            }
            Err(_) => Err(Box::new(trie)),
        }
    }

    /// Gives the thread the changes of the next block. Waits if it has too many.
    pub(super) fn send(&self, changes: Vec<AccountWrite>) {
        if let Some(sender) = &self.changes {
            // Fails only if the thread has panicked, which `wait` finds out.
            let _ = sender.send(changes);
        }
    }

    /// The root of the oldest block that has not been asked for, if it is there.
    pub(super) fn poll(&self) -> Option<ComputedRoot> {
        self.roots.try_recv().ok()
    }

    /// The root of the oldest block that has not been asked for. There must be one.
    ///
    /// # Panics
    /// If the thread has panicked, with the same payload.
    pub(super) fn wait(&mut self) -> Option<ComputedRoot> {
        let root = self.roots.recv().ok();
        if root.is_none() {
            self.end();
        }
        root
    }

    /// Ends the thread and gives the tries back.
    ///
    /// # Panics
    /// If the thread has panicked, with the same payload.
    pub(super) fn end(&mut self) -> Option<StateTrie> {
        self.changes = None;
        let thread = self.thread.take()?;
        match thread.join() {
            Ok(trie) => Some(trie),
            Err(payload) => std::panic::resume_unwind(payload),
        }
    }
}

impl Drop for RootWorker {
    fn drop(&mut self) {
        self.changes = None;
        if let Some(thread) = self.thread.take() {
            // After a panic there is nothing that still needs it.
            let _ = thread.join();
        }
    }
}

/// Computes roots until there are no more changes, or nobody wants the roots.
fn work(
    nodes: &Arc<Snapshot>,
    trie: &mut StateTrie,
    to_do: &Receiver<Vec<AccountWrite>>,
    done: &Sender<ComputedRoot>,
) {
    let nodes = ShareableNodes {
        source: &**nodes,
        snapshot: Some(nodes),
    };
    for mut changes in to_do {
        let started = Instant::now();
        let root = trie.apply(&nodes, &mut changes);
        let failed = root.is_err();
        let computed = ComputedRoot {
            root,
            changes,
            took: started.elapsed(),
            trie_bytes: trie.memory_bytes(),
        };
        // After an error the tries have some of the changes, so they are of no use any more.
        if done.send(computed).is_err() || failed {
            return;
        }
    }
}
