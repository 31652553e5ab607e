//! Measures the transaction pool: 100,000 signed transactions of 10,000 accounts.
//!
//! `cargo run --release -p bench --bin pool`. Prints a line a figure. Each figure of a growing
//! pool is taken at three sizes, so that a step whose cost grows with the pool shows as a
//! falling rate. Recovery of signatures is measured alone in the same run: it is what no pool
//! can save.

use std::num::NonZero;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chain::pool::{NextBlock, PoolConfig, SenderState, TxOrigin, TxPool};
use chain::rules::body::{SealCheck, sender};
use chain::spec::GenesisAccount;
use chain::{Chain, ChainConfig, ChainSpec};
use primitives::{Address, SecretKey, Transaction, TxForm, U256, UnsignedTransaction};
use store::Store;

const ACCOUNTS: usize = 10_000;
const EACH: usize = 10;
/// How many transactions come in, to see how the rate changes with the number.
const COUNTS: [usize; 3] = [10_000, 50_000, ACCOUNTS * EACH];
/// Transactions in a block when the pool follows heads.
const MINED: usize = 200;
const HEADS: u64 = 20;
const GAS: u64 = 1000;
const GSHA: u64 = 1_000_000_000;
const GAS_LIMIT: u64 = 9_000_000;

struct Sent {
    transaction: Transaction,
    sender: Address,
}

fn balance() -> U256 {
    U256::from(GSHA) * U256::from(GSHA) * U256::from(1000)
}

fn standing(tx_nonce: u64) -> SenderState {
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

/// Prices differ, so that the order by price has something to do.
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

/// Runs `work` on portions of `items`, one a thread.
fn portions<T: Sync, R: Send>(items: &[T], threads: usize, work: impl Fn(&[T]) -> R + Sync) -> Vec<R> {
    let portion = items.len().div_ceil(threads).max(1);
    std::thread::scope(|scope| {
        let running: Vec<_> = items
            .chunks(portion)
            .map(|portion| scope.spawn(|| work(portion)))
            .collect();
        running
            .into_iter()
            .map(|thread| thread.join().expect("no thread panics"))
            .collect()
    })
}

/// All transactions: every account's first, then every account's second, and so on.
fn sign(spec: &ChainSpec, keys: &[SecretKey], threads: usize) -> Vec<Sent> {
    let numbers: Vec<_> = (0..ACCOUNTS * EACH).collect();
    let signed = portions(&numbers, threads, |numbers| {
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

fn raised() -> PoolConfig {
    PoolConfig {
        global_slots: 2 * ACCOUNTS * EACH,
        global_queue: ACCOUNTS * EACH,
        account_queue: ACCOUNTS * EACH,
        account_slots: EACH,
        ..PoolConfig::default()
    }
}

fn next(number: u64) -> NextBlock {
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
        pool: raised(),
        beneficiary: Address::ZERO,
        extra_data: Default::default(),
    };
    let store = Store::in_memory().expect("a store in memory");
    Chain::open(store, config).expect("the chain opens")
}

fn timed<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let started = Instant::now();
    let result = work();
    (started.elapsed(), result)
}

fn say_rate(what: &str, count: usize, took: Duration) -> f64 {
    let rate = count as f64 / took.as_secs_f64();
    println!("{what:<58}{rate:>12.0} tx/s{:>11.1} ms", took.as_secs_f64() * 1e3);
    rate
}

fn say_time(what: &str, took: Duration) {
    println!("{what:<58}{:>12.3} ms", took.as_secs_f64() * 1e3);
}

fn put(pool: &TxPool, sent: &Sent, origin: TxOrigin) {
    let added = pool.add(sent.transaction.clone(), sent.sender, standing(0), origin);
    added.expect("there is room, and all is paid for");
}

fn put_all<'a>(pool: &TxPool, sent: impl IntoIterator<Item = &'a Sent>) {
    sent.into_iter()
        .for_each(|sent| put(pool, sent, TxOrigin::Remote));
}

/// Recovery alone, and everything from the decoded transaction on.
fn whole_way(spec: &Arc<ChainSpec>, sent: &[Sent], threads: usize) {
    let recover = |portion: &[Sent]| {
        for one in portion {
            let found = sender(spec, 1, &one.transaction).expect("signed");
            assert_eq!(found, one.sender);
        }
    };
    let (took, _) = timed(|| portions(sent, threads, recover));
    let alone = say_rate(&format!("recovery alone/{threads} threads"), sent.len(), took);
    for count in COUNTS {
        let chain = chain(spec);
        let submit = |portion: &[Sent]| {
            for one in portion {
                let taken = chain.submit_transaction(one.transaction.clone(), TxOrigin::Remote);
                taken.expect("there is room, and all is paid for");
            }
        };
        let (took, _) = timed(|| portions(&sent[..count], threads, submit));
        let (pending, queued) = chain.pool().counts();
        assert_eq!(pending + queued, count);
        let rate = say_rate(&format!("submitted/{count}/{threads} threads"), count, took);
        println!(
            "{:<58}{:>12.0} %",
            "  share of recovery in that",
            100.0 * rate / alone
        );
    }
}

/// The pool by itself: senders and standings are known.
fn pool_alone(spec: &Arc<ChainSpec>, sent: &[Sent]) {
    for count in COUNTS {
        let pool = pool(spec, raised());
        let (took, ()) = timed(|| put_all(&pool, &sent[..count]));
        assert_eq!(pool.counts(), (count, 0));
        say_rate(&format!("pool alone, nonces in order/{count}"), count, took);
    }
    for count in COUNTS {
        let pool = pool(spec, raised());
        let (took, ()) = timed(|| put_all(&pool, sent[..count].iter().rev()));
        assert_eq!(pool.counts(), (count, 0));
        say_rate(&format!("pool alone, highest nonces first/{count}"), count, took);
    }
}

/// As many transactions, all of one account of the node's own, the highest nonce first.
fn one_account(spec: &Arc<ChainSpec>, key: &SecretKey) {
    for count in COUNTS {
        let all: Vec<_> = (0..count)
            .rev()
            .map(|tx_nonce| Sent {
                // The signature is not looked at here.
                transaction: Transaction {
                    v: U256::from(1),
                    ..template(key, tx_nonce as u64)
                },
                sender: key.address(),
            })
            .collect();
        let pool = pool(spec, raised());
        let (took, ()) = timed(|| all.iter().for_each(|sent| put(&pool, sent, TxOrigin::Local)));
        assert_eq!(pool.counts(), (count, 0));
        say_rate(&format!("pool alone, one local account/{count}"), count, took);
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

/// Newcomers that each push out the cheapest of a full pool.
fn eviction(spec: &Arc<ChainSpec>, sent: &[Sent]) {
    for count in COUNTS {
        // Every account's first ones are there; dearer first ones of others come.
        let config = PoolConfig {
            global_slots: count - 1,
            global_queue: 1,
            ..raised()
        };
        let pool = pool(spec, config);
        put_all(&pool, &sent[..count]);
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
        let (took, ()) = timed(|| put_all(&pool, &newcomers));
        say_rate(
            &format!("pool alone, full, each evicts one/{count}"),
            newcomers.len(),
            took,
        );
    }
}

/// Following heads that mined some, with all accounts' transactions waiting.
fn heads(spec: &Arc<ChainSpec>, sent: &[Sent]) {
    for count in COUNTS {
        let pool = pool(spec, raised());
        put_all(&pool, &sent[..count]);
        let mut took = Duration::ZERO;
        for head in 0..HEADS {
            let from = head as usize * MINED;
            let mined: Vec<_> = sent[from..from + MINED]
                .iter()
                .map(|sent| (sent.sender, standing(1)))
                .collect();
            let (one, ()) = timed(|| pool.follow_head(next(head + 2), mined, []));
            took += one;
        }
        let left = count - HEADS as usize * MINED;
        assert_eq!(pool.counts(), (left, 0));
        say_time(
            &format!("head with {MINED} mined/{count} pooled"),
            took / HEADS as u32,
        );
        let (took, mut ready) = timed(|| pool.ready());
        say_time(&format!("copy for a block builder/{count} pooled"), took);
        let (took, ()) = timed(|| {
            for _ in 0..MINED {
                let best = ready.best().expect("thousands wait");
                ready.mark_included(best.sender);
            }
        });
        say_time(&format!("choice of {MINED} for a block/{count} pooled"), took);
        let (took, content) = timed(|| pool.content());
        assert!(!content.pending.is_empty());
        say_time(&format!("all content/{count} pooled"), took);
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
    // Another block 0 than the development network's.
    spec.genesis_hash = None;
    let spec = Arc::new(spec);
    let sent = sign(&spec, &keys, threads);
    println!(
        "{} transactions of {ACCOUNTS} accounts, {threads} threads",
        sent.len()
    );
    whole_way(&spec, &sent, 1);
    if threads > 1 {
        whole_way(&spec, &sent, threads);
    }
    pool_alone(&spec, &sent);
    one_account(&spec, &keys[0]);
    eviction(&spec, &sent);
    heads(&spec, &sent);
    println!(
        "go-ethereum publishes no rate; its pool is designed for 5120 pending and 1024 queued \
         slots of 32 KiB (core/txpool/legacypool/legacypool.go, DefaultConfig)"
    );
}
