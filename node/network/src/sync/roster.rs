//! What the synchronization remembers of each peer: what chain it claims to have, how it answers.
//!
//! A claim is a hash and a total difficulty. Whether it is true shows when its headers are here. A
//! peer that lies loses its place at once. One that does not answer, or is slower than others that
//! could have been asked, loses it after a few times.

use std::collections::BTreeMap;
use std::time::Duration;

use primitives::{B256, U256};

use crate::peers::{PeerFault, PeerId};
use crate::rlpx::RlpxDisconnect;

/// For how long a peer that has lied may not come back.
const LIE_BAN: Duration = Duration::from_secs(3600);
/// For how long a peer that does not answer may not come back.
const STALL_BAN: Duration = Duration::from_secs(300);
/// So many questions in a row without an answer in time cost the place.
const LATE_MAX: u32 = 3;
/// So many answers that came after another peer's, asked later, cost the place.
const OVERTAKEN_MAX: u32 = 6;
/// Bodies of a peer's first question.
const FIRST_BATCH: usize = 32;
/// The most bodies of a question: what every node answers with.
const BATCH_MAX: usize = 128;
/// An answer within this time makes the next question larger.
const QUICK: Duration = Duration::from_millis(500);
/// An answer after this time makes the next question smaller.
const SLOW: Duration = Duration::from_secs(2);
/// How long a peer is not asked for bodies that it has said to lack.
const LACKING_TIME: Duration = Duration::from_secs(2);

/// What is remembered of a peer.
#[derive(Clone, Debug)]
pub(super) struct RosterEntry {
    /// The hash of the head that it claims to have.
    pub(super) head: B256,
    /// The total difficulty that it claims.
    pub(super) total_difficulty: U256,
    /// The claim is not looked at before this time.
    pub(super) look_at: Duration,
    /// The claim is known to be of no use, or was followed to its end.
    pub(super) settled: bool,
    /// Open questions for headers.
    pub(super) header_questions: u32,
    /// Open questions for bodies.
    pub(super) body_questions: u32,
    /// How many bodies to ask for.
    pub(super) batch: usize,
    /// It has said to lack this block and those above it, at the time.
    pub(super) lacks: Option<(u64, B256, Duration)>,
    /// It is not asked before this time, because a question could not be asked.
    pub(super) rest_until: Duration,
    late: u32,
    overtaken: u32,
}

impl RosterEntry {
    const fn new(head: B256, total_difficulty: U256, look_at: Duration) -> Self {
        Self {
            head,
            total_difficulty,
            look_at,
            settled: false,
            header_questions: 0,
            body_questions: 0,
            batch: FIRST_BATCH,
            lacks: None,
            rest_until: Duration::ZERO,
            late: 0,
            overtaken: 0,
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
        self.overtaken = self.overtaken.saturating_sub(1);
        if took > SLOW {
            self.batch = (self.batch / 2).max(1);
        } else if took < QUICK && all {
            self.batch = (self.batch * 2).min(BATCH_MAX);
        }
    }

    const fn strikes(&self) -> u32 {
        self.late + self.overtaken
    }
}

/// The peers.
#[derive(Clone, Debug, Default)]
pub(super) struct Roster {
    entries: BTreeMap<PeerId, RosterEntry>,
}

impl Roster {
    pub(super) fn join(&mut self, peer: PeerId, head: B256, total_difficulty: U256, now: Duration) {
        self.entries
            .insert(peer, RosterEntry::new(head, total_difficulty, now));
    }

    pub(super) fn remove(&mut self, peer: PeerId) -> bool {
        self.entries.remove(&peer).is_some()
    }

    pub(super) fn get(&mut self, peer: PeerId) -> Option<&mut RosterEntry> {
        self.entries.get_mut(&peer)
    }

    pub(super) fn ids(&self) -> Vec<PeerId> {
        self.entries.keys().copied().collect()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (PeerId, &RosterEntry)> {
        self.entries.iter().map(|(peer, entry)| (*peer, entry))
    }

    /// The peer has another head. It is looked at from `look_at` on.
    pub(super) fn claim(&mut self, peer: PeerId, head: B256, total_difficulty: U256, look_at: Duration) {
        if let Some(entry) = self.entries.get_mut(&peer)
            && entry.head != head
            && total_difficulty >= entry.total_difficulty
        {
            let look_at = if entry.settled {
                look_at
            } else {
                entry.look_at.min(look_at)
            };
            entry.head = head;
            entry.total_difficulty = total_difficulty;
            entry.settled = false;
            entry.look_at = look_at;
        }
    }

    /// The peers that claim more than `total_difficulty`, the best claim first. Among equals those
    /// that answer well come first.
    pub(super) fn claiming(&self, total_difficulty: U256) -> Vec<(PeerId, Duration)> {
        let open = |(_, entry): &(&PeerId, &RosterEntry)| {
            !entry.settled && entry.total_difficulty > total_difficulty
        };
        let mut found: Vec<_> = self.entries.iter().filter(open).collect();
        found.sort_by_key(|(peer, entry)| {
            let weight = std::cmp::Reverse(entry.total_difficulty);
            (weight, entry.strikes(), **peer)
        });
        found
            .into_iter()
            .map(|(peer, entry)| (*peer, entry.look_at))
            .collect()
    }

    /// The peer has answered in time.
    pub(super) fn answered(&mut self, peer: PeerId) {
        if let Some(entry) = self.get(peer) {
            entry.late = 0;
        }
    }

    /// The peer did not answer in time. Returns why it loses its place, if it does.
    pub(super) fn late(&mut self, peer: PeerId) -> Option<PeerFault> {
        let entry = self.get(peer)?;
        entry.late += 1;
        entry.batch = (entry.batch / 2).max(1);
        (entry.late >= LATE_MAX).then(|| stalls(format!("{LATE_MAX} questions had no answer in time")))
    }

    /// Another peer that was asked later has answered first. Returns why the slow one loses its
    /// place, if it does.
    pub(super) fn overtaken(&mut self, peer: PeerId) -> Option<PeerFault> {
        let entry = self.get(peer)?;
        entry.overtaken += 1;
        entry.batch = (entry.batch / 2).max(1);
        (entry.overtaken >= OVERTAKEN_MAX)
            .then(|| stalls(format!("{OVERTAKEN_MAX} answers came after those of other peers")))
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

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn the_best_claim_comes_first() {
        let mut roster = Roster::default();
        for (peer, difficulty) in [(1, 50), (2, 70), (3, 70), (4, 10)] {
            let head = B256::repeat_byte(peer);
            roster.join(PeerId(u64::from(peer)), head, U256::from(difficulty), seconds(0));
        }
        let order = |roster: &Roster, above: u64| -> Vec<u64> {
            let claiming = roster.claiming(U256::from(above));
            claiming.into_iter().map(|(peer, _)| peer.0).collect()
        };
        assert_eq!(order(&roster, 20), [2, 3, 1]);
        assert_eq!(roster.late(PeerId(2)), None);
        assert_eq!(order(&roster, 20), [3, 2, 1]);
        roster.get(PeerId(3)).expect("a peer").settled = true;
        assert_eq!(order(&roster, 50), [2]);
        // A lower claim changes nothing; a higher one opens a settled one again.
        roster.claim(PeerId(3), B256::repeat_byte(9), U256::from(60), seconds(5));
        assert_eq!(order(&roster, 0), [2, 1, 4]);
        roster.claim(PeerId(3), B256::repeat_byte(9), U256::from(80), seconds(5));
        assert_eq!(roster.claiming(U256::from(75)), [(PeerId(3), seconds(5))]);
    }

    #[test]
    fn those_who_do_not_answer_lose_their_place() {
        let mut roster = Roster::default();
        let peer = PeerId(1);
        roster.join(peer, B256::ZERO, U256::ZERO, seconds(0));
        for round in 0..3 {
            assert_eq!(roster.late(peer), None, "{round}");
            assert_eq!(roster.late(peer), None, "{round}");
            roster.answered(peer);
        }
        let late: Vec<_> = (0..LATE_MAX).map(|_| roster.late(peer).is_some()).collect();
        assert_eq!(late, [false, false, true]);
        let slow = (0..OVERTAKEN_MAX).map(|_| roster.overtaken(peer).is_some());
        assert_eq!(slow.filter(|lost| *lost).count(), 1);
        assert_eq!(roster.get(peer).expect("a peer").batch, 1);
        assert_eq!(roster.late(PeerId(9)), None);
    }

    #[test]
    fn questions_follow_the_speed_of_answers() {
        let mut entry = RosterEntry::new(B256::ZERO, U256::ZERO, seconds(0));
        entry.lacks = Some((7, B256::ZERO, seconds(10)));
        assert_eq!(
            [entry.lacks_from(seconds(11)), entry.lacks_from(seconds(13))],
            [7, u64::MAX]
        );
        for _ in 0..9 {
            entry.bodies_came(Duration::from_millis(10), true);
        }
        assert_eq!((entry.batch, entry.lacks), (BATCH_MAX, None));
        entry.bodies_came(seconds(1), true);
        entry.bodies_came(Duration::from_millis(10), false);
        assert_eq!(entry.batch, BATCH_MAX);
        entry.bodies_came(seconds(3), true);
        assert_eq!(entry.batch, BATCH_MAX / 2);
    }
}
