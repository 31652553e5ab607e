//! Blocks that are not executed, because the state of a later block is fetched: their receipts are
//! fetched, too, and compared with the headers before the chain gets both.
//!
//! The window of bodies gives the blocks in order. They wait here until the receipts of all are
//! here. A block without transactions has none.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use chain::import::{FilledBlock, PreparedBlock};
use chain::trie::ordered_root;
use primitives::{EMPTY_ROOT, Receipt, ReceiptForm};

use super::jobs::SyncJob;
use super::roster::QuestionKind;
use super::{BUSY_PEER_TIME, QuestionTopic, Synchronizer};
use crate::messages::PeerMessage;
use crate::peers::{PeerId, PeerRequest, RequestTicket};

/// Jobs whose blocks wait for receipts or are written.
pub(super) const FILLS_MAX: usize = 8;
/// The receipts of so many blocks are asked for at once.
const ASKED_BLOCKS: usize = 64;
/// The most questions for receipts that are open at a time.
const QUESTIONS_MAX: usize = 8;
/// A peer that has no receipts of what it is asked for rests for this long.
const LACKING_TIME: Duration = Duration::from_secs(10);

/// The receipts of a block.
#[derive(Clone, Debug)]
enum Receipts {
    Wanted,
    Asked(RequestTicket),
    Here(Arc<Vec<Receipt>>),
}

#[derive(Clone, Debug)]
struct UnfilledBlock {
    block: Arc<PreparedBlock>,
    receipts: Receipts,
}

/// Blocks that wait for their receipts: a list for each job, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct ReceiptQueue {
    jobs: VecDeque<Vec<UnfilledBlock>>,
}

impl ReceiptQueue {
    pub(super) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    fn add(&mut self, blocks: Vec<Arc<PreparedBlock>>) {
        let waiting = |block: Arc<PreparedBlock>| UnfilledBlock {
            receipts: if block.block.header.receipts_root == EMPTY_ROOT {
                Receipts::Here(Arc::default())
            } else {
                Receipts::Wanted
            },
            block,
        };
        self.jobs.push_back(blocks.into_iter().map(waiting).collect());
    }

    /// The first job, if all of its receipts are here.
    fn take_complete(&mut self) -> Option<Vec<FilledBlock>> {
        let is_here = |waiting: &UnfilledBlock| matches!(waiting.receipts, Receipts::Here(_));
        let first = self.jobs.pop_front_if(|job| job.iter().all(is_here))?;
        let filled = first.into_iter().filter_map(|waiting| match waiting.receipts {
            Receipts::Here(receipts) => Some(FilledBlock {
                prepared: waiting.block,
                receipts,
            }),
            _ => None,
        });
        Some(filled.collect())
    }

    /// Chooses blocks whose receipts nobody is asked for.
    fn assign(&mut self, ticket: RequestTicket) -> Vec<Arc<PreparedBlock>> {
        let wanted = self.jobs.iter_mut().flatten();
        wanted
            .filter(|waiting| matches!(waiting.receipts, Receipts::Wanted))
            .take(ASKED_BLOCKS)
            .map(|waiting| {
                waiting.receipts = Receipts::Asked(ticket);
                waiting.block.clone()
            })
            .collect()
    }

    /// The question gets no answer, or had one: what is not here is wanted again.
    pub(super) fn release(&mut self, ticket: RequestTicket) {
        for waiting in self.jobs.iter_mut().flatten() {
            if matches!(waiting.receipts, Receipts::Asked(one) if one == ticket) {
                waiting.receipts = Receipts::Wanted;
            }
        }
    }

    fn put(&mut self, block: &PreparedBlock, receipts: Vec<Receipt>) {
        let mut waiting = self.jobs.iter_mut().flatten();
        if let Some(waiting) = waiting.find(|waiting| waiting.block.hash == block.hash) {
            waiting.receipts = Receipts::Here(Arc::new(receipts));
        }
    }

    /// Forgets all. Returns the number of jobs that waited.
    pub(super) fn clear(&mut self) -> usize {
        std::mem::take(&mut self.jobs).len()
    }
}

impl Synchronizer {
    /// Blocks up to this number are not executed, and those above wait; `None`: all are executed.
    /// Returns whether this is a change, so that [`Self::on_time`] must be called.
    pub(crate) fn fill_to(&mut self, limit: Option<u64>) -> bool {
        if self.fill_limit == limit {
            return false;
        }
        self.fill_limit = limit;
        self.is_stale = true;
        // Miners get work when the blocks above the state are here, too.
        self.progress.far_behind |= limit.is_none();
        true
    }

    /// Lets blocks wait for their receipts, and hands over those that have them.
    pub(super) fn go_on_with_receipts(&mut self) {
        while self.fill_limit.is_some() && self.imports < FILLS_MAX {
            let blocks = self.window.take_ready();
            if blocks.is_empty() {
                break;
            }
            self.imports += 1;
            self.receipts.add(blocks);
        }
        while let Some(blocks) = self.receipts.take_complete() {
            self.actions.jobs.push(SyncJob::Fill(blocks));
        }
        self.ask_for_receipts();
    }

    fn ask_for_receipts(&mut self) {
        let is_receipts = |topic: &QuestionTopic| matches!(topic, QuestionTopic::Receipts(_));
        let topics = self
            .questions
            .values()
            .map(|question| (question.peer, &question.topic));
        let asked: Vec<PeerId> = topics
            .filter(|(_, topic)| is_receipts(topic))
            .map(|(peer, _)| peer)
            .collect();
        let mut room = QUESTIONS_MAX.saturating_sub(asked.len());
        for peer in self.roster.best_first(QuestionKind::Bodies, self.now) {
            let now = self.now;
            let is_idle = self
                .roster
                .get(peer)
                .is_some_and(|entry| now >= entry.rest_until && now >= entry.no_receipts_until);
            if room == 0 || !is_idle || asked.contains(&peer) {
                continue;
            }
            let ticket = self.next_ticket();
            let wanted = self.receipts.assign(ticket);
            if wanted.is_empty() {
                return;
            }
            room -= 1;
            let hashes = wanted.iter().map(|block| block.hash).collect();
            self.ask(
                ticket,
                peer,
                PeerRequest::Receipts(hashes),
                QuestionTopic::Receipts(wanted),
            );
        }
    }

    /// Takes an answer to a question for receipts. Lists may be missing; those that came are in
    /// order.
    pub(super) fn receipts_answer(
        &mut self,
        peer: PeerId,
        (ticket, wanted): (RequestTicket, Vec<Arc<PreparedBlock>>),
        answer: PeerMessage,
        form: ReceiptForm,
    ) {
        let PeerMessage::Receipts(_, lists) = answer else {
            self.receipts.release(ticket);
            return;
        };
        let (came, asked) = (lists.len(), wanted.len());
        let mut rest = wanted.iter();
        for (at, list) in lists.into_iter().enumerate() {
            let root = ordered_root(list.iter().map(|receipt| receipt.encode(form)));
            let Some(block) = rest.find(|block| block.block.header.receipts_root == root) else {
                self.receipts.release(ticket);
                self.drop_liar(
                    peer,
                    format!("receipts {at} of {came} are of none of the {asked} blocks that were asked for"),
                );
                return;
            };
            self.receipts.put(block, list);
        }
        self.receipts.release(ticket);
        let now = self.now;
        if let Some(entry) = self.roster.get(peer) {
            if came == 0 {
                entry.no_receipts_until = now + LACKING_TIME;
            } else if came < asked {
                entry.no_receipts_until = now + BUSY_PEER_TIME / 10;
            }
        }
    }
}
