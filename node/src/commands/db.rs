//! `vnode db check` looks for faults in the database; `vnode db stats` shows its size; `vnode db
//! prune` removes past states; `vnode db compact` makes the file smaller.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::Ordering;

use chain::View;
use chain::check::{CheckEvent, CheckSummary, check_store};
use chain::import::{Importer, RECENT_STATES_DEFAULT, StateRetention};
use chain::rules::seal::SealCheck;
use chain::upkeep::DatabaseSize;
use history::AddressIndex;
use rpc::{DatabaseStats, HeadName, TableSize};
use store::{BLOCKS_FILE_NAME, FILE_NAME, HorizonReads, LOG_FILE_NAME, Store, StoreOptions};

use super::error::CommandError;
use super::running::OpenedChain;
use super::stop_flag::stop_flag;
use crate::progress::{CommandProgress, ProgressUnits};

use crate::data_directory::{DataDirectory, DataDirectoryError, OpenPurpose};
use crate::options::VnodeOptions;
use crate::output::print_line;

/// Checks everything that is stored, and prints a line for each fault.
pub(super) fn check(options: &VnodeOptions, full: bool) -> Result<(), CommandError> {
    let directory = DataDirectory::open(options, OpenPurpose::Check)?;
    let stop = stop_flag()?;
    let mut progress = CommandProgress::new(options, "check", ProgressUnits::Items, 0);
    let result = check_store(
        &directory.store,
        &directory.spec,
        full,
        &stop,
        &mut |event| match event {
            CheckEvent::Fault(fault) => progress.suspend(|| print_line(&fault.to_string())),
            CheckEvent::Progress { what, done, total } => {
                progress.set_phase(what, total);
                progress.update(done, || format!("{what}: {done} done"));
            }
        },
    );
    let seconds = progress.finish();
    let CheckSummary {
        blocks,
        side_blocks,
        bare_headers,
        transactions,
        accounts,
        slots,
        codes,
        trie_nodes,
        faults,
    } = result?;
    let faults = faults + check_index(&directory)?;
    print_line(&format!(
        "checked {blocks} blocks, {side_blocks} side blocks, {bare_headers} headers without bodies, {transactions} transactions, {accounts} accounts, {slots} slots, {codes} codes, {trie_nodes} trie nodes{} in {seconds:.2} s: {}",
        if full { ", the state of every block" } else { "" },
        if faults == 0 {
            "no faults".to_owned()
        } else {
            format!("{faults} faults")
        }
    ));
    if faults == 0 {
        Ok(())
    } else {
        Err(CommandError::Faults(faults))
    }
}

/// Checks the index by address, if there is one. Returns the number of faults, each of which it has
/// printed.
fn check_index(directory: &DataDirectory) -> Result<u64, CommandError> {
    let view = View::new(&directory.store, directory.spec.clone())?;
    let genesis = view.canonical_hash(0)?.unwrap_or_default();
    let Some(index) = AddressIndex::open_existing(&directory.path, genesis)? else {
        return Ok(0);
    };
    let faults = history::check(&view, &index)?;
    for fault in &faults {
        print_line(&format!("index by address: {fault}"));
    }
    print_line(&format!(
        "checked the index by address of {} blocks",
        index.read()?.next()
    ));
    Ok(faults.len() as u64)
}

/// Lists the tables with their rows and bytes, those of the running node if there is one.
pub(super) fn stats(options: &VnodeOptions) -> Result<(), CommandError> {
    let (path, stats) = match OpenedChain::open(options)? {
        OpenedChain::Here { path, store } => {
            (path, DatabaseStats::from(DatabaseSize::of(&*store.snapshot()?)?))
        }
        OpenedChain::Running(mut node) => {
            let stats = node.ask("admin_databaseStats", &[])?;
            (node.path, stats)
        }
    };
    print_line(&format!(
        "{:<24} {:>14} {:>18} {:>18}",
        "table", "rows", "bytes", "on pages"
    ));
    let all = |figure: fn(&TableSize) -> u64| stats.tables.iter().map(figure).sum();
    let all = TableSize {
        name: "all".to_owned(),
        rows: all(|table| table.rows),
        bytes: all(|table| table.bytes),
        page_bytes: all(|table| table.page_bytes),
    };
    for table in stats.tables.iter().chain([&all]) {
        print_line(&format!(
            "{:<24} {:>14} {:>18} {:>18}",
            table.name, table.rows, table.bytes, table.page_bytes
        ));
    }
    for file in [FILE_NAME, LOG_FILE_NAME, BLOCKS_FILE_NAME].map(|name| path.join(name)) {
        print_line(&format!(
            "file {} of {} bytes",
            file.display(),
            file_bytes(&file)?
        ));
    }
    print_line(&format!(
        "about {} bytes of {FILE_NAME} are unused: `vnode db compact` gives them back",
        file_bytes(&path.join(FILE_NAME))?.saturating_sub(all.page_bytes)
    ));
    print_line(&format!("{} blocks in {BLOCKS_FILE_NAME}", stats.old_blocks));
    print_line(&match stats.first_state {
        None => "states of all blocks (archive)".to_owned(),
        Some(block) => format!("states from block {block} on (recent)"),
    });
    match stats.head {
        Some(HeadName { number, hash }) => print_line(&format!("head block {number} {hash}")),
        None => print_line("no chain"),
    }
    Ok(())
}

/// Removes past states, and prints which are kept.
pub(super) fn prune(options: &VnodeOptions) -> Result<(), CommandError> {
    let directory = DataDirectory::open(options, OpenPurpose::Read)?;
    let stop = stop_flag()?;
    let states = options.state.unwrap_or(StateRetention::Recent {
        blocks: RECENT_STATES_DEFAULT,
    });
    let seals = SealCheck::Off;
    let importer = Importer::new(directory.store.clone(), directory.spec.clone(), seals).keeping(states);
    let mut progress = CommandProgress::new(options, "prune", ProgressUnits::Items, 0);
    let result = importer.prune(&stop, |now| {
        progress.set_phase("prune", now.total);
        progress.update(now.done, || format!("{} blocks done", now.done));
    });
    let seconds = progress.finish();
    let is_done = result?;
    let horizon = directory.store.snapshot()?.state_horizon()?;
    print_line(&format!(
        "pruned in {seconds:.2} s: states from block {} on are kept; `vnode db compact` makes the file smaller",
        horizon.block
    ));
    if is_done {
        Ok(())
    } else {
        Err(CommandError::Unfinished)
    }
}

/// Copies the database into a file without unused space, which takes its place.
pub(super) fn compact(options: &VnodeOptions) -> Result<(), CommandError> {
    let path = options.data_directory()?;
    let file = path.join(FILE_NAME);
    if !file.exists() {
        return Err(DataDirectoryError::NoChain { path }.into());
    }
    let before = file_bytes(&file)?;
    let store_options = StoreOptions {
        cache_bytes: options.cache << 20,
        ..StoreOptions::default()
    };
    let stop = stop_flag()?;
    let mut progress = CommandProgress::new(options, "compact", ProgressUnits::Items, 0);
    Store::compact(&path, &store_options, &mut |done| {
        progress.set_phase("compact", done.rows_total);
        progress.update(done.rows, || format!("rows, {} bytes", done.bytes));
        match stop.load(Ordering::Acquire) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    })?;
    print_line(&format!(
        "compacted in {:.2} s: {} had {before} bytes, it has {}",
        progress.finish(),
        file.display(),
        file_bytes(&file)?
    ));
    Ok(())
}

fn file_bytes(file: &Path) -> Result<u64, CommandError> {
    let metadata = std::fs::metadata(file);
    metadata
        .map(|metadata| metadata.len())
        .map_err(|source| CommandError::Read {
            path: file.to_owned(),
            source,
        })
}
