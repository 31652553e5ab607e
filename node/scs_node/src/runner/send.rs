//! The calls and the messages that leave an SCS. Each kind has a task of its own, so nothing waits
//! for them.
//!
//! Anyone can ask for blocks, and answers are long. So answers have a bound in bytes, and are sent
//! when nothing else waits: own blocks, states, transactions and requests go first.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use microchain::{Action, BaseCall, MemberMessage};
use primitives::{Address, hex};
use scs_service::client::ScsClient;
use scs_service::message::BroadcastStatus;
use scs_service::{MessageKind, ScsId, ScsMessage, WireAddress};
use tokio::sync::mpsc;

use super::Runner;
use crate::account::{BaseAccount, Outlay, Purpose};
use crate::gas::gas_of;
use crate::worker::EngineActions;

/// Broadcasts and calls that wait to be sent.
pub(super) const OUTBOX_MAX: usize = 1024;
/// Bytes of answers to other SCSs that wait to be sent, and of all other broadcasts.
const ANSWER_BYTES_MAX: usize = 8 << 20;
const BROADCAST_BYTES_MAX: usize = 64 << 20;

/// Work for the task that sends transactions.
pub(super) enum CallOrder {
    Send(Box<Outlay>, u64),
    /// The transaction of this call of a MicroChain must not get into a block any more.
    Withdraw(Address, Box<BaseCall>),
    Tend {
        head: u64,
        is_new_connection: bool,
    },
}

/// Broadcasts on their way to the task that sends them.
pub(super) struct BroadcastOutbox {
    answers: BoundedQueue,
    others: BoundedQueue,
}

/// The end of a [`BroadcastOutbox`] from which they are taken.
pub(super) struct WaitingBroadcasts {
    answers: BoundedQueueEnd,
    others: BoundedQueueEnd,
}

/// A queue of messages with bounds.
struct BoundedQueue {
    messages: mpsc::Sender<ScsMessage>,
    bytes: Arc<AtomicUsize>,
    bytes_max: usize,
}

struct BoundedQueueEnd {
    messages: mpsc::Receiver<ScsMessage>,
    bytes: Arc<AtomicUsize>,
}

impl BroadcastOutbox {
    pub(super) fn new() -> (Self, WaitingBroadcasts) {
        let (answers, answers_end) = BoundedQueue::new(ANSWER_BYTES_MAX);
        let (others, others_end) = BoundedQueue::new(BROADCAST_BYTES_MAX);
        let waiting = WaitingBroadcasts {
            answers: answers_end,
            others: others_end,
        };
        (Self { answers, others }, waiting)
    }

    /// Takes a message. Returns `false` if there is no room for it.
    fn give(&self, message: ScsMessage) -> bool {
        let is_answer = message.kind == MessageKind::Broadcast(BroadcastStatus::SyncComplete);
        let queue = if is_answer { &self.answers } else { &self.others };
        queue.give(message)
    }
}

impl WaitingBroadcasts {
    /// The next message: an answer only if nothing else waits. `None` if no more will come.
    pub(super) async fn next(&mut self) -> Option<ScsMessage> {
        tokio::select! {
            biased;
            Some(message) = self.others.next() => Some(message),
            Some(message) = self.answers.next() => Some(message),
            else => None,
        }
    }
}

impl BoundedQueue {
    fn new(bytes_max: usize) -> (Self, BoundedQueueEnd) {
        let (messages, taken) = mpsc::channel(OUTBOX_MAX);
        let bytes = Arc::<AtomicUsize>::default();
        let end = BoundedQueueEnd {
            messages: taken,
            bytes: Arc::clone(&bytes),
        };
        let queue = Self {
            messages,
            bytes,
            bytes_max,
        };
        (queue, end)
    }

    fn give(&self, message: ScsMessage) -> bool {
        let len = message.payload.len();
        let before = self.bytes.fetch_add(len, Ordering::Relaxed);
        if before.saturating_add(len) <= self.bytes_max && self.messages.try_send(message).is_ok() {
            return true;
        }
        self.bytes.fetch_sub(len, Ordering::Relaxed);
        false
    }
}

impl BoundedQueueEnd {
    async fn next(&mut self) -> Option<ScsMessage> {
        let message = self.messages.recv().await?;
        self.bytes.fetch_sub(message.payload.len(), Ordering::Relaxed);
        Some(message)
    }
}

impl Runner {
    /// Lets the account look after what is not in a block.
    pub(super) fn tend(&self, is_new_connection: bool) {
        let head = self.head;
        // If the task is that far behind, the next head comes in time.
        let _ = self.calls.try_send(CallOrder::Tend {
            head,
            is_new_connection,
        });
    }

    pub(super) fn send_call(&self, outlay: Outlay) {
        if self
            .calls
            .try_send(CallOrder::Send(Box::new(outlay), self.head))
            .is_err()
        {
            tracing::warn!("a call was dropped: got {OUTBOX_MAX} that wait, expected fewer");
        }
    }

    pub(super) fn act(&self, actions: EngineActions) {
        let chain = actions.chain;
        for action in actions.actions {
            match action {
                Action::Send(message) => self.broadcast(chain, message),
                Action::Withdraw(call) => {
                    tracing::info!(%chain, call = call_name(&call), "a call is withdrawn");
                    if self
                        .calls
                        .try_send(CallOrder::Withdraw(chain, Box::new(call)))
                        .is_err()
                    {
                        tracing::warn!(%chain, "a call is not withdrawn: got {OUTBOX_MAX} that wait, expected fewer");
                    }
                }
                Action::Call(call) => {
                    let facts = self.served.gas_facts(&chain);
                    tracing::info!(%chain, call = call_name(&call), "a call of the MicroChain");
                    self.send_call(Outlay {
                        chain,
                        data: call.data(),
                        gas: gas_of(&call, &facts),
                        purpose: Purpose::Engine(call),
                    });
                }
            }
        }
    }

    fn broadcast(&self, chain: Address, message: MemberMessage) {
        let id = ScsId(self.id);
        let mut random = [0; 8];
        if let Err(error) = getrandom::fill(&mut random) {
            tracing::error!(%error, "no random number for a message");
            return;
        }
        let message = ScsMessage {
            request_id: format!("{id}-{}", hex::encode(random)).into(),
            timestamp: Some(chain::unix_now().as_secs()),
            is_request: true,
            kind: MessageKind::Broadcast(BroadcastStatus::new(message.status)),
            scs_id: id.to_wire(),
            chain: Some(WireAddress::rlp(chain)),
            sender: Some(WireAddress::raw(self.id)),
            receiver: message.receiver.map(WireAddress::raw),
            payload: message.payload.0,
        };
        if !self.broadcasts.give(message) {
            tracing::debug!(%chain, "a broadcast was dropped: too many wait");
        }
    }
}

/// The name of a call for the log.
const fn call_name(call: &BaseCall) -> &'static str {
    use BaseCall as Call;
    match call {
        Call::CreateProposal { .. } => "createProposal",
        Call::UploadRedemptions { .. } => "UploadRedeemData",
        Call::Vote { .. } => "voteOnProposal",
        Call::Act { .. } => "requestProposalAction",
        Call::Redeem { .. } => "requestEnterAndRedeemAction",
        Call::BackupUpToDate { .. } => "BackupUpToDate",
    }
}

/// Sends transactions one after the other.
pub(super) async fn send_calls(mut account: BaseAccount, mut orders: mpsc::Receiver<CallOrder>) {
    while let Some(order) = orders.recv().await {
        match order {
            CallOrder::Send(outlay, head) => {
                let (chain, purpose) = (outlay.chain, outlay.purpose.clone());
                if let Err(error) = account.send(*outlay, head).await {
                    let what = match &purpose {
                        Purpose::Join => "registration",
                        Purpose::Engine(call) => call_name(call),
                    };
                    tracing::warn!(%chain, what, %error, "the VNODE did not take a transaction");
                }
            }
            CallOrder::Withdraw(chain, call) => account.withdraw(chain, *call).await,
            CallOrder::Tend {
                head,
                is_new_connection,
            } => account.tend(head, is_new_connection).await,
        }
    }
}

/// Sends broadcasts one after the other. What cannot be sent is lost, as on the network.
pub(super) async fn send_broadcasts(client: ScsClient, mut waiting: WaitingBroadcasts) {
    while let Some(message) = waiting.next().await {
        if let Err(error) = client.broadcast(&message).await {
            tracing::debug!(%error, "a broadcast was not sent");
        }
    }
}
