//! An owner that makes a `DappBase` of its own, to take what the chain base holds.

use primitives::{Address, U256, keccak256};

use super::world::{World, creation_code};
use crate::codes::code_hash;
use crate::dapp_base::DappBaseCalls;
use crate::event::DappBaseRules;

const THIEF: Address = Address::repeat_byte(0x66);
const LOOT: u64 = 590;
/// The slots of the three lists of withdrawals: users, amounts, times.
const WITHDRAWALS: [u8; 3] = [6, 7, 8];

/// The code of our DappBase at its address.
fn code_at_address() -> Vec<u8> {
    let creation = creation_code("DappBase");
    // The constructor ends with: copy the rest of the code, return it.
    let end = b"\x60\x00\x39\x60\x00\xf3\x00";
    let at = creation.windows(end.len()).position(|part| part == end);
    creation[at.expect("a constructor") + end.len()..].to_vec()
}

/// Creates the code of our DappBase, with a withdrawal in its list that nobody has paid for.
fn creation_with_a_withdrawal() -> Vec<u8> {
    let mut code = Vec::new();
    let mut store = |slot: U256, value: U256| {
        code.push(0x7f);
        code.extend(value.to_be_bytes::<32>());
        code.push(0x7f);
        code.extend(slot.to_be_bytes::<32>());
        code.push(0x55);
    };
    for (slot, value) in WITHDRAWALS
        .into_iter()
        .zip([THIEF.into_word().into(), U256::from(LOOT), U256::ONE])
    {
        let slot = U256::from(slot);
        store(slot, U256::ONE);
        store(keccak256(slot.to_be_bytes::<32>()).into(), value);
    }
    let rest = code_at_address();
    let len = u16::try_from(rest.len()).unwrap().to_be_bytes();
    let from = u16::try_from(code.len() + 14).unwrap().to_be_bytes();
    code.extend([0x61, len[0], len[1], 0x80, 0x61, from[0], from[1]]);
    code.extend([0x60, 0, 0x39, 0x60, 0, 0xf3, 0]);
    [code, rest].concat()
}

/// A MicroChain of three with that DappBase, under these rules.
fn world_with(rules: &DappBaseRules) -> World {
    let mut world = World::new(3, 0);
    // The list has a withdrawal of nobody's tokens.
    world.counts_money = false;
    for scs in &mut world.scs {
        scs.engine.as_mut().unwrap().dapp_bases = rules.clone();
    }
    let world = world.with_dapp_base_of(creation_with_a_withdrawal());
    let reader = world.reader(0);
    let view = reader.view().unwrap();
    let calls = DappBaseCalls::new(&view, world.dapp_base());
    let listed = calls.withdrawal_page(0, usize::MAX, view.head_number()).unwrap();
    assert_eq!((listed.len(), listed[0].user), (1, THIEF));
    drop(view);
    world
}

#[test]
fn withdrawals_of_an_unknown_dapp_base_are_not_paid() {
    let mut world = world_with(&DappBaseRules::default());
    world.run_until(300, "two flushes", |world| world.base.flushes == 2);
    assert!(world.base.paid.is_empty(), "{:?}", world.base.paid);
    let performance = &world.base.performance;
    assert!(performance.iter().all(|(_, left)| *left == 5), "{performance:?}");
}

#[test]
fn a_proposal_with_such_withdrawals_gets_no_vote() {
    let mut world = world_with(&DappBaseRules::default());
    // One member of three would pay them.
    world.scs[0].engine.as_mut().unwrap().dapp_bases.any = true;
    world.run_until(300, "its proposal", |world| {
        world.base.current.users == [THIEF] && world.base.current.proposed_by == world.id(0)
    });
    let (hash, before) = (world.base.current.hash, world.base.flushes);
    world.run_until(300, "a flush", |world| world.base.flushes > before);
    assert_ne!(world.base.approved.hash, hash);
    assert!(world.base.paid.is_empty(), "{:?}", world.base.paid);
}

#[test]
fn a_dapp_base_that_all_operators_allow_is_paid() {
    let by_code = DappBaseRules {
        any: false,
        codes: [code_hash(&code_at_address())].into(),
    };
    let any = DappBaseRules {
        any: true,
        ..DappBaseRules::default()
    };
    for rules in [by_code, any] {
        let mut world = world_with(&rules);
        world.run_until(300, "a payment", |world| !world.base.paid.is_empty());
        assert_eq!(world.base.paid, [(THIEF, U256::from(LOOT))]);
    }
}
