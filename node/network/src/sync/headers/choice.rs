//! Chooses the claims to follow, begins downloads side by side, and ends downloads.
//!
//! As long as the best header rises, one download runs: the one of the highest claim. If the best
//! header does not rise for [`SIDE_BY_SIDE_AFTER`], more downloads begin, at most
//! [`DOWNLOADS_MAX`]. They are chosen in turn by standing, by age and by weight. A node that comes
//! back under new keys is never the oldest. So liars cannot keep an honest peer from being
//! followed, however many they are.
//!
//! A valid chain of little weight can be long, too. So every [`WITNESS_INTERVAL`] one more peer is
//! asked where its chain leaves the best header chain. If it does not, its download ends.
//! Otherwise both are followed, and the heavier one wins.

use std::time::Duration;

use chain::View;
use store::StoreError;

use super::{DownloadStage, HeaderDownload};
use crate::peers::PeerId;
use crate::sync::ancestor::HeaderPoint;
use crate::sync::roster::{ClaimOrder, OpenHead, QuestionKind};
use crate::sync::segments::SEGMENT_HEADERS;
use crate::sync::{CLAIM_RETRY, Synchronizer};

const DOWNLOADS_MAX: usize = 3;
/// Downloads run side by side while the best header has not risen for this long.
const SIDE_BY_SIDE_AFTER: Duration = Duration::from_secs(2);
/// The interval at which another peer is asked for its chain while the best header rises.
const WITNESS_INTERVAL: Duration = Duration::from_secs(5);
/// The least rate of headers: a download has the headers of a segment stored in this time, not
/// counting what the chain needs. Otherwise it ends, if there are other claims.
const LEAST_RATE_TIME: Duration = Duration::from_secs(8);
/// A download whose peer lets it wait for longer than this ends, if there are other claims.
const PATIENCE: Duration = Duration::from_secs(2);
/// The same for a peer that has not answered anything yet. Its answer still tells how quick it is.
const FIRST_PATIENCE: Duration = Duration::from_millis(500);

/// A download that may have to end.
#[derive(Clone, Copy, Debug)]
struct SlowDownload {
    master: PeerId,
    target: primitives::B256,
    is_hint: bool,
    /// The time since which a question to the master is open.
    open: Option<Duration>,
    waits_since: Duration,
}

impl Synchronizer {
    /// Ends downloads whose peers let them wait, or do not keep the least rate, if there are other
    /// claims. A hint gives way to anything.
    pub(super) fn end_slow_downloads(&mut self) {
        let downloads = self.downloads.iter().map(|download| SlowDownload {
            master: download.master,
            target: download.target,
            is_hint: download.claimed.is_none(),
            open: download.open.map(|(_, since)| since),
            waits_since: download.waits_since,
        });
        for slow in downloads.collect::<Vec<_>>() {
            if !self.has_other_claims(&slow) {
                continue;
            }
            self.end_if_unanswered(&slow);
            self.end_if_below_least_rate(&slow);
        }
    }

    fn has_other_claims(&self, slow: &SlowDownload) -> bool {
        self.open_heads(ClaimOrder::Weight).iter().any(|head| {
            let counts = slow.is_hint || head.total_difficulty.is_some();
            counts && head.peer != slow.master && head.look_at <= self.now
        })
    }

    fn open_heads(&self, order: ClaimOrder) -> Vec<OpenHead> {
        let weight = self.chain.best.total_difficulty;
        self.roster.open_heads(weight, order, self.now)
    }

    fn end_if_unanswered(&mut self, slow: &SlowDownload) {
        let Some(since) = slow.open else { return };
        let entry = self.roster.get(slow.master);
        let usual = entry.and_then(|entry| entry.usual_time(QuestionKind::Headers));
        // A new peer gets another chance soon.
        let (patience, retry) = match usual {
            Some(_) => (PATIENCE, CLAIM_RETRY),
            None => (FIRST_PATIENCE, PATIENCE),
        };
        if self.now.saturating_sub(since) <= patience {
            return;
        }
        self.end_download(slow.master);
        self.roster.postpone(slow.master, &slow.target, self.now + retry);
        if let Some(fault) = self.roster.overtaken(slow.master) {
            self.drop_peer(slow.master, fault);
        }
    }

    fn end_if_below_least_rate(&mut self, slow: &SlowDownload) {
        let runs = self
            .downloads
            .iter()
            .any(|download| download.master == slow.master);
        let waited = self.now.saturating_sub(slow.waits_since);
        // While the chain checks headers, nobody waits for peers.
        if !runs || self.headers_job.is_some() || waited <= LEAST_RATE_TIME {
            return;
        }
        self.end_download(slow.master);
        tracing::debug!(
            peer = slow.master.0,
            ?waited,
            "a download does not keep the least rate"
        );
        let retry = self.now + CLAIM_RETRY;
        if let Some(fault) = self.roster.download_failed(slow.master, retry, self.now) {
            self.drop_peer(slow.master, fault);
        }
    }

    /// Begins a download if none runs, and more of them if the best header does not rise.
    pub(super) fn begin_downloads(&mut self, view: &View) -> Result<(), StoreError> {
        let waits = self.now < self.chain_pause;
        let is_idle = self.downloads.is_empty() && self.open_heads(ClaimOrder::Weight).is_empty();
        if waits || is_idle || self.was_idle {
            // Nobody has waited for peers so far.
            self.advanced_at = self.now;
        }
        self.was_idle = is_idle;
        if waits || is_idle || self.headers_job.is_some() {
            return Ok(());
        }
        let is_witness_due = self.now.saturating_sub(self.download_begun_at) > WITNESS_INTERVAL;
        let most = if self.is_stalled() {
            DOWNLOADS_MAX
        } else {
            1 + usize::from(is_witness_due)
        };
        while self.downloads.len() < most {
            let is_first = self.downloads.is_empty() && !self.is_stalled();
            let order = match self.downloads_begun % 3 {
                _ if is_first => ClaimOrder::Weight,
                0 => ClaimOrder::Standing,
                1 => ClaimOrder::Age,
                _ => ClaimOrder::Weight,
            };
            if !self.begin_download(view, order)? {
                break;
            }
        }
        Ok(())
    }

    fn is_stalled(&self) -> bool {
        self.now.saturating_sub(self.advanced_at) > SIDE_BY_SIDE_AFTER
    }

    /// The peer's chain leaves the known headers at `found`. Returns whether its download is
    /// needed: not if the peer follows the best header chain, which another download fetches.
    pub(super) fn is_needed(&self, download: &mut HeaderDownload, found: HeaderPoint) -> bool {
        download.is_witness = found.number.saturating_add(SEGMENT_HEADERS) < download.common_max;
        let others = self.downloads.iter().any(HeaderDownload::is_proven);
        download.is_witness || self.is_stalled() || !others
    }

    /// Begins a download with the first peer of this order. Returns whether there is one.
    fn begin_download(&mut self, view: &View, order: ClaimOrder) -> Result<bool, StoreError> {
        for head in self.open_heads(order) {
            let OpenHead {
                peer,
                hash: target,
                total_difficulty: claimed,
                look_at,
            } = head;
            if look_at > self.now || self.downloads.iter().any(|download| download.master == peer) {
                continue;
            }
            if let Some(known) = view.known_header(&target)? {
                self.roster.settle(peer, &target);
                self.check_claim(peer, claimed, known.total_difficulty);
                continue;
            }
            let is_witness = !self.downloads.is_empty() && !self.is_stalled();
            self.downloads_begun += 1;
            self.download_begun_at = self.now;
            self.downloads.push(HeaderDownload {
                id: self.downloads_begun,
                master: peer,
                target,
                target_number: None,
                claimed,
                stage: DownloadStage::Head,
                tip: HeaderPoint {
                    number: 0,
                    hash: self.genesis,
                },
                base: 0,
                common_max: 0,
                is_witness,
                open: None,
                lowest_since: self.now,
                waits_since: self.now,
                stored: 0,
                broken: 0,
            });
            return Ok(true);
        }
        Ok(false)
    }
}
