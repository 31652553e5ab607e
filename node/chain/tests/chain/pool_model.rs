//! The pool compared with a slow model of it: random transactions, heads and reorganizations.
//!
//! Without limits the pool must have exactly the transactions that the model has. With small limits
//! it must keep them, evict no local transaction, and stay unchanged when it refuses a transaction.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use chain::ChainSpec;
use chain::pool::{
    LocalAccounts, NextBlock, PoolConfig, PoolContent, PoolError, RevertedTransaction, SenderState, TxPool,
};
use primitives::{Address, B256, Bytes, Transaction, TxForm, U256};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError};

/// The number of accounts.
const ACCOUNTS: u8 = 6;
/// The number of accounts that are local: the first ones.
const LOCALS: u8 = 2;
/// The price floor.
const FLOOR: u64 = 3;
/// Gas limit of a small transaction. A large one has twice as much.
const GAS: u64 = 1000;
/// Gas limits of blocks: with room for large transactions, and without it.
const GAS_LIMITS: [u64; 2] = [9_000_000, 1500];

const fn who(account: u8) -> Address {
    Address::repeat_byte(account + 1)
}

/// A transaction to be submitted. It has no signature; its recipient is the sender, so that the
/// hashes of different senders differ.
#[derive(Clone, Copy, Debug)]
struct Sent {
    account: u8,
    /// The distance of its nonce above the account's own.
    ahead: u64,
    price: u64,
    value: u64,
    large: bool,
}

impl Sent {
    fn transaction(self, state: SenderState) -> Transaction {
        Transaction {
            form: TxForm::Native,
            syscnt: 0,
            gas_price: U256::from(self.price),
            gas: GAS * (1 + u64::from(self.large)),
            to: Some(who(self.account)),
            value: U256::from(self.value),
            input: Bytes::new(),
            ..Transaction::system(state.tx_nonce + self.ahead)
        }
    }
}

#[derive(Clone, Debug)]
enum Act {
    Add(Sent),
    /// A block with the first pending transactions of some accounts, perhaps one that the pool
    /// never had, and new balances.
    Head {
        mined: Vec<(u8, usize)>,
        strange: Option<u8>,
        balances: Vec<(u8, u64)>,
        roomy: bool,
    },
    /// The last blocks are reverted.
    Reorg {
        depth: usize,
    },
    Expire,
}

fn sent() -> impl Strategy<Value = Sent> {
    (0..ACCOUNTS, 0..7u64, 0..25u64, 0..40_000u64, any::<bool>()).prop_map(
        |(account, ahead, price, value, large)| Sent {
            account,
            ahead,
            price,
            value,
            large,
        },
    )
}

fn act() -> impl Strategy<Value = Act> {
    let head = (
        prop::collection::vec((0..ACCOUNTS, 0..3usize), 0..3),
        prop::option::weighted(0.2, 0..ACCOUNTS),
        prop::collection::vec((0..ACCOUNTS, 0..300_000u64), 0..2),
        prop::bool::weighted(0.8),
    );
    prop_oneof![
        20 => sent().prop_map(Act::Add),
        3 => head.prop_map(|(mined, strange, balances, roomy)| Act::Head { mined, strange, balances, roomy }),
        1 => (1..4usize).prop_map(|depth| Act::Reorg { depth }),
        1 => Just(Act::Expire),
    ]
}

/// The parts of the chain's head that the pool knows.
#[derive(Clone, Debug)]
struct Head {
    states: Vec<SenderState>,
    mined: Vec<(u8, Transaction)>,
    gas_limit: u64,
}

/// The transactions that should be in the pool: one list, which is searched from end to end each
/// time.
#[derive(Clone, Debug, Default)]
struct Model {
    waiting: BTreeMap<(u8, u64), Transaction>,
}

fn cost(transaction: &Transaction) -> U256 {
    transaction.gas_price * U256::from(transaction.gas) + transaction.value
}

impl Model {
    /// The nonces of pending transactions.
    fn pending(&self, account: u8, state: SenderState) -> Vec<u64> {
        let mut left = state.balance;
        let mut pending = Vec::new();
        for tx_nonce in state.tx_nonce.. {
            let Some(next) = self.waiting.get(&(account, tx_nonce)) else {
                break;
            };
            let Some(rest) = left.checked_sub(cost(next)) else {
                break;
            };
            left = rest;
            pending.push(tx_nonce);
        }
        pending
    }

    /// Whether a pool without limits accepts the transaction.
    fn accepts(&self, account: u8, transaction: &Transaction, head: &Head) -> bool {
        let state = head.states[usize::from(account)];
        let local = account < LOCALS;
        let price = transaction.gas_price;
        if transaction.gas > head.gas_limit
            || (!local && price < U256::from(FLOOR))
            || transaction.tx_nonce < state.tx_nonce
        {
            return false;
        }
        let old = self.waiting.get(&(account, transaction.tx_nonce));
        let enough = |old: &Transaction| {
            price > old.gas_price && price * U256::from(100) >= old.gas_price * U256::from(110)
        };
        let pending = self.pending(account, state).into_iter();
        let other_nonces = pending.filter(|tx_nonce| *tx_nonce != transaction.tx_nonce);
        let all = other_nonces.fold(cost(transaction), |sum, tx_nonce| {
            sum + cost(&self.waiting[&(account, tx_nonce)])
        });
        old.is_none_or(enough) && all <= state.balance
    }

    fn insert(&mut self, account: u8, transaction: Transaction) {
        self.waiting.insert((account, transaction.tx_nonce), transaction);
    }

    fn follow(&mut self, head: &Head) {
        self.waiting.retain(|(account, tx_nonce), transaction| {
            let state = head.states[usize::from(*account)];
            *tx_nonce >= state.tx_nonce
                && cost(transaction) <= state.balance
                && transaction.gas <= head.gas_limit
        });
    }

    /// The transactions of `account` by nonce: pending, queued.
    fn of(&self, account: u8, state: SenderState) -> (BTreeMap<u64, B256>, BTreeMap<u64, B256>) {
        let pending = self.pending(account, state);
        let all = self.waiting.range((account, 0)..=(account, u64::MAX));
        all.map(|((_, tx_nonce), transaction)| (*tx_nonce, transaction.hash()))
            .partition(|(tx_nonce, _)| pending.contains(tx_nonce))
    }
}

struct World {
    pool: TxPool,
    config: PoolConfig,
    limited: bool,
    model: Model,
    heads: Vec<Head>,
}

fn hashes(part: &BTreeMap<Address, BTreeMap<u64, Arc<Transaction>>>, account: u8) -> BTreeMap<u64, B256> {
    let all = part.get(&who(account)).into_iter().flatten();
    all.map(|(tx_nonce, transaction)| (*tx_nonce, transaction.hash()))
        .collect()
}

fn all_hashes(content: &PoolContent) -> Vec<(bool, u8, u64, B256)> {
    let mut all = Vec::new();
    for account in 0..ACCOUNTS {
        for (pending, part) in [(true, &content.pending), (false, &content.queued)] {
            let of = hashes(part, account);
            all.extend(
                of.into_iter()
                    .map(|(tx_nonce, hash)| (pending, account, tx_nonce, hash)),
            );
        }
    }
    all
}

impl World {
    fn new(config: PoolConfig, limited: bool) -> Self {
        let state = SenderState {
            tx_nonce: 0,
            balance: U256::from(200_000),
        };
        let head = Head {
            states: vec![state; usize::from(ACCOUNTS)],
            mined: Vec::new(),
            gas_limit: GAS_LIMITS[0],
        };
        let next = NextBlock {
            number: 1,
            gas_limit: head.gas_limit,
        };
        let config = PoolConfig {
            locals: Some(LocalAccounts::new(|address| {
                (0..LOCALS).any(|account| who(account) == *address)
            })),
            ..config
        };
        Self {
            pool: TxPool::new(Arc::new(ChainSpec::dev()), config.clone(), next),
            config,
            limited,
            model: Model::default(),
            heads: vec![head],
        }
    }

    fn head(&self) -> &Head {
        self.heads.last().expect("block 0 is never reverted")
    }

    fn run(&mut self, act: Act) -> Result<(), TestCaseError> {
        match act {
            Act::Add(sent) => self.add(sent)?,
            Act::Head {
                mined,
                strange,
                balances,
                roomy,
            } => self.mine(mined, strange, balances, roomy),
            Act::Reorg { depth } => self.reorganize(depth),
            Act::Expire => {
                let expired = self.pool.expire(Instant::now() + Duration::from_secs(1_000_000));
                let mut expected = 0;
                for account in LOCALS..ACCOUNTS {
                    let (_, queued) = self.model.of(account, self.head().states[usize::from(account)]);
                    expected += queued.len();
                    let model = &mut self.model.waiting;
                    for tx_nonce in queued.keys() {
                        drop(model.remove(&(account, *tx_nonce)));
                    }
                }
                prop_assert!(self.limited || expired == expected);
            }
        }
        self.check()
    }

    fn add(&mut self, sent: Sent) -> Result<(), TestCaseError> {
        let state = self.head().states[usize::from(sent.account)];
        let transaction = sent.transaction(state);
        let hash = transaction.hash();
        let before = all_hashes(&self.pool.content());
        let accepts = self.model.accepts(sent.account, &transaction, self.head());
        let result = self.pool.add(transaction.clone(), who(sent.account), state);
        match &result {
            Ok(got) => {
                prop_assert!(accepts, "{transaction:?}");
                prop_assert_eq!(*got, hash);
                prop_assert!(
                    self.pool.contains(&hash),
                    "an accepted transaction is in the pool"
                );
                self.model.insert(sent.account, transaction);
            }
            Err(error) => {
                let is_limit = matches!(
                    error,
                    PoolError::Full { .. }
                        | PoolError::AccountQueue { .. }
                        | PoolError::FutureReplacesPending { .. }
                        | PoolError::Underpriced { .. }
                );
                prop_assert!(!accepts || (self.limited && is_limit), "{error}: {transaction:?}");
                prop_assert_eq!(
                    all_hashes(&self.pool.content()),
                    before,
                    "{} changed the pool",
                    error
                );
            }
        }
        Ok(())
    }

    fn mine(&mut self, mined: Vec<(u8, usize)>, strange: Option<u8>, balances: Vec<(u8, u64)>, roomy: bool) {
        let content = self.pool.content();
        let mut head = Head {
            mined: Vec::new(),
            gas_limit: GAS_LIMITS[usize::from(!roomy)],
            ..self.head().clone()
        };
        for (account, count) in mined {
            let state = &mut head.states[usize::from(account)];
            let first = state.tx_nonce;
            let pending = content.pending.get(&who(account)).into_iter().flatten();
            for (_, transaction) in pending.skip_while(|(nonce, _)| **nonce < first).take(count) {
                state.tx_nonce += 1;
                state.balance -= cost(transaction);
                head.mined.push((account, (**transaction).clone()));
            }
        }
        if let Some(account) = strange {
            let state = &mut head.states[usize::from(account)];
            let sent = Sent {
                account,
                ahead: 0,
                price: 0,
                value: 0,
                large: true,
            };
            head.mined.push((account, sent.transaction(*state)));
            state.tx_nonce += 1;
        }
        for (account, balance) in balances {
            head.states[usize::from(account)].balance = U256::from(balance);
        }
        self.heads.push(head);
        self.follow(&self.heads[self.heads.len() - 2].states.clone(), Vec::new());
    }

    fn reorganize(&mut self, depth: usize) {
        let depth = depth.min(self.heads.len() - 1);
        let before = self.head().states.clone();
        let reverted = self.heads.split_off(self.heads.len() - depth);
        self.follow(
            &before,
            reverted.into_iter().flat_map(|head| head.mined).collect(),
        );
    }

    /// Lets pool and model follow the last head. `before` are the accounts' states at the previous
    /// head.
    fn follow(&mut self, before: &[SenderState], reverted: Vec<(u8, Transaction)>) {
        let head = self.head().clone();
        let changed = (0..ACCOUNTS).filter(|account| {
            let index = usize::from(*account);
            before[index] != head.states[index]
        });
        let states: Vec<_> = changed
            .map(|account| (who(account), head.states[usize::from(account)]))
            .collect();
        let returning: Vec<_> = reverted
            .iter()
            .map(|(account, transaction)| RevertedTransaction {
                transaction: transaction.clone(),
                sender: who(*account),
                sender_state: head.states[usize::from(*account)],
            })
            .collect();
        let next = NextBlock {
            number: self.heads.len() as u64,
            gas_limit: head.gas_limit,
        };
        self.pool.follow_head(next, states, returning);
        self.model.follow(&head);
        for (account, transaction) in reverted {
            if self.model.accepts(account, &transaction, &head) {
                self.model.insert(account, transaction);
            }
        }
    }

    fn check(&mut self) -> Result<(), TestCaseError> {
        let content = self.pool.content();
        let head = self.head().clone();
        let announced: BTreeSet<_> = self
            .pool
            .pending_since(0, usize::MAX)
            .hashes
            .into_iter()
            .collect();
        let (mut pending_all, mut queued_all, mut remote_longest, mut remote_queued) = (0, 0, 0, 0);
        for account in 0..ACCOUNTS {
            let state = head.states[usize::from(account)];
            let local = account < LOCALS;
            let (pending, queued) = (
                hashes(&content.pending, account),
                hashes(&content.queued, account),
            );
            if self.limited && !local {
                // The model does not know which transactions the limits have evicted.
                let kept = |(of, tx_nonce): &(u8, u64)| {
                    *of != account || pending.contains_key(tx_nonce) || queued.contains_key(tx_nonce)
                };
                self.model.waiting.retain(|key, _| kept(key));
            }
            let expected = self.model.of(account, state);
            prop_assert_eq!(
                (&pending, &queued),
                (&expected.0, &expected.1),
                "account {}",
                account
            );
            prop_assert!(pending.values().all(|hash| announced.contains(hash)));
            for (tx_nonce, hash) in pending.iter().chain(&queued) {
                let found = self.pool.get(hash).expect("the pool has it");
                prop_assert_eq!(
                    (found.sender, found.transaction.tx_nonce),
                    (who(account), *tx_nonce)
                );
            }
            let next =
                (state.tx_nonce..).find(|nonce| !pending.contains_key(nonce) && !queued.contains_key(nonce));
            let waits = !pending.is_empty() || !queued.is_empty();
            prop_assert_eq!(self.pool.next_nonce(&who(account)), next.filter(|_| waits));
            pending_all += pending.len();
            queued_all += queued.len();
            if !local {
                prop_assert!(queued.len() <= self.config.account_queue);
                remote_longest = remote_longest.max(pending.len());
                remote_queued += queued.len();
            }
        }
        prop_assert_eq!(self.pool.counts(), (pending_all, queued_all));
        // If there are too many transactions, no remote account has more than its guaranteed ones,
        // and none has queued ones.
        prop_assert!(pending_all <= self.config.global_slots || remote_longest <= self.config.account_slots);
        prop_assert!(queued_all <= self.config.global_queue || remote_queued == 0);
        let has_remote = remote_longest + remote_queued > 0;
        prop_assert!(pending_all + queued_all <= self.config.slots_max() || !has_remote);
        self.check_ready(&content, pending_all)
    }

    /// A block builder gets all pending transactions, each time the one with the highest gas price
    /// among the accounts' first ones.
    fn check_ready(&self, content: &PoolContent, count: usize) -> Result<(), TestCaseError> {
        let mut left = content.pending.clone();
        let mut ready = self.pool.ready();
        for _ in 0..count {
            let best = ready.best().expect("a pending transaction");
            let firsts = left.values().filter_map(|all| all.first_key_value());
            let highest = firsts.map(|(_, first)| first.gas_price).max();
            prop_assert_eq!(Some(best.transaction.gas_price), highest);
            let own = left.get_mut(&best.sender).and_then(BTreeMap::pop_first);
            prop_assert_eq!(own.map(|(_, first)| first.hash()), Some(best.hash));
            ready.mark_included(best.sender);
        }
        prop_assert!(ready.best().is_none());
        Ok(())
    }
}

fn run(config: PoolConfig, limited: bool, acts: Vec<Act>) -> Result<(), TestCaseError> {
    let config = PoolConfig {
        price_floor: U256::from(FLOOR),
        ..config
    };
    let mut world = World::new(config, limited);
    acts.into_iter().try_for_each(|act| world.run(act))
}

proptest! {
    #![proptest_config(Config { cases: 400, failure_persistence: None, ..Config::default() })]

    #[test]
    fn without_limits_the_pool_is_the_model(acts in prop::collection::vec(act(), 1..120)) {
        run(PoolConfig::default(), false, acts)?;
    }

    #[test]
    fn limits_are_kept_and_no_local_transaction_is_evicted(
        acts in prop::collection::vec(act(), 1..160),
        account_slots in 1..4usize,
        global_slots in 4..12usize,
        account_queue in 1..5usize,
        global_queue in 2..8usize,
    ) {
        let config = PoolConfig { account_slots, global_slots, account_queue, global_queue, ..PoolConfig::default() };
        run(config, true, acts)?;
    }
}
