//! The ways to import: a stream as in `vnode import`, blocks that were checked before, single
//! blocks.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use bench::Failure;
use bench::clock::{Clock, Took};
use chain::import::stream_import::import_stream;
use chain::import::{Imported, Importer, RunCost};
use chain::rules::body::{senders as recover_senders, transactions_root};
use chain::rules::seal::SealCheck;
use ethash::LightCaches;
use primitives::{Address, Block};
use store::BlockReads;

use crate::workload::{Workload, open};

/// Longest duration of a run, as in an import of a stream.
const RUN_TIME: Duration = Duration::from_secs(2);

/// Recovers the senders of block `index`.
pub(crate) fn recover(workload: &Workload, index: usize) -> Result<Vec<Address>, Failure> {
    let block = &workload.blocks[index];
    let number = block.header.number;
    Ok(recover_senders(&workload.spec, number, &block.transactions)?)
}

/// Recovers the senders of all blocks.
pub(crate) fn senders(workload: &Workload) -> Result<Vec<Vec<Address>>, Failure> {
    (0..workload.blocks.len())
        .map(|index| recover(workload, index))
        .collect()
}

/// Imports the whole stream, as `vnode import` does.
pub(crate) fn stream(workload: &Workload, caches: Option<&LightCaches>) -> Result<Took, Failure> {
    let directory = workload.directory()?;
    let store = open(directory.path())?;
    let seals = caches.map_or(SealCheck::Off, |caches| SealCheck::Ethash(caches.clone()));
    let importer = Importer::new(store, workload.spec.clone(), seals);
    let bytes: Vec<u8> = workload.blocks.iter().flat_map(Block::encode).collect();
    let input = Box::new(std::io::Cursor::new(bytes));
    let clock = Clock::start();
    import_stream(&importer, input, &AtomicBool::new(false), |_| ())?;
    let took = clock.stop();
    check_head(&importer, workload)?;
    Ok(took)
}

/// Imports the blocks one by one, with one commit each, as blocks from peers and miners arrive.
pub(crate) fn single(workload: &Workload) -> Result<Took, Failure> {
    let directory = workload.directory()?;
    let importer = Importer::new(open(directory.path())?, workload.spec.clone(), SealCheck::Off);
    let clock = Clock::start();
    for block in &workload.blocks {
        let imported = importer.import(block, None)?;
        if !matches!(imported, Imported::Head { .. }) {
            return Err("a block did not become the head".into());
        }
    }
    let took = clock.stop();
    check_head(&importer, workload)?;
    Ok(took)
}

/// The costs of the runs of an import.
#[derive(Default)]
pub(crate) struct ImportCosts(Vec<RunCost>);

/// Imports blocks whose seals and bodies were checked before the clock started.
pub(crate) fn prepared(workload: &Workload) -> Result<(Took, ImportCosts), Failure> {
    let directory = workload.directory()?;
    let importer = Importer::new(open(directory.path())?, workload.spec.clone(), SealCheck::Off);
    let view = importer.store().snapshot()?;
    let prepare = |block: &Block| {
        let parent = block.header.number.checked_sub(1);
        Arc::new(importer.prepare(&view, block.clone(), parent))
    };
    let mut blocks: VecDeque<_> = workload.blocks.iter().map(prepare).collect();
    drop(view);
    let mut costs = ImportCosts::default();
    let clock = Clock::start();
    while !blocks.is_empty() {
        let run = Instant::now();
        let mut next = || (run.elapsed() < RUN_TIME).then(|| blocks.pop_front()).flatten();
        costs.0.push(importer.import_run(None, &mut next)?.cost);
    }
    let took = clock.stop();
    check_head(&importer, workload)?;
    Ok((took, costs))
}

impl ImportCosts {
    /// Prints the parts of the time of the last round, and the time of the checks before it.
    pub(crate) fn print(&self, workload: &Workload, caches: &LightCaches) -> Result<(), Failure> {
        let sum = |part: fn(&RunCost) -> Duration| self.0.iter().map(part).sum::<Duration>();
        let line = |name: &str, time: Duration| {
            let milliseconds = time.as_secs_f64() * 1e3;
            let each = time.as_secs_f64() * 1e6 / workload.transactions as f64;
            println!("    {name:<30} {milliseconds:>9.1} {each:>10.2} us/tx");
        };
        println!("  parts of the import, checked ahead ({} commits):", self.0.len());
        line("execution", sum(|cost| cost.execute));
        line("receipts roots, waiting", sum(|cost| cost.roots));
        line("state roots, beside", sum(|cost| cost.roots_beside));
        line("rules, rows", sum(|cost| cost.rows));
        line("ordered rows, trie, commit", sum(|cost| cost.commit));
        let nodes = |part: fn(&RunCost) -> u64| {
            self.0.iter().map(part).sum::<u64>() as f64 / workload.blocks.len() as f64
        };
        println!(
            "    trie nodes a block: {:.0} read, {:.0} hashed, {:.0} written",
            nodes(|cost| cost.trie.read),
            nodes(|cost| cost.trie.hashed),
            nodes(|cost| cost.trie.written)
        );
        println!("  parts that are done ahead:");
        let timed = |name: &str, work: &mut dyn FnMut() -> Result<(), Failure>| {
            let started = Instant::now();
            work()?;
            line(name, started.elapsed());
            Ok::<(), Failure>(())
        };
        timed("seals, one thread", &mut || {
            let seals = SealCheck::Ethash(caches.clone());
            let mut headers = workload.blocks.iter().map(|block| &block.header);
            headers.try_for_each(|header| Ok(seals.check_seal(&workload.spec, header)?))
        })?;
        timed("transactions roots, one thread", &mut || {
            workload.blocks.iter().for_each(|block| {
                std::hint::black_box(transactions_root(&block.transactions));
            });
            Ok(())
        })?;
        timed("senders, all threads", &mut || senders(workload).map(drop))
    }
}

/// Checks that the last block is the head; otherwise the time means nothing.
fn check_head(importer: &Importer, workload: &Workload) -> Result<(), Failure> {
    let head = importer.store().snapshot()?.head()?.ok_or("no head")?;
    match workload.blocks.last() {
        Some(last) if last.hash() == head.1 => Ok(()),
        _ => Err(format!(
            "head: got block {}, expected the last block of the workload",
            head.0
        )
        .into()),
    }
}
