//! A search for the nodes closest to a target: which nodes to ask next, and when it is done.
//!
//! The search knows no packets and no bonds: it names nodes, and is told how asking them went. At
//! most three are asked at a time. Source: docs/p2p.md, 4.

use primitives::{B256, B512, keccak256};

use super::table::BUCKET_NODES_MAX;
use crate::address::Neighbourhood;
use crate::contact::NodeContact;

/// Nodes that a search asks at a time.
pub(crate) const LOOKUP_WIDTH: usize = 3;
/// Nodes that a search remembers.
pub(crate) const LOOKUP_NODES_MAX: usize = 256;
/// Nodes of one neighbourhood. Nodes that all lie close to the target may be of one attacker.
pub(crate) const LOOKUP_NEIGHBOURS_MAX: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CandidateState {
    New,
    Asked,
    Answered,
    Failed,
}

#[derive(Clone, Copy, Debug)]
struct Candidate {
    contact: NodeContact,
    hash: B256,
    state: CandidateState,
}

#[derive(Debug)]
pub(super) struct NodeLookup {
    pub(super) target: B512,
    target_hash: B256,
    own: B512,
    /// In the order of their distance from the target.
    candidates: Vec<Candidate>,
}

impl NodeLookup {
    pub(super) fn new(own: B512, target: B512) -> Self {
        Self {
            target,
            target_hash: keccak256(target),
            own,
            candidates: Vec::new(),
        }
    }

    /// Adds nodes to those that may be asked. The farthest are forgotten if there are too many.
    pub(super) fn add(&mut self, nodes: impl IntoIterator<Item = NodeContact>) {
        for contact in nodes {
            let hash = contact.hash();
            let is_known = self.candidates.iter().any(|known| known.hash == hash);
            if contact.id == self.own || is_known || !self.has_room_for(&contact) {
                continue;
            }
            let place = |known: &Candidate| known.hash ^ self.target_hash < hash ^ self.target_hash;
            let at = self.candidates.partition_point(place);
            let state = CandidateState::New;
            self.candidates.insert(at, Candidate { contact, hash, state });
            if self.candidates.len() > LOOKUP_NODES_MAX {
                self.drop_farthest();
            }
        }
    }

    fn has_room_for(&self, contact: &NodeContact) -> bool {
        let Some(own) = Neighbourhood::of_stranger(contact.ip) else {
            return true;
        };
        let is_neighbour = |known: &&Candidate| Neighbourhood::of(known.contact.ip) == own;
        self.candidates.iter().filter(is_neighbour).count() < LOOKUP_NEIGHBOURS_MAX
    }

    fn drop_farthest(&mut self) {
        let idle = |candidate: &Candidate| candidate.state != CandidateState::Asked;
        if let Some(at) = self.candidates.iter().rposition(idle) {
            self.candidates.remove(at);
        }
    }

    /// Notes how asking `id` ended.
    pub(super) fn ended(&mut self, id: &B512, has_answered: bool) {
        for candidate in &mut self.candidates {
            if candidate.contact.id == *id && candidate.state == CandidateState::Asked {
                candidate.state = match has_answered {
                    true => CandidateState::Answered,
                    false => CandidateState::Failed,
                };
            }
        }
    }

    /// The nodes to ask now. They count as asked.
    pub(super) fn next(&mut self) -> Vec<NodeContact> {
        let asked = |candidate: &&Candidate| candidate.state == CandidateState::Asked;
        let mut free = LOOKUP_WIDTH.saturating_sub(self.candidates.iter().filter(asked).count());
        let mut nodes = Vec::new();
        let usable = |candidate: &&mut Candidate| candidate.state != CandidateState::Failed;
        for candidate in self.candidates.iter_mut().filter(usable).take(BUCKET_NODES_MAX) {
            if free > 0 && candidate.state == CandidateState::New {
                candidate.state = CandidateState::Asked;
                nodes.push(candidate.contact);
                free -= 1;
            }
        }
        nodes
    }

    /// Whether the closest nodes have all answered.
    pub(super) fn is_done(&self) -> bool {
        let usable = |candidate: &&Candidate| candidate.state != CandidateState::Failed;
        let closest = self.candidates.iter().filter(usable).take(BUCKET_NODES_MAX);
        let is_open = |candidate: &Candidate| candidate.state != CandidateState::Answered;
        !closest.into_iter().any(is_open)
            && !self
                .candidates
                .iter()
                .any(|candidate| candidate.state == CandidateState::Asked)
    }

    /// The closest nodes that answered.
    pub(super) fn result(&self) -> Vec<NodeContact> {
        let answered = |candidate: &&Candidate| candidate.state == CandidateState::Answered;
        let closest = self.candidates.iter().filter(answered).take(BUCKET_NODES_MAX);
        closest.map(|candidate| candidate.contact).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use primitives::U256;

    use super::*;

    fn contact(number: u16) -> NodeContact {
        let mut id = B512::ZERO;
        id[..2].copy_from_slice(&number.to_be_bytes());
        NodeContact {
            id,
            ip: IpAddr::from([50, (number >> 8) as u8, number as u8, 1]),
            udp: 30303,
            tcp: 30303,
        }
    }

    /// The answer of the node `asked`: of eight nodes that it knows at each distance, the 16
    /// closest to the target.
    fn answer(all: &[NodeContact], asked: &NodeContact, target: &B512) -> Vec<NodeContact> {
        let mut known = std::collections::BTreeMap::<u32, Vec<NodeContact>>::new();
        for node in all.iter().filter(|node| node.id != asked.id) {
            let difference = U256::from_be_bytes((node.hash() ^ asked.hash()).0);
            let bucket = known.entry(difference.leading_zeros() as u32).or_default();
            if bucket.len() < 8 {
                bucket.push(*node);
            }
        }
        let mut nodes: Vec<_> = known.into_values().flatten().collect();
        nodes.sort_by_key(|node| node.hash() ^ keccak256(target));
        nodes.truncate(BUCKET_NODES_MAX);
        nodes
    }

    #[test]
    fn the_closest_nodes_are_found() {
        let all: Vec<_> = (1..500).map(contact).collect();
        let target = contact(1000).id;
        let mut lookup = NodeLookup::new(contact(0).id, target);
        lookup.add([all[0], all[498]]);
        let mut asked = 0;
        while !lookup.is_done() {
            let next = lookup.next();
            assert!(next.len() <= LOOKUP_WIDTH);
            for node in next {
                asked += 1;
                lookup.add(answer(&all, &node, &target));
                lookup.ended(&node.id, true);
            }
        }
        assert!(asked < 100, "{asked} of 499 nodes were asked");
        let mut closest = all;
        closest.sort_by_key(|contact| contact.hash() ^ keccak256(target));
        let result = lookup.result();
        assert_eq!(result[..8], closest[..8]);
        assert!(lookup.candidates.len() <= LOOKUP_NODES_MAX);
    }

    #[test]
    fn silent_nodes_do_not_stop_it() {
        let mut lookup = NodeLookup::new(contact(0).id, contact(1).id);
        lookup.add((0..40).map(contact));
        let mut rounds = 0;
        while !lookup.is_done() {
            for node in lookup.next() {
                assert_ne!(node.id, contact(0).id, "it does not ask itself");
                lookup.ended(&node.id, node.id[1] % 2 == 0);
            }
            rounds += 1;
            assert!(rounds < 100);
        }
        assert!(lookup.result().iter().all(|node| node.id[1] % 2 == 0));
        assert!(
            NodeLookup::new(contact(0).id, contact(1).id).is_done(),
            "nobody to ask"
        );
    }

    #[test]
    fn what_it_remembers_is_bounded() {
        let mut lookup = NodeLookup::new(contact(0).id, contact(1).id);
        lookup.add((1..1000).map(contact));
        assert_eq!(lookup.candidates.len(), LOOKUP_NODES_MAX);
    }

    #[test]
    fn one_network_does_not_take_a_search() {
        let mut lookup = NodeLookup::new(contact(0).id, contact(1).id);
        let crowd = (2..500).map(|number| NodeContact {
            ip: IpAddr::from([60, 0, 0, number as u8]),
            ..contact(number)
        });
        lookup.add(crowd);
        assert_eq!(lookup.candidates.len(), LOOKUP_NEIGHBOURS_MAX);
        lookup.add((500..520).map(contact));
        assert_eq!(lookup.candidates.len(), LOOKUP_NEIGHBOURS_MAX + 20);
    }
}
