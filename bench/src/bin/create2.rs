//! Measures what a block costs whose transaction spends its gas on CREATE2 over 1 MiB of code.
//!
//! On the public network CREATE2 costs 32,000 gas, however long the code is. Three programs are
//! run: all creations have the same code, or another second byte, or another last byte. On a chain
//! that prices CREATE2 by words the same gas pays for a few creations.

use std::time::{Duration, Instant};

use bench::Failure;
use chain::ChainSpec;
use chain::evm::execute::Executor;
use chain::genesis::ensure_genesis;
use chain::spec::{DEV_ACCOUNTS, GenesisAccount};
use chain::state::BlockState;
use clap::Parser;
use primitives::{Address, Header, SecretKey, TxForm, U256, UnsignedTransaction, hex};
use store::{BlockReads, Store};

/// CREATE2 benchmark.
#[derive(Debug, Parser)]
struct Options {
    /// Gas of the transaction.
    #[arg(long, default_value_t = 9_000_000)]
    gas: u64,
    /// Number of rounds; the least time is printed.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
}

const PROGRAM: Address = Address::repeat_byte(0xc2);

/// JUMPDEST; CREATE2 of 1 MiB with the gas left as its salt; POP.
const CREATE: &str = "5b5a6210000060006000f550";
/// Back to the start while there is gas for another turn.
const AGAIN: &str = "620500005a11600057";

fn main() -> Result<(), Failure> {
    let options = Options::parse();
    let programs = [
        ("the same code", ""),
        ("another second byte", "5a600153"),
        ("another last byte", "5a620fffff53"),
    ];
    for (rules, config) in [
        ("public network", ""),
        ("by words", r#", "create2PerWordBlock": 0"#),
    ] {
        for (name, change) in programs {
            // Without a price for the memory, only CREATE2 may expand it.
            let program = hex::decode(format!("{CREATE}{change}{AGAIN}"))?;
            let mut best = Duration::MAX;
            let mut created = 0;
            for _ in 0..options.rounds.max(1) {
                let (took, count) = run(config, &program, options.gas)?;
                best = best.min(took);
                created = count;
            }
            println!(
                "{rules}, {name}: {:.0} ms, {created} creations",
                best.as_secs_f64() * 1e3
            );
        }
    }
    Ok(())
}

/// Executes the program in a block. Returns the time, and the number of creations.
fn run(config: &str, program: &[u8], gas: u64) -> Result<(Duration, u64), Failure> {
    let text = format!(
        r#"{{"config": {{"chainId": 100, "panguBlock": 0{config}}}, "difficulty": 512, "gasLimit": {gas}}}"#
    );
    let mut spec = ChainSpec::from_genesis_file("create2", &text)?.spec;
    spec.system_contract = false;
    let sender = SecretKey::from_hex(DEV_ACCOUNTS[0].1)?;
    let rich = GenesisAccount {
        balance: U256::MAX >> 8,
        ..Default::default()
    };
    let contract = GenesisAccount {
        code: program.to_vec().into(),
        ..Default::default()
    };
    spec.genesis.alloc = [(sender.address(), rich), (PROGRAM, contract)].into();
    let store = Store::in_memory()?;
    ensure_genesis(&store, &spec)?;
    let view = store.snapshot()?;
    let (_, hash) = view.head()?.ok_or("no head")?;
    let root = view.header_by_hash(&hash)?.ok_or("no header")?.header.state_root;
    let header = Header {
        number: 1,
        gas_limit: gas,
        difficulty: U256::from(512),
        timestamp: 1,
        ..Default::default()
    };
    let call = UnsignedTransaction {
        gas,
        gas_price: U256::from(1),
        to: Some(PROGRAM),
        ..Default::default()
    };
    let call = call.sign(&sender, 100, TxForm::Native);
    let mut state = BlockState::new(&*view, 0, root);
    let mut executor = Executor::new(&spec, &header, &mut state);
    let started = Instant::now();
    executor.transaction(&call, sender.address())?;
    let took = started.elapsed();
    drop(executor);
    Ok((took, state.balance_and_nonce(PROGRAM)?.1))
}
