//! What is passed on for application chains: messages of their servers (code 31 of `mc`), and
//! transactions with a sharding flag, which enter no pool.
//!
//! Each is passed on once, to the peers that do not know it. Source: docs/p2p.md, 2 and 5.

use primitives::Transaction;

use super::super::action::PeerAction;
use super::super::interface::PeerId;
use super::PeerHub;
use crate::messages::{ApplicationChainMessage, PeerMessage};

impl PeerHub {
    /// A peer has sent a message of an application chain.
    pub(super) fn application_message_came(&mut self, peer: PeerId, message: Box<ApplicationChainMessage>) {
        let key = message.key();
        if let Some(state) = self.peers.get_mut(&peer) {
            state.known_transactions.add(key);
        }
        if self.relayed.add(key) {
            self.pass_on(&message);
            self.actions.push(PeerAction::ApplicationChain(message));
        }
    }

    /// Passes a message of an application chain's server on to peers. One that was passed on before
    /// is not passed on again.
    pub fn relay_message(&mut self, message: &ApplicationChainMessage) -> Vec<PeerAction> {
        if self.relayed.add(message.key()) {
            self.pass_on(message);
        }
        self.take_actions()
    }

    fn pass_on(&mut self, message: &ApplicationChainMessage) {
        let key = message.key();
        let mut to = self.active_peers(|state| state.protocol.has_application_chains());
        to.retain(|peer| {
            let state = self.peers.get_mut(peer);
            state.is_some_and(|state| state.known_transactions.add(key))
        });
        self.send_to_all(to, PeerMessage::ApplicationChain(Box::new(message.clone())));
    }

    /// Passes a transaction with a sharding flag on to peers. One that was passed on before is not
    /// passed on again.
    pub fn relay_transaction(&mut self, transaction: &Transaction) -> Vec<PeerAction> {
        let hash = transaction.hash();
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
