//! Measures what a node keeps in memory for the work that it has handed out.
//!
//! Work is replaced every two seconds and stays valid for 84 seconds, so there are 42 blocks
//! without a seal. The state that such a block has read and changed is counted, too, as if it were
//! kept.

use std::sync::Arc;

use bench::Failure;
use chain::chain::RENEW_INTERVAL;
use chain::mining::build::{UnsealedBlock, build};
use chain::mining::work::{SealingWork, WORK_LIFETIME};
use chain::pool::PoolConfig;
use chain::rules::seal::SealCheck;
use chain::spec::{DEV_ACCOUNTS, GenesisAccount};
use chain::{Chain, ChainConfig, ChainSpec};
use primitives::{Address, SecretKey, TxForm, U256, UnsignedTransaction, hex};
use store::Store;

/// Reads one slot after the other while there is gas.
const READER: &str = "60005b805450600101611388";
/// The rest of the program: a jump back to the start.
const AGAIN: &str = "5a1160025700";

fn main() -> Result<(), Failure> {
    let pieces = WORK_LIFETIME.as_secs() / RENEW_INTERVAL.as_secs();
    let chain = chain_with_a_long_transaction()?;
    let view = chain.view()?;
    let settings = chain.settings();
    let draft = |index: u64| -> Result<UnsealedBlock, Failure> {
        let timestamp = view.head().header.timestamp + 1 + index;
        let ready = chain.pool().ready();
        let spec = chain.spec();
        Ok(build(
            spec,
            view.snapshot(),
            view.head(),
            timestamp,
            &settings,
            ready,
            &[],
        )?)
    };
    let first = draft(0)?;
    println!(
        "a block of {} gas with {} transactions",
        first.block.header.gas_used,
        first.block.transactions.len()
    );
    let before = resident_bytes()?;
    let works = (0..pieces)
        .map(|index| Ok(SealingWork::new(chain.spec(), draft(index)?.block)))
        .collect::<Result<Vec<_>, Failure>>()?;
    let bytes: usize = works.iter().map(SealingWork::block_bytes).sum();
    let growth = resident_bytes()?.saturating_sub(before);
    println!(
        "{pieces} blocks: {bytes} bytes counted, {:.1} MB more resident",
        megabytes(growth)
    );
    let before = resident_bytes()?;
    let drafts = (0..pieces).map(draft).collect::<Result<Vec<_>, Failure>>()?;
    let growth = resident_bytes()?.saturating_sub(before);
    println!(
        "{} blocks with their state: {:.1} MB more resident",
        drafts.len(),
        megabytes(growth)
    );
    Ok(())
}

/// A development chain whose pool has a transaction that reads 38,000 slots.
fn chain_with_a_long_transaction() -> Result<Chain, Failure> {
    let contract = Address::repeat_byte(0xc0);
    let mut spec = ChainSpec::dev();
    let code = hex::decode(format!("{READER}{AGAIN}"))?.into();
    let reader = GenesisAccount {
        code,
        ..Default::default()
    };
    spec.genesis.alloc.insert(contract, reader);
    let gas = spec.genesis.gas_limit - 10_000;
    let config = ChainConfig {
        spec: Arc::new(spec),
        seals: SealCheck::Off,
        pool: PoolConfig::default(),
        beneficiary: Address::repeat_byte(0xbe),
        extra_data: Default::default(),
        forks: Default::default(),
        states: Default::default(),
    };
    let chain = Chain::open(Store::in_memory()?, config)?;
    let call = UnsignedTransaction {
        gas,
        gas_price: U256::from(1_000_000_000u64),
        to: Some(contract),
        ..Default::default()
    };
    let key = SecretKey::from_hex(DEV_ACCOUNTS[0].1)?;
    chain.submit_transaction(call.sign(&key, 100, TxForm::Native))?;
    Ok(chain)
}

/// Resident memory of this process, in bytes.
fn resident_bytes() -> Result<u64, Failure> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let digits = line.and_then(|line| line.split_whitespace().next());
    Ok(digits.ok_or("no VmRSS")?.parse::<u64>()? * 1024)
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
