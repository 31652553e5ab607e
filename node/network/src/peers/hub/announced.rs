//! Announced blocks: each is fetched once.
//!
//! The whole block often comes by itself, so [`ANNOUNCED_WAIT`] passes first. Then one of those
//! that announced it is asked for the header. The body is asked for when the header's seal was
//! checked. Whoever does not answer within [`FETCH_PATIENCE`] does not hold up the block: the next
//! one is asked, too.

use std::sync::Arc;
use std::time::Duration;

use primitives::{B256, Block, EMPTY_ROOT, EMPTY_UNCLES_HASH, Header};

use super::super::interface::{PeerId, PeerNews};
use super::waiting::{BlockContent, BlockStage};
use super::{PeerHub, RequestNote};
use crate::messages::{AnnouncedBlock, HeadersRequest, HeadersStart, PackedBlock, PeerBody, PeerMessage};
use crate::moment::Moment;

/// Announced blocks of one peer that are not here yet.
pub(crate) const ANNOUNCEMENTS_MAX: usize = 256;
/// An announced block is waited for this long before it is asked for.
const ANNOUNCED_WAIT: Duration = Duration::from_millis(400);
/// One peer is waited for this long before another one is asked, too.
pub(super) const FETCH_PATIENCE: Duration = Duration::from_millis(500);
/// Peers that are remembered to have announced a block.
const ANNOUNCERS_MAX: usize = 16;
/// The announced blocks in a row that do not come and cost a peer its place.
const EMPTY_ANNOUNCEMENTS_MAX: u32 = 16;

#[derive(Clone, Debug)]
enum FetchStage {
    /// The block is asked for after this time.
    Waiting(Duration),
    /// The header is asked for. After this time the next peer is asked, too.
    Header(Duration),
    /// The header is good, and the body is asked for. After this time the next peer is asked, too.
    Body(Arc<Header>, Duration),
    /// The header or the whole block waits for a check.
    Here,
}

#[derive(Clone, Copy, Debug)]
struct Announcer {
    peer: PeerId,
    /// The number that it says the block has.
    number: u64,
}

#[derive(Clone, Debug)]
pub(super) struct AnnouncedFetch {
    /// The peers that have it and were not asked yet. The next one to ask is last.
    announcers: Vec<Announcer>,
    /// The peers that were asked and have not answered.
    asked: Vec<Announcer>,
    stage: FetchStage,
}

impl AnnouncedFetch {
    pub(super) const fn deadline(&self) -> Option<Duration> {
        match self.stage {
            FetchStage::Waiting(until) => Some(until),
            FetchStage::Header(until) | FetchStage::Body(_, until) if !self.announcers.is_empty() => {
                Some(until)
            }
            FetchStage::Header(_) | FetchStage::Body(..) | FetchStage::Here => None,
        }
    }

    /// Notes that a peer has answered, or will not. Returns what it had announced.
    fn answered(&mut self, peer: PeerId) -> Option<Announcer> {
        let at = self.asked.iter().position(|announcer| announcer.peer == peer)?;
        Some(self.asked.swap_remove(at))
    }
}

impl PeerHub {
    /// A peer says that it has blocks.
    pub(super) fn blocks_announced(&mut self, peer: PeerId, blocks: &[AnnouncedBlock], now: Moment) {
        let mut distant = Vec::new();
        for block in blocks {
            let Some(state) = self.peers.get_mut(&peer) else {
                return;
            };
            // Blocks that the peer has sent or announced before are looked up no more.
            if !state.known_blocks.add(block.hash) {
                continue;
            }
            let is_full = state.announcements >= ANNOUNCEMENTS_MAX;
            if !self.is_near(block.number) {
                if block.number > self.head.number {
                    distant.push(*block);
                }
                continue;
            }
            if is_full {
                continue;
            }
            let stage = match self.waiting.get(&block.hash).map(|waiting| waiting.stage) {
                Some(BlockStage::Importing) => continue,
                Some(_) => FetchStage::Here,
                None if self.stored_difficulty(&block.hash).is_some() => continue,
                None => FetchStage::Waiting(now.elapsed + ANNOUNCED_WAIT),
            };
            self.note_announcer(peer, block, stage);
        }
        if !distant.is_empty() {
            let blocks = distant;
            self.news(PeerNews::DistantAnnouncement { peer, blocks });
        }
    }

    fn note_announcer(&mut self, peer: PeerId, block: &AnnouncedBlock, stage: FetchStage) {
        let Some(state) = self.peers.get_mut(&peer) else {
            return;
        };
        let fetch = self.announced.entry(block.hash);
        let fetch = fetch.or_insert_with(|| AnnouncedFetch {
            announcers: Vec::new(),
            asked: Vec::new(),
            stage,
        });
        if fetch.announcers.len() < ANNOUNCERS_MAX {
            let number = block.number;
            // The first one that announced the block is asked first.
            fetch.announcers.insert(0, Announcer { peer, number });
            state.announcements += 1;
        }
    }

    /// A peer has a block, and was asked for it, but its answer is not used. It may be asked once
    /// more.
    pub(super) fn may_be_asked_again(&mut self, peer: PeerId, hash: B256, number: u64) {
        if let Some(fetch) = self.announced.get_mut(&hash)
            && let Some(state) = self.peers.get_mut(&peer)
            && state.announcements < ANNOUNCEMENTS_MAX
        {
            fetch.announcers.push(Announcer { peer, number });
            state.announcements += 1;
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
            self.ask_next(hash, now);
        }
    }

    /// Asks the next peer for an announced block: for its header, or for its body if the header is
    /// good.
    fn ask_next(&mut self, hash: B256, now: Moment) {
        loop {
            let Some(fetch) = self.announced.get_mut(&hash) else {
                return;
            };
            let Some(next) = fetch.announcers.pop() else {
                if fetch.asked.is_empty() {
                    self.announced.remove(&hash);
                    self.body_does_not_come(&hash);
                }
                return;
            };
            if let Some(state) = self.peers.get_mut(&next.peer) {
                state.announcements -= 1;
            }
            if !matches!(fetch.stage, FetchStage::Body(..)) {
                fetch.stage = FetchStage::Header(now.elapsed);
            }
            if self.ask_announcer(next, hash, now) {
                return;
            }
        }
    }

    /// Asks a peer for the header of a block, or for its body if the header is good. `false` if the
    /// peer is gone or has too many requests.
    fn ask_announcer(&mut self, announcer: Announcer, hash: B256, now: Moment) -> bool {
        let Some(fetch) = self.announced.get_mut(&hash) else {
            return true;
        };
        let until = now.elapsed + FETCH_PATIENCE;
        fetch.asked.push(announcer);
        let is_asked = match &mut fetch.stage {
            FetchStage::Waiting(_) | FetchStage::Here => false,
            FetchStage::Header(next) => {
                *next = until;
                let request = HeadersRequest {
                    start: HeadersStart::Hash(hash),
                    amount: 1,
                    skip: 0,
                    reverse: false,
                };
                let message = |id| PeerMessage::GetBlockHeaders(id, request);
                self.ask(announcer.peer, RequestNote::Header(hash), message, now)
            }
            FetchStage::Body(_, next) => {
                *next = until;
                let message = |id| PeerMessage::GetBlockBodies(id, vec![hash]);
                self.ask(announcer.peer, RequestNote::Body(hash), message, now)
            }
        };
        if !is_asked && let Some(fetch) = self.announced.get_mut(&hash) {
            fetch.answered(announcer.peer);
        }
        is_asked
    }

    pub(super) fn announced_header_came(
        &mut self,
        peer: PeerId,
        hash: B256,
        mut headers: Vec<Header>,
        now: Moment,
    ) {
        let Some(fetch) = self.announced.get_mut(&hash) else {
            // The whole block came in the meantime.
            return;
        };
        let header = headers.pop().filter(|_| headers.is_empty());
        let Some(header) = header.filter(|header| header.hash() == hash) else {
            self.fetch_failed(peer, hash, now);
            return;
        };
        let Some(Announcer { number: expected, .. }) = fetch.answered(peer) else {
            return;
        };
        let is_wanted = matches!(fetch.stage, FetchStage::Header(_));
        if header.number != expected {
            if is_wanted {
                self.ask_next(hash, now);
            }
            let text = format!(
                "announced block {hash}: number: got {}, expected {expected}",
                header.number
            );
            self.breach(peer, &text, now);
            return;
        }
        if !is_wanted {
            self.may_be_asked_again(peer, hash, expected);
            return;
        }
        let is_empty = header.transactions_root == EMPTY_ROOT && header.uncles_hash == EMPTY_UNCLES_HASH;
        if is_empty {
            self.announced_body_is_here(peer, hash, header, PeerBody::default(), now);
            return;
        }
        self.take_fetched(peer, hash, BlockContent::Header(Arc::new(header)), now);
    }

    /// The header of an announced block is good. The peer that has sent it is asked for the body.
    pub(super) fn fetch_body(&mut self, peer: PeerId, hash: B256, header: Arc<Header>, now: Moment) {
        let number = header.number;
        let Some(fetch) = self.announced.get_mut(&hash) else {
            return self.leave_to_synchronization(&hash);
        };
        fetch.stage = FetchStage::Body(header, now.elapsed);
        if !self.ask_announcer(Announcer { peer, number }, hash, now) {
            self.ask_next(hash, now);
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
        let FetchStage::Body(header, _) = &fetch.stage else {
            if let Some(Announcer { number, .. }) = fetch.answered(peer)
                && bodies.len() == 1
            {
                self.may_be_asked_again(peer, hash, number);
            }
            return;
        };
        let header = (**header).clone();
        match bodies.pop().filter(|_| bodies.is_empty()) {
            Some(body) => {
                fetch.answered(peer);
                self.announced_body_is_here(peer, hash, header, body, now);
            }
            None => self.fetch_failed(peer, hash, now),
        }
    }

    fn announced_body_is_here(
        &mut self,
        peer: PeerId,
        hash: B256,
        header: Header,
        body: PeerBody,
        now: Moment,
    ) {
        self.counters.blocks_fetched += 1;
        if let Some(state) = self.peers.get_mut(&peer) {
            state.empty_announcements = 0;
        }
        let block = PackedBlock::pack(&Block {
            header,
            transactions: body.transactions,
            uncles: body.uncles,
        });
        self.take_fetched(peer, hash, BlockContent::Whole(Arc::new(block)), now);
    }

    /// Takes the header of an announced block, or all of it.
    fn take_fetched(&mut self, peer: PeerId, hash: B256, content: BlockContent, now: Moment) {
        let number = content.header().number;
        if !self.take_block(peer, hash, content, now) {
            // The parent is not here. The synchronization finds the way to it.
            self.end_fetch(&hash);
            let blocks = vec![AnnouncedBlock { hash, number }];
            self.news(PeerNews::DistantAnnouncement { peer, blocks });
        }
    }

    /// A peer did not deliver a block that it had announced. The next one is asked.
    pub(super) fn fetch_failed(&mut self, peer: PeerId, hash: B256, now: Moment) {
        let Some(fetch) = self.announced.get_mut(&hash) else {
            return;
        };
        fetch.answered(peer);
        if matches!(fetch.stage, FetchStage::Header(_) | FetchStage::Body(..)) {
            self.ask_next(hash, now);
        }
        if let Some(state) = self.peers.get_mut(&peer) {
            state.empty_announcements += 1;
            state.faults += 1;
            if state.empty_announcements >= EMPTY_ANNOUNCEMENTS_MAX {
                self.breach(peer, "announced blocks, but did not send them", now);
            }
        }
    }

    /// Nobody is left who could be asked for the body of a block.
    fn body_does_not_come(&mut self, hash: &B256) {
        let waiting = self.waiting.get(hash);
        if waiting.is_some_and(|waiting| waiting.stage == BlockStage::Fetching) {
            self.leave_to_synchronization(hash);
        }
    }

    /// A block waits for its check, so it need not be fetched unless that fails.
    pub(super) fn announced_block_is_here(&mut self, hash: &B256) {
        if let Some(fetch) = self.announced.get_mut(hash) {
            fetch.stage = FetchStage::Here;
        }
    }

    /// Drops what came of an announced block, such as a wrong body of `peer`. The peers that have
    /// announced the block are asked for it, and the answers of those that were asked are taken.
    /// Returns whether anybody but `peer` is left.
    pub(super) fn fetch_again(&mut self, hash: &B256, peer: PeerId, now: Moment) -> bool {
        let Some(fetch) = self.announced.get_mut(hash) else {
            return false;
        };
        if fetch.announcers.is_empty() && fetch.asked.is_empty() {
            self.end_fetch(hash);
            return false;
        }
        fetch.stage = FetchStage::Header(now.elapsed);
        let mut left = fetch.announcers.iter().chain(&fetch.asked);
        left.any(|announcer| announcer.peer != peer)
    }

    pub(super) fn end_fetch(&mut self, hash: &B256) {
        let Some(fetch) = self.announced.remove(hash) else {
            return;
        };
        for announcer in fetch.announcers {
            if let Some(state) = self.peers.get_mut(&announcer.peer) {
                state.announcements -= 1;
            }
        }
    }

    /// A peer is gone: it is not asked for what it has announced.
    pub(super) fn forget_announcer(&mut self, peer: PeerId) {
        let mut over = Vec::new();
        self.announced.retain(|hash, fetch| {
            fetch.announcers.retain(|announcer| announcer.peer != peer);
            fetch.asked.retain(|announcer| announcer.peer != peer);
            let is_here = matches!(fetch.stage, FetchStage::Here);
            let goes_on = is_here || !fetch.announcers.is_empty() || !fetch.asked.is_empty();
            over.extend((!goes_on).then_some(*hash));
            goes_on
        });
        for hash in over {
            self.body_does_not_come(&hash);
        }
    }
}
