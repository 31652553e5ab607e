//! Takes the chain's verdict on headers: they are stored, or they are wrong.

use std::time::Duration;

use chain::View;
use primitives::U256;
use store::StoreError;

use super::HeadersInWork;
use crate::peers::PeerId;
use crate::sync::ancestor::HeaderPoint;
use crate::sync::jobs::ChainRefusal;
use crate::sync::roster::stalls;
use crate::sync::{CHAIN_RETRY, EARLY_RETRY, ENDLESS_HEADERS, Synchronizer};

/// After so many jobs whose headers were right, a download is as good as others, and those of which
/// nothing is known end.
const MOVING_JOBS: u32 = 2;

impl Synchronizer {
    /// A peer must not claim more than its head has.
    pub(super) fn check_claim(&mut self, peer: PeerId, claimed: Option<U256>, expected: U256) {
        if let Some(claimed) = claimed.filter(|claimed| *claimed > expected) {
            self.drop_liar(
                peer,
                format!("total difficulty of its head: got {claimed}, expected {expected}"),
            );
        }
    }

    /// The chain has checked and stored headers, or not.
    pub(in crate::sync) fn headers_done(
        &mut self,
        view: &View,
        result: Result<(), ChainRefusal>,
    ) -> Result<(), StoreError> {
        let Some(job) = self.headers_job.take() else {
            return Ok(());
        };
        let HeadersInWork {
            download: id,
            master,
            target,
            hashes,
            end,
            begun,
        } = job;
        self.chain_took(self.now.saturating_sub(begun));
        match result {
            Ok(()) => {
                self.vouchers.add(master, hashes);
                self.read_chain(view)?;
                self.headers_stored(view, id, end)
            }
            Err(refusal) => {
                if self.downloads.iter().any(|download| download.id == id) {
                    self.postpone(master, &target);
                }
                match refusal {
                    ChainRefusal::Invalid { text, .. } => self.drop_liar(master, text),
                    ChainRefusal::Unsuitable(text) => self.drop_peer(master, stalls(text)),
                    ChainRefusal::Early(text) => {
                        // Nobody else's headers wait for it.
                        tracing::debug!(text, "headers are not taken yet");
                        self.roster.was_early(master, &target, self.now, EARLY_RETRY);
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
        let Some(download) = self.downloads.iter_mut().find(|download| download.id == id) else {
            return Ok(());
        };
        download.tip = end;
        download.stored += 1;
        (download.lowest_since, download.waits_since) = (self.now, self.now);
        let is_moving = download.stored >= MOVING_JOBS;
        let (master, target, base, claimed) =
            (download.master, download.target, download.base, download.claimed);
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
            self.drop_liar(master, text);
            return Ok(());
        }
        self.roster.delivered(master);
        if is_moving {
            // One download is enough again. The claims of the others stay.
            self.downloads
                .retain(|download| download.master == master || download.is_proven() || download.is_witness);
        }
        Ok(())
    }

    /// The chain has worked for so long. Nobody waited for peers meanwhile.
    fn chain_took(&mut self, time: Duration) {
        self.advanced_at = (self.advanced_at + time).min(self.now);
        for download in &mut self.downloads {
            download.waits_since = (download.waits_since + time).min(self.now);
        }
    }
}
