//! The gas of failed calls where the spec gives it back: to the unit, by kind of call and of
//! failure, at the top and inside; and that other specs burn it.
//!
//! Expected numbers are written out from the rules: the sum of an instruction's gas is taken
//! before it is carried out, and only if there is enough.

use chain::call::{CallOutcome, CallRequest, StateAt, TIMEOUT_DEFAULT};
use chain::{ChainSpec, View};
use primitives::{Transaction, U256};

use crate::common::{Maker, Plan, account, deploys, hex, sign, unsigned};
use crate::run::{CALLEE, Ran, Run};

/// Gas that the program gives its callee.
const GIVEN: u64 = 30_000;
/// Writes 1 to slot 0, with the pushes.
const WRITE: u64 = 20_006;

fn run(refund: bool, program: &str, callee: &str, gas: u64) -> Ran {
    let mut run = Run::new(program, callee);
    run.spec.failed_calls_refund_gas = refund;
    run.gas = gas;
    run.run()
}

/// A program that calls its callee with [`GIVEN`] gas and writes 0, its answer, to slot 0;
/// and what that costs without the callee.
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
    let (program, own) = caller(opcode);
    let ran = run(refund, &program, callee, 1_000_000);
    assert!(ran.success, "{name}");
    assert_eq!(ran.gas_used, own + used, "{name}");
    assert_eq!(
        (ran.slots[0], ran.callee_slot),
        (U256::ZERO, U256::ZERO),
        "{name}"
    );
}

/// Name of a failure, a callee that fails so, and the gas it has used by then.
const FAILURES: [(&str, &str, u64); 11] = [
    ("an invalid opcode", "6001 6000 55 fe", WRITE),
    ("an unknown opcode", "6001 6000 55 0c", WRITE),
    (
        "too little for an instruction",
        "6001 6000 55 6001 6005 55",
        WRITE + 6,
    ),
    (
        "too little for memory",
        "6001 6000 55 6001 630fffffff 52",
        WRITE + 6,
    ),
    (
        "an operand beyond all memory",
        "6001 6000 55 6001 6000 19 52",
        WRITE + 9,
    ),
    ("nothing on the stack", "6001 6000 55 50", WRITE),
    ("a jump to nowhere", "6001 6000 55 6003 56", WRITE + 3 + 8),
    (
        "a conditional jump to nowhere",
        "6001 6000 55 6001 6003 57",
        WRITE + 6 + 10,
    ),
    // A word too much: three pushes, the instruction, a word to copy, a word of memory.
    (
        "data that was not returned",
        "6001 6000 55 6001 6000 6000 3e",
        WRITE + 9 + 3 + 3 + 3,
    ),
    // There is no data, and no gas for the copy either: not paid.
    (
        "data and gas missing",
        "6001 6000 55 6001 6000 62ffffff 3e",
        WRITE + 9,
    ),
    (
        "a value that is not there",
        "6001 6000 55 6000 6000 6000 6000 6001 30 5a f1 50 fe",
        WRITE + 15 + 2 + 2 + 700 + 9000 - 2300 + 2,
    ),
];

#[test]
fn plain_calls_give_back_what_they_had_before_the_failure() {
    for (name, callee, used) in FAILURES {
        check(name, "f1", callee, true, used);
        check(name, "f1", callee, false, GIVEN);
    }
    check("a revert", "f1", "6001 6000 55 6000 6000 fd", true, WRITE + 6);
    check("a revert", "f1", "6001 6000 55 6000 6000 fd", false, WRITE + 6);
}

#[test]
fn other_kinds_of_calls_burn_their_gas() {
    for opcode in ["f2", "f4", "fa"] {
        for (name, callee, _) in FAILURES {
            check(name, opcode, callee, true, GIVEN);
        }
    }
    check("writing in a static call", "fa", "6001 6000 55", true, GIVEN);
    check("a revert", "f4", "6000 6000 fd", true, 6);
}

#[test]
fn creations_burn_their_gas_but_for_a_revert() {
    // CREATE of the init code that the transaction brings; its answer, 0, to slot 0.
    let create = |init: &str, refund| {
        let mut run = Run::new("36 6000 6000 37 36 6000 6000 f0 6000 55", "00");
        run.spec.failed_calls_refund_gas = refund;
        (run.input, run.gas) = (hex(init), 600_000);
        run.run().gas_used
    };
    // The copy to memory, the creation and what it takes from the stack.
    let own = 1000 + 8 + 9 + 8 + 32_000;
    for refund in [false, true] {
        let left = 600_000 - own - 68;
        assert_eq!(create("fe", refund), own + 68 + (left - left / 64) + 5003);
        assert_eq!(create("6000 6000 fd", refund), own + 3 * 68 + 2 * 4 + 6 + 5003);
    }
}

#[test]
fn the_first_call_gives_back_and_a_first_creation_does_not() {
    for (name, program, used) in FAILURES {
        // The value is the program's own to give: it fails for its last instruction alone.
        if name != "a value that is not there" {
            // What is too much for the callee's gas is too much for the program's, too.
            let ran = run(true, program, "00", 1000 + GIVEN);
            assert_eq!((ran.success, ran.gas_used), (false, 1000 + used), "{name}");
            let ran = run(false, program, "00", 1000 + GIVEN);
            assert_eq!((ran.success, ran.gas_used), (false, 1000 + GIVEN), "{name}");
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
        assert_eq!(create("fe"), 100_000, "a creation burns");
        // Too little for the deposit of 256 bytes.
        assert_eq!(
            create("610100 6000 f3"),
            100_000,
            "so does one that cannot pay its code"
        );
        assert_eq!(
            create("6000 6000 fd"),
            53_000 + 3 * 68 + 2 * 4 + 6,
            "a revert does not"
        );
    }
}

#[test]
fn built_in_contracts_that_fail_give_back_too() {
    // CALL with 50 bytes of ones to a built-in contract, with `gas`; size of the answer to slot 0.
    let built_in = |low: u8, gas: u64, refund| {
        let call = |low: u8| {
            let program = format!(
                "6000 19 6000 52 6000 19 6020 52 6000 6000 6032 6000 6000 60{low:02x} 62{gas:06x} f1 50 3d 6000 55"
            );
            run(refund, &program, "00", 1_000_000)
        };
        let (ran, nothing) = (call(low), call(0x99));
        // Writing another size than 0 costs 15,000 more.
        let wrote = if ran.slots[0].is_zero() { 0 } else { 15_000 };
        (ran.gas_used - nothing.gas_used - wrote, ran.slots[0].to::<u64>())
    };
    // Too little: nothing is taken.
    for (low, least) in [
        (1, 3000),
        (2, 60 + 24),
        (6, 150),
        (7, 6000),
        (0x0d, 2000),
        (0x09, 100_000),
    ] {
        assert_eq!(built_in(low, least - 1, true), (0, 0), "{low:#x}");
        assert_eq!(built_in(low, least - 1, false), (least - 1, 0), "{low:#x}");
    }
    // Refused input: what the contract costs.
    for (low, cost, size) in [
        (6, 150, 0),
        (7, 6000, 0),
        (8, 45_000, 0),
        (0x09, 100_000, 32),
        (0x0a, 100_000, 32),
        (0x0b, 100_000, 32),
    ] {
        assert_eq!(built_in(low, 200_000, true), (cost, size), "{low:#x}");
        assert_eq!(built_in(low, 200_000, false), (200_000, size), "{low:#x}");
    }
    assert_eq!(built_in(0x0d, 2000, true), (2000, 32));
}

#[test]
fn the_sender_gets_the_gas_and_callers_learn_the_reason() {
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
    let used = 1000 + WRITE + 6;
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
    // The slots are empty as before: the block's transaction failed.
    assert_eq!(call(30_000), CallOutcome::OutOfGas);
    assert_eq!(call(90_000), CallOutcome::Failed("Invalid opcode".to_owned()));
}
