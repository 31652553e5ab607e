//! Several engines, a bus between them, a chain base and users, on a clock of their own.

use std::collections::VecDeque;

use primitives::{Address, Bytes, SecretKey, Transaction, TxForm, U256, UnsignedTransaction, hex, keccak256};
use store::Store;

use super::base_chain::BaseChain;
use crate::abi::CallData;
use crate::contract::{BaseCall, Deposit};
use crate::engine::MemberEngine;
use crate::event::{Action, Event, MemberMessage, MicroChainSetup};
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

/// A call that is in no base block yet.
struct WaitingCall {
    from: Address,
    call: BaseCall,
    /// The base block that will have it.
    block: u64,
}

pub(super) struct World {
    pub(super) setup: MicroChainSetup,
    pub(super) scs: Vec<SimulatedScs>,
    pub(super) base: BaseChain,
    pub(super) now_ms: u64,
    steps: u64,
    calls: Vec<WaitingCall>,
    /// Messages that were sent, with the place of the sender.
    pub(super) bus: VecDeque<(usize, MemberMessage)>,
    /// Returns whether a message of this SCS goes on. May change it.
    pub(super) filter: Option<BusFilter>,
    /// Whether SCSs see whose transactions wait in the pool of the base chain.
    pub(super) is_pool_visible: bool,
    /// Whether calls reach the base chain.
    pub(super) base_takes_calls: bool,
    /// The number of base blocks that a call of this SCS waits in the pool; `None`: it never gets
    /// there.
    pub(super) delay: CallDelay,
}

impl World {
    /// `members` members and `others` SCSs that are none.
    pub(super) fn new(members: usize, others: usize) -> Self {
        let setup = MicroChainSetup {
            address: Address::repeat_byte(0xcc),
            owner: owner().address(),
            supply: U256::from(10u64).pow(U256::from(21)),
            period_secs: PERIOD,
            chain_id: 100,
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
            bus: VecDeque::new(),
            filter: None,
            is_pool_visible: true,
            base_takes_calls: true,
            delay: Box::new(|_, _, _| Some(1)),
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
        scs.engine = Some(engine.unwrap());
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
        let mut state = self.base.state_for(&engine.id(), engine.deposits_from());
        if self.is_pool_visible {
            state.busy = self.calls.iter().map(|call| call.from).collect();
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
            for to in 0..self.scs.len() {
                let is_receiver = message.receiver.is_none_or(|receiver| receiver == self.id(to));
                if to != from && is_receiver && self.scs[to].part == self.scs[from].part {
                    self.give(to, Event::Message(message.clone()));
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
            let due: Vec<WaitingCall> = due;
            for one in due {
                if self.base_takes_calls {
                    self.base.carry_out(one.from, &one.call);
                }
            }
            for place in 0..self.scs.len() {
                self.tell_contract(place);
            }
        }
        for place in 0..self.scs.len() {
            self.give(place, Event::Tick);
        }
        self.deliver();
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
    pub(super) fn with_dapp_base(mut self) -> Self {
        let arguments = CallData::default().bytes(b"token").small(0).encode();
        let code = [creation_code("DappBase"), arguments].concat();
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
