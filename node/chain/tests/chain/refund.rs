//! The exact gas of failed calls, with and without the refund, by kind of call and kind of failure,
//! for a transaction's own call and for inner calls.
//!
//! The expected numbers follow from the rule that an instruction's gas is charged as one sum before
//! the instruction is executed, and only if enough gas is left.

use chain::call::{CallOutcome, CallRequest, StateAt, TIMEOUT_DEFAULT};
use chain::{ChainSpec, View};
use primitives::{Transaction, U256};

use crate::common::{Maker, Plan, account, deploys, hex, sign, unsigned};
use crate::run::{CALLEE, Ran, Run};

/// The gas limit of the program's call.
const CALL_GAS: u64 = 30_000;
/// The gas of writing 1 to slot 0, with the pushes.
const WRITE_GAS: u64 = 20_006;

fn run(refund: bool, program: &str, callee: &str, gas: u64) -> Ran {
    let mut run = Run::new(program, callee);
    run.spec.failed_calls_refund_gas = refund;
    run.gas = gas;
    run.run()
}

/// A program that calls its callee with [`CALL_GAS`] and writes the result, 0, to slot 0. Returns
/// the program and its gas without the callee's.
fn caller(opcode: &str) -> (String, u64) {
    let (value, pushes) = match opcode {
        "f1" | "f2" => ("6000", 21),
        _ => ("", 18),
    };
    let to = primitives::hex::encode(CALLEE);
    let program = format!("6000 6000 6000 6000 {value} 73{to} 617530 {opcode} 6000 55");
    (program, 1000 + pushes + 700 + 5003)
}

#[track_caller]
fn check(name: &str, opcode: &str, callee: &str, refund: bool, used: u64) {
    let (program, caller_gas) = caller(opcode);
    let ran = run(refund, &program, callee, 1_000_000);
    assert!(ran.success, "{name}");
    assert_eq!(ran.gas_used, caller_gas + used, "{name}");
    assert_eq!(
        (ran.slots[0], ran.callee_slot),
        (U256::ZERO, U256::ZERO),
        "{name}"
    );
}

/// The name of a failure, a callee that fails in this way, and the gas that the callee was charged.
const FAILURES: [(&str, &str, u64); 11] = [
    ("an invalid opcode", "6001 6000 55 fe", WRITE_GAS),
    ("an unknown opcode", "6001 6000 55 0c", WRITE_GAS),
    (
        "too little for an instruction",
        "6001 6000 55 6001 6005 55",
        WRITE_GAS + 6,
    ),
    (
        "too little for memory",
        "6001 6000 55 6001 630fffffff 52",
        WRITE_GAS + 6,
    ),
    (
        "a memory offset above 64 bits",
        "6001 6000 55 6001 6000 19 52",
        WRITE_GAS + 9,
    ),
    ("an empty stack", "6001 6000 55 50", WRITE_GAS),
    (
        "a jump to an invalid target",
        "6001 6000 55 6003 56",
        WRITE_GAS + 3 + 8,
    ),
    (
        "a conditional jump to an invalid target",
        "6001 6000 55 6001 6003 57",
        WRITE_GAS + 6 + 10,
    ),
    // The copy of one word that was not returned is charged: three pushes, the instruction, a word
    // to copy, a word of memory.
    (
        "a copy of missing return data",
        "6001 6000 55 6001 6000 6000 3e",
        WRITE_GAS + 9 + 3 + 3 + 3,
    ),
    // The gas does not cover the copy, so the copy is not charged.
    (
        "a copy of missing return data without gas",
        "6001 6000 55 6001 6000 62ffffff 3e",
        WRITE_GAS + 9,
    ),
    (
        VALUE_ABOVE_BALANCE,
        "6001 6000 55 6000 6000 6000 6000 6001 30 5a f1 50 fe",
        WRITE_GAS + 15 + 2 + 2 + 700 + 9000 - 2300 + 2,
    ),
];

const VALUE_ABOVE_BALANCE: &str = "an inner call with more value than the balance";

#[test]
fn plain_calls_refund_the_gas_before_the_failing_instruction() {
    for (name, callee, used) in FAILURES {
        check(name, "f1", callee, true, used);
        check(name, "f1", callee, false, CALL_GAS);
    }
    check("a revert", "f1", "6001 6000 55 6000 6000 fd", true, WRITE_GAS + 6);
    check(
        "a revert",
        "f1",
        "6001 6000 55 6000 6000 fd",
        false,
        WRITE_GAS + 6,
    );
}

#[test]
fn other_kinds_of_calls_burn_their_gas() {
    for opcode in ["f2", "f4", "fa"] {
        for (name, callee, _) in FAILURES {
            check(name, opcode, callee, true, CALL_GAS);
        }
    }
    check("writing in a static call", "fa", "6001 6000 55", true, CALL_GAS);
    check("a revert", "f4", "6000 6000 fd", true, 6);
}

#[test]
fn failed_creations_burn_their_gas_unless_they_revert() {
    // CREATE with the transaction's input as init code. Its result, 0, goes to slot 0.
    let create = |init: &str, refund| {
        let mut run = Run::new("36 6000 6000 37 36 6000 6000 f0 6000 55", "00");
        run.spec.failed_calls_refund_gas = refund;
        (run.input, run.gas) = (hex(init), 600_000);
        run.run().gas_used
    };
    // The gas of copying the input to memory and of CREATE with its pushes.
    let own = 1000 + 8 + 9 + 8 + 32_000;
    for refund in [false, true] {
        let left = 600_000 - own - 68;
        assert_eq!(create("fe", refund), own + 68 + (left - left / 64) + 5003);
        assert_eq!(create("6000 6000 fd", refund), own + 3 * 68 + 2 * 4 + 6 + 5003);
    }
}

#[test]
fn a_failed_transaction_refunds_gas_if_it_calls_and_not_if_it_creates() {
    for (name, program, used) in FAILURES {
        // The program has a balance, so its inner call would succeed.
        if name != VALUE_ABOVE_BALANCE {
            // The transaction has as much gas as the callee above, so it fails at the same
            // instruction.
            let ran = run(true, program, "00", 1000 + CALL_GAS);
            assert_eq!((ran.success, ran.gas_used), (false, 1000 + used), "{name}");
            let ran = run(false, program, "00", 1000 + CALL_GAS);
            assert_eq!((ran.success, ran.gas_used), (false, 1000 + CALL_GAS), "{name}");
        }
    }
    for refund in [false, true] {
        let create = |init: &str| {
            let mut run = Run::new("00", "00");
            run.spec.failed_calls_refund_gas = refund;
            (run.create, run.input, run.gas) = (true, hex(init), 100_000);
            let ran = run.run();
            assert!(!ran.success);
            ran.gas_used
        };
        assert_eq!(create("fe"), 100_000, "an invalid opcode burns all gas");
        // The gas does not cover the deposit for 256 bytes of code.
        assert_eq!(
            create("610100 6000 f3"),
            100_000,
            "code without enough gas burns all gas"
        );
        assert_eq!(
            create("6000 6000 fd"),
            53_000 + 3 * 68 + 2 * 4 + 6,
            "a revert burns nothing"
        );
    }
}

#[test]
fn failed_precompiled_contracts_refund_gas() {
    // CALL of a precompiled contract with 50 bytes 0xff as input. The size of the return data goes
    // to slot 0. Returns the contract's gas and that size.
    let precompile = |low: u8, gas: u64, refund| {
        let call = |low: u8| {
            let program = format!(
                "6000 19 6000 52 6000 19 6020 52 6000 6000 6032 6000 6000 60{low:02x} 62{gas:06x} f1 50 3d 6000 55"
            );
            run(refund, &program, "00", 1_000_000)
        };
        let (ran, nothing) = (call(low), call(0x99));
        // Writing a size other than 0 costs 15,000 more.
        let write_gas = if ran.slots[0].is_zero() { 0 } else { 15_000 };
        (
            ran.gas_used - nothing.gas_used - write_gas,
            ran.slots[0].to::<u64>(),
        )
    };
    // The gas does not cover the cost: nothing is charged.
    for (low, least) in [
        (1, 3000),
        (2, 60 + 24),
        (6, 150),
        (7, 6000),
        (0x0d, 2000),
        (0x09, 100_000),
    ] {
        assert_eq!(precompile(low, least - 1, true), (0, 0), "{low:#x}");
        assert_eq!(precompile(low, least - 1, false), (least - 1, 0), "{low:#x}");
    }
    // The contract rejects its input: its cost is charged.
    for (low, cost, size) in [
        (6, 150, 0),
        (7, 6000, 0),
        (8, 45_000, 0),
        (0x09, 100_000, 32),
        (0x0a, 100_000, 32),
        (0x0b, 100_000, 32),
    ] {
        assert_eq!(precompile(low, 200_000, true), (cost, size), "{low:#x}");
        assert_eq!(precompile(low, 200_000, false), (200_000, size), "{low:#x}");
    }
    assert_eq!(precompile(0x0d, 2000, true), (2000, 32));
}

#[test]
fn the_sender_is_refunded_and_calls_return_the_failure() {
    let spec = ChainSpec {
        failed_calls_refund_gas: true,
        ..ChainSpec::dev()
    };
    let mut maker = Maker::new(spec);
    let spender = Transaction::created_address(&account(0), 0);
    let setup = maker.block(
        maker.genesis,
        Plan::with(vec![sign(
            0,
            &unsigned(0, None, 0, &deploys(&hex("6001 6000 55 6001 6001 55 fe"))),
        )]),
    );
    let mut poor = unsigned(0, Some(spender), 0, &[]);
    poor.gas = 30_000;
    let block = maker.block(setup.hash(), Plan::with(vec![sign(1, &poor)]));
    let used = 1000 + WRITE_GAS + 6;
    assert_eq!(block.header.gas_used, used);
    let view = View::new(&maker.fresh(block.hash()), maker.spec.clone()).expect("view");
    let before = view.account(&account(1), 1).expect("read").expect("rich").balance;
    let after = view.account(&account(1), 2).expect("read").expect("rich").balance;
    assert_eq!(before - after, U256::from(used * 1_000_000_000));
    let request = |gas| CallRequest {
        to: Some(spender),
        gas: Some(gas),
        ..Default::default()
    };
    let call = |gas| {
        view.call(StateAt::Block(2), &request(gas), TIMEOUT_DEFAULT)
            .expect("a call")
    };
    // The block's transaction failed, so the slots are still empty.
    assert_eq!(call(30_000), CallOutcome::OutOfGas);
    let failed = call(90_000);
    assert!(
        matches!(&failed, CallOutcome::Failed(reason) if reason.starts_with("Invalid opcode")),
        "{failed:?}"
    );
}
