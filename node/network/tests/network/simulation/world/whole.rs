//! Whole nodes: a store on a simulated disk, a pool, a clock and hash power of their own. They are
//! opened from what their disk has, and their faults are planned.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chain::ChainSpec;
use chain::import::BlockId;
use chain::spec::DEV_ACCOUNTS;
use network::testing::{
    Entropy, HashedTransaction, ImportResult, JudgedTransactions, PeerId, TransactionVerdict,
};
use primitives::{Address, B256};
use store::{Store, StoreOptions};

use super::invariants::Invariant;
use super::{Event, Role, World};
use crate::disk::{Disk, DiskFault};
use crate::simulation::chain::{GAS_PRICE, SimChain, StoreFailure, transfer};
use crate::simulation::liar::Liar;
use crate::simulation::plan::{FaultKind, INVALID_LIES, NO_JUMP, PlannedFault};
use crate::simulation::pool::sender_state;

/// The interval at which a whole node looks for more connections.
const DIAL_INTERVAL: Duration = Duration::from_secs(600);
/// Hash power that is usual, and the most.
pub(super) const POWER_USUAL: u64 = 4;
pub(super) const POWER_MAX: usize = 16;
/// The time until an operator starts a node again that has ended by itself.
const OPERATOR_TIME: Duration = Duration::from_secs(3600);
/// The time until a machine without power is on again.
const POWER_BACK: Duration = Duration::from_secs(600);
/// A node's users send a transaction in so many times the interval of blocks, on average.
const SUBMIT_INTERVALS: u32 = 2;
/// Bytes around a damaged one that are compared before it is put right.
const DAMAGED_PAGE: usize = 64;

/// The cache is small, so that pages are read from the disk; the log is short, so that there are
/// checkpoints.
fn options() -> StoreOptions {
    StoreOptions {
        cache_bytes: 1 << 20,
        log_bytes: 64 << 10,
        ..StoreOptions::default()
    }
}

/// A transaction that a pool has accepted.
#[derive(Clone, Copy, Debug)]
pub(super) struct AcceptedTransaction {
    pub(super) sender: Address,
    pub(super) tx_nonce: u64,
    /// The head with which its nonce was found to be used.
    pub(super) used_at: Option<u64>,
}

/// A byte of a file that was changed.
struct DiskDamage {
    file: usize,
    page: std::ops::Range<usize>,
    at: usize,
    right: u8,
    /// The bytes of the page with the damage.
    wrong: Vec<u8>,
}

/// The parts of a node that the other nodes of a simulation do not have.
pub(super) struct WholeNode {
    pub(super) disk: Arc<Disk>,
    /// The disk has kept what it has promised.
    pub(super) is_trusted: bool,
    /// A block that was reported as durably committed: the opened store must have it.
    pub(super) promised: Option<BlockId>,
    /// While the disk forgets syncs: the block that was committed before.
    floor: Option<BlockId>,
    damage: Option<DiskDamage>,
    pub(super) accepted: BTreeMap<B256, AcceptedTransaction>,
    /// The change of the pool that was looked at last.
    pub(super) pool_seen: u64,
    pub(super) power: u64,
    /// The error with which the store was not opened last.
    pub(super) refused_to_open: String,
    skew: i64,
}

/// The same disk for another process. Whoever has `disk` open cannot write any more.
fn hand_over(disk: &Disk) -> Disk {
    let mut state = disk.state();
    let handed_over = std::mem::take(&mut *state);
    state.off_at = Some(0);
    Disk(Mutex::new(handed_over))
}

/// Bad links.
#[derive(Clone, Copy, Debug)]
pub(super) struct LinkWeather {
    /// Messages of 16 that are lost, and that come twice.
    of_sixteen: usize,
}

/// The longest delay of a message in bad weather.
const LATE_MAX: Duration = Duration::from_secs(40);

impl World {
    /// A world of whole nodes.
    pub(crate) fn of_whole_nodes(
        spec: Arc<ChainSpec>,
        seed: u64,
        nodes: usize,
        interval: Duration,
    ) -> Result<Self, StoreFailure> {
        let mut world = Self::new(spec, seed, 0, interval);
        world.dial_interval = DIAL_INTERVAL;
        for index in 0..nodes {
            let disk = Arc::new(Disk::default());
            let chain = world.open_chain(&disk)?;
            let role = world.honest(Arc::new(chain));
            world.add(role, true);
            world.nodes[index].whole = Some(Box::new(WholeNode {
                disk,
                is_trusted: true,
                promised: None,
                floor: None,
                damage: None,
                accepted: BTreeMap::new(),
                pool_seen: 0,
                power: POWER_USUAL,
                refused_to_open: String::new(),
                skew: 0,
            }));
            world.schedule_submit(index);
        }
        Ok(world)
    }

    fn open_chain(&self, disk: &Arc<Disk>) -> Result<SimChain, StoreFailure> {
        let opened = disk.open_store(&options());
        let store: Store = opened.map_err(|error| StoreFailure::of(&error))?;
        SimChain::open(store, &self.spec, &self.clock, true)
    }

    /// From now on the syncs of a node's disk do nothing, and the world believes that they do.
    pub(crate) fn forget_syncs(&self, index: usize) {
        if let Some(whole) = &self.nodes[index].whole {
            whole.disk.state().forgets_syncs = true;
        }
    }

    pub(crate) fn plan(&mut self, faults: &[PlannedFault]) {
        for fault in faults {
            self.after(fault.begins().saturating_sub(self.now), Event::Fault(*fault));
        }
    }

    pub(super) fn fault_begins(&mut self, fault: PlannedFault) {
        self.counts.faults += 1;
        let index = fault.node;
        self.after(fault.length(), Event::FaultEnds(fault));
        match fault.kind {
            FaultKind::Kill => self.kill(index, Some(fault.length())),
            FaultKind::PowerLoss => self.lose_power(index, fault.amount, fault.length()),
            FaultKind::Full => self.fail_disk(index, DiskFault::Full),
            FaultKind::NoGrowth => self.fail_disk(index, DiskFault::NoGrowth),
            FaultKind::Broken => self.fail_disk(index, DiskFault::Broken),
            FaultKind::LostSync => self.whole(index).disk.state().loses_next_sync = true,
            FaultKind::ForgottenSyncs => self.begin_to_forget(index),
            FaultKind::Damage => self.damage(index, fault),
            FaultKind::Clock => self.set_clock(index, fault.amount as i64 - NO_JUMP as i64),
            FaultKind::HashPower => self.whole(index).power = fault.amount,
            FaultKind::Cut => {
                let (parts, nodes) = (fault.amount as usize, self.nodes.len());
                self.cut(|one| (one + index) % nodes * parts / nodes);
            }
            FaultKind::Weather => {
                self.weather = Some(LinkWeather {
                    of_sixteen: fault.amount as usize,
                });
            }
            FaultKind::Liar => self.liar_comes(index, fault.amount as usize),
        }
    }

    pub(super) fn fault_ends(&mut self, fault: PlannedFault) {
        let index = fault.node;
        match fault.kind {
            FaultKind::Kill | FaultKind::PowerLoss => {}
            FaultKind::Full | FaultKind::NoGrowth | FaultKind::Broken => self.whole(index).disk.repair(),
            FaultKind::LostSync | FaultKind::ForgottenSyncs => {
                self.whole(index).disk.state().loses_next_sync = false;
                self.lose_power(index, fault.amount, POWER_BACK);
            }
            FaultKind::Damage => self.undo_damage(index),
            FaultKind::Clock => self.set_clock(index, 0),
            FaultKind::HashPower => self.whole(index).power = POWER_USUAL,
            FaultKind::Cut => self.cut(|_| 0),
            FaultKind::Weather => self.weather = None,
            FaultKind::Liar => self.remove_liars(),
        }
    }

    pub(super) fn whole(&mut self, index: usize) -> &mut WholeNode {
        self.nodes[index].whole.as_mut().expect("a whole node")
    }

    /// The syncs of a node's disk do nothing from now on.
    fn begin_to_forget(&mut self, index: usize) {
        let is_up = self.nodes[index].is_up;
        let committed = is_up.then(|| self.chain(index).committed()).flatten();
        let whole = self.whole(index);
        let was_forgetting = std::mem::replace(&mut whole.disk.state().forgets_syncs, true);
        if !was_forgetting {
            whole.floor = committed.or(whole.promised);
        }
    }

    fn fail_disk(&mut self, index: usize, fault: DiskFault) {
        self.whole(index).disk.fail_from(0, fault);
    }

    fn set_clock(&mut self, index: usize, seconds: i64) {
        self.whole(index).skew = seconds;
        self.chain(index).set_skew(seconds);
    }

    /// The process of a node ends: another one gets its disk.
    pub(super) fn leave_disk(&mut self, index: usize) {
        if self.nodes[index].whole.is_none() {
            return;
        }
        let committed = self.chain(index).committed();
        let Role::Honest { chain, .. } = &self.nodes[index].role else {
            return;
        };
        let chain = chain.clone();
        let knows = |liar: &Liar| liar.knows(&chain);
        let liars: Vec<_> = (0..self.nodes.len())
            .filter(|at| matches!(&self.nodes[*at].role, Role::Liar { liar, .. } if knows(liar)))
            .collect();
        for liar in liars {
            self.kill(liar, None);
        }
        let whole = self.whole(index);
        whole.promised = committed;
        whole.accepted.clear();
        whole.disk = Arc::new(hand_over(&whole.disk));
    }

    /// The power of a node fails.
    fn lose_power(&mut self, index: usize, luck: u64, back_after: Duration) {
        self.kill(index, Some(back_after));
        let mut bytes = [0xb0; 32];
        bytes[..8].copy_from_slice(&luck.to_be_bytes());
        bytes[8..16].copy_from_slice(&(index as u64).to_be_bytes());
        let mut entropy = Entropy::from_seed(bytes);
        let whole = self.whole(index);
        let forgets = whole.disk.state().forgets_syncs;
        if let Some(floor) = whole.floor.take() {
            whole.promised = Some(floor);
        }
        let left = whole.disk.after_power_loss(|| match luck % 4 {
            _ if forgets => false,
            0 => false,
            1 => true,
            _ => entropy.below(2) == 0,
        });
        whole.disk = Arc::new(Disk::with(left));
        self.counts.power_losses += 1;
    }

    /// Changes a byte of a file, and ends the process, so that the byte is read again.
    fn damage(&mut self, index: usize, fault: PlannedFault) {
        self.kill(index, Some(Duration::from_secs(60)));
        let whole = self.whole(index);
        let mut state = whole.disk.state();
        let file = fault.amount as usize % state.files.len();
        let bytes = &mut state.files[file];
        let len = bytes.bytes.len().min(bytes.safe.len());
        if len == 0 {
            return;
        }
        let at = fault.amount as usize % len;
        let page = at / DAMAGED_PAGE * DAMAGED_PAGE..((at / DAMAGED_PAGE + 1) * DAMAGED_PAGE).min(len);
        let (right, wrong_byte) = (bytes.bytes[at], bytes.bytes[at] ^ (1 << (fault.amount % 8)));
        bytes.bytes[at] = wrong_byte;
        bytes.safe[at] = wrong_byte;
        let wrong = bytes.bytes[page.clone()].to_vec();
        drop(state);
        whole.is_trusted = false;
        whole.damage = Some(DiskDamage {
            file,
            page,
            at,
            right,
            wrong,
        });
        self.counts.damaged += 1;
    }

    /// Puts the damaged byte right, wherever nothing was written since.
    fn undo_damage(&mut self, index: usize) {
        let whole = self.whole(index);
        let Some(damage) = whole.damage.take() else { return };
        let mut state = whole.disk.state();
        let file = &mut state.files[damage.file];
        for bytes in [&mut file.bytes, &mut file.safe] {
            if bytes.get(damage.page.clone()) == Some(&damage.wrong[..]) {
                bytes[damage.at] = damage.right;
            }
        }
        drop(state);
        whole.is_trusted = true;
    }

    fn liar_comes(&mut self, index: usize, which: usize) {
        let node = &self.nodes[index];
        let Role::Honest { chain, .. } = &node.role else {
            return;
        };
        if !node.is_up || chain.look().is_none() {
            return;
        }
        let liar = Liar::new(INVALID_LIES[which], chain.clone());
        self.forged.extend(liar.forged());
        let gone = |at: &usize| matches!(self.nodes[*at].role, Role::Liar { .. }) && !self.nodes[*at].is_up;
        let free = (0..self.nodes.len()).find(gone);
        let liar = Box::new(liar);
        let role = Role::Liar { liar, next_peer: 1 };
        match free {
            Some(at) => {
                self.nodes[at].role = role;
                self.nodes[at].id = self.entropy.bytes::<64>().into();
                self.nodes[at].is_up = true;
            }
            None => self.add(role, false),
        }
    }

    /// Starts the process of a whole node.
    pub(super) fn start_whole(&mut self, index: usize) {
        let disk = self.whole(index).disk.clone();
        let opened = self.open_chain(&disk).and_then(|chain| {
            let whole = self.whole(index);
            let promised = whole.promised.filter(|_| whole.is_trusted);
            chain.set_skew(whole.skew);
            self.check_opened(index, &chain, promised);
            chain.take_failure().map_or(Ok(chain), Err)
        });
        match opened {
            Ok(chain) => {
                let role = self.honest(Arc::new(chain));
                self.nodes[index].role = role;
                self.nodes[index].is_up = true;
                self.whole(index).pool_seen = 0;
            }
            Err(failure) => {
                // The next process gets the disk, whatever this one has open.
                let handed_over = Arc::new(hand_over(&disk));
                self.whole(index).disk = handed_over;
                self.whole(index).refused_to_open.clone_from(&failure.text);
                let is_lost = failure.is_damage || failure.is_final && !failure.is_of_drive;
                if is_lost && !failure.wants_space {
                    self.give_up_disk(index, &failure);
                }
                self.after(OPERATOR_TIME, Event::Start(index));
            }
        }
    }

    /// The operator moves the damaged folder away.
    fn give_up_disk(&mut self, index: usize, failure: &StoreFailure) {
        self.counts.given_up += 1;
        let whole = self.whole(index);
        let is_trusted = std::mem::replace(&mut whole.is_trusted, true);
        whole.disk = Arc::new(Disk::default());
        whole.promised = None;
        whole.floor = None;
        whole.damage = None;
        let text = &failure.text;
        if is_trusted {
            self.break_invariant(
                Invariant::Committed,
                format!("node {index}: damage on a good disk: {text}"),
            );
        }
        if !text.contains("(medium)") && !text.contains("corrupt") {
            self.break_invariant(
                Invariant::Damage,
                format!("node {index}: the error does not say which file is damaged: {text}"),
            );
        }
    }

    /// Ends a node whose store has failed for good.
    pub(super) fn store_failed(&mut self, index: usize, failure: &StoreFailure) {
        self.counts.store_failures += 1;
        if failure.is_damage {
            self.kill(index, Some(OPERATOR_TIME));
            self.give_up_disk(index, failure);
        } else if failure.is_final {
            self.kill(index, Some(OPERATOR_TIME));
        }
    }

    /// The delays after which a message arrives: none if it is lost.
    pub(super) fn delays(&mut self, usual: Duration) -> Vec<Duration> {
        let Some(LinkWeather { of_sixteen }) = self.weather else {
            return vec![usual];
        };
        let copies = match self.entropy.below(16) {
            luck if luck < of_sixteen => 0,
            luck if luck < 2 * of_sixteen => 2,
            _ => 1,
        };
        (0..copies).map(|_| usual + self.random(LATE_MAX)).collect()
    }

    pub(super) fn schedule_submit(&mut self, index: usize) {
        let wait = self.random(2 * SUBMIT_INTERVALS * self.interval);
        self.after(wait, Event::Submit(index));
    }

    /// A user sends a transaction to a node: the account's next one, one that replaces another, or
    /// one too far ahead.
    pub(super) fn submit(&mut self, index: usize) {
        self.schedule_submit(index);
        if !self.nodes[index].is_up {
            return;
        }
        let (address, key) = DEV_ACCOUNTS[self.entropy.below(DEV_ACCOUNTS.len())];
        let luck = self.entropy.below(16);
        let chain = self.chain(index);
        let (Some(pool), Some(view)) = (&chain.pool, chain.look()) else {
            return;
        };
        let Some(state) = chain.noted(sender_state(&view, &address)) else {
            return;
        };
        let next = pool.pool.next_nonce(&address).unwrap_or(state.tx_nonce);
        let (tx_nonce, price) = match luck {
            0 | 1 => (next + 1 + luck as u64, GAS_PRICE),
            2 | 3 => (next.saturating_sub(1).max(state.tx_nonce), 2 * GAS_PRICE),
            _ => (next, GAS_PRICE),
        };
        let transaction = transfer(key, tx_nonce, price);
        self.offer(index, transaction.into());
        self.tell_pool(index);
    }

    fn offer(&mut self, index: usize, offered: HashedTransaction) -> TransactionVerdict {
        let (hash, tx_nonce) = (offered.hash, offered.transaction.tx_nonce);
        let chain = self.chain(index);
        let verdict = network::testing::ChainAccess::submit(chain, offered);
        let pooled = chain.pool.as_ref().and_then(|pool| pool.pool.get(&hash));
        if verdict == TransactionVerdict::Taken {
            self.counts.accepted += 1;
            self.note_in_digest(&hash);
            match pooled {
                Some(pooled) => {
                    let accepted = AcceptedTransaction {
                        sender: pooled.sender,
                        tx_nonce,
                        used_at: None,
                    };
                    self.whole(index).accepted.insert(hash, accepted);
                }
                None => self.break_invariant(
                    Invariant::Pool,
                    format!("node {index}: {hash} was accepted and is not there"),
                ),
            }
        }
        verdict
    }

    /// Offers the transactions of a peer.
    pub(super) fn offer_all(&mut self, index: usize, peer: PeerId, transactions: Vec<HashedTransaction>) {
        let mut judged = JudgedTransactions::default();
        for offered in transactions {
            judged.count(&self.offer(index, offered));
        }
        self.with_hub(index, |hub, now| hub.transactions_judged(peer, judged, now));
        self.tell_pool(index);
    }

    /// Tells peers of the transactions that became pending.
    pub(super) fn tell_pool(&mut self, index: usize) {
        let news = self.chain(index).pool.as_ref().map(|pool| pool.take_news());
        if let Some(news) = news.filter(|news| !news.is_empty()) {
            self.with_hub(index, |hub, _| hub.pool_has(&news));
        }
    }

    /// A whole node finds a block.
    pub(super) fn mine_whole(&mut self, index: usize) {
        let Some(block) = self.chain(index).make_from_pool(index) else {
            return;
        };
        self.note_made(&block);
        match self.import(index, block) {
            ImportResult::Good => {
                self.counts.mined += 1;
                self.head_moved(index);
            }
            ImportResult::Invalid(text) => self.break_invariant(
                Invariant::Valid,
                format!("node {index} refuses its own block: {text}"),
            ),
            ImportResult::Later | ImportResult::Failed(_) => {}
        }
    }
}
