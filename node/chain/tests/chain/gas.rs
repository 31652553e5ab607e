//! Exact gas of small programs by the public network's table and opcodes.
//!
//! The expected numbers are sums of the table's values. The code under test does not compute them.

use chain::ChainSpec;
use chain::spec::Rule;
use primitives::{Address, U256};

use crate::common::{FUXI, account, begin, coins, hex, key};
use crate::run::{CALLEE, EXISTING, MISSING, PROGRAM, Ran, Run, rich};

fn check(name: &str, program: &str, callee: &str, expected: u64) -> Ran {
    let ran = Run::new(program, callee).run();
    assert!(ran.success, "{name}: failed");
    assert_eq!(ran.gas_used, expected, "{name}");
    ran
}

#[test]
fn opcodes_cost_what_the_table_says() {
    let ee = "ee".repeat(20);
    let dd = "dd".repeat(20);
    // Name, program, and gas of the whole transaction: 1000 and the gas of the program.
    let table: &[(&str, &str, u64)] = &[
        ("nothing", "00", 1000),
        ("exponent of no bytes", "6000 6002 0a", 1000 + 6 + 10),
        ("exponent of one byte", "60ff 6002 0a", 1000 + 6 + 60),
        ("exponent of two bytes", "610100 6002 0a", 1000 + 6 + 110),
        ("sload", "6000 54", 1000 + 3 + 200),
        ("balance", "30 31", 1000 + 2 + 400),
        ("selfbalance", "47", 1000 + 5),
        ("chainid", "46", 1000 + 2),
        ("extcodesize", "30 3b", 1000 + 2 + 700),
        (
            "extcodecopy of a word",
            "6020 6000 6000 30 3c",
            1000 + 11 + 700 + 3 + 3,
        ),
        ("shl", "6001 6001 1b", 1000 + 9),
        ("shr", "6001 6001 1c", 1000 + 9),
        ("sar", "6001 6001 1d", 1000 + 9),
        ("keccak of a word", "6020 6000 20", 1000 + 6 + 36 + 3),
        (
            "a topic and a byte",
            "6000 6001 6000 a1",
            1000 + 9 + 375 + 375 + 8 + 3,
        ),
        (
            "memory grows by squares",
            "6001 6180 00 52",
            1000 + 6 + 3 + 3 * 1025 + 1025 * 1025 / 512,
        ),
        ("create", "6000 6000 6000 f0", 1000 + 9 + 32_000),
        ("create2", "6000 6000 6000 6000 f5", 1000 + 12 + 32_000),
        (
            "create2 pays no memory, no hash",
            "6000 612000 6000 6000 f5",
            1000 + 12 + 32_000,
        ),
        (
            "create does pay memory",
            "612000 6000 6000 f0",
            1000 + 9 + 32_000 + 256 * 3 + 128,
        ),
        ("sstore 0 to 1", "6001 6000 55", 1000 + 6 + 20_000),
        ("0 to 0", "6000 6000 55", 1000 + 6 + 5000),
        ("1 to 2", "6002 6001 55", 1000 + 6 + 5000),
        ("1 to 1", "6001 6001 55", 1000 + 6 + 5000),
        ("1 to 0, half is refunded", "6000 6001 55", 6006 - 3003),
        (
            "1 to 0, all is refunded",
            "6000 6001 55 6001 6000 55 6001 6002 55",
            46_018 - 15_000,
        ),
        (
            "0 to 1 to 0: no net metering",
            "6001 6000 55 6000 6000 55",
            26_012 - 13_006,
        ),
        (
            "1 to 2 to 1: no net metering",
            "6002 6001 55 6001 6001 55",
            11_012,
        ),
    ];
    for (name, program, expected) in table {
        check(name, program, "00", *expected);
    }
    // SELFDESTRUCT costs 5000, and 25,000 more if its balance creates an account. At most 24,000
    // is refunded.
    check(
        "selfdestruct to an account",
        &format!("73{ee} ff"),
        "00",
        6003 - 3001,
    );
    check(
        "selfdestruct to a new account",
        &format!("73{dd} ff"),
        "00",
        31_003 - 15_501,
    );
    let mut poor = Run::new(&format!("73{dd} ff"), "00");
    poor.spec
        .genesis
        .alloc
        .get_mut(&PROGRAM)
        .expect("the program")
        .balance = U256::ZERO;
    assert_eq!(
        poor.run().gas_used,
        6003 - 3001,
        "without a balance no account is created"
    );
}

#[test]
fn calls_cost_what_the_table_says() {
    let call = |value: &str, to: Address, gas: &str| {
        format!(
            "6000 6000 6000 6000 60{value} 73{} {gas} f1",
            to.to_string().trim_start_matches("0x")
        )
    };
    check("all gas", &call("00", CALLEE, "5a"), "00", 1000 + 18 + 2 + 700);
    check(
        "no account, no value",
        &call("00", MISSING, "5a"),
        "00",
        1000 + 18 + 2 + 700,
    );
    check(
        "value to an account",
        &call("01", EXISTING, "6000"),
        "00",
        1000 + 21 + 700 + 9000 - 2300,
    );
    let new_account = 1000 + 21 + 700 + 9000 + 25_000 - 2300;
    check(
        "value to a new account",
        &call("01", MISSING, "6000"),
        "00",
        new_account,
    );
    // Writes the result of the call to slot 0.
    let save_result = |program: String| format!("{program} 6000 55");
    // The callee writes a slot before it fails. Its write is undone, and the gas that it had left
    // comes back.
    let ran = check(
        "invalid inside",
        &save_result(call("00", CALLEE, "617530")),
        "6001 6000 55 fe",
        1000 + 721 + 20_006 + 5003,
    );
    assert_eq!((ran.slots[0], ran.callee_slot), (U256::ZERO, U256::ZERO));
    let ran = check(
        "revert inside",
        &save_result(call("00", CALLEE, "617530")),
        "6001 6000 55 6000 6000 fd",
        1000 + 721 + 20_012 + 5003,
    );
    assert_eq!((ran.slots[0], ran.callee_slot), (U256::ZERO, U256::ZERO));
    let ran = check(
        "success inside",
        &save_result(call("00", CALLEE, "617530")),
        "6001 6000 55",
        1000 + 721 + 20_006 + 20_003,
    );
    assert_eq!((ran.slots[0], ran.callee_slot), (U256::from(1), U256::from(1)));
    let callee = CALLEE.to_string();
    let callee = callee.trim_start_matches("0x");
    let static_call = format!("6000 6000 6000 6000 73{callee} 617530 fa 6000 55");
    let ran = check(
        "writing in a static call",
        &static_call,
        "6001 6000 55",
        1000 + 18 + 700 + 30_000 + 5003,
    );
    assert_eq!((ran.slots[0], ran.callee_slot), (U256::ZERO, U256::ZERO));
    let delegate_call = format!("6000 6000 6000 6000 73{callee} 5a f4 6002 55");
    let ran = check(
        "a delegate call writes the caller's storage",
        &delegate_call,
        "6007 6000 55",
        1000 + 17 + 700 + 20_006 + 20_003,
    );
    assert_eq!(
        (ran.slots[0], ran.slots[2], ran.callee_slot),
        (U256::from(7), U256::from(1), U256::ZERO)
    );
}

#[test]
fn memory_of_create2_is_free_and_growth_beyond_it_is_charged() {
    let create2 = "6000 6040 6000 6000 f5 50";
    // MSTORE at 0 writes to memory that CREATE2 has made. MSIZE goes to slot 0.
    let ran = check(
        "inside",
        &format!("{create2} 6001 6000 52 59 6000 55"),
        "00",
        1000 + 12 + 32_000 + 2 + 9 + 2 + 3 + 20_000,
    );
    assert_eq!(ran.slots[0], U256::from(64));
    // MSTORE at 64 makes a third word. All three words are charged, since none was before.
    let ran = check(
        "beyond",
        &format!("{create2} 6001 6040 52 59 6000 55"),
        "00",
        1000 + 12 + 32_000 + 2 + 9 + 9 + 2 + 3 + 20_000,
    );
    assert_eq!(ran.slots[0], U256::from(96));
    // A length that does not fit in memory fails the program.
    let huge = Run::new(
        "6000 7f ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff 6000 6000 f5",
        "00",
    )
    .run();
    assert_eq!((huge.success, huge.gas_used), (false, 1000 + 12));
}

#[test]
fn create2_may_expand_memory_as_far_as_a_machine_has_it() {
    let create2 = |length: &str| format!("6000 {length} 6000 6000 f5 59 6000 55");
    // 2 MiB and 64 MiB, then MSIZE in slot 0.
    for (length, bytes) in [("62 200000", 2 << 20), ("63 04000000", 64 << 20)] {
        let ran = check(
            length,
            &create2(length),
            "00",
            1000 + 12 + 32_000 + 2 + 3 + 20_000,
        );
        assert_eq!(ran.slots[0], U256::from(bytes));
    }
    // 256 MiB and a word.
    let run = Run::new(&create2("63 10000020"), "00");
    assert!(!run.run().success);
    // The bound is for all open frames: the contract has 200 MiB and calls itself. The inner frame
    // expands its memory, too.
    let nested = |offset: &str| {
        let program = format!(
            "36 6022 57 6000 6020 63 0c800000 6000 f5 50 6000 6000 6001 6000 6000 30 5a f1 6000 55 00 \
             5b 6000 6020 63 {offset} 6000 f5 00"
        );
        let ran = Run::new(&program, "00").run();
        assert!(ran.success);
        ran.slots[0]
    };
    assert_eq!(nested("03000000"), U256::from(1), "48 MiB");
    assert_eq!(nested("04000000"), U256::ZERO, "64 MiB");
}

#[test]
fn the_same_code_again_and_other_code_give_the_addresses_of_the_rule() {
    // Three creations with the salts 0, 1, 2. Each time the first byte of the code differs from the
    // one before, or not: 00 00, then 5b 00.
    let program = "6000 6002 6000 6000 f5 6000 55 6001 6002 6000 6000 f5 6001 55 \
                   605b 6000 53 6002 6002 6000 6000 f5 6002 55";
    let ran = Run::new(program, "00").run();
    assert!(ran.success);
    let expected = [(0u64, [0, 0]), (1, [0, 0]), (2, [0x5b, 0])].map(|(salt, code)| {
        let hash = primitives::keccak256(code);
        PROGRAM.create2(U256::from(salt).to_be_bytes::<32>(), hash)
    });
    assert_eq!(
        ran.slots,
        expected.map(|address| U256::from_be_slice(address.as_slice()))
    );
}

#[test]
fn created_code_that_jumps_and_returns_runs_from_memory_of_its_creator() {
    // PUSH1 4, JUMP, INVALID, JUMPDEST, then it returns one byte of code, 0x5b: twice, with two
    // salts. The second creation runs the remembered code.
    let init = "6004 56 fe 5b 605b 6000 53 6001 6000 f3";
    let word = format!("7f {init} {} 6000 52", "00".repeat(32 - 15));
    let program = format!("{word} 6000 600f 6000 6000 f5 3b 6000 55 6001 600f 6000 6000 f5 3b 6001 55");
    let ran = Run::new(&program, "00").run();
    assert!(ran.success);
    assert_eq!(ran.slots[..2], [U256::from(1); 2], "sizes of the created code");
}

#[test]
fn a_chain_may_price_create2_by_words() {
    let priced = |program: &str| {
        let mut run = Run::new(program, "00");
        begin(&mut run.spec, &[Rule::Eip1014], Some(1));
        run.run()
    };
    // 8 KiB: 256 words of memory, and 6 gas a word for the hash.
    let ran = priced("6000 612000 6000 6000 f5");
    let memory = 3 * 256 + 256 * 256 / 512;
    assert!(ran.success);
    assert_eq!(ran.gas_used, 1000 + 12 + 32_000 + memory + 6 * 256);
    let mut early = Run::new("6000 612000 6000 6000 f5", "00");
    begin(&mut early.spec, &[Rule::Eip1014], Some(2));
    assert_eq!(early.run().gas_used, 1000 + 12 + 32_000, "the block before");
    // The other oddities stay: a CREATE2 that reverts gives no return data.
    let revert = "7f 60206000fd 000000000000000000000000000000000000000000000000000000 6000 52 \
                  6000 6020 6000 6000 f5 50 3d 6000 55";
    assert_eq!(priced(revert).slots[0], U256::ZERO);
}

#[test]
fn input_and_creation_cost_gas() {
    let mut data = Run::new("00", "00");
    data.input = vec![0, 1, 0, 255];
    assert_eq!(data.run().gas_used, 1000 + 2 * 4 + 2 * 68);

    let create = |init: &str, gas: u64| {
        let mut run = Run::new("00", "00");
        (run.create, run.input, run.gas) = (true, hex(init), gas);
        run.run()
    };
    let empty = create("00", 1_000_000);
    assert_eq!((empty.gas_used, empty.created_code_bytes), (53_004, Some(0)));
    // PUSH1 10, PUSH1 0, RETURN: ten zero bytes of code, 200 gas each.
    let ten = create("600a 6000 f3", 1_000_000);
    let intrinsic = 53_000 + 4 * 68 + 4;
    assert_eq!(
        (ten.gas_used, ten.created_code_bytes),
        (intrinsic + 6 + 3 + 2000, Some(10))
    );
    // One gas too little for the code: no contract is created, and all gas is burned.
    let short = create("600a 6000 f3", intrinsic + 6 + 3 + 1999);
    assert_eq!(
        (short.success, short.gas_used, short.created_code_bytes),
        (false, intrinsic + 2008, None)
    );
}

#[test]
fn code_has_at_most_204_800_bytes() {
    let create = |init: &str| {
        let mut run = Run::new("00", "00");
        (run.create, run.input, run.gas) = (true, hex(init), 60_000_000);
        run.run()
    };
    // PUSH3 204,800, PUSH1 0, RETURN: 6400 words of memory.
    let largest = create("62032000 6000 f3");
    let intrinsic = 53_000 + 5 * 68 + 2 * 4;
    let memory = 6400 * 3 + 6400 * 6400 / 512;
    assert!(largest.success);
    assert_eq!(largest.gas_used, intrinsic + 6 + memory + 204_800 * 200);
    assert_eq!(largest.created_code_bytes, Some(204_800));
    let larger = create("62032001 6000 f3");
    assert_eq!(
        (larger.success, larger.gas_used, larger.created_code_bytes),
        (false, 60_000_000, None)
    );
}

#[test]
fn fuxi_adds_opcodes_and_other_opcodes_stay_invalid() {
    let at = |opcode: &str, number: u64| {
        let mut run = Run::new(&format!("6000 6000 6000 6000 {opcode}"), "00");
        begin(&mut run.spec, &FUXI, Some(5));
        run.number = number;
        let ran = run.run();
        (ran.success, ran.gas_used)
    };
    // An invalid opcode is not charged, and the gas goes back.
    let invalid = (false, 1000 + 12);
    for opcode in ["1b", "1c", "1d", "46", "47", "f5"] {
        assert_eq!(at(opcode, 4), invalid, "{opcode}");
        assert!(at(opcode, 5).0, "{opcode}");
    }
    // EXTCODEHASH has a price on the public network, but was never valid.
    for opcode in ["1e", "3f", "48", "49", "4a", "5f", "fe", "ef"] {
        assert_eq!((at(opcode, 4), at(opcode, 5)), (invalid, invalid), "{opcode}");
    }
    // A subroutine's opcodes fail after they were charged: there is no target and nowhere to
    // return.
    for (opcode, gas) in [("5c", 2), ("5d", 5), ("5e", 10)] {
        assert_eq!(at(opcode, 4), invalid, "{opcode}");
        assert_eq!(at(opcode, 5), (false, 1012 + gas), "{opcode}");
    }
    for opcode in ["3d", "fa", "fd"] {
        let mut run = Run::new(&format!("6000 6000 6000 6000 6000 6000 {opcode}"), "00");
        begin(&mut run.spec, &FUXI, None);
        assert!(
            run.run().gas_used < 1_000_000,
            "{opcode} is valid from Byzantium on"
        );
    }
}

#[test]
fn chainid_and_selfbalance_return_the_chain_id_and_the_balance() {
    let ran = check("both", "46 6000 55 47 6002 55", "00", 1000 + 2 + 5 + 6 + 40_000);
    assert_eq!((ran.slots[0], ran.slots[2]), (U256::from(100), U256::from(5)));
}

#[test]
fn existing_accounts_1_to_16_have_code_size_1() {
    let size = |operand: &str, exists: bool| {
        let mut run = Run::new(&format!("7f{operand:0>64} 3b 6000 52 6020 6000 a0"), "00");
        if exists {
            for low in 1..=17u8 {
                run.spec
                    .genesis
                    .alloc
                    .insert(Address::with_last_byte(low), rich(1));
            }
        }
        let ran = run.run();
        assert_eq!(ran.gas_used, 1000 + 3 + 700 + 6 + 3 + 6 + 375 + 256, "{operand}");
        U256::from_be_slice(&ran.logs[0].data)
    };
    for low in 1..=16u8 {
        let operand = format!("{low:02x}");
        assert_eq!(
            (size(&operand, true), size(&operand, false)),
            // On the dev network 0x0d has code size 1 also if the account does not exist, since
            // contracts check its code before they call it.
            (U256::from(1), U256::from(u8::from(low == 13))),
            "{low}"
        );
    }
    assert_eq!((size("00", true), size("11", true)), (U256::ZERO, U256::ZERO));
    // An address is the low 20 bytes of the word.
    let high = format!("{}{}", "ff".repeat(12), "00".repeat(19) + "04");
    assert_eq!(size(&high, true), U256::from(1));
}

/// The size of the code of `low` after a program's other instructions. The account does not exist.
fn size_after(program: &str, low: u8, callee: &str) -> U256 {
    let mut run = Run::new(&format!("{program} 60{low:02x} 3b 6000 55"), callee);
    run.spec.notify_scs_always_exists = false;
    let ran = run.run();
    assert!(ran.success);
    ran.slots[0]
}

#[test]
fn a_call_creates_the_account_of_a_contract_until_the_transaction_ends() {
    let call = |low: u8| format!("6000 6000 6000 6000 6000 60{low:02x} 6207a120 f1 50");
    let (none, one) = (U256::ZERO, U256::from(1));
    for low in (1..=8).chain([12, 13]) {
        assert_eq!(size_after("", low, "00"), none, "{low}");
        assert_eq!(size_after(&call(low), low, "00"), one, "{low}");
        let other_kind = call(low).replace("f1", "f4").replacen("6000", "", 1);
        assert_eq!(size_after(&other_kind, low, "00"), none, "{low}: a delegate call");
        assert_eq!(
            size_after(&other_kind.replace("f4", "fa"), low, "00"),
            none,
            "{low}"
        );
    }
    // 9, 10 and 11 reject an empty input, and 14 charges more gas for it than the call has. There
    // is no contract at 15 and 16.
    for low in [9, 10, 11, 14, 15, 16] {
        assert_eq!(size_after(&call(low), low, "00"), none, "{low}");
    }
    // The account vanishes when the frame that created it is reverted.
    let callee = hex_of(CALLEE);
    let through = format!("6000 6000 6000 6000 6000 73{callee} 6207a120 f1 50");
    assert_eq!(size_after(&through, 1, &call(1)), one);
    assert_eq!(
        size_after(&through, 1, &format!("{} 6000 6000 fd", call(1))),
        none
    );
    // SELFDESTRUCT creates its beneficiary, also if it has nothing to give.
    assert_eq!(size_after(&through, 15, "600f ff"), one);
    assert_eq!(size_after(&through, 17, "6011 ff"), none);
}

fn hex_of(address: Address) -> String {
    primitives::hex::encode(address)
}

#[test]
fn subroutines_return_to_their_callers() {
    // 00: JUMPSUB 0a; 03: SSTORE(1, the word of the subroutine); STOP; 0a: the subroutine.
    let program = "600a 5e 6002 55 00 000000 5b 6007 5d";
    let ran = check(
        "call and return",
        program,
        "00",
        1000 + 3 + 10 + 3 + 5 + 3 + 20_000,
    );
    assert_eq!(ran.slots[2], U256::from(7));
    // A subroutine that calls another one: JUMPDEST is not charged.
    let nested = "6008 5e 6000 55 00 00 5b 600e 5e 5d 00 5b 6005 5d";
    let ran = check(
        "a subroutine in a subroutine",
        nested,
        "00",
        1000 + 3 + 10 + (3 + 10 + (3 + 5) + 5) + 3 + 20_000,
    );
    assert_eq!(ran.slots[0], U256::from(5));
    // A subroutine at the end of the code ends the program, and so does a return behind its end.
    check("a subroutine of no instructions", "6003 5e 5b", "00", 1013);
    check(
        "a return to the end",
        "6005 56 5b 5d 5b 6003 5e",
        "00",
        1000 + 3 + 8 + 1 + 3 + 10 + 5,
    );
}

#[test]
fn subroutines_fail_where_they_must() {
    let fails = |name: &str, program: &str, gas: u64| {
        let ran = Run::new(program, "00").run();
        assert_eq!((ran.success, ran.gas_used), (false, 1000 + gas), "{name}");
    };
    fails("a target that is no JUMPDEST", "6000 5e", 13);
    fails("a target in data", "6003 5e 605b", 13);
    fails("a target behind the end", "6040 5e 5b", 13);
    let huge = format!("7f01{}04 5e 5b", "00".repeat(30));
    fails("a target above 2^64", &huge, 13);
    fails("nothing to return to", "5d", 5);
    fails("BEGINSUB", "5c", 2);
    fails("no target on the stack", "5e", 0);
    // The 1024th return address is too many: the subroutine calls itself.
    fails("endless recursion", "6003 5e 5b 6003 5e", 1024 * 13);
}

#[test]
fn each_frame_has_its_own_return_addresses() {
    let callee = hex_of(CALLEE);
    let call = format!("6000 6000 6000 6000 6000 73{callee} 617530 f1");
    // The program is within a subroutine when it calls. The callee has nothing to return to.
    let program = format!("6003 5e 5b {call} 6000 55");
    let ran = Run::new(&program, "5d").run();
    assert_eq!((ran.success, ran.slots[0]), (true, U256::ZERO));
    // A frame leaves nothing to the next one of its depth. The callee ends within a subroutine;
    // with input it returns from one instead.
    let ends_or_returns = "36 600a 57 6008 5e 00 5b 00 5b 5d 00";
    let with_input = format!("6000 6000 6001 6000 6000 73{callee} 617530 f1");
    let both = format!("{call} 6000 55 {with_input} 6002 55");
    let ran = Run::new(&both, ends_or_returns).run();
    assert_eq!(
        (ran.success, ran.slots[0], ran.slots[2]),
        (true, U256::from(1), U256::ZERO)
    );
}

#[test]
fn a_create2_that_reverts_gives_no_return_data() {
    // MSTORE8 of a byte, REVERT with 32 bytes; as init code of 10 bytes at the end of a word.
    let init = "60ab 6000 53 6020 6000 fd";
    let store = format!("69{} 6000 52", init.replace(' ', ""));
    for (opcode, salt, size) in [("f5", "6000", 0), ("f0", "", 32)] {
        let program = format!("{store} {salt} 600a 6016 6000 {opcode} 6000 55 3d 6002 55");
        let ran = Run::new(&program, "00").run();
        assert!(ran.success, "{opcode}");
        assert_eq!(
            (ran.slots[0], ran.slots[2]),
            (U256::ZERO, U256::from(size)),
            "{opcode}"
        );
    }
}

#[test]
fn dev_accounts_have_balances_and_known_keys() {
    let spec = ChainSpec::dev();
    assert_eq!(spec.genesis.alloc[&account(0)].balance, coins(1_000_000));
    assert_eq!(key(0).address(), account(0));
}
