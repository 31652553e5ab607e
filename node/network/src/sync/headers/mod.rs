//! Fetching headers: a session with one peer whose claim is followed, with the help of all others.
//!
//! | stage | asked | of whom |
//! |---|---|---|
//! | head | the header of the claimed head, and some below it | the peer |
//! | ancestor | headers that show where its chain leaves ours | the peer |
//! | skeleton | every 192nd header | the peer |
//! | segments | what lies between | everyone |
//!
//! There is one session at a time. It ends when the claimed head is stored, or when it turns out
//! that the claim cannot be followed. A peer that keeps a session waiting loses it to the next
//! claim.

mod answers;

use std::time::Duration;

use chain::View;
use primitives::{B256, U256};
use store::StoreError;

use super::ancestor::{AncestorSearch, HeaderPoint};
use super::jobs::{ChainRefusal, SyncJob};
use super::roster::{OVERTAKE_TIME, OpenHead, QuestionKind, stalls};
use super::segments::{SEGMENT_HEADERS, SegmentFill};
use super::vouchers::linked_hashes;
use super::{
    CHAIN_RETRY, CLAIM_RETRY, EARLY_RETRY, ENDLESS_HEADERS, HEADER_LEAD_MAX, QuestionTopic, Synchronizer,
};
use crate::messages::{HeadersRequest, HeadersStart};
use crate::peers::{PeerId, PeerRequest, RequestTicket};

/// Headers that are asked for together with the claimed head. A short gap needs no other question.
const HEAD_HEADERS: u64 = 32;
/// The most headers of a skeleton.
const SKELETON_HEADERS: u64 = 128;
/// The most headers of a job, but for those of the last segment.
const JOB_HEADERS: usize = 1024;
/// A session whose peer lets it wait for longer than this ends, if there are other claims.
const PATIENCE: Duration = Duration::from_secs(2);
/// The same for a peer that has not answered anything yet. Its answer still tells how quick it is.
const FIRST_PATIENCE: Duration = Duration::from_millis(500);
/// So many skeletons that do not fit cost a peer its place.
const BROKEN_MAX: u32 = 3;

/// What the peer of a session is asked, or another one for it.
#[derive(Clone, Debug)]
pub(super) enum SessionQuestion {
    /// The head and some headers below it.
    Head,
    /// Where the chains part.
    Ancestor,
    /// Every 192nd header from this one on.
    Skeleton(u64),
    /// The segment with this highest header: the headers from the second hash downwards.
    Segment(B256, B256),
}

#[derive(Clone, Debug)]
enum SessionStage {
    Head,
    Ancestor(AncestorSearch),
    Skeleton,
    Segments(SegmentFill),
}

/// A claim that is being followed.
#[derive(Clone, Debug)]
pub(super) struct HeaderSession {
    id: u64,
    /// Whose claim it is.
    master: PeerId,
    /// The claimed head.
    target: B256,
    /// Its number, once its header is here.
    target_number: Option<u64>,
    /// The total difficulty that the peer claims; `None` if it only announced the block.
    claimed: Option<U256>,
    stage: SessionStage,
    /// The highest header of the peer's chain that is stored here.
    tip: HeaderPoint,
    /// Where the chain leaves ours.
    base: u64,
    /// The open question to the master, and since when it is open.
    open: Option<(RequestTicket, Duration)>,
    /// Since when the lowest segment is the lowest.
    lowest_since: Duration,
    broken: u32,
}

impl HeaderSession {
    /// The number of the head that is claimed, once its header is here.
    pub(super) const fn target_number(&self) -> Option<u64> {
        self.target_number
    }
}

/// Headers that the chain is checking.
#[derive(Clone, Debug)]
pub(super) struct HeadersInWork {
    session: u64,
    master: PeerId,
    target: B256,
    hashes: Vec<B256>,
    end: HeaderPoint,
}

impl Synchronizer {
    /// Ends the session. Answers to its questions will be of no use.
    pub(super) fn end_session(&mut self) {
        self.session = None;
    }

    /// Ends the session. The claim is looked at again later.
    fn postpone(&mut self, master: PeerId, target: &B256) {
        self.end_session();
        self.roster.postpone(master, target, self.now + CLAIM_RETRY);
    }

    /// Ends the session. The claim is of no use, or was followed to its end.
    fn settle(&mut self, master: PeerId, target: &B256) {
        self.end_session();
        self.roster.settle(master, target);
    }

    /// The peer of the session lies.
    fn end_with_liar(&mut self, master: PeerId, text: String) {
        self.end_session();
        self.drop_liar(master, text);
    }

    pub(super) fn session_peer_left(&mut self, peer: PeerId) {
        let Some(session) = &mut self.session else { return };
        if session.master == peer {
            self.end_session();
        } else if let SessionStage::Segments(fill) = &mut session.stage {
            fill.remove_peer(peer);
        }
    }

    /// Goes on with the session, or begins one.
    pub(super) fn go_on_with_headers(&mut self, view: &View) -> Result<(), StoreError> {
        self.give_way();
        if self.session.is_none() {
            self.begin_session(view)?;
        }
        // Each turn either ends, or goes on to another stage.
        while let Some(mut session) = self.session.take() {
            let go_on = self.advance(&mut session);
            // An ended session is not put back.
            if go_on.ended {
                break;
            }
            self.session = Some(session);
            if !go_on.again {
                break;
            }
        }
        Ok(())
    }

    /// Ends a session whose peer lets it wait, if there are other claims. A hint gives way to
    /// anything.
    fn give_way(&mut self) {
        let Some(session) = &self.session else { return };
        let Some((_, since)) = session.open else { return };
        let (master, target) = (session.master, session.target);
        let is_hint = session.claimed.is_none();
        let usual = self
            .roster
            .get(master)
            .and_then(|entry| entry.usual_time(QuestionKind::Headers));
        // Whoever is new gets another chance soon.
        let (patience, retry) = match usual {
            Some(_) => (PATIENCE, CLAIM_RETRY),
            None => (FIRST_PATIENCE, PATIENCE),
        };
        let waits = self.now.saturating_sub(since) > patience;
        let open = self.roster.open_heads(self.chain.best.total_difficulty);
        let others = open.iter().any(|head| {
            let counts = is_hint || head.total_difficulty.is_some();
            counts && head.peer != master && head.look_at <= self.now
        });
        if waits && others {
            self.end_session();
            self.roster.postpone(master, &target, self.now + retry);
            if let Some(fault) = self.roster.overtaken(master) {
                self.drop_peer(master, fault);
            }
        }
    }

    fn begin_session(&mut self, view: &View) -> Result<(), StoreError> {
        if self.headers_job.is_some() || self.now < self.chain_pause {
            return Ok(());
        }
        for head in self.roster.open_heads(self.chain.best.total_difficulty) {
            let OpenHead {
                peer,
                hash: target,
                total_difficulty: claimed,
                look_at,
            } = head;
            if look_at > self.now {
                continue;
            }
            if let Some(known) = view.known_header(&target)? {
                self.roster.settle(peer, &target);
                self.check_claim(peer, claimed, known.total_difficulty);
                continue;
            }
            self.sessions += 1;
            self.session = Some(HeaderSession {
                id: self.sessions,
                master: peer,
                target,
                target_number: None,
                claimed,
                stage: SessionStage::Head,
                tip: HeaderPoint {
                    number: 0,
                    hash: self.genesis,
                },
                base: 0,
                open: None,
                lowest_since: self.now,
                broken: 0,
            });
            return Ok(());
        }
        Ok(())
    }

    /// A peer must not claim more than its head has.
    fn check_claim(&mut self, peer: PeerId, claimed: Option<U256>, expected: U256) {
        if let Some(claimed) = claimed.filter(|claimed| *claimed > expected) {
            self.drop_liar(
                peer,
                format!("total difficulty of its head: got {claimed}, expected {expected}"),
            );
        }
    }

    /// Asks what the stage of the session needs.
    fn advance(&mut self, session: &mut HeaderSession) -> Turn {
        match &mut session.stage {
            SessionStage::Head => {
                let request = HeadersRequest {
                    start: HeadersStart::Hash(session.target),
                    amount: HEAD_HEADERS,
                    skip: 0,
                    reverse: true,
                };
                self.ask_master(session, request, SessionQuestion::Head);
                Turn::WAITS
            }
            SessionStage::Ancestor(search) => match search.found() {
                Some(found) => {
                    session.tip = found;
                    session.base = found.number;
                    session.stage = SessionStage::Skeleton;
                    Turn::GOES_ON
                }
                None => {
                    let request = search.request();
                    self.ask_master(session, request, SessionQuestion::Ancestor);
                    Turn::WAITS
                }
            },
            SessionStage::Skeleton => self.advance_skeleton(session),
            SessionStage::Segments(_) => self.advance_segments(session),
        }
    }

    fn advance_skeleton(&mut self, session: &mut HeaderSession) -> Turn {
        let target = HeaderPoint {
            number: session.target_number.unwrap_or(0),
            hash: session.target,
        };
        if self.chain.best.number > self.chain.head.saturating_add(HEADER_LEAD_MAX) {
            return Turn::WAITS;
        }
        let left = target.number.saturating_sub(session.tip.number);
        if left <= SEGMENT_HEADERS {
            session.stage = SessionStage::Segments(SegmentFill::new(session.tip, &[target]));
            session.lowest_since = self.now;
            return Turn::GOES_ON;
        }
        let first = session.tip.number + SEGMENT_HEADERS;
        let request = HeadersRequest {
            start: HeadersStart::Number(first),
            amount: ((left - 1) / SEGMENT_HEADERS).min(SKELETON_HEADERS),
            skip: SEGMENT_HEADERS - 1,
            reverse: false,
        };
        self.ask_master(session, request, SessionQuestion::Skeleton(first));
        Turn::WAITS
    }

    fn advance_segments(&mut self, session: &mut HeaderSession) -> Turn {
        let SessionStage::Segments(fill) = &mut session.stage else {
            return Turn::WAITS;
        };
        if self.headers_job.is_none() && self.now >= self.chain_pause {
            match fill.take_complete(JOB_HEADERS) {
                Ok(headers) if headers.is_empty() => {}
                Ok(headers) => {
                    session.lowest_since = self.now;
                    self.headers_job = Some(HeadersInWork {
                        session: session.id,
                        master: session.master,
                        target: session.target,
                        hashes: linked_hashes(&headers),
                        end: fill.below(),
                    });
                    self.actions.jobs.push(SyncJob::Headers(headers));
                }
                Err(text) => {
                    // The peer may have changed its chain meanwhile. It may do so a few times.
                    session.broken += 1;
                    if session.broken >= BROKEN_MAX {
                        self.drop_liar(session.master, text);
                        return Turn::ENDED;
                    }
                    session.stage = SessionStage::Head;
                    return Turn::GOES_ON;
                }
            }
        }
        if fill.is_empty() {
            if self.headers_job.is_none() {
                session.stage = SessionStage::Skeleton;
                return if Some(session.tip.number) >= session.target_number {
                    self.settle(session.master, &session.target);
                    Turn::ENDED
                } else {
                    Turn::GOES_ON
                };
            }
            return Turn::WAITS;
        }
        let waited = self.now.saturating_sub(session.lowest_since);
        let mut orders = Vec::new();
        let mut overtaken = None;
        for (peer, entry) in self.roster.iter() {
            if entry.header_questions > 0 || self.now < entry.rest_until {
                continue;
            }
            if overtaken.is_none()
                && waited > entry.overtakes_after(QuestionKind::Headers)
                && let Some((slow, top, request)) = fill.assign_again(peer)
            {
                overtaken = Some(slow);
                session.lowest_since = self.now;
                orders.push((peer, top, request));
            } else if let Some((top, request)) = fill.assign(peer) {
                orders.push((peer, top, request));
            }
        }
        for (peer, top, request) in orders {
            let HeadersStart::Hash(first) = request.start else {
                continue;
            };
            let ticket = self.next_ticket();
            let topic = QuestionTopic::Session(session.id, SessionQuestion::Segment(top, first));
            self.ask(ticket, peer, PeerRequest::Headers(request), topic);
        }
        if let Some(slow) = overtaken.filter(|_| waited > OVERTAKE_TIME)
            && let Some(fault) = self.roster.overtaken(slow)
        {
            fill.remove_peer(slow);
            self.drop_peer(slow, fault);
            if slow == session.master {
                return Turn::ENDED;
            }
        }
        Turn::WAITS
    }

    /// Asks the master, unless a question is open.
    fn ask_master(
        &mut self,
        session: &mut HeaderSession,
        request: HeadersRequest,
        question: SessionQuestion,
    ) {
        if session.open.is_some() {
            return;
        }
        let ticket = self.next_ticket();
        session.open = Some((ticket, self.now));
        let topic = QuestionTopic::Session(session.id, question);
        self.ask(ticket, session.master, PeerRequest::Headers(request), topic);
    }

    /// A question of a session will have no answer.
    pub(super) fn session_unanswered(&mut self, peer: PeerId, id: u64, question: &SessionQuestion) {
        let Some(session) = self.session.as_mut().filter(|session| session.id == id) else {
            return;
        };
        match (question, &mut session.stage) {
            (SessionQuestion::Segment(top, _), SessionStage::Segments(fill)) => fill.release(top, peer),
            (SessionQuestion::Segment(..), _) => {}
            _ => {
                let (master, target) = (session.master, session.target);
                self.postpone(master, &target);
            }
        }
    }

    /// The chain has checked and stored headers, or not.
    pub(super) fn headers_done(
        &mut self,
        view: &View,
        result: Result<(), ChainRefusal>,
    ) -> Result<(), StoreError> {
        let Some(job) = self.headers_job.take() else {
            return Ok(());
        };
        let HeadersInWork {
            session: id,
            master,
            target,
            hashes,
            end,
        } = job;
        match result {
            Ok(()) => {
                self.vouchers.add(master, hashes);
                self.read_chain(view)?;
                self.headers_stored(view, id, end)
            }
            Err(refusal) => {
                if self.session.as_ref().is_some_and(|session| session.id == id) {
                    self.postpone(master, &target);
                }
                match refusal {
                    ChainRefusal::Invalid { text, .. } => self.drop_liar(master, text),
                    ChainRefusal::Unsuitable(text) => self.drop_peer(master, stalls(text)),
                    ChainRefusal::Early(text) => {
                        // Nobody else's headers wait for it.
                        tracing::debug!(text, "headers are not taken yet");
                        self.roster.postpone(master, &target, self.now + EARLY_RETRY);
                    }
                    ChainRefusal::NotNow(text) => {
                        tracing::debug!(text, "headers are not taken now");
                        self.chain_pause = self.now + CHAIN_RETRY;
                        self.roster.postpone(master, &target, self.chain_pause);
                    }
                }
                Ok(())
            }
        }
    }

    fn headers_stored(&mut self, view: &View, id: u64, end: HeaderPoint) -> Result<(), StoreError> {
        let Some(session) = self.session.as_mut().filter(|session| session.id == id) else {
            return Ok(());
        };
        session.tip = end;
        session.lowest_since = self.now;
        let (master, target, base, claimed) = (session.master, session.target, session.base, session.claimed);
        let weight = view.known_header(&end.hash)?.map(|known| known.total_difficulty);
        let Some(weight) = weight else {
            // There was no space for it among heavier ones.
            self.settle(master, &target);
            return Ok(());
        };
        if end.hash == target {
            self.settle(master, &target);
            self.check_claim(master, claimed, weight);
            return Ok(());
        }
        let ours = self.chain.best.number.saturating_sub(base);
        let theirs = end.number.saturating_sub(base);
        let bound = ours.saturating_mul(2).saturating_add(ENDLESS_HEADERS);
        if weight < self.chain.best.total_difficulty && theirs > bound {
            let expected = self.chain.best.total_difficulty;
            let text = format!(
                "a branch of {theirs} headers has total difficulty {weight}, expected more than {expected}"
            );
            self.end_with_liar(master, text);
        }
        Ok(())
    }
}

/// How a turn of a session ended.
#[derive(Clone, Copy, Debug)]
struct Turn {
    ended: bool,
    again: bool,
}

impl Turn {
    const WAITS: Self = Self {
        ended: false,
        again: false,
    };
    const GOES_ON: Self = Self {
        ended: false,
        again: true,
    };
    const ENDED: Self = Self {
        ended: true,
        again: false,
    };
}
