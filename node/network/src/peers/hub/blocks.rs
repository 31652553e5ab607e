//! New blocks: from a peer or from here, to the pool of waiting blocks, the import and other peers.
//!
//! A block has cost nobody any work before its seal is right. So a block whose parent is stored is
//! checked in the order of cost: the header's rules, the seal, the roots of the body, which stays
//! packed until then. A block that passes goes whole to the square root of the peers, then is
//! imported; its hash goes to the others after that. A block whose parent waits here waits, too.
//! This module is for blocks near the head. Other blocks are told to the synchronization.
//!
//! A header that breaks a rule or has a wrong seal costs the place of all who sent it, and all that
//! waits of them is dropped. A wrong body is dropped and counted, because old nodes pass a block on
//! before they look at its body. A block that is invalid in spite of its seal costs nobody a place,
//! however often it comes: it goes round before anybody executes it. Which block is checked next is
//! in `waiting`, how announced blocks are fetched in `announced`.

use std::sync::Arc;
use std::time::Duration;

use primitives::{B256, Block, U256};

use super::super::action::PeerAction;
use super::super::chain_access::{BlockFault, ChainHead, ImportResult};
use super::super::interface::{PeerFault, PeerId, PeerNews};
use super::PeerHub;
use super::peer::PeerState;
use super::waiting::{BlockContent, BlockStage, WaitingBlock};
use crate::messages::{AnnouncedBlock, PackedBlock, PeerMessage};
use crate::moment::Moment;
use crate::rlpx::RlpxDisconnect;

/// Blocks up to this far above the head are imported without the synchronization.
pub(crate) const NEAR_ABOVE: u64 = 32;
/// Blocks up to this far below the head can be of use as uncles.
pub(crate) const NEAR_BELOW: u64 = 7;
/// The blocks in a row too far ahead of the clock that cost a peer its place. The peer may come
/// back at once, because this node's clock may be the wrong one.
pub(crate) const AHEAD_BLOCKS_MAX: u32 = 16;
/// The wrong bodies in a row that cost a peer its place. The peer may come back at once, because
/// old nodes pass on blocks of which they have checked the header only.
pub(crate) const WRONG_BODIES_MAX: u32 = 4;

impl PeerHub {
    pub(super) const fn is_near(&self, number: u64) -> bool {
        let head = self.head.number;
        number <= head.saturating_add(NEAR_ABOVE) && number.saturating_add(NEAR_BELOW) >= head
    }

    /// A peer has sent a whole block.
    pub(super) fn block_came(
        &mut self,
        peer: PeerId,
        block: Arc<PackedBlock>,
        total_difficulty: U256,
        now: Moment,
    ) {
        self.counters.blocks_received += 1;
        let hash = block.hash();
        let Some(state) = self.peers.get_mut(&peer) else {
            return;
        };
        state.known_blocks.add(hash);
        let (parent, difficulty) = (block.header().parent_hash, block.header().difficulty);
        // The peer may not have imported the block itself, but it has the parent.
        if self.take_block(peer, hash, BlockContent::Whole(block), now) {
            // The weight is known here, so what the peer says does not count.
            if let Some(known) = self.stored_difficulty(&parent) {
                self.raise_head(peer, parent, known);
            }
        } else {
            self.raise_head(peer, parent, total_difficulty.saturating_sub(difficulty));
            self.news(PeerNews::DistantBlock {
                peer,
                hash,
                total_difficulty,
            });
        }
    }

    fn raise_head(&mut self, peer: PeerId, head: B256, total_difficulty: U256) {
        let state = self.peers.get_mut(&peer);
        if state.is_some_and(|state| state.raise_head(head, total_difficulty)) {
            self.news(PeerNews::Head {
                peer,
                head,
                total_difficulty,
            });
        }
    }

    /// Begins to check a block, or lets it wait. `false` if it is for the synchronization.
    pub(super) fn take_block(
        &mut self,
        from: PeerId,
        hash: B256,
        content: BlockContent,
        now: Moment,
    ) -> bool {
        self.check_waiting(now);
        if self.waiting.contains_key(&hash) {
            self.announced_block_is_here(&hash);
            self.take_copy(from, hash, content, now);
            return true;
        }
        if self.stored_difficulty(&hash).is_some() {
            self.end_fetch(&hash);
            return true;
        }
        let (number, parent) = (content.header().number, content.header().parent_hash);
        if !self.is_near(number) {
            return false;
        }
        let stage = if self.waiting.contains_key(&parent) {
            BlockStage::Parent
        } else if self.stored_difficulty(&parent).is_some() {
            BlockStage::Ready
        } else {
            return false;
        };
        if !self.make_room(from, content.size(), now) {
            return false;
        }
        let waiting = WaitingBlock::new(from, content, stage, now.elapsed);
        self.waiting.insert(hash, waiting);
        self.announced_block_is_here(&hash);
        self.begin_checks();
        true
    }

    /// Takes the result of [`PeerAction::CheckHeader`].
    pub fn header_checked(
        &mut self,
        from: PeerId,
        hash: &B256,
        result: Result<(), BlockFault>,
        now: Moment,
    ) -> Vec<PeerAction> {
        self.checking.retain(|check| *check != (from, *hash));
        match result {
            Ok(()) => self.header_is_good(from, hash, now),
            Err(fault) => self.block_is_refused(from, hash, fault, now),
        }
        self.begin_checks();
        self.take_actions()
    }

    /// The header of an announced block is good: the body is asked for, unless it is here.
    fn header_is_good(&mut self, from: PeerId, hash: &B256, now: Moment) {
        let Some(waiting) = self.waiting.get_mut(hash) else {
            return;
        };
        if waiting.stage != BlockStage::Checking(from) {
            return;
        }
        let Some(at) = waiting.copies.iter().position(|copy| copy.from == from) else {
            return;
        };
        let BlockContent::Header(header) = waiting.copies.swap_remove(at).content else {
            return;
        };
        if let Some(other) = waiting.copies.first() {
            (waiting.stage, waiting.from) = (BlockStage::Ready, other.from);
            // The body of the other copy may be the wrong one.
            self.may_be_asked_again(from, *hash, header.number);
            return;
        }
        // The header stays here, because other blocks may build on it.
        waiting.stage = BlockStage::Fetching;
        self.fetch_body(from, *hash, header, now);
    }

    /// Takes the result of [`PeerAction::Check`].
    pub fn checked(
        &mut self,
        from: PeerId,
        hash: &B256,
        result: Result<Box<Block>, BlockFault>,
        now: Moment,
    ) -> Vec<PeerAction> {
        self.checking.retain(|check| *check != (from, *hash));
        match result {
            Ok(block) => self.block_is_good(from, hash, block),
            Err(fault) => self.block_is_refused(from, hash, fault, now),
        }
        self.begin_checks();
        self.take_actions()
    }

    fn block_is_good(&mut self, from: PeerId, hash: &B256, block: Box<Block>) {
        let Some(waiting) = self.waiting.get_mut(hash) else {
            return;
        };
        if waiting.stage != BlockStage::Checking(from) {
            return;
        }
        waiting.copies.retain(|copy| copy.from == from);
        (waiting.stage, waiting.from) = (BlockStage::Importing, from);
        let packed = match waiting.copies.first().map(|copy| &copy.content) {
            Some(BlockContent::Whole(packed)) => Arc::clone(packed),
            _ => return,
        };
        self.end_fetch(hash);
        if let Some(state) = self.peers.get_mut(&from) {
            (state.blocks_ahead, state.wrong_bodies) = (0, 0);
        }
        if let Some(parent) = self.stored_difficulty(&block.header.parent_hash) {
            let total_difficulty = parent.saturating_add(block.header.difficulty);
            self.tell_whole(packed, total_difficulty);
        }
        self.actions.push(PeerAction::Import { hash: *hash, block });
    }

    fn block_is_refused(&mut self, from: PeerId, hash: &B256, fault: BlockFault, now: Moment) {
        match fault {
            BlockFault::Header(reason) => {
                let copies = self
                    .drop_waiting(hash)
                    .into_iter()
                    .filter(|(gone, _)| gone == hash);
                let senders = copies.flat_map(|(_, waiting)| waiting.copies);
                let mut senders: Vec<_> = senders.map(|copy| copy.from).collect();
                senders.extend((!senders.contains(&from)).then_some(from));
                for sender in senders {
                    self.breach(sender, &format!("block {hash}: {reason}"), now);
                }
            }
            BlockFault::Body(reason) => {
                tracing::debug!(%hash, reason, "a peer has sent a wrong body");
                self.drop_copy(hash, from, now);
                // The peer may announce the right one later.
                if let Some(state) = self.peers.get_mut(&from) {
                    state.known_blocks.remove(hash);
                }
                let text = format!("wrong bodies; the last, of block {hash}: {reason}");
                self.count_fault(
                    from,
                    |state| &mut state.wrong_bodies,
                    WRONG_BODIES_MAX,
                    &text,
                    now,
                );
            }
            BlockFault::KnownInvalid(reason) => {
                tracing::debug!(%hash, reason, "a block of a peer is invalid");
                self.drop_waiting(hash);
            }
            BlockFault::Ahead(reason) => {
                tracing::debug!(%hash, reason, "a block of a peer is not imported");
                self.leave_to_synchronization(hash);
                let text = format!("blocks ahead of the clock; the last: {reason}");
                self.count_fault(
                    from,
                    |state| &mut state.blocks_ahead,
                    AHEAD_BLOCKS_MAX,
                    &text,
                    now,
                );
            }
            BlockFault::NotNow(reason) => {
                tracing::debug!(%hash, reason, "a block of a peer is not imported");
                self.leave_to_synchronization(hash);
            }
        }
    }

    /// Counts a fault. `row` is the number of faults of its kind in a row; `most` of them cost the
    /// peer its place. The node may come back at once.
    fn count_fault(
        &mut self,
        from: PeerId,
        row: fn(&mut PeerState) -> &mut u32,
        most: u32,
        text: &str,
        now: Moment,
    ) {
        let Some(state) = self.peers.get_mut(&from) else {
            return;
        };
        state.faults += 1;
        let row = row(state);
        *row += 1;
        if *row >= most {
            let fault = PeerFault {
                text: format!("{most} {text}"),
                disconnect: RlpxDisconnect::Subprotocol,
                banned: Duration::ZERO,
            };
            self.punish(from, &fault, now);
        }
    }

    /// Takes the result of [`PeerAction::Import`].
    pub fn imported(&mut self, hash: &B256, result: &ImportResult, now: Moment) -> Vec<PeerAction> {
        let waiting = self.waiting.get(hash).map(|waiting| waiting.number);
        match (result, waiting) {
            (ImportResult::Good, Some(number)) => {
                self.waiting.remove(hash);
                self.counters.blocks_imported += 1;
                self.tell_hash(*hash, number);
                self.check_waiting(now);
            }
            (ImportResult::Later, Some(_)) => {
                // Peers cannot have it from here yet. They are told when it becomes the head.
                self.waiting.remove(hash);
                self.told.remove(hash);
            }
            (ImportResult::Good | ImportResult::Later, None) => {}
            (ImportResult::Invalid(reason), _) => {
                // Peers that passed the block on have checked the seal only, as this node does.
                tracing::debug!(%hash, reason, "a block of a peer is invalid");
                self.drop_waiting(hash);
            }
            (ImportResult::Failed(reason), _) => {
                tracing::debug!(%hash, reason, "a block of a peer is not imported");
                self.leave_to_synchronization(hash);
            }
        }
        self.take_actions()
    }

    /// A block cannot be imported now, for a reason that says nothing about it. The
    /// synchronization looks for it and those that build on it later.
    pub(super) fn leave_to_synchronization(&mut self, hash: &B256) {
        for (hash, WaitingBlock { number, from, .. }) in self.drop_waiting(hash) {
            let blocks = vec![AnnouncedBlock { hash, number }];
            self.news(PeerNews::DistantAnnouncement { peer: from, blocks });
        }
    }

    /// Whether peers were told of the block, or are about to be.
    pub fn has_told(&self, hash: &B256) -> bool {
        self.told.contains(hash) || self.waiting.contains_key(hash)
    }

    /// Tells peers of a block that was imported without them, such as one that was made here.
    pub fn announce(&mut self, block: &Block, total_difficulty: U256) -> Vec<PeerAction> {
        let hash = block.hash();
        if !self.has_told(&hash) {
            self.tell_whole(Arc::new(PackedBlock::pack(block)), total_difficulty);
        }
        self.tell_hash(hash, block.header.number);
        self.take_actions()
    }

    /// Tells the hash of the head to the peers that were not told, because they have joined while
    /// others were told.
    pub fn announce_head(&mut self) -> Vec<PeerAction> {
        self.tell_hash(self.head.hash, self.head.number);
        self.take_actions()
    }

    /// Tells a peer whose Status fits of the head, if it has moved since this node's Status.
    pub(super) fn tell_newer_head(&mut self, peer: PeerId) {
        let ChainHead { hash, number, .. } = self.head;
        if let Some(state) = self.peers.get_mut(&peer)
            && state.told_head != hash
            && state.known_blocks.add(hash)
        {
            let blocks = vec![AnnouncedBlock { hash, number }];
            self.send(peer, PeerMessage::NewBlockHashes(blocks));
        }
    }

    /// Sends a block to the square root of the peers that do not have it.
    fn tell_whole(&mut self, block: Arc<PackedBlock>, total_difficulty: U256) {
        let hash = block.hash();
        self.told.add(hash);
        let mut to = self.active_peers(|state| !state.known_blocks.contains(&hash));
        let count = Self::whole_share(to.len());
        self.entropy.shuffle(&mut to);
        to.truncate(count);
        to.sort_unstable();
        for peer in &to {
            if let Some(state) = self.peers.get_mut(peer) {
                state.known_blocks.add(hash);
            }
        }
        self.send_to_all(to, PeerMessage::NewBlock(block, total_difficulty));
    }

    /// Sends the hash of an imported block to the peers that do not have it.
    fn tell_hash(&mut self, hash: B256, number: u64) {
        self.told.add(hash);
        let to = self.active_peers(|state| !state.known_blocks.contains(&hash));
        for peer in &to {
            if let Some(state) = self.peers.get_mut(peer) {
                state.known_blocks.add(hash);
            }
        }
        self.send_to_all(
            to,
            PeerMessage::NewBlockHashes(vec![AnnouncedBlock { hash, number }]),
        );
    }
}
