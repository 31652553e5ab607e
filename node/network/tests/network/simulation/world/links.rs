//! Connections between nodes: who dials whom, cuts of the network, nodes that are killed.

use std::collections::HashSet;
use std::time::Duration;

use network::WireFamily;
use network::testing::{NewPeer, PeerAction, PeerId, PeerMessage};
use primitives::B512;

use super::{Event, Remote, Role, VERSION, WANTED_LINKS, World};

/// The time after which a liar comes back.
const RETURN_TIME: Duration = Duration::from_millis(300);

/// A whole node ends a connection on which nothing comes for so long.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// The address from which liars come back under new keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReturnFrom {
    SameAddress,
    OtherAddresses,
}

impl World {
    /// Cuts the network: nodes of different groups do not reach each other from now on.
    pub(crate) fn cut(&mut self, group: impl Fn(usize) -> usize) {
        self.groups = (0..self.nodes.len()).map(group).collect();
        for index in 0..self.nodes.len() {
            let cut: Vec<_> = self.nodes[index]
                .links
                .iter()
                .filter(|(_, remote)| self.groups[remote.node] != self.groups[index])
                .map(|(peer, _)| *peer)
                .collect();
            let life = self.nodes[index].life;
            for peer in cut {
                self.close(index, peer);
                // Elsewhere the next question without an answer shows that the peer is gone.
                if self.nodes[index].whole.is_some() {
                    self.after(SILENCE_MAX, Event::Silent(index, life, peer));
                }
            }
        }
    }

    /// Kills a node. It starts again after a time, with what its store has.
    pub(crate) fn kill(&mut self, index: usize, back_after: Option<Duration>) {
        if !self.nodes[index].is_up {
            return;
        }
        self.counts.kills += 1;
        self.leave_disk(index);
        for peer in self.nodes[index].links.keys().copied().collect::<Vec<_>>() {
            self.close(index, peer);
        }
        let node = &mut self.nodes[index];
        node.life += 1;
        node.is_up = false;
        node.timer = None;
        if let Some(after) = back_after {
            self.after(after, Event::Start(index));
        }
    }

    /// Ends a connection. The other side hears of it after the delay of the link. A liar that
    /// returns does so then.
    pub(super) fn close(&mut self, index: usize, peer: PeerId) {
        if let Some(remote) = self.nodes[index].links.remove(&peer) {
            self.after(remote.delay, Event::Closed(remote));
            let is_liar = matches!(self.nodes[remote.node].role, Role::Liar { .. });
            if is_liar && self.liars_return.is_some() {
                let after = remote.delay + RETURN_TIME;
                self.after(after, Event::Return(remote.node, index));
            }
        }
    }

    /// Lets a liar come back under a new key.
    pub(super) fn come_back(&mut self, liar: usize, to: usize) {
        let Some(from) = self.liars_return else { return };
        self.nodes[liar].id = B512::from(self.entropy.bytes::<64>());
        if from == ReturnFrom::OtherAddresses {
            self.nodes[liar].address = self.entropy.bytes::<4>().into();
        }
        if !self.connect(liar, to) {
            self.after(RETURN_TIME, Event::Return(liar, to));
        }
    }

    /// Liars that lose their places come back from now on.
    pub(crate) const fn let_liars_return(&mut self, from: ReturnFrom) {
        self.liars_return = Some(from);
    }

    /// A node looks for more peers.
    pub(super) fn dial(&mut self, index: usize) {
        self.after(self.dial_interval, Event::Dial(index));
        if self.nodes[index].is_up && self.nodes[index].links.len() < WANTED_LINKS {
            let other = self.entropy.below(self.nodes.len());
            self.connect(index, other);
        }
    }

    /// Sends messages to all that a liar is connected to.
    pub(crate) fn send_all(&mut self, liar: usize, messages: &[PeerMessage]) {
        let links: Vec<_> = self.nodes[liar].links.values().copied().collect();
        for remote in links {
            for message in messages {
                let event = Event::Message(remote, Box::new(message.clone()));
                self.after(remote.delay, event);
            }
        }
    }

    pub(crate) fn is_linked(&self, one: usize, other: usize) -> bool {
        self.nodes[one].links.values().any(|remote| remote.node == other)
    }

    /// Connects two nodes, if both want to.
    pub(crate) fn connect(&mut self, from: usize, to: usize) -> bool {
        let linked: HashSet<_> = self.nodes[from]
            .links
            .values()
            .map(|remote| remote.node)
            .collect();
        let reaches = self.nodes[from].is_up && self.nodes[to].is_up && self.groups[from] == self.groups[to];
        if from == to
            || !reaches
            || linked.contains(&to)
            || !self.has_place(from, to, false)
            || !self.has_place(to, from, true)
        {
            return false;
        }
        let delay = Duration::from_millis(10) + self.random(Duration::from_millis(140));
        let (one, first) = self.admit(from, to, false);
        let (two, second) = self.admit(to, from, true);
        self.connections += 1;
        let connection = self.connections;
        self.nodes[from].links.insert(
            one,
            Remote {
                node: to,
                peer: two,
                connection,
                delay,
            },
        );
        self.nodes[to].links.insert(
            two,
            Remote {
                node: from,
                peer: one,
                connection,
                delay,
            },
        );
        self.carry_out(from, first);
        self.carry_out(to, second);
        self.set_timer(from);
        self.set_timer(to);
        true
    }

    fn new_peer(&self, index: usize, is_inbound: bool) -> NewPeer {
        NewPeer {
            has_snap: false,
            node: self.nodes[index].id,
            address: self.nodes[index].address,
            protocol: WireFamily::Mc.protocol(VERSION).expect("known"),
            is_inbound,
            is_exempt: false,
            is_preferred: false,
        }
    }

    /// The reason for which a node refuses another one as a peer.
    pub(super) fn refuses(&self, at: usize, other: usize) -> Option<String> {
        let Role::Honest { hub, .. } = &self.nodes[at].role else {
            return None;
        };
        let place = hub.check_place(&self.new_peer(other, true), self.moment());
        place.err().map(|reason| format!("{reason:?}"))
    }

    fn has_place(&self, at: usize, other: usize, is_inbound: bool) -> bool {
        match &self.nodes[at].role {
            Role::Honest { hub, .. } => {
                let new = self.new_peer(other, is_inbound);
                hub.check_place(&new, self.moment()).is_ok()
            }
            Role::Liar { .. } => true,
        }
    }

    fn admit(&mut self, at: usize, other: usize, is_inbound: bool) -> (PeerId, Vec<PeerAction>) {
        let (new, now) = (self.new_peer(other, is_inbound), self.moment());
        let network_id = self.spec.network_id;
        match &mut self.nodes[at].role {
            Role::Honest { hub, .. } => hub.admit(new, now).expect("there is a place"),
            Role::Liar { liar, next_peer } => {
                let peer = PeerId(*next_peer);
                *next_peer += 1;
                let status = PeerMessage::Status(liar.status(network_id, VERSION));
                let send = PeerAction::Send {
                    to: vec![peer],
                    message: status,
                };
                (peer, vec![send])
            }
        }
    }
}
