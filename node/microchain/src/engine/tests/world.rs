//! Several engines, a bus between them, a chain base and users, on a clock of their own.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use chain::import::StateRetention;
use primitives::{Address, Bytes, SecretKey, Transaction, TxForm, U256, UnsignedTransaction, hex, keccak256};
use store::Store;

use super::base_chain::{BaseChain, CHAIN};
use super::invariants::{CheckedState, check_member};
use crate::abi::CallData;
use crate::contract::{BaseCall, ContractState, Deposit};
use crate::engine::MemberEngine;
use crate::event::{Action, Event, MemberMessage, MicroChainSetup};
use crate::fill::FillTime;
use crate::reader::Reader;

pub(super) const PERIOD: u64 = 10;
const STEP_MS: u64 = 2500;
/// Base blocks come every so many steps.
const STEPS_PER_BASE_BLOCK: u64 = 2;
const COMPILED: &str = include_str!("../../../../../contracts/compiled.json");

pub(super) fn key(byte: u8) -> SecretKey {
    SecretKey::from_bytes(&[byte; 32]).unwrap()
}

pub(super) fn owner() -> SecretKey {
    key(0xee)
}

/// The creation code of one of our contracts.
pub(super) fn creation_code(contract: &str) -> Vec<u8> {
    let all: serde_json::Value = serde_json::from_str(COMPILED).unwrap();
    let text = all["contracts"][contract]["bytecode"].as_str().unwrap();
    hex::decode(text).unwrap()
}

/// Calldata of a function.
pub(super) fn call(signature: &str, arguments: CallData) -> Bytes {
    let hash = keccak256(signature);
    arguments.after([hash[0], hash[1], hash[2], hash[3]])
}

/// One SCS: its engine, if it is running, and its disk.
pub(super) struct SimulatedScs {
    pub(super) key: SecretKey,
    pub(super) store: Store,
    pub(super) engine: Option<MemberEngine>,
    /// Whether its disk may fail.
    pub(super) disk_may_fail: bool,
    /// Which part of the network it is in.
    pub(super) part: u8,
}

/// The fate of messages on the bus.
pub(super) type BusFilter = Box<dyn FnMut(usize, &mut MemberMessage) -> bool>;

/// The time that a call of an SCS waits.
pub(super) type CallDelay = Box<dyn Fn(&BaseChain, Address, &BaseCall) -> Option<u64>>;

/// The base blocks that can be taken back.
pub(super) const HISTORY_BLOCKS: usize = 128;

/// A call that waits for a base block, or that is in one.
#[derive(Clone)]
struct WaitingCall {
    from: Address,
    call: BaseCall,
    /// The base block that will have it, or has it.
    block: u64,
}

/// A change of what a VNODE says.
pub(super) type VnodeLie = Box<dyn FnMut(&mut ContractState)>;

pub(super) struct World {
    pub(super) setup: MicroChainSetup,
    pub(super) scs: Vec<SimulatedScs>,
    pub(super) base: BaseChain,
    pub(super) now_ms: u64,
    steps: u64,
    calls: Vec<WaitingCall>,
    /// The base chain after each of its last blocks, with the calls of the block.
    history: VecDeque<(BaseChain, Vec<WaitingCall>)>,
    /// The state of each SCS for which the invariants were checked last.
    checked: Vec<Option<CheckedState>>,
    /// Whether the invariants are those of this MicroChain.
    pub(super) counts_money: bool,
    /// The number of states for which the invariants were checked.
    pub(super) checks: u64,
    /// Messages that were sent, with the place of the sender.
    pub(super) bus: VecDeque<(usize, MemberMessage)>,
    /// Returns whether a message of this SCS goes on. May change it.
    pub(super) filter: Option<BusFilter>,
    /// The SCSs whose VNODE lies, and how. No invariant holds for them.
    pub(super) lies: HashMap<usize, VnodeLie>,
    /// Whether a message is delivered twice.
    pub(super) doubles: Box<dyn FnMut() -> bool>,
    /// Whether SCSs see whose transactions wait in the pool of the base chain.
    pub(super) is_pool_visible: bool,
    /// The base blocks that members wait for before they vote.
    pub(super) confirmations: u64,
    /// Calls that were withdrawn, and by whom.
    pub(super) withdrawn: Vec<(Address, BaseCall)>,
    /// Whether calls reach the base chain.
    pub(super) base_takes_calls: bool,
    /// The number of base blocks that a call of this SCS waits in the pool; `None`: it never gets
    /// there.
    pub(super) delay: CallDelay,
    /// The past states that SCSs keep which are started from now on.
    pub(super) states: StateRetention,
    /// The number of blocks that SCSs keep which are started from now on.
    pub(super) blocks: Option<u64>,
    /// The bytes of a page that SCSs give which are started from now on.
    pub(super) page_bytes: usize,
}

impl World {
    /// `members` members and `others` SCSs that are none.
    pub(super) fn new(members: usize, others: usize) -> Self {
        let setup = MicroChainSetup {
            address: CHAIN,
            owner: owner().address(),
            supply: U256::from(10u64).pow(U256::from(21)),
            period_secs: PERIOD,
            chain_id: 100,
            withdrawal_min: U256::ZERO,
        };
        let scs: Vec<SimulatedScs> = (0..members + others)
            .map(|place| SimulatedScs {
                key: key(place as u8 + 1),
                store: Store::in_memory().unwrap(),
                engine: None,
                disk_may_fail: false,
                part: 0,
            })
            .collect();
        let ids = scs[..members].iter().map(|scs| scs.key.address()).collect();
        let mut world = Self {
            setup,
            scs,
            base: BaseChain::new(ids),
            now_ms: 1_700_000_000_000,
            steps: 0,
            calls: Vec::new(),
            history: VecDeque::new(),
            checked: vec![None; members + others],
            checks: 0,
            bus: VecDeque::new(),
            filter: None,
            lies: HashMap::new(),
            doubles: Box::new(|| false),
            is_pool_visible: true,
            confirmations: 3,
            withdrawn: Vec::new(),
            base_takes_calls: true,
            delay: Box::new(|_, _, _| Some(1)),
            states: StateRetention::Archive,
            blocks: None,
            page_bytes: 1024,
            counts_money: true,
        };
        for place in 0..members + others {
            world.start(place);
        }
        world
    }

    /// Starts an SCS on what its disk has.
    pub(super) fn start(&mut self, place: usize) {
        let scs = &mut self.scs[place];
        let engine = MemberEngine::on_store(self.setup.clone(), scs.key.clone(), scs.store.clone());
        let mut engine = engine.unwrap();
        engine.confirmations = self.confirmations;
        engine.states = self.states;
        engine.keep_blocks(self.blocks);
        engine.snapshot.page_bytes = self.page_bytes;
        // The clock of the machine must decide nothing.
        let day = Duration::from_secs(86_400);
        engine.fill_time = FillTime { all: day, each: day };
        scs.engine = Some(engine);
        self.give(place, Event::Connected);
        self.tell_contract(place);
    }

    /// A transaction of `from` that is for something else waits in the pool for ever.
    pub(super) fn wait_for_ever(&mut self, from: Address) {
        let call = BaseCall::BackupUpToDate { place: u64::MAX };
        self.calls.push(WaitingCall {
            from,
            call,
            block: u64::MAX,
        });
    }

    /// Ends an SCS at once.
    pub(super) fn kill(&mut self, place: usize) {
        self.scs[place].engine = None;
    }

    pub(super) fn engine(&self, place: usize) -> &MemberEngine {
        self.scs[place].engine.as_ref().expect("it is running")
    }

    pub(super) fn reader(&self, place: usize) -> Reader {
        self.engine(place).reader()
    }

    pub(super) fn id(&self, place: usize) -> Address {
        self.scs[place].key.address()
    }

    /// Gives an event to an SCS that is running.
    pub(super) fn give(&mut self, place: usize, event: Event) {
        let now = self.now_ms;
        let Some(engine) = self.scs[place].engine.as_mut() else {
            return;
        };
        let actions = match engine.handle(now, event) {
            Ok(actions) => actions,
            Err(_) if self.scs[place].disk_may_fail => return,
            Err(error) => panic!("SCS {place}: {error}"),
        };
        for action in actions {
            match action {
                Action::Send(message) => self.bus.push_back((place, message)),
                Action::Withdraw(call) => {
                    let from = self.scs[place].key.address();
                    self.calls.retain(|one| one.from != from || one.call != call);
                    self.withdrawn.push((from, call));
                }
                Action::Call(call) => {
                    let from = self.scs[place].key.address();
                    let is_known = self.calls.iter().any(|one| one.from == from && one.call == call);
                    if let Some(delay) = (self.delay)(&self.base, from, &call).filter(|_| !is_known) {
                        let block = self.base.block + delay;
                        self.calls.push(WaitingCall { from, call, block });
                    }
                }
            }
        }
    }

    pub(super) fn tell_contract(&mut self, place: usize) {
        let Some(engine) = &self.scs[place].engine else {
            return;
        };
        let state = self.base.state_for(&engine.id(), engine.deposits_from());
        let Some(mut state) = state else { return };
        if self.is_pool_visible {
            state.busy = self.calls.iter().map(|call| call.from).collect();
        }
        if let Some(lie) = self.lies.get_mut(&place) {
            lie(&mut state);
        }
        self.give(place, Event::Contract(Box::new(state)));
    }

    /// Delivers all messages, and those that they cause.
    pub(super) fn deliver(&mut self) {
        for _ in 0..100_000 {
            let Some((from, mut message)) = self.bus.pop_front() else {
                return;
            };
            if let Some(filter) = &mut self.filter
                && !filter(from, &mut message)
            {
                continue;
            }
            for _ in 0..1 + usize::from((self.doubles)()) {
                for to in 0..self.scs.len() {
                    let is_receiver = message.receiver.is_none_or(|receiver| receiver == self.id(to));
                    if to != from && is_receiver && self.scs[to].part == self.scs[from].part {
                        self.give(to, Event::Message(message.clone()));
                    }
                }
            }
        }
        panic!("the messages do not end");
    }

    pub(super) fn step(&mut self) {
        self.now_ms += STEP_MS;
        self.steps += 1;
        if self.steps.is_multiple_of(STEPS_PER_BASE_BLOCK) {
            self.base.block += 1;
            let all = std::mem::take(&mut self.calls);
            let (due, later) = all.into_iter().partition(|one| one.block <= self.base.block);
            self.calls = later;
            let mut due: Vec<WaitingCall> = due;
            due.retain(|_| self.base_takes_calls);
            for one in &due {
                self.base.carry_out(one.from, &one.call);
            }
            self.remember_base(due);
            for place in 0..self.scs.len() {
                self.tell_contract(place);
            }
        }
        for place in 0..self.scs.len() {
            self.give(place, Event::Tick);
        }
        self.deliver();
        self.check_invariants();
    }

    fn remember_base(&mut self, calls: Vec<WaitingCall>) {
        self.history.push_back((self.base.clone(), calls));
        if self.history.len() > HISTORY_BLOCKS {
            self.history.pop_front();
        }
    }

    /// The base chain takes back its last blocks, as far as it is remembered, and has one more than
    /// before instead. Nothing of what was in them comes again, but the calls of SCSs if
    /// `calls_again`.
    pub(super) fn take_back(&mut self, blocks: usize, calls_again: bool) {
        let kept = self.history.len().saturating_sub(blocks).max(1);
        let lost = self.history.split_off(kept);
        let head = self.base.block;
        self.base.go_back(&self.history.back().expect("a base block").0);
        for (_, calls) in lost {
            let calls = if calls_again { calls } else { Vec::new() };
            for one in &calls {
                self.base.carry_out(one.from, &one.call);
            }
            self.remember_base(calls);
            self.base.block += 1;
        }
        self.base.block = head;
        self.change_base(|_| ());
    }

    /// The base chain says something else from now on, and all SCSs read it.
    pub(super) fn change_base(&mut self, change: impl FnOnce(&mut BaseChain)) {
        change(&mut self.base);
        self.base.block += 1;
        self.remember_base(Vec::new());
        // An SCS that sees a flush taken back wants more with the next reading.
        for place in (0..self.scs.len()).chain(0..self.scs.len()) {
            self.tell_contract(place);
        }
        self.deliver();
        self.check_invariants();
    }

    /// Checks the invariants for each SCS whose chain has changed, or the base chain.
    fn check_invariants(&mut self) {
        for place in 0..self.scs.len() {
            let is_honest = !self.lies.contains_key(&place);
            let state = CheckedState::of(self, place).filter(|_| is_honest);
            if state.is_some() && state != self.checked[place] {
                self.checks += u64::from(check_member(self, place));
                self.checked[place] = state;
            }
        }
    }

    pub(super) fn run_slots(&mut self, slots: u64) {
        for _ in 0..slots * 1000 * PERIOD / STEP_MS {
            self.step();
        }
    }

    /// Runs until `done`, at most so many slots.
    pub(super) fn run_until(&mut self, slots: u64, what: &str, done: impl Fn(&Self) -> bool) {
        for _ in 0..slots * 1000 * PERIOD / STEP_MS {
            if done(self) {
                return;
            }
            self.step();
        }
        panic!("{what}: not after {slots} slots; {:?}", self.base);
    }

    pub(super) fn signed(
        &self,
        key: &SecretKey,
        nonce: u64,
        flag: u64,
        value: U256,
        input: Vec<u8>,
    ) -> Transaction {
        let unsigned = UnsignedTransaction {
            tx_nonce: nonce,
            to: Some(self.setup.address),
            value,
            input: input.into(),
            sharding_flag: flag,
            ..Default::default()
        };
        unsigned.sign(key, self.setup.chain_id, TxForm::Native)
    }

    /// Sends a transaction to all SCSs, as their VNODEs do.
    pub(super) fn transact(
        &mut self,
        key: &SecretKey,
        nonce: u64,
        flag: u64,
        value: U256,
        input: Vec<u8>,
    ) -> Transaction {
        let transaction = self.signed(key, nonce, flag, value, input);
        for place in 0..self.scs.len() {
            self.give(place, Event::Transaction(Box::new(transaction.clone())));
        }
        transaction
    }

    pub(super) fn dapp_base(&self) -> Address {
        Transaction::created_address(&self.setup.owner, 0)
    }

    /// Creates DappBase and waits until it exists everywhere, with the members in its list.
    pub(super) fn with_dapp_base(self) -> Self {
        let arguments = CallData::default().bytes(b"token").small(0).encode();
        self.with_dapp_base_of([creation_code("DappBase"), arguments].concat())
    }

    /// Three members, and a user with 1,000 tokens who withdraws 3 of them so many times.
    pub(super) fn with_withdrawals(times: u64) -> Self {
        let mut world = Self::new(3, 0).with_dapp_base();
        let user = key(0x51);
        world.buy(user.address(), 1000);
        world.run_until(60, "the deposit is credited", |world| {
            world.reader(0).enter_position().unwrap() == 1
        });
        let redeem = call("redeemFromMicroChain()", CallData::default());
        for nonce in 0..times {
            world.call_dapp_base(&user, nonce, U256::from(3), &redeem);
        }
        world
    }

    /// The same with other code than that of our DappBase.
    pub(super) fn with_dapp_base_of(mut self, code: Vec<u8>) -> Self {
        self.transact(&owner(), 0, 3, self.setup.supply, code);
        let place = (0..self.scs.len()).find(|place| self.scs[*place].engine.is_some());
        let place = place.expect("one is running");
        self.run_until(60, "DappBase has its list of members", |world| {
            let reader = world.reader(place);
            let view = reader.view().unwrap();
            let calls = crate::dapp_base::DappBaseCalls::new(&view, world.dapp_base());
            !calls.node_list(view.head_number()).unwrap().is_empty()
        });
        self
    }

    /// A call of DappBase by flag 1.
    pub(super) fn call_dapp_base(
        &mut self,
        key: &SecretKey,
        nonce: u64,
        value: U256,
        data: &[u8],
    ) -> Transaction {
        let input = [self.dapp_base().as_slice(), data].concat();
        self.transact(key, nonce, 1, value, input)
    }

    /// A user buys tokens on the base chain.
    pub(super) fn buy(&mut self, user: Address, tokens: u64) {
        self.base.deposits.push(Deposit {
            user,
            tokens: U256::from(tokens),
            bought: self.now_ms / 1000,
        });
    }

    /// Checks that all running SCSs have the same block at the lowest of their heads minus `back`,
    /// and returns its number.
    pub(super) fn agreed(&self, back: u64) -> u64 {
        let readers: Vec<Reader> = self
            .scs
            .iter()
            .filter_map(|scs| Some(scs.engine.as_ref()?.reader()))
            .collect();
        let lowest = readers.iter().map(|reader| reader.head().unwrap().number).min();
        let number = lowest.expect("one is running").saturating_sub(back);
        let hash = |reader: &Reader| reader.block(number).unwrap().unwrap().hash;
        let expected = hash(&readers[0]);
        assert!(
            readers.iter().all(|reader| hash(reader) == expected),
            "block {number} differs"
        );
        number
    }
}
