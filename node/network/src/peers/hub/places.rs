//! Gives places to peers and takes them away, and remembers nodes that may not come back for a
//! while.

use std::time::Duration;

use primitives::B512;

use super::super::action::{ENDED_BY_OTHER, PeerAction};
use super::super::interface::{PeerFault, PeerId, PeerNews};
use super::peer::PeerState;
use super::{BANNED_MAX, FAULT_BAN, NewPeer, PeerHub, RequestNote, STATUS_TIMEOUT};
use crate::messages::PeerMessage;
use crate::moment::Moment;
use crate::rlpx::RlpxDisconnect;

impl PeerHub {
    /// Whether a node may not be dialled and may not come in.
    pub fn is_banned(&self, node: &B512, now: Moment) -> bool {
        self.banned.get(node).is_some_and(|until| now.elapsed < *until)
    }

    /// Lets a node come back at once.
    pub(crate) fn forgive(&mut self, node: &B512) {
        self.banned.remove(node);
    }

    /// Whether a connection may begin.
    ///
    /// # Errors
    /// The reason for the other side if it may not.
    pub fn check_place(&self, new: &NewPeer, now: Moment) -> Result<(), RlpxDisconnect> {
        if let Some(existing) = self.nodes.get(&new.node)
            && !self.makes_way(existing, new, now)
        {
            return Err(RlpxDisconnect::AlreadyConnected);
        }
        if self.is_banned(&new.node, now) {
            return Err(RlpxDisconnect::TooManyPeers);
        }
        if new.is_exempt {
            return Ok(());
        }
        let count = |inbound_only: bool| {
            let counted = self.peers.values().filter(|peer| !peer.is_exempt);
            counted.filter(|peer| peer.is_inbound || !inbound_only).count()
        };
        let is_full = count(false) >= self.settings.peers_max
            || new.is_inbound && count(true) >= self.settings.inbound_max;
        if is_full {
            return Err(RlpxDisconnect::TooManyPeers);
        }
        Ok(())
    }

    /// Whether a connection ends because both nodes have dialled, and `new` is the one to keep.
    /// Both nodes must decide alike, so whether a Status has come does not count: it comes to one
    /// of them earlier.
    fn makes_way(&self, existing: &PeerId, new: &NewPeer, now: Moment) -> bool {
        let is_crossed = |state: &PeerState| {
            state.is_inbound != new.is_inbound && now.elapsed < state.began + STATUS_TIMEOUT
        };
        new.is_preferred && self.peers.get(existing).is_some_and(is_crossed)
    }

    /// Takes a connection after its Hello. Returns its number and what to do: send a Status.
    ///
    /// # Errors
    /// The reason for the other side if there is no place for it.
    pub fn admit(&mut self, new: NewPeer, now: Moment) -> Result<(PeerId, Vec<PeerAction>), RlpxDisconnect> {
        self.check_place(&new, now)?;
        if let Some(existing) = self.nodes.get(&new.node).copied() {
            self.disconnect(existing, RlpxDisconnect::AlreadyConnected, now);
        }
        let peer = PeerId(self.next_peer);
        self.next_peer += 1;
        self.nodes.insert(new.node, peer);
        let state = PeerState::new(&new, now.elapsed, self.head.hash);
        self.peers.insert(peer, state);
        let status = self.own_status(new.protocol);
        self.send(peer, PeerMessage::Status(status));
        Ok((peer, self.take_actions()))
    }

    /// Notes that a connection has ended.
    pub fn left(&mut self, peer: PeerId, now: Moment) -> Vec<PeerAction> {
        if self.peers.contains_key(&peer) {
            *self.counters.ended.entry(ENDED_BY_OTHER).or_default() += 1;
            self.remove(peer, now);
        }
        self.take_actions()
    }

    /// Ends a connection, for no fault of the peer.
    pub(crate) fn drop_peer(&mut self, peer: PeerId, reason: RlpxDisconnect, now: Moment) -> Vec<PeerAction> {
        self.disconnect(peer, reason, now);
        self.take_actions()
    }

    /// Ends a connection because of what the peer did.
    pub fn fault(&mut self, peer: PeerId, fault: &PeerFault, now: Moment) -> Vec<PeerAction> {
        self.punish(peer, fault, now);
        self.take_actions()
    }

    /// The peer has broken the protocol.
    pub(super) fn breach(&mut self, peer: PeerId, text: &str, now: Moment) {
        self.punish(
            peer,
            &PeerFault {
                text: text.to_owned(),
                disconnect: RlpxDisconnect::Subprotocol,
                banned: FAULT_BAN,
            },
            now,
        );
    }

    pub(super) fn punish(&mut self, peer: PeerId, fault: &PeerFault, now: Moment) {
        // Also if it has left by itself.
        self.drop_blocks_of(peer, now);
        let Some(state) = self.peers.get(&peer) else {
            return;
        };
        let node = state.node;
        tracing::debug!(node = %state.short_id(), fault = fault.text, "a peer loses its place");
        self.counters.faults += 1;
        if !fault.banned.is_zero() {
            self.ban(node, now.elapsed + fault.banned, now);
        }
        self.disconnect(peer, fault.disconnect, now);
    }

    fn ban(&mut self, node: B512, until: Duration, now: Moment) {
        if self.banned.len() >= BANNED_MAX {
            self.banned.retain(|_, until| now.elapsed < *until);
        }
        if self.banned.len() >= BANNED_MAX
            && let Some(first) = self.banned.iter().min_by_key(|(_, until)| **until)
        {
            // Many keys of one user do not keep later ones off the list.
            let first = *first.0;
            self.banned.remove(&first);
        }
        self.banned.insert(node, until);
    }

    pub(super) fn disconnect(&mut self, peer: PeerId, reason: RlpxDisconnect, now: Moment) {
        if self.peers.contains_key(&peer) {
            *self.counters.ended.entry(reason.code().into()).or_default() += 1;
            self.actions.push(PeerAction::Disconnect { peer, reason });
            self.remove(peer, now);
        }
    }

    fn remove(&mut self, peer: PeerId, now: Moment) {
        let Some(state) = self.peers.remove(&peer) else {
            return;
        };
        self.nodes.remove(&state.node);
        let was_active = state.is_active();
        for request in state.requests.into_waiting() {
            match request.note {
                // The synchronization hears that the peer has left.
                RequestNote::Sync(_) | RequestNote::Required(_) => {}
                RequestNote::Header(hash) | RequestNote::Body(hash) => self.fetch_failed(peer, hash, now),
                RequestNote::Transactions(asked) => self.transactions_not_sent(peer, &asked.hashes, now),
            }
        }
        self.forget_announcer(peer);
        self.forget_transaction_announcer(peer, now);
        if was_active {
            self.news(PeerNews::Left(peer));
        }
    }
}
