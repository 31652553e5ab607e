//! The nodes that discovery has found and that wait to be dialled.
//!
//! Each neighbourhood has a few places in the list, and the neighbourhoods take turns: the next
//! node is a random one of a neighbourhood whose last turn is the longest ago.

use std::collections::{BTreeMap, HashMap};

use crate::address::Neighbourhood;
use crate::contact::NodeContact;
use crate::entropy::Entropy;

/// Nodes that discovery has found and that wait to be dialled.
pub(crate) const CANDIDATES_MAX: usize = 512;
/// Candidates of one neighbourhood.
pub(crate) const CANDIDATE_NEIGHBOURS_MAX: usize = 4;
/// Neighbourhoods whose last turn is remembered.
const TURNS_MAX: usize = 4096;

#[derive(Debug, Default)]
pub(super) struct DialCandidates {
    nodes: Vec<NodeContact>,
    /// The number of the last turn of a neighbourhood.
    turns: HashMap<Neighbourhood, u64>,
    last_turn: u64,
}

impl DialCandidates {
    pub(super) const fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Adds a node. It replaces a random one if its neighbourhood or the list is full.
    pub(super) fn add(&mut self, node: NodeContact, entropy: &mut Entropy) {
        if self.nodes.iter().any(|known| known.id == node.id) {
            return;
        }
        let own = Neighbourhood::of_stranger(node.ip);
        let is_neighbour = |known: &NodeContact| own == Some(Neighbourhood::of(known.ip));
        let neighbours = self.nodes.iter().enumerate();
        let neighbours = neighbours.filter(|(_, known)| is_neighbour(known));
        let neighbours: Vec<_> = neighbours.map(|(at, _)| at).collect();
        if neighbours.len() >= CANDIDATE_NEIGHBOURS_MAX {
            self.nodes[neighbours[entropy.below(neighbours.len())]] = node;
        } else if self.nodes.len() >= CANDIDATES_MAX {
            let at = entropy.below(self.nodes.len());
            self.nodes[at] = node;
        } else {
            self.nodes.push(node);
        }
    }

    /// Takes the next node to dial. It counts as the turn of its neighbourhood.
    pub(super) fn take(&mut self, entropy: &mut Entropy) -> Option<NodeContact> {
        let mut waiting: BTreeMap<Neighbourhood, Vec<usize>> = BTreeMap::new();
        for (at, node) in self.nodes.iter().enumerate() {
            waiting.entry(Neighbourhood::of(node.ip)).or_default().push(at);
        }
        let turn = |own: &Neighbourhood| self.turns.get(own).copied().unwrap_or_default();
        let first = waiting.keys().map(turn).min()?;
        waiting.retain(|own, _| turn(own) == first);
        let chosen = entropy.below(waiting.len());
        let (own, nodes) = waiting.into_iter().nth(chosen)?;
        let at = nodes[entropy.below(nodes.len())];
        self.note_turn(own);
        Some(self.nodes.swap_remove(at))
    }

    fn note_turn(&mut self, own: Neighbourhood) {
        self.last_turn += 1;
        if self.turns.len() >= TURNS_MAX {
            let oldest = self.last_turn.saturating_sub(TURNS_MAX as u64 / 2);
            self.turns.retain(|_, turn| *turn >= oldest);
        }
        self.turns.insert(own, self.last_turn);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::net::IpAddr;

    use primitives::B512;
    use proptest::prelude::*;

    use super::*;

    fn node(number: u32, ip: impl Into<IpAddr>) -> NodeContact {
        let mut id = B512::ZERO;
        id[..4].copy_from_slice(&number.to_be_bytes());
        NodeContact {
            id,
            ip: ip.into(),
            udp: 30303,
            tcp: 30303,
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn bounds_hold_whoever_comes(
            nodes in proptest::collection::vec((0..3000_u32, 0..200_u8, any::<bool>()), 1..1000)
        ) {
            let mut candidates = DialCandidates::default();
            let mut entropy = Entropy::from_seed([1; 32]);
            for (number, network, is_taken) in nodes {
                candidates.add(node(number, [50, 1, network, number as u8]), &mut entropy);
                if is_taken {
                    candidates.take(&mut entropy);
                }
                prop_assert!(candidates.nodes.len() <= CANDIDATES_MAX);
            }
            let mut counts = BTreeMap::<_, usize>::new();
            for node in &candidates.nodes {
                *counts.entry(Neighbourhood::of(node.ip)).or_default() += 1;
            }
            prop_assert!(counts.values().all(|count| *count <= CANDIDATE_NEIGHBOURS_MAX));
            let ids: BTreeSet<_> = candidates.nodes.iter().map(|node| node.id).collect();
            prop_assert_eq!(ids.len(), candidates.nodes.len());
        }
    }

    #[test]
    fn neighbourhoods_take_turns() {
        let mut candidates = DialCandidates::default();
        let mut entropy = Entropy::from_seed([1; 32]);
        for number in 0..1000 {
            candidates.add(node(number, [50, 0, 0, number as u8]), &mut entropy);
        }
        assert_eq!(candidates.nodes.len(), CANDIDATE_NEIGHBOURS_MAX);
        for number in 1..=3 {
            candidates.add(node(5000 + number, [51, 0, number as u8, 1]), &mut entropy);
        }
        let first: Vec<_> = (0..4).filter_map(|_| candidates.take(&mut entropy)).collect();
        let networks: BTreeSet<_> = first.iter().map(|node| Neighbourhood::of(node.ip)).collect();
        assert_eq!(networks.len(), 4, "each had a turn: {networks:?}");
        // A new neighbourhood is next, however many wait.
        candidates.add(node(6000, [52, 0, 0, 1]), &mut entropy);
        let next = candidates.take(&mut entropy).map(|node| node.ip);
        assert_eq!(next, Some(IpAddr::from([52, 0, 0, 1])));
    }

    #[test]
    fn the_last_turns_are_bounded_and_local_nodes_are_not_limited() {
        let mut candidates = DialCandidates::default();
        let mut entropy = Entropy::from_seed([1; 32]);
        for number in 0..3 * TURNS_MAX as u32 {
            let [_, a, b, c] = number.to_be_bytes();
            candidates.add(node(number, [60 + a, b, c, 1]), &mut entropy);
            assert!(candidates.take(&mut entropy).is_some());
        }
        assert!(candidates.turns.len() <= TURNS_MAX);
        for number in 0..2 * CANDIDATES_MAX as u32 {
            candidates.add(node(number, [127, 0, 0, 1]), &mut entropy);
        }
        assert_eq!(candidates.nodes.len(), CANDIDATES_MAX);
    }
}
