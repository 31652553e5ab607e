//! The threads that wait for the chain: one checks blocks, one imports them, one follows the head
//! and the pool.

use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use chain::Chain;
use chain::chain::HeadEvent;
use crossbeam_channel::{Receiver, RecvTimeoutError};
use primitives::{Block, Transaction};

use super::core::{ChainJob, Core};
use crate::peers::{ChainAccess, ImportResult};
use crate::sync::SHORT_GAP_BLOCKS;

/// How often the pool is looked at.
const POOL_INTERVAL: Duration = Duration::from_millis(50);
/// New transactions that are told in one step.
const POOL_STEP_MAX: usize = 4096;
/// If more blocks than this become canonical at once, peers are told of the last one only.
const APPLIED_TOLD_MAX: usize = 8;

/// Checks or imports the blocks of `jobs` until the channel ends.
pub(super) fn work(core: &Weak<Core>, jobs: &Receiver<ChainJob>) {
    for job in jobs {
        let Some(core) = core.upgrade() else { return };
        match job {
            ChainJob::Check(hash, block) => {
                let result = core.chain.check(&block);
                core.with_hub(|hub, now| hub.checked(&hash, &result, now));
            }
            ChainJob::Import(hash, block) => {
                let number = block.header.number;
                let result = core.chain.import(*block);
                if result == ImportResult::Good {
                    tracing::debug!(number, %hash, "imported a block of a peer");
                }
                core.with_hub(|hub, now| hub.imported(&hash, &result, now));
            }
        }
    }
}

/// Starts a thread with a name.
pub(super) fn start(name: &str, run: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(run)
}

/// Tells the hub of new heads and new transactions, until the service ends.
pub(super) fn follow(core: &Weak<Core>, chain: &Chain, heads: &Receiver<Arc<HeadEvent>>) {
    let mut cursor = chain.pool().pending_cursor();
    loop {
        let event = match heads.recv_timeout(POOL_INTERVAL) {
            Ok(event) => Some(event),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        let Some(core) = core.upgrade() else { return };
        if let Some(event) = event {
            follow_head(&core, chain, &event);
        }
        let pending = chain.pool().pending_since(cursor, POOL_STEP_MAX);
        cursor = pending.cursor;
        let transaction = |hash| chain.pool().get(hash).map(|pooled| (*pooled.transaction).clone());
        let transactions: Vec<Transaction> = pending.hashes.iter().filter_map(transaction).collect();
        if !transactions.is_empty() {
            core.with_hub(|hub, _| hub.pool_has(&transactions));
        }
    }
}

fn follow_head(core: &Core, chain: &Chain, event: &HeadEvent) {
    let head = match ChainAccess::head(chain) {
        Ok(head) => head,
        Err(error) => {
            tracing::warn!(%error, "peers are not told of the head");
            return;
        }
    };
    core.with_hub(|hub, now| hub.head_moved(head, now));
    core.sync.head_moved();
    if core.sync_status.missing() > SHORT_GAP_BLOCKS {
        // Peers have had these blocks for long.
        return;
    }
    let told = event.applied.len().saturating_sub(APPLIED_TOLD_MAX);
    let told = if told > 0 { event.applied.len() - 1 } else { 0 };
    for id in &event.applied[told..] {
        if core.state.lock().hub.has_told(&id.hash) {
            continue;
        }
        let block = chain.view().and_then(|view| view.block_by_hash(&id.hash));
        match block {
            Ok(Some(stored)) => {
                let block = Block {
                    header: stored.record.header,
                    transactions: stored.body.transactions,
                    uncles: stored.body.uncles,
                };
                let total_difficulty = stored.record.total_difficulty;
                core.with_hub(|hub, _| hub.announce(&block, total_difficulty));
            }
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, number = id.number, "peers are not told of a block"),
        }
    }
}
