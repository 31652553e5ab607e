//! The threads that wait for the chain: some check blocks, one imports them, one follows the head
//! and the pool. Also starts threads and tasks.

use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use chain::Chain;
use chain::chain::HeadEvent;
use chain::import::BlockId;
use crossbeam_channel::{Receiver, select};
use metrics::histogram;
use primitives::{B256, Block, catch_panic};
use tokio::task::JoinHandle as TaskHandle;

use super::core::{ChainJob, Core};
use crate::peers::{BlockFault, ChainAccess, HashedTransaction, ImportResult};
use crate::sync::SHORT_GAP_BLOCKS;

/// The pool is looked at at this interval.
const POOL_INTERVAL: Duration = Duration::from_millis(50);
/// While a peer's transactions are being offered to the pool, the new ones are told in one step at
/// the end, but at the latest after this time.
const GATHER_MAX: Duration = Duration::from_secs(1);
/// New transactions that are told in one step.
const POOL_STEP_MAX: usize = 4096;
/// If more blocks than this become canonical at once, peers are told of the last one only.
const APPLIED_TOLD_MAX: usize = 8;

/// Checks or imports the blocks of `jobs` until the channel ends.
pub(super) fn work(core: &Weak<Core>, jobs: &Receiver<ChainJob>) {
    for job in jobs {
        let Some(core) = core.upgrade() else { return };
        match job {
            ChainJob::CheckHeader(from, hash, header) => {
                let result = checked(|| core.chain.check_header(&hash, &header));
                core.with_hub(|hub, now| hub.header_checked(from, &hash, result, now));
            }
            ChainJob::Check(from, hash, block) => {
                let begun = Instant::now();
                let result = checked(|| core.chain.check(&block));
                histogram!("vnode_block_check_seconds").record(begun.elapsed());
                core.with_hub(|hub, now| hub.checked(from, &hash, result, now));
            }
            ChainJob::Import(hash, block) => {
                let number = block.header.number;
                let begun = Instant::now();
                let result = core.chain.import(*block);
                histogram!("vnode_block_import_seconds").record(begun.elapsed());
                if result == ImportResult::Good {
                    tracing::debug!(number, %hash, "imported a block of a peer");
                }
                core.with_hub(|hub, now| hub.imported(&hash, &result, now));
            }
        }
    }
}

/// Runs a check. A panic must not end the thread, because the hub waits for the result.
fn checked<T>(check: impl FnOnce() -> Result<T, BlockFault>) -> Result<T, BlockFault> {
    catch_panic(check).unwrap_or_else(|panic| {
        tracing::error!(%panic, "a block of a peer cannot be checked");
        Err(BlockFault::NotNow(panic.to_string()))
    })
}

pub(super) fn start(name: &str, run: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(run)
}

/// The news of a chain that peers are told.
pub(super) struct ChainNews {
    pub(super) heads: Receiver<Arc<HeadEvent>>,
    /// Blocks that were sealed here and did not become the head.
    pub(super) sealed_sides: Receiver<BlockId>,
}

impl ChainNews {
    pub(super) fn of(chain: &Chain) -> Self {
        Self {
            heads: chain.subscribe(),
            sealed_sides: chain.subscribe_sealed_sides(),
        }
    }
}

/// Starts a task. The future is boxed, so that the runtime's code for a task is compiled once.
pub(super) fn start_task(task: impl Future<Output = ()> + Send + 'static) -> TaskHandle<()> {
    let task: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(task);
    tokio::spawn(task)
}

/// Tells the hub of new heads and new transactions, until the service ends.
pub(super) fn follow(core: &Weak<Core>, chain: &Chain, news: &ChainNews) {
    let Some(wakes) = core.upgrade().map(|core| core.told.wakes().clone()) else {
        return;
    };
    let mut cursor = chain.pool().pending_cursor();
    let mut told = Instant::now();
    loop {
        let mut side = None;
        let event = select! {
            recv(news.heads) -> event => match event {
                Ok(event) => Some(event),
                Err(_) => return,
            },
            recv(news.sealed_sides) -> block => {
                side = block.ok();
                None
            },
            recv(wakes) -> _ => None,
            default(POOL_INTERVAL) => None,
        };
        let Some(core) = core.upgrade() else { return };
        let is_awaited = core.told.is_awaited();
        if let Some(event) = event {
            follow_head(&core, chain, &event);
        }
        if let Some(BlockId { number, hash }) = side {
            tell(&core, chain, number, &hash);
        }
        let is_gathering = core.submissions.load(Ordering::Acquire) > 0;
        if is_gathering && !is_awaited && told.elapsed() < GATHER_MAX {
            continue;
        }
        told = Instant::now();
        let pending = chain.pool().pending_since(cursor, POOL_STEP_MAX);
        cursor = pending.cursor;
        let transaction = |hash| {
            let pooled = chain.pool().get(hash)?;
            Some(HashedTransaction {
                hash: pooled.hash,
                transaction: (*pooled.transaction).clone(),
            })
        };
        let transactions: Vec<_> = pending.hashes.iter().filter_map(transaction).collect();
        if !transactions.is_empty() {
            core.with_hub(|hub, _| hub.pool_has(&transactions));
        }
        if is_awaited {
            core.mark_told(cursor);
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
        // Most peers have had these blocks for long. At the end all are told of the head.
        core.has_untold_head.store(true, Ordering::Release);
        return;
    }
    let told = event.applied.len().saturating_sub(APPLIED_TOLD_MAX);
    let told = if told > 0 { event.applied.len() - 1 } else { 0 };
    for id in &event.applied[told..] {
        tell(core, chain, id.number, &id.hash);
    }
    core.with_hub(|hub, _| hub.announce_head());
}

/// Tells peers of the head, unless they were told already.
pub(super) fn tell_head(core: &Core, chain: &Chain) {
    match ChainAccess::head(chain) {
        Ok(head) => tell(core, chain, head.number, &head.hash),
        Err(error) => tracing::warn!(%error, "peers are not told of the head"),
    }
}

/// Tells peers of a stored block, unless they were told already.
fn tell(core: &Core, chain: &Chain, number: u64, hash: &B256) {
    if core.state.lock().hub.has_told(hash) {
        return;
    }
    let block = chain.view().and_then(|view| view.block_by_hash(hash));
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
        Err(error) => tracing::warn!(%error, number, "peers are not told of a block"),
    }
}
