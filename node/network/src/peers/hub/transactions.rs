//! Transactions: from peers to the pool, and from the pool to peers.
//!
//! The hub computes neither hashes nor signatures, see [`super::super::offered`]. Announced
//! transactions are in `wanted`.
//!
//! Before eth/65 every peer gets whole transactions. From eth/65 on the square root of the peers
//! does, and the others get hashes and ask for what they need. Each peer is told once. Source:
//! docs/p2p.md, 3 and 6.

use std::collections::BTreeMap;
use std::time::Duration;

use alloy_rlp::Encodable;
use primitives::{B256, Transaction};

use super::super::action::PeerAction;
use super::super::interface::PeerId;
use super::super::offered::{HashedTransaction, JudgedTransactions, TransactionPack};
use super::{FAULT_BAN, PeerHub};
use crate::messages::{AnnouncedTransaction, PeerMessage};
use crate::moment::Moment;

/// After so many transactions that cost a signature check, a peer is judged by them.
pub(crate) const JUDGED_TRANSACTIONS_MIN: u32 = 256;
/// A peer is at fault if more than so many percent of them are worthless.
const WORTHLESS_PERCENT_MAX: u32 = 75;
/// Nothing is taken for this long of a peer whose transactions are mostly worthless.
pub(crate) const WORTHLESS_PAUSE: Duration = Duration::from_secs(5);
/// A message with whole transactions ends with the one that makes it longer than this.
const PACK_BYTES: usize = 100 << 10;
/// Hashes in one announcement.
const ANNOUNCED_MAX: usize = 4096;
/// Pending transactions that a new peer is told of.
const TOLD_ON_JOIN_MAX: usize = 4096;
/// Bytes of whole transactions that a new peer is told of.
const TOLD_ON_JOIN_BYTES: usize = 2 << 20;

/// The verdicts on the transactions that a peer has sent since it was judged last.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TransactionRecord {
    worthless: u32,
    others: u32,
    /// The peer was at fault when it was judged last.
    is_warned: bool,
}

fn announcement(offered: &HashedTransaction) -> AnnouncedTransaction {
    let HashedTransaction { hash, transaction } = offered;
    AnnouncedTransaction {
        hash: *hash,
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
    /// A peer has sent transactions. They are hashed without the hub.
    pub(super) fn transactions_came(&mut self, peer: PeerId, mut transactions: Vec<Transaction>) {
        self.counters.transactions_received += transactions.len() as u64;
        if self.is_behind || self.is_subnet {
            transactions.retain(|transaction| transaction.sharding_flag != 0);
            transactions.shrink_to_fit();
        }
        if !transactions.is_empty() {
            let pack = TransactionPack {
                transactions,
                asked: None,
            };
            self.actions.push(PeerAction::Take { peer, pack });
        }
    }

    /// Takes a part of a pack ([`PeerAction::Take`]) with its hashes. `asked` is that of the pack.
    pub fn transactions_hashed(
        &mut self,
        peer: PeerId,
        part: Vec<HashedTransaction>,
        asked: Option<&[B256]>,
        now: Moment,
    ) -> Vec<PeerAction> {
        let is_other =
            |one: &&HashedTransaction| asked.is_some_and(|asked| asked.binary_search(&one.hash).is_err());
        if let Some(HashedTransaction { hash, .. }) = part.iter().find(is_other) {
            let text = format!("pooled transactions: got {hash}, which was not asked for");
            self.breach(peer, &text, now);
            return self.take_actions();
        }
        let mut new = Vec::new();
        for one in part {
            // The peer may have left.
            if let Some(state) = self.peers.get_mut(&peer) {
                state.known_transactions.add(one.hash);
            }
            self.wanted.remove(&one.hash);
            if one.transaction.sharding_flag != 0 {
                if !self.relayed.contains(&one.hash) {
                    let transaction = Box::new(one.transaction);
                    self.actions.push(PeerAction::ForApplicationChain(transaction));
                }
            } else if !self.is_behind && !self.is_subnet {
                new.push(one);
            }
        }
        if !new.is_empty() {
            let transactions = new;
            self.actions.push(PeerAction::Submit { peer, transactions });
        }
        self.take_actions()
    }

    /// All of a pack was taken, or the rest is dropped.
    pub fn pack_done(&mut self, peer: PeerId, asked: Option<&[B256]>, now: Moment) -> Vec<PeerAction> {
        if let Some(asked) = asked {
            self.transactions_not_sent(peer, asked, now);
        }
        self.take_actions()
    }

    /// Takes what the pool has said of a peer's transactions ([`PeerAction::Submit`]). A peer whose
    /// transactions are mostly worthless pauses. If it goes on after that, it loses its place. A
    /// peer that says it is ahead of this node is not judged: its transactions may be good after
    /// its own head.
    pub fn transactions_judged(
        &mut self,
        peer: PeerId,
        judged: JudgedTransactions,
        now: Moment,
    ) -> Vec<PeerAction> {
        let own = self.head.total_difficulty;
        let Some(state) = self.peers.get_mut(&peer) else {
            return Vec::new();
        };
        if state.facts(peer).total_difficulty > own {
            return Vec::new();
        }
        let record = &mut state.transaction_record;
        record.worthless += judged.worthless;
        record.others += judged.taken + judged.refused;
        let all = record.worthless + record.others;
        if all < JUDGED_TRANSACTIONS_MIN {
            return Vec::new();
        }
        let worthless = record.worthless;
        let is_fault = worthless * 100 > all * WORTHLESS_PERCENT_MAX;
        let was_warned = record.is_warned;
        *record = TransactionRecord {
            is_warned: is_fault,
            ..TransactionRecord::default()
        };
        match (is_fault, was_warned) {
            (false, _) => {}
            (true, false) => {
                let time = WORTHLESS_PAUSE;
                self.actions.push(PeerAction::Pause { peer, time });
            }
            (true, true) => {
                let text = format!(
                    "transactions: got {worthless} of {all} that no block may contain or nobody pays, \
                     expected at most {WORTHLESS_PERCENT_MAX} percent"
                );
                // The taker of its transactions stops at once, and not when the connection ends.
                let time = FAULT_BAN;
                self.actions.push(PeerAction::Pause { peer, time });
                self.breach(peer, &text, now);
            }
        }
        self.take_actions()
    }

    /// The pool has new transactions that could be in the next block. Peers that do not know them
    /// are told.
    pub fn pool_has(&mut self, offered: &[HashedTransaction]) -> Vec<PeerAction> {
        // Numbers of transactions in `offered`.
        let mut whole: BTreeMap<PeerId, Vec<usize>> = BTreeMap::new();
        let mut hashes: BTreeMap<PeerId, Vec<AnnouncedTransaction>> = BTreeMap::new();
        for (number, one) in offered.iter().enumerate() {
            self.wanted.remove(&one.hash);
            let announced = announcement(one);
            let mut to = self.active_peers(|state| !state.known_transactions.contains(&one.hash));
            self.entropy.shuffle(&mut to);
            let mut whole_left = Self::whole_share(to.len());
            for peer in to {
                let Some(state) = self.peers.get_mut(&peer) else {
                    continue;
                };
                state.known_transactions.add(one.hash);
                let takes_hashes = state.protocol.has_pooled_transactions();
                if takes_hashes && whole_left == 0 {
                    hashes.entry(peer).or_default().push(announced);
                } else {
                    whole_left -= usize::from(takes_hashes);
                    whole.entry(peer).or_default().push(number);
                }
            }
        }
        // Peers that get the same transactions share the messages.
        let mut alike: BTreeMap<Vec<usize>, Vec<PeerId>> = BTreeMap::new();
        for (peer, numbers) in whole {
            alike.entry(numbers).or_default().push(peer);
        }
        for (numbers, to) in alike {
            let transactions = numbers.iter().map(|number| offered[*number].transaction.clone());
            for pack in packs(transactions.collect()) {
                self.send_to_all(to.clone(), PeerMessage::Transactions(pack));
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
                announced.push(announcement(&HashedTransaction { hash, transaction }));
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
}
