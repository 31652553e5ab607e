//! Gas to the unit: small programs against the public network's table, opcodes and precompiles.
//!
//! Expected numbers are written out from the table, not computed by the code under test.

use crate::common::{account, coins, forks, hex, key, sign, unsigned};
use chain::ChainSpec;
use chain::execute::Executor;
use chain::genesis::{ensure_genesis, genesis_header};
use chain::spec::GenesisAccount;
use chain::state::BlockState;
use primitives::{Address, Header, Log, SecretKey, U256, keccak256};
use revm::Database;
use store::Store;

/// Where the program under test lies.
const PROGRAM: Address = Address::repeat_byte(0xc0);
/// A second program, called by the first.
const CALLEE: Address = Address::repeat_byte(0xca);
/// Exists, has no code.
const EXISTING: Address = Address::repeat_byte(0xee);
/// Does not exist.
const MISSING: Address = Address::repeat_byte(0xdd);

/// One transaction to a program, or one that makes a contract.
struct Run {
    spec: ChainSpec,
    number: u64,
    create: bool,
    input: Vec<u8>,
    gas: u64,
}

struct Ran {
    gas_used: u64,
    success: bool,
    slots: [U256; 3],
    callee_slot: U256,
    logs: Vec<Log>,
    created_code_bytes: Option<usize>,
}

impl Run {
    /// `program` has balance 5 and slot 1 set to 1; `callee` has nothing.
    fn new(program: &str, callee: &str) -> Self {
        let mut spec = ChainSpec::dev();
        let contract = |code: &str| GenesisAccount {
            code: hex(code).into(),
            tx_nonce: 1,
            ..Default::default()
        };
        let mut first = contract(program);
        first.balance = U256::from(5);
        first.storage.insert(U256::from(1), U256::from(1));
        let alloc = &mut spec.genesis.alloc;
        alloc.insert(PROGRAM, first);
        alloc.insert(CALLEE, contract(callee));
        alloc.insert(EXISTING, rich(1));
        Self {
            spec,
            number: 1,
            create: false,
            input: Vec::new(),
            gas: 1_000_000,
        }
    }

    fn run(&self) -> Ran {
        let store = Store::in_memory().expect("store");
        ensure_genesis(&store, &self.spec).expect("genesis");
        let view = store.snapshot().expect("snapshot");
        let header = Header {
            number: self.number,
            gas_limit: 100_000_000,
            beneficiary: Address::repeat_byte(0xbe),
            difficulty: U256::from(512),
            timestamp: 10,
            ..Default::default()
        };
        let root = genesis_header(&self.spec).expect("genesis").state_root;
        let mut state = BlockState::new(&view, 0, root);
        let mut executor = Executor::new(&self.spec, &header, &mut state);
        let mut plain = unsigned(0, (!self.create).then_some(PROGRAM), 0, &self.input);
        plain.gas = self.gas;
        let outcome = executor
            .transaction(&sign(0, &plain), account(0))
            .expect("a valid transaction");
        let executed = executor.finish(&[]).expect("finish");
        let mut slot = |address, slot| state.storage(address, U256::from(slot)).expect("slot");
        let slots = [slot(PROGRAM, 0), slot(PROGRAM, 1), slot(PROGRAM, 2)];
        let callee_slot = slot(CALLEE, 0);
        let created = primitives::Transaction::created_address(&account(0), 0);
        let info = state.basic(created).expect("account");
        let code_hash = info.map(|info| info.code_hash);
        let code = code_hash.map(|hash| state.code_by_hash(hash).expect("code"));
        Ran {
            gas_used: outcome.gas_used,
            success: outcome.success,
            slots,
            callee_slot,
            logs: executed.receipts[0].logs.clone(),
            created_code_bytes: code.map(|code| code.original_byte_slice().len()),
        }
    }
}

fn rich(balance: u64) -> GenesisAccount {
    GenesisAccount {
        balance: U256::from(balance),
        ..Default::default()
    }
}

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
    // Name, program, gas of the whole transaction: 1000 and the program's own.
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
        ("extcodehash", "30 3f", 1000 + 2 + 400),
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
        ("0 to 1", "6001 6000 55", 1000 + 6 + 20_000),
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
    // Destroying: 5000, 25,000 more where a balance makes an account, up to 24,000 back.
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
        "nothing to send, no new account"
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
    let keep = |program: String| format!("{program} 6000 55");
    // The failing callee writes first; neither its write nor its gas comes back.
    let ran = check(
        "invalid inside",
        &keep(call("00", CALLEE, "617530")),
        "6001 6000 55 fe",
        1000 + 721 + 30_000 + 5003,
    );
    assert_eq!((ran.slots[0], ran.callee_slot), (U256::ZERO, U256::ZERO));
    let ran = check(
        "revert inside",
        &keep(call("00", CALLEE, "617530")),
        "6001 6000 55 6000 6000 fd",
        1000 + 721 + 20_012 + 5003,
    );
    assert_eq!((ran.slots[0], ran.callee_slot), (U256::ZERO, U256::ZERO));
    let ran = check(
        "success inside",
        &keep(call("00", CALLEE, "617530")),
        "6001 6000 55",
        1000 + 721 + 20_006 + 20_003,
    );
    assert_eq!((ran.slots[0], ran.callee_slot), (U256::from(1), U256::from(1)));
    let callee = CALLEE.to_string();
    let callee = callee.trim_start_matches("0x");
    let still = format!("6000 6000 6000 6000 73{callee} 617530 fa 6000 55");
    let ran = check(
        "no writing in a static call",
        &still,
        "6001 6000 55",
        1000 + 18 + 700 + 30_000 + 5003,
    );
    assert_eq!((ran.slots[0], ran.callee_slot), (U256::ZERO, U256::ZERO));
    let delegated = format!("6000 6000 6000 6000 73{callee} 5a f4 6002 55");
    let ran = check(
        "a delegate writes here",
        &delegated,
        "6007 6000 55",
        1000 + 17 + 700 + 20_006 + 20_003,
    );
    assert_eq!(
        (ran.slots[0], ran.slots[2], ran.callee_slot),
        (U256::from(7), U256::from(1), U256::ZERO)
    );
}

#[test]
fn create2_memory_stays_and_is_paid_from_the_last_payment_on() {
    let create2 = "6000 6040 6000 6000 f5 50";
    // MSTORE at 0 lies in memory that is there; MSIZE to slot 0.
    let ran = check(
        "inside",
        &format!("{create2} 6001 6000 52 59 6000 55"),
        "00",
        1000 + 12 + 32_000 + 2 + 9 + 2 + 3 + 20_000,
    );
    assert_eq!(ran.slots[0], U256::from(64));
    // MSTORE at 64 makes a third word, and none was paid before.
    let ran = check(
        "beyond",
        &format!("{create2} 6001 6040 52 59 6000 55"),
        "00",
        1000 + 12 + 32_000 + 2 + 9 + 9 + 2 + 3 + 20_000,
    );
    assert_eq!(ran.slots[0], U256::from(96));
    // A length that no machine has is an error of the program.
    let huge = Run::new(
        "6000 7f ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff 6000 6000 f5",
        "00",
    )
    .run();
    assert_eq!((huge.success, huge.gas_used), (false, 1_000_000));
}

#[test]
fn data_and_creation_have_their_price() {
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
    // Too little for the deposit: nothing is made, all gas is gone.
    let short = create("600a 6000 f3", intrinsic + 6 + 3 + 1999);
    assert_eq!(
        (short.success, short.gas_used, short.created_code_bytes),
        (false, intrinsic + 2008, None)
    );
}

#[test]
fn code_may_have_204_800_bytes_and_no_more() {
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
fn fuxi_brings_opcodes_and_others_stay_invalid() {
    let at = |opcode: &str, number: u64| {
        let mut run = Run::new(&format!("6000 6000 6000 6000 {opcode}"), "00");
        forks(&mut run.spec).fuxi = Some(5);
        run.number = number;
        let ran = run.run();
        assert!(
            ran.success || ran.gas_used == 1_000_000,
            "{opcode}: an invalid opcode takes all gas"
        );
        ran.success
    };
    for opcode in ["1b", "1c", "1d", "3f", "46", "47", "f5"] {
        assert_eq!((at(opcode, 4), at(opcode, 5)), (false, true), "{opcode}");
    }
    for opcode in ["1e", "48", "49", "4a", "5c", "5d", "5e", "5f", "fe", "ef"] {
        assert_eq!((at(opcode, 4), at(opcode, 5)), (false, false), "{opcode}");
    }
    for opcode in ["3d", "fa", "fd"] {
        let mut run = Run::new(&format!("6000 6000 6000 6000 6000 6000 {opcode}"), "00");
        forks(&mut run.spec).fuxi = None;
        assert!(run.run().gas_used < 1_000_000, "{opcode} is Byzantium's");
    }
}

#[test]
fn chainid_and_selfbalance_give_the_chain_and_the_balance() {
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
            (U256::from(1), U256::ZERO),
            "{low}"
        );
    }
    assert_eq!((size("00", true), size("11", true)), (U256::ZERO, U256::ZERO));
    // Only the low 20 bytes are an address.
    let high = format!("{}{}", "ff".repeat(12), "00".repeat(19) + "04");
    assert_eq!(size(&high, true), U256::from(1));
}

/// Calls a precompile with `input`; its gas, and the first word of its answer.
fn precompile(number: u64, low: u8, input: &[u8]) -> (u64, U256) {
    let run = |low: u8| {
        // Input to memory, STATICCALL with its answer to 0x400, a log of the answer.
        let program = format!("36 6000 6000 37 6020 610400 36 6000 60{low:02x} 5a fa 50 6020 610400 a0");
        let mut run = Run::new(&program, "00");
        forks(&mut run.spec).precompiles = Some(7);
        (run.number, run.input) = (number, input.to_vec());
        let ran = run.run();
        assert!(ran.success);
        (ran.gas_used, U256::from_be_slice(&ran.logs[0].data))
    };
    // The same call of an address without code costs all but the precompile.
    (run(low).0 - run(0x99).0, run(low).1)
}

#[test]
fn precompiles_1_to_4_are_always_there() {
    let digest = keccak256(b"precompile");
    let key = SecretKey::from_bytes(&[7; 32]).expect("a key");
    let signature = key.sign(&digest);
    let mut signed = digest.to_vec();
    signed.extend(U256::from(27 + u64::from(signature.recovery_id)).to_be_bytes::<32>());
    signed.extend(signature.r.to_be_bytes::<32>());
    signed.extend(signature.s.to_be_bytes::<32>());
    let signer = U256::from_be_slice(key.address().as_slice());
    let sha = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    let ripemd = "8eb208f7e05d987a9b044a8e98c6b087f15a0bfc";
    let word = |text: &str| U256::from_be_slice(&hex(text));
    for number in [1, 7] {
        assert_eq!(precompile(number, 1, &signed), (3000, signer));
        assert_eq!(precompile(number, 2, b"abc"), (72, word(sha)));
        assert_eq!(precompile(number, 3, b"abc"), (720, word(ripemd)));
        assert_eq!(
            precompile(number, 4, &[9; 33]),
            (21, U256::from_be_slice(&[9; 32]))
        );
    }
}

#[test]
fn precompiles_5_to_8_come_with_their_fork() {
    let prime = "7fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffed";
    let word = |value: u64| U256::from(value).to_be_bytes::<32>().to_vec();
    // 3^(p-1) mod p = 1 for the prime p.
    let mut modexp = [word(32), word(32), word(32), word(3)].concat();
    modexp.extend(hex(&prime.replace("ffed", "ffec")));
    modexp.extend(hex(prime));
    let point = [word(1), word(2)].concat();
    let doubled = U256::from_be_slice(&hex(
        "030644e72e131a029b85045b68181585d97816a916871ca8d3c208c16d87cfd3",
    ));
    let cases = [
        (5, modexp, 1024 * 254 / 20, U256::from(1)),
        (6, [point.clone(), point.clone()].concat(), 150, doubled),
        (7, [point, word(2)].concat(), 6000, doubled),
        (8, Vec::new(), 45_000, U256::from(1)),
        (8, vec![0; 192], 45_000 + 34_000, U256::from(1)),
    ];
    for (low, input, gas, answer) in cases {
        assert_eq!(
            precompile(6, low, &input),
            (0, U256::ZERO),
            "{low} before the fork"
        );
        assert_eq!(precompile(7, low, &input), (gas, answer), "{low}");
    }
}

#[test]
fn the_test_accounts_are_rich_enough() {
    let spec = ChainSpec::dev();
    assert_eq!(spec.genesis.alloc[&account(0)].balance, coins(1_000_000));
    assert_eq!(key(0).address(), account(0));
}
