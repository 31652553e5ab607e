//! Tests of the pool, one for each rule: refusals, order, replacement, limits, local accounts,
//! lifetimes, following the head, the feed.

use primitives::{Bytes, TxForm};

use super::*;

/// Gas of the tests' transactions.
const GAS: u64 = 1000;

fn next(gas_limit: u64) -> NextBlock {
    NextBlock { number: 1, gas_limit }
}

fn pool(config: PoolConfig) -> TxPool {
    TxPool::new(Arc::new(ChainSpec::dev()), config, next(9_000_000))
}

fn gsha(price: u64) -> U256 {
    U256::from(price) * U256::from(1_000_000_000u64)
}

fn rich(tx_nonce: u64) -> SenderState {
    SenderState {
        tx_nonce,
        balance: U256::from(10u64).pow(U256::from(21u64)),
    }
}

/// Enough for `count` transactions at `price`.
fn poor(tx_nonce: u64, count: u64, price: u64) -> SenderState {
    SenderState {
        tx_nonce,
        balance: gsha(count * price * GAS),
    }
}

fn who(key: u8) -> Address {
    Address::repeat_byte(key)
}

fn transfer(tx_nonce: u64, gas_price: u64) -> Transaction {
    Transaction {
        form: TxForm::Native,
        syscnt: 0,
        gas: GAS,
        gas_price: gsha(gas_price),
        to: Some(Address::repeat_byte(1)),
        input: Bytes::new(),
        ..Transaction::system(tx_nonce)
    }
}

fn add_as(
    pool: &TxPool,
    origin: TxOrigin,
    key: u8,
    tx_nonce: u64,
    gas_price: u64,
) -> Result<B256, PoolError> {
    // The transaction is not signed. Its value makes it differ from those of other senders.
    let transaction = Transaction {
        value: U256::from(key),
        ..transfer(tx_nonce, gas_price)
    };
    pool.add(transaction, who(key), rich(0), origin)
}

fn add(pool: &TxPool, key: u8, tx_nonce: u64, gas_price: u64) -> Result<B256, PoolError> {
    add_as(pool, TxOrigin::Remote, key, tx_nonce, gas_price)
}

fn add_local(pool: &TxPool, key: u8, tx_nonce: u64, gas_price: u64) -> Result<B256, PoolError> {
    add_as(pool, TxOrigin::Local, key, tx_nonce, gas_price)
}

/// The nonces of an account's transactions: pending, queued.
fn nonces(pool: &TxPool, key: u8) -> (Vec<u64>, Vec<u64>) {
    let content = pool.content();
    let of = |part: &BTreeMap<Address, BTreeMap<u64, Arc<Transaction>>>| {
        let all = part.get(&who(key)).into_iter();
        all.flat_map(|all| all.keys().copied()).collect()
    };
    (of(&content.pending), of(&content.queued))
}

#[test]
fn pending_and_queued_by_missing_nonces() {
    let pool = pool(PoolConfig::default());
    for tx_nonce in [0, 1, 3] {
        add(&pool, 1, tx_nonce, 5).unwrap();
    }
    assert_eq!(pool.counts(), (2, 1));
    assert_eq!(pool.next_nonce(&who(1)), Some(2));
    add(&pool, 1, 2, 5).unwrap();
    assert_eq!(pool.counts(), (4, 0));
    assert_eq!(pool.next_nonce(&who(1)), Some(4));
    assert_eq!(nonces(&pool, 1), (vec![0, 1, 2, 3], vec![]));
    assert_eq!(pool.next_nonce(&who(2)), None);
}

#[test]
fn a_replacement_costs_ten_percent_more() {
    let pool = pool(PoolConfig::default());
    let first = add(&pool, 1, 0, 100).unwrap();
    let (got, expected) = (gsha(109), gsha(110));
    let error = PoolError::ReplacementUnderpriced { got, expected };
    assert_eq!(add(&pool, 1, 0, 109), Err(error));
    let second = add(&pool, 1, 0, 110).unwrap();
    assert!(!pool.contains(&first) && pool.contains(&second));
    assert_eq!(pool.counts(), (1, 0));
    // The same holds for queued and for local transactions. Ten percent more than zero is not
    // enough.
    add(&pool, 1, 7, 100).unwrap();
    assert!(add(&pool, 1, 7, 109).is_err());
    add_local(&pool, 2, 0, 0).unwrap();
    let other = Transaction {
        input: vec![0].into(),
        gas: 2 * GAS,
        ..transfer(0, 0)
    };
    let error = pool.add(other, who(2), rich(0), TxOrigin::Local).unwrap_err();
    assert_eq!(
        error,
        PoolError::ReplacementUnderpriced {
            got: U256::ZERO,
            expected: U256::from(1)
        }
    );
}

#[test]
fn each_refusal_says_why() {
    let pool = pool(PoolConfig::default());
    let check = |expected: &str, change: &dyn Fn(&mut Transaction, &mut SenderState)| {
        let (mut transaction, mut state) = (transfer(6, 5), rich(5));
        change(&mut transaction, &mut state);
        let added = pool.add(transaction, who(1), state, TxOrigin::Remote);
        let error = added.map_or_else(|error| error.to_string(), |hash| hash.to_string());
        assert!(error.starts_with(expected), "got {error}, expected {expected}");
    };
    let hash = pool
        .add(transfer(5, 5), who(1), rich(5), TxOrigin::Remote)
        .unwrap();
    check(&format!("known transaction: {hash:x}"), &|t, _| t.tx_nonce = 5);
    check("nonce too low: got 4, expected at least 5", &|t, _| {
        t.tx_nonce = 4
    });
    check("nonce has max value", &|t, _| t.tx_nonce = u64::MAX);
    check(
        "intrinsic gasRemaining too low: got 999, expected 1000",
        &|t, _| t.gas = 999,
    );
    check("exceeds block gasRemaining limit: got 9000001", &|t, _| {
        t.gas = 9_000_001
    });
    check("transaction underpriced: got 1, expected", &|t, _| {
        t.gas_price = U256::from(1)
    });
    check("oversized data: ", &|t, _| t.input = vec![0; 200_000].into());
    check("shardingFlag 1 belongs", &|t, _| t.sharding_flag = 1);
    check("invalid sender: ", &|t, _| t.syscnt = 1);
    check("invalid sender: ", &|t, _| t.form = TxForm::System);
    check("Ethereum transactions do not belong", &|t, _| {
        t.form = TxForm::Ethereum
    });
    let funds = "insufficient funds for gasRemaining * price + value: balance ";
    check(funds, &|t, s| t.value = s.balance);
    check(funds, &|t, _| t.gas_price = U256::MAX);
    // Each can be paid alone, but not all together.
    check(funds, &|_, s| *s = poor(5, 1, 5));
    assert_eq!(pool.counts(), (1, 0));
    pool.add(transfer(0, 0), who(2), rich(0), TxOrigin::Local)
        .unwrap();
}

#[test]
fn an_account_queues_only_so_many() {
    let pool = pool(PoolConfig {
        account_queue: 2,
        ..Default::default()
    });
    add(&pool, 1, 3, 5).unwrap();
    add(&pool, 1, 4, 5).unwrap();
    let error = PoolError::AccountQueue {
        got: 2,
        max: 2,
        missing: 0,
    };
    assert_eq!(add(&pool, 1, 5, 5), Err(error));
    // A transaction with a lower nonce evicts the last one.
    add(&pool, 1, 2, 5).unwrap();
    assert_eq!(nonces(&pool, 1), (vec![], vec![2, 3]));
    // Replacements and pending transactions do not count.
    add(&pool, 1, 3, 6).unwrap();
    add(&pool, 1, 0, 5).unwrap();
    assert_eq!(nonces(&pool, 1), (vec![0], vec![2, 3]));
    for tx_nonce in 5..15 {
        add_local(&pool, 2, tx_nonce, 5).unwrap();
    }
    assert_eq!(pool.counts(), (1, 12));
}

#[test]
fn a_full_queue_evicts_from_the_account_without_heartbeat_for_longest() {
    let pool = pool(PoolConfig {
        global_queue: 3,
        ..Default::default()
    });
    for (key, tx_nonce) in [(1, 5), (1, 6), (2, 5)] {
        add(&pool, key, tx_nonce, 5).unwrap();
    }
    let full = PoolError::Full {
        what: "queued transactions",
        got: 3,
        max: 3,
    };
    assert_eq!(add(&pool, 1, 7, 5), Err(full.clone()));
    // A transaction of another account evicts the last one of the oldest queue.
    add(&pool, 3, 5, 5).unwrap();
    assert_eq!(nonces(&pool, 1).1, [5]);
    // A transaction that becomes pending is a heartbeat of its account's queue.
    add(&pool, 1, 0, 5).unwrap();
    add(&pool, 4, 5, 5).unwrap();
    assert_eq!((nonces(&pool, 1).1, nonces(&pool, 2).1), (vec![5], vec![]));
    // Local transactions count, but are not evicted. They leave no room for remote ones.
    for key in [5, 6, 7] {
        add_local(&pool, key, 5, 5).unwrap();
    }
    assert_eq!(pool.counts(), (1, 3));
    assert_eq!(nonces(&pool, 1), (vec![0], vec![]));
    assert_eq!(add(&pool, 8, 5, 5), Err(full));
    add_local(&pool, 7, 6, 5).unwrap();
    assert_eq!(pool.counts(), (1, 4));
}

#[test]
fn too_many_pending_transactions_are_evicted_from_the_largest_accounts() {
    let pool = pool(PoolConfig {
        account_slots: 2,
        global_slots: 8,
        ..Default::default()
    });
    for (key, count) in [(1, 5), (2, 3)] {
        for nonce in 0..count {
            add(&pool, key, nonce, 5).unwrap();
        }
    }
    let full = PoolError::Full {
        what: "pending transactions",
        got: 8,
        max: 8,
    };
    // The transaction is from the largest account, so it would be evicted itself.
    assert_eq!(add(&pool, 1, 5, 5), Err(full.clone()));
    for (key, tx_nonce) in [(3, 0), (3, 1)] {
        add(&pool, key, tx_nonce, 5).unwrap();
    }
    assert_eq!(nonces(&pool, 1).0, [0, 1, 2]);
    assert_eq!(add(&pool, 3, 2, 5), Err(full));
    // In the end each account has its guaranteed transactions, however many these are.
    for key in 4..9 {
        for tx_nonce in 0..2 {
            add(&pool, key, tx_nonce, 5).unwrap();
        }
    }
    assert_eq!(pool.counts(), (16, 0));
    assert!((1..9).all(|key| nonces(&pool, key).0 == [0, 1]));
    // If a missing nonce comes, no more transactions become pending than are allowed.
    add_local(&pool, 9, 0, 5).unwrap();
    add(&pool, 1, 4, 5).unwrap();
    assert!(matches!(
        add(&pool, 1, 2, 5),
        Err(PoolError::Full { got: 17, .. })
    ));
    assert_eq!(pool.counts(), (17, 1));
    for nonce in 1..20 {
        add_local(&pool, 9, nonce, 5).unwrap();
    }
    assert_eq!(nonces(&pool, 9).0.len(), 20, "local transactions are not evicted");
}

#[test]
fn a_full_pool_evicts_the_cheapest_remote_transactions() {
    let pool = pool(PoolConfig {
        global_slots: 2,
        global_queue: 1,
        ..Default::default()
    });
    let cheap = add(&pool, 1, 0, 5).unwrap();
    add(&pool, 2, 0, 7).unwrap();
    add(&pool, 5, 0, 7).unwrap();
    let (got, expected) = (gsha(5), gsha(5) + U256::from(1));
    assert_eq!(add(&pool, 3, 0, 5), Err(PoolError::Underpriced { got, expected }));
    // A transaction that would be queued evicts no pending one.
    let future = PoolError::FutureReplacesPending { missing: 0 };
    assert_eq!(add(&pool, 3, 1, 6), Err(future));
    let dear = add(&pool, 3, 0, 6).unwrap();
    assert!(!pool.contains(&cheap) && pool.contains(&dear));
    // Nor does an account's next transaction evict the one before it.
    let future = PoolError::FutureReplacesPending { missing: 0 };
    assert_eq!(add(&pool, 3, 1, 100), Err(future));
    // Local transactions evict all others at any gas price, until they fill the pool.
    for key in [6, 7, 8] {
        add_local(&pool, key, 0, 0).unwrap();
    }
    assert_eq!(pool.counts(), (3, 0));
    let full = |what| PoolError::Full { what, got: 3, max: 3 };
    assert_eq!(add(&pool, 1, 0, 50), Err(full("slots")));
    assert_eq!(
        add_local(&pool, 9, 0, 5),
        Err(full("slots of local transactions"))
    );
    assert!(
        !pool.is_local(&who(9)),
        "a refused transaction makes no account local"
    );
    assert_eq!(nonces(&pool, 6).0, [0]);
}

#[test]
fn a_large_transaction_evicts_as_many_slots_as_it_fills() {
    let pool = pool(PoolConfig {
        global_slots: 3,
        global_queue: 1,
        ..Default::default()
    });
    for key in 1..5 {
        add(&pool, key, 0, u64::from(key)).unwrap();
    }
    let large = |price| Transaction {
        input: vec![0; 2 * SLOT_BYTES].into(),
        gas: 1_000_000,
        ..transfer(0, price)
    };
    // The transaction fills three slots. The highest gas price among the three cheapest is three.
    let (got, expected) = (gsha(3), gsha(3) + U256::from(1));
    assert_eq!(
        pool.add(large(3), who(9), rich(0), TxOrigin::Remote),
        Err(PoolError::Underpriced { got, expected })
    );
    assert_eq!(pool.counts(), (4, 0));
    pool.add(large(4), who(9), rich(0), TxOrigin::Remote).unwrap();
    assert_eq!(pool.counts(), (2, 0));
    assert_eq!((nonces(&pool, 4).0, nonces(&pool, 9).0), (vec![0], vec![0]));
}

#[test]
fn transactions_after_an_evicted_one_become_queued() {
    let pool = pool(PoolConfig {
        global_slots: 4,
        global_queue: 1,
        account_queue: 1,
        ..Default::default()
    });
    for (tx_nonce, price) in [(0, 9), (1, 2), (2, 9), (3, 9), (4, 9)] {
        add(&pool, 1, tx_nonce, price).unwrap();
    }
    add(&pool, 2, 0, 5).unwrap();
    // The last two were evicted too: an account may queue only one.
    assert_eq!(nonces(&pool, 1), (vec![0], vec![2]));
    assert_eq!(pool.counts(), (2, 1));
}

#[test]
fn a_local_account_stays_local() {
    let pool = pool(PoolConfig {
        global_slots: 2,
        global_queue: 1,
        ..Default::default()
    });
    let remote = add(&pool, 1, 0, 5).unwrap();
    add_local(&pool, 1, 1, 0).unwrap();
    assert!(pool.is_local(&who(1)) && !pool.is_local(&who(2)));
    // The account's remote transactions are exempt too, earlier and later ones.
    add(&pool, 1, 2, 0).unwrap();
    assert!(matches!(add(&pool, 2, 0, 90), Err(PoolError::Full { .. })));
    assert!(pool.contains(&remote));
    pool.follow_head(next(9_000_000), [(who(1), rich(3))], []);
    assert_eq!(pool.counts(), (0, 0));
    let later = transfer(3, 0);
    pool.add(later, who(1), rich(3), TxOrigin::Remote).unwrap();
    // If there are no local accounts, no account becomes local.
    let pool = super::tests::pool(PoolConfig {
        locals: false,
        ..Default::default()
    });
    assert!(matches!(
        add_local(&pool, 1, 0, 0),
        Err(PoolError::Underpriced { .. })
    ));
    add_local(&pool, 1, 0, 5).unwrap();
    assert!(!pool.is_local(&who(1)));
}

#[test]
fn a_replacement_needs_no_room_and_makes_no_queue_longer() {
    let pool = pool(PoolConfig {
        global_slots: 1,
        global_queue: 2,
        account_queue: 2,
        ..Default::default()
    });
    let other = add(&pool, 2, 0, 5).unwrap();
    add(&pool, 1, 5, 10).unwrap();
    add(&pool, 1, 6, 10).unwrap();
    // The pool and the account's queue are full. A replacement is accepted and evicts nothing.
    add(&pool, 1, 6, 11).unwrap();
    assert!(pool.contains(&other));
    assert_eq!(pool.counts(), (1, 2));
}

#[test]
fn queued_remote_transactions_expire() {
    let pool = pool(PoolConfig {
        lifetime: Duration::from_secs(100),
        ..Default::default()
    });
    let begun = Instant::now();
    for (key, tx_nonce) in [(1, 0), (1, 2), (1, 3), (2, 5)] {
        add(&pool, key, tx_nonce, 5).unwrap();
    }
    add_local(&pool, 3, 5, 5).unwrap();
    assert_eq!(pool.expire(begun + Duration::from_secs(99)), 0);
    let generation = pool.generation();
    assert_eq!(pool.expire(Instant::now() + Duration::from_secs(101)), 3);
    assert!(pool.generation() > generation);
    assert_eq!(pool.counts(), (1, 1));
    assert_eq!(
        (nonces(&pool, 1), nonces(&pool, 3)),
        ((vec![0], vec![]), (vec![], vec![5]))
    );
}

#[test]
fn a_new_head_drops_mined_and_unaffordable_transactions() {
    let pool = pool(PoolConfig::default());
    for nonce in 0..4 {
        add(&pool, 1, nonce, 5).unwrap();
    }
    let head = |state| pool.follow_head(next(9_000_000), [(who(1), state)], []);
    head(rich(2));
    assert_eq!(nonces(&pool, 1), (vec![2, 3], vec![]));
    // Each can be paid alone, but not both.
    let one = SenderState {
        balance: poor(2, 1, 5).balance + U256::from(5),
        ..rich(2)
    };
    head(one);
    assert_eq!(nonces(&pool, 1), (vec![2], vec![3]));
    head(rich(2));
    assert_eq!(pool.counts(), (2, 0));
    head(poor(2, 0, 0));
    assert_eq!(pool.counts(), (0, 0));
    assert!(pool.senders().is_empty());
}

#[test]
fn a_lower_gas_limit_applies_to_all_accounts() {
    let pool = pool(PoolConfig::default());
    for (key, gas) in [(1, 5000), (2, 4000)] {
        for tx_nonce in 0..2 {
            let gas = if tx_nonce == 0 { gas } else { GAS };
            let transaction = Transaction {
                gas,
                ..transfer(tx_nonce, 5)
            };
            let transaction = Transaction {
                value: U256::from(key),
                ..transaction
            };
            pool.add(transaction, who(key), rich(0), TxOrigin::Local).unwrap();
        }
    }
    pool.follow_head(next(5000), [], []);
    assert_eq!(pool.counts(), (4, 0));
    pool.follow_head(next(4999), [], []);
    assert_eq!(
        (nonces(&pool, 1), nonces(&pool, 2)),
        ((vec![], vec![1]), (vec![0, 1], vec![]))
    );
    let error = add(&pool, 3, 0, 5).map(|_| ());
    assert_eq!(error, Ok(()));
    let error = pool.add(
        Transaction {
            gas: 5000,
            ..transfer(0, 5)
        },
        who(4),
        rich(0),
        TxOrigin::Local,
    );
    assert_eq!(
        error,
        Err(PoolError::BlockGas {
            got: 5000,
            limit: 4999
        })
    );
}

#[test]
fn transactions_of_reverted_blocks_return_before_limits_are_enforced() {
    let config = PoolConfig {
        account_queue: 1,
        global_queue: 1,
        ..Default::default()
    };
    let pool = pool(config);
    let returning = |key, tx_nonce, price| RevertedTransaction {
        transaction: Transaction {
            value: U256::from(key),
            ..transfer(tx_nonce, price)
        },
        sender: who(key),
        sender_state: rich(0),
    };
    for nonce in 0..5 {
        add(&pool, 1, nonce, 5).unwrap();
    }
    add_local(&pool, 2, 0, 0).unwrap();
    let cursor = pool.pending_cursor();
    pool.follow_head(next(9_000_000), [(who(1), rich(2)), (who(2), rich(1))], []);
    assert_eq!(pool.counts(), (3, 0));
    // Three transactions are queued until the two before them have returned, all in one step.
    let reverted = [
        returning(1, 0, 5),
        returning(1, 1, 5),
        returning(2, 0, 0),
        returning(3, 0, 0),
    ];
    pool.follow_head(next(9_000_000), [(who(1), rich(0)), (who(2), rich(0))], reverted);
    assert_eq!(nonces(&pool, 1).0, [0, 1, 2, 3, 4]);
    // Local transactions stay local. The price floor holds for the remote one.
    assert_eq!((nonces(&pool, 2).0, nonces(&pool, 3).0), (vec![0], vec![]));
    assert!(pool.is_local(&who(2)) && !pool.is_local(&who(1)));
    // The returned transactions are announced. Those that were pending before are not.
    assert_eq!(pool.pending_since(cursor, usize::MAX).hashes.len(), 3);
}

#[test]
fn each_transaction_is_announced_once_when_it_becomes_pending() {
    let pool = pool(PoolConfig::default());
    let first = pool.pending_cursor();
    let second = add(&pool, 1, 1, 5).unwrap();
    assert!(pool.pending_since(first, usize::MAX).hashes.is_empty());
    let before = add(&pool, 1, 0, 5).unwrap();
    let news = pool.pending_since(first, usize::MAX);
    assert_eq!((news.hashes, news.missed), (vec![before, second], 0));
    let replaced = add(&pool, 1, 1, 6).unwrap();
    assert_eq!(pool.pending_since(news.cursor, usize::MAX).hashes, [replaced]);
    assert!(
        pool.pending_since(pool.pending_cursor(), usize::MAX)
            .hashes
            .is_empty()
    );
}

#[test]
fn a_higher_price_floor_evicts_cheaper_transactions() {
    let pool = pool(PoolConfig::default());
    for (key, price) in [(1, 5), (2, 6), (3, 7)] {
        add(&pool, key, 0, price).unwrap();
    }
    add_local(&pool, 4, 0, 0).unwrap();
    pool.set_price_floor(gsha(6));
    assert_eq!((pool.price_floor(), pool.counts()), (gsha(6), (3, 0)));
    assert!(matches!(add(&pool, 1, 0, 5), Err(PoolError::Underpriced { .. })));
    pool.set_price_floor(gsha(1));
    add(&pool, 1, 0, 5).unwrap();
}

#[test]
fn block_builders_get_the_highest_gas_price_first_and_nonces_in_order() {
    let pool = pool(PoolConfig::default());
    for (key, tx_nonce, price) in [(1, 0, 5), (1, 1, 50), (2, 0, 10), (3, 0, 10), (4, 0, 99)] {
        add(&pool, key, tx_nonce, price).unwrap();
    }
    let mut ready = pool.ready();
    let mut order = Vec::new();
    while let Some(best) = ready.best() {
        let price = best.transaction.gas_price / gsha(1);
        order.push((best.sender, price.to::<u64>()));
        if price == U256::from(99) {
            ready.skip_sender(best.sender)
        } else {
            ready.mark_included(best.sender)
        }
    }
    let expected = [(4, 99), (2, 10), (3, 10), (1, 5), (1, 50)];
    assert_eq!(order, expected.map(|(key, price)| (who(key), price)));
}
