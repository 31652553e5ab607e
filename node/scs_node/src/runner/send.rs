//! The calls and the messages that leave an SCS. Each kind has a task of its own, so nothing waits
//! for them.

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
        if self.broadcasts.try_send(message).is_err() {
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
pub(super) async fn send_broadcasts(client: ScsClient, mut messages: mpsc::Receiver<ScsMessage>) {
    while let Some(message) = messages.recv().await {
        if let Err(error) = client.broadcast(&message).await {
            tracing::debug!(%error, "a broadcast was not sent");
        }
    }
}
