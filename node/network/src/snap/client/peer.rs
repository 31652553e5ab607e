//! The peers that states are asked of: which states they do not have, how fast they are, and what
//! each is asked now.

use std::collections::BTreeMap;
use std::time::Duration;

use primitives::B256;

use crate::peers::{PeerId, RequestTicket};

/// Fewest and most bytes that are asked for at once.
const ASKED_BYTES_MIN: u64 = 64 << 10;
const ASKED_BYTES_MAX: u64 = 512 << 10;
/// A question asks for as much as the peer sends in this time.
const ASKED_TIME: Duration = Duration::from_secs(1);
/// A new rate counts one in so many.
const SMOOTHING: u64 = 4;
/// The rate of a peer that has not answered yet, in bytes a second.
const FIRST_RATE: u64 = 256 << 10;

/// The kinds of questions. A peer is asked one of each at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum AskKind {
    Accounts,
    Storages,
    Codes,
    Nodes,
}

/// The gain from an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AnswerGain {
    /// The bytes that are proven.
    pub(super) bytes: u64,
    /// Something that was asked for is still missing.
    pub(super) is_partial: bool,
}

impl AnswerGain {
    /// The gain from an answer that says nothing about its peer.
    pub(super) const NONE: Self = Self {
        bytes: 0,
        is_partial: false,
    };
}

#[derive(Debug)]
struct SnapPeer {
    /// The root of a state that it does not have. It may have later ones.
    stateless: Option<B256>,
    /// Bytes a second.
    rate: u64,
    asked: BTreeMap<AskKind, RequestTicket>,
}

#[derive(Debug, Default)]
pub(super) struct SnapPeers(BTreeMap<PeerId, SnapPeer>);

impl SnapPeers {
    pub(super) fn join(&mut self, peer: PeerId) {
        self.0.entry(peer).or_insert(SnapPeer {
            stateless: None,
            rate: FIRST_RATE,
            asked: BTreeMap::new(),
        });
    }

    pub(super) fn leave(&mut self, peer: PeerId) {
        self.0.remove(&peer);
    }

    /// The number of peers that may have the state with this root.
    pub(super) fn count_with(&self, root: &B256) -> usize {
        self.0
            .values()
            .filter(|peer| peer.stateless != Some(*root))
            .count()
    }

    /// The fastest peer that may have the state and is asked nothing of this kind.
    pub(super) fn idle(&self, kind: AskKind, root: &B256) -> Option<PeerId> {
        let is_idle = |peer: &SnapPeer| peer.stateless != Some(*root) && !peer.asked.contains_key(&kind);
        let idle = self.0.iter().filter(|(_, peer)| is_idle(peer));
        idle.max_by_key(|(id, peer)| (peer.rate, u64::MAX - id.0))
            .map(|(id, _)| *id)
    }

    /// The bytes to ask a peer for.
    pub(super) fn bytes_to_ask(&self, peer: PeerId) -> u64 {
        let rate = self.0.get(&peer).map_or(FIRST_RATE, |peer| peer.rate);
        (rate * ASKED_TIME.as_millis() as u64 / 1000).clamp(ASKED_BYTES_MIN, ASKED_BYTES_MAX)
    }

    pub(super) fn asked(&mut self, peer: PeerId, kind: AskKind, ticket: RequestTicket) {
        if let Some(peer) = self.0.get_mut(&peer) {
            peer.asked.insert(kind, ticket);
        }
    }

    /// Notes an answer, or that none came (`gain` is `None`): the peer can be asked again, though
    /// the answer is of no use any more.
    pub(super) fn ended(&mut self, peer: PeerId, kind: AskKind, gain: Option<AnswerGain>, took: Duration) {
        let Some(peer) = self.0.get_mut(&peer) else { return };
        peer.asked.remove(&kind);
        match gain {
            Some(AnswerGain { bytes, is_partial }) => {
                let now = bytes * 1000 / (took.as_millis() as u64).max(1);
                // A short answer to all of a short question says little about the rate, unless it
                // took twice the time of a long one.
                let is_short = bytes < ASKED_BYTES_MIN / 2 && took <= 2 * ASKED_TIME;
                if is_partial || !is_short || now > peer.rate {
                    peer.rate = (peer.rate * (SMOOTHING - 1) + now) / SMOOTHING;
                }
            }
            None => peer.rate = (peer.rate / 2).max(1),
        }
    }

    /// Notes that a peer does not have the state with this root.
    pub(super) fn is_stateless(&mut self, peer: PeerId, root: B256) {
        if let Some(peer) = self.0.get_mut(&peer) {
            peer.stateless = Some(root);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_takes_long_for_short_answers_falls_behind() {
        let (slow, other) = (PeerId(1), PeerId(2));
        let mut peers = SnapPeers::default();
        peers.join(slow);
        peers.join(other);
        let mut answer = |bytes, took| {
            let gain = AnswerGain {
                bytes,
                is_partial: false,
            };
            peers.ended(slow, AskKind::Nodes, Some(gain), took);
            peers.idle(AskKind::Nodes, &B256::ZERO)
        };
        assert_eq!(answer(ASKED_BYTES_MAX, Duration::from_millis(5)), Some(slow));
        // A short answer in time says nothing.
        assert_eq!(answer(500, ASKED_TIME), Some(slow));
        let falls_behind = (0..20).any(|_| answer(500, 5 * ASKED_TIME) == Some(other));
        assert!(falls_behind);
    }
}
