//! Polls a node for work.

use std::sync::Arc;
use std::time::Instant;

use ethash::WorkPackage;
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::{Notify, mpsc};
use tokio::time::sleep;

use super::share_check::ShareCheck;
use super::work::read_work;
use crate::client::context::ClientContext;
use crate::client::error::ClientError;
use crate::client::http::NodeHttpClient;

/// Polls a node for work.
pub(super) struct Poller {
    pub(super) http: NodeHttpClient,
    pub(super) method: String,
    pub(super) context: ClientContext,
    /// Notified when a solution was accepted. Then the next poll comes at once.
    pub(super) accepted: Arc<Notify>,
    pub(super) shares: Arc<Mutex<ShareCheck>>,
}

impl Poller {
    /// Polls until the receiver of `polls` is dropped.
    pub(super) async fn run(mut self, polls: mpsc::Sender<Result<WorkPackage, ClientError>>) {
        loop {
            tokio::select! {
                () = sleep(self.context.config.recheck) => {}
                () = self.accepted.notified() => {}
            }
            let asked = Instant::now();
            let answer = self.http.call(&self.method, &json!([])).await;
            let work = answer.and_then(|work| read_work(&work, self.context.config.schedule));
            if let Ok(work) = &work {
                self.shares.lock().note_work(work.header_hash, asked);
            }
            if polls.send(work).await.is_err() {
                return;
            }
        }
    }
}
