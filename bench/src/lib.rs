//! A chain for benchmarks: its accounts, its rules, and blocks that the node itself executes.
//!
//! All seeds are fixed, so that every run has the same accounts. Knows the package `chain`; what is
//! measured and how, the programs know.

pub mod attacks;
pub mod clock;
pub mod disk_bytes;
pub mod network_node;

use chain::ChainSpec;
use chain::evm::execute::Executor;
use chain::rules::body::transactions_root;
use chain::spec::DifficultyRule;
use chain::state::BlockState;
use chain::trie::ordered_root;
use mimalloc::MiMalloc;
use primitives::{Address, Block, EMPTY_UNCLES_HASH, Header, SecretKey, Transaction, U256, keccak256};
use store::{BlockReads, Store};

/// The allocator of the programs, for both sides of each comparison.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// The error of a benchmark, a text for its user.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Number of accounts that send transactions.
pub const SENDERS: u64 = 2000;
/// The chain id.
pub const CHAIN_ID: u64 = 1337;

/// The key of the sender `index`.
///
/// # Errors
/// If the seed is no key, which it is for no index in use.
pub fn sender_key(index: u64) -> Result<SecretKey, Failure> {
    let seed = keccak256([b"sender".as_slice(), &index.to_be_bytes()].concat());
    Ok(SecretKey::from_bytes(seed.as_slice())?)
}

/// The account `index` of those that only receive.
pub fn receiver(index: u64) -> Address {
    Address::from_word(keccak256([b"receiver".as_slice(), &index.to_be_bytes()].concat()))
}

/// The receiver of the transaction `index`, of so many `accounts`. The receivers look random but
/// are the same in every run.
pub fn receiver_of(index: u64, accounts: u64) -> Address {
    receiver(index.wrapping_mul(0x9e37_79b9_7f4a_7c15) % accounts.max(1))
}

/// The rules of Istanbul, with difficulty 2 for each block. No account has anything yet.
///
/// # Errors
/// None, as long as the genesis file here is valid.
pub fn chain_spec(gas_limit: u64) -> Result<ChainSpec, Failure> {
    let text = format!(
        r#"{{"config": {{"chainId": {CHAIN_ID}, "homesteadBlock": 0, "eip150Block": 0, "eip155Block": 0,
            "eip158Block": 0, "byzantiumBlock": 0, "constantinopleBlock": 0, "petersburgBlock": 0,
            "istanbulBlock": 0}}, "difficulty": 2, "gasLimit": {gas_limit}}}"#
    );
    let mut spec = ChainSpec::from_genesis_file("bench", &text)?.spec;
    // With the rule of the file the difficulty would rise from block to block.
    spec.difficulty = DifficultyRule::Constant(2);
    Ok(spec)
}

/// Builds and executes the next block of `store`. Its seal is empty.
///
/// # Errors
/// If the store fails, or if a transaction is not valid or fails.
pub fn next_block(spec: &ChainSpec, store: &Store, transactions: Vec<Transaction>) -> Result<Block, Failure> {
    let DifficultyRule::Constant(difficulty) = spec.difficulty else {
        return Err("the difficulty of the chain is not constant".into());
    };
    let view = store.snapshot()?;
    let (number, hash) = view.head()?.ok_or("no head")?;
    let parent = view.header(number, &hash)?.ok_or("no header")?.header;
    let mut header = Header {
        parent_hash: hash,
        uncles_hash: EMPTY_UNCLES_HASH,
        beneficiary: Address::repeat_byte(0xbe),
        difficulty: U256::from(difficulty),
        number: number + 1,
        gas_limit: parent.gas_limit,
        timestamp: parent.timestamp + 13,
        ..Default::default()
    };
    let mut state = BlockState::new(&*view, number, parent.state_root);
    let mut executor = Executor::new(spec, &header, &mut state);
    for transaction in &transactions {
        let outcome = executor.transaction(transaction, transaction.recover_sender(true)?)?;
        if !outcome.success {
            return Err("a transaction of the benchmark failed".into());
        }
    }
    let executed = executor.finish(&[])?;
    header.state_root = state.root()?;
    header.transactions_root = transactions_root(&transactions);
    header.receipts_root = ordered_root(executed.receipts.iter().map(|r| r.encode(spec.receipt_form())));
    header.logs_bloom = executed.logs_bloom;
    header.gas_used = executed.gas_used;
    Ok(Block {
        header,
        transactions,
        uncles: Vec::new(),
    })
}
