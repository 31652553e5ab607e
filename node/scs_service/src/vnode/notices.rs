//! Pushes the notices of contracts (docs/scs-wire.md, 6).
//!
//! A notice is pushed when a higher block has become canonical. After a reorganization the notices
//! of the new blocks are pushed, also if their transactions were in the old ones. After a restart
//! the notices of the head block come with the next block, and older ones do not come again: an SCS
//! that was away reads the state of its contracts.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use primitives::{Address, B256};

use super::host::{BlockNotices, HostError, HostNotice};
use super::service::{ServiceState, unix_seconds};
use crate::message::{ControlStatus, MessageKind, ScsMessage, WireAddress, message_hash};
use crate::proto::ScsPushMsg;

/// Blocks whose notices were pushed that are remembered, and the most blocks that are caught up on.
const BLOCKS_MAX: usize = 256;

/// Follows the head, and finds the blocks whose notices are due.
#[derive(Debug)]
pub(super) struct NoticeFollower {
    /// Blocks that are done, lowest first, without gaps.
    done: VecDeque<(u64, B256)>,
    /// The number of the next block.
    next: u64,
}

impl NoticeFollower {
    /// Starts below the head: its notices are due with the next block.
    pub(super) const fn new(head: u64) -> Self {
        Self {
            done: VecDeque::new(),
            next: head,
        }
    }

    /// Adds the notices that are due at this head to `due`, block by block. After an error the next
    /// call goes on with the block that could not be read.
    fn read_due(
        &mut self,
        state: &ServiceState,
        head: u64,
        due: &mut Vec<BlockNotices>,
    ) -> Result<(), HostError> {
        let Some(top) = head.checked_sub(1) else {
            return Ok(());
        };
        while let Some((number, hash)) = self.done.back() {
            if *number <= top && state.host.canonical_hash(*number)? == Some(*hash) {
                break;
            }
            self.next = *number;
            self.done.pop_back();
        }
        let first = self.next.max(top.saturating_sub(BLOCKS_MAX as u64 - 1));
        for number in first..=top {
            // The chain may have become shorter since.
            let Some(block) = state.host.notices(number)? else {
                break;
            };
            self.next = number + 1;
            self.done.push_back((number, block.hash));
            if self.done.len() > BLOCKS_MAX {
                self.done.pop_front();
            }
            if !block.notices.is_empty() {
                due.push(block);
            }
        }
        Ok(())
    }
}

/// Pushes notices as the head moves, until the chain ends.
pub(super) async fn notice_loop(state: Arc<ServiceState>, mut follower: NoticeFollower) {
    let mut heads = state.heads.clone();
    while heads.changed().await.is_ok() {
        let head = *heads.borrow_and_update();
        let reader = Arc::clone(&state);
        let read = tokio::task::spawn_blocking(move || {
            let mut due = Vec::new();
            if let Err(error) = follower.read_due(&reader, head, &mut due) {
                tracing::warn!(%error, "the notices of a block cannot be read");
            }
            (follower, due)
        });
        let due;
        (follower, due) = match read.await {
            Ok(read) => read,
            Err(_) => {
                tracing::error!("the read of notices ended by a panic");
                return;
            }
        };
        if state.host.is_syncing() {
            continue;
        }
        for block in due {
            push_block(&state, &block).await;
        }
    }
}

/// Pushes the notices of a block. Roles that they may change are read again, once for a MicroChain.
async fn push_block(state: &Arc<ServiceState>, block: &BlockNotices) {
    let mut aged = HashSet::new();
    let mut pushed: HashSet<(B256, Address, i32)> = HashSet::new();
    for notice in &block.notices {
        let status = ControlStatus::from_notice(&notice.input);
        if !pushed.insert((notice.transaction, notice.caller, status.number())) {
            continue;
        }
        if status.changes_roles() && aged.insert(notice.caller) {
            state.roles.age(&notice.caller);
        }
        match state.push(notice_message(state, notice, status), None).await {
            Ok(queued) => tracing::debug!(chain = %notice.caller, ?status, queued, "notice pushed"),
            Err(error) => tracing::error!(chain = %notice.caller, %error, "a notice cannot be pushed"),
        }
    }
}

/// The message that carries a notice. Its requestid is the node's id; with a counter if a notice of
/// the same transaction was pushed before.
fn notice_message(state: &ServiceState, notice: &HostNotice, status: ControlStatus) -> ScsPushMsg {
    let chain = WireAddress::raw(notice.caller);
    let message = ScsMessage {
        request_id: Bytes::from(state.config.node_id.clone()),
        timestamp: Some(unix_seconds()),
        is_request: true,
        kind: MessageKind::Control(status),
        scs_id: Bytes::new(),
        chain: Some(chain),
        sender: None,
        receiver: Some(chain),
        payload: Bytes::copy_from_slice(notice.transaction.as_slice()),
    };
    let first = message.encode();
    if !state.pushed.contains(&message_hash(&first)) {
        return first;
    }
    ScsPushMsg {
        requestid: state.next_request_id(),
        ..first
    }
}
