//! Transactions: from peers to the pool, and from the pool to peers.
//!
//! Before eth/65 every peer gets whole transactions. From eth/65 on the square root of the peers
//! does, and the others get hashes and ask for what they need. Each peer is told once. Source:
//! docs/p2p.md, 3 and 6.

use std::collections::{BTreeMap, HashSet};

use alloy_rlp::Encodable;
use primitives::{B256, Transaction};

use super::super::action::PeerAction;
use super::super::interface::PeerId;
use super::{PeerHub, RequestNote};
use crate::messages::{AnnouncedTransaction, PeerMessage};
use crate::moment::Moment;

/// Transactions that are asked for at once.
pub const TRANSACTION_FETCHES_MAX: usize = 256;
/// Transactions of one peer that are waited for.
pub const WANTED_TRANSACTIONS_MAX: usize = 4096;
/// Transactions of all peers that are waited for.
const WANTED_ALL_MAX: usize = 65_536;
/// Peers that are remembered to have announced a transaction.
const ANNOUNCERS_MAX: usize = 8;
/// A message with whole transactions ends with the one that makes it longer than this.
const PACK_BYTES: usize = 100 << 10;
/// Hashes in one announcement.
const ANNOUNCED_MAX: usize = 4096;
/// Pending transactions that a new peer is told of.
const TOLD_ON_JOIN_MAX: usize = 4096;
/// Bytes of whole transactions that a new peer is told of.
const TOLD_ON_JOIN_BYTES: usize = 2 << 20;

/// A transaction that was announced.
#[derive(Clone, Debug, Default)]
pub(super) struct WantedTransaction {
    /// Who has it.
    peers: Vec<PeerId>,
    /// Who was asked.
    asked: Option<PeerId>,
}

fn announcement(transaction: &Transaction) -> AnnouncedTransaction {
    AnnouncedTransaction {
        hash: transaction.hash(),
        kind_and_size: Some((transaction.tx_type(), transaction.encoded_length() as u64)),
    }
}

/// Packs of transactions with about [`PACK_BYTES`] each.
fn packs(transactions: Vec<Transaction>) -> Vec<Vec<Transaction>> {
    let (mut packs, mut bytes) = (Vec::new(), PACK_BYTES);
    for transaction in transactions {
        if bytes >= PACK_BYTES {
            packs.push(Vec::new());
            bytes = 0;
        }
        bytes += transaction.length();
        if let Some(pack) = packs.last_mut() {
            pack.push(transaction);
        }
    }
    packs
}

impl PeerHub {
    /// A peer has sent transactions.
    pub(super) fn transactions_came(&mut self, peer: PeerId, transactions: Vec<Transaction>) {
        self.counters.transactions_received += transactions.len() as u64;
        let Some(state) = self.peers.get_mut(&peer) else {
            return;
        };
        let mut new = Vec::new();
        for transaction in transactions {
            let hash = transaction.hash();
            state.known_transactions.add(hash);
            self.wanted.remove(&hash);
            if transaction.sharding_flag != 0 {
                if !self.relayed.contains(&hash) {
                    let transaction = Box::new(transaction);
                    self.actions.push(PeerAction::ForApplicationChain(transaction));
                }
            } else if !self.is_behind && !self.is_subnet {
                new.push(transaction);
            }
        }
        if !new.is_empty() {
            let transactions = new;
            self.actions.push(PeerAction::Submit { peer, transactions });
        }
    }

    /// The pool has new transactions that could be in the next block. Peers that do not know them
    /// are told.
    pub fn pool_has(&mut self, transactions: &[Transaction]) -> Vec<PeerAction> {
        let mut whole: BTreeMap<PeerId, Vec<Transaction>> = BTreeMap::new();
        let mut hashes: BTreeMap<PeerId, Vec<AnnouncedTransaction>> = BTreeMap::new();
        for transaction in transactions {
            let announced = announcement(transaction);
            self.wanted.remove(&announced.hash);
            let mut to = self.active_peers(|state| !state.known_transactions.contains(&announced.hash));
            self.entropy.shuffle(&mut to);
            let mut whole_left = Self::whole_share(to.len());
            for peer in to {
                let Some(state) = self.peers.get_mut(&peer) else {
                    continue;
                };
                state.known_transactions.add(announced.hash);
                let takes_hashes = state.protocol.has_pooled_transactions();
                if takes_hashes && whole_left == 0 {
                    hashes.entry(peer).or_default().push(announced);
                } else {
                    whole_left -= usize::from(takes_hashes);
                    whole.entry(peer).or_default().push(transaction.clone());
                }
            }
        }
        for (peer, transactions) in whole {
            for pack in packs(transactions) {
                self.send(peer, PeerMessage::Transactions(pack));
            }
        }
        for (peer, announced) in hashes {
            self.announce_transactions(peer, &announced);
        }
        self.take_actions()
    }

    fn announce_transactions(&mut self, peer: PeerId, announced: &[AnnouncedTransaction]) {
        for part in announced.chunks(ANNOUNCED_MAX) {
            self.send(peer, PeerMessage::NewPooledTransactionHashes(part.to_vec()));
        }
    }

    /// Tells a new peer what is in the pool.
    pub(super) fn tell_pending(&mut self, peer: PeerId) {
        if self.is_subnet {
            return;
        }
        let pending = self.chain.pending(TOLD_ON_JOIN_MAX);
        let Some(state) = self.peers.get_mut(&peer) else {
            return;
        };
        let takes_hashes = state.protocol.has_pooled_transactions();
        let (mut transactions, mut announced, mut bytes) = (Vec::new(), Vec::new(), 0);
        for hash in pending {
            let Some(transaction) = self.chain.pooled(&hash) else {
                continue;
            };
            if takes_hashes {
                announced.push(announcement(&transaction));
            } else {
                bytes += transaction.length();
                transactions.push(transaction);
            }
            state.known_transactions.add(hash);
            if bytes >= TOLD_ON_JOIN_BYTES {
                break;
            }
        }
        self.announce_transactions(peer, &announced);
        for pack in packs(transactions) {
            self.send(peer, PeerMessage::Transactions(pack));
        }
    }

    /// A peer says that it has transactions.
    pub(super) fn transactions_announced(
        &mut self,
        peer: PeerId,
        announced: &[AnnouncedTransaction],
        now: Moment,
    ) {
        let Some(state) = self.peers.get_mut(&peer) else {
            return;
        };
        for AnnouncedTransaction { hash, .. } in announced {
            state.known_transactions.add(*hash);
        }
        if self.is_behind {
            return;
        }
        for AnnouncedTransaction { hash, .. } in announced {
            if state.wanted.len() >= WANTED_TRANSACTIONS_MAX {
                break;
            }
            let is_known = self.wanted.contains_key(hash);
            if !is_known && (self.wanted.len() >= WANTED_ALL_MAX || self.chain.pooled(hash).is_some()) {
                continue;
            }
            let wanted = self.wanted.entry(*hash).or_default();
            if wanted.peers.len() < ANNOUNCERS_MAX && !wanted.peers.contains(&peer) {
                wanted.peers.push(peer);
                state.wanted.insert(*hash);
            }
        }
        self.ask_for_transactions(peer, now);
    }

    /// Asks a peer for transactions that it has announced and nobody else was asked for.
    fn ask_for_transactions(&mut self, peer: PeerId, now: Moment) {
        let Some(state) = self.peers.get_mut(&peer).filter(|state| !state.asks_transactions) else {
            return;
        };
        // Those that came in the meantime, or that the peer did not send, are not wanted of it.
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
        let message = |id| PeerMessage::GetPooledTransactions(id, hashes.clone());
        if !self.ask(peer, RequestNote::Transactions(hashes.clone()), message, now) {
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

    /// A peer has answered a request for transactions.
    pub(super) fn asked_transactions_came(
        &mut self,
        peer: PeerId,
        asked: &[B256],
        transactions: Vec<Transaction>,
        now: Moment,
    ) {
        let hashes: HashSet<_> = asked.iter().collect();
        let hash_of = |transaction: &Transaction| transaction.hash();
        if let Some(other) = transactions
            .iter()
            .map(hash_of)
            .find(|hash| !hashes.contains(hash))
        {
            self.breach(
                peer,
                &format!("pooled transactions: got {other}, which was not asked for"),
                now,
            );
            return;
        }
        self.transactions_came(peer, transactions);
        self.transactions_not_sent(peer, asked, now);
    }

    /// Whatever of `asked` is still wanted is asked of others.
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
