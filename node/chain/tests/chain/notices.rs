//! Notices to application chains: their caller and input, which failures drop them, and for which
//! blocks they are returned.

use chain::ChainSpec;
use chain::call::{CallRequest, StateAt, TIMEOUT_DEFAULT};
use chain::evm::precompiles::{NOTICE_BYTES_MAX, NOTIFY_SCS};
use chain::import::{BlockId, Imported};
use chain::spec::Rule;
use primitives::{Address, B256, Block, Bytes, Transaction, U256};
use store::{NoticeReads, ScsNotice};

use crate::common::{Maker, Node, Plan, account, begin, deploys, hex, sign, unsigned};
use crate::run::{CALLEE, PROGRAM, Run, contract};
use crate::scenes::{assert_sound, block_id, import_as_stream, view};

/// Calls 0x0d with the program's input, and puts the output at memory 0x400.
const NOTIFY: &str = "36 6000 6000 37 6020 610400 36 6000 6000 600d 5a f1 50";
/// The same with another kind of call.
fn notify_with(opcode: &str) -> String {
    format!("36 6000 6000 37 6020 610400 36 6000 600d 5a {opcode} 50")
}
/// Calls `to` with the program's input, and writes the word that it returns to slot 0.
fn forward(opcode: &str, to: Address) -> String {
    let value = if opcode == "f1" { "6000" } else { "" };
    let to = primitives::hex::encode(to);
    format!("36 6000 6000 37 6020 610400 36 6000 {value} 73{to} 5a {opcode} 50 610400 51 6000 55")
}

const DATA: &[u8] = b"a notice";

fn run(program: &str, callee: &str) -> crate::run::Ran {
    let mut run = Run::new(program, callee);
    run.input = DATA.to_vec();
    run.run()
}

/// The notice that `caller` sends with [`DATA`].
const fn notice_of(caller: Address) -> ScsNotice {
    ScsNotice {
        transaction_index: 0,
        caller,
        input: Bytes::from_static(DATA),
    }
}

#[test]
fn a_notice_costs_2000_gas_and_returns_one() {
    let ran = run(&format!("{NOTIFY} 610400 51 6000 55"), "00");
    let silent = run(
        &format!("{} 610400 51 6000 55", NOTIFY.replace("600d", "6099")),
        "00",
    );
    // The call of 0x0d makes the program write 1 to a slot that was 0; the other call leaves 0.
    assert_eq!(ran.gas_used - silent.gas_used, 2000 + 15_000);
    assert_eq!(ran.slots[0], U256::from(1));
    assert_eq!(ran.notices, [notice_of(PROGRAM)]);
    assert_eq!((ran.logs, silent.notices), (vec![], vec![]));
    // The code size is 1, also if the account does not exist.
    assert_eq!(run("600d 3b 6000 55", "00").slots[0], U256::from(1));
    let mut direct = Run::new("00", "00");
    (direct.to, direct.input) = (NOTIFY_SCS, DATA.to_vec());
    let ran = direct.run();
    assert_eq!(
        (ran.gas_used, ran.notices),
        (1000 + 8 * 68 + 2000, vec![notice_of(account(0))])
    );
}

#[test]
fn the_caller_of_a_notice_is_the_account_whose_code_runs() {
    let return_output = "6020 610400 f3";
    for opcode in ["f1", "f4"] {
        let ran = run(&forward(opcode, CALLEE), &format!("{NOTIFY} {return_output}"));
        let caller = if opcode == "f1" { CALLEE } else { PROGRAM };
        assert_eq!(
            (ran.notices, ran.slots[0]),
            (vec![notice_of(caller)], U256::from(1)),
            "{opcode}"
        );
    }
    // The callee calls 0x0d by DELEGATECALL. It cannot send a notice in the name of its caller.
    let ran = run(
        &forward("f1", CALLEE),
        &format!("{} {return_output}", notify_with("f4")),
    );
    assert_eq!(
        (ran.notices, ran.slots[0]),
        (vec![notice_of(CALLEE)], U256::from(1))
    );
    let callcode = NOTIFY.replace("f1", "f2");
    assert_eq!(run(&callcode, "00").notices, [notice_of(PROGRAM)]);
    // A constructor sends notices in the name of the new contract.
    let mut create = Run::new("00", "00");
    (create.create, create.input) = (true, hex("6000 6000 6000 6000 6000 600d 5a f1"));
    let expected = ScsNotice {
        transaction_index: 0,
        caller: Transaction::created_address(&account(0), 0),
        input: Bytes::new(),
    };
    assert_eq!(create.run().notices, [expected]);
}

#[test]
fn static_calls_return_one_and_emit_no_notice() {
    let ran = run(&format!("{} 610400 51 6000 55", notify_with("fa")), "00");
    assert_eq!((ran.notices, ran.slots[0]), (vec![], U256::from(1)));
    // So do plain calls within a static call.
    let ran = run(&forward("fa", CALLEE), &format!("{NOTIFY} 6020 610400 f3"));
    assert_eq!((ran.notices, ran.slots[0]), (vec![], U256::from(1)));
}

#[test]
fn a_notice_is_dropped_with_its_frame() {
    let ends = [
        ("revert", "6000 6000 fd"),
        ("invalid opcode", "fe"),
        ("out of gas", "5b 58 6001 90 03 56"),
        ("endless memory", "6001 630fffffff 52"),
    ];
    for refund in [false, true] {
        for (name, end) in ends {
            let callee = format!("{NOTIFY} {end}");
            let check = |program: &str, expected: &[ScsNotice]| {
                let mut run = Run::new(program, &callee);
                run.spec.failed_calls_refund_gas = refund;
                // The program must finish with the 1/64 of its gas that a burning call leaves.
                (run.input, run.gas) = (DATA.to_vec(), 10_000_000);
                assert_eq!(run.run().notices, expected, "{name}, {refund}");
            };
            // Only the callee's notice is dropped. The caller's notices before and after stay.
            check(&forward("f1", CALLEE), &[]);
            check(&forward("f4", CALLEE), &[]);
            let around = format!("{NOTIFY} {} {NOTIFY}", forward("f1", CALLEE));
            check(&around, &[notice_of(PROGRAM), notice_of(PROGRAM)]);
            // If the transaction fails, all notices are dropped.
            check(&callee, &[]);
            check(&format!("{NOTIFY} {NOTIFY} {end}"), &[]);
        }
    }
    // A failing frame drops the notices of a successful call within it.
    let between = Address::repeat_byte(0xbb);
    let mut run = Run::new(&forward("f1", between), &format!("{NOTIFY} 6020 610400 f3"));
    let code = format!("{} fe", forward("f1", CALLEE));
    run.spec.genesis.alloc.insert(between, contract(&code));
    run.input = DATA.to_vec();
    assert_eq!(run.run().notices, []);
    let code = forward("f1", CALLEE);
    run.spec.genesis.alloc.insert(between, contract(&code));
    assert_eq!(run.run().notices, [notice_of(CALLEE)]);
    // A constructor that fails, and one whose gas does not cover the code.
    for end in ["fe", "6000 6000 fd", "610100 6000 f3"] {
        let mut create = Run::new("00", "00");
        (create.create, create.gas) = (true, 100_000);
        create.input = hex(&format!("6000 6000 6000 6000 6000 600d 5a f1 {end}"));
        let ran = create.run();
        assert_eq!((ran.success, ran.notices), (false, vec![]), "{end}");
    }
}

/// A list of contracts that may send notices: it lets `caller` pass if the hash of its code is
/// that of a contract with this code. It logs what it is asked, and uses as much gas as it can.
fn list(code: &str) -> String {
    let code_hash = primitives::hex::encode(primitives::keccak256(hex(code)));
    // The second word of the input is the code hash. The first one begins with the caller.
    format!("6024 35 7f{code_hash} 14 6000 52 6020 6000 f3")
}

/// Runs a program that writes what 0x0d returns to slot 0, on a chain with a list.
fn run_listed(program: &str, callee: &str, list: &str) -> crate::run::Ran {
    let address = Address::repeat_byte(0x11);
    let mut run = Run::new(program, callee);
    run.spec.notice_list = Some(address);
    if !list.is_empty() {
        run.spec.genesis.alloc.insert(address, contract(list));
    }
    run.input = DATA.to_vec();
    run.run()
}

#[test]
fn a_list_decides_who_may_send_notices() {
    let program = format!("{NOTIFY} 610400 51 6000 55");
    let other = format!("{program} 00");
    let without = run(&program, "00");
    let check = |name: &str, program: &str, list: &str, answer: u64, gas: u64| {
        let ran = run_listed(program, "00", list);
        assert_eq!((ran.success, ran.slots[0]), (true, U256::from(answer)), "{name}");
        assert_eq!((ran.notices.len() as u64, ran.logs.len()), (answer, 0), "{name}");
        assert_eq!(ran.gas_used, gas, "{name}");
    };
    // The list's own gas is charged to nobody. The program writes 0 over 0, or 1.
    let (listed, unlisted) = (without.gas_used, without.gas_used - 15_000);
    check("on the list", &program, &list(&program), 1, listed);
    check("not on the list", &other, &list(&program), 0, unlisted);
    check("no list", &program, "", 1, listed);
    check("a list that fails", &program, "fe", 0, unlisted);
    check(
        "a list that reverts",
        &program,
        "6001 6000 52 6020 6000 fd",
        0,
        unlisted,
    );
    check("a list without end", &program, "5b 6000 56", 0, unlisted);
    check("a list that says nothing", &program, "00", 1, listed);
    check("a short answer", &program, "6001 6000 f3", 1, listed);
    check(
        "another answer than 1",
        &program,
        "6002 6000 52 6020 6000 f3",
        1,
        listed,
    );
    // The list is given a million gas.
    check(
        "its gas",
        &program,
        "620f4000 5a 11 6000 52 6020 6000 f3",
        1,
        listed,
    );
    check(
        "its gas",
        &program,
        "620f4240 5a 11 6000 52 6020 6000 f3",
        0,
        unlisted,
    );
    // The contract sees the caller of 0x0d as its own caller, and in the input.
    let caller = primitives::hex::encode(PROGRAM);
    let asks = format!("73{caller} 33 14 73{caller} 60601c6004351c 14 16 6000 52 6020 6000 f3");
    let asks = asks.replace("60601c6004351c", "6004 35 6060 1c");
    check("its caller", &program, &asks, 1, listed);
    // The selector is that of `isValid`, and the input has two words.
    let asks = "6310a0c274 6000 35 60e0 1c 14 6044 36 14 16 6000 52 6020 6000 f3";
    check("its input", &program, asks, 1, listed);
}

#[test]
fn the_list_is_asked_about_the_caller_of_0x0d() {
    // The callee calls 0x0d by DELEGATECALL: the public node asks about the callee's caller.
    let returns = "6020 610400 f3";
    let program = forward("f1", CALLEE);
    let callee = format!("{} {returns}", notify_with("f4"));
    assert_eq!(
        run_listed(&program, &callee, &list(&program)).slots[0],
        U256::from(1)
    );
    assert_eq!(run_listed(&program, &callee, &list(&callee)).slots[0], U256::ZERO);
    let callee = format!("{NOTIFY} {returns}");
    assert_eq!(
        run_listed(&program, &callee, &list(&callee)).slots[0],
        U256::from(1)
    );
    assert_eq!(
        run_listed(&program, &callee, &list(&program)).slots[0],
        U256::ZERO
    );
    // An account without code has the hash of no code.
    let mut direct = Run::new("00", "00");
    direct.spec.notice_list = Some(PROGRAM);
    direct.spec.genesis.alloc.insert(PROGRAM, contract(&list("")));
    (direct.to, direct.input) = (NOTIFY_SCS, DATA.to_vec());
    assert_eq!(direct.run().notices, [notice_of(account(0))]);
    direct.spec.genesis.alloc.insert(PROGRAM, contract(&list("00")));
    assert_eq!(direct.run().notices, []);
    // Before Nuwa nothing is returned.
    let mut early = Run::new(&format!("{NOTIFY} 3d 6000 55"), "00");
    early.spec.notice_list = Some(CALLEE);
    early.spec.genesis.alloc.insert(CALLEE, contract("fe"));
    begin(&mut early.spec, &[Rule::NoticeWord], Some(5));
    let ran = early.run();
    assert_eq!((ran.slots[0], ran.notices), (U256::ZERO, vec![]));
}

#[test]
fn too_little_gas_and_too_much_input_emit_no_notice() {
    let program = |gas: u64| format!("6000 6000 6000 6000 6000 600d 61{gas:04x} f1 6000 55");
    let notify_with_gas = |gas| {
        let ran = run(&program(gas), "00");
        (ran.notices.len(), ran.slots[0].to::<u64>())
    };
    assert_eq!((notify_with_gas(1999), notify_with_gas(2000)), ((0, 0), (1, 1)));
    let notify_with_input = |length: usize| {
        let mut run = Run::new(&format!("{NOTIFY} 610400 51 6000 55"), "00");
        run.input = vec![7; length];
        // The output overwrites a part of the input in memory.
        let ran = run.run();
        assert!(ran.success);
        (
            ran.notices.iter().map(|notice| notice.input.len()).collect(),
            ran.slots[0],
        )
    };
    let max = NOTICE_BYTES_MAX;
    assert_eq!(notify_with_input(max), (vec![max], U256::from(1)));
    assert_eq!(notify_with_input(max + 1), (vec![], U256::from(1)));
}

/// A contract that sends its input as a notice, and also as a log if the first byte is not zero.
/// Returns its address and the transaction that creates it.
fn notifier() -> (Address, Transaction) {
    let code = hex(&format!("{NOTIFY} 6000 51 60f8 1c 601f 57 00 5b 36 6000 a0"));
    let create = sign(0, &unsigned(0, None, 0, &deploys(&code)));
    (Transaction::created_address(&account(0), 0), create)
}

fn call(from: usize, nonce: u64, to: Address, data: &[u8]) -> Transaction {
    sign(from, &unsigned(nonce, Some(to), 0, data))
}

fn notice(index: u32, caller: Address, input: &[u8]) -> ScsNotice {
    ScsNotice {
        transaction_index: index,
        caller,
        input: Bytes::copy_from_slice(input),
    }
}

fn notices_of(node: &Node, maker: &Maker, block: &Block) -> Option<Vec<ScsNotice>> {
    view(node, maker).notices(&block_id(block)).expect("read")
}

fn notice_rows(node: &Node) -> u64 {
    let snapshot = node.store.snapshot().expect("snapshot");
    snapshot.notice_rows().expect("read")
}

#[test]
fn notices_are_not_in_receipts() {
    let mut maker = Maker::new(ChainSpec::dev());
    let (to, create) = notifier();
    let one = maker.block(
        maker.genesis,
        Plan::with(vec![
            create,
            call(1, 0, to, &[0, 1]),
            call(2, 0, to, &[1, 2]),
            call(2, 1, NOTIFY_SCS, &[9]),
        ]),
    );
    let node = Node::new(&maker.spec);
    node.take(std::slice::from_ref(&one));
    let expected = vec![
        notice(1, to, &[0, 1]),
        notice(2, to, &[1, 2]),
        notice(3, account(2), &[9]),
    ];
    assert_eq!(notices_of(&node, &maker, &one), Some(expected));
    let view = view(&node, &maker);
    let receipts = view.receipts(&block_id(&one)).expect("read").expect("executed");
    let logs: Vec<_> = receipts.iter().map(|receipt| receipt.logs.len()).collect();
    assert_eq!(logs, [0, 0, 1, 0]);
    assert_eq!(receipts[2].logs[0].address, to);
    let bloom = primitives::logs_bloom(&receipts[2].logs);
    assert_eq!(one.header.logs_bloom, bloom, "the bloom has the log only");
    let unknown = BlockId {
        number: 1,
        hash: B256::repeat_byte(1),
    };
    assert_eq!(view.notices(&unknown).expect("read"), None);
    let genesis = BlockId {
        number: 0,
        hash: maker.genesis,
    };
    assert_eq!(view.notices(&genesis).expect("read"), Some(vec![]));
}

#[test]
fn calls_and_estimates_emit_no_notice() {
    let mut maker = Maker::new(ChainSpec::dev());
    let (to, create) = notifier();
    let one = maker.block(maker.genesis, Plan::with(vec![create]));
    let node = Node::new(&maker.spec);
    node.take(std::slice::from_ref(&one));
    let before = node.rows();
    let view = view(&node, &maker);
    let request = CallRequest {
        to: Some(to),
        input: Bytes::from_static(DATA),
        ..Default::default()
    };
    view.call(StateAt::Block(1), &request, TIMEOUT_DEFAULT)
        .expect("a call");
    view.estimate_gas(StateAt::Block(1), &request, TIMEOUT_DEFAULT)
        .expect("an estimate");
    assert!(before == node.rows());
    assert_eq!(notices_of(&node, &maker, &one), Some(vec![]));
    assert_eq!(notice_rows(&node), 0);
}

#[test]
fn only_canonical_blocks_have_notices() {
    let mut maker = Maker::new(ChainSpec::dev());
    let (to, create) = notifier();
    let root = maker.block(maker.genesis, Plan::with(vec![create]));
    let branch = |maker: &mut Maker, mark: u8, count: u64| {
        let mut tip = root.hash();
        (0..count)
            .map(|nonce| {
                let mut plan = Plan::marked(mark);
                plan.transactions = vec![call(1, nonce, to, &[mark, nonce as u8])];
                let block = maker.block(tip, plan);
                tip = block.hash();
                block
            })
            .collect::<Vec<_>>()
    };
    let (a, b) = (branch(&mut maker, 1, 2), branch(&mut maker, 2, 3));
    let mut more = a.clone();
    for nonce in 2..4 {
        let mut plan = Plan::marked(1);
        plan.transactions = vec![call(1, nonce, to, &[1, nonce as u8])];
        let parent = more.last().expect("a block").hash();
        more.push(maker.block(parent, plan));
    }
    let node = Node::new(&maker.spec);
    node.take(std::slice::from_ref(&root));
    node.take(&a);
    let expected = |mark: u8, nonce: usize| Some(vec![notice(0, to, &[mark, nonce as u8])]);
    let check = |canonical: &[Block], mark, side: &[Block]| {
        for (nonce, block) in canonical.iter().enumerate() {
            assert_eq!(notices_of(&node, &maker, block), expected(mark, nonce));
        }
        for block in side {
            assert_eq!(notices_of(&node, &maker, block), None);
        }
        assert_sound(&node.store, &maker.spec);
    };
    check(&a, 1, &b);
    // The notices of side blocks are not stored.
    node.take(&b[..2]);
    check(&a, 1, &b);
    assert!(matches!(
        node.import(&b[2]).expect("heavier"),
        Imported::Head { .. }
    ));
    check(&b, 2, &a);
    node.take(&more[2..]);
    check(&more, 1, &b);
    assert_eq!(notice_rows(&node), 4);
    // The same blocks imported from a stream lead to the same rows.
    let stream = import_as_stream(&maker.spec, std::iter::once(&root).chain(&more));
    let single = Node::new(&maker.spec);
    single.take(std::slice::from_ref(&root));
    single.take(&more);
    assert!(stream.rows() == single.rows());
    for (nonce, block) in more.iter().enumerate() {
        assert_eq!(notices_of(&stream, &maker, block), expected(1, nonce));
    }
}

#[test]
fn before_nuwa_0x0d_returns_nothing_and_emits_notices() {
    let mut spec = ChainSpec::dev();
    begin(&mut spec, &[Rule::NoticeWord], Some(2));
    let mut maker = Maker::new(spec);
    // RETURNDATASIZE to the slot with the block's number.
    let code = hex(&format!("{NOTIFY} 3d 43 55"));
    let to = Transaction::created_address(&account(0), 0);
    let create = sign(0, &unsigned(0, None, 0, &deploys(&code)));
    let one = maker.block(maker.genesis, Plan::with(vec![create, call(1, 0, to, DATA)]));
    let two = maker.block(one.hash(), Plan::with(vec![call(1, 1, to, DATA)]));
    let node = Node::new(&maker.spec);
    node.take(&[one.clone(), two.clone()]);
    let view = view(&node, &maker);
    let slot = |number: u64| view.slot(&to, &U256::from(number), 2).expect("slot");
    assert_eq!((slot(1), slot(2)), (U256::ZERO, U256::from(32)));
    // Both calls emitted their notices.
    assert_eq!(notices_of(&node, &maker, &one), Some(vec![notice(1, to, DATA)]));
    assert_eq!(notices_of(&node, &maker, &two), Some(vec![notice(0, to, DATA)]));
}
