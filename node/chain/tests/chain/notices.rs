//! Notices: who is said to have told what, what takes them back, and which blocks' are served.

use std::sync::atomic::AtomicBool;

use chain::call::{CallRequest, StateAt, TIMEOUT_DEFAULT};
use chain::check::{CheckEvent, check_store};
use chain::evm::precompiles::{NOTICE_BYTES_MAX, NOTIFY_SCS};
use chain::import::bulk::import_stream;
use chain::import::{BlockId, Imported};
use chain::{ChainSpec, View};
use primitives::{Address, B256, Block, Bytes, Transaction, U256};
use store::{Notice, NoticeReads};

use crate::common::{Maker, Node, Plan, account, deploys, forks, hex, sign, unsigned};
use crate::run::{CALLEE, PROGRAM, Run, contract};

/// Tells the application chains its data, and has the answer at 0x400.
const TELL: &str = "36 6000 6000 37 6020 610400 36 6000 6000 600d 5a f1 50";
/// The same by another kind of call.
fn tell_by(opcode: &str) -> String {
    format!("36 6000 6000 37 6020 610400 36 6000 600d 5a {opcode} 50")
}
/// Hands its data to an account and has the word that it answers in slot 0.
fn hand_to(opcode: &str, to: Address) -> String {
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

fn from(caller: Address) -> Notice {
    Notice {
        transaction_index: 0,
        caller,
        input: Bytes::from_static(DATA),
    }
}

#[test]
fn a_notice_costs_2000_gas_and_answers_one() {
    let ran = run(&format!("{TELL} 610400 51 6000 55"), "00");
    let silent = run(
        &format!("{} 610400 51 6000 55", TELL.replace("600d", "6099")),
        "00",
    );
    // The one writes 1 where there was 0, the other 0.
    assert_eq!(ran.gas_used - silent.gas_used, 2000 + 15_000);
    assert_eq!(ran.slots[0], U256::from(1));
    assert_eq!(ran.notices, [from(PROGRAM)]);
    assert_eq!((ran.logs, silent.notices), (vec![], vec![]));
    // There is code, whether the account exists or not.
    assert_eq!(run("600d 3b 6000 55", "00").slots[0], U256::from(1));
    let mut direct = Run::new("00", "00");
    (direct.to, direct.input) = (NOTIFY_SCS, DATA.to_vec());
    let ran = direct.run();
    assert_eq!(
        (ran.gas_used, ran.notices),
        (1000 + 8 * 68 + 2000, vec![from(account(0))])
    );
}

#[test]
fn the_teller_is_in_whose_name_the_calling_code_runs() {
    let answer = "6020 610400 f3";
    for opcode in ["f1", "f4"] {
        let ran = run(&hand_to(opcode, CALLEE), &format!("{TELL} {answer}"));
        let teller = if opcode == "f1" { CALLEE } else { PROGRAM };
        assert_eq!(
            (ran.notices, ran.slots[0]),
            (vec![from(teller)], U256::from(1)),
            "{opcode}"
        );
    }
    // The callee delegates to 0x0d itself: it cannot speak for its caller.
    let ran = run(&hand_to("f1", CALLEE), &format!("{} {answer}", tell_by("f4")));
    assert_eq!((ran.notices, ran.slots[0]), (vec![from(CALLEE)], U256::from(1)));
    let callcode = TELL.replace("f1", "f2");
    assert_eq!(run(&callcode, "00").notices, [from(PROGRAM)]);
    // A constructor tells in the name of what it makes.
    let mut create = Run::new("00", "00");
    (create.create, create.input) = (true, hex("6000 6000 6000 6000 6000 600d 5a f1"));
    let made = Transaction::created_address(&account(0), 0);
    let told = Notice {
        transaction_index: 0,
        caller: made,
        input: Bytes::new(),
    };
    assert_eq!(create.run().notices, [told]);
}

#[test]
fn static_calls_are_answered_and_leave_nothing() {
    let ran = run(&format!("{} 610400 51 6000 55", tell_by("fa")), "00");
    assert_eq!((ran.notices, ran.slots[0]), (vec![], U256::from(1)));
    // Plain calls within a static one, too.
    let ran = run(&hand_to("fa", CALLEE), &format!("{TELL} 6020 610400 f3"));
    assert_eq!((ran.notices, ran.slots[0]), (vec![], U256::from(1)));
}

#[test]
fn a_notice_goes_with_its_frame() {
    let ends = [
        ("revert", "6000 6000 fd"),
        ("invalid opcode", "fe"),
        ("out of gas", "5b 58 6001 90 03 56"),
        ("endless memory", "6001 630fffffff 52"),
    ];
    for refund in [false, true] {
        for (name, end) in ends {
            let callee = format!("{TELL} {end}");
            let check = |program: &str, expected: &[Notice]| {
                let mut run = Run::new(program, &callee);
                run.spec.failed_calls_refund_gas = refund;
                // A 64th must do for what comes after a call that burned the rest.
                (run.input, run.gas) = (DATA.to_vec(), 10_000_000);
                assert_eq!(run.run().notices, expected, "{name}, {refund}");
            };
            // Only the callee's goes; what comes before and after it stays.
            check(&hand_to("f1", CALLEE), &[]);
            check(&hand_to("f4", CALLEE), &[]);
            let around = format!("{TELL} {} {TELL}", hand_to("f1", CALLEE));
            check(&around, &[from(PROGRAM), from(PROGRAM)]);
            // The whole transaction's.
            check(&callee, &[]);
            check(&format!("{TELL} {TELL} {end}"), &[]);
        }
    }
    // A frame between that fails takes back what a good one below it told.
    let between = Address::repeat_byte(0xbb);
    let mut run = Run::new(&hand_to("f1", between), &format!("{TELL} 6020 610400 f3"));
    let code = format!("{} fe", hand_to("f1", CALLEE));
    run.spec.genesis.alloc.insert(between, contract(&code));
    run.input = DATA.to_vec();
    assert_eq!(run.run().notices, []);
    let code = hand_to("f1", CALLEE);
    run.spec.genesis.alloc.insert(between, contract(&code));
    assert_eq!(run.run().notices, [from(CALLEE)]);
    // A constructor that fails, and one whose code cannot be paid.
    for end in ["fe", "6000 6000 fd", "610100 6000 f3"] {
        let mut create = Run::new("00", "00");
        (create.create, create.gas) = (true, 100_000);
        create.input = hex(&format!("6000 6000 6000 6000 6000 600d 5a f1 {end}"));
        let ran = create.run();
        assert_eq!((ran.success, ran.notices), (false, vec![]), "{end}");
    }
}

#[test]
fn too_little_gas_and_too_much_input_leave_nothing() {
    let program = |gas: u64| format!("6000 6000 6000 6000 6000 600d 61{gas:04x} f1 6000 55");
    let told = |gas| {
        let ran = run(&program(gas), "00");
        (ran.notices.len(), ran.slots[0].to::<u64>())
    };
    assert_eq!((told(1999), told(2000)), ((0, 0), (1, 1)));
    let told = |length: usize| {
        let mut run = Run::new(&format!("{TELL} 610400 51 6000 55"), "00");
        run.input = vec![7; length];
        // The answer lies where the input does.
        let ran = run.run();
        assert!(ran.success);
        (
            ran.notices.iter().map(|notice| notice.input.len()).collect(),
            ran.slots[0],
        )
    };
    let most = NOTICE_BYTES_MAX;
    assert_eq!(told(most), (vec![most], U256::from(1)));
    assert_eq!(told(most + 1), (vec![], U256::from(1)));
}

/// A contract that tells its data, and logs them if their first byte is not zero.
fn teller() -> (Address, Transaction) {
    let code = hex(&format!("{TELL} 6000 51 60f8 1c 601f 57 00 5b 36 6000 a0"));
    let create = sign(0, &unsigned(0, None, 0, &deploys(&code)));
    (Transaction::created_address(&account(0), 0), create)
}

fn tell(from: usize, nonce: u64, to: Address, data: &[u8]) -> Transaction {
    sign(from, &unsigned(nonce, Some(to), 0, data))
}

fn notice(index: u32, caller: Address, input: &[u8]) -> Notice {
    Notice {
        transaction_index: index,
        caller,
        input: Bytes::copy_from_slice(input),
    }
}

fn id(block: &Block) -> BlockId {
    BlockId {
        number: block.header.number,
        hash: block.hash(),
    }
}

fn served(node: &Node, maker: &Maker, block: &Block) -> Option<Vec<Notice>> {
    let view = View::new(&node.store, maker.spec.clone()).expect("view");
    view.notices(&id(block)).expect("read")
}

#[test]
fn receipts_have_the_logs_and_blocks_the_notices() {
    let mut maker = Maker::new(ChainSpec::dev());
    let (to, create) = teller();
    let one = maker.block(
        maker.genesis,
        Plan::with(vec![
            create,
            tell(1, 0, to, &[0, 1]),
            tell(2, 0, to, &[1, 2]),
            tell(2, 1, NOTIFY_SCS, &[9]),
        ]),
    );
    let node = Node::new(&maker.spec);
    node.take(std::slice::from_ref(&one));
    let expected = vec![
        notice(1, to, &[0, 1]),
        notice(2, to, &[1, 2]),
        notice(3, account(2), &[9]),
    ];
    assert_eq!(served(&node, &maker, &one), Some(expected));
    let view = View::new(&node.store, maker.spec.clone()).expect("view");
    let receipts = view.receipts(&id(&one)).expect("read").expect("executed");
    let logs: Vec<_> = receipts.iter().map(|receipt| receipt.logs.len()).collect();
    assert_eq!(logs, [0, 0, 1, 0]);
    assert_eq!(receipts[2].logs[0].address, to);
    let bloom = primitives::logs_bloom(&receipts[2].logs);
    assert_eq!(one.header.logs_bloom, bloom, "the log's and nothing else");
    // What nobody has is served to nobody.
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
fn calls_and_estimates_leave_nothing() {
    let mut maker = Maker::new(ChainSpec::dev());
    let (to, create) = teller();
    let one = maker.block(maker.genesis, Plan::with(vec![create]));
    let node = Node::new(&maker.spec);
    node.take(std::slice::from_ref(&one));
    let before = node.rows();
    let view = View::new(&node.store, maker.spec.clone()).expect("view");
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
    assert_eq!(served(&node, &maker, &one), Some(vec![]));
    assert_eq!(
        node.store
            .snapshot()
            .expect("snapshot")
            .notice_rows()
            .expect("read"),
        0
    );
}

#[test]
fn the_canonical_branchs_notices_are_served() {
    let mut maker = Maker::new(ChainSpec::dev());
    let (to, create) = teller();
    let root = maker.block(maker.genesis, Plan::with(vec![create]));
    let branch = |maker: &mut Maker, mark: u8, count: u64| {
        let mut tip = root.hash();
        (0..count)
            .map(|nonce| {
                let mut plan = Plan::marked(mark);
                plan.transactions = vec![tell(1, nonce, to, &[mark, nonce as u8])];
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
        plan.transactions = vec![tell(1, nonce, to, &[1, nonce as u8])];
        let parent = more.last().expect("a block").hash();
        more.push(maker.block(parent, plan));
    }
    let node = Node::new(&maker.spec);
    node.take(std::slice::from_ref(&root));
    node.take(&a);
    let told = |mark: u8, nonce: usize| Some(vec![notice(0, to, &[mark, nonce as u8])]);
    let check = |good: &[Block], good_mark, bad: &[Block]| {
        for (nonce, block) in good.iter().enumerate() {
            assert_eq!(served(&node, &maker, block), told(good_mark, nonce));
        }
        for block in bad {
            assert_eq!(served(&node, &maker, block), None);
        }
        let mut faults = Vec::new();
        check_store(
            &node.store,
            &maker.spec,
            true,
            &AtomicBool::new(false),
            &mut |event| {
                if let CheckEvent::Fault(fault) = event {
                    faults.push(fault.to_string());
                }
            },
        )
        .expect("checked");
        assert_eq!(faults, [""; 0]);
    };
    check(&a, 1, &b);
    // Lighter blocks are executed beside the chain and leave none.
    node.take(&b[..2]);
    check(&a, 1, &b);
    assert!(matches!(
        node.import(&b[2]).expect("heavier"),
        Imported::Head { .. }
    ));
    check(&b, 2, &a);
    node.take(&more[2..]);
    check(&more, 1, &b);
    assert_eq!(
        node.store
            .snapshot()
            .expect("snapshot")
            .notice_rows()
            .expect("read"),
        4
    );
    // The same blocks from a stream leave the same.
    let stream = Node::new(&maker.spec);
    let bytes: Vec<u8> = std::iter::once(&root)
        .chain(&more)
        .flat_map(Block::encode)
        .collect();
    let input = Box::new(std::io::Cursor::new(bytes));
    import_stream(&stream.importer, input, &AtomicBool::new(false), |_| ()).expect("imported");
    let single = Node::new(&maker.spec);
    single.take(std::slice::from_ref(&root));
    single.take(&more);
    assert!(stream.rows() == single.rows());
    for (nonce, block) in more.iter().enumerate() {
        assert_eq!(served(&stream, &maker, block), told(1, nonce));
    }
}

#[test]
fn a_chain_may_name_when_answers_begin() {
    let mut spec = ChainSpec::dev();
    forks(&mut spec).nuwa = Some(2);
    let mut maker = Maker::new(spec);
    // RETURNDATASIZE to the slot that the block's number names.
    let code = hex(&format!("{TELL} 3d 43 55"));
    let to = Transaction::created_address(&account(0), 0);
    let create = sign(0, &unsigned(0, None, 0, &deploys(&code)));
    let one = maker.block(maker.genesis, Plan::with(vec![create, tell(1, 0, to, DATA)]));
    let two = maker.block(one.hash(), Plan::with(vec![tell(1, 1, to, DATA)]));
    let node = Node::new(&maker.spec);
    node.take(&[one.clone(), two.clone()]);
    let view = View::new(&node.store, maker.spec.clone()).expect("view");
    let slot = |number: u64| view.slot(&to, &U256::from(number), 2).expect("slot");
    assert_eq!((slot(1), slot(2)), (U256::ZERO, U256::from(32)));
    // Told is told, answered or not.
    assert_eq!(served(&node, &maker, &one), Some(vec![notice(1, to, DATA)]));
    assert_eq!(served(&node, &maker, &two), Some(vec![notice(0, to, DATA)]));
}
