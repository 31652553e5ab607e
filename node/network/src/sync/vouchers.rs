//! The peers that have given the headers. If a block turns out invalid, or nobody has its body, the
//! peer that gave its header loses its place.

use std::collections::{HashMap, VecDeque};

use primitives::{B256, Header};

use crate::peers::PeerId;

/// The most headers that are remembered. The oldest are forgotten first.
const VOUCHED_MAX: usize = 131_072;

#[derive(Clone, Debug, Default)]
pub(super) struct Vouchers {
    peers: HashMap<B256, PeerId>,
    order: VecDeque<B256>,
}

impl Vouchers {
    /// `peer` has given these headers. Who gave a header first stays.
    pub(super) fn add(&mut self, peer: PeerId, headers: impl IntoIterator<Item = B256>) {
        for hash in headers {
            if self.peers.contains_key(&hash) {
                continue;
            }
            self.peers.insert(hash, peer);
            self.order.push_back(hash);
            if self.order.len() > VOUCHED_MAX
                && let Some(oldest) = self.order.pop_front()
            {
                self.peers.remove(&oldest);
            }
        }
    }

    /// The peer that gave the header `hash`.
    pub(super) fn peer(&self, hash: &B256) -> Option<PeerId> {
        self.peers.get(hash).copied()
    }

    /// All bodies are here, so nobody needs to be remembered.
    pub(super) fn clear(&mut self) {
        self.peers.clear();
        self.order.clear();
    }
}

/// The hashes of headers that link, ascending. Only the last one is computed.
pub(super) fn linked_hashes(headers: &[Header]) -> Vec<B256> {
    let above = headers.iter().skip(1).map(|header| header.parent_hash);
    above.chain(headers.last().map(Header::hash)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_who_gave_a_header_stays() {
        let hash = B256::repeat_byte;
        let mut vouchers = Vouchers::default();
        vouchers.add(PeerId(1), [hash(1), hash(2)]);
        vouchers.add(PeerId(2), [hash(2), hash(3)]);
        let peers = [1, 2, 3, 4].map(|mark| vouchers.peer(&hash(mark)).map(|peer| peer.0));
        assert_eq!(peers, [Some(1), Some(1), Some(2), None]);
        let many = (0..VOUCHED_MAX as u64).map(|number| {
            let mut hash = B256::ZERO;
            hash.0[..8].copy_from_slice(&number.to_be_bytes());
            hash
        });
        vouchers.add(PeerId(3), many);
        assert_eq!(vouchers.peer(&hash(1)), None);
        assert_eq!(vouchers.peers.len(), VOUCHED_MAX);
        vouchers.clear();
        assert!(vouchers.peers.is_empty() && vouchers.order.is_empty());
    }

    #[test]
    fn hashes_of_a_line() {
        let mut last = Header::default();
        let headers: Vec<_> = (1..4)
            .map(|number| {
                let parent_hash = last.hash();
                last = Header {
                    number,
                    parent_hash,
                    ..Default::default()
                };
                last.clone()
            })
            .collect();
        let expected: Vec<_> = headers.iter().map(Header::hash).collect();
        assert_eq!(linked_hashes(&headers), expected);
        assert!(linked_hashes(&[]).is_empty());
    }
}
