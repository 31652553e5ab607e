//! Whether the network is there. While it is not, miners get no work: blocks on a chain that nobody
//! else knows are worth nothing.
//!
//! The last sign of the network is the last moment with a peer, or the time of the head that was
//! there at the start of the node. Blocks that this node has sealed are no sign. Knows times, the
//! number of peers and the progress of the synchronization.

use std::time::Duration;

use chain::mining::pause::WorkPause;

use super::{FAR_BEHIND_BLOCKS, SyncState};
use crate::moment::Moment;

/// The time without a sign of the network after which there is no work. Some 46 blocks of Ethereum
/// Classic are made in it.
const SILENCE_MAX: Duration = Duration::from_secs(600);
/// The time for which claims of peers alone hold up the first work. Those with headers behind them
/// are followed in it; missing blocks count after it, too.
const CLAIM_PATIENCE: Duration = Duration::from_secs(120);

/// The signs of the network so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NetworkWatch {
    needs_peers: bool,
    /// The first look, and the age of the head then.
    begun: Option<(Duration, Duration)>,
    /// The last look with a peer.
    peers_at: Option<Duration>,
    /// The first look with a peer.
    first_peer_at: Option<Duration>,
    /// The chain was near those of the peers once. Since then only missing blocks count.
    was_near: bool,
}

impl NetworkWatch {
    /// A watch without signs. Without `needs_peers` only missing blocks stop the work.
    pub(crate) const fn new(needs_peers: bool) -> Self {
        Self {
            needs_peers,
            begun: None,
            peers_at: None,
            first_peer_at: None,
            was_near: false,
        }
    }

    pub(crate) const fn needs_peers(&self) -> bool {
        self.needs_peers
    }

    /// The reason for which there is no work now. `head_time` is the time stamp of the head.
    pub(crate) fn look(
        &mut self,
        now: Moment,
        peers: usize,
        head_time: Duration,
        progress: &SyncState,
    ) -> Option<WorkPause> {
        let SyncState { head, highest, .. } = *progress;
        let behind = Some(WorkPause::Behind { head, highest });
        if progress.far_behind {
            return behind;
        }
        if !self.needs_peers {
            return None;
        }
        let (begun, head_age) = *self
            .begun
            .get_or_insert_with(|| (now.elapsed, now.unix.saturating_sub(head_time)));
        if peers > 0 {
            self.peers_at = Some(now.elapsed);
            self.first_peer_at.get_or_insert(now.elapsed);
        }
        let silence = self.peers_at.map(|at| now.elapsed.saturating_sub(at));
        let time = silence.unwrap_or_else(|| head_age + now.elapsed.saturating_sub(begun));
        if time > SILENCE_MAX {
            return Some(WorkPause::NoPeers { head, silence });
        }
        let gap = highest.saturating_sub(head);
        // A claim of a total difficulty alone says nothing of the number of blocks.
        let is_near = progress.started_at.is_none() || (gap > 0 && gap <= FAR_BEHIND_BLOCKS);
        let has_waited = self
            .first_peer_at
            .is_some_and(|at| now.elapsed.saturating_sub(at) > CLAIM_PATIENCE);
        self.was_near |= is_near || has_waited;
        if self.was_near { None } else { behind }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The age of the head at the start, in seconds.
    const OLD: u64 = 10_000;

    fn at(seconds: u64) -> Moment {
        Moment {
            elapsed: Duration::from_secs(seconds),
            unix: Duration::from_secs(1_000_000 + seconds),
        }
    }

    fn head_of_age(seconds: u64) -> Duration {
        Duration::from_secs(1_000_000 - seconds)
    }

    fn idle(head: u64) -> SyncState {
        SyncState {
            head,
            best_header: head,
            highest: head,
            ..SyncState::default()
        }
    }

    fn behind(head: u64, highest: u64) -> SyncState {
        SyncState {
            started_at: Some(head),
            highest,
            ..idle(head)
        }
    }

    fn name(pause: Option<WorkPause>) -> &'static str {
        pause.map_or("work", |pause| pause.name())
    }

    #[test]
    fn an_old_head_without_peers_has_no_work() {
        let mut watch = NetworkWatch::new(true);
        let mut look = |seconds, peers| name(watch.look(at(seconds), peers, head_of_age(OLD), &idle(7)));
        assert_eq!(look(0, 0), "no peers");
        assert_eq!(look(5000, 0), "no peers");
        assert_eq!(look(5001, 1), "work");
        // Peers that are gone for a while do not stop the work, and it ends after that.
        assert_eq!(look(5601, 0), "work");
        assert_eq!(look(5602, 0), "no peers");
        assert_eq!(look(5603, 2), "work");
    }

    #[test]
    fn a_young_head_is_a_sign_for_a_while_and_own_blocks_are_none() {
        let mut watch = NetworkWatch::new(true);
        let mut look = |seconds, age| name(watch.look(at(seconds), 0, head_of_age(age), &idle(7)));
        assert_eq!(look(0, 100), "work");
        // The head moves, but by blocks of this node alone.
        assert_eq!(look(500, 0), "work");
        assert_eq!(look(501, 0), "no peers");
    }

    #[test]
    fn the_first_work_waits_for_the_chain_of_the_peers() {
        let mut watch = NetworkWatch::new(true);
        let mut look = |seconds, progress| name(watch.look(at(seconds), 1, head_of_age(OLD), &progress));
        assert_eq!(
            look(1, behind(7, 7)),
            "behind",
            "only a total difficulty is known"
        );
        assert_eq!(look(2, behind(7, 90)), "behind");
        assert_eq!(look(3, behind(26, 90)), "work", "64 blocks");
        // Later claims do not stop it. Blocks that are missing do.
        assert_eq!(look(4, behind(26, 5000)), "work");
        let far = SyncState {
            far_behind: true,
            ..behind(26, 5000)
        };
        assert_eq!(look(5, far), "behind");
    }

    #[test]
    fn claims_alone_do_not_hold_up_work_for_ever() {
        let mut watch = NetworkWatch::new(true);
        let mut look = |seconds| name(watch.look(at(seconds), 3, head_of_age(OLD), &behind(7, 1 << 40)));
        assert_eq!(look(1), "behind");
        assert_eq!(look(121), "behind");
        assert_eq!(look(122), "work");
    }

    #[test]
    fn without_the_need_only_missing_blocks_count() {
        let mut watch = NetworkWatch::new(false);
        let look =
            |watch: &mut NetworkWatch, progress| name(watch.look(at(1), 0, head_of_age(OLD), &progress));
        assert_eq!(look(&mut watch, idle(7)), "work");
        assert_eq!(look(&mut watch, behind(7, 90)), "work");
        let far = SyncState {
            far_behind: true,
            ..behind(7, 90)
        };
        assert_eq!(look(&mut watch, far), "behind");
    }
}
