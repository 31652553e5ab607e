//! Makes a case from a seed. The same seed gives the same case in every version of this program, as
//! long as nothing here changes.

mod code;
mod contracts;
mod values;

pub use values::AddressPool;

use std::collections::BTreeMap;

use primitives::{AccessListEntry, Address, B256, U256, keccak256};

use crate::case::{
    Case, CaseAccount, CaseBlock, CaseInput, CaseTransaction, SENDERS, SignatureKind, sender_key,
};
use crate::program::{Part, Program};
use crate::random::SeededRandom;
use crate::rules::{ForkFeature, ForkRules};
use code::{CodeContext, CodeWriter};

/// The most contracts of a case.
pub const CONTRACTS_MAX: u64 = 5;
/// The gas limit of most cases.
const GAS_LIMIT: u64 = 30_000_000;
/// The gas limit of cases with deep recursion. 1024 frames need much gas, of which they use little.
const GAS_LIMIT_DEEP: u64 = 4_000_000_000_000;
/// Gas of a transaction that calls a contract with deep recursion.
const GAS_DEEP: u64 = 1_000_000_000_000;
/// The most gas of other transactions.
const GAS_MAX: u64 = 2_000_000;

/// Makes the case of `seed`.
pub fn case(seed: u64, rules: &'static ForkRules) -> Case {
    let random = SeededRandom::new(seed, rules.name);
    let contracts: Vec<Address> = (0..random.between(2, CONTRACTS_MAX))
        .map(|index| account_address("contract", index))
        .collect();
    let addresses = pool(contracts);
    let context = CodeContext {
        rules,
        addresses: &addresses,
    };
    let deep = random.percent(2);
    let mut accounts = Vec::new();
    for (index, address) in addresses.contracts.iter().enumerate() {
        let code = if deep && index == 0 {
            recursion(&random, context)
        } else {
            contract_code(&random, context)
        };
        accounts.push(contract(&random, *address, code));
    }
    accounts.extend(plain_accounts(&random, &addresses));
    accounts.extend(occupied_account(&random, &addresses));
    let blocks = (0..if rules.base_fee { 1 } else { random.between(1, 3) })
        .map(|index| block(&random, context, index, deep))
        .collect();
    let mut case = Case {
        seed,
        rules,
        gas_limit: if deep { GAS_LIMIT_DEEP } else { GAS_LIMIT },
        base_fee: 0,
        accounts,
        blocks,
    };
    if rules.base_fee {
        add_base_fee(&random, &mut case);
    }
    let mut accounts = std::mem::take(&mut case.accounts);
    accounts.retain(|account| case.is_specified(account));
    Case { accounts, ..case }
}

/// Gives the blocks a base fee, which most transactions pay.
fn add_base_fee(random: &SeededRandom, case: &mut Case) {
    case.base_fee = random.pick(&[0, 1, 7, 1_000_000_000]);
    for transaction in case.blocks.iter_mut().flat_map(|block| &mut block.transactions) {
        if random.percent(85) {
            let price = transaction.gas_price;
            transaction.gas_price = price.saturating_add(U256::from(case.base_fee));
        }
    }
}

/// Contracts for addresses that are known before, and calls of them.
pub fn contracts_and_calls(
    random: &SeededRandom,
    rules: &'static ForkRules,
    addresses: &AddressPool,
    calls: u64,
) -> (Vec<CaseAccount>, Vec<CaseTransaction>) {
    let context = CodeContext { rules, addresses };
    let contracts = addresses.contracts.iter().map(|address| {
        let code = contract_code(random, context);
        contract(random, *address, code)
    });
    let contracts = contracts.collect();
    let calls = (0..calls)
        .map(|_| {
            let mut call = transaction(random, context, false);
            (call.sender, call.nonce_offset) = (0, 0);
            call
        })
        .collect();
    (contracts, calls)
}

/// Code of a creation that leaves `runtime` as the code of the account.
pub fn deployment(random: &SeededRandom, rules: &'static ForkRules, runtime: Program) -> Program {
    let addresses = AddressPool::default();
    let context = CodeContext {
        rules,
        addresses: &addresses,
    };
    code::creation(random, context, Some(runtime))
}

fn account_address(kind: &str, index: u64) -> Address {
    Address::from_word(keccak256(format!("differential {kind} {index}")))
}

fn pool(contracts: Vec<Address>) -> AddressPool {
    AddressPool {
        contracts,
        senders: (0..SENDERS).map(|index| sender_key(index).address()).collect(),
        others: other_addresses(),
    }
}

/// Accounts that are empty, accounts that do not exist, and beneficiaries.
pub fn other_addresses() -> Vec<Address> {
    (0..4).map(|index| account_address("other", index)).collect()
}

fn recursion(random: &SeededRandom, context: CodeContext<'_>) -> Program {
    let mut writer = CodeWriter::new(random, context, 0);
    writer.recursion();
    writer.finish()
}

fn contract_code(random: &SeededRandom, context: CodeContext<'_>) -> Program {
    match random.weighted(&[80, 12, 3, 5]) {
        0 => {
            let snippets = random.between(5, 26);
            code::program(random, context, snippets)
        }
        // Mostly instructions that end the frame, so that callers see each end.
        1 => code::program(random, context, 1),
        2 => {
            let length = random.below(60);
            Program(vec![Part::Raw(random.bytes(length))])
        }
        _ => Program::default(),
    }
}

fn contract(random: &SeededRandom, address: Address, code: Program) -> CaseAccount {
    let storage: BTreeMap<U256, U256> = (0..random.below(5))
        .map(|slot| (U256::from(slot), values::slot_value(random)))
        .filter(|(_, value)| !value.is_zero())
        .collect();
    CaseAccount {
        address,
        balance: U256::from(random.pick(&[0, 1, 100, 1_000_000])),
        nonce: random.pick(&[1, 1, 1, 0, 5]),
        code,
        storage,
    }
}

/// The senders, an account with a balance, and an account that is empty.
fn plain_accounts(random: &SeededRandom, addresses: &AddressPool) -> Vec<CaseAccount> {
    let ether = U256::from(10u64).pow(U256::from(18));
    let plain = |address: Address, balance: U256, nonce: u64| CaseAccount {
        address,
        balance,
        nonce,
        code: Program::default(),
        storage: BTreeMap::new(),
    };
    let rich = U256::from(1_000_000) * ether;
    let poor = U256::from(random.pick(&[0u64, 21_000, 1_000_000, 60_000_000_000_000]));
    let [first, second, third] = [0, 1, 2].map(|index: usize| addresses.senders[index]);
    vec![
        plain(first, rich, 0),
        plain(second, rich, random.pick(&[0, 1, 127, 128, 255, 256])),
        plain(third, poor, 0),
        plain(addresses.others[0], U256::from(1), 0),
        plain(addresses.others[1], U256::ZERO, 0),
    ]
}

/// Sometimes an account where a creation will want to be. Accounts with storage only are left out:
/// rules before EIP-7610 do not say what happens there, and no chain has such a creation.
fn occupied_account(random: &SeededRandom, addresses: &AddressPool) -> Option<CaseAccount> {
    let address = match random.weighted(&[60, 20, 20]) {
        0 => return None,
        1 => addresses.senders[0].create(random.below(4)),
        _ => random.pick(&addresses.contracts).create(random.between(0, 2)),
    };
    let (balance, nonce, code) = match random.below(3) {
        0 => (5, 0, Program::default()),
        1 => (0, 1, Program::default()),
        _ => (0, 0, Program(vec![Part::Op(0)])),
    };
    Some(CaseAccount {
        address,
        balance: U256::from(balance),
        nonce,
        code,
        storage: BTreeMap::new(),
    })
}

fn block(random: &SeededRandom, context: CodeContext<'_>, index: u64, deep: bool) -> CaseBlock {
    let addresses = context.addresses;
    let beneficiary = match random.weighted(&[60, 20, 20]) {
        0 => addresses.others[3],
        1 => addresses.others[2],
        _ => addresses.any(random),
    };
    let uncle = (index > 0 && random.percent(15)).then(|| addresses.any(random));
    CaseBlock {
        beneficiary,
        seconds: random.pick(&[1, 5, 9, 10, 13, 20, 100]),
        extra: if random.percent(20) {
            random.bytes(32)
        } else {
            Vec::new()
        },
        uncle,
        transactions: (0..random.between(1, 5))
            // Deep recursion takes the other executor a second, so it is done once for a case.
            .map(|place| transaction(random, context, deep && (index, place) == (0, 0)))
            .collect(),
    }
}

fn transaction(random: &SeededRandom, context: CodeContext<'_>, deep: bool) -> CaseTransaction {
    let addresses = context.addresses;
    let (to, input) = if deep {
        (Some(addresses.contracts[0]), CaseInput::Bytes(Vec::new()))
    } else {
        match random.weighted(&[72, 14, 14]) {
            0 => (Some(random.pick(&addresses.contracts)), call_data(random)),
            1 => (None, CaseInput::Code(code::creation(random, context, None))),
            _ => (Some(addresses.any(random)), call_data(random)),
        }
    };
    CaseTransaction {
        // Only the first two senders can pay for much gas.
        sender: random.weighted(&[55, 37, if deep { 0 } else { 8 }]),
        nonce_offset: random.pick(&[0; 20])
            + if random.percent(3) {
                random.pick(&[-1, 1])
            } else {
                0
            },
        gas_price: gas_price(random),
        gas: if deep { GAS_DEEP } else { gas(random) },
        to,
        value: match random.weighted(&[60, 30, 8, 2]) {
            0 => U256::ZERO,
            1 => U256::from(random.below(1000)),
            2 => U256::from(random.next()),
            _ => values::word(random),
        },
        input,
        access_list: access_list(random, context),
        signature: signature(random, context.rules),
    }
}

/// An access list for some of the transactions of rules that have them, with accounts and slots
/// that programs use, and some that they do not use.
fn access_list(random: &SeededRandom, context: CodeContext<'_>) -> Option<Vec<AccessListEntry>> {
    if !context.rules.has(ForkFeature::AccessLists) || random.percent(55) {
        return None;
    }
    let entry = |_| AccessListEntry {
        address: context.addresses.any(random),
        slots: (0..random.below(4))
            .map(|_| B256::from(values::slot(random)))
            .collect(),
    };
    Some((0..random.below(4)).map(entry).collect())
}

fn gas(random: &SeededRandom) -> u64 {
    match random.weighted(&[30, 40, 12, 12, 3, 3]) {
        0 => random.between(100_000, 400_000),
        1 => random.between(400_000, GAS_MAX),
        // Ends somewhere in the program.
        2 => random.between(21_000, 100_000),
        3 => random.between(53_000, 60_000),
        // Around the least gas.
        4 => random.between(20_998, 21_002) + 68 * random.below(2),
        _ => random.pick(&[0, 1000, 5_000_000, GAS_LIMIT, GAS_LIMIT + 1, u64::MAX]),
    }
}

fn gas_price(random: &SeededRandom) -> U256 {
    match random.weighted(&[20, 30, 48, 1, 1]) {
        0 => U256::ZERO,
        1 => U256::from(1),
        2 => U256::from(random.below(20_000_000_000)),
        3 => U256::from(u64::MAX),
        _ => U256::MAX,
    }
}

fn call_data(random: &SeededRandom) -> CaseInput {
    let length = match random.weighted(&[30, 40, 30]) {
        0 => 0,
        1 => 32 * random.between(1, 4),
        _ => random.below(150),
    };
    let mut bytes = random.bytes(length);
    if random.percent(50) {
        // Many zeros, which cost less.
        bytes.iter_mut().step_by(2).for_each(|byte| *byte = 0);
    }
    CaseInput::Bytes(bytes)
}

fn signature(random: &SeededRandom, rules: &ForkRules) -> SignatureKind {
    let protected = if rules.has(ForkFeature::ProtectedSignatures) {
        40
    } else {
        2
    };
    match random.weighted(&[55, protected, 1, 2, 1]) {
        0 => SignatureKind::Plain,
        1 => SignatureKind::Protected,
        2 => SignatureKind::OtherChain,
        3 => SignatureKind::HighS,
        _ => SignatureKind::Broken,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::RULES;

    #[test]
    fn a_seed_gives_the_same_case() {
        for rules in &RULES {
            let listing = |seed| case(seed, rules).listing();
            assert_eq!(listing(5), listing(5), "{}", rules.name);
            assert_ne!(listing(5), listing(6), "{}", rules.name);
        }
    }

    /// A change of the generator changes what old seeds mean. This is allowed, but must be seen.
    #[test]
    fn seeds_mean_what_they_meant() {
        let digest = keccak256(case(1, &RULES[7]).listing());
        assert_eq!(primitives::hex::encode(&digest[..4]), "3567f655");
    }

    #[test]
    fn programs_use_every_kind_of_instruction() {
        let mut seen = [false; 256];
        for seed in 0..200 {
            for account in case(seed, &RULES[7]).accounts {
                for part in &account.code.0 {
                    if let Part::Op(code) = part {
                        seen[usize::from(*code)] = true;
                    }
                }
            }
        }
        let tables: [&[crate::opcodes::Instruction]; 4] = [
            &crate::opcodes::PURE,
            &crate::opcodes::READS,
            &crate::opcodes::ACCOUNT_READS,
            &crate::opcodes::CALLS,
        ];
        for instruction in tables.into_iter().flatten() {
            assert!(seen[usize::from(instruction.code)], "{}", instruction.name);
        }
        for code in [
            0x00, 0x20, 0x55, 0x56, 0x57, 0xa0, 0xa4, 0xf0, 0xf3, 0xf5, 0xfd, 0xfe, 0xff,
        ] {
            assert!(seen[code], "{code:#x}");
        }
    }
}
