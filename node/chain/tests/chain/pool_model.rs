//! The pool against a slow model of itself: random transactions, heads and reorganizations.
//!
//! Without limits the pool must hold exactly what the model holds. With small limits it must
//! keep them, lose nothing of the node's own, and stay as it was where it refuses.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use chain::ChainSpec;
use chain::pool::{
    NextBlock, PoolConfig, PoolContent, PoolError, RevertedTransaction, SenderState, TxOrigin, TxPool,
};
use primitives::{Address, B256, Bytes, Transaction, TxForm, U256};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError};

/// Accounts 0 to 5; what 0 sends is always the node's own.
const ACCOUNTS: u8 = 6;
/// Cheapest price taken from others.
const FLOOR: u64 = 3;
/// Gas of a small transaction; a large one asks for twice as much.
const GAS: u64 = 1000;
/// Gas limits of blocks: with room for large transactions, and without.
const GAS_LIMITS: [u64; 2] = [9_000_000, 1500];

fn who(account: u8) -> Address {
    Address::repeat_byte(account + 1)
}

/// A transaction without its sender, who is in its recipient so that hashes differ.
#[derive(Clone, Copy, Debug)]
struct Sent {
    account: u8,
    /// Nonces above the account's own.
    ahead: u64,
    price: u64,
    value: u64,
    large: bool,
    local: bool,
}

impl Sent {
    fn transaction(self, standing: SenderState) -> Transaction {
        Transaction {
            form: TxForm::Native,
            syscnt: 0,
            gas_price: U256::from(self.price),
            gas: GAS * (1 + u64::from(self.large)),
            to: Some(who(self.account)),
            value: U256::from(self.value),
            input: Bytes::new(),
            ..Transaction::system(standing.tx_nonce + self.ahead)
        }
    }

    fn origin(self) -> TxOrigin {
        match self.local || self.account == 0 {
            true => TxOrigin::Local,
            false => TxOrigin::Remote,
        }
    }
}

#[derive(Clone, Debug)]
enum Act {
    Add(Sent),
    /// A block with the first pending transactions of accounts, one that the pool never saw,
    /// and new balances.
    Head {
        mined: Vec<(u8, usize)>,
        strange: Option<u8>,
        balances: Vec<(u8, u64)>,
        roomy: bool,
    },
    /// The last blocks are taken back.
    Reorg {
        depth: usize,
    },
    Expire,
}

fn sent() -> impl Strategy<Value = Sent> {
    let local = prop::bool::weighted(0.05);
    (0..ACCOUNTS, 0..7u64, 0..25u64, 0..40_000u64, any::<bool>(), local).prop_map(
        |(account, ahead, price, value, large, local)| Sent {
            account,
            ahead,
            price,
            value,
            large,
            local,
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

/// The chain as far as the pool sees it.
#[derive(Clone, Debug)]
struct Head {
    standings: Vec<SenderState>,
    mined: Vec<(u8, Transaction)>,
    gas_limit: u64,
}

/// What should wait: one list, looked through from end to end each time.
#[derive(Clone, Debug, Default)]
struct Model {
    waiting: BTreeMap<(u8, u64), Transaction>,
    locals: BTreeSet<u8>,
}

fn cost(transaction: &Transaction) -> U256 {
    transaction.gas_price * U256::from(transaction.gas) + transaction.value
}

impl Model {
    /// The nonces that can be mined in turn and be paid together.
    fn pending(&self, account: u8, standing: SenderState) -> Vec<u64> {
        let mut left = standing.balance;
        let mut pending = Vec::new();
        for tx_nonce in standing.tx_nonce.. {
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

    fn takes(&self, account: u8, transaction: &Transaction, origin: TxOrigin, head: &Head) -> bool {
        let standing = head.standings[usize::from(account)];
        let local = origin == TxOrigin::Local || self.locals.contains(&account);
        let price = transaction.gas_price;
        if transaction.gas > head.gas_limit
            || (!local && price < U256::from(FLOOR))
            || transaction.tx_nonce < standing.tx_nonce
        {
            return false;
        }
        let old = self.waiting.get(&(account, transaction.tx_nonce));
        let enough = |old: &Transaction| {
            price > old.gas_price && price * U256::from(100) >= old.gas_price * U256::from(110)
        };
        let pending = self.pending(account, standing).into_iter();
        let others = pending.filter(|tx_nonce| *tx_nonce != transaction.tx_nonce);
        let all = others.fold(cost(transaction), |sum, tx_nonce| {
            sum + cost(&self.waiting[&(account, tx_nonce)])
        });
        old.is_none_or(enough) && all <= standing.balance
    }

    fn put(&mut self, account: u8, transaction: Transaction, origin: TxOrigin) {
        if origin == TxOrigin::Local {
            self.locals.insert(account);
        }
        self.waiting.insert((account, transaction.tx_nonce), transaction);
    }

    fn follow(&mut self, head: &Head) {
        self.waiting.retain(|(account, tx_nonce), transaction| {
            let standing = head.standings[usize::from(*account)];
            *tx_nonce >= standing.tx_nonce
                && cost(transaction) <= standing.balance
                && transaction.gas <= head.gas_limit
        });
    }

    /// Only what waits for `account`, by nonce: pending, queued.
    fn of(&self, account: u8, standing: SenderState) -> (BTreeMap<u64, B256>, BTreeMap<u64, B256>) {
        let pending = self.pending(account, standing);
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
        let standing = SenderState {
            tx_nonce: 0,
            balance: U256::from(200_000),
        };
        let head = Head {
            standings: vec![standing; usize::from(ACCOUNTS)],
            mined: Vec::new(),
            gas_limit: GAS_LIMITS[0],
        };
        let next = NextBlock {
            number: 1,
            gas_limit: head.gas_limit,
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
        self.heads.last().expect("block 0 stays")
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
                let gone = self.pool.expire(Instant::now() + Duration::from_secs(1_000_000));
                let locals = &self.model.locals;
                let others: Vec<_> = (0..ACCOUNTS)
                    .filter(|account| !locals.contains(account))
                    .collect();
                let mut expected = 0;
                for account in others {
                    let (_, queued) = self
                        .model
                        .of(account, self.head().standings[usize::from(account)]);
                    expected += queued.len();
                    let model = &mut self.model.waiting;
                    queued
                        .keys()
                        .for_each(|tx_nonce| drop(model.remove(&(account, *tx_nonce))));
                }
                prop_assert!(self.limited || gone == expected);
            }
        }
        self.check()
    }

    fn add(&mut self, sent: Sent) -> Result<(), TestCaseError> {
        let standing = self.head().standings[usize::from(sent.account)];
        let (transaction, origin) = (sent.transaction(standing), sent.origin());
        let hash = transaction.hash();
        let before = all_hashes(&self.pool.content());
        let fits = self.model.takes(sent.account, &transaction, origin, self.head());
        let result = self
            .pool
            .add(transaction.clone(), who(sent.account), standing, origin);
        match &result {
            Ok(got) => {
                prop_assert!(fits, "{transaction:?}");
                prop_assert_eq!(*got, hash);
                prop_assert!(self.pool.contains(&hash), "taken, and gone at once");
                self.model.put(sent.account, transaction, origin);
            }
            Err(error) => {
                let of_limits = matches!(
                    error,
                    PoolError::Full { .. }
                        | PoolError::AccountQueue { .. }
                        | PoolError::FutureReplacesPending { .. }
                        | PoolError::Underpriced { .. }
                );
                prop_assert!(!fits || (self.limited && of_limits), "{error}: {transaction:?}");
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
            let standing = &mut head.standings[usize::from(account)];
            let first = standing.tx_nonce;
            let pending = content.pending.get(&who(account)).into_iter().flatten();
            for (_, transaction) in pending.skip_while(|(nonce, _)| **nonce < first).take(count) {
                standing.tx_nonce += 1;
                standing.balance -= cost(transaction);
                head.mined.push((account, (**transaction).clone()));
            }
        }
        if let Some(account) = strange {
            let standing = &mut head.standings[usize::from(account)];
            let sent = Sent {
                account,
                ahead: 0,
                price: 0,
                value: 0,
                large: true,
                local: false,
            };
            head.mined.push((account, sent.transaction(*standing)));
            standing.tx_nonce += 1;
        }
        for (account, balance) in balances {
            head.standings[usize::from(account)].balance = U256::from(balance);
        }
        self.heads.push(head);
        self.follow(&self.heads[self.heads.len() - 2].standings.clone(), Vec::new());
    }

    fn reorganize(&mut self, depth: usize) {
        let depth = depth.min(self.heads.len() - 1);
        let before = self.head().standings.clone();
        let reverted = self.heads.split_off(self.heads.len() - depth);
        self.follow(
            &before,
            reverted.into_iter().flat_map(|head| head.mined).collect(),
        );
    }

    /// Pool and model follow the last head, where accounts stood as in `before`.
    fn follow(&mut self, before: &[SenderState], reverted: Vec<(u8, Transaction)>) {
        let head = self.head().clone();
        let changed = (0..ACCOUNTS).filter(|account| {
            let index = usize::from(*account);
            before[index] != head.standings[index]
        });
        let standings: Vec<_> = changed
            .map(|account| (who(account), head.standings[usize::from(account)]))
            .collect();
        let back: Vec<_> = reverted
            .iter()
            .map(|(account, transaction)| RevertedTransaction {
                transaction: transaction.clone(),
                sender: who(*account),
                sender_state: head.standings[usize::from(*account)],
            })
            .collect();
        let next = NextBlock {
            number: self.heads.len() as u64,
            gas_limit: head.gas_limit,
        };
        self.pool.follow_head(next, standings, back);
        self.model.follow(&head);
        for (account, transaction) in reverted {
            if self.model.takes(account, &transaction, TxOrigin::Remote, &head) {
                self.model.put(account, transaction, TxOrigin::Remote);
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
        let (mut pending_all, mut queued_all, mut others_longest, mut others_queued) = (0, 0, 0, 0);
        for account in 0..ACCOUNTS {
            let standing = head.standings[usize::from(account)];
            let local = self.model.locals.contains(&account);
            prop_assert_eq!(self.pool.is_local(&who(account)), local);
            let (pending, queued) = (
                hashes(&content.pending, account),
                hashes(&content.queued, account),
            );
            if self.limited && !local {
                // What the limits took is not for the model to know.
                let kept = |(of, tx_nonce): &(u8, u64)| {
                    *of != account || pending.contains_key(tx_nonce) || queued.contains_key(tx_nonce)
                };
                self.model.waiting.retain(|key, _| kept(key));
            }
            let expected = self.model.of(account, standing);
            prop_assert_eq!(
                (&pending, &queued),
                (&expected.0, &expected.1),
                "account {}",
                account
            );
            prop_assert!(pending.values().all(|hash| announced.contains(hash)));
            for (tx_nonce, hash) in pending.iter().chain(&queued) {
                let found = self.pool.get(hash).expect("what waits is found");
                prop_assert_eq!(
                    (found.sender, found.transaction.tx_nonce),
                    (who(account), *tx_nonce)
                );
            }
            let next = (standing.tx_nonce..)
                .find(|nonce| !pending.contains_key(nonce) && !queued.contains_key(nonce));
            let waits = !pending.is_empty() || !queued.is_empty();
            prop_assert_eq!(self.pool.next_nonce(&who(account)), next.filter(|_| waits));
            pending_all += pending.len();
            queued_all += queued.len();
            if !local {
                prop_assert!(queued.len() <= self.config.account_queue);
                others_longest = others_longest.max(pending.len());
                others_queued += queued.len();
            }
        }
        prop_assert_eq!(self.pool.counts(), (pending_all, queued_all));
        // Nobody of others is above its guaranteed slots, or waits, where there is too much.
        prop_assert!(pending_all <= self.config.global_slots || others_longest <= self.config.account_slots);
        prop_assert!(queued_all <= self.config.global_queue || others_queued == 0);
        let others = others_longest + others_queued > 0;
        prop_assert!(pending_all + queued_all <= self.config.slots_max() || !others);
        self.check_ready(&content, pending_all)
    }

    /// The builder gets all that is pending, the dearest of all accounts' first ones each time.
    fn check_ready(&self, content: &PoolContent, count: usize) -> Result<(), TestCaseError> {
        let mut left = content.pending.clone();
        let mut ready = self.pool.ready();
        for _ in 0..count {
            let best = ready.best().expect("all that is pending");
            let firsts = left.values().filter_map(|all| all.first_key_value());
            let dearest = firsts.map(|(_, first)| first.gas_price).max();
            prop_assert_eq!(Some(best.transaction.gas_price), dearest);
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
    fn limits_hold_and_take_nothing_of_the_nodes_own(
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
