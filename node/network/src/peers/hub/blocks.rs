//! New blocks: from a peer or from here, to the pool of waiting blocks, the import and other peers.
//!
//! A block whose parent is stored is checked without executing it, then goes whole to the square
//! root of the peers, then is imported; its hash goes to the others after that. A block whose
//! parent waits here waits, too. Announced blocks are fetched once: the header first, after
//! [`ANNOUNCED_WAIT`], because the whole block often comes by itself. All of this is for blocks
//! near the head. What is further away is told to the synchronization.

use std::time::Duration;

use primitives::{B256, Block, EMPTY_ROOT, EMPTY_UNCLES_HASH, Header, U256};

use super::super::action::PeerAction;
use super::super::chain_access::{ChainHead, ImportResult};
use super::super::interface::{PeerFault, PeerId, PeerNews};
use super::{FAULT_BAN, PeerHub, RequestNote};
use crate::messages::{AnnouncedBlock, HeadersRequest, HeadersStart, PeerBody, PeerMessage};
use crate::moment::Moment;
use crate::rlpx::RlpxDisconnect;

/// A block may be so far above the head to be imported outside of the synchronization.
pub const NEAR_ABOVE: u64 = 32;
/// A block may be so far below the head to be of use as an uncle.
pub const NEAR_BELOW: u64 = 7;
/// Blocks that wait or are imported.
pub const BLOCKS_WAITING_MAX: usize = 256;
/// Blocks of one peer that wait or are imported.
const PEER_BLOCKS_MAX: usize = 64;
/// Announced blocks of one peer that are not here yet.
pub const ANNOUNCEMENTS_MAX: usize = 256;
/// How long an announced block is waited for before it is asked for.
const ANNOUNCED_WAIT: Duration = Duration::from_millis(400);
/// How long a block waits for its parent.
const PARENT_WAIT: Duration = Duration::from_secs(60);
/// Peers that are remembered to have announced a block.
const ANNOUNCERS_MAX: usize = 16;
/// So many announced blocks in a row that do not come cost a peer its place.
const EMPTY_ANNOUNCEMENTS_MAX: u32 = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BlockStage {
    /// Its parent waits here.
    Parent,
    Checking,
    Importing,
}

/// A block that is not imported yet.
#[derive(Clone, Debug)]
pub(super) struct WaitingBlock {
    /// `None` while it is imported.
    block: Option<Box<Block>>,
    number: u64,
    parent: B256,
    from: PeerId,
    since: Duration,
    stage: BlockStage,
}

#[derive(Clone, Debug)]
enum FetchStage {
    /// It is asked for after this time.
    Waiting(Duration),
    /// A peer is asked.
    Header,
    /// The header is here, a peer is asked for the body.
    Body(Box<Header>),
}

/// A block that was announced.
#[derive(Clone, Debug)]
pub(super) struct AnnouncedFetch {
    number: u64,
    /// Who has it and was not asked yet. The next one to ask is last.
    peers: Vec<PeerId>,
    stage: FetchStage,
}

impl AnnouncedFetch {
    pub(super) const fn deadline(&self) -> Option<Duration> {
        match self.stage {
            FetchStage::Waiting(until) => Some(until),
            FetchStage::Header | FetchStage::Body(_) => None,
        }
    }
}

impl PeerHub {
    const fn is_near(&self, number: u64) -> bool {
        let head = self.head.number;
        number <= head.saturating_add(NEAR_ABOVE) && number.saturating_add(NEAR_BELOW) >= head
    }

    /// A peer has sent a whole block.
    pub(super) fn block_came(
        &mut self,
        peer: PeerId,
        block: Box<Block>,
        total_difficulty: U256,
        now: Moment,
    ) {
        self.counters.blocks_received += 1;
        let hash = block.hash();
        let Some(state) = self.peers.get_mut(&peer) else {
            return;
        };
        state.known_blocks.add(hash);
        // The peer may not have imported the block itself, but it has the parent.
        let parent_difficulty = total_difficulty.saturating_sub(block.header.difficulty);
        if state.raise_head(block.header.parent_hash, parent_difficulty) {
            self.news(PeerNews::Head {
                peer,
                head: block.header.parent_hash,
                total_difficulty: parent_difficulty,
            });
        }
        self.announced.remove(&hash);
        if !self.take_block(peer, hash, block, now) {
            self.news(PeerNews::DistantBlock {
                peer,
                hash,
                total_difficulty,
            });
        }
    }

    /// Begins to check a block, or lets it wait. `false` if it is for the synchronization.
    fn take_block(&mut self, from: PeerId, hash: B256, block: Box<Block>, now: Moment) -> bool {
        self.check_waiting(now);
        if self.waiting.contains_key(&hash) || self.stored_difficulty(&hash).is_some() {
            return true;
        }
        let (number, parent) = (block.header.number, block.header.parent_hash);
        if !self.is_near(number) {
            return false;
        }
        let stage = if self.waiting.contains_key(&parent) {
            BlockStage::Parent
        } else if self.stored_difficulty(&parent).is_some() {
            BlockStage::Checking
        } else {
            return false;
        };
        let of_peer = self
            .waiting
            .values()
            .filter(|waiting| waiting.from == from)
            .count();
        if self.waiting.len() >= BLOCKS_WAITING_MAX || of_peer >= PEER_BLOCKS_MAX {
            return false;
        }
        if stage == BlockStage::Checking {
            let block = block.clone();
            self.actions.push(PeerAction::Check { hash, block });
        }
        self.waiting.insert(
            hash,
            WaitingBlock {
                block: Some(block),
                number,
                parent,
                from,
                since: now.elapsed,
                stage,
            },
        );
        true
    }

    /// Takes the result of [`PeerAction::Check`].
    pub fn checked(&mut self, hash: &B256, result: &ImportResult, now: Moment) -> Vec<PeerAction> {
        match result {
            ImportResult::Good | ImportResult::Later => self.block_is_good(*hash),
            ImportResult::Invalid(reason) => {
                let from = self.waiting.get(hash).map(|waiting| waiting.from);
                self.drop_waiting(hash);
                if let Some(from) = from {
                    let fault = PeerFault {
                        text: format!("block {hash}: {reason}"),
                        disconnect: RlpxDisconnect::Subprotocol,
                        banned: FAULT_BAN,
                    };
                    self.punish(from, &fault, now);
                }
            }
            ImportResult::Failed(reason) => {
                tracing::debug!(%hash, reason, "a block of a peer is not imported");
                self.leave_to_synchronization(hash);
            }
        }
        self.take_actions()
    }

    fn block_is_good(&mut self, hash: B256) {
        let Some(waiting) = self.waiting.get_mut(&hash) else {
            return;
        };
        let Some(block) = waiting.block.take() else { return };
        waiting.stage = BlockStage::Importing;
        if let Some(parent) = self.stored_difficulty(&block.header.parent_hash) {
            let total_difficulty = parent.saturating_add(block.header.difficulty);
            self.tell_whole(hash, &block, total_difficulty);
        }
        self.actions.push(PeerAction::Import { hash, block });
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
                // Whoever passed the block on has checked the seal only, as this node does.
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

    /// Removes a block and those that build on it. Returns them.
    fn drop_waiting(&mut self, hash: &B256) -> Vec<(B256, WaitingBlock)> {
        let (mut left, mut gone) = (vec![*hash], Vec::new());
        while let Some(hash) = left.pop() {
            gone.extend(self.waiting.remove(&hash).map(|waiting| (hash, waiting)));
            let children = self.waiting.iter().filter(|(_, waiting)| waiting.parent == hash);
            left.extend(children.map(|(child, _)| *child));
        }
        gone
    }

    /// A block cannot be imported now, for a reason that says nothing about it. The
    /// synchronization looks for it and those that build on it later.
    fn leave_to_synchronization(&mut self, hash: &B256) {
        for (hash, WaitingBlock { number, from, .. }) in self.drop_waiting(hash) {
            let blocks = vec![AnnouncedBlock { hash, number }];
            self.news(PeerNews::DistantAnnouncement { peer: from, blocks });
        }
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
            if is_stored && let Some(block) = waiting.block.clone() {
                waiting.stage = BlockStage::Checking;
                self.actions.push(PeerAction::Check { hash, block });
            } else if now.elapsed >= waiting.since + PARENT_WAIT {
                self.leave_to_synchronization(&hash);
            }
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
            self.tell_whole(hash, block, total_difficulty);
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
    fn tell_whole(&mut self, hash: B256, block: &Block, total_difficulty: U256) {
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
        let message = PeerMessage::NewBlock(Box::new(block.clone()), total_difficulty);
        self.send_to_all(to, message);
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

    /// A peer says that it has blocks.
    pub(super) fn blocks_announced(&mut self, peer: PeerId, blocks: &[AnnouncedBlock], now: Moment) {
        let mut distant = Vec::new();
        let has_announced = |fetch: &&AnnouncedFetch| fetch.peers.contains(&peer);
        let mut of_peer = self.announced.values().filter(has_announced).count();
        for block in blocks {
            let Some(state) = self.peers.get_mut(&peer) else {
                return;
            };
            state.known_blocks.add(block.hash);
            if self.waiting.contains_key(&block.hash) || self.stored_difficulty(&block.hash).is_some() {
                continue;
            }
            if !self.is_near(block.number) {
                if block.number > self.head.number {
                    distant.push(*block);
                }
                continue;
            }
            if of_peer >= ANNOUNCEMENTS_MAX {
                continue;
            }
            let fetch = self
                .announced
                .entry(block.hash)
                .or_insert_with(|| AnnouncedFetch {
                    number: block.number,
                    peers: Vec::new(),
                    stage: FetchStage::Waiting(now.elapsed + ANNOUNCED_WAIT),
                });
            if fetch.peers.len() < ANNOUNCERS_MAX && !fetch.peers.contains(&peer) {
                // The first one that announced the block is asked first.
                fetch.peers.insert(0, peer);
                of_peer += 1;
            }
        }
        if !distant.is_empty() {
            let blocks = distant;
            self.news(PeerNews::DistantAnnouncement { peer, blocks });
        }
    }

    /// Asks for the announced blocks whose time has come.
    pub(super) fn fetch_announced(&mut self, now: Moment) {
        let due: Vec<_> = self
            .announced
            .iter()
            .filter(|(_, fetch)| fetch.deadline().is_some_and(|deadline| deadline <= now.elapsed))
            .map(|(hash, _)| *hash)
            .collect();
        for hash in due {
            self.fetch(hash, now);
        }
    }

    /// Asks the next peer for the header of an announced block.
    fn fetch(&mut self, hash: B256, now: Moment) {
        loop {
            let Some(fetch) = self.announced.get_mut(&hash) else {
                return;
            };
            let Some(peer) = fetch.peers.pop() else {
                self.announced.remove(&hash);
                return;
            };
            fetch.stage = FetchStage::Header;
            let request = HeadersRequest {
                start: HeadersStart::Hash(hash),
                amount: 1,
                skip: 0,
                reverse: false,
            };
            let message = |id| PeerMessage::GetBlockHeaders(id, request);
            if self.ask(peer, RequestNote::Header(hash), message, now) {
                return;
            }
        }
    }

    pub(super) fn announced_header_came(
        &mut self,
        peer: PeerId,
        hash: B256,
        mut headers: Vec<Header>,
        now: Moment,
    ) {
        let Some(fetch) = self.announced.get(&hash) else {
            // The whole block came in the meantime.
            return;
        };
        let expected = fetch.number;
        let header = headers.pop().filter(|_| headers.is_empty());
        let Some(header) = header.filter(|header| header.hash() == hash) else {
            self.fetch_failed(peer, hash, now);
            return;
        };
        if header.number != expected {
            self.announced.remove(&hash);
            let text = format!(
                "announced block {hash}: number: got {}, expected {expected}",
                header.number
            );
            self.breach(peer, &text, now);
            return;
        }
        if header.transactions_root == EMPTY_ROOT && header.uncles_hash == EMPTY_UNCLES_HASH {
            self.announced_block_is_here(peer, hash, header, PeerBody::default(), now);
            return;
        }
        let message = |id| PeerMessage::GetBlockBodies(id, vec![hash]);
        if let Some(fetch) = self.announced.get_mut(&hash) {
            fetch.stage = FetchStage::Body(Box::new(header));
        }
        if !self.ask(peer, RequestNote::Body(hash), message, now) {
            self.fetch_failed(peer, hash, now);
        }
    }

    pub(super) fn announced_body_came(
        &mut self,
        peer: PeerId,
        hash: B256,
        mut bodies: Vec<PeerBody>,
        now: Moment,
    ) {
        let Some(fetch) = self.announced.get_mut(&hash) else {
            return;
        };
        let FetchStage::Body(header) = &fetch.stage else {
            return;
        };
        let header = (**header).clone();
        match bodies.pop().filter(|_| bodies.is_empty()) {
            Some(body) => self.announced_block_is_here(peer, hash, header, body, now),
            None => self.fetch_failed(peer, hash, now),
        }
    }

    fn announced_block_is_here(
        &mut self,
        peer: PeerId,
        hash: B256,
        header: Header,
        body: PeerBody,
        now: Moment,
    ) {
        self.announced.remove(&hash);
        self.counters.blocks_fetched += 1;
        if let Some(state) = self.peers.get_mut(&peer) {
            state.empty_announcements = 0;
        }
        let block = Box::new(Block {
            header,
            transactions: body.transactions,
            uncles: body.uncles,
        });
        let number = block.header.number;
        if !self.take_block(peer, hash, block, now) {
            // Its parent is not here. The synchronization finds the way to it.
            let blocks = vec![AnnouncedBlock { hash, number }];
            self.news(PeerNews::DistantAnnouncement { peer, blocks });
        }
    }

    /// A peer did not deliver a block that it had announced. The next one is asked.
    pub(super) fn fetch_failed(&mut self, peer: PeerId, hash: B256, now: Moment) {
        if !self.announced.contains_key(&hash) {
            return;
        }
        self.fetch(hash, now);
        if let Some(state) = self.peers.get_mut(&peer) {
            state.empty_announcements += 1;
            if state.empty_announcements >= EMPTY_ANNOUNCEMENTS_MAX {
                self.breach(peer, "announced blocks, but did not send them", now);
            }
        }
    }

    /// A peer is gone: it is not asked for what it has announced.
    pub(super) fn forget_announcer(&mut self, peer: PeerId) {
        self.announced.retain(|_, fetch| {
            fetch.peers.retain(|announcer| *announcer != peer);
            !fetch.peers.is_empty() || fetch.deadline().is_none()
        });
    }
}
