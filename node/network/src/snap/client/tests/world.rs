//! The simulated network: a chain whose states change, peers that serve it in their manner, and a
//! sink that loses what was not committed when it is killed.

use std::collections::BTreeMap;
use std::time::Duration;

use primitives::{B256, EMPTY_ROOT, U256, keccak256};
use store::{AccountRecord, StoreError};

use super::super::{SnapAction, SnapClient, SnapEvent, SnapPhase, SnapPivot, SnapSink};
use crate::messages::snap::SnapMessage;
use crate::peers::snap_memory::{MemoryChain, MemoryState, Nodes, account};
use crate::peers::snap_serve;
use crate::peers::{PeerId, RequestTicket};

/// The bytes of an answer in the simulation, so that there are many.
const ANSWER_BYTES: u64 = 600;
/// The states of so many blocks are served.
const WINDOW: usize = 16;
/// A question is late after this time.
const TIMEOUT: u64 = 200;
const STEPS_MAX: usize = 4000;

/// The manner of a peer.
#[derive(Clone, Copy, Debug)]
pub(super) enum Manner {
    Honest,
    /// Answers some questions too late.
    Slow,
    /// Has no state.
    Stateless,
    /// Has no state until the pivot has moved.
    Late,
    /// Answers so many questions at once, and then sends little, almost too late.
    Trickle(u32),
    /// Changes its answers, each time it can.
    Liar(fn(&SnapMessage, &mut SnapMessage) -> bool),
}

/// A store in memory.
#[derive(Default)]
pub(super) struct MemorySink {
    state: MemoryState,
    committed: MemoryState,
    nodes: Option<Nodes>,
    progress: Option<Vec<u8>>,
}

/// A sink whose process can be killed.
pub(super) trait TestSink: SnapSink {
    /// The progress of the last commit.
    fn progress(&self) -> Option<Vec<u8>>;

    /// Builds the trie and returns its root. `None` if the process was killed meanwhile.
    fn build(&mut self) -> Option<B256>;

    /// Lets the next commit fail, perhaps.
    fn go_off(&mut self, _random: u64) {}

    /// Loses what was not committed.
    fn kill(&mut self, random: u64);

    /// The state that was committed.
    fn content(&mut self) -> MemoryState;
}

impl TestSink for MemorySink {
    fn progress(&self) -> Option<Vec<u8>> {
        self.progress.clone()
    }

    fn build(&mut self) -> Option<B256> {
        let (root, nodes) = self.state.build();
        self.nodes = Some(nodes);
        self.committed = self.state.clone();
        Some(root)
    }

    fn kill(&mut self, _: u64) {
        self.state = self.committed.clone();
    }

    fn content(&mut self) -> MemoryState {
        self.state.clone()
    }
}

impl SnapSink for MemorySink {
    fn replace_accounts(
        &mut self,
        first: &B256,
        last: &B256,
        rows: &[(B256, AccountRecord)],
    ) -> Result<(), StoreError> {
        assert!(rows.is_sorted_by(|a, b| a.0 < b.0), "rows ascend");
        assert!(first <= last && rows.iter().all(|(hash, _)| (first..=last).contains(&hash)));
        let old: Vec<_> = self
            .state
            .accounts
            .range(*first..=*last)
            .map(|(hash, _)| *hash)
            .collect();
        for hash in old {
            self.state.accounts.remove(&hash);
            if rows.binary_search_by_key(&hash, |(hash, _)| *hash).is_err() {
                self.replace_slots(&hash, &B256::ZERO, &B256::repeat_byte(0xff), &[])?;
            }
        }
        self.state.accounts.extend(rows.iter().copied());
        Ok(())
    }

    fn replace_slots(
        &mut self,
        account: &B256,
        first: &B256,
        last: &B256,
        rows: &[(B256, U256)],
    ) -> Result<(), StoreError> {
        assert!(rows.is_sorted_by(|a, b| a.0 < b.0), "rows ascend");
        assert!(first <= last && rows.iter().all(|(slot, _)| (first..=last).contains(&slot)));
        let old: Vec<_> = self
            .state
            .slots
            .range((*account, *first)..=(*account, *last))
            .map(|(key, _)| *key)
            .collect();
        for key in old {
            self.state.slots.remove(&key);
        }
        self.state
            .slots
            .extend(rows.iter().map(|(slot, value)| ((*account, *slot), *value)));
        Ok(())
    }

    fn has_code(&self, hash: &B256) -> Result<bool, StoreError> {
        Ok(self.state.codes.contains_key(hash))
    }

    fn put_code(&mut self, hash: &B256, code: &[u8]) -> Result<(), StoreError> {
        assert_eq!(self.state.put_code(code), *hash);
        Ok(())
    }

    fn commit(&mut self, progress: &[u8]) -> Result<(), StoreError> {
        if self.nodes.is_some() {
            self.nodes = Some(self.state.build().1);
        }
        self.committed = self.state.clone();
        self.progress = Some(progress.to_vec());
        Ok(())
    }

    fn node(&self, account: Option<&B256>, path: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let nodes = self.nodes.as_ref().expect("the trie is built before the walk");
        Ok(nodes.get(&(account.copied(), path.to_vec())).cloned())
    }
}

/// An event of a later time.
enum Later {
    Answer {
        peer: PeerId,
        ticket: RequestTicket,
        answer: SnapMessage,
        sent: u64,
    },
    Timeout {
        peer: PeerId,
        ticket: RequestTicket,
    },
    Block,
}

pub(super) struct SnapWorld<S = MemorySink> {
    pub(super) chain: MemoryChain,
    pub(super) client: SnapClient,
    pub(super) sink: S,
    peers: BTreeMap<PeerId, Manner>,
    queue: BTreeMap<(u64, u64), Later>,
    now: u64,
    order: u64,
    random: u64,
    pivot_at: usize,
    /// A block comes at this interval.
    pub(super) block_interval: u64,
    /// If not 0, one of so many steps is followed by a kill.
    pub(super) kill_one_of: u64,
    pub(super) dropped: Vec<(PeerId, String)>,
    pub(super) pivots: usize,
    pub(super) kills: usize,
    /// Accounts that were handed over before the trie was built.
    pub(super) loaded_accounts: u64,
    /// The roots of the whole storages that were asked for.
    pub(super) storages_asked: Vec<B256>,
    is_done: bool,
}

fn first_state() -> MemoryState {
    let mut state = MemoryState::default();
    for number in 0_u64..300 {
        state.put_account(keccak256(number.to_be_bytes()), account(number + 1));
    }
    let code = state.put_code(&[0x60; 50]);
    for number in 0_u64..60 {
        let hash = keccak256((number + 1000).to_be_bytes());
        state.put_account(
            hash,
            AccountRecord {
                code_hash: code,
                ..account(number + 1)
            },
        );
        for slot in 0_u64..3 {
            state.put_slot(hash, keccak256(slot.to_be_bytes()), U256::from(slot + 7));
        }
    }
    for number in 0_u64..30 {
        let hash = keccak256((number + 2000).to_be_bytes());
        let code_hash = state.put_code(&number.to_be_bytes());
        state.put_account(
            hash,
            AccountRecord {
                code_hash,
                ..account(1)
            },
        );
        // The last ones are large.
        let slots = if number < 28 { number % 9 + 1 } else { 300 };
        for slot in 0..slots {
            state.put_slot(
                hash,
                keccak256((slot << 8 | number).to_be_bytes()),
                U256::from(slot) << 100_u32 | U256::from(5),
            );
        }
    }
    state
}

impl SnapWorld {
    pub(super) fn new(seed: u64, manners: &[Manner]) -> Self {
        Self::with_sink(seed, manners, MemorySink::default())
    }
}

impl<S: TestSink> SnapWorld<S> {
    pub(super) fn with_sink(seed: u64, manners: &[Manner], sink: S) -> Self {
        let mut chain = MemoryChain::of(first_state());
        chain.window = WINDOW;
        let mut world = Self {
            chain,
            client: SnapClient::new(),
            sink,
            peers: (1..).map(PeerId).zip(manners.iter().copied()).collect(),
            queue: BTreeMap::new(),
            now: 0,
            order: 0,
            random: seed.wrapping_mul(2) | 1,
            pivot_at: 0,
            block_interval: 12,
            kill_one_of: 0,
            dropped: Vec::new(),
            pivots: 0,
            kills: 0,
            loaded_accounts: 0,
            storages_asked: Vec::new(),
            is_done: false,
        };
        world.later(1, Later::Block);
        world.begin();
        world
    }

    fn random(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % below
    }

    fn later(&mut self, delay: u64, later: Later) {
        self.order += 1;
        self.queue.insert((self.now + delay, self.order), later);
    }

    /// Tells a client that has just begun of peers and pivot.
    fn begin(&mut self) {
        for peer in self.peers.keys().copied().collect::<Vec<_>>() {
            self.tell(SnapEvent::Joined(peer));
        }
        self.tell_pivot();
    }

    fn tell_pivot(&mut self) {
        let root = self.chain.roots()[self.pivot_at];
        self.pivots += 1;
        self.tell(SnapEvent::Pivot(SnapPivot {
            number: self.pivot_at as u64,
            root,
        }));
    }

    fn tell(&mut self, event: SnapEvent) {
        let actions = self.client.handle(event, &mut self.sink).expect("in memory");
        for action in actions {
            self.perform(action);
        }
        if self.client.phase() == SnapPhase::Load {
            self.loaded_accounts = self.client.figures().accounts;
        }
    }

    fn perform(&mut self, action: SnapAction) {
        match action {
            SnapAction::Ask {
                peer,
                ticket,
                request,
            } => self.ask(peer, ticket, request),
            SnapAction::Drop { peer, fault } => {
                self.dropped.push((peer, fault.text));
                self.peers.remove(&peer);
                self.tell(SnapEvent::Left(peer));
            }
            SnapAction::Build => {
                if let Some(root) = self.sink.build() {
                    self.tell(SnapEvent::Built(root));
                } else {
                    self.resume();
                }
            }
            SnapAction::Done(pivot) => {
                assert_eq!(pivot.root, self.chain.roots()[self.pivot_at]);
                self.check();
                self.is_done = true;
            }
        }
    }

    fn ask(&mut self, peer: PeerId, ticket: RequestTicket, mut request: SnapMessage) {
        let Some(manner) = self.peers.get_mut(&peer) else {
            return;
        };
        let is_trickling = matches!(manner, Manner::Trickle(0));
        if let Manner::Trickle(left) = manner {
            *left = left.saturating_sub(1);
        }
        let manner = *manner;
        let most = if is_trickling { 1 } else { ANSWER_BYTES };
        match &mut request {
            SnapMessage::GetAccountRange(_, request) => request.bytes = most,
            SnapMessage::GetStorageRanges(_, request) => {
                request.bytes = most;
                if request.accounts.len() > 1 {
                    let state = self.chain.head_state();
                    let roots = request
                        .accounts
                        .iter()
                        .filter_map(|hash| state.accounts.get(hash));
                    self.storages_asked
                        .extend(roots.map(|account| account.storage_root));
                }
            }
            SnapMessage::GetByteCodes(_, request) => request.bytes = most,
            // Else the state would change faster than it is healed.
            SnapMessage::GetTrieNodes(_, request) => request.bytes = 20 * most,
            other => panic!("{other:?}"),
        }
        let answer = snap_serve::answer(&self.chain, &request, &|| true).expect("in memory");
        let mut answer = answer.expect("a request");
        let delay = 2 + self.random(8);
        let delay = match manner {
            Manner::Slow if self.random(3) == 0 => TIMEOUT + delay,
            Manner::Trickle(_) if is_trickling => TIMEOUT - 1,
            Manner::Trickle(_) => 1,
            _ => delay,
        };
        match manner {
            Manner::Stateless => empty(&mut answer),
            Manner::Late if self.pivots == 1 => empty(&mut answer),
            Manner::Liar(lie) => {
                lie(&request, &mut answer);
            }
            _ => {}
        }
        self.later(TIMEOUT, Later::Timeout { peer, ticket });
        self.later(
            delay,
            Later::Answer {
                peer,
                ticket,
                answer,
                sent: self.now,
            },
        );
    }

    pub(super) fn step(&mut self) {
        let ((now, _), later) = self.queue.pop_first().expect("a block is to come");
        self.now = now;
        match later {
            Later::Answer {
                peer,
                ticket,
                answer,
                sent,
            } => {
                let took = Duration::from_millis(self.now - sent);
                self.tell(SnapEvent::Answer {
                    peer,
                    ticket,
                    answer,
                    took,
                });
            }
            Later::Timeout { peer, ticket } => self.tell(SnapEvent::NotAnswered { peer, ticket }),
            Later::Block => self.block(),
        }
        if self.kill_one_of > 0 && self.random(self.kill_one_of) == 0 && !self.is_done {
            self.kill();
        } else if self.random(20) == 0 {
            self.client.save(&mut self.sink).expect("in memory");
        }
    }

    fn kill(&mut self) {
        let (before, after) = (self.random(u64::MAX), self.random(u64::MAX));
        self.sink.go_off(before);
        if before % 2 == 0 {
            // Killed in a commit, or soon after it.
            let _ = self.client.save(&mut self.sink);
        }
        self.sink.kill(after);
        self.resume();
    }

    /// Another process goes on.
    fn resume(&mut self) {
        self.kills += 1;
        self.client = self.sink.progress().map_or_else(SnapClient::new, |progress| {
            SnapClient::resume(&progress).expect("what was committed")
        });
        // Answers to the killed process reach nobody.
        self.queue.retain(|_, later| matches!(later, Later::Block));
        self.begin();
    }

    fn block(&mut self) {
        if self.block_interval == u64::MAX {
            self.later(1_000_000, Later::Block);
            return;
        }
        self.later(self.block_interval, Later::Block);
        let picks: Vec<u64> = (0..8).map(|_| self.random(1 << 32)).collect();
        self.chain.next_block(|state| change(state, &picks));
        let head = self.chain.roots().len() - 1;
        if head >= self.pivot_at + WINDOW - 2 {
            self.pivot_at = head - WINDOW / 2;
            self.tell_pivot();
        }
    }

    pub(super) fn run(&mut self) {
        for _ in 0..STEPS_MAX {
            self.step();
            if self.is_done {
                return;
            }
        }
        panic!(
            "not done after {STEPS_MAX} steps: {:?} {:?}",
            self.client.phase(),
            self.client.figures()
        );
    }

    /// The sink has the pivot's state and nothing else.
    fn check(&mut self) {
        let mut state = self.sink.content();
        let (root, _) = state.build();
        assert_eq!(root, self.chain.roots()[self.pivot_at]);
        for (owner, _) in state.slots.keys() {
            assert!(state.accounts.contains_key(owner), "slots without an account");
        }
        for account in state
            .accounts
            .values()
            .filter(|account| account.code_hash != primitives::EMPTY_CODE_HASH)
        {
            assert!(state.codes.contains_key(&account.code_hash), "a code is missing");
        }
    }
}

fn empty(answer: &mut SnapMessage) {
    match answer {
        SnapMessage::AccountRange(_, range) => *range = Default::default(),
        SnapMessage::StorageRanges(_, ranges) => *ranges = Default::default(),
        SnapMessage::ByteCodes(_, items) | SnapMessage::TrieNodes(_, items) => items.clear(),
        other => panic!("{other:?}"),
    }
}

/// A block changes balances, makes and destroys accounts, and writes and clears slots.
fn change(state: &mut MemoryState, picks: &[u64]) {
    let hashes: Vec<B256> = state.accounts.keys().copied().collect();
    let pick = |at: usize| hashes[picks[at] as usize % hashes.len()];
    state
        .accounts
        .entry(pick(0))
        .and_modify(|account| account.tx_nonce += 1);
    state.touch();
    let gone = pick(1);
    state.accounts.remove(&gone);
    state.slots.retain(|(owner, _), _| *owner != gone);
    // A contract whose code is new.
    let new = keccak256(picks[2].to_be_bytes());
    let code_hash = state.put_code(&picks[3].to_be_bytes());
    state.put_account(
        new,
        AccountRecord {
            code_hash,
            ..account(1)
        },
    );
    state.put_slot(new, keccak256([1]), U256::from(picks[4] + 1));
    // Slots of contracts, the large ones among them.
    let owners: Vec<B256> = state
        .accounts
        .iter()
        .filter(|(_, account)| account.storage_root != EMPTY_ROOT)
        .map(|(hash, _)| *hash)
        .collect();
    let slots: Vec<(B256, B256)> = state.slots.keys().copied().collect();
    if let Some(key) = slots.get(picks[5] as usize % slots.len().max(1)) {
        state.slots.remove(key);
    }
    if let Some(key) = slots.get(picks[6] as usize % slots.len().max(1)) {
        state.slots.insert(*key, U256::from(picks[6]) + U256::from(1));
    }
    if let Some(owner) = owners.get(picks[7] as usize % owners.len().max(1)) {
        let owner = *owner;
        state.put_slot(owner, keccak256(picks[7].to_be_bytes()), U256::from(9));
    }
}
