//! Bounds and order of the pool.

use primitives::{Address, TxForm, U256, UnsignedTransaction};

use super::*;

const ONE: Address = Address::repeat_byte(1);
const TWO: Address = Address::repeat_byte(2);

fn numbered(number: u64) -> Address {
    Address::from_word(U256::from(number + 1000).into())
}

fn transaction(sender: Address, nonce: u64, bytes: usize) -> Transaction {
    let unsigned = UnsignedTransaction {
        tx_nonce: nonce,
        input: [sender.as_slice(), &vec![0; bytes]].concat().into(),
        ..Default::default()
    };
    unsigned.with_form(TxForm::Native, 0)
}

fn incoming(class: SenderClass, sender: Address, nonce: u64, next: u64) -> IncomingTransaction {
    IncomingTransaction {
        transaction: transaction(sender, nonce, 0),
        sender,
        class,
        next,
        is_message: false,
    }
}

/// Adds a transaction of an account with tokens.
fn add(pool: &mut Pool, sender: Address, nonce: u64) -> Result<(), PoolRefusal> {
    pool.add(incoming(SenderClass::Known, sender, nonce, 0), 0)
}

fn add_empty(pool: &mut Pool, sender: Address, nonce: u64) -> Result<(), PoolRefusal> {
    pool.add(incoming(SenderClass::Empty, sender, nonce, 0), 0)
}

/// The order in which cheap transactions are taken, if each uses `gas`.
fn order_with(pool: &Pool, slot: u64, gas: u64) -> Vec<(Address, u64)> {
    let (mut ready, mut order) = (pool.ready(slot), Vec::new());
    while let Some((sender, one)) = ready.next_cheap() {
        order.push((sender, one.transaction.tx_nonce));
        ready.included(sender, gas);
    }
    order
}

fn order(pool: &Pool) -> Vec<(Address, u64)> {
    order_with(pool, 0, 1000)
}

/// Compares the sums that the pool keeps with its content.
fn check_sums(pool: &Pool) {
    let (mut all, mut empty, mut lane) = (PoolShare::default(), PoolShare::default(), 0);
    for queue in pool.senders.values() {
        let mut own = PoolShare::default();
        for one in queue.waiting.values() {
            let bytes = one.bytes;
            match one.in_lane {
                true => lane += 1,
                false => own.add(PoolShare { places: 1, bytes }),
            }
        }
        assert_eq!(own, queue.share);
        all.add(own);
        if queue.class == SenderClass::Empty {
            empty.add(own);
        }
    }
    assert_eq!((all, empty, lane), (pool.all, pool.empty, pool.in_lane));
    assert_eq!(pool.hashes.len(), all.places + lane);
    assert!(all.places <= POOL_TRANSACTIONS_MAX && all.bytes <= POOL_BYTES_MAX);
}

#[test]
fn senders_take_turns_and_gaps_wait() {
    let mut pool = Pool::default();
    for (nonce, sender) in [(1, ONE), (0, TWO), (0, ONE), (3, ONE), (1, TWO)] {
        add(&mut pool, sender, nonce).unwrap();
    }
    assert_eq!(order(&pool), [(TWO, 0), (ONE, 0), (ONE, 1), (TWO, 1)]);
    let content = pool.content();
    assert_eq!(content.pending[&ONE].len(), 2);
    assert_eq!(content.queued[&ONE].keys().collect::<Vec<_>>(), [&3]);
    assert_eq!((pool.next_nonce(&ONE, 0), pool.next_nonce(&TWO, 0)), (2, 2));
    pool.head_moved(&ONE, 3, SenderClass::Known);
    assert_eq!(order(&pool), [(TWO, 0), (ONE, 3), (TWO, 1)]);
    pool.drop_transaction(&ONE, 3);
    pool.head_moved(&TWO, 2, SenderClass::Known);
    assert_eq!(order(&pool), []);
    check_sums(&pool);
}

#[test]
fn used_known_and_too_many_are_refused() {
    for (class, pending_max, queued_max) in [
        (SenderClass::Known, PENDING_PER_SENDER_MAX, QUEUED_PER_SENDER_MAX),
        (SenderClass::Empty, PENDING_PER_EMPTY_MAX, QUEUED_PER_EMPTY_MAX),
    ] {
        let mut pool = Pool::default();
        let add = |pool: &mut Pool, nonce| pool.add(incoming(class, ONE, nonce, 5), 0);
        add(&mut pool, 5).unwrap();
        assert_eq!(add(&mut pool, 5), Err(PoolRefusal::Known));
        let mut other = incoming(class, ONE, 5, 5);
        other.transaction = transaction(ONE, 5, 1);
        assert_eq!(pool.add(other, 0), Err(PoolRefusal::NonceTaken(5)));
        assert!(matches!(add(&mut pool, 4), Err(PoolRefusal::NonceTooLow { .. })));
        for nonce in 0..queued_max as u64 {
            add(&mut pool, 7 + nonce).unwrap();
        }
        assert!(matches!(add(&mut pool, 2000), Err(PoolRefusal::Full { .. })));
        for nonce in 1..pending_max as u64 {
            match add(&mut pool, 5 + nonce) {
                Ok(()) | Err(PoolRefusal::Known) => {}
                other => panic!("{nonce}: {other:?}"),
            }
        }
        let next = 5 + pending_max as u64;
        assert!(matches!(add(&mut pool, next), Err(PoolRefusal::Full { .. })));
        let mut large = incoming(class, TWO, 0, 0);
        large.transaction = transaction(TWO, 0, TRANSACTION_BYTES_MAX);
        assert!(matches!(pool.add(large, 0), Err(PoolRefusal::Full { .. })));
        assert_eq!(pool.senders(), [ONE]);
        check_sums(&pool);
    }
}

#[test]
fn a_new_sender_finds_room_in_a_full_pool() {
    let mut pool = Pool::default();
    for sender in 0..16 {
        for nonce in 0..PENDING_PER_SENDER_MAX as u64 {
            add(&mut pool, numbered(sender), nonce).unwrap();
        }
    }
    assert_eq!(pool.all.places, POOL_TRANSACTIONS_MAX);
    // Each newcomer takes the place of a last transaction of who has most.
    for newcomer in 100..200 {
        for nonce in 0..5 {
            add(&mut pool, numbered(newcomer), nonce).unwrap();
        }
    }
    check_sums(&pool);
    let counts = |pool: &Pool, from: u64, to: u64| {
        let lens = (from..to).map(|one| pool.senders[&numbered(one)].waiting.len());
        (lens.clone().min().unwrap(), lens.max().unwrap())
    };
    let (least, most) = counts(&pool, 0, 16);
    assert!(most - least <= 1, "{least} to {most}: places are shared");
    assert_eq!(counts(&pool, 100, 200), (5, 5));
    // The senders that have most find no room, and nobody loses one because they ask.
    let next = pool.next_nonce(&numbered(0), 0);
    assert!(matches!(
        add(&mut pool, numbered(0), next),
        Err(PoolRefusal::Full {
            what: "transactions",
            ..
        })
    ));
    assert_eq!(pool.all.places, POOL_TRANSACTIONS_MAX);
}

#[test]
fn accounts_without_tokens_have_half_of_the_pool() {
    let mut pool = Pool::default();
    let half = POOL_TRANSACTIONS_MAX / EMPTY_PART;
    for sender in 0..half as u64 {
        add_empty(&mut pool, numbered(sender), 0).unwrap();
    }
    let what = "transactions of accounts without tokens";
    let refused = add_empty(&mut pool, ONE, 0);
    assert!(matches!(refused, Err(PoolRefusal::Full { what: got, .. }) if got == what));
    // Among equals, who has used most gas gives way.
    pool.charge(numbered(77), 54_000_000, 0);
    add_empty(&mut pool, ONE, 0).unwrap();
    assert!(!pool.senders.contains_key(&numbered(77)));
    // Accounts with tokens have the other half, whatever the empty ones send.
    for nonce in 0..PENDING_PER_SENDER_MAX as u64 {
        add(&mut pool, TWO, nonce).unwrap();
    }
    check_sums(&pool);
    // An account that gets tokens counts in the other half from then on.
    pool.head_moved(&ONE, 0, SenderClass::Known);
    check_sums(&pool);
    add_empty(&mut pool, numbered(77), 0).unwrap();
    check_sums(&pool);
}

#[test]
fn large_transactions_give_way_to_small_ones() {
    let mut pool = Pool::default();
    let large = TRANSACTION_BYTES_MAX - 100;
    for sender in 0..64 {
        let sender = numbered(sender);
        let transaction = transaction(sender, 0, large);
        let class = SenderClass::Known;
        let one = IncomingTransaction {
            transaction,
            ..incoming(class, sender, 0, 0)
        };
        pool.add(one, 0).unwrap();
    }
    for nonce in 0..500 {
        add(&mut pool, ONE, nonce).unwrap();
    }
    check_sums(&pool);
    assert!(pool.senders.len() >= 63);
}

#[test]
fn members_have_a_lane() {
    let mut pool = Pool::default();
    for sender in 0..16 {
        for nonce in 0..PENDING_PER_SENDER_MAX as u64 {
            add(&mut pool, numbered(sender), nonce).unwrap();
        }
    }
    let message = |nonce| IncomingTransaction {
        is_message: true,
        ..incoming(SenderClass::Known, ONE, nonce, 0)
    };
    for nonce in 0..LANE_PER_MEMBER_MAX as u64 {
        pool.add(message(nonce), 0).unwrap();
    }
    assert_eq!(pool.all.places, POOL_TRANSACTIONS_MAX, "nobody lost a place");
    let more = LANE_PER_MEMBER_MAX as u64;
    pool.add(message(more), 0).unwrap();
    assert_eq!(
        pool.in_lane, LANE_PER_MEMBER_MAX,
        "the fifth one is an ordinary one"
    );
    check_sums(&pool);
    // One message of a member comes first, whatever it has used. The others wait with all.
    pool.charge(ONE, 100_000_000, 0);
    let mut ready = pool.ready(0);
    let (sender, first) = ready.next_of_members().unwrap();
    assert_eq!((sender, first.transaction.tx_nonce), (ONE, 0));
    ready.included(sender, 1000);
    assert!(ready.next_of_members().is_none());
    assert_eq!(pool.take_unsent(1, 1, 1, 1 << 20)[0].tx_nonce, 0);
}

#[test]
fn who_has_used_least_comes_first_and_empty_accounts_after_others() {
    let mut pool = Pool::default();
    let empty = Address::repeat_byte(3);
    add_empty(&mut pool, empty, 0).unwrap();
    for nonce in 0..3 {
        add(&mut pool, ONE, nonce).unwrap();
        add(&mut pool, TWO, nonce).unwrap();
    }
    pool.charge(ONE, 2500, 0);
    let expected = [
        (TWO, 0),
        (TWO, 1),
        (TWO, 2),
        (ONE, 0),
        (ONE, 1),
        (ONE, 2),
        (empty, 0),
    ];
    assert_eq!(order_with(&pool, 0, 1000), expected);
    // An account with tokens that has used more than its share comes after empty ones.
    pool.charge(ONE, CHEAP_GAS_MAX, 0);
    assert_eq!(order(&pool)[3], (empty, 0));
    assert_eq!(order_with(&pool, 1000, 1000)[0], (ONE, 0), "all is forgotten");
}

#[test]
fn costly_transactions_wait_for_the_others() {
    let mut pool = Pool::default();
    for sender in [ONE, TWO] {
        for nonce in 0..2 {
            add(&mut pool, sender, nonce).unwrap();
        }
    }
    let mut ready = pool.ready(0);
    let (sender, one) = ready.next_cheap().unwrap();
    assert_eq!(sender, ONE);
    ready.put_aside(sender, one, CHEAP_GAS_MAX + 1);
    // The later ones of this sender wait, too.
    for nonce in 0..2 {
        let (sender, one) = ready.next_cheap().unwrap();
        assert_eq!((sender, one.transaction.tx_nonce), (TWO, nonce));
        ready.included(sender, 1000);
    }
    assert!(ready.next_cheap().is_none() && ready.has_costly());
    assert!(ready.next_costly(CHEAP_GAS_MAX).is_none());
    let (sender, one) = ready.next_costly(u64::MAX).unwrap();
    assert_eq!((sender, one.transaction.tx_nonce), (ONE, 0));
    ready.included(sender, CHEAP_GAS_MAX + 1);
    assert_eq!(ready.next_cheap().unwrap().0, ONE);
    // The pool remembers it for the next block.
    pool.note_costly(&ONE, 0, CHEAP_GAS_MAX + 1);
    assert_eq!(order(&pool), [(TWO, 0), (TWO, 1)]);
    // A transaction that is too slow comes last, and is dropped at the third time.
    let slow = |pool: &mut Pool, may_drop| pool.note_slow(&TWO, 0, may_drop);
    assert!(!slow(&mut pool, true) && !slow(&mut pool, true));
    assert_eq!(order(&pool), []);
    assert!(!slow(&mut pool, false) && slow(&mut pool, true) && !slow(&mut pool, true));
    assert_eq!(pool.content().queued[&TWO].len(), 1);
    check_sums(&pool);
}

#[test]
fn what_waits_is_sent_once_in_a_while() {
    let mut pool = Pool::default();
    for nonce in 0..3 {
        pool.add(incoming(SenderClass::Known, ONE, nonce, 0), 10).unwrap();
    }
    pool.add(incoming(SenderClass::Empty, TWO, 0, 0), 10).unwrap();
    assert_eq!(pool.take_unsent(10, 12, 64, 1 << 20).len(), 0);
    let sent = pool.take_unsent(11, 12, 2, 1 << 20);
    assert!(
        sent[0].tx_nonce == 0 && sent[1].tx_nonce == 0,
        "one of each sender first"
    );
    assert_eq!(pool.take_unsent(11, 12, 64, 1 << 20).len(), 2);
    assert_eq!(pool.take_unsent(11, 12, 64, 1 << 20).len(), 0);
    pool.expire(10 + EMPTY_SLOTS_MAX);
    assert_eq!(pool.hashes.len(), 4);
    pool.expire(11 + EMPTY_SLOTS_MAX);
    assert_eq!(pool.senders(), [ONE], "empty accounts wait for a shorter time");
    pool.expire(10 + SLOTS_MAX);
    assert_eq!(pool.hashes.len(), 3);
    pool.expire(11 + SLOTS_MAX);
    assert_eq!(pool.hashes.len(), 0);
    check_sums(&pool);
}

#[test]
fn transactions_become_pending_once_and_in_order() {
    let mut pool = Pool::default();
    let hash = |sender, nonce| transaction(sender, nonce, 0).hash();
    let news = |pool: &Pool, cursor| pool.pending_since(cursor, usize::MAX).hashes;
    add(&mut pool, ONE, 1).unwrap();
    assert!(news(&pool, 0).is_empty(), "nonce 0 is missing");
    add(&mut pool, TWO, 0).unwrap();
    add(&mut pool, ONE, 0).unwrap();
    assert_eq!(news(&pool, 0), [hash(TWO, 0), hash(ONE, 0), hash(ONE, 1)]);
    let (found, sender) = pool.get(&hash(ONE, 1)).unwrap();
    assert_eq!((found.hash(), sender), (hash(ONE, 1), ONE));
    // A block with nonce 2, which came to another pool, lets nonce 3 be executed.
    add(&mut pool, ONE, 3).unwrap();
    let cursor = pool.pending_cursor();
    pool.head_moved(&ONE, 3, SenderClass::Known);
    pool.head_moved(&ONE, 3, SenderClass::Known);
    assert_eq!(news(&pool, cursor), [hash(ONE, 3)]);
    assert!(pool.get(&hash(ONE, 1)).is_none());
    // One that was dropped and comes again is news, although a later one was told of before.
    add(&mut pool, ONE, 4).unwrap();
    pool.drop_transaction(&ONE, 3);
    let cursor = pool.pending_cursor();
    add(&mut pool, ONE, 3).unwrap();
    assert_eq!(news(&pool, cursor), [hash(ONE, 3)]);
}
