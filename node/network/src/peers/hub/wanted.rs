//! Announced transactions: whom they are asked of, how many are waited for, and for how long.
//!
//! Each peer has a share of the list, so none can fill it for others. Source: docs/p2p.md, 6.

use std::time::Duration;

use alloy_rlp::Encodable;
use primitives::{B256, Transaction};

use super::super::action::PeerAction;
use super::super::interface::PeerId;
use super::super::offered::TransactionPack;
use super::{PeerHub, RequestNote};
use crate::messages::{AnnouncedTransaction, PeerMessage};
use crate::moment::Moment;

/// Transactions that are asked for at once.
pub(crate) const TRANSACTION_FETCHES_MAX: usize = 256;
/// Transactions of one peer that are waited for.
pub(crate) const WANTED_TRANSACTIONS_MAX: usize = 4096;
/// Transactions that are waited for are shared out: with many peers, each has an equal part of so
/// many.
pub(crate) const WANTED_ALL_MAX: usize = 65_536;
/// An announced transaction is waited for this long.
pub(crate) const WANTED_TIME_MAX: Duration = Duration::from_secs(60);
/// Transactions that were waited for long enough are forgotten at this interval.
const SWEEP_INTERVAL: Duration = Duration::from_secs(10);
/// Peers that are remembered to have announced a transaction.
const ANNOUNCERS_MAX: usize = 8;
/// A peer that is asked for a transaction so soon after its announcement must have it.
const FRESH_TIME: Duration = Duration::from_secs(4);
/// An answer delivers if it has one of so many transactions that were asked for.
const DELIVERED_SHARE: usize = 4;
/// An answer delivers, too, if it has so many bytes. Peers end a long answer.
const DELIVERED_BYTES: usize = 1 << 20;
/// The answers in a row without the wanted transactions that cost a peer its place.
pub(crate) const EMPTY_ANSWERS_MAX: u32 = 8;

#[derive(Clone, Debug)]
pub(super) struct WantedTransaction {
    peers: Vec<PeerId>,
    asked: Option<PeerId>,
    /// The time of the first announcement.
    since: Duration,
}

/// The hashes of a request for transactions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AskedTransactions {
    pub(super) hashes: Vec<B256>,
    /// Announced a moment before, all at once.
    is_fresh: bool,
}

impl PeerHub {
    /// The number of transactions of one peer that are waited for.
    pub(super) fn wanted_share(&self) -> usize {
        (WANTED_ALL_MAX / self.peers.len().max(1)).min(WANTED_TRANSACTIONS_MAX)
    }

    /// The time at which transactions may have been waited for long enough.
    pub(super) fn wanted_deadline(&self) -> Option<Duration> {
        (!self.wanted.is_empty()).then_some(self.wanted_sweep)
    }

    /// Forgets the transactions that were waited for long enough.
    pub(super) fn forget_old_wanted(&mut self, now: Moment) {
        if now.elapsed < self.wanted_sweep {
            return;
        }
        self.wanted_sweep = now.elapsed + SWEEP_INTERVAL;
        self.wanted
            .retain(|_, wanted| wanted.asked.is_some() || now.elapsed < wanted.since + WANTED_TIME_MAX);
        let wanted = &self.wanted;
        for (peer, state) in &mut self.peers {
            let has = |hash: &B256| wanted.get(hash).is_some_and(|wanted| wanted.peers.contains(peer));
            state.wanted.retain(has);
        }
    }

    /// A peer says that it has transactions.
    pub(super) fn transactions_announced(
        &mut self,
        peer: PeerId,
        announced: &[AnnouncedTransaction],
        now: Moment,
    ) {
        let share = self.wanted_share();
        let Some(state) = self.peers.get_mut(&peer) else {
            return;
        };
        for AnnouncedTransaction { hash, .. } in announced {
            state.known_transactions.add(*hash);
        }
        if self.is_behind {
            return;
        }
        if self.wanted.is_empty() {
            self.wanted_sweep = now.elapsed + SWEEP_INTERVAL;
        }
        for AnnouncedTransaction { hash, .. } in announced {
            if state.wanted.len() >= share {
                break;
            }
            if state.wanted.contains(hash)
                || !self.wanted.contains_key(hash) && self.chain.pooled(hash).is_some()
            {
                continue;
            }
            let wanted = self.wanted.entry(*hash).or_insert_with(|| WantedTransaction {
                peers: Vec::new(),
                asked: None,
                since: now.elapsed,
            });
            if wanted.peers.len() < ANNOUNCERS_MAX {
                wanted.peers.push(peer);
                state.wanted.insert(*hash);
            } else {
                // A few peers that announce everything and send nothing must not keep others out.
                let at = self.entropy.below(wanted.peers.len());
                if wanted.asked != Some(wanted.peers[at]) {
                    wanted.peers[at] = peer;
                    state.wanted.insert(*hash);
                }
            }
        }
        self.ask_for_transactions(peer, now);
    }

    /// Asks a peer for transactions that it has announced and nobody else was asked for.
    fn ask_for_transactions(&mut self, peer: PeerId, now: Moment) {
        let Some(state) = self.peers.get_mut(&peer).filter(|state| !state.asks_transactions) else {
            return;
        };
        // Transactions that came in the meantime, or that the peer did not send, are not wanted of
        // it.
        let wanted = &self.wanted;
        let has = |hash: &B256| {
            wanted
                .get(hash)
                .is_some_and(|wanted| wanted.peers.contains(&peer))
        };
        state.wanted.retain(has);
        let is_free = |hash: &&B256| wanted.get(*hash).is_some_and(|wanted| wanted.asked.is_none());
        let free = state.wanted.iter().filter(is_free);
        let hashes: Vec<_> = free.take(TRANSACTION_FETCHES_MAX).copied().collect();
        if hashes.is_empty() {
            return;
        }
        let is_fresh = |hash: &B256| {
            wanted
                .get(hash)
                .is_some_and(|wanted| now.elapsed < wanted.since + FRESH_TIME)
        };
        let asked = AskedTransactions {
            is_fresh: hashes.iter().all(is_fresh),
            hashes: hashes.clone(),
        };
        let message = |id| PeerMessage::GetPooledTransactions(id, hashes.clone());
        if !self.ask(peer, RequestNote::Transactions(asked), message, now) {
            return;
        }
        for hash in &hashes {
            if let Some(wanted) = self.wanted.get_mut(hash) {
                wanted.asked = Some(peer);
            }
        }
        if let Some(state) = self.peers.get_mut(&peer) {
            state.asks_transactions = true;
        }
    }

    /// A peer has answered a request for transactions. They are hashed without the hub.
    pub(super) fn asked_transactions_came(
        &mut self,
        peer: PeerId,
        asked: AskedTransactions,
        transactions: Vec<Transaction>,
        now: Moment,
    ) {
        let AskedTransactions { hashes, is_fresh } = asked;
        let (got, most) = (transactions.len(), hashes.len());
        if got > most {
            let text = format!("pooled transactions: got {got}, expected at most the {most} asked for");
            self.breach(peer, &text, now);
            return;
        }
        let is_delivered = got * DELIVERED_SHARE >= most
            || transactions.iter().map(Encodable::length).sum::<usize>() >= DELIVERED_BYTES;
        if let Some(state) = self.peers.get_mut(&peer) {
            match (is_delivered, is_fresh) {
                (true, _) => state.empty_answers = 0,
                (false, true) => {
                    state.empty_answers += 1;
                    state.faults += 1;
                }
                // The transactions may be in a block by now.
                (false, false) => {}
            }
            if state.empty_answers >= EMPTY_ANSWERS_MAX {
                self.breach(peer, "announced transactions, but did not send them", now);
                return;
            }
        }
        if transactions.is_empty() {
            self.transactions_not_sent(peer, &hashes, now);
            return;
        }
        self.counters.transactions_received += got as u64;
        let pack = TransactionPack {
            transactions,
            asked: Some(hashes),
        };
        self.actions.push(PeerAction::Take { peer, pack });
    }

    /// Asks others for what is still wanted of `asked`.
    pub(super) fn transactions_not_sent(&mut self, peer: PeerId, asked: &[B256], now: Moment) {
        if let Some(state) = self.peers.get_mut(&peer) {
            state.asks_transactions = false;
        }
        let mut others = vec![peer];
        for hash in asked {
            let Some(wanted) = self
                .wanted
                .get_mut(hash)
                .filter(|wanted| wanted.asked == Some(peer))
            else {
                continue;
            };
            wanted.asked = None;
            wanted.peers.retain(|announcer| *announcer != peer);
            match wanted.peers.first() {
                Some(next) if !others.contains(next) => others.push(*next),
                Some(_) => {}
                None => {
                    self.wanted.remove(hash);
                }
            }
        }
        for other in others {
            self.ask_for_transactions(other, now);
        }
    }

    /// A peer is gone: it is not asked for what it has announced.
    pub(super) fn forget_transaction_announcer(&mut self, peer: PeerId, now: Moment) {
        let mut others = Vec::new();
        self.wanted.retain(|_, wanted| {
            let before = wanted.peers.len();
            wanted.peers.retain(|announcer| *announcer != peer);
            if wanted.asked == Some(peer) {
                wanted.asked = None;
            }
            if wanted.peers.len() != before
                && let Some(next) = wanted.peers.first()
                && !others.contains(next)
            {
                others.push(*next);
            }
            !wanted.peers.is_empty()
        });
        others.sort_unstable();
        for other in others {
            self.ask_for_transactions(other, now);
        }
    }
}
