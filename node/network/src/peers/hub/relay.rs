//! Passes on messages of servers of application chains (code 31 of `mc`), and transactions with a
//! sharding flag, which enter no pool.
//!
//! Each is passed on once, to the peers that do not know it. What is too long or more than a peer's
//! share does not come here (`gate`). Keys and hashes are computed without the hub. Source:
//! docs/p2p.md, 2 and 5.

use primitives::{B256, Transaction};

use super::super::action::PeerAction;
use super::super::interface::PeerId;
use super::PeerHub;
use crate::messages::{ApplicationChainMessage, PeerMessage};

impl PeerHub {
    /// Takes a message of an application chain that a peer has sent, and its key
    /// ([`PeerAction::Recognize`]).
    pub(crate) fn application_message_came(
        &mut self,
        peer: PeerId,
        key: B256,
        message: Box<ApplicationChainMessage>,
    ) -> Vec<PeerAction> {
        if let Some(state) = self.peers.get_mut(&peer) {
            state.known_transactions.add(key);
        }
        if self.relayed.add(key) {
            self.pass_on(key, &message);
            self.actions.push(PeerAction::ApplicationChain(message));
        }
        self.take_actions()
    }

    /// Passes a message of an application chain's server on to peers. `key` is its
    /// [`ApplicationChainMessage::key`]. One that was passed on before is not passed on again.
    pub fn relay_message(&mut self, key: B256, message: &ApplicationChainMessage) -> Vec<PeerAction> {
        if self.relayed.add(key) {
            self.pass_on(key, message);
        }
        self.take_actions()
    }

    fn pass_on(&mut self, key: B256, message: &ApplicationChainMessage) {
        let mut to = self.active_peers(|state| state.protocol.has_application_chains());
        to.retain(|peer| {
            let state = self.peers.get_mut(peer);
            state.is_some_and(|state| state.known_transactions.add(key))
        });
        self.send_to_all(to, PeerMessage::ApplicationChain(Box::new(message.clone())));
    }

    /// Passes a transaction with a sharding flag and this hash on to peers. One that was passed on
    /// before is not passed on again.
    pub fn relay_transaction(&mut self, hash: B256, transaction: &Transaction) -> Vec<PeerAction> {
        if self.relayed.add(hash) {
            let mut to = self.active_peers(|_| true);
            to.retain(|peer| {
                let state = self.peers.get_mut(peer);
                state.is_some_and(|state| state.known_transactions.add(hash))
            });
            self.send_to_all(to, PeerMessage::Transactions(vec![transaction.clone()]));
        }
        self.take_actions()
    }
}
