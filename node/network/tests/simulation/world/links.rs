//! Connections between nodes: who dials whom, cuts of the network, nodes that are killed.

use std::collections::HashSet;
use std::time::Duration;

use network::messages::{PeerMessage, WireFamily};
use network::peers::{NewPeer, PeerAction, PeerId};

use super::{DIAL_INTERVAL, Event, Remote, Role, VERSION, WANTED_LINKS, World};

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
            for peer in cut {
                self.close(index, peer);
            }
        }
    }

    /// Kills a node. It starts again after a time, with what its store has.
    pub(crate) fn kill(&mut self, index: usize, back_after: Option<Duration>) {
        if !self.nodes[index].is_up {
            return;
        }
        self.counts.kills += 1;
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

    /// Ends a connection. The other side hears of it after the delay of the link.
    pub(super) fn close(&mut self, index: usize, peer: PeerId) {
        if let Some(remote) = self.nodes[index].links.remove(&peer) {
            self.after(remote.delay, Event::Closed(remote.node, remote.peer));
        }
    }

    /// A node looks for more peers.
    pub(super) fn dial(&mut self, index: usize) {
        self.after(DIAL_INTERVAL, Event::Dial(index));
        if self.nodes[index].is_up && self.nodes[index].links.len() < WANTED_LINKS {
            let other = self.entropy.below(self.nodes.len());
            self.connect(index, other);
        }
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
        self.nodes[from].links.insert(
            one,
            Remote {
                node: to,
                peer: two,
                delay,
            },
        );
        self.nodes[to].links.insert(
            two,
            Remote {
                node: from,
                peer: one,
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
            node: self.nodes[index].id,
            protocol: WireFamily::Mc.protocol(VERSION).expect("known"),
            is_inbound,
            is_exempt: false,
            is_preferred: false,
        }
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
