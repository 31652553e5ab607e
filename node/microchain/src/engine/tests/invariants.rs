//! The invariants of a MicroChain: no coin leaves the chain base but for a token, and no token
//! comes into being but for a coin. The members' own view is checked after each step of every test;
//! an outsider computes all sums again from the two chains.

use std::collections::BTreeSet;

use chain::application::PlainAction;
use primitives::{Address, B256, ReceiptOutcome, U256, keccak256};

use super::world::World;
use crate::contract::Deposit;
use crate::dapp_base::{CreditVote, DappBaseCalls};

/// All that the invariants of one SCS depend on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CheckedState {
    head: B256,
    deposits: Vec<Deposit>,
    paid: usize,
}

impl CheckedState {
    /// The state of an SCS; `None` if it is not running, or if its disk fails.
    pub(super) fn of(world: &World, place: usize) -> Option<Self> {
        let engine = world.scs[place].engine.as_ref()?;
        Some(Self {
            head: engine.reader().head().ok()?.hash,
            deposits: world.base.deposits.clone(),
            paid: world.base.paid.len(),
        })
    }
}

fn sum(all: &[Deposit]) -> U256 {
    all.iter().map(|one| one.tokens).sum()
}

/// The tokens of the chain base that have an owner: those of deposits that were not paid out.
pub(super) fn escrow(world: &World) -> U256 {
    let paid: U256 = world.base.paid.iter().map(|(_, tokens)| *tokens).sum();
    sum(&world.base.deposits)
        .checked_sub(paid)
        .expect("the chain base pays what it has")
}

/// Compares the chain base with the chain of one SCS:
/// escrow = tokens outside the vault + withdrawals in flight + deposits that wait. Returns false if
/// there is nothing to compare yet: no DappBase, a reading that failed, or a flush, maybe one that
/// is being paid, whose blocks the SCS does not have.
pub(super) fn check_member(world: &World, place: usize) -> bool {
    let engine = world.engine(place);
    let view = engine.reader().view().unwrap();
    let head = view.head_number();
    // After a flush was taken back, the next reading has the deposits from an earlier one on.
    let is_read = engine.contract.as_ref().is_some_and(|contract| {
        let from = contract.deposits.as_ref().map(|deposits| deposits.from);
        contract.base_block == world.base.block && from.is_some() && from == engine.deposits_from()
    });
    let exists = !view.code(&world.dapp_base(), head).unwrap().is_empty();
    let current = &world.base.current;
    let is_paid = current.redemptions_left < current.users.len() as u64;
    let is_behind = current.distribute_flag == 1 && is_paid && head < current.end;
    if !world.counts_money || !exists || !is_read || engine.lacks_flush(&view) || is_behind {
        return false;
    }
    let calls = DappBaseCalls::new(&view, world.dapp_base());
    let credited = calls.enter_position(head).unwrap() as usize;
    let bought = &world.base.deposits;
    assert!(
        credited <= bought.len(),
        "SCS {place}: {credited} deposits are credited, {} are bought",
        bought.len()
    );
    let withdrawals = calls.withdrawal_page(0, usize::MAX, head).unwrap();
    let withdrawn: Vec<_> = withdrawals.iter().map(|one| (one.user, one.tokens)).collect();
    let paid = &world.base.paid;
    assert!(
        withdrawn.starts_with(paid),
        "SCS {place}: {paid:?} are paid, {withdrawn:?} are withdrawn"
    );
    assert_eq!(world.base.redeem_position as usize, paid.len());
    let in_flight: U256 = withdrawals[paid.len()..].iter().map(|one| one.tokens).sum();
    let vault = view.account(&world.dapp_base(), head).unwrap();
    let outside = world.setup.supply - vault.map_or(U256::ZERO, |account| account.balance);
    assert_eq!(
        escrow(world),
        outside + in_flight + sum(&bought[credited..]),
        "SCS {place}, block {head}: escrow, and tokens, withdrawals in flight and waiting deposits"
    );
    true
}

/// Computes the sums of one SCS's chain again from its blocks, as an outsider does who has nothing
/// but the two chains: who was credited, what was withdrawn, and the balance of everybody.
pub(super) fn audit(world: &World, place: usize) {
    let reader = world.reader(place);
    let view = reader.view().unwrap();
    if !check_member(world, place) {
        return;
    }
    let dapp_base = world.dapp_base();
    let redeem = keccak256("redeemFromMicroChain()");
    let mut everybody = BTreeSet::from([world.setup.owner]);
    let (mut withdrawn, mut votes) = (Vec::new(), Vec::new());
    for number in 1..=view.head_number() {
        let block = view.block(number).unwrap().unwrap();
        let receipts = view.receipts(&block.id()).unwrap().unwrap();
        for (index, transaction) in block.body.transactions.iter().enumerate() {
            let sender = block.body.senders[index];
            let action = PlainAction::of(transaction).unwrap();
            everybody.insert(sender);
            everybody.extend(action.to);
            if receipts[index].outcome != ReceiptOutcome::Status(true) {
                continue;
            }
            if action.to == Some(dapp_base) && action.data.starts_with(&redeem[..4]) {
                withdrawn.push((sender, transaction.value));
            }
            votes.extend(CreditVote::of(transaction, &dapp_base));
        }
    }
    everybody.extend(votes.iter().flat_map(|vote| &vote.entries).map(|(user, _)| *user));
    everybody.remove(&dapp_base);
    let calls = DappBaseCalls::new(&view, dapp_base);
    let (mut tokens, mut credited) = (U256::ZERO, U256::ZERO);
    for one in &everybody {
        tokens += reader.balance(one).unwrap();
        let records = calls.credited(one, view.head_number()).unwrap();
        credited += records.iter().map(|one| one.tokens).sum::<U256>();
        let bought = world.base.deposits.iter().filter(|deposit| deposit.user == *one);
        let bought: Vec<U256> = bought.map(|deposit| deposit.tokens).collect();
        let got: Vec<U256> = records.iter().map(|one| one.tokens).collect();
        assert!(bought.starts_with(&got), "{one}: got {got:?}, bought {bought:?}");
    }
    assert!(withdrawn.starts_with(&world.base.paid), "{withdrawn:?}");
    let all: U256 = withdrawn.iter().map(|(_, tokens)| *tokens).sum();
    assert_eq!(credited, tokens + all, "what was credited is there or withdrawn");
    let in_flight: U256 = withdrawn[world.base.paid.len()..]
        .iter()
        .map(|(_, one)| *one)
        .sum();
    let waiting = sum(&world.base.deposits) - credited;
    assert_eq!(escrow(world), tokens + in_flight + waiting);
}

/// The address of a user, for tests.
pub(super) fn user(byte: u8) -> Address {
    super::world::key(byte).address()
}
