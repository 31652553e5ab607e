//! Fetching bodies of the best header chain from all peers, and importing the blocks in order.
//!
//! A body that its header tells (an empty one) is not asked for. If the lowest missing body takes
//! long, a second peer is asked. If every peer lacks it for [`WITHHELD_TIME`], its header and what
//! builds on it go, and whoever gave the header loses its place.

use std::sync::Arc;
use std::time::Duration;

use chain::View;
use chain::import::PreparedBlock;
use chain::rules::body::plain_transactions;
use store::StoreError;

use super::comparisons::{ReceivedBodies, implausible_bodies};
use super::jobs::{ChainRefusal, SyncJob, WantedBody};
use super::roster::{OVERTAKE_TIME, QuestionKind, stalls};
use super::window::WINDOW_BLOCKS;
use super::{BUSY_PEER_TIME, CHAIN_RETRY, QuestionTopic, Synchronizer};
use crate::messages::{PeerBody, PeerMessage};
use crate::peers::{PeerId, PeerRequest, RequestTicket};

/// The most questions for bodies that are open at a time.
const BODY_QUESTIONS_MAX: usize = 16;
/// The most of them to one peer.
const PEER_QUESTIONS_MAX: u32 = 2;
/// The most bodies that come from headers for one job.
const PLAIN_MAX: usize = 512;
/// The most import jobs that are under way, so that the chain has the next one at once.
const IMPORTS_MAX: usize = 2;
/// A block whose body every peer lacks for this long is given up.
const WITHHELD_TIME: Duration = Duration::from_secs(6);

impl Synchronizer {
    /// Lets the window follow the best header chain.
    pub(super) fn follow_window(&mut self, view: &View) -> Result<(), StoreError> {
        let mut missing = view.missing_bodies(WINDOW_BLOCKS)?;
        if let Some(limit) = self.fill_limit {
            missing.retain(|id| id.number <= limit);
        }
        if missing.is_empty() && self.downloads.is_empty() {
            self.vouchers.clear();
        }
        self.window.follow(missing, |id| {
            let known = view.known_header(&id.hash)?;
            Ok::<_, StoreError>(known.map(|known| WantedBody {
                hash: id.hash,
                header: Arc::new(known.header),
            }))
        })
    }

    /// Imports what is here, and asks for what is not.
    pub(super) fn go_on_with_bodies(&mut self, view: &View) {
        if self.now < self.chain_pause {
            return;
        }
        if self.fill_limit.is_some() || !self.receipts.is_empty() {
            self.go_on_with_receipts();
        } else {
            self.import_ready();
        }
        if self.window.is_empty() {
            self.front = None;
            self.comparisons.forget_all();
            return;
        }
        self.take_plain_bodies(view);
        self.watch_front();
        self.ask_for_bodies();
        let roster = &self.roster;
        while let Some(job) = self.comparisons.next(|peer| roster.has_delivered(peer)) {
            self.actions.jobs.push(job);
        }
    }

    fn import_ready(&mut self) {
        while self.imports < IMPORTS_MAX {
            let blocks = self.window.take_ready();
            if blocks.is_empty() {
                return;
            }
            self.imports += 1;
            self.actions.jobs.push(SyncJob::Blocks(blocks));
        }
    }

    /// Hands over the bodies that the headers tell.
    fn take_plain_bodies(&mut self, view: &View) {
        let ticket = self.next_ticket();
        let plain = |wanted: &WantedBody| plain_transactions(view.spec(), &wanted.header);
        let found = self.window.take_plain(ticket, PLAIN_MAX, plain);
        if found.is_empty() {
            return;
        }
        let (wanted, transactions): (Vec<_>, Vec<_>) = found.into_iter().unzip();
        let bodies = transactions.into_iter().map(|transactions| PeerBody {
            transactions,
            uncles: Vec::new(),
        });
        let received = ReceivedBodies {
            peer: None,
            ticket,
            wanted,
            bodies: bodies.collect(),
            took: Duration::ZERO,
        };
        self.compare(received);
    }

    /// Lets bodies wait to be compared with headers.
    fn compare(&mut self, received: ReceivedBodies) {
        let (peer, ticket, bytes) = (received.peer, received.ticket, received.bytes());
        self.window.compare(ticket, bytes);
        if self.comparisons.add(bytes, received) {
            return;
        }
        // The bodies are asked for again when others are compared.
        self.window.release(ticket);
        let rest_until = self.now + BUSY_PEER_TIME;
        if let Some(entry) = peer.and_then(|peer| self.roster.get(peer)) {
            entry.batch = (entry.batch / 2).max(1);
            entry.rest_until = rest_until;
        }
    }

    /// Gives up the lowest missing body if every peer has said for long that it lacks it.
    fn watch_front(&mut self) {
        let Some(front) = self.window.first_missing() else {
            return;
        };
        let since = match self.front {
            Some((id, since)) if id == front => since,
            _ => {
                self.front = Some((front, self.now));
                return;
            }
        };
        let lacks = |(_, entry): (PeerId, &super::roster::RosterEntry)| {
            entry
                .lacks
                .is_some_and(|(number, hash, _)| number < front.number || hash == front.hash)
        };
        let nobody = self.roster.iter().next().is_none();
        if self.now.saturating_sub(since) < WITHHELD_TIME || nobody || !self.roster.iter().all(lacks) {
            return;
        }
        tracing::debug!(number = front.number, hash = %front.hash, "no peer has the body of a block");
        self.front = None;
        self.actions.jobs.push(SyncJob::Forget(front.hash));
        if let Some(peer) = self.vouchers.peer(&front.hash) {
            let (number, hash) = (front.number, front.hash);
            self.drop_peer(peer, stalls(format!("no body for its block {number} ({hash})")));
        }
    }

    fn ask_for_bodies(&mut self) {
        let is_bodies = |topic: &QuestionTopic| matches!(topic, QuestionTopic::Bodies(_));
        let open = self
            .questions
            .values()
            .filter(|question| is_bodies(&question.topic))
            .count();
        let mut room = BODY_QUESTIONS_MAX.saturating_sub(open);
        self.overtake();
        // A question to each peer, then another one, so that all share the work.
        for round in 0..PEER_QUESTIONS_MAX {
            for peer in self.roster.best_first(QuestionKind::Bodies, self.now) {
                let ticket = RequestTicket(self.tickets + 1);
                let now = self.now;
                let Some(entry) = self.roster.get(peer) else {
                    continue;
                };
                if room == 0 || entry.body_questions > round || now < entry.rest_until {
                    continue;
                }
                let (most, lacks) = (entry.batch, entry.lacks_from(now));
                let wanted = self.window.assign(peer, ticket, now, most, lacks);
                if !wanted.is_empty() {
                    room -= 1;
                    self.ask_bodies(peer, wanted);
                }
            }
        }
    }

    fn ask_bodies(&mut self, peer: PeerId, wanted: Vec<WantedBody>) {
        let ticket = self.next_ticket();
        let hashes = wanted.iter().map(|wanted| wanted.hash).collect();
        let topic = QuestionTopic::Bodies(wanted);
        self.ask(ticket, peer, PeerRequest::Bodies(hashes), topic);
    }

    /// Asks a second peer for the lowest missing body, if the first one takes long.
    fn overtake(&mut self) {
        let Some((slow, asked, since)) = self.window.waited_for() else {
            return;
        };
        // Each one that was asked has had some time.
        let waited = self.now.saturating_sub(since) / u32::try_from(asked).unwrap_or(u32::MAX);
        let Some(lowest) = self.window.first_missing() else {
            return;
        };
        let best = self.roster.best_first(QuestionKind::Bodies, self.now);
        let others = best.into_iter().filter(|peer| *peer != slow);
        let mut others = others.filter_map(|peer| Some((peer, self.roster.peek(peer)?)));
        let idle = others.find(|(_, entry)| {
            let is_idle = entry.body_questions == 0 && self.now >= entry.rest_until;
            let is_due = waited > entry.overtakes_after(QuestionKind::Bodies);
            is_idle && is_due && entry.lacks_from(self.now) > lowest.number
        });
        let Some((peer, entry)) = idle else { return };
        let (most, lacks) = (entry.batch, entry.lacks_from(self.now));
        let ticket = RequestTicket(self.tickets + 1);
        let wanted = self.window.assign_again(slow, peer, ticket, most, lacks);
        if wanted.is_empty() {
            return;
        }
        self.ask_bodies(peer, wanted);
        if waited > OVERTAKE_TIME
            && let Some(fault) = self.roster.overtaken(slow)
        {
            self.drop_peer(slow, fault);
        }
    }

    /// Takes an answer to a question for bodies.
    pub(super) fn bodies_answer(
        &mut self,
        view: &View,
        peer: PeerId,
        (ticket, wanted): (RequestTicket, Vec<WantedBody>),
        answer: PeerMessage,
        took: Duration,
    ) {
        let PeerMessage::BlockBodies(_, bodies) = answer else {
            self.window.release(ticket);
            return;
        };
        if bodies.is_empty() {
            self.window.release(ticket);
            self.lacks(peer, wanted.first());
            return;
        }
        if bodies.len() > wanted.len() {
            self.window.release(ticket);
            let (got, most) = (bodies.len(), wanted.len());
            self.drop_liar(peer, format!("bodies: got {got}, expected at most {most}"));
            return;
        }
        if let Some(text) = implausible_bodies(view.spec(), &wanted, &bodies) {
            self.window.release(ticket);
            self.drop_liar(peer, text);
            return;
        }
        self.compare(ReceivedBodies {
            peer: Some(peer),
            ticket,
            wanted,
            bodies,
            took,
        });
    }

    /// The peer lacks this block.
    fn lacks(&mut self, peer: PeerId, wanted: Option<&WantedBody>) {
        let now = self.now;
        if let Some(entry) = self.roster.get(peer)
            && let Some(wanted) = wanted
        {
            entry.lacks = Some((wanted.header.number, wanted.hash, now));
        }
    }

    /// Bodies were compared with headers.
    pub(super) fn bodies_compared(
        &mut self,
        ticket: RequestTicket,
        blocks: Vec<Option<Arc<PreparedBlock>>>,
        wrong: Option<usize>,
    ) {
        let Some(compared) = self.comparisons.done(ticket) else {
            return;
        };
        let found = blocks.iter().flatten().count();
        let is_prefix = blocks.iter().take(found).all(Option::is_some);
        let first_lacking = blocks.iter().position(Option::is_none);
        for block in blocks.into_iter().flatten() {
            self.window.put(block);
        }
        self.window.release(ticket);
        let Some(peer) = compared.peer else {
            if found < compared.came {
                // The store has failed.
                self.chain_pause = self.now + CHAIN_RETRY;
            }
            return;
        };
        if let Some(at) = wrong {
            let came = compared.came;
            self.drop_liar(
                peer,
                format!("body {at} of {came} is of no block that was asked for"),
            );
            return;
        }
        if found < compared.came {
            self.chain_pause = self.now + CHAIN_RETRY;
            return;
        }
        self.roster.delivered(peer);
        if let Some(entry) = self.roster.get(peer) {
            entry.bodies_came(compared.took, found == compared.wanted.len());
        }
        if !is_prefix {
            self.lacks(peer, first_lacking.and_then(|at| compared.wanted.get(at)));
        }
    }

    /// An import job has ended.
    pub(super) fn blocks_done(&mut self, stored: usize, refusal: Option<ChainRefusal>) {
        self.imports = self.imports.saturating_sub(1);
        self.window.stored(stored);
        let Some(refusal) = refusal else { return };
        self.window.import_ended();
        self.imports -= self.receipts.clear().min(self.imports);
        match refusal {
            ChainRefusal::Invalid { id, text } => {
                let peer = self.vouchers.peer(&id.hash);
                tracing::warn!(number = id.number, hash = %id.hash, error = text, "a block of a peer is invalid");
                self.actions.jobs.push(SyncJob::Forget(id.hash));
                if let Some(peer) = peer {
                    self.drop_liar(peer, format!("block {} ({}): {text}", id.number, id.hash));
                }
            }
            ChainRefusal::Unsuitable(text) => {
                tracing::warn!(error = text, "the heaviest chain cannot be followed");
                if let Some(front) = self.window.front() {
                    self.actions.jobs.push(SyncJob::Forget(front.hash));
                    if let Some(peer) = self.vouchers.peer(&front.hash) {
                        self.drop_peer(peer, stalls(text));
                    }
                }
            }
            ChainRefusal::Early(text) | ChainRefusal::NotNow(text) => {
                tracing::debug!(error = text, "blocks are not taken now");
                self.chain_pause = self.now + CHAIN_RETRY;
            }
        }
    }
}
