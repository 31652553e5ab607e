//! `vnode db check` and `vnode db stats`: whether the database is whole, and how large.

use chain::check::{CheckEvent, CheckSummary, check_store};
use store::{BlockReads, FILE_NAME};

use super::directory::{Directory, DirectoryError, Purpose, open_store};
use super::progress::{Progress, Units};
use super::{CommandError, say, stop};
use crate::options::VnodeOptions;

/// Checks everything that is stored; a line for each fault.
pub(super) fn check(options: &VnodeOptions, full: bool) -> Result<(), CommandError> {
    let directory = Directory::open(options, Purpose::Check)?;
    let stop = stop::flag()?;
    let mut progress = Progress::new(options, "check", Units::Things, 0);
    let result = check_store(
        &directory.store,
        &directory.spec,
        full,
        &stop,
        &mut |event| match event {
            CheckEvent::Fault(fault) => progress.aside(|| say(&fault.to_string())),
            CheckEvent::Progress { what, done, total } => {
                progress.begin(what, total);
                progress.at(done, || format!("{what}: {done} done"));
            }
        },
    );
    let seconds = progress.end();
    let CheckSummary {
        blocks,
        side_blocks,
        transactions,
        accounts,
        slots,
        codes,
        trie_nodes,
        faults,
    } = result?;
    say(&format!(
        "checked {blocks} blocks, {side_blocks} side blocks, {transactions} transactions, {accounts} accounts, {slots} slots, {codes} codes, {trie_nodes} trie nodes{} in {seconds:.2} s: {}",
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

/// Lists the tables.
pub(super) fn stats(options: &VnodeOptions) -> Result<(), CommandError> {
    let path = options.data_directory()?;
    if !path.join(FILE_NAME).exists() {
        return Err(DirectoryError::NoNetwork { path }.into());
    }
    let (_, store) = open_store(options, &path)?;
    let view = store.snapshot()?;
    let tables = view.stats()?;
    say(&format!(
        "{:<24} {:>14} {:>18} {:>18}",
        "table", "rows", "bytes", "on pages"
    ));
    for table in &tables {
        say(&format!(
            "{:<24} {:>14} {:>18} {:>18}",
            table.name, table.rows, table.stored_bytes, table.page_bytes
        ));
    }
    let rows: u64 = tables.iter().map(|table| table.rows).sum();
    let bytes: u64 = tables.iter().map(|table| table.stored_bytes).sum();
    let pages: u64 = tables.iter().map(|table| table.page_bytes).sum();
    say(&format!("{:<24} {rows:>14} {bytes:>18} {pages:>18}", "all"));
    let file = std::fs::metadata(store.path()).map_err(|source| CommandError::Read {
        path: store.path().to_owned(),
        source,
    })?;
    say(&format!(
        "file {} of {} bytes",
        store.path().display(),
        file.len()
    ));
    match view.head()? {
        Some((number, hash)) => say(&format!("head block {number} {hash}")),
        None => say("no chain"),
    }
    Ok(())
}
