//! The knowledge of each node that packets came from: whether it has proven its address, and of
//! what kind it is.
//!
//! A node has proven its address (it has a "bond") if it answered a PING there within a day. Only
//! such nodes get answers that are larger than their questions. Source: docs/p2p.md, 4.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use primitives::B512;

use super::table::ContactKind;
use crate::address::Neighbourhood;

/// A proof of an address counts for this long.
pub(crate) const BOND_LIFETIME: Duration = Duration::from_secs(24 * 3600);
/// Nodes that are remembered.
pub(crate) const BONDS_MAX: usize = 4096;
/// Bonds of one neighbourhood.
pub(crate) const BOND_NEIGHBOURS_MAX: usize = 64;

#[derive(Clone, Copy, Debug)]
pub(super) struct BondState {
    ip: IpAddr,
    /// The time of its last answer to a PING: it has proven its address.
    pong_received: Option<Duration>,
    /// The time at which it was last sent a PONG: this node has proven its own address to it.
    pong_sent: Option<Duration>,
    pub(super) kind: ContactKind,
    /// The number of requests in a row that it has not answered.
    pub(super) failures: u32,
    /// The number of its node record that it has sent; 0 if it has sent none.
    pub(super) record_sequence: u64,
    /// The number of its node record that it says it has; 0 if it has said none.
    pub(super) announced_sequence: u64,
    touched: Duration,
}

/// The known nodes.
#[derive(Debug, Default)]
pub(super) struct BondBook {
    states: HashMap<B512, BondState>,
}

fn is_fresh(at: Option<Duration>, now: Duration) -> bool {
    at.is_some_and(|at| now < at + BOND_LIFETIME)
}

impl BondBook {
    /// The state of a node that is at `ip` now. Another address than before loses the proof.
    pub(super) fn touch(&mut self, id: B512, ip: IpAddr, now: Duration) -> &mut BondState {
        if self.states.get(&id).is_none_or(|state| state.ip != ip) {
            self.make_room(&id, ip, now);
        }
        let state = self.states.entry(id).or_insert(BondState {
            ip,
            pong_received: None,
            pong_sent: None,
            kind: ContactKind::Unknown,
            failures: 0,
            record_sequence: 0,
            announced_sequence: 0,
            touched: now,
        });
        if state.ip != ip {
            state.ip = ip;
            state.pong_received = None;
            state.pong_sent = None;
        }
        state.touched = now;
        state
    }

    /// Makes room for the node `id` at `ip`. Forgets a node of the same neighbourhood if the
    /// neighbourhood has its share.
    fn make_room(&mut self, id: &B512, ip: IpAddr, now: Duration) {
        let own = Neighbourhood::of_stranger(ip);
        let is_neighbour = |state: &BondState| own == Some(Neighbourhood::of(state.ip));
        let others = self.states.iter().filter(|(other, _)| *other != id);
        let neighbours = others.filter(|(_, state)| is_neighbour(state)).count();
        if neighbours >= BOND_NEIGHBOURS_MAX {
            self.forget_one(id, now, is_neighbour);
        } else if !self.states.contains_key(id) && self.states.len() >= BONDS_MAX {
            self.forget_one(id, now, |_| true);
        }
    }

    /// Forgets one of these nodes, but not `except`. Nodes without a proof go first: else anyone
    /// could push the others out.
    fn forget_one(&mut self, except: &B512, now: Duration, is_one: impl Fn(&BondState) -> bool) {
        let value = |state: &BondState| (is_fresh(state.pong_received, now), state.touched);
        let among = self.states.iter();
        let among = among.filter(|(id, state)| *id != except && is_one(state));
        let least = among.min_by_key(|(_, state)| value(state));
        if let Some(id) = least.map(|(id, _)| *id) {
            self.states.remove(&id);
        }
    }

    pub(super) fn get(&mut self, id: &B512) -> Option<&mut BondState> {
        self.states.get_mut(id)
    }

    pub(super) fn kind(&self, id: &B512) -> ContactKind {
        self.states.get(id).map(|state| state.kind).unwrap_or_default()
    }

    /// Whether the node has proven that it is at `ip`.
    pub(super) fn has_proven(&self, id: &B512, ip: IpAddr, now: Duration) -> bool {
        let state = self.states.get(id).filter(|state| state.ip == ip);
        state.is_some_and(|state| is_fresh(state.pong_received, now))
    }

    /// Whether this node has proven its address to the node.
    pub(super) fn knows_us(&self, id: &B512, now: Duration) -> bool {
        self.states
            .get(id)
            .is_some_and(|state| is_fresh(state.pong_sent, now))
    }

    /// Raises the kind of a node. Returns the kind afterwards.
    pub(super) fn raise(&mut self, id: &B512, kind: ContactKind) -> ContactKind {
        match self.states.get_mut(id) {
            Some(state) => {
                state.kind = state.kind.max(kind);
                state.kind
            }
            None => kind,
        }
    }
}

impl BondState {
    /// Notes an answer. Returns whether it is a new proof.
    pub(super) fn answered(&mut self, now: Duration) -> bool {
        let is_new = !is_fresh(self.pong_received, now);
        self.pong_received = Some(now);
        self.failures = 0;
        is_new
    }

    pub(super) const fn was_answered(&mut self, now: Duration) {
        self.pong_sent = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u16) -> B512 {
        let mut id = B512::ZERO;
        id[..2].copy_from_slice(&number.to_be_bytes());
        id
    }

    const IP: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

    fn stranger(network: u8, host: u16) -> IpAddr {
        IpAddr::from([50, 0, network, host as u8])
    }

    #[test]
    fn a_proof_is_for_one_address_and_one_day() {
        let mut book = BondBook::default();
        assert!(!book.has_proven(&id(1), IP, Duration::ZERO));
        assert!(book.touch(id(1), IP, Duration::ZERO).answered(Duration::ZERO));
        assert!(!book.touch(id(1), IP, Duration::ZERO).answered(Duration::ZERO));
        assert!(book.has_proven(&id(1), IP, Duration::ZERO));
        assert!(!book.has_proven(&id(1), OTHER, Duration::ZERO));
        assert!(!book.has_proven(&id(1), IP, BOND_LIFETIME));
        book.touch(id(1), OTHER, Duration::ZERO);
        assert!(!book.has_proven(&id(1), IP, Duration::ZERO));
    }

    #[test]
    fn those_without_a_proof_are_forgotten_first() {
        let mut book = BondBook::default();
        book.touch(id(0), IP, Duration::ZERO).answered(Duration::ZERO);
        for number in 1..2 * BONDS_MAX as u16 {
            book.touch(id(number), IP, Duration::from_secs(number.into()));
        }
        assert_eq!(book.states.len(), BONDS_MAX);
        assert!(book.has_proven(&id(0), IP, Duration::ZERO));
    }

    #[test]
    fn a_neighbourhood_pushes_its_own_nodes_out() {
        let mut book = BondBook::default();
        let honest = stranger(1, 1);
        book.touch(id(0), honest, Duration::ZERO).answered(Duration::ZERO);
        // Nodes of one network, which were elsewhere before.
        for number in 1..500 {
            let now = Duration::from_secs(1);
            book.touch(id(number), OTHER, now);
            book.touch(id(number), stranger(2, number), now).answered(now);
        }
        let of_network = book.states.values().filter(|state| state.ip != OTHER);
        assert_eq!(of_network.count(), 1 + BOND_NEIGHBOURS_MAX);
        assert!(book.has_proven(&id(0), honest, Duration::from_secs(1)));
    }

    #[test]
    fn kinds_only_rise() {
        let mut book = BondBook::default();
        book.touch(id(1), IP, Duration::ZERO);
        assert_eq!(book.raise(&id(1), ContactKind::Brother), ContactKind::Brother);
        assert_eq!(book.raise(&id(1), ContactKind::Alien), ContactKind::Brother);
        assert_eq!(book.kind(&id(1)), ContactKind::Brother);
        assert_eq!(book.kind(&id(2)), ContactKind::Unknown);
    }
}
