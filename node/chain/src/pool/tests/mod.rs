//! Tests of the pool, one for each rule: refusals, order, replacement, following the head, the
//! feed.
//!
//! The limits are tested in [`limits`], local accounts and strangers in [`strangers`].

mod limits;
mod strangers;

use primitives::{Bytes, TxForm};

use super::*;

/// Gas of the tests' transactions.
const GAS: u64 = 1000;
/// The first key of a local account.
const LOCAL: u8 = 0x80;

fn next(gas_limit: u64) -> NextBlock {
    NextBlock { number: 1, gas_limit }
}

/// A pool in which the accounts from [`LOCAL`] on are local.
fn pool(config: PoolConfig) -> TxPool {
    pool_with(PoolConfig {
        locals: Some(LocalAccounts::new(|address| address[0] >= LOCAL)),
        ..config
    })
}

fn pool_with(config: PoolConfig) -> TxPool {
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

fn add(pool: &TxPool, key: u8, tx_nonce: u64, gas_price: u64) -> Result<B256, PoolError> {
    // The transaction is not signed. Its value makes it differ from those of other senders.
    let transaction = Transaction {
        value: U256::from(key),
        ..transfer(tx_nonce, gas_price)
    };
    pool.add(transaction, who(key), rich(0))
}

fn add_local(pool: &TxPool, key: u8, tx_nonce: u64, gas_price: u64) -> Result<B256, PoolError> {
    add(pool, LOCAL + key, tx_nonce, gas_price)
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
    let error = pool.add(other, who(LOCAL + 2), rich(0)).unwrap_err();
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
        let added = pool.add(transaction, who(1), state);
        let error = added.map_or_else(|error| error.to_string(), |hash| hash.to_string());
        assert!(error.starts_with(expected), "got {error}, expected {expected}");
    };
    let hash = pool.add(transfer(5, 5), who(1), rich(5)).unwrap();
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
    pool.add(transfer(0, 0), who(LOCAL), rich(0)).unwrap();
}

#[test]
fn what_needs_no_sender_is_refused_without_one() {
    let pool = pool(PoolConfig::default());
    let check = |expected: &str, change: &dyn Fn(&mut Transaction)| {
        let mut transaction = transfer(6, 5);
        change(&mut transaction);
        let checked = pool.check_without_sender(&transaction, &transaction.hash());
        let error = checked.map_or_else(|error| error.to_string(), |()| "good".to_owned());
        assert!(error.starts_with(expected), "got {error}, expected {expected}");
    };
    let hash = pool.add(transfer(5, 5), who(1), rich(5)).unwrap();
    check(&format!("known transaction: {hash:x}"), &|t| t.tx_nonce = 5);
    check("intrinsic gasRemaining too low", &|t| t.gas = 999);
    check("exceeds block gasRemaining limit: got 9000001", &|t| {
        t.gas = 9_000_001
    });
    check("transaction underpriced: got 1, expected", &|t| {
        t.gas_price = U256::from(1)
    });
    check("oversized data: ", &|t| t.input = vec![0; 200_000].into());
    check("shardingFlag 1 belongs", &|t| t.sharding_flag = 1);
    check("invalid sender: ", &|t| t.syscnt = 1);
    check("Ethereum transactions do not belong", &|t| {
        t.form = TxForm::Ethereum
    });
    // Nonce and balance are those of the sender.
    check("good", &|t| t.tx_nonce = 0);
    check("good", &|t| t.value = U256::MAX);
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
            pool.add(transaction, who(key), rich(0)).unwrap();
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
    let folder = tempfile::tempdir().expect("a folder");
    let journal = folder.path().join("journal");
    let config = PoolConfig {
        journal: Some(journal.clone()),
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
    pool.follow_head(
        next(9_000_000),
        [(who(1), rich(2)), (who(LOCAL + 2), rich(1))],
        [],
    );
    assert_eq!(pool.counts(), (3, 0));
    assert_eq!(pool.rotate_journal().expect("written"), Some(0));
    // Three transactions are queued until the two before them have returned, all in one step.
    let reverted = [
        returning(1, 0, 5),
        returning(1, 1, 5),
        returning(LOCAL + 2, 0, 0),
        returning(3, 0, 0),
    ];
    pool.follow_head(
        next(9_000_000),
        [(who(1), rich(0)), (who(LOCAL + 2), rich(0))],
        reverted,
    );
    assert_eq!(nonces(&pool, 1).0, [0, 1, 2, 3, 4]);
    // The price floor holds for remote accounts only.
    let local = nonces(&pool, LOCAL + 2).0;
    assert_eq!((local, nonces(&pool, 3).0), (vec![0], vec![]));
    let journaled = returning(LOCAL + 2, 0, 0).transaction.encode();
    assert_eq!(std::fs::read(&journal).expect("readable"), journaled);
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
