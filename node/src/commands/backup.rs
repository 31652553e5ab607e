//! `vnode db backup`: copies the chain into a folder, by the running node if there is one.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use store::{CopyProgress, back_up};

use super::error::CommandError;
use super::running::{AskedNode, OpenedChain};
use super::stop_flag::stop_flag;
use crate::progress::{CommandProgress, ProgressUnits};

use crate::options::VnodeOptions;
use crate::output::print_line;

/// Time between two questions how far the node is.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// A backup of a running node, as it describes it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AskedBackup {
    folder: PathBuf,
    state: String,
    rows: u64,
    rows_total: u64,
    bytes: u64,
    error: Option<String>,
}

/// Copies the chain into `folder`.
pub(super) fn run(options: &VnodeOptions, folder: &Path) -> Result<(), CommandError> {
    let folder = std::path::absolute(folder).map_err(|source| CommandError::Write {
        path: folder.to_owned(),
        source,
    })?;
    let stop = stop_flag()?;
    let mut progress = CommandProgress::new(options, "backup", ProgressUnits::Items, 0);
    let mut show = |done: CopyProgress| {
        progress.set_phase("backup", done.rows_total);
        progress.update(done.rows, || format!("rows, {} bytes", done.bytes));
    };
    let (done, by) = match OpenedChain::open(options)? {
        OpenedChain::Here { store, .. } => {
            let done = back_up(&*store.snapshot()?, &folder, &mut |done| {
                show(done);
                match stop.load(Ordering::Acquire) {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                }
            });
            (done?, "")
        }
        OpenedChain::Running(node) => (by_node(node, &folder, &stop, &mut show)?, " by the running node"),
    };
    let seconds = progress.finish();
    print_line(&format!(
        "backup made in {seconds:.2} s{by}: {} rows, {} bytes in {}; it has no keys: copy the keystore, too",
        done.rows,
        done.bytes,
        folder.display()
    ));
    Ok(())
}

/// Lets the running node make the backup, and waits for it. A signal ends it.
fn by_node(
    mut node: AskedNode,
    folder: &Path,
    stop: &AtomicBool,
    show: &mut dyn FnMut(CopyProgress),
) -> Result<CopyProgress, CommandError> {
    let text = folder
        .to_str()
        .ok_or_else(|| CommandError::NotText(folder.to_owned()))?;
    let mut asked: AskedBackup = node.ask("admin_backup", &[json!(text)])?;
    loop {
        let done = CopyProgress {
            rows: asked.rows,
            rows_total: asked.rows_total,
            bytes: asked.bytes,
        };
        show(done);
        match asked.state.as_str() {
            "done" => return Ok(done),
            "failed" => {
                return Err(CommandError::Backup {
                    folder: asked.folder,
                    reason: asked.error.unwrap_or_default(),
                });
            }
            _ => {}
        }
        if stop.load(Ordering::Acquire) {
            let _: bool = node.ask("admin_stopBackup", &[])?;
        }
        std::thread::sleep(POLL_INTERVAL);
        asked = node.ask("admin_backupStatus", &[])?;
    }
}
