//! Random trees of blocks. In whatever order branches come, the stored state is that of the
//! canonical chain, and its roots are those of the stored accounts and slots.
//!
//! Blocks have transfers, creations, storage writes, destructions, and creations at the same
//! address again. The store is compared with one that has imported the canonical branch only.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use alloy_trie::{HashBuilder, Nibbles};
use chain::ChainSpec;
use chain::import::{ImportError, Imported, OldBlocks};
use chain::spec::GenesisAccount;
use primitives::{Address, B256, Block, EMPTY_ROOT, Transaction, U256, keccak256};
use proptest::prelude::*;
use proptest::test_runner::Config;
use store::{BlockReads, StateReads, Store};

use crate::common::{Maker, Node, Plan, Rows, account, deploys, hex, rows, sign, unsigned};
use crate::scenes::check_faults;

/// A contract that creates a "worm": a call with a salt as data creates one by CREATE2.
const FACTORY: Address = Address::repeat_byte(0xfa);

/// The init code of a worm. A worm writes a slot if it is called with a slot and a value, and
/// destroys itself if it is called without data.
fn worm_init() -> Vec<u8> {
    // If there is no data: CALLER, SELFDESTRUCT. Otherwise jump to 6: SSTORE(word 0, word 1).
    let runtime = hex("36 6006 57 33 ff 5b 6020 35 6000 35 55 00");
    // Slot 7 gets the block's number. Then the runtime code is returned.
    let mut init = hex("43 6007 55");
    let length = runtime.len() as u8;
    init.extend([0x60, length, 0x80, 0x60, 15, 0x60, 0, 0x39, 0x60, 0, 0xf3]);
    init.extend(runtime);
    init
}

fn factory() -> Vec<u8> {
    let init = worm_init();
    let length = init.len() as u8;
    // CODECOPY of the init code; CREATE2 with the salt from the data.
    let mut code = vec![0x60, length, 0x60, 19, 0x60, 0, 0x39, 0x60, 0, 0x35, 0x60, length];
    code.extend(hex("6000 6000 f5 50 00"));
    code.extend(init);
    code
}

pub(crate) fn worm(salt: u8) -> Address {
    FACTORY.create2(B256::with_last_byte(salt), keccak256(worm_init()))
}

pub(crate) fn spec() -> ChainSpec {
    let mut spec = ChainSpec::dev();
    let factory = GenesisAccount {
        tx_nonce: 1,
        code: factory().into(),
        ..Default::default()
    };
    spec.genesis.alloc.insert(FACTORY, factory);
    spec
}

/// The slots of a worm that blocks write.
pub(crate) const WORM_SLOTS: std::ops::Range<u8> = 0..8;

/// One transaction of a random block.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    Transfer { to: u8, value: u64 },
    Hatch { salt: u8 },
    Write { salt: u8, slot: u8, value: u8 },
    Destroy { salt: u8, value: u64 },
    Deploy { value: u8 },
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        2 => (any::<u8>(), 0..3u64).prop_map(|(to, value)| Act::Transfer { to, value }),
        4 => (0..3u8).prop_map(|salt| Act::Hatch { salt }),
        4 => (0..3u8, 0..5u8, 0..3u8).prop_map(|(salt, slot, value)| Act::Write { salt, slot, value }),
        3 => (0..3u8, 0..2u64).prop_map(|(salt, value)| Act::Destroy { salt, value }),
        1 => (0..3u8).prop_map(|value| Act::Deploy { value }),
    ]
}

#[derive(Clone, Debug)]
pub(crate) struct RandomBlock {
    /// The parent, counted back from the newest block.
    pub(crate) parent: usize,
    pub(crate) mark: u8,
    pub(crate) acts: Vec<(usize, Act)>,
}

pub(crate) fn random_block() -> impl Strategy<Value = RandomBlock> {
    let acts = proptest::collection::vec((0..3usize, act()), 0..6);
    // The parent is mostly the newest block, so that branches become long enough to be the heavier
    // one.
    let parent = prop_oneof![6 => Just(0usize), 4 => 0..8usize];
    (parent, any::<u8>(), acts).prop_map(|(parent, mark, acts)| RandomBlock { parent, mark, acts })
}

/// Makes signed transactions of the acts. `nonces` are the accounts' next nonces.
pub(crate) fn transactions(acts: &[(usize, Act)], nonces: &mut HashMap<usize, u64>) -> Vec<Transaction> {
    let one = |(from, act): &(usize, Act)| {
        let nonce = nonces.entry(*from).or_default();
        let plain = match act {
            Act::Transfer { to, value } => {
                let to = if *to < 32 {
                    Address::with_last_byte(*to)
                } else {
                    account(usize::from(*to) % 10)
                };
                unsigned(*nonce, Some(to), *value, &[])
            }
            Act::Hatch { salt } => {
                let salt = B256::with_last_byte(*salt);
                unsigned(*nonce, Some(FACTORY), 0, salt.as_slice())
            }
            Act::Write { salt, slot, value } => {
                let data = [B256::with_last_byte(*slot), B256::with_last_byte(*value)].concat();
                unsigned(*nonce, Some(worm(*salt)), 0, &data)
            }
            Act::Destroy { salt, value } => unsigned(*nonce, Some(worm(*salt)), *value, &[]),
            Act::Deploy { value } => {
                let mut init = hex("6001 6000 55");
                init.extend(deploys(&[0]));
                init[1] = *value;
                unsigned(*nonce, None, 0, &init)
            }
        };
        *nonce += 1;
        let mut plain = plain;
        plain.gas = 300_000;
        sign(*from, &plain)
    };
    acts.iter().map(one).collect()
}

/// The state root at `number`, computed from accounts and slots by another implementation.
fn rebuilt_root(store: &Store, rows: &Rows, number: u64) -> B256 {
    let view = store.snapshot().expect("snapshot");
    let mut slots: BTreeMap<Address, BTreeSet<U256>> = BTreeMap::new();
    for key in rows["block_to_changes"].keys() {
        let block = u64::from_be_bytes(key.as_slice().try_into().expect("a number"));
        let changes = view.changes(block).expect("changes");
        for (address, _) in changes.accounts {
            slots.entry(address).or_default();
        }
        for change in changes.slots {
            slots.entry(change.address).or_default().insert(change.slot);
        }
    }
    let root = |leaves: BTreeMap<B256, Vec<u8>>| {
        let mut builder = HashBuilder::default();
        for (key, value) in &leaves {
            builder.add_leaf(Nibbles::unpack(key), value);
        }
        builder.root()
    };
    let mut accounts = BTreeMap::new();
    for (address, slots) in slots {
        let version = view.account_at(&address, number).expect("account");
        let Some(record) = version.account else { continue };
        let mut storage = BTreeMap::new();
        for slot in slots {
            let value = view
                .slot_at(&address, version.incarnation, &slot, number)
                .expect("slot");
            if !value.is_zero() {
                storage.insert(keccak256(slot.to_be_bytes::<32>()), alloy_rlp::encode(value));
            }
        }
        let storage_root = if storage.is_empty() {
            EMPTY_ROOT
        } else {
            root(storage)
        };
        assert_eq!(
            storage_root, record.storage_root,
            "storage of {address} at {number}"
        );
        let fields: [&dyn alloy_rlp::Encodable; 4] = [
            &record.tx_nonce,
            &record.balance,
            &storage_root,
            &record.code_hash,
        ];
        let mut account = Vec::new();
        alloy_rlp::encode_list::<_, dyn alloy_rlp::Encodable>(&fields, &mut account);
        accounts.insert(keccak256(address), account);
    }
    root(accounts)
}

/// The tables that have rows of canonical blocks only.
const CANONICAL: [&str; 11] = [
    "meta",
    "number_to_hash",
    "transaction_to_position",
    "account_by_hash",
    "gone_account",
    "storage_by_hash",
    "gone_storage",
    "state_history_by_hash",
    "block_to_changes",
    "path_to_branch",
    "log_key_to_blocks",
];

/// Checks that `node` has every row of `fresh`, a store that has imported the canonical branch
/// only, and that the canonical tables are equal.
pub(crate) fn assert_as_fresh(node: &Rows, fresh: &Rows) {
    for table in CANONICAL {
        assert!(
            node[table] == fresh[table],
            "{table} differs from a fresh import of the branch"
        );
    }
    for (table, rows) in fresh {
        let has_all = rows
            .iter()
            .all(|(key, value)| node[table].get(key) == Some(value));
        assert!(has_all, "{table} lacks a row of the branch");
    }
}

/// Blocks that were made at random, each with the accounts' next nonces after it.
pub(crate) struct RandomTree(Vec<(B256, HashMap<usize, u64>)>);

impl RandomTree {
    pub(crate) fn new(genesis: B256) -> Self {
        Self(vec![(genesis, HashMap::new())])
    }

    /// Makes a block, and the nonces after it for [`Self::add`].
    pub(crate) fn make(&self, maker: &mut Maker, random: &RandomBlock) -> (Block, HashMap<usize, u64>) {
        let last = self.0.len() - 1;
        let (parent, mut nonces) = self.0[last - random.parent.min(last)].clone();
        let plan = Plan {
            transactions: transactions(&random.acts, &mut nonces),
            ..Plan::marked(random.mark)
        };
        (maker.block(parent, plan), nonces)
    }

    /// Lets later blocks be children of this one.
    pub(crate) fn add(&mut self, block: &Block, nonces: HashMap<usize, u64>) {
        self.0.push((block.hash(), nonces));
    }
}

fn forks(plan: Vec<RandomBlock>, old_blocks: OldBlocks) {
    let mut maker = Maker::new(spec());
    let mut node = Node::new(&maker.spec);
    node.importer = node.importer.moving(old_blocks);
    let mut tree = RandomTree::new(maker.genesis);
    for random in plan {
        let (block, after) = tree.make(&mut maker, &random);
        let imported = match node.import(&block) {
            // The branch of the parent had ended below the blocks that were moved.
            Err(ImportError::UnknownParent(hash))
                if hash == block.header.parent_hash && old_blocks == EARLY =>
            {
                continue;
            }
            imported => imported.expect("valid"),
        };
        if imported == Imported::Known {
            continue;
        }
        tree.add(&block, after);
        if imported != Imported::Side {
            assert_eq!(node.head(), block.hash());
        }
        assert_as_fresh(&node.rows(), &rows(&maker.fresh(node.head())));
    }
    let rows = node.rows();
    let view = node.store.snapshot().expect("snapshot");
    let path: Vec<&Block> = maker.path(node.head());
    for block in path {
        let number = block.header.number;
        let expected = block.header.state_root;
        assert_eq!(
            rebuilt_root(&node.store, &rows, number),
            expected,
            "root at {number}"
        );
        let stored = view.header(number, &block.hash()).expect("read").expect("stored");
        assert!(stored.executed);
        assert_eq!(stored.total_difficulty, U256::from(512 * (number + 1)));
    }
    assert_eq!(check_faults(&node.store, &maker.spec, true).1, []);
}

/// Blocks move so early that reorganizations take them back.
const EARLY: OldBlocks = OldBlocks { depth: 2, step: 2 };

proptest! {
    #![proptest_config(Config { cases: 48, failure_persistence: None, ..Config::default() })]

    #[test]
    fn the_state_is_the_canonical_chains(plan in proptest::collection::vec(random_block(), 1..28)) {
        forks(plan, OldBlocks::default());
    }

    #[test]
    fn the_state_is_the_canonical_chains_if_reorganizations_reach_old_blocks(
        plan in proptest::collection::vec(random_block(), 1..28),
    ) {
        forks(plan, EARLY);
    }
}

#[test]
fn a_contract_is_destroyed_and_created_again_on_both_branches() {
    let on = |parent, acts: &[Act]| RandomBlock {
        parent,
        mark: 1,
        acts: acts.iter().map(|act| (0, act.clone())).collect(),
    };
    let hatch = || Act::Hatch { salt: 0 };
    let destroy = || Act::Destroy { salt: 0, value: 0 };
    let write = |slot, value| Act::Write { salt: 0, slot, value };
    let plan = vec![
        on(0, &[hatch(), write(1, 1), write(2, 2)]),
        on(0, &[destroy(), hatch(), write(2, 2)]),
        on(0, &[write(1, 0), destroy()]),
        on(0, &[hatch(), destroy(), hatch(), destroy()]),
        // The other branch begins after the first block, four blocks back.
        on(3, &[write(1, 2), destroy()]),
        on(0, &[Act::Transfer { to: 3, value: 0 }]),
        on(0, &[hatch(), write(4, 1)]),
        on(0, &[destroy(), hatch(), destroy()]),
        on(0, &[hatch()]),
    ];
    forks(plan.clone(), OldBlocks::default());
    forks(plan, EARLY);
}

#[test]
fn the_worm_contract_works_as_described() {
    let mut maker = Maker::new(spec());
    let node = Node::new(&maker.spec);
    let mut nonces = HashMap::new();
    let mut tip = maker.genesis;
    let mut block = |maker: &mut Maker, acts: &[Act]| {
        let acts: Vec<_> = acts.iter().map(|act| (0, act.clone())).collect();
        let made = maker.block(tip, Plan::with(transactions(&acts, &mut nonces)));
        tip = made.hash();
        node.take(&[made]);
        let view = node.store.snapshot().expect("snapshot");
        let number = view.head().expect("read").expect("head").0;
        let version = view.account_at(&worm(1), number).expect("account");
        let slot = |slot: u8| {
            view.slot_at(&worm(1), version.incarnation, &U256::from(slot), number)
                .expect("slot")
        };
        (version.account.is_some(), version.incarnation, slot(7), slot(2))
    };
    let (seven, two) = (U256::from(1), U256::from(2));
    let write = Act::Write {
        salt: 1,
        slot: 2,
        value: 2,
    };
    assert_eq!(
        block(&mut maker, &[Act::Hatch { salt: 1 }, write]),
        (true, 0, seven, two)
    );
    let die = Act::Destroy { salt: 1, value: 0 };
    assert_eq!(
        block(&mut maker, std::slice::from_ref(&die)),
        (false, 1, U256::ZERO, U256::ZERO)
    );
    assert_eq!(
        block(&mut maker, &[Act::Hatch { salt: 1 }]),
        (true, 1, U256::from(3), U256::ZERO)
    );
    assert_eq!(
        block(&mut maker, &[die, Act::Hatch { salt: 1 }]),
        (true, 2, U256::from(4), U256::ZERO)
    );
}
