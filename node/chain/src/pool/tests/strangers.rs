//! Tests of what strangers may do, and of what local accounts may do beyond that.

use super::*;

/// A pool, and the accounts that are local in it.
fn pool_with_changing_locals(config: PoolConfig) -> (TxPool, Arc<Mutex<Vec<Address>>>) {
    let locals = Arc::new(Mutex::new(Vec::new()));
    let asked = locals.clone();
    let pool = pool_with(PoolConfig {
        locals: Some(LocalAccounts::new(move |address| asked.lock().contains(address))),
        ..config
    });
    (pool, locals)
}

#[test]
fn an_account_becomes_local_with_all_its_transactions() {
    let (pool, locals) = pool_with_changing_locals(PoolConfig {
        global_slots: 2,
        global_queue: 1,
        ..Default::default()
    });
    let remote = add(&pool, 1, 0, 5).unwrap();
    *locals.lock() = vec![who(1)];
    assert!(pool.is_local(&who(1)) && !pool.is_local(&who(2)));
    add(&pool, 1, 1, 0).unwrap();
    add(&pool, 1, 2, 0).unwrap();
    // The transactions fill the pool. The one from before is not evicted either.
    assert!(matches!(add(&pool, 2, 0, 90), Err(PoolError::Full { .. })));
    assert!(pool.contains(&remote));
    assert_eq!(pool.local_transactions().len(), 3);
    pool.follow_head(next(9_000_000), [(who(1), rich(3))], []);
    assert_eq!(pool.counts(), (0, 0));
    pool.add(transfer(3, 0), who(1), rich(3)).unwrap();
    // If there are no local accounts, the price floor holds for all.
    let pool = pool_with(PoolConfig::default());
    assert!(matches!(
        add_local(&pool, 1, 0, 0),
        Err(PoolError::Underpriced { .. })
    ));
    add_local(&pool, 1, 0, 5).unwrap();
    assert!(pool.local_transactions().is_empty() && !pool.is_local(&who(LOCAL + 1)));
}

#[test]
fn limits_and_price_floor_apply_to_an_account_that_is_local_no_more() {
    let (pool, locals) = pool_with_changing_locals(PoolConfig {
        account_slots: 2,
        global_slots: 3,
        account_queue: 2,
        ..Default::default()
    });
    *locals.lock() = vec![who(1)];
    for (tx_nonce, price) in [(0, 5), (1, 5), (2, 5), (3, 5), (5, 0), (6, 5)] {
        add(&pool, 1, tx_nonce, price).unwrap();
    }
    assert_eq!(nonces(&pool, 1), (vec![0, 1, 2, 3], vec![5, 6]));
    locals.lock().clear();
    let generation = pool.generation();
    // The account's next transaction is refused, and its earlier ones are remote now.
    assert!(matches!(add(&pool, 1, 7, 0), Err(PoolError::Underpriced { .. })));
    assert_eq!(nonces(&pool, 1), (vec![0, 1, 2], vec![6]));
    assert!(pool.generation() > generation);
    assert!(pool.local_transactions().is_empty());
    // A block builder gets no transaction below the floor.
    let mut ready = pool.ready();
    while let Some(best) = ready.best() {
        assert!(best.transaction.gas_price >= pool.price_floor());
        ready.mark_included(best.sender);
    }
}

/// The account `number` of a stranger, and a transaction of it.
fn of_stranger(number: u64, tx_nonce: u64, gas_price: u64) -> (Address, Transaction) {
    let mut bytes = [1; 20];
    bytes[12..].copy_from_slice(&number.to_be_bytes());
    // The transaction has no signature. The input makes it differ from those of the other accounts.
    let transaction = Transaction {
        input: number.to_be_bytes().to_vec().into(),
        gas: 2 * GAS,
        ..transfer(tx_nonce, gas_price)
    };
    (bytes.into(), transaction)
}

#[test]
fn an_account_without_balance_gets_nothing_into_the_pool() {
    let pool = pool(PoolConfig::default());
    let poor = SenderState::default();
    for tx_nonce in 0..1000 {
        let (stranger, free) = of_stranger(0, tx_nonce, 0);
        let refused = pool.add(free, stranger, poor);
        assert!(matches!(refused, Err(PoolError::Underpriced { .. })));
        let (stranger, paid) = of_stranger(0, tx_nonce, 5);
        let refused = pool.add(paid, stranger, poor);
        assert!(matches!(refused, Err(PoolError::Funds { .. })));
    }
    assert_eq!(pool.counts(), (0, 0));
    assert!(pool.ready().best().is_none());
}

#[test]
fn transactions_with_missing_nonces_do_not_fill_the_pool_without_a_price_floor() {
    let config = PoolConfig {
        price_floor: U256::ZERO,
        ..Default::default()
    };
    let (account_queue, global_queue, lifetime) =
        (config.account_queue, config.global_queue, config.lifetime);
    let pool = pool(config);
    let poor = SenderState::default();
    let mut accepted = 0;
    for tx_nonce in 1..5000 {
        let (stranger, free) = of_stranger(0, tx_nonce, 0);
        accepted += usize::from(pool.add(free, stranger, poor).is_ok());
    }
    assert_eq!((accepted, pool.counts()), (account_queue, (0, account_queue)));
    for number in 1..100 {
        for tx_nonce in 1..100 {
            let (stranger, free) = of_stranger(number, tx_nonce, 0);
            let _ = pool.add(free, stranger, poor);
        }
    }
    assert_eq!(pool.counts(), (0, global_queue));
    // Others get in, with and without a missing nonce, and so does a local account.
    add(&pool, 9, 0, 5).unwrap();
    add(&pool, 10, 1, 5).unwrap();
    add_local(&pool, 1, 0, 0).unwrap();
    assert_eq!(pool.counts(), (2, global_queue));
    pool.expire(Instant::now() + lifetime + Duration::from_secs(1));
    assert_eq!(pool.counts(), (2, 0));
}

#[test]
fn free_transactions_that_fill_the_pool_give_way_to_paid_ones() {
    let pool = pool(PoolConfig {
        price_floor: U256::ZERO,
        account_slots: 2,
        global_slots: 6,
        global_queue: 4,
        ..Default::default()
    });
    // The accounts cost nothing, and each has its guaranteed transactions.
    for number in 0..20 {
        for tx_nonce in 0..2 {
            let (stranger, free) = of_stranger(number, tx_nonce, 0);
            let _ = pool.add(free, stranger, SenderState::default());
        }
    }
    assert_eq!(pool.counts(), (10, 0));
    for (key, tx_nonce) in [(1, 0), (1, 1), (2, 0)] {
        add(&pool, key, tx_nonce, 1).unwrap();
    }
    add_local(&pool, 1, 0, 0).unwrap();
    assert_eq!((nonces(&pool, 1).0, nonces(&pool, 2).0), (vec![0, 1], vec![0]));
    assert_eq!(nonces(&pool, LOCAL + 1).0, [0]);
    // A transaction that would be queued evicts none of them.
    let (stranger, gapped) = of_stranger(30, 1, 100);
    let refused = pool.add(gapped, stranger, rich(0));
    assert_eq!(refused, Err(PoolError::FutureReplacesPending { missing: 0 }));
}
