//! Notices of new work for miners and pools that do not speak Stratum: each is posted to a list of
//! URLs (`--miner.notify`).
//!
//! A notice is header hash, seed hash, boundary and number, or the whole header. A server that
//! does not answer in time misses notices, but never the newest one, and delays no other server.

use std::time::Duration;

use chain::Chain;
use crossbeam_channel::RecvTimeoutError;
use ethash::WorkPackage;
use hyper::Uri;
use rpc::objects::{header_notice, work_notice};
use tokio::sync::watch;

use crate::console::post_json;
use crate::options::WorkNotify;

/// The longest time for a server to take a notice.
const NOTICE_TIMEOUT: Duration = Duration::from_secs(2);
/// The time after which the node is asked for work again, which keeps it making work.
const DEMAND_INTERVAL: Duration = Duration::from_secs(1);

/// Starts to tell the servers of `notify` of the work of `chain`. Must be called on a runtime.
///
/// # Errors
/// If no thread can be started.
pub(crate) fn start(notify: WorkNotify, chain: &Chain) -> std::io::Result<()> {
    let (sender, _) = watch::channel(None);
    for url in notify.urls {
        tokio::spawn(tell(url, sender.subscribe()));
    }
    let chain = chain.clone();
    std::thread::Builder::new()
        .name("work-notices".to_owned())
        .spawn(move || follow(&chain, notify.full, &sender))?;
    Ok(())
}

/// Follows the work until nobody is told any more, because the runtime has ended.
fn follow(chain: &Chain, full: bool, sender: &watch::Sender<Option<String>>) {
    let works = chain.work().subscribe();
    while sender.receiver_count() > 0 {
        chain.work().current();
        match works.recv_timeout(DEMAND_INTERVAL) {
            Ok(Some(work)) => {
                if let Some(text) = text(chain, &work, full) {
                    // The work that was there at the begin may come twice.
                    sender.send_if_modified(|last| {
                        let is_new = last.as_ref() != Some(&text);
                        *last = Some(text);
                        is_new
                    });
                }
            }
            Ok(None) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// The notice of `work`. `None` if it was replaced so long ago that its header is gone.
fn text(chain: &Chain, work: &WorkPackage, full: bool) -> Option<String> {
    let notice = if full {
        header_notice(&chain.work().unsealed_header(&work.header_hash)?)
    } else {
        work_notice(work)
    };
    Some(notice.to_string())
}

/// Posts each newest notice to `url`. The first failure of a row is logged.
async fn tell(url: Uri, mut notices: watch::Receiver<Option<String>>) {
    let mut fails = false;
    while notices.changed().await.is_ok() {
        let Some(text) = notices.borrow_and_update().clone() else {
            continue;
        };
        let posted = tokio::time::timeout(NOTICE_TIMEOUT, post_json(&url, text)).await;
        let fault = match posted {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some(format!("no answer within {} s", NOTICE_TIMEOUT.as_secs())),
        };
        match &fault {
            Some(fault) if !fails => {
                tracing::warn!(%url, "a notice of work was not taken (--miner.notify): {fault}")
            }
            Some(fault) => tracing::debug!(%url, "a notice of work was not taken: {fault}"),
            None if fails => tracing::info!(%url, "notices of work are taken again"),
            None => {}
        }
        fails = fault.is_some();
    }
}
