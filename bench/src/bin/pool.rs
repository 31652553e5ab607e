//! Measures the transaction pool with 100,000 signed transactions of 10,000 accounts.
//!
//! `cargo run --release -p bench --bin pool`. Each figure is one line. Figures of a growing pool
//! are measured at three sizes: if the cost of a step grows with the pool, the rate falls. The
//! recovery of senders is also measured alone, because no pool can avoid it.

use std::num::NonZero;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chain::pool::{NextBlock, PoolConfig, SenderState, TxPool};
use chain::rules::body::sender;
use chain::rules::seal::SealCheck;
use chain::spec::GenesisAccount;
use chain::{Chain, ChainConfig, ChainSpec};
use primitives::{Address, SecretKey, Transaction, TxForm, U256, UnsignedTransaction};
use store::Store;

/// Number of accounts.
const ACCOUNTS: usize = 10_000;
/// Transactions of each account.
const EACH: usize = 10;
/// The sizes of the pool that are measured.
const COUNTS: [usize; 3] = [10_000, 50_000, ACCOUNTS * EACH];
/// Transactions in a block when the pool follows heads.
const MINED: usize = 200;
/// Number of heads that the pool follows.
const HEADS: u64 = 20;
const GAS: u64 = 1000;
const GSHA: u64 = 1_000_000_000;
const GAS_LIMIT: u64 = 9_000_000;

/// A signed transaction and its sender.
struct Sent {
    transaction: Transaction,
    sender: Address,
}

fn balance() -> U256 {
    U256::from(GSHA) * U256::from(GSHA) * U256::from(1000)
}

fn sender_state(tx_nonce: u64) -> SenderState {
    SenderState {
        tx_nonce,
        balance: balance(),
    }
}

fn keys() -> Vec<SecretKey> {
    let key = |index: usize| {
        let mut bytes = [1; 32];
        bytes[..8].copy_from_slice(&(index as u64 + 1).to_be_bytes());
        SecretKey::from_bytes(&bytes).expect("far below the order of the curve")
    };
    (0..ACCOUNTS).map(key).collect()
}

/// A transaction to sign. The prices differ, so that ordering by price costs something.
fn unsigned(account: usize, tx_nonce: usize) -> UnsignedTransaction {
    let spread = (account * 7919 + tx_nonce * 104_729) % 1000;
    UnsignedTransaction {
        tx_nonce: tx_nonce as u64,
        gas_price: U256::from(GSHA + spread as u64),
        gas: GAS,
        to: Some(Address::repeat_byte(1)),
        value: U256::from(1),
        ..Default::default()
    }
}

/// Splits `items` into one chunk for each thread and runs `work` on the chunks in parallel.
fn in_chunks<T: Sync, R: Send>(items: &[T], threads: usize, work: impl Fn(&[T]) -> R + Sync) -> Vec<R> {
    let chunk_len = items.len().div_ceil(threads).max(1);
    std::thread::scope(|scope| {
        let running: Vec<_> = items
            .chunks(chunk_len)
            .map(|chunk| scope.spawn(|| work(chunk)))
            .collect();
        running
            .into_iter()
            .map(|thread| thread.join().expect("no thread panics"))
            .collect()
    })
}

/// Signs all transactions: first those with nonce 0 of all accounts, then those with nonce 1, and
/// so on.
fn sign(spec: &ChainSpec, keys: &[SecretKey], threads: usize) -> Vec<Sent> {
    let numbers: Vec<_> = (0..ACCOUNTS * EACH).collect();
    let signed = in_chunks(&numbers, threads, |numbers| {
        let one = |number: &usize| {
            let (tx_nonce, account) = (number / ACCOUNTS, number % ACCOUNTS);
            let key = &keys[account];
            Sent {
                transaction: unsigned(account, tx_nonce).sign(key, spec.chain_id, TxForm::Native),
                sender: key.address(),
            }
        };
        numbers.iter().map(one).collect::<Vec<_>>()
    });
    signed.into_iter().flatten().collect()
}

/// A configuration with limits above the number of transactions.
fn raised_limits() -> PoolConfig {
    PoolConfig {
        global_slots: 2 * ACCOUNTS * EACH,
        global_queue: ACCOUNTS * EACH,
        account_queue: ACCOUNTS * EACH,
        account_slots: EACH,
        ..PoolConfig::default()
    }
}

const fn next(number: u64) -> NextBlock {
    NextBlock {
        number,
        gas_limit: GAS_LIMIT,
    }
}

fn pool(spec: &Arc<ChainSpec>, config: PoolConfig) -> TxPool {
    TxPool::new(spec.clone(), config, next(1))
}

fn chain(spec: &Arc<ChainSpec>) -> Chain {
    let config = ChainConfig {
        spec: spec.clone(),
        seals: SealCheck::Off,
        forks: chain::import::ForkLimits::default(),
        pool: raised_limits(),
        beneficiary: Address::ZERO,
        extra_data: Default::default(),
        states: chain::import::StateRetention::Archive,
    };
    let store = Store::in_memory().expect("a store in memory");
    Chain::open(store, config).expect("the chain opens")
}

fn timed<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let started = Instant::now();
    let result = work();
    (started.elapsed(), result)
}

fn print_rate(what: &str, count: usize, took: Duration) -> f64 {
    let rate = count as f64 / took.as_secs_f64();
    println!("{what:<58}{rate:>12.0} tx/s{:>11.1} ms", took.as_secs_f64() * 1e3);
    rate
}

fn print_time(what: &str, took: Duration) {
    println!("{what:<58}{:>12.3} ms", took.as_secs_f64() * 1e3);
}

fn add(pool: &TxPool, sent: &Sent) {
    let added = pool.add(sent.transaction.clone(), sent.sender, sender_state(0));
    added.expect("the pool has room and the sender has funds");
}

fn add_all<'a>(pool: &TxPool, sent: impl IntoIterator<Item = &'a Sent>) {
    sent.into_iter().for_each(|sent| add(pool, sent));
}

/// Measures the recovery of senders alone, and submitting decoded transactions to a chain.
fn measure_submission(spec: &Arc<ChainSpec>, sent: &[Sent], threads: usize) {
    let recover = |chunk: &[Sent]| {
        for one in chunk {
            let recovered = sender(spec, 1, &one.transaction).expect("signed");
            assert_eq!(recovered, one.sender);
        }
    };
    let (took, _) = timed(|| in_chunks(sent, threads, recover));
    let alone = print_rate(&format!("recovery alone/{threads} threads"), sent.len(), took);
    for count in COUNTS {
        let chain = chain(spec);
        let submit = |chunk: &[Sent]| {
            for one in chunk {
                let added = chain.submit_transaction(one.transaction.clone());
                added.expect("the pool has room and the sender has funds");
            }
        };
        let (took, _) = timed(|| in_chunks(&sent[..count], threads, submit));
        let (pending, queued) = chain.pool().counts();
        assert_eq!(pending + queued, count);
        let rate = print_rate(&format!("submitted/{count}/{threads} threads"), count, took);
        println!(
            "{:<58}{:>12.0} %",
            "  share of recovery in that",
            100.0 * rate / alone
        );
    }
}

/// Measures the pool alone, with known senders, nonces and balances.
fn measure_pool(spec: &Arc<ChainSpec>, sent: &[Sent]) {
    for count in COUNTS {
        let pool = pool(spec, raised_limits());
        let (took, ()) = timed(|| add_all(&pool, &sent[..count]));
        assert_eq!(pool.counts(), (count, 0));
        print_rate(&format!("pool alone, nonces in order/{count}"), count, took);
    }
    for count in COUNTS {
        let pool = pool(spec, raised_limits());
        let (took, ()) = timed(|| add_all(&pool, sent[..count].iter().rev()));
        assert_eq!(pool.counts(), (count, 0));
        print_rate(&format!("pool alone, highest nonces first/{count}"), count, took);
    }
}

/// Measures the same number of transactions of one account, the highest nonce first.
fn measure_one_account(spec: &Arc<ChainSpec>, key: &SecretKey) {
    for count in COUNTS {
        let all: Vec<_> = (0..count)
            .rev()
            .map(|tx_nonce| Sent {
                // The pool does not check the signature.
                transaction: Transaction {
                    v: U256::from(1),
                    ..template(key, tx_nonce as u64)
                },
                sender: key.address(),
            })
            .collect();
        let pool = pool(spec, raised_limits());
        let (took, ()) = timed(|| all.iter().for_each(|sent| add(&pool, sent)));
        assert_eq!(pool.counts(), (count, 0));
        print_rate(&format!("pool alone, one account/{count}"), count, took);
    }
}

fn template(key: &SecretKey, tx_nonce: u64) -> Transaction {
    static SIGNED: std::sync::OnceLock<Transaction> = std::sync::OnceLock::new();
    let signed = SIGNED.get_or_init(|| unsigned(0, 0).sign(key, 100, TxForm::Native));
    Transaction {
        tx_nonce,
        ..signed.clone()
    }
}

/// Measures a full pool, in which each new transaction replaces the cheapest.
fn measure_eviction(spec: &Arc<ChainSpec>, sent: &[Sent]) {
    for count in COUNTS {
        // The pool is full. Other accounts send transactions with a higher price.
        let config = PoolConfig {
            global_slots: count - 1,
            global_queue: 1,
            ..raised_limits()
        };
        let pool = pool(spec, config);
        add_all(&pool, &sent[..count]);
        let newcomers: Vec<_> = (0..ACCOUNTS)
            .map(|index| {
                let mut bytes = [0xee; 20];
                bytes[..8].copy_from_slice(&(index as u64).to_be_bytes());
                let transaction = Transaction {
                    gas_price: U256::from(5 * GSHA),
                    value: U256::from(index),
                    ..sent[0].transaction.clone()
                };
                Sent {
                    transaction,
                    sender: Address::from(bytes),
                }
            })
            .collect();
        let (took, ()) = timed(|| add_all(&pool, &newcomers));
        print_rate(
            &format!("pool alone, full, each evicts one/{count}"),
            newcomers.len(),
            took,
        );
    }
}

/// Measures following heads that have mined some of the transactions, and reading the pool.
fn measure_heads(spec: &Arc<ChainSpec>, sent: &[Sent]) {
    for count in COUNTS {
        let pool = pool(spec, raised_limits());
        add_all(&pool, &sent[..count]);
        let mut took = Duration::ZERO;
        for head in 0..HEADS {
            let from = head as usize * MINED;
            let mined: Vec<_> = sent[from..from + MINED]
                .iter()
                .map(|sent| (sent.sender, sender_state(1)))
                .collect();
            let (one, ()) = timed(|| pool.follow_head(next(head + 2), mined, []));
            took += one;
        }
        let left = count - HEADS as usize * MINED;
        assert_eq!(pool.counts(), (left, 0));
        print_time(
            &format!("head with {MINED} mined/{count} pooled"),
            took / HEADS as u32,
        );
        let (took, mut ready) = timed(|| pool.ready());
        print_time(&format!("copy for a block builder/{count} pooled"), took);
        let (took, ()) = timed(|| {
            for _ in 0..MINED {
                let best = ready.best().expect("the pool has thousands of transactions");
                ready.mark_included(best.sender);
            }
        });
        print_time(&format!("choice of {MINED} for a block/{count} pooled"), took);
        let (took, content) = timed(|| pool.content());
        assert!(!content.pending.is_empty());
        print_time(&format!("all content/{count} pooled"), took);
    }
}

fn main() {
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    let keys = keys();
    let mut spec = ChainSpec::dev();
    for key in &keys {
        let funded = GenesisAccount {
            balance: balance(),
            ..Default::default()
        };
        spec.genesis.alloc.insert(key.address(), funded);
    }
    // Block 0 differs from that of the development network.
    spec.genesis_hash = None;
    let spec = Arc::new(spec);
    let sent = sign(&spec, &keys, threads);
    println!(
        "{} transactions of {ACCOUNTS} accounts, {threads} threads",
        sent.len()
    );
    measure_submission(&spec, &sent, 1);
    if threads > 1 {
        measure_submission(&spec, &sent, threads);
    }
    measure_pool(&spec, &sent);
    measure_one_account(&spec, &keys[0]);
    measure_eviction(&spec, &sent);
    measure_heads(&spec, &sent);
    println!(
        "go-ethereum publishes no rate; its pool is designed for 5120 pending and 1024 queued \
         slots of 32 KiB (core/txpool/legacypool/legacypool.go, DefaultConfig)"
    );
}
