//! Tests of the pool: every refusal, order, replacement, eviction, following the head.

use super::*;
use primitives::{SecretKey, UnsignedTransaction};

fn pool(config: PoolConfig) -> TxPool {
    let next = NextBlock {
        number: 1,
        gas_limit: 9_000_000,
    };
    TxPool::new(Arc::new(ChainSpec::dev()), config, next)
}

fn rich(tx_nonce: u64) -> Standing {
    Standing {
        tx_nonce,
        balance: U256::from(10u64).pow(U256::from(21u64)),
    }
}

fn transfer(key: u8, tx_nonce: u64, gas_price: u64) -> (Transaction, Address) {
    let key = SecretKey::from_bytes(&[key; 32]).unwrap();
    let unsigned = UnsignedTransaction {
        tx_nonce,
        gas_price: U256::from(gas_price) * U256::from(1_000_000_000u64),
        gas: 1000,
        to: Some(Address::repeat_byte(1)),
        ..Default::default()
    };
    (unsigned.sign(&key, 100, TxForm::Native), key.address())
}

fn add(pool: &TxPool, key: u8, tx_nonce: u64, gas_price: u64) -> Result<B256, PoolError> {
    let (transaction, sender) = transfer(key, tx_nonce, gas_price);
    pool.add(transaction, sender, rich(0), Origin::Remote)
}

#[test]
fn pending_and_queued_by_missing_nonces() {
    let pool = pool(PoolConfig::default());
    for tx_nonce in [0, 1, 3] {
        add(&pool, 1, tx_nonce, 5).unwrap();
    }
    assert_eq!(pool.counts(), (2, 1));
    let sender = transfer(1, 0, 5).1;
    assert_eq!(pool.next_nonce(&sender), Some(2));
    add(&pool, 1, 2, 5).unwrap();
    assert_eq!(pool.counts(), (4, 0));
    assert_eq!(pool.next_nonce(&sender), Some(4));
    assert_eq!(pool.content().pending[&sender].len(), 4);
}

#[test]
fn a_replacement_costs_ten_percent_more() {
    let pool = pool(PoolConfig::default());
    let first = add(&pool, 1, 0, 100).unwrap();
    assert!(matches!(
        add(&pool, 1, 0, 109),
        Err(PoolError::ReplacementUnderpriced { .. })
    ));
    let second = add(&pool, 1, 0, 110).unwrap();
    assert!(pool.get(&first).is_none());
    assert!(pool.get(&second).is_some());
    assert_eq!(pool.counts(), (1, 0));
}

#[test]
fn each_refusal_says_why() {
    let pool = pool(PoolConfig::default());
    let check = |change: &dyn Fn(&mut Transaction, &mut Standing)| {
        let (mut transaction, sender) = transfer(1, 5, 5);
        let mut standing = rich(5);
        change(&mut transaction, &mut standing);
        pool.add(transaction, sender, standing, Origin::Remote)
    };
    let hash = check(&|_, _| ()).unwrap();
    assert_eq!(check(&|_, _| ()), Err(PoolError::Known(hash)));
    assert!(matches!(
        check(&|t, _| t.tx_nonce = 4),
        Err(PoolError::NonceTooLow { got: 4, expected: 5 })
    ));
    assert!(matches!(
        check(&|_, s| s.balance = U256::from(1)),
        Err(PoolError::Known(_))
    ));
    assert!(matches!(
        check(&|t, _| t.gas = 999),
        Err(PoolError::IntrinsicGas { .. })
    ));
    assert!(matches!(
        check(&|t, _| t.gas = 9_000_001),
        Err(PoolError::BlockGas { .. })
    ));
    assert!(matches!(
        check(&|t, _| t.gas_price = U256::from(1)),
        Err(PoolError::Underpriced { .. })
    ));
    assert!(matches!(
        check(&|t, _| t.sharding_flag = 1),
        Err(PoolError::ShardingFlag(1))
    ));
    assert!(matches!(check(&|t, _| t.syscnt = 1), Err(PoolError::System)));
    assert!(matches!(
        check(&|t, _| (t.form, t.tx_nonce) = (TxForm::System, 6)),
        Err(PoolError::System)
    ));
    assert!(matches!(
        check(&|t, _| t.input = vec![0; 200_000].into()),
        Err(PoolError::Oversized { .. })
    ));
    let poor = |t: &mut Transaction, s: &mut Standing| {
        t.tx_nonce = 6;
        s.balance = U256::from(1);
    };
    assert!(matches!(check(&poor), Err(PoolError::Funds { .. })));
    let huge = |t: &mut Transaction, _: &mut Standing| {
        t.tx_nonce = 6;
        t.gas_price = U256::MAX;
    };
    assert!(matches!(check(&huge), Err(PoolError::Funds { .. })));
    let (cheap, sender) = transfer(2, 0, 0);
    assert!(pool.add(cheap, sender, rich(0), Origin::Local).is_ok());
}

#[test]
fn an_account_may_queue_only_so_many() {
    let pool = pool(PoolConfig {
        account_queue_max: 2,
        ..Default::default()
    });
    add(&pool, 1, 2, 5).unwrap();
    add(&pool, 1, 3, 5).unwrap();
    let error = add(&pool, 1, 4, 5).unwrap_err();
    assert_eq!(
        error,
        PoolError::AccountQueue {
            got: 2,
            max: 2,
            missing: 0
        }
    );
    add(&pool, 1, 0, 5).unwrap();
}

#[test]
fn a_full_pool_evicts_the_cheapest_of_others() {
    let pool = pool(PoolConfig {
        transactions_max: 2,
        ..Default::default()
    });
    let cheap = add(&pool, 1, 0, 5).unwrap();
    add(&pool, 2, 0, 7).unwrap();
    assert!(matches!(add(&pool, 3, 0, 5), Err(PoolError::Underpriced { .. })));
    let dear = add(&pool, 3, 0, 6).unwrap();
    assert!(pool.get(&cheap).is_none());
    assert!(pool.get(&dear).is_some());
    assert_eq!(pool.counts(), (2, 0));
}

#[test]
fn a_new_head_takes_what_was_mined_or_cannot_be_paid() {
    let pool = pool(PoolConfig::default());
    for tx_nonce in 0..4 {
        add(&pool, 1, tx_nonce, 5).unwrap();
    }
    let sender = transfer(1, 0, 5).1;
    let next = NextBlock {
        number: 2,
        gas_limit: 9_000_000,
    };
    pool.follow_head(next, [(sender, rich(2))]);
    assert_eq!(pool.counts(), (2, 0));
    pool.follow_head(
        next,
        [(
            sender,
            Standing {
                tx_nonce: 2,
                balance: U256::ZERO,
            },
        )],
    );
    assert_eq!(pool.counts(), (0, 0));
    assert!(pool.senders().is_empty());
}

#[test]
fn blocks_take_the_dearest_first_and_nonces_in_order() {
    let pool = pool(PoolConfig::default());
    for (key, tx_nonce, price) in [(1, 0, 5), (1, 1, 50), (2, 0, 10), (3, 0, 10), (4, 0, 99)] {
        add(&pool, key, tx_nonce, price).unwrap();
    }
    let mut ready = pool.ready();
    let mut order = Vec::new();
    while let Some(best) = ready.best() {
        let price = best.transaction.gas_price / U256::from(1_000_000_000u64);
        order.push((best.sender, price.to::<u64>()));
        if price == U256::from(99) {
            ready.refused(best.sender)
        } else {
            ready.taken(best.sender)
        }
    }
    let key = |key| transfer(key, 0, 0).1;
    assert_eq!(
        order,
        [
            (key(4), 99),
            (key(2), 10),
            (key(3), 10),
            (key(1), 5),
            (key(1), 50)
        ]
    );
}

#[test]
fn a_replacement_takes_no_room_and_makes_no_queue_longer() {
    let pool = pool(PoolConfig {
        transactions_max: 3,
        account_queue_max: 2,
        ..Default::default()
    });
    let other = add(&pool, 2, 0, 5).unwrap();
    add(&pool, 1, 5, 10).unwrap();
    add(&pool, 1, 6, 10).unwrap();
    // Full, and the account's queue too: neither forbids, nobody leaves.
    add(&pool, 1, 6, 11).unwrap();
    assert!(pool.get(&other).is_some());
    assert_eq!(pool.counts(), (1, 2));
}
