//! Precompiled contracts: gas and output, before and after their fork, by every kind of call.

use chain::spec::Rule;
use primitives::{Address, SYSTEM_CONTRACT, SecretKey, U256, keccak256};

use crate::common::{begin, hex};
use crate::run::{PROGRAM, Run, contract, rich};

/// Calls a precompiled contract by STATICCALL in block `number`. Returns the contract's gas and the
/// first word of its output.
fn precompile(number: u64, low: u8, input: &[u8]) -> (u64, U256) {
    let run = |low: u8| {
        // Copies the input to memory, calls with output at 0x400, and logs the output.
        let program = format!("36 6000 6000 37 6020 610400 36 6000 60{low:02x} 5a fa 50 6020 610400 a0");
        let mut run = Run::new(&program, "00");
        begin(&mut run.spec, &[Rule::MoacCurves], Some(7));
        (run.number, run.input) = (number, input.to_vec());
        let ran = run.run();
        assert!(ran.success);
        (ran.gas_used, U256::from_be_slice(&ran.logs[0].data))
    };
    // The same call of an address without code costs everything except the contract's gas.
    (run(low).0 - run(0x99).0, run(low).1)
}

#[test]
fn contracts_1_to_4_exist_from_block_0_on() {
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
fn contracts_5_to_8_exist_from_their_fork_on() {
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
    for (low, input, gas, output) in cases {
        assert_eq!(
            precompile(6, low, &input),
            (0, U256::ZERO),
            "{low} before the fork"
        );
        assert_eq!(precompile(7, low, &input), (gas, output), "{low}");
    }
}

/// Calls a precompiled contract by this kind of call. Returns the contract's gas, the word of
/// memory for the output, which was all ones before the call, and the size of the return data.
fn call(low: u8, opcode: &str, input: &[u8]) -> (u64, U256, u64) {
    let value = if ["f1", "f2"].contains(&opcode) {
        "6000"
    } else {
        ""
    };
    let run = |low: u8| {
        let program = format!(
            "36 6000 6000 37 6000 19 610400 52 6020 610400 36 6000 {value} 60{low:02x} 5a {opcode} 50
             6020 610400 a0 3d 6000 52 6020 6000 a0"
        );
        let mut run = Run::new(&program, "00");
        run.input = input.to_vec();
        (run.gas, run.number) = (20_000_000, 7);
        let ran = run.run();
        assert!(ran.success);
        let word = |index: usize| U256::from_be_slice(&ran.logs[index].data);
        (ran.gas_used, word(0), word(1).to::<u64>())
    };
    let (gas, memory, size) = run(low);
    (gas - run(0x99).0, memory, size)
}

/// CALL, CALLCODE, DELEGATECALL, STATICCALL.
const CALL_OPCODES: [&str; 4] = ["f1", "f2", "f4", "fa"];

#[test]
fn contracts_for_shards_return_zero() {
    let zero = (100_000, U256::ZERO, 32);
    for opcode in CALL_OPCODES {
        assert_eq!(call(0x09, opcode, &[1; 132]), zero, "{opcode}");
        assert_eq!(call(0x0a, opcode, &[1; 100]), zero, "{opcode}");
        assert_eq!(call(0x0b, opcode, &[1; 132]), zero, "{opcode}");
        assert_eq!(call(0x0b, opcode, &[1; 500]), zero, "{opcode}");
    }
    for (low, length) in [(0x09, 131), (0x09, 133), (0x0a, 99), (0x0a, 101), (0x0b, 131)] {
        // The output is return data, but is not copied to memory. A plain call gets back what the
        // contract did not charge; other calls burn 63/64 of the remaining gas.
        let input = vec![0; length];
        assert_eq!(
            call(low, "f1", &input),
            (100_000, U256::MAX, 32),
            "{low:#x} with {length} bytes"
        );
        let (gas, memory, size) = call(low, "fa", &input);
        assert!(gas > 19_000_000, "{low:#x} with {length} bytes: got {gas} gas");
        assert_eq!((memory, size), (U256::MAX, 32), "{low:#x} with {length} bytes");
    }
}

#[test]
fn spend_gas_charges_by_its_number() {
    let input = |number: u64| [&[0xab; 4][..], &U256::from(number).to_be_bytes::<32>()].concat();
    for opcode in CALL_OPCODES {
        assert_eq!(call(0x0e, opcode, &input(10)), (1000, U256::ZERO, 32), "{opcode}");
        assert_eq!(
            call(0x0e, opcode, &input(16)),
            (17_000, U256::ZERO, 32),
            "{opcode}"
        );
        assert_eq!(call(0x0e, opcode, &[]), (8_000_000, U256::ZERO, 32), "{opcode}");
    }
    assert_eq!(call(0x0e, "f1", &input(60)).0, 10_121_000);
    // A number whose gas is above the gas limit.
    assert_eq!(call(0x0e, "f1", &input(200)), (0, U256::MAX, 0));
    let (gas, memory, size) = call(0x0e, "fa", &input(200));
    assert!(gas > 19_000_000, "got {gas} gas");
    assert_eq!((memory, size), (U256::MAX, 0));
}

#[test]
fn contracts_0x0d_and_0x0e_return_words_from_nuwa_on() {
    for (low, output) in [(0x0d, U256::from(1)), (0x0e, U256::ZERO)] {
        let at = |nuwa, number| {
            let program =
                format!("3660006000376000196000526020600036600060{low:02x}5afa503d600155600051600255");
            let mut run = Run::new(&program, "00");
            run.input = vec![0; 36];
            run.number = number;
            begin(&mut run.spec, &[Rule::NoticeWord], nuwa);
            let ran = run.run();
            assert!(ran.success);
            (ran.slots[1], ran.slots[2])
        };
        let (nothing, word) = ((U256::ZERO, U256::MAX), (U256::from(32), output));
        assert_eq!((at(Some(5), 4), at(Some(5), 5)), (nothing, word), "{low:#x}");
        assert_eq!((at(Some(0), 1), at(None, 1)), (word, nothing), "{low:#x}");
    }
}

#[test]
fn a_plain_call_of_0x0c_runs_nothing_and_other_calls_return_zero() {
    assert_eq!(call(0x0c, "f1", &[1; 100]), (0, U256::MAX, 0));
    for opcode in ["f2", "f4", "fa"] {
        assert_eq!(
            call(0x0c, opcode, &[1; 100]),
            (100_000, U256::ZERO, 32),
            "{opcode}"
        );
    }
}

const PAYER: Address = Address::repeat_byte(0xa1);
const PAID: Address = Address::repeat_byte(0xa2);
const DELEGATE_SEND: Address = Address::with_last_byte(0x0c);

/// A call of BLS12-381's G1 addition with two points at infinity.
const INFINITIES: [u8; 256] = [0; 256];

#[test]
fn bls_contracts_run_for_all_calls_but_the_plain_one() {
    assert_eq!(
        call(60, "f1", &INFINITIES),
        (0, U256::MAX, 0),
        "a plain call runs nothing"
    );
    for opcode in ["f2", "f4", "fa"] {
        assert_eq!(call(60, opcode, &INFINITIES), (600, U256::ZERO, 128), "{opcode}");
        // A rejected input burns the gas of the call.
        let (gas, memory, size) = call(60, opcode, &INFINITIES[1..]);
        assert!(gas > 19_000_000, "{opcode}: got {gas} gas");
        assert_eq!((memory, size), (U256::MAX, 0), "{opcode}");
    }
    for low in [59, 69] {
        assert_eq!(call(low, "fa", &INFINITIES), (0, U256::MAX, 0), "{low}");
    }
    // The contracts exist from their fork on, and their code size is 0.
    assert_eq!(precompile(6, 60, &INFINITIES), (0, U256::ZERO));
    assert_eq!(precompile(7, 66, &[0; 384]), (115_000 + 23_000, U256::from(1)));
    let size = Run::new("603c 3b 6000 55", "00").run();
    assert_eq!(size.slots[0], U256::ZERO);
}

#[test]
fn a_rejected_pairing_is_charged_by_a_plain_call() {
    // The gas for one pair is charged; the points are not on their curves.
    assert_eq!(call(8, "f1", &[1; 192]), (79_000, U256::MAX, 0));
    assert_eq!(call(8, "f1", &[1; 191]), (45_000, U256::MAX, 0));
    let (gas, memory, size) = call(8, "fa", &[1; 192]);
    assert!(gas > 19_000_000, "got {gas} gas");
    assert_eq!((memory, size), (U256::MAX, 0));
}

/// Calls 0x0c with `input` and `value`, from the system contract or from another contract. Returns
/// whether the call succeeded, and the balances of the caller, [`PAYER`], [`PAID`] and 0x0c.
fn send(from_system: bool, input: Vec<u8>, value: u8) -> (bool, [u64; 4]) {
    let caller = if from_system {
        SYSTEM_CONTRACT
    } else {
        Address::repeat_byte(0xcc)
    };
    let sender = format!("36 6000 6000 37 6020 610400 36 6000 60{value:02x} 600c 5a f1 6000 52 6020 6000 f3");
    let program = format!(
        "36 6000 6000 37 6020 6000 36 6000 6000 73{} 5a f1 50 6000 51 6000 55",
        primitives::hex::encode(caller)
    );
    let mut run = Run::new(&program, "00");
    let mut account = contract(&sender);
    account.balance = U256::from(1000);
    run.spec.genesis.alloc.insert(caller, account);
    run.spec.genesis.alloc.insert(PAYER, rich(500));
    run.input = input;
    run.watched = vec![caller, PAYER, PAID, DELEGATE_SEND];
    let ran = run.run();
    assert!(ran.success);
    let balances: Vec<u64> = ran.balances.iter().map(|balance| balance.to()).collect();
    (ran.slots[0] == U256::from(1), balances.try_into().expect("four"))
}

fn send_input(value: U256) -> Vec<u8> {
    let words = [PAYER.into_word(), PAID.into_word(), value.into()];
    [&[0; 4][..], words.concat().as_slice()].concat()
}

#[test]
fn the_system_contract_transfers_between_other_accounts() {
    let input = |value: u64| send_input(U256::from(value));
    assert_eq!(send(true, input(120), 0), (true, [1000, 380, 120, 0]));
    // The value of the call itself is not transferred.
    assert_eq!(send(true, input(120), 7), (true, [1000, 380, 120, 0]));
    assert_eq!(send(true, input(500), 0), (true, [1000, 0, 500, 0]));
    assert_eq!(send(true, input(501), 0), (false, [1000, 500, 0, 0]));
    assert_eq!(send(true, send_input(U256::MAX), 0), (false, [1000, 500, 0, 0]));
    let two_words = [send_input(U256::ZERO), U256::from(1).to_be_bytes_vec()].concat();
    assert_eq!(send(true, two_words, 0), (true, [1000, 499, 1, 0]));
    // With a shorter input, the call is an ordinary transfer to 0x0c.
    assert_eq!(send(true, input(120)[..99].to_vec(), 7), (true, [993, 500, 0, 7]));
    // So is a call by another contract.
    assert_eq!(send(false, input(120), 0), (true, [1000, 500, 0, 0]));
    assert_eq!(send(false, input(120), 7), (true, [993, 500, 0, 7]));
}

#[test]
fn a_revert_undoes_the_transfer() {
    let sender = "36 6000 6000 37 6000 6000 36 6000 6000 600c 5a f1 50 6000 6000 fd";
    let program = "36 6000 6000 37 6000 6000 36 6000 6000 6065 5a f1 6000 55";
    let mut run = Run::new(program, "00");
    run.spec.genesis.alloc.insert(SYSTEM_CONTRACT, contract(sender));
    run.spec.genesis.alloc.insert(PAYER, rich(500));
    run.input = send_input(U256::from(9));
    run.watched = vec![PAYER, PAID, PROGRAM];
    let ran = run.run();
    assert!(ran.success);
    assert_eq!(ran.balances, [500, 0, 5].map(U256::from));
}

#[test]
fn ethereums_family_has_none_of_the_networks_own_contracts() {
    let text = r#"{"config": {"chainId": 100, "homesteadBlock": 0, "eip150Block": 0, "eip155Block": 0,
        "eip158Block": 0, "byzantiumBlock": 0}, "difficulty": 1, "gasLimit": 9000000}"#;
    let ethereum = chain::ChainSpec::from_genesis_file("x", text)
        .expect("a file")
        .spec;
    for low in [0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e] {
        // The size of the return data of a STATICCALL.
        let mut run = Run::new(
            &format!("6000 6000 6084 6000 60{low:02x} 5a fa 50 3d 6000 55"),
            "00",
        );
        run.gas = 10_000_000;
        run.input = vec![0; 4];
        let public_network = run.run();
        run.spec.family = ethereum.family;
        run.spec.rules = ethereum.rules.clone();
        let ethereum_family = run.run();
        assert!(public_network.success && ethereum_family.success);
        assert_eq!(ethereum_family.slots[0], U256::ZERO, "{low:#x}");
        assert_eq!(ethereum_family.notices, []);
        assert_eq!(public_network.slots[0], U256::from(32), "{low:#x}");
    }
}
