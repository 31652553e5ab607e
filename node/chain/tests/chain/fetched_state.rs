//! A node that fetches a state and writes the blocks below it without executing them is, from there
//! on, like one that has executed all.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use chain::View;
use chain::fetched_state::FetchedState;
use chain::import::{BlockId, FilledBlock, ImportError, Imported};
use primitives::{B256, Block, EMPTY_ROOT, Receipt, U256, keccak256};
use store::{
    AccountKey, AccountRecord, BlockReads, FetchedStateReads, HorizonReads, StateReads, Store, StoreError,
};

use crate::common::{Maker, Node, Plan, account, sign, unsigned};
use crate::scenes::assert_sound;

/// The block whose state is fetched.
const PIVOT: u64 = 30;
const BLOCKS: u64 = 60;

/// Blocks with transfers, and contracts that write a slot.
fn blocks(maker: &mut Maker) -> Vec<Block> {
    let mut tip = maker.genesis;
    (1..=BLOCKS)
        .map(|number| {
            let nonce = 2 * (number - 1);
            let transfer = unsigned(nonce, Some(account(1)), number, &[]);
            let create = unsigned(nonce + 1, None, 0, &[0x60, 1, 0x60, 0, 0x55]);
            let block = maker.block(tip, Plan::with(vec![sign(0, &transfer), sign(0, &create)]));
            tip = block.hash();
            block
        })
        .collect()
}

fn receipts(store: &Store, block: &Block) -> Vec<Receipt> {
    let view = store.snapshot().expect("a store in memory");
    view.receipts(block.header.number, &block.hash())
        .expect("readable")
        .expect("executed")
}

fn fill(node: &Node, from: &Store, blocks: &[Block]) -> (usize, Option<ImportError>) {
    let view = node.store.snapshot().expect("a store in memory");
    let filled: Vec<_> = blocks
        .iter()
        .map(|block| FilledBlock {
            prepared: Arc::new(node.importer.prepare(&*view, block.clone(), None)),
            receipts: Arc::new(receipts(from, block)),
        })
        .collect();
    drop(view);
    node.importer.fill(&filled, None).expect("a state is fetched")
}

/// Hands the rows of the state after block `number` over, as peers would.
fn hand_over(from: &Store, number: u64, state: &mut FetchedState) {
    let view = from.snapshot().expect("a store in memory");
    let mut accounts = Vec::new();
    view.walk_accounts::<StoreError>(&AccountKey(B256::ZERO), number, |found| {
        let mut slots = Vec::new();
        view.walk_slots::<StoreError>(&found.storage(), &B256::ZERO, number, |slot| {
            slots.push((slot.hash, slot.value));
            Ok(())
        })?;
        state.replace_slots(&found.key.0, &B256::ZERO, &B256::repeat_byte(0xff), &slots)?;
        let code = view.code(&found.account.code_hash)?;
        state.put_code(&found.account.code_hash, &code);
        accounts.push((found.key.0, found.account));
        Ok(())
    })
    .expect("readable");
    state
        .replace_accounts(&B256::ZERO, &B256::repeat_byte(0xff), &accounts)
        .expect("a store in memory");
}

fn head(store: &Store) -> u64 {
    let view = store.snapshot().expect("a store in memory");
    view.head().expect("readable").expect("a head").0
}

#[test]
fn a_node_goes_on_from_a_fetched_state() {
    let mut maker = Maker::new(chain::ChainSpec::dev());
    let blocks = blocks(&mut maker);
    let source = maker.fresh(blocks[blocks.len() - 1].hash());
    let node = Node::new(&maker.spec);
    let (mut state, progress) = FetchedState::begin(&node.store).expect("the head is block 0");
    assert!(progress.is_empty());

    // No state can be read, and nothing is executed.
    let view = View::new(&node.store, maker.spec.clone()).expect("a store in memory");
    let refused = view.require_state(0).expect_err("no state").to_string();
    assert!(refused.contains("still fetching a state from peers"), "{refused}");
    let refused = node.importer.import(&blocks[0], None).expect_err("no state");
    assert!(matches!(refused, ImportError::StateNotKept(_)), "{refused}");
    let view = node.store.snapshot().expect("a store in memory");
    let prepared = Arc::new(node.importer.prepare(&*view, blocks[0].clone(), None));
    drop(view);
    let mut once = std::iter::once(prepared);
    let run = node
        .importer
        .import_run(None, &mut || once.next())
        .expect("a store in memory");
    assert_eq!(run.blocks, 0);

    // Receipts with another root.
    let below = &blocks[..PIVOT as usize];
    let view = node.store.snapshot().expect("a store in memory");
    let mut wrong = receipts(&source, &blocks[0]);
    wrong[0].cumulative_gas_used += 1;
    let wrong = FilledBlock {
        prepared: Arc::new(node.importer.prepare(&*view, blocks[0].clone(), None)),
        receipts: Arc::new(wrong),
    };
    drop(view);
    let (count, refused) = node.importer.fill(&[wrong], None).expect("a state is fetched");
    assert_eq!(count, 0);
    assert!(
        matches!(refused, Some(ImportError::ReceiptsRoot { .. })),
        "{refused:?}"
    );

    let (count, refused) = fill(&node, &source, below);
    assert!(count == below.len() && refused.is_none(), "{count} {refused:?}");
    assert_eq!(head(&node.store), PIVOT);
    assert_sound(&node.store, &maker.spec);

    // The state of a block before, then that of the pivot.
    let id = |block: &Block| BlockId {
        number: block.header.number,
        hash: block.hash(),
    };
    let pivot = &blocks[PIVOT as usize - 1];
    hand_over(&source, PIVOT - 9, &mut state);
    state.commit(b"nine before").expect("a store in memory");
    let got = state.build(|_| ()).expect("a store in memory");
    assert_eq!(got, blocks[PIVOT as usize - 10].header.state_root);
    let early = node
        .importer
        .end_fetched_state(&id(pivot))
        .expect_err("another state");
    assert!(matches!(early, ImportError::StateRoot { .. }), "{early}");
    drop(state);
    let (mut state, progress) = FetchedState::begin(&node.store).expect("it goes on");
    assert_eq!(progress, b"nine before");
    hand_over(&source, PIVOT, &mut state);
    state.commit(b"pivot").expect("a store in memory");
    node.importer
        .end_fetched_state(&id(pivot))
        .expect("the state of the head");

    let view = node.store.snapshot().expect("a store in memory");
    assert_eq!(view.fetched_state().expect("readable"), None);
    assert_eq!(view.first_executed_after().expect("readable"), Some(PIVOT));
    assert_eq!(view.state_horizon().expect("readable").block, PIVOT);
    drop(view);
    assert_sound(&node.store, &maker.spec);

    // From there on blocks are executed, and taken back.
    for block in &blocks[PIVOT as usize..] {
        let imported = node.importer.import(block, None).expect("valid");
        assert!(matches!(imported, Imported::Head { .. }));
    }
    assert_sound(&node.store, &maker.spec);
    node.importer.set_head(PIVOT + 2).expect("its state is kept");
    let refused = node
        .importer
        .set_head(PIVOT - 1)
        .expect_err("its state is not kept");
    assert!(
        refused
            .to_string()
            .contains(&format!("expected block {PIVOT} or later")),
        "{refused}"
    );
    for block in &blocks[PIVOT as usize + 2..] {
        node.importer.import(block, None).expect("valid");
    }
    assert_sound(&node.store, &maker.spec);
    let (ours, theirs) = (
        node.store.snapshot().expect("a store in memory"),
        source.snapshot().expect("a store in memory"),
    );
    for number in PIVOT..=BLOCKS {
        for index in 0..3 {
            let key = AccountKey::of(&account(index));
            let got = ours.account_by_key(&key, number).expect("readable");
            assert_eq!(
                got,
                theirs.account_by_key(&key, number).expect("readable"),
                "{number}"
            );
        }
    }
    let error = FetchedState::begin(&node.store)
        .expect_err("it has a state")
        .to_string();
    assert!(error.contains(&format!("got block {BLOCKS}")), "{error}");
}

#[test]
fn filled_blocks_go_when_the_chain_is_another() {
    let mut maker = Maker::new(chain::ChainSpec::dev());
    let one = maker.line(maker.genesis, 12, 1);
    let fork = maker.line(one[3].hash(), 12, 2);
    let (first, second) = (maker.fresh(one[11].hash()), maker.fresh(fork[11].hash()));
    let node = Node::new(&maker.spec);
    FetchedState::begin(&node.store).expect("the head is block 0");
    assert_eq!(fill(&node, &first, &one).0, 12);
    // Given twice.
    assert_eq!(fill(&node, &first, &one[9..]).0, 3);
    assert_eq!(fill(&node, &second, &fork).0, 12);
    assert_eq!(head(&node.store), 16);
    assert_sound(&node.store, &maker.spec);
    let (count, refused) = fill(&node, &first, &one[8..]);
    assert_eq!(count, 0);
    assert!(
        matches!(refused, Some(ImportError::UnknownParent(_))),
        "{refused:?}"
    );
}

#[test]
fn a_build_that_was_killed_at_the_last_key_of_all_writes_its_root() {
    let node = Node::new(&Arc::new(chain::ChainSpec::dev()));
    let (mut state, _) = FetchedState::begin(&node.store).expect("the head is block 0");
    let rows: Vec<_> = [0x10, 0x80, 0xff]
        .map(|byte| (B256::repeat_byte(byte), AccountRecord::default()))
        .into();
    let all = (B256::ZERO, B256::repeat_byte(0xff));
    state
        .replace_accounts(&all.0, &all.1, &rows)
        .expect("a store in memory");
    // A storage, so that nodes are written before the last account is there.
    let slots: Vec<_> = (1..40)
        .map(|byte| (B256::repeat_byte(byte), U256::from(byte)))
        .collect();
    state
        .replace_slots(&all.1, &all.0, &all.1, &slots)
        .expect("a store in memory");
    let with_slots = AccountRecord {
        storage_root: B256::repeat_byte(7),
        ..AccountRecord::default()
    };
    state
        .replace_accounts(&all.1, &all.1, &[(all.1, with_slots)])
        .expect("a store in memory");
    state.commit(b"all").expect("a store in memory");
    assert_eq!(build_until(&node.store, 3), 1);
    let mut reports = 0;
    let (mut state, _) = FetchedState::open(&node.store)
        .expect("a store in memory")
        .expect("a state is fetched");
    let root = state
        .build_in_steps(1, |_| reports += 1)
        .expect("a store in memory");
    assert_eq!(reports, 0, "all accounts were there");
    let stored = state.node(None, &[]).expect("a store in memory").expect("a root");
    assert_eq!(keccak256(stored), root);
}

/// Builds the tries until `accounts` are in them, as if the process were killed then. Returns the
/// number of accounts at the first report.
fn build_until(store: &Store, accounts: u64) -> u64 {
    let (mut state, _) = FetchedState::open(store)
        .expect("a store in memory")
        .expect("a state is fetched");
    let mut first = None;
    let killed = catch_unwind(AssertUnwindSafe(|| {
        state.build_in_steps(1, |done| {
            first.get_or_insert(done);
            assert!(done < accounts, "killed");
        })
    }));
    assert!(killed.is_err(), "the build was interrupted");
    first.expect("a report")
}

#[test]
fn a_build_of_tries_goes_on_where_it_was_killed() {
    let mut maker = Maker::new(chain::ChainSpec::dev());
    let blocks = blocks(&mut maker);
    let source = maker.fresh(blocks[blocks.len() - 1].hash());
    let node = Node::new(&maker.spec);
    let (mut state, _) = FetchedState::begin(&node.store).expect("the head is block 0");
    hand_over(&source, PIVOT, &mut state);
    // A storage root that is not that of the slots is corrected, also before a kill.
    let view = source.snapshot().expect("a store in memory");
    let mut wrong = Vec::new();
    view.walk_accounts::<StoreError>(&AccountKey(B256::ZERO), PIVOT, |found| {
        if found.account.storage_root != EMPTY_ROOT {
            let storage_root = B256::repeat_byte(7);
            wrong.push((
                found.key.0,
                AccountRecord {
                    storage_root,
                    ..found.account
                },
            ));
        }
        Ok(())
    })
    .expect("readable");
    for (key, account) in &wrong {
        state
            .replace_accounts(key, key, &[(*key, *account)])
            .expect("a store in memory");
    }
    state.commit(b"all").expect("a store in memory");

    // An account completes no node, or several: so the last ones may come again.
    assert_eq!(build_until(&node.store, 5), 1);
    let again = build_until(&node.store, 15);
    assert!((3..=6).contains(&again), "{again}");
    let again = build_until(&node.store, 20);
    assert!((12..=16).contains(&again), "{again}");
    let (mut state, progress) = FetchedState::open(&node.store)
        .expect("a store in memory")
        .expect("a state is fetched");
    assert_eq!(progress, b"all");
    // Progress without rows changes nothing of that.
    state.commit(b"later").expect("a store in memory");
    let again = build_until(&node.store, 25);
    assert!((17..=21).contains(&again), "{again}");
    // Rows do: the next build begins again.
    state
        .replace_accounts(&wrong[0].0, &wrong[0].0, &[wrong[0]])
        .expect("a store in memory");
    state.commit(b"rows").expect("a store in memory");
    assert_eq!(build_until(&node.store, 25), 1);
    let mut reports = Vec::new();
    let root = state
        .build_in_steps(1, |done| reports.push(done))
        .expect("a store in memory");
    assert!((22..=26).contains(&reports[0]), "{}", reports[0]);
    assert_eq!(root, blocks[PIVOT as usize - 1].header.state_root);
    let got = node.store.snapshot().expect("a store in memory");
    view.walk_accounts::<StoreError>(&AccountKey(B256::ZERO), PIVOT, |found| {
        let account = got.account_by_key(&found.key, 0)?.account;
        assert_eq!(account, Some(found.account));
        Ok(())
    })
    .expect("readable");
    // A whole state is built again from its begin.
    let mut reports = Vec::new();
    let again = state.build(|done| reports.push(done)).expect("a store in memory");
    assert_eq!((again, reports[0]), (root, 1));
}
