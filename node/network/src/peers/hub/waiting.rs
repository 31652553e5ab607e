//! The blocks that wait: which of them is checked next, and which goes if there are too many.
//!
//! No peer holds up the blocks of others. Peers take turns: at most [`CHECKS_MAX`] checks run, one
//! for each peer. What waits is bounded in number and bytes, for each peer and for all, and
//! whoever has most makes room.
//!
//! A hash does not tell which body is the right one, and the first copy may be junk. So each peer
//! may have a copy of its own, if its body is another one.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use primitives::{B256, Header};

use super::super::action::PeerAction;
use super::super::interface::{PeerId, PeerNews};
use super::PeerHub;
use crate::messages::{AnnouncedBlock, PackedBlock};
use crate::moment::Moment;

/// Blocks that wait or are imported.
pub const BLOCKS_WAITING_MAX: usize = 256;
/// Blocks of one peer that wait or are imported.
const PEER_BLOCKS_MAX: usize = 64;
/// Bytes of all blocks that wait or are imported, packed as they came.
pub const WAITING_BYTES_MAX: usize = 64 << 20;
/// Bytes of the blocks of one peer: more than the longest message.
pub(crate) const PEER_WAITING_BYTES_MAX: usize = 16 << 20;
/// Blocks that are checked at the same time, each of another peer.
pub(crate) const CHECKS_MAX: usize = 4;
/// A block waits for its parent for this long.
const PARENT_WAIT: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlockStage {
    Parent,
    /// The parent is stored, and a check may begin.
    Ready,
    /// The copy of this peer is checked.
    Checking(PeerId),
    /// The header is good, and the body is asked for. There is no copy.
    Fetching,
    Importing,
}

/// The part of a block that a peer has sent.
#[derive(Clone, Debug)]
pub(super) enum BlockContent {
    /// The header of an announced block. The body is asked for when the seal was checked.
    Header(Arc<Header>),
    Whole(Arc<PackedBlock>),
}

impl BlockContent {
    pub(super) fn header(&self) -> &Header {
        match self {
            Self::Header(header) => header,
            Self::Whole(block) => block.header(),
        }
    }

    pub(super) fn size(&self) -> usize {
        match self {
            Self::Header(header) => size_of::<Header>() + header.extra_data.len(),
            Self::Whole(block) => block.size(),
        }
    }

    /// Whether `other` tells the same and perhaps more.
    fn adds_nothing_to(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Header(_), _) => true,
            (Self::Whole(_), Self::Header(_)) => false,
            (Self::Whole(own), Self::Whole(other)) => own.has_body_of(other),
        }
    }
}

/// A block as one peer has sent it.
#[derive(Clone, Debug)]
pub(super) struct BlockCopy {
    pub(super) from: PeerId,
    pub(super) content: BlockContent,
}

/// A block that is not imported yet.
#[derive(Clone, Debug)]
pub(super) struct WaitingBlock {
    pub(super) number: u64,
    parent: B256,
    /// The peer that has sent the block, or the first of them.
    pub(super) from: PeerId,
    since: Duration,
    pub(super) stage: BlockStage,
    /// At most one of each peer, each with another body. While the block is imported, the one that
    /// is.
    pub(super) copies: Vec<BlockCopy>,
}

impl WaitingBlock {
    pub(super) fn new(from: PeerId, content: BlockContent, stage: BlockStage, since: Duration) -> Self {
        Self {
            number: content.header().number,
            parent: content.header().parent_hash,
            from,
            since,
            stage,
            copies: vec![BlockCopy { from, content }],
        }
    }

    /// Whether the block has a copy of `peer` that can be dropped.
    fn may_lose(&self, peer: PeerId) -> bool {
        self.stage != BlockStage::Importing && self.copies.iter().any(|copy| copy.from == peer)
    }
}

/// The memory and the number of the waiting blocks of a peer, or of all.
#[derive(Clone, Copy, Debug, Default)]
pub struct WaitingUse {
    /// Blocks, each as often as peers have sent it: at most [`BLOCKS_WAITING_MAX`].
    pub copies: usize,
    /// Their bytes: at most [`WAITING_BYTES_MAX`].
    pub bytes: usize,
}

impl WaitingUse {
    fn add(&mut self, content: &BlockContent) {
        self.copies += 1;
        self.bytes += content.size();
    }
}

impl PeerHub {
    /// Takes another copy of a block that waits, in case the others turn out wrong.
    pub(super) fn take_copy(&mut self, from: PeerId, hash: B256, content: BlockContent, now: Moment) {
        let Some(waiting) = self.waiting.get(&hash) else {
            return;
        };
        let is_of_no_use = |copy: &BlockCopy| copy.from == from || content.adds_nothing_to(&copy.content);
        if waiting.stage == BlockStage::Importing || waiting.copies.iter().any(is_of_no_use) {
            return;
        }
        let is_first = waiting.stage == BlockStage::Fetching;
        if is_first && !self.make_room(from, content.size(), now) {
            return self.leave_to_synchronization(&hash);
        }
        // No other block makes room for a second copy.
        if self.has_room(from, content.size())
            && let Some(waiting) = self.waiting.get_mut(&hash)
        {
            if is_first {
                (waiting.stage, waiting.from) = (BlockStage::Ready, from);
            }
            waiting.copies.push(BlockCopy { from, content });
            self.begin_checks();
        }
    }

    /// Returns the use of all waiting blocks, and that of each peer's.
    pub fn waiting_use(&self) -> (WaitingUse, BTreeMap<PeerId, WaitingUse>) {
        let (mut all, mut peers) = (WaitingUse::default(), BTreeMap::<_, WaitingUse>::new());
        for copy in self.waiting.values().flat_map(|waiting| &waiting.copies) {
            all.add(&copy.content);
            peers.entry(copy.from).or_default().add(&copy.content);
        }
        (all, peers)
    }

    fn has_room(&self, from: PeerId, bytes: usize) -> bool {
        let (all, peers) = self.waiting_use();
        let own = peers.get(&from).copied().unwrap_or_default();
        own.copies < PEER_BLOCKS_MAX
            && own.bytes.saturating_add(bytes) <= PEER_WAITING_BYTES_MAX
            && all.copies < BLOCKS_WAITING_MAX
            && all.bytes.saturating_add(bytes) <= WAITING_BYTES_MAX
    }

    /// Makes room for a block of `from`: the newest blocks of whoever has most go. `false` if that
    /// is `from` itself.
    pub(super) fn make_room(&mut self, from: PeerId, bytes: usize, now: Moment) -> bool {
        while !self.has_room(from, bytes) {
            let (all, mut peers) = self.waiting_use();
            let own = peers.remove(&from).unwrap_or_default();
            let is_number = all.copies >= BLOCKS_WAITING_MAX;
            let weight = |of: &WaitingUse| if is_number { of.copies } else { of.bytes };
            let own = weight(&own) + if is_number { 1 } else { bytes };
            let largest = peers.iter().max_by_key(|(_, of)| weight(of));
            let Some(largest) = largest.filter(|(_, of)| weight(of) > own).map(|(peer, _)| *peer) else {
                return false;
            };
            let newest = self
                .waiting
                .iter()
                .filter(|(_, waiting)| waiting.may_lose(largest));
            let newest = newest.max_by_key(|(_, waiting)| (waiting.since, waiting.number));
            let Some(newest) = newest.map(|(hash, _)| *hash) else {
                return false;
            };
            self.drop_copy(&newest, largest, now);
        }
        true
    }

    /// Drops what waits of a peer that has lost its place.
    pub(super) fn drop_blocks_of(&mut self, peer: PeerId, now: Moment) {
        let lost = self.waiting.iter().filter(|(_, waiting)| waiting.may_lose(peer));
        let lost: Vec<_> = lost.map(|(hash, _)| *hash).collect();
        for hash in lost {
            self.drop_copy(&hash, peer, now);
        }
    }

    /// Drops a peer's copy of a block, and the block if there is no other copy. The others that
    /// have the block are asked for it. If none of them can be, the synchronization hears of one.
    pub(super) fn drop_copy(&mut self, hash: &B256, peer: PeerId, now: Moment) {
        let Some(waiting) = self.waiting.get_mut(hash) else {
            return;
        };
        if !waiting.may_lose(peer) {
            return;
        }
        waiting.copies.retain(|copy| copy.from != peer);
        if waiting.stage == BlockStage::Checking(peer) {
            waiting.stage = BlockStage::Ready;
        }
        match waiting.copies.first() {
            Some(other) => waiting.from = other.from,
            None => {
                let fetch = self.announced.remove(hash);
                let gone = self.drop_waiting(hash);
                self.announced.extend(fetch.map(|fetch| (*hash, fetch)));
                let is_asked_for = self.fetch_again(hash, peer, now);
                // Others may have it, and blocks that build on it.
                for (lost, WaitingBlock { number, from, .. }) in gone {
                    if lost == *hash && is_asked_for {
                        continue;
                    }
                    let sender = (from != peer).then_some(from);
                    if let Some(other) = sender.or_else(|| self.other_owner(&lost, peer)) {
                        let blocks = vec![AnnouncedBlock { hash: lost, number }];
                        self.news(PeerNews::DistantAnnouncement { peer: other, blocks });
                    }
                }
            }
        }
    }

    /// A peer other than `peer` that has sent or announced a block.
    fn other_owner(&self, hash: &B256, peer: PeerId) -> Option<PeerId> {
        let owners = self.active_peers(|state| state.known_blocks.contains(hash));
        owners.into_iter().find(|owner| *owner != peer)
    }

    /// Hands out checks while some may begin. Peers take turns, and of each peer the block that
    /// came first is next.
    pub(super) fn begin_checks(&mut self) {
        while self.checking.len() < CHECKS_MAX {
            let is_busy = |peer: PeerId| self.checking.iter().any(|(of, _)| *of == peer);
            let mut next: BTreeMap<PeerId, (Duration, u64, B256)> = BTreeMap::new();
            for (hash, waiting) in &self.waiting {
                if waiting.stage != BlockStage::Ready {
                    continue;
                }
                // The shortest copy costs the least.
                let copies = waiting.copies.iter().filter(|copy| !is_busy(copy.from));
                if let Some(copy) = copies.min_by_key(|copy| copy.content.size()) {
                    let place = (waiting.since, waiting.number, *hash);
                    let first = next.entry(copy.from).or_insert(place);
                    *first = place.min(*first);
                }
            }
            let after = (Bound::Excluded(self.last_checked), Bound::Unbounded);
            let turn = next.range(after).next().or_else(|| next.first_key_value());
            let Some((from, (.., hash))) = turn.map(|(from, place)| (*from, *place)) else {
                return;
            };
            let Some(waiting) = self.waiting.get_mut(&hash) else {
                return;
            };
            let Some(copy) = waiting.copies.iter().find(|copy| copy.from == from) else {
                return;
            };
            let content = copy.content.clone();
            waiting.stage = BlockStage::Checking(from);
            self.checking.push((from, hash));
            self.last_checked = from;
            self.actions.push(match content {
                BlockContent::Header(header) => PeerAction::CheckHeader { from, hash, header },
                BlockContent::Whole(block) => PeerAction::Check { from, hash, block },
            });
        }
    }

    /// The time at which blocks have waited long enough for their parents.
    pub(super) fn parents_deadline(&self) -> Option<Duration> {
        let waiting = self.waiting.values();
        let waiting = waiting.filter(|waiting| waiting.stage == BlockStage::Parent);
        waiting.map(|waiting| waiting.since + PARENT_WAIT).min()
    }

    /// Begins to check the blocks whose parents are stored by now.
    pub(super) fn check_waiting(&mut self, now: Moment) {
        let ready: Vec<_> = self
            .waiting
            .iter()
            .filter(|(_, waiting)| waiting.stage == BlockStage::Parent)
            .filter(|(_, waiting)| !self.waiting.contains_key(&waiting.parent))
            .map(|(hash, waiting)| (*hash, waiting.parent))
            .collect();
        for (hash, parent) in ready {
            let is_stored = self.stored_difficulty(&parent).is_some();
            let Some(waiting) = self.waiting.get_mut(&hash) else {
                continue;
            };
            if is_stored {
                waiting.stage = BlockStage::Ready;
            } else if now.elapsed >= waiting.since + PARENT_WAIT {
                self.leave_to_synchronization(&hash);
            }
        }
        self.begin_checks();
    }

    /// Removes a block and those that build on it. Returns them.
    pub(super) fn drop_waiting(&mut self, hash: &B256) -> Vec<(B256, WaitingBlock)> {
        let (mut left, mut gone) = (vec![*hash], Vec::new());
        while let Some(hash) = left.pop() {
            gone.extend(self.waiting.remove(&hash).map(|waiting| (hash, waiting)));
            self.end_fetch(&hash);
            let children = self.waiting.iter().filter(|(_, waiting)| waiting.parent == hash);
            left.extend(children.map(|(child, _)| *child));
        }
        gone
    }
}
