//! The conditions that hold after every event in a world of whole nodes.
//!
//! After each event: failures of stores, new heads, pools that have changed. After each 16th event:
//! bounds of memory. At each opening of a store: committed blocks. At the end of each month, after
//! days without faults: agreement.

use std::hash::{Hash, Hasher};
use std::time::Duration;

use chain::import::BlockId;
use chain::rules::body::transactions_root;
use network::testing::{BLOCKS_WAITING_MAX, PeerMessage, WAITING_BYTES_MAX, WINDOW_BLOCKS};
use primitives::{B256, Block};

use super::{PEERS_MAX, Role, World};
use crate::simulation::chain::SimChain;
use crate::simulation::pool::{ACCOUNT_QUEUE, GLOBAL_QUEUE, sender_state};

/// A transaction whose nonce is used is forgotten so many blocks later. No branch is as long.
const FORGOTTEN_AFTER: u64 = 200;
/// Blocks below the head that are looked at when a store is opened.
const LOOKED_AT: u64 = 32;
/// The events between two looks at memory.
const MEMORY_INTERVAL: u64 = 16;

/// The conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Invariant {
    /// Nobody has, or gives, an invalid block.
    Valid,
    /// No committed block is lost.
    Committed,
    /// A damaged disk ends a node with an error that names the damage.
    Damage,
    /// Honest nodes agree once faults end.
    Agreement,
    /// A pool has what it has accepted, or there is a reason.
    Pool,
    /// Memory has its bounds.
    Memory,
    /// Nothing panics.
    NoPanic,
}

/// A condition that does not hold.
#[derive(Clone, Debug)]
pub(crate) struct BrokenInvariant {
    pub(crate) invariant: Invariant,
    pub(crate) at: Duration,
    pub(crate) text: String,
}

impl World {
    /// Notes that a condition does not hold. The first one counts; the world stands still then.
    pub(super) fn break_invariant(&mut self, invariant: Invariant, text: String) {
        let at = self.now;
        self.broken.get_or_insert(BrokenInvariant { invariant, at, text });
    }

    pub(super) fn note_in_digest(&mut self, value: &impl Hash) {
        value.hash(&mut self.digest);
    }

    /// One number for all events so far, with their times, and all heads and transactions.
    pub(crate) fn digest(&self) -> u64 {
        self.digest.finish()
    }

    pub(super) fn note_made(&mut self, block: &Block) {
        self.made.insert(block.hash());
        let roots = (block.header.transactions_root, block.header.uncles_hash);
        self.made_bodies.insert(roots);
    }

    fn is_made(&self, id: &BlockId) -> bool {
        id.hash == self.genesis || self.made.contains(&id.hash)
    }

    /// Looks at all whole nodes after an event.
    pub(super) fn look_after_event(&mut self) {
        for index in 0..self.nodes.len() {
            if !self.nodes[index].is_up || self.nodes[index].whole.is_none() {
                continue;
            }
            if let Some(failure) = self.chain(index).take_failure() {
                self.store_failed(index, &failure);
                continue;
            }
            let pool = self.chain(index).pool.as_ref();
            let generation = pool.map_or(0, |pool| pool.pool.generation());
            if self.whole(index).pool_seen != generation {
                self.whole(index).pool_seen = generation;
                self.check_pool(index);
            }
            if self.events.is_multiple_of(MEMORY_INTERVAL) {
                self.check_memory(index);
            }
        }
    }

    /// A node has a new head.
    pub(super) fn check_head(&mut self, index: usize, head: &BlockId) {
        self.note_in_digest(&(index, head.hash));
        if self.nodes[index].whole.is_some() && !self.is_made(head) {
            self.break_invariant(
                Invariant::Valid,
                format!(
                    "node {index} has head {} ({}), which nobody made",
                    head.number, head.hash
                ),
            );
        }
    }

    /// A store was opened. `promised` was its head when the process ended, if the disk is good.
    pub(super) fn check_opened(&mut self, index: usize, chain: &SimChain, promised: Option<BlockId>) {
        let Some(view) = chain.look() else { return };
        let head = view.head_id();
        for number in head.number.saturating_sub(LOOKED_AT)..=head.number {
            let Some(hash) = chain.noted(view.canonical_hash(number)) else {
                return;
            };
            let id = BlockId {
                number,
                hash: hash.unwrap_or(B256::ZERO),
            };
            if !self.is_made(&id) {
                self.break_invariant(
                    Invariant::Valid,
                    format!(
                        "node {index} opens with block {number} ({}), which nobody made",
                        id.hash
                    ),
                );
            }
        }
        let Some(promised) = promised else { return };
        let Some(record) = chain.noted(view.header_by_hash(&promised.hash)) else {
            return;
        };
        let is_kept = record
            .is_some_and(|record| record.executed && record.total_difficulty <= view.head().total_difficulty);
        if !is_kept {
            self.break_invariant(
                Invariant::Committed,
                format!(
                    "node {index}: block {} ({}) was committed; it opens with head {} ({})",
                    promised.number, promised.hash, head.number, head.hash
                ),
            );
        }
    }

    /// Looks at an answer of an honest node to another one.
    pub(super) fn check_answer(&mut self, index: usize, answer: &PeerMessage) {
        if self.nodes[index].whole.is_none() {
            return;
        }
        let wrong = match answer {
            PeerMessage::BlockHeaders(_, headers) => headers
                .iter()
                .map(|header| (header.number, header.hash()))
                .find(|(number, hash)| {
                    let id = BlockId {
                        number: *number,
                        hash: *hash,
                    };
                    !self.is_made(&id) && !self.forged.contains(hash)
                })
                .map(|(number, hash)| format!("header {number} ({hash})")),
            PeerMessage::BlockBodies(_, bodies) => bodies
                .iter()
                .map(|body| {
                    let roots = transactions_root(&body.transactions);
                    (roots, primitives::uncles_hash(&body.uncles))
                })
                .find(|roots| !self.made_bodies.contains(roots))
                .map(|(root, _)| format!("a body with root {root}")),
            _ => None,
        };
        if let Some(wrong) = wrong {
            self.break_invariant(
                Invariant::Valid,
                format!("node {index} gives {wrong}, which nobody made"),
            );
        }
    }

    fn check_pool(&mut self, index: usize) {
        let mut accepted = std::mem::take(&mut self.whole(index).accepted);
        let chain = self.chain(index);
        let (Some(pool), Some(view)) = (&chain.pool, chain.look()) else {
            return;
        };
        let content = pool.pool.content();
        let queued_in_all: usize = content.queued.values().map(std::collections::BTreeMap::len).sum();
        let mut lost = None;
        accepted.retain(|hash, transaction| {
            if pool.pool.contains(hash) {
                transaction.used_at = None;
                return true;
            }
            let Some(state) = chain.noted(sender_state(&view, &transaction.sender)) else {
                return true;
            };
            if state.tx_nonce > transaction.tx_nonce {
                let used_at = *transaction.used_at.get_or_insert_with(|| view.head_number());
                return view.head_number() < used_at + FORGOTTEN_AFTER;
            }
            let of_sender = [&content.pending, &content.queued].map(|part| part.get(&transaction.sender));
            let is_replaced = of_sender
                .iter()
                .flatten()
                .any(|by_nonce| by_nonce.contains_key(&transaction.tx_nonce));
            let queued = of_sender[1].map_or(0, std::collections::BTreeMap::len);
            let is_evicted = queued >= ACCOUNT_QUEUE || queued_in_all >= GLOBAL_QUEUE;
            if !is_replaced && !is_evicted {
                lost = Some(format!(
                    "node {index}: {hash} of nonce {} of {} was accepted and is neither in the pool nor in the \
                     chain, whose nonce is {}",
                    transaction.tx_nonce, transaction.sender, state.tx_nonce
                ));
            }
            false
        });
        self.whole(index).accepted = accepted;
        if let Some(lost) = lost {
            self.break_invariant(Invariant::Pool, lost);
        }
    }

    fn check_memory(&mut self, index: usize) {
        let Role::Honest { chain, hub, sync } = &self.nodes[index].role else {
            return;
        };
        let (waiting, _) = hub.waiting_use();
        let queued = chain.pool.as_ref().map_or(0, |pool| pool.pool.counts().1);
        let bounds = [
            ("peers", hub.peers().count(), PEERS_MAX),
            ("blocks that wait", waiting.copies, BLOCKS_WAITING_MAX),
            ("bytes that wait", waiting.bytes, WAITING_BYTES_MAX),
            (
                "blocks of the synchronization",
                sync.window_blocks(),
                WINDOW_BLOCKS,
            ),
            ("queued transactions", queued, GLOBAL_QUEUE),
        ];
        if let Some((what, got, most)) = bounds.into_iter().find(|(_, got, most)| got > most) {
            let text = format!("node {index}: {what}: got {got}, expected at most {most}");
            self.break_invariant(Invariant::Memory, text);
        }
    }

    /// All faults have ended: all honest nodes must have one head soon.
    pub(crate) fn check_calm(&mut self) {
        let nodes = self.honest_nodes();
        for index in &nodes {
            self.set_mining(*index, false);
        }
        self.run_until(self.now + Duration::from_secs(1800));
        let heaviest = |index: &usize| self.chain(*index).look().map(|view| view.head().total_difficulty);
        if let Some(miner) = nodes.iter().copied().max_by_key(heaviest) {
            self.mine_now(miner);
        }
        self.run_until(self.now + Duration::from_secs(1800));
        let mut heads = Vec::new();
        for index in &nodes {
            self.set_mining(*index, true);
            let head = self.chain(*index).look().map(|view| view.head_id());
            heads.push((*index, self.nodes[*index].is_up, head, self.open_work(*index)));
        }
        if heads
            .iter()
            .any(|(_, is_up, head, work)| !is_up || *head != heads[0].2 || work.is_some())
        {
            let told = |index: &usize| {
                let links = self.nodes[*index].links.values().map(|remote| remote.node);
                let links: Vec<_> = links.collect();
                let others = nodes
                    .iter()
                    .filter(|other| *other != index && !links.contains(other));
                let refused = others.map(|other| (other, self.refuses(*index, *other)));
                format!(
                    "node {index}: links {links:?}, refuses {:?}, last refusal {:?}, not opened {:?}",
                    refused.collect::<Vec<_>>(),
                    self.chain(*index).last_refusal(),
                    self.nodes[*index]
                        .whole
                        .as_ref()
                        .map(|whole| &whole.refused_to_open)
                )
            };
            let told: Vec<_> = nodes.iter().map(told).collect();
            self.break_invariant(
                Invariant::Agreement,
                format!("{heads:?} {told:?} {:?} {:?}", self.groups, self.counts),
            );
        }
    }
}
