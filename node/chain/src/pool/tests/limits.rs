//! Tests of the limits: which transactions are refused, evicted and dropped.

use super::*;

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
    // A local account may queue as many. None of them is evicted, so a lower nonce has no place.
    add_local(&pool, 1, 3, 0).unwrap();
    add_local(&pool, 1, 4, 0).unwrap();
    for tx_nonce in [2, 5] {
        let error = PoolError::AccountQueue {
            got: 2,
            max: 2,
            missing: 0,
        };
        assert_eq!(add_local(&pool, 1, tx_nonce, 5), Err(error));
    }
    add_local(&pool, 1, 3, 6).unwrap();
    for tx_nonce in 0..2 {
        add_local(&pool, 1, tx_nonce, 0).unwrap();
    }
    assert_eq!(nonces(&pool, LOCAL + 1), (vec![0, 1], vec![3, 4]));
    add_local(&pool, 1, 2, 0).unwrap();
    assert_eq!(nonces(&pool, LOCAL + 1), (vec![0, 1, 2, 3, 4], vec![]));
}

#[test]
fn a_local_account_fills_a_quarter_of_the_pool() {
    let pool = pool(PoolConfig {
        account_slots: 1,
        global_slots: 10,
        global_queue: 2,
        ..Default::default()
    });
    for tx_nonce in 0..3 {
        add_local(&pool, 1, tx_nonce, 0).unwrap();
    }
    let full = PoolError::Full {
        what: "slots of this local account",
        got: 3,
        max: 3,
    };
    assert_eq!(add_local(&pool, 1, 3, 5), Err(full.clone()));
    add_local(&pool, 1, 2, 5).unwrap();
    let large = Transaction {
        input: vec![0; SLOT_BYTES].into(),
        gas: 1_000_000,
        ..transfer(2, 6)
    };
    assert_eq!(pool.add(large, who(LOCAL + 1), rich(0)), Err(full));
    add_local(&pool, 2, 0, 0).unwrap();
    // A mined transaction counts no more.
    pool.follow_head(next(9_000_000), [(who(LOCAL + 1), rich(2))], []);
    let later = |tx_nonce| pool.add(transfer(tx_nonce, 0), who(LOCAL + 1), rich(2));
    assert!(later(3).is_ok() && later(4).is_ok() && later(5).is_err());
    assert_eq!(pool.counts(), (4, 0));
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
    let local = nonces(&pool, LOCAL + 9).0;
    assert_eq!(local.len(), 20, "local transactions are not evicted");
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
    assert_eq!(nonces(&pool, LOCAL + 6).0, [0]);
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
        pool.add(large(3), who(9), rich(0)),
        Err(PoolError::Underpriced { got, expected })
    );
    assert_eq!(pool.counts(), (4, 0));
    pool.add(large(4), who(9), rich(0)).unwrap();
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
        (nonces(&pool, 1), nonces(&pool, LOCAL + 3)),
        ((vec![0], vec![]), (vec![], vec![5]))
    );
}
