//! Counts the calls of a VNODE that readings cost.

use std::collections::BTreeMap;
use std::sync::Arc;

use microchain::abi::{CallData, ResultReader};
use microchain::branch::BaseBranch;
use microchain::contract::{DepositList, PROPOSAL_PENDING, Proposal};
use parking_lot::Mutex;
use primitives::{Address, B256, Bytes, U256, keccak256};
use scs_service::client::{ContractSummary, ScsClientError};

use super::*;
use crate::proven::BaseReadError;

const CHAIN: Address = Address::repeat_byte(0xcc);
const SCS: Address = Address::repeat_byte(1);
const OTHER: Address = Address::repeat_byte(2);
/// The longest answer of a VNODE.
const ANSWER_BYTES_MAX: usize = 4 << 20;

/// A chain base, and how often it was asked.
#[derive(Default)]
struct FakeBase {
    /// Changes with the storage.
    root: u64,
    /// The code, which a VNODE tells with its hash.
    code: u8,
    role: u64,
    deposits: Vec<Address>,
    current: Proposal,
    /// A number that stands in the place of the proposal's first block and of its bad members.
    wide: Option<U256>,
    /// The root changes by itself with each call, as if blocks came meanwhile.
    is_busy: bool,
    calls: BTreeMap<&'static str, usize>,
}

#[derive(Clone, Default)]
struct FakeSource(Arc<Mutex<FakeBase>>);

const FUNCTIONS: [&str; 11] = [
    "nodeCount()",
    "flushInRound()",
    "totalOperation()",
    "contractNeedFund()",
    "nodeToReleaseCount()",
    "getVnodeInfo()",
    "getProposal(uint256)",
    "getSCSRole(address)",
    "getEnteringAmount(address,uint256)",
    "currentRefundGas(address)",
    "priceOneGInMOAC()",
];

/// A struct as a result: the offset and the fields.
fn structure(fields: CallData) -> Vec<u8> {
    [CallData::default().small(32).encode(), fields.encode()].concat()
}

fn smalls(data: CallData, numbers: &[u64]) -> CallData {
    data.numbers(numbers.iter().map(|number| U256::from(*number)))
}

impl FakeBase {
    fn count(&mut self, what: &'static str) {
        *self.calls.entry(what).or_default() += 1;
        if self.is_busy {
            self.root += 1;
        }
    }

    fn answer(&mut self, input: &[u8]) -> Vec<u8> {
        let is_named = |function: &&&str| keccak256(function)[..4] == input[..4];
        let function = FUNCTIONS.iter().find(is_named).expect("a function that is read");
        self.count(function);
        let (none, members) = (CallData::default(), [SCS, OTHER]);
        match *function {
            "nodeCount()" => none.small(2).encode(),
            "getVnodeInfo()" => {
                let info = smalls(none.address(Address::ZERO), &[1, 11]);
                let info = smalls(info, &[5, 1, 9]).small(24).address(Address::ZERO);
                let info = smalls(
                    info.small(7).small(0).address(OTHER).small(1000),
                    &[0, 160, 130, 500],
                );
                structure(info.addresses(members).addresses([]))
            }
            "getProposal(uint256)" if input[35] == 1 => proposal(&self.current, self.wide),
            "getProposal(uint256)" => proposal(&Proposal::default(), None),
            "getSCSRole(address)" => none.small(self.role).encode(),
            "getEnteringAmount(address,uint256)" => {
                let from = ResultReader::new(&input[36..]).small().expect("a position");
                let users = self.deposits.get(from as usize..).unwrap_or_default();
                let numbers = vec![7; users.len()];
                let lists = smalls(none.addresses(users.iter().copied()), &numbers);
                smalls(smalls(lists, &numbers), &[250, 6]).encode()
            }
            _ => none.small(40).encode(),
        }
    }
}

fn proposal(of: &Proposal, wide: Option<U256>) -> Vec<u8> {
    let fields = CallData::default().address(of.proposed_by).word(of.last_approved);
    let fields = fields
        .word(of.hash)
        .number(wide.unwrap_or_else(|| U256::from(of.start)))
        .small(of.end);
    let fields = fields.numbers(of.distribution.clone()).small(of.flag).small(0);
    let fields = smalls(fields, &of.voters).small(0);
    let bad_actors = of.bad_actors.iter().map(|place| U256::from(*place)).chain(wide);
    let fields = fields.numbers(bad_actors).address(of.via).small(0);
    let fields = fields.addresses([]).numbers([]).addresses(of.members.clone());
    structure(fields.small(0).addresses([]))
}

impl BaseSource for FakeSource {
    async fn call_contract(&self, contract: Address, input: Bytes) -> Result<Bytes, BaseReadError> {
        assert_eq!(contract, CHAIN);
        let answer = self.0.lock().answer(&input);
        if answer.len() > ANSWER_BYTES_MAX {
            return Err(ScsClientError::NotConnected.into());
        }
        Ok(answer.into())
    }

    async fn branch(&self) -> Result<Option<BaseBranch>, BaseReadError> {
        self.0.lock().count("branch");
        Ok(None)
    }

    async fn contract_info(
        &self,
        contract: Address,
        _: &[U256],
    ) -> Result<Option<ContractSummary>, BaseReadError> {
        let mut base = self.0.lock();
        if contract != CHAIN {
            base.count("pool: head");
            return Ok(None);
        }
        base.count("storage");
        Ok(Some(ContractSummary {
            balance: U256::ZERO,
            tx_nonce: 1,
            storage_root: B256::from(U256::from(base.root)),
            code_hash: B256::repeat_byte(base.code),
            code: vec![base.code].into(),
            storage: BTreeMap::new(),
        }))
    }

    async fn nonce_with_pool(&self, account: Address) -> Result<u64, BaseReadError> {
        assert_eq!(account, OTHER, "it knows its own");
        self.0.lock().count("pool");
        Ok(1)
    }
}

/// A reader, what it has kept, and the base it reads.
struct Scene {
    source: FakeSource,
    reader: BaseReader<FakeSource>,
    kept: Option<KeptReading>,
    wish: ReadWish,
}

impl Scene {
    fn new(role: u64) -> Self {
        let source = FakeSource::default();
        source.0.lock().role = role;
        source.0.lock().root = 1;
        let wish = ReadWish {
            head: 100,
            deposits_from: Some(0),
            via: Address::ZERO,
        };
        let mut scene = Self {
            reader: BaseReader::new(source.clone(), SCS),
            source,
            kept: None,
            wish,
        };
        let calls = scene.read();
        assert_eq!(calls.values().sum::<usize>(), WHOLE, "{calls:?}");
        scene
    }

    fn change(&self, change: impl FnOnce(&mut FakeBase)) {
        let mut base = self.source.0.lock();
        change(&mut base);
        base.root += 1;
    }

    /// Reads at this head, if the answers are not too long.
    fn try_read(&mut self) -> Result<(), BaseError> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let refreshed = self.reader.refresh(CHAIN, self.wish, self.kept.take());
        self.kept = Some(runtime.block_on(refreshed)?);
        Ok(())
    }

    /// Reads at this head. Returns what it was asked.
    fn read(&mut self) -> BTreeMap<&'static str, usize> {
        self.try_read().unwrap();
        assert_eq!(self.reading().state.base_block, self.wish.head);
        std::mem::take(&mut self.source.0.lock().calls)
    }

    /// Reads at the next head. Returns the number of calls.
    fn next(&mut self) -> usize {
        self.wish.head += 1;
        self.read().values().sum()
    }

    fn reading(&self) -> &BaseReading {
        &self.kept.as_ref().expect("it was read").reading
    }

    fn deposits(&self) -> &DepositList {
        let deposits = self.reading().state.deposits.as_ref();
        deposits.expect("they were wanted")
    }
}

/// Calls of a whole reading with two members: six numbers, two proposals, role, deposits, info, two
/// accounts of gas, the branch, and the storage before and after.
const WHOLE: usize = 16;

#[test]
fn a_chain_base_that_has_not_changed_costs_one_call_a_head() {
    let mut scene = Scene::new(1);
    for _ in 0..20 {
        assert_eq!(scene.next(), 1);
    }
    scene.change(|base| base.role = 3);
    assert_eq!(scene.next(), WHOLE);
    assert_eq!(scene.reading().state.role, ContractRole::Backup);
    assert_eq!(scene.next(), 1);
    // A reading over another connection is not used.
    scene.kept = None;
    assert_eq!(scene.next(), WHOLE);
}

#[test]
fn the_branch_is_read_in_the_own_turn() {
    let mut scene = Scene::new(1);
    // The turn of the first member begins at block 40, and has 48 blocks.
    scene.wish.head = 50;
    scene.kept = None;
    scene.read();
    scene.wish.head += 1;
    assert_eq!(scene.read()["branch"], 1);
    scene.wish.head = 88;
    assert!(!scene.read().contains_key("branch"));
}

#[test]
fn a_proposal_with_absurd_numbers_ends_no_reading() {
    let mut scene = Scene::new(1);
    scene.change(|base| base.wide = Some(U256::from(1) << 64));
    scene.next();
    let current = &scene.reading().state.current;
    assert_eq!(
        (current.start, &current.bad_actors[..]),
        (u64::MAX, &[u64::MAX][..])
    );
}

#[test]
fn everything_is_read_now_and_then() {
    let mut scene = Scene::new(1);
    let calls: Vec<usize> = (0..200).map(|_| scene.next()).collect();
    let whole = calls.iter().filter(|calls| **calls == WHOLE).count();
    assert!((3..=6).contains(&whole), "{calls:?}");
    assert_eq!(calls.iter().sum::<usize>(), 200 - whole + whole * WHOLE);
}

#[test]
fn who_has_no_role_asks_for_it_at_each_head() {
    let mut scene = Scene::new(0);
    assert_eq!(scene.next(), 2);
    // The pool of SCSs decides, so the contract itself does not change.
    scene.source.0.lock().role = 4;
    assert_eq!(scene.next(), 2);
    assert_eq!(scene.reading().state.role, ContractRole::Selectable);
}

#[test]
fn another_contract_at_the_address_is_read_again() {
    let mut scene = Scene::new(4);
    let before = scene.reading().code;
    assert_eq!(scene.next(), 2);
    // A reorganization puts a contract there that has the same storage.
    scene.source.0.lock().code = 1;
    assert_eq!(scene.next(), WHOLE);
    assert_ne!(scene.reading().code, before);
}

#[test]
fn a_reading_during_a_change_is_not_kept() {
    let mut scene = Scene::new(1);
    scene.source.0.lock().is_busy = true;
    assert_eq!(scene.next(), WHOLE);
    scene.source.0.lock().is_busy = false;
    assert_eq!(scene.next(), WHOLE);
    assert_eq!(scene.next(), 1);
}

#[test]
fn a_vnode_that_tells_no_root_is_read_at_each_head() {
    let mut scene = Scene::new(1);
    scene.source.0.lock().root = 0;
    for _ in 0..3 {
        assert_eq!(scene.next(), WHOLE);
    }
}

#[test]
fn the_pool_is_looked_at_while_an_action_is_due() {
    let mut scene = Scene::new(1);
    scene.change(|base| {
        base.current = Proposal {
            flag: PROPOSAL_PENDING,
            voters: vec![0, 1],
            members: vec![SCS, OTHER],
            ..Proposal::default()
        };
    });
    for _ in 0..2 {
        scene.wish.head += 1;
        let calls = scene.read();
        assert_eq!((calls["pool"], calls["pool: head"]), (1, 1));
        assert_eq!(scene.reading().state.busy, [OTHER]);
    }
    // One vote is not enough.
    scene.change(|base| base.current.voters.truncate(1));
    assert_eq!(scene.next(), WHOLE);
    // The depth of the proposal counts.
    assert_eq!(scene.next(), 2);
}

#[test]
fn any_number_of_deposits_costs_one_call() {
    let mut scene = Scene::new(1);
    let users: Vec<Address> = (0..200).map(Address::repeat_byte).collect();
    scene.change(|base| base.deposits = users.clone());
    assert_eq!(scene.next(), WHOLE);
    assert_eq!(scene.deposits().entries.len(), 200);
    // Credited deposits are forgotten without another reading.
    scene.wish.deposits_from = Some(150);
    assert_eq!(scene.next(), 1);
    let left = scene.deposits();
    let left_users: Vec<Address> = left.entries.iter().map(|deposit| deposit.user).collect();
    assert_eq!((left.from, &left_users[..]), (150, &users[150..]));
    // A flush was taken back: earlier ones are wanted again.
    scene.wish.deposits_from = Some(20);
    assert_eq!(scene.next(), WHOLE);
    assert_eq!(scene.deposits().entries.len(), 180);
}

#[test]
fn more_deposits_than_an_answer_has_room_for_stop_no_start() {
    let mut scene = Scene::new(1);
    scene.change(|base| base.deposits = vec![OTHER; 50_010]);
    assert!(scene.try_read().is_err(), "an answer with all of them");
    scene.source.0.lock().calls.clear();
    // After a start nothing is known of the last flush.
    scene.wish.deposits_from = None;
    assert_eq!(scene.next(), WHOLE - 1);
    assert_eq!(scene.reading().state.deposits, None);
    assert_eq!(scene.next(), 1);
    scene.wish.deposits_from = Some(50_000);
    assert_eq!(scene.next(), WHOLE);
    assert_eq!(
        (scene.deposits().from, scene.deposits().entries.len()),
        (50_000, 10)
    );
    // The chain does not have the next flush yet.
    scene.wish.deposits_from = None;
    assert_eq!(scene.next(), 1);
    assert_eq!(scene.reading().state.deposits, None);
}
