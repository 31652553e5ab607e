//! The memory of the synchronization about each peer: the chain that it claims to have, and its
//! answers.
//!
//! A claim is a hash and a total difficulty. Whether it is true shows when its headers are here. A
//! hint is a hash only: the peer has announced a block and did not say how heavy its chain is.
//!
//! A peer that lies loses its place at once. One that does not answer, that others overtake, or
//! that takes much longer than the others usually do ([`Roster::answered`]) loses it after a few
//! times. If it is only slow, it may come back at once.

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use primitives::{B256, B512, U256};

use super::claims::UnfulfilledClaims;
use crate::messages::AnnouncedBlock;
use crate::peers::{PeerFacts, PeerFault, PeerId};
use crate::rlpx::RlpxDisconnect;

/// The time for which a peer that has lied may not come back.
const LIE_BAN: Duration = Duration::from_secs(3600);
/// The time for which a peer that does not answer and has given nothing of use may not come back.
const STALL_BAN: Duration = Duration::from_secs(300);
/// The questions in a row without an answer in time that cost the place.
const LATE_MAX: u32 = 3;
/// The answers later than those of another peer, which was asked later, that cost the place.
const OVERTAKEN_MAX: u32 = 6;
/// So often a peer is asked for a head that it has told of and does not have: for half a minute.
const MISSES_MAX: u32 = 6;
/// The downloads below the least rate that cost the place.
const FAILED_DOWNLOADS_MAX: u32 = 2;
/// So often the time doubles after which headers that are ahead of the clock are looked at again.
const EARLY_DOUBLINGS: u32 = 3;
/// The answers in a row that took much longer than those of others and cost the place.
const SLOW_MAX: u32 = 6;
/// An answer that takes this many times as long as those of others is slow,
const SLOWER_TIMES: u32 = 4;
/// unless it takes less than this. Distant peers have long round trips.
const SLOW_MIN: Duration = Duration::from_secs(1);
/// After this time another peer is asked for what a peer does not send, and that counts against it.
pub(super) const OVERTAKE_TIME: Duration = Duration::from_millis(1500);
/// If the other peer is known to be quick, it is asked after so many times its usual time,
const OVERTAKE_TIMES: u32 = 3;
/// but not before this time.
const OVERTAKE_MIN: Duration = Duration::from_millis(300);
/// The share of a new time in the usual one is one of so many.
const SMOOTHING: u32 = 4;
/// Bodies of a peer's first question.
const FIRST_BATCH: usize = 32;
/// The most bodies of a question: what every node answers with.
const BATCH_MAX: usize = 128;
/// An answer within this time makes the next question larger.
const QUICK: Duration = Duration::from_millis(500);
/// An answer after this time makes the next question smaller.
const SLOW: Duration = Duration::from_secs(2);
/// A peer is not asked for this long for bodies that it has said to lack.
const LACKING_TIME: Duration = Duration::from_secs(2);

/// The purpose of a question. The times of answers are compared with those of the same kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QuestionKind {
    Headers,
    Bodies,
}

/// The time that a peer usually takes for an answer.
#[derive(Clone, Copy, Debug, Default)]
struct AnswerTimes {
    headers: Option<Duration>,
    bodies: Option<Duration>,
}

impl AnswerTimes {
    const fn of(&mut self, kind: QuestionKind) -> &mut Option<Duration> {
        match kind {
            QuestionKind::Headers => &mut self.headers,
            QuestionKind::Bodies => &mut self.bodies,
        }
    }
}

/// A head that a peer has told of.
#[derive(Clone, Debug)]
struct ToldHead {
    hash: B256,
    /// The total difficulty with it; `None` if the peer did not say.
    total_difficulty: Option<U256>,
    /// The head is not looked at before this time.
    look_at: Duration,
    /// The head is known to be of no use, or was followed to its end.
    settled: bool,
    /// The number of times that the peer was asked for it and did not have it.
    misses: u32,
    /// The number of times that its headers were ahead of the clock.
    early: u32,
}

impl ToldHead {
    const fn new(hash: B256, total_difficulty: Option<U256>, look_at: Duration) -> Self {
        Self {
            hash,
            total_difficulty,
            look_at,
            settled: false,
            misses: 0,
            early: 0,
        }
    }
}

/// A head that may be followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OpenHead {
    /// The peer that told of it.
    pub(super) peer: PeerId,
    pub(super) hash: B256,
    /// The total difficulty with it, as the peer claims; `None` for a hint.
    pub(super) total_difficulty: Option<U256>,
    /// The head is not looked at before this time.
    pub(super) look_at: Duration,
}

/// The order in which claims are followed. A liar can come first by weight, but a new peer has no
/// standing and is not the oldest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClaimOrder {
    /// The claim of the most total difficulty.
    Weight,
    /// Peers whose headers or bodies were right.
    Standing,
    /// The peer that is here longest.
    Age,
}

#[derive(Clone, Debug)]
pub(super) struct RosterEntry {
    node: B512,
    address: IpAddr,
    /// The node is static or trusted.
    is_exempt: bool,
    /// The peer has given headers with right seals, or right bodies.
    has_delivered: bool,
    /// Downloads that did not keep the least rate.
    failed_downloads: u32,
    /// No claim of it is followed before this time.
    no_download_until: Duration,
    /// The head that it claims to have.
    claim: ToldHead,
    /// A block that it has announced.
    hint: Option<ToldHead>,
    /// The number that the block of the hint has, as the peer says.
    hint_number: u64,
    pub(super) header_questions: u32,
    pub(super) body_questions: u32,
    /// The number of bodies to ask for.
    pub(super) batch: usize,
    /// The peer has said to lack this block and those above it, at the time.
    pub(super) lacks: Option<(u64, B256, Duration)>,
    /// The peer is not asked before this time, because a question could not be asked.
    pub(super) rest_until: Duration,
    /// The time before which the peer is not asked for receipts.
    pub(super) no_receipts_until: Duration,
    times: AnswerTimes,
    late: u32,
    overtaken: u32,
    /// Slow answers, one after the other.
    slow: u32,
}

impl RosterEntry {
    fn new(facts: &PeerFacts, look_at: Duration) -> Self {
        Self {
            node: facts.node,
            address: facts.address,
            is_exempt: facts.is_exempt,
            has_delivered: false,
            failed_downloads: 0,
            no_download_until: Duration::ZERO,
            claim: ToldHead::new(facts.head, Some(facts.total_difficulty), look_at),
            hint: None,
            hint_number: 0,
            header_questions: 0,
            body_questions: 0,
            batch: FIRST_BATCH,
            lacks: None,
            rest_until: Duration::ZERO,
            no_receipts_until: Duration::ZERO,
            times: AnswerTimes::default(),
            late: 0,
            overtaken: 0,
            slow: 0,
        }
    }

    /// The lowest block that the peer need not be asked for now.
    pub(super) fn lacks_from(&self, now: Duration) -> u64 {
        match self.lacks {
            Some((number, _, since)) if now < since + LACKING_TIME => number,
            _ => u64::MAX,
        }
    }

    /// The peer answered a question for bodies with all of them, or not.
    pub(super) fn bodies_came(&mut self, took: Duration, all: bool) {
        self.lacks = None;
        if took > SLOW {
            self.batch = (self.batch / 2).max(1);
        } else if took < QUICK && all {
            self.batch = (self.batch * 2).min(BATCH_MAX);
        }
    }

    /// The time that the peer usually takes for an answer; `None` if it has given none.
    pub(super) const fn usual_time(&self, kind: QuestionKind) -> Option<Duration> {
        match kind {
            QuestionKind::Headers => self.times.headers,
            QuestionKind::Bodies => self.times.bodies,
        }
    }

    /// After what time this peer is asked for what another one does not send.
    pub(super) fn overtakes_after(&self, kind: QuestionKind) -> Duration {
        self.usual_time(kind).map_or(OVERTAKE_TIME, |usual| {
            (usual * OVERTAKE_TIMES).clamp(OVERTAKE_MIN, OVERTAKE_TIME)
        })
    }

    const fn strikes(&self) -> u32 {
        self.late + self.overtaken + self.slow
    }

    /// The fault of a peer that loses its place for being slow. The node may come back at once if
    /// it has given something of use.
    fn too_slow(&self, text: String) -> PeerFault {
        let banned = if self.has_delivered {
            Duration::ZERO
        } else {
            STALL_BAN
        };
        PeerFault {
            banned,
            ..stalls(text)
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Roster {
    entries: BTreeMap<PeerId, RosterEntry>,
    unfulfilled: UnfulfilledClaims,
}

impl Roster {
    pub(super) fn join(&mut self, facts: &PeerFacts, now: Duration) {
        self.entries.insert(facts.peer, RosterEntry::new(facts, now));
    }

    pub(super) fn remove(&mut self, peer: PeerId) -> bool {
        self.entries.remove(&peer).is_some()
    }

    pub(super) fn count(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn peek(&self, peer: PeerId) -> Option<&RosterEntry> {
        self.entries.get(&peer)
    }

    /// Whether the peer has given something that was right.
    pub(super) fn has_delivered(&self, peer: PeerId) -> bool {
        self.peek(peer).is_some_and(|entry| entry.has_delivered)
    }

    pub(super) fn get(&mut self, peer: PeerId) -> Option<&mut RosterEntry> {
        self.entries.get_mut(&peer)
    }

    /// The peers, those first that others can rely on: what is needed first is asked of them.
    pub(super) fn best_first(&self, kind: QuestionKind, now: Duration) -> Vec<PeerId> {
        let mut peers: Vec<_> = self.entries.iter().collect();
        peers.sort_by_cached_key(|(peer, entry)| {
            let usual = entry.usual_time(kind).unwrap_or(OVERTAKE_TIME);
            (self.unfulfilled_of(entry, now), usual, **peer)
        });
        peers.into_iter().map(|(peer, _)| *peer).collect()
    }

    /// A claim of the peer was not fulfilled.
    pub(super) fn was_unfulfilled(&mut self, peer: PeerId, now: Duration) {
        if let Some(entry) = self.entries.get(&peer) {
            self.unfulfilled.add(entry.node, entry.address, now);
        }
    }

    fn unfulfilled_of(&self, entry: &RosterEntry, now: Duration) -> u32 {
        self.unfulfilled.count(entry.node, entry.address, now)
    }

    /// The peer did not keep the least rate of a download. Returns why it loses its place, if it
    /// does. Otherwise no claim of it is followed before `retry`.
    pub(super) fn download_failed(
        &mut self,
        peer: PeerId,
        retry: Duration,
        now: Duration,
    ) -> Option<PeerFault> {
        self.was_unfulfilled(peer, now);
        let entry = self.get(peer)?;
        entry.failed_downloads += 1;
        entry.no_download_until = retry;
        (entry.failed_downloads >= FAILED_DOWNLOADS_MAX).then(|| {
            entry.too_slow(format!(
                "{FAILED_DOWNLOADS_MAX} downloads did not keep the least rate of headers"
            ))
        })
    }

    /// The peer has given something that was right.
    pub(super) fn delivered(&mut self, peer: PeerId) {
        if let Some(entry) = self.get(peer) {
            entry.has_delivered = true;
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (PeerId, &RosterEntry)> {
        self.entries.iter().map(|(peer, entry)| (*peer, entry))
    }

    /// The peer has another head. It is looked at from `look_at` on.
    pub(super) fn claim(&mut self, peer: PeerId, head: B256, total_difficulty: U256, look_at: Duration) {
        if let Some(RosterEntry { claim, .. }) = self.entries.get_mut(&peer)
            && claim.hash != head
            && Some(total_difficulty) >= claim.total_difficulty
        {
            let look_at = if claim.settled {
                look_at
            } else {
                claim.look_at.min(look_at)
            };
            *claim = ToldHead::new(head, Some(total_difficulty), look_at);
        }
    }

    /// The peer has announced a block. It is looked at from `look_at` on. A higher one that is open
    /// stays, because announcements may come in any order.
    pub(super) fn hint(&mut self, peer: PeerId, block: &AnnouncedBlock, look_at: Duration) {
        let AnnouncedBlock { hash, number } = *block;
        let Some(entry) = self.entries.get_mut(&peer) else {
            return;
        };
        let hint = entry.hint.as_ref();
        if entry.claim.hash == hash || hint.is_some_and(|hint| hint.hash == hash) {
            return;
        }
        let open = hint.filter(|hint| !hint.settled);
        if open.is_none() || number >= entry.hint_number {
            // Many announcements do not put it off for ever.
            let look_at = open.map_or(look_at, |hint| hint.look_at.min(look_at));
            (entry.hint, entry.hint_number) = (Some(ToldHead::new(hash, None, look_at)), number);
        }
    }

    /// The news of the peer of this block, if it is still of interest.
    fn told(&mut self, peer: PeerId, hash: &B256) -> impl Iterator<Item = &mut ToldHead> {
        let entry = self.entries.get_mut(&peer);
        let told = entry.map(|entry| std::iter::once(&mut entry.claim).chain(entry.hint.as_mut()));
        told.into_iter().flatten().filter(|told| told.hash == *hash)
    }

    /// The head that the peer has told of is of no use, or was followed to its end.
    pub(super) fn settle(&mut self, peer: PeerId, hash: &B256) {
        self.told(peer, hash).for_each(|told| told.settled = true);
    }

    /// The head that the peer has told of is looked at again at this time.
    pub(super) fn postpone(&mut self, peer: PeerId, hash: &B256, look_at: Duration) {
        self.told(peer, hash).for_each(|told| told.look_at = look_at);
    }

    /// The peer was asked for the head that it has told of, and did not have it. It may be that it
    /// is still importing it, so it is asked again a few times: after `retry`, then after twice as
    /// long.
    pub(super) fn missed(&mut self, peer: PeerId, hash: &B256, now: Duration, retry: Duration) {
        self.told(peer, hash).for_each(|told| {
            told.look_at = now + retry * (1 << told.misses.min(MISSES_MAX));
            told.misses += 1;
            told.settled = told.misses >= MISSES_MAX;
        });
    }

    /// Headers up to the head that the peer has told of are ahead of the clock. The head is looked
    /// at again after `retry`, then after twice as long. The time doubles a few times only.
    pub(super) fn was_early(&mut self, peer: PeerId, hash: &B256, now: Duration, retry: Duration) {
        self.told(peer, hash).for_each(|told| {
            told.look_at = now + retry * (1 << told.early.min(EARLY_DOUBLINGS));
            told.early = told.early.saturating_add(1);
        });
    }

    /// The heads that may be followed: claims of more than `total_difficulty` in this order, then
    /// hints. Claims of static and trusted nodes come first. In the order of the weight, claims of
    /// those who did not fulfil others come last, and among equals those of peers that answer well
    /// come first.
    pub(super) fn open_heads(
        &self,
        total_difficulty: U256,
        order: ClaimOrder,
        now: Duration,
    ) -> Vec<OpenHead> {
        let is_open = |told: &&ToldHead| {
            let claimed = told.total_difficulty;
            !told.settled && claimed.is_none_or(|claimed| claimed > total_difficulty)
        };
        let told = self.entries.iter().flat_map(|(peer, entry)| {
            std::iter::once(&entry.claim)
                .chain(&entry.hint)
                .map(move |told| (peer, entry, told))
        });
        let mut found: Vec<_> = told.filter(|(_, _, told)| is_open(told)).collect();
        found.sort_by_cached_key(|(peer, entry, told)| {
            let first = (told.total_difficulty.is_none(), !entry.is_exempt);
            let unfulfilled = self.unfulfilled_of(entry, now);
            let weight = Reverse(told.total_difficulty);
            let order = match order {
                ClaimOrder::Weight => (false, unfulfilled, weight, entry.strikes()),
                ClaimOrder::Standing => (!entry.has_delivered, unfulfilled, Reverse(None), 0),
                ClaimOrder::Age => (false, 0, Reverse(None), 0),
            };
            (first, order, **peer, weight)
        });
        let open = found.into_iter().map(|(peer, entry, told)| OpenHead {
            peer: *peer,
            hash: told.hash,
            total_difficulty: told.total_difficulty,
            look_at: told.look_at.max(entry.no_download_until),
        });
        open.collect()
    }

    /// The time that the others usually take: the middle of their times.
    fn time_of_others(&self, peer: PeerId, kind: QuestionKind) -> Option<Duration> {
        let others = self.entries.iter().filter(|(other, _)| **other != peer);
        let mut times: Vec<_> = others.filter_map(|(_, entry)| entry.usual_time(kind)).collect();
        times.sort_unstable();
        times.get(times.len() / 2).copied()
    }

    /// The peer has answered before it was late. Returns why it loses its place, if it does: it
    /// takes much longer than others, again and again.
    pub(super) fn answered(&mut self, peer: PeerId, kind: QuestionKind, took: Duration) -> Option<PeerFault> {
        let others = self.time_of_others(peer, kind);
        let entry = self.get(peer)?;
        let usual = entry.times.of(kind);
        *usual = Some(usual.map_or(took, |usual| (usual * (SMOOTHING - 1) + took) / SMOOTHING));
        entry.late = 0;
        let Some(others) = others.filter(|others| took > SLOW_MIN.max(*others * SLOWER_TIMES)) else {
            entry.slow = 0;
            if took < SLOW_MIN {
                entry.overtaken = entry.overtaken.saturating_sub(1);
            }
            return None;
        };
        entry.slow += 1;
        (entry.slow >= SLOW_MAX).then(|| {
            let text =
                format!("{SLOW_MAX} slow answers: the last one took {took:?}, those of others {others:?}");
            entry.too_slow(text)
        })
    }

    /// The peer did not answer in time. Returns why it loses its place, if it does.
    pub(super) fn late(&mut self, peer: PeerId) -> Option<PeerFault> {
        let entry = self.get(peer)?;
        entry.late += 1;
        entry.batch = (entry.batch / 2).max(1);
        (entry.late >= LATE_MAX)
            .then(|| entry.too_slow(format!("{LATE_MAX} questions had no answer in time")))
    }

    /// Another peer that was asked later has answered first. Returns why the slow one loses its
    /// place, if it does.
    pub(super) fn overtaken(&mut self, peer: PeerId) -> Option<PeerFault> {
        let entry = self.get(peer)?;
        entry.overtaken += 1;
        entry.batch = (entry.batch / 2).max(1);
        (entry.overtaken >= OVERTAKEN_MAX)
            .then(|| entry.too_slow(format!("{OVERTAKEN_MAX} answers came after those of other peers")))
    }
}

/// A peer that has lied.
pub(super) const fn lies(text: String) -> PeerFault {
    PeerFault {
        text,
        disconnect: RlpxDisconnect::Subprotocol,
        banned: LIE_BAN,
    }
}

/// A peer that costs more than it gives.
pub(super) const fn stalls(text: String) -> PeerFault {
    PeerFault {
        text,
        disconnect: RlpxDisconnect::Useless,
        banned: STALL_BAN,
    }
}
