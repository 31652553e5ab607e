//! The system transaction runs without gas metering: what costs nothing, what needs gas all the
//! same, and what GAS shows.

use chain::ChainSpec;
use chain::evm::execute::Executor;
use chain::genesis::{ensure_genesis, genesis_header};
use chain::state::BlockState;
use primitives::{Address, Header, ReceiptOutcome, SYSTEM_CONTRACT, U256};
use revm::Database;
use store::Store;

use crate::common::hex;
use crate::run::{CALLEE, EXISTING, contract, rich};

/// The result of a system transaction.
struct SystemRun {
    success: bool,
    slots: [U256; 3],
    gas_used: u64,
}

/// Runs the system transaction of block 1. The system contract has `code` and a balance of 100.
fn run(code: &str, callee: &str) -> SystemRun {
    let mut spec = ChainSpec {
        system_contract: true,
        ..ChainSpec::dev()
    };
    let mut system = contract(code);
    system.balance = U256::from(100);
    let alloc = &mut spec.genesis.alloc;
    alloc.insert(SYSTEM_CONTRACT, system);
    alloc.insert(CALLEE, contract(callee));
    alloc.insert(EXISTING, rich(1));
    (1..=16).for_each(|low| drop(alloc.insert(Address::with_last_byte(low), rich(1))));
    let store = Store::in_memory().expect("store");
    ensure_genesis(&store, &spec).expect("genesis");
    let view = store.snapshot().expect("snapshot");
    let root = genesis_header(&spec).state_root;
    let header = Header {
        number: 1,
        gas_limit: 9_000_000,
        ..Default::default()
    };
    let mut state = BlockState::new(&*view, 0, root);
    let mut executor = Executor::new(&spec, &header, &mut state);
    executor.system_transaction().expect("the store works");
    let executed = executor.finish(&[]).expect("finish");
    let mut slot = |slot: u64| state.storage(SYSTEM_CONTRACT, U256::from(slot)).expect("slot");
    SystemRun {
        success: executed.receipts[0].outcome == ReceiptOutcome::Status(true),
        slots: [slot(0), slot(1), slot(2)],
        gas_used: executed.gas_used,
    }
}

/// Writes the word on the stack to a slot.
fn save(slot: u8) -> String {
    format!("60{slot:02x} 55")
}

#[track_caller]
fn check(name: &str, code: &str, callee: &str, expected: [u64; 3]) {
    let ran = run(code, callee);
    assert_eq!(
        (ran.success, ran.slots, ran.gas_used),
        (true, expected.map(U256::from), 0),
        "{name}"
    );
}

#[test]
fn instructions_cost_nothing() {
    // 1 is added, so that a slot shows that it was written.
    let gas_and_one = format!("5a 6001 01 {}", save(0));
    check("gas", &gas_and_one, "00", [1, 0, 0]);
    // 100,000 rounds of a loop that writes a slot.
    let looped = format!("620186a0 5b 6001 90 03 80 6000 55 80 6004 57 6007 {}", save(1));
    check("a loop", &looped, "00", [0, 7, 0]);
    // A MiB of memory.
    let memory = format!("6001 620fffe0 52 59 {}", save(0));
    check("memory", &memory, "00", [1 << 20, 0, 0]);
}

#[test]
fn calls_give_the_gas_they_ask_for_and_get_the_rest_back() {
    let existing = primitives::hex::encode(EXISTING);
    let callee = primitives::hex::encode(CALLEE);
    // The stipend of a transfer to an account without code comes back.
    let code = format!(
        "6000 6000 6000 6000 6001 73{existing} 6000 f1 {} 5a {}",
        save(0),
        save(1)
    );
    check("a stipend", &code, "00", [1, 2300, 0]);
    // So does the gas that was asked for. Of a larger number the last 64 bits count.
    let code = format!(
        "6000 6000 6000 6000 6000 73{existing} 611388 f1 50 5a {}",
        save(0)
    );
    check("gas from nothing", &code, "00", [5000, 0, 0]);
    let code = format!(
        "6000 6000 6000 6000 6000 73{existing} 6801{}07 f1 50 5a {}",
        "00".repeat(7),
        save(0)
    );
    check("a large number", &code, "00", [7, 0, 0]);
    // The callee sees the gas that it was given, and pays nothing. It returns GAS.
    let returns_gas = "5a 6000 52 6020 6000 f3";
    for (opcode, value) in [("f1", "6000"), ("f2", "6000"), ("f4", ""), ("fa", "")] {
        let code = format!(
            "6020 6000 6000 6000 {value} 73{callee} 611388 {opcode} {} 6000 51 {} 5a {}",
            save(0),
            save(1),
            save(2)
        );
        check(opcode, &code, returns_gas, [1, 5000, 5000]);
    }
    // A callee that fails gives its gas back after CALL only.
    for (opcode, value, left) in [("f1", "6000", 5000), ("f4", "", 0)] {
        let code = format!(
            "6000 6000 6000 6000 {value} 73{callee} 611388 {opcode} {} 5a {}",
            save(0),
            save(1)
        );
        check(opcode, &code, "fe", [0, left, 0]);
    }
}

#[test]
fn contracts_and_code_need_gas() {
    // SHA-256 of nothing costs 60.
    let hash = |gas: &str, slot: u8| format!("6000 6000 6000 6000 6002 {gas} fa {}", save(slot));
    let code = format!("{} {} 5a {}", hash("5a", 0), hash("6103e8", 1), save(2));
    check("a built-in contract", &code, "00", [0, 1, 940]);
    // A byte of code costs 200, and the system contract has nothing to give.
    let create = |init: &str| {
        let bytes = hex(init).len();
        let store = format!("{:02x}{}", 0x5f + bytes, init.replace(' ', ""));
        format!("{store} 6000 52 60{bytes:02x} 60{:02x} 6000 f0 15 15", 32 - bytes)
    };
    let code = format!(
        "{} {} {} {}",
        create("6001 6000 f3"),
        save(0),
        create("6000 6000 f3"),
        save(1)
    );
    check("code", &code, "00", [0, 1, 0]);
    // With the gas of a call before, it has.
    let existing = primitives::hex::encode(EXISTING);
    let code = format!(
        "6000 6000 6000 6000 6000 73{existing} 611388 f1 50 {} {}",
        create("6001 6000 f3"),
        save(0)
    );
    check("code with gas", &code, "00", [1, 0, 0]);
}

#[test]
fn memory_has_a_limit() {
    let ran = run(&format!("6001 {} 6001 640100000000 52", save(0)), "00");
    assert_eq!((ran.success, ran.slots[0]), (false, U256::ZERO));
}

#[test]
fn a_contract_that_does_not_exist_changes_nothing() {
    let ran = run("", "00");
    assert_eq!((ran.success, ran.gas_used), (true, 0));
}
