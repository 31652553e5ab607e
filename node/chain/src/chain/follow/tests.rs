//! Followers of the head: after errors, after it was set back, and while a state is fetched.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crossbeam_channel::Receiver;
use primitives::{Address, SecretKey, Transaction, TxForm, U256, UnsignedTransaction};
use store::Store;

use super::*;
use crate::chain::writer::WriterJobs;
use crate::chain::{Chain, ChainConfig};
use crate::import::{FilledBlock, ImportError, Importer};
use crate::pool::PoolConfig;
use crate::rules::seal::SealCheck;
use crate::spec::{ChainSpec, DEV_ACCOUNTS};

type Follow = fn(&ChainInner, &Block, &Imported) -> Result<(), StoreError>;

fn failure() -> StoreError {
    StoreError::Closed {
        path: "of the test".into(),
    }
}

struct Scene {
    chain: Chain,
    importer: Importer,
    heads: Receiver<Arc<HeadEvent>>,
    /// Makes the next import report an error, although the block is stored.
    import_fails: Arc<AtomicBool>,
}

impl Scene {
    /// A chain that sets its head back on request, but reports an error then.
    fn open(follow: Follow) -> Self {
        let spec = Arc::new(ChainSpec::dev());
        let config = ChainConfig {
            spec: spec.clone(),
            seals: SealCheck::Off,
            forks: crate::import::ForkLimits::default(),
            pool: PoolConfig::default(),
            beneficiary: Address::repeat_byte(1),
            extra_data: Default::default(),
            states: crate::import::StateRetention::Archive,
        };
        let store = Store::in_memory().unwrap();
        let importer = Importer::new(store.clone(), spec, SealCheck::Off);
        let (block_importer, setter) = (importer.clone(), importer.clone());
        let import_fails = Arc::new(AtomicBool::new(false));
        let fails = import_fails.clone();
        let jobs = WriterJobs {
            import: Box::new(move |block, _| {
                let imported = block_importer.import(block, None)?;
                match fails.swap(false, Ordering::AcqRel) {
                    true => Err(ImportError::Store(failure())),
                    false => Ok(imported),
                }
            }),
            follow,
            set_head: Box::new(move |number| {
                setter.set_head(number)?;
                Err(ImportError::Store(failure()))
            }),
            clock: Box::new(|| u64::MAX),
            ..WriterJobs::of(&importer)
        };
        let chain = Chain::start(store, config, jobs).unwrap();
        let heads = chain.subscribe();
        Self {
            chain,
            importer,
            heads,
            import_fails,
        }
    }

    /// Builds the next block; its beneficiary is made of `mark`.
    fn build_next(&self, mark: u8) -> Block {
        self.chain
            .change_settings(|settings| settings.beneficiary = Address::repeat_byte(mark));
        let view = self.chain.view().unwrap();
        self.chain.pending(&view).unwrap().block.clone()
    }

    fn import_next_block(&self, mark: u8) -> Block {
        let block = self.build_next(mark);
        self.chain.import(block.clone()).unwrap();
        block
    }

    fn import_next(&self, mark: u8) -> BlockId {
        id(&self.import_next_block(mark))
    }

    fn send(&self, tx_nonce: u64) {
        let transaction = transfer(tx_nonce);
        self.chain.submit_transaction(transaction).unwrap();
    }

    /// The head events since the last call: blocks reverted and blocks applied.
    fn events(&self) -> Vec<(Vec<BlockId>, Vec<BlockId>)> {
        let both = |event: Arc<HeadEvent>| (event.reverted.clone(), event.applied.clone());
        self.heads.try_iter().map(both).collect()
    }
}

fn id(block: &Block) -> BlockId {
    BlockId {
        number: block.header.number,
        hash: block.hash(),
    }
}

fn transfer(tx_nonce: u64) -> Transaction {
    let unsigned = UnsignedTransaction {
        tx_nonce,
        gas_price: U256::from(1_000_000_000u64),
        gas: 1000,
        to: Some(Address::repeat_byte(7)),
        ..Default::default()
    };
    let key = SecretKey::from_hex(DEV_ACCOUNTS[0].1).unwrap();
    unsigned.sign(&key, 100, TxForm::Native)
}

#[test]
fn a_head_that_was_not_followed_is_followed_before_the_next_block() {
    static BLOCKS: AtomicU32 = AtomicU32::new(0);
    let scene = Scene::open(|inner, block, imported| {
        if BLOCKS.fetch_add(1, Ordering::AcqRel) == 0 {
            return Err(failure());
        }
        inner.follow_import(block, imported)
    });
    scene.send(0);
    let one = scene.import_next(1);
    assert_eq!((scene.events(), scene.chain.pool().counts()), (vec![], (1, 0)));
    let two = scene.import_next(2);
    let expected = vec![(vec![], vec![one]), (vec![], vec![two])];
    assert_eq!((scene.events(), scene.chain.pool().counts()), (expected, (0, 0)));
    assert_eq!(scene.chain.failure(), None);
}

#[test]
fn transactions_of_reverted_blocks_return_later_if_the_pool_could_not_follow() {
    static BLOCKS: AtomicU32 = AtomicU32::new(0);
    let scene = Scene::open(|inner, block, imported| {
        if BLOCKS.fetch_add(1, Ordering::AcqRel) == 2
            && let Imported::Head { reverted, applied } = imported
        {
            // Subscribers are told even if the pool fails.
            inner.notify_head(id(block), reverted.clone(), applied.clone());
            return Err(failure());
        }
        inner.follow_import(block, imported)
    });
    // The branch that becomes the heavier one is made on another chain.
    let other_scene = Scene::open(ChainInner::follow_import);
    let branch = [other_scene.import_next_block(2), other_scene.import_next_block(3)];
    scene.send(0);
    let lost = scene.import_next(1);
    scene.chain.import(branch[0].clone()).unwrap();
    assert_eq!(scene.chain.pool().counts(), (0, 0));
    scene.events();
    scene.chain.import(branch[1].clone()).unwrap();
    let expected = (vec![lost], branch.iter().map(id).collect());
    assert_eq!(
        (scene.events(), scene.chain.pool().counts()),
        (vec![expected], (0, 0))
    );
    let last = scene.import_next(6);
    assert_eq!(scene.events(), vec![(vec![], vec![last])], "no event comes twice");
    assert_eq!(scene.chain.pool().counts(), (1, 0));
    assert_eq!(scene.chain.failure(), None);
}

#[test]
fn a_head_that_was_set_back_with_an_error_is_followed() {
    let scene = Scene::open(ChainInner::follow_import);
    let mut blocks = Vec::new();
    for tx_nonce in 0..3 {
        scene.send(tx_nonce);
        blocks.push(scene.import_next(1));
    }
    scene.send(3);
    scene.events();
    scene.chain.set_head(1).unwrap_err();
    assert_eq!(scene.chain.view().unwrap().head_id(), blocks[0]);
    assert_eq!((scene.events(), scene.chain.pool().counts()), (vec![], (1, 0)));
    // Another block is imported before the chain has caught up.
    let other = scene.build_next(2);
    scene.importer.import(&other, None).unwrap();
    let next = scene.import_next(3);
    let expected = vec![(vec![blocks[2]], vec![id(&other)]), (vec![], vec![next])];
    assert_eq!(scene.events(), expected);
    assert_eq!(scene.chain.pool().counts(), (0, 1), "two nonces are missing");
    // Set back, with no block imported afterwards.
    scene.chain.set_head(2).unwrap_err();
    scene.chain.set_head(9).unwrap_err();
    assert_eq!(scene.events(), vec![(vec![next], vec![])]);
    assert_eq!(scene.chain.failure(), None);
}

#[test]
fn a_head_whose_import_reported_an_error_is_followed_at_once() {
    let scene = Scene::open(ChainInner::follow_import);
    scene.send(0);
    let block = scene.build_next(1);
    scene.import_fails.store(true, Ordering::Release);
    scene.chain.import(block.clone()).unwrap_err();
    assert_eq!(scene.events(), vec![(vec![], vec![id(&block)])]);
    assert_eq!(scene.chain.pool().counts(), (0, 0));
}

#[test]
fn nobody_is_told_of_filled_blocks_if_another_block_is_refused() {
    let source = Scene::open(ChainInner::follow_import);
    let blocks = [1, 2, 3].map(|mark| source.import_next_block(mark));
    let scene = Scene::open(ChainInner::follow_import);
    scene.chain.fetch_state().unwrap();
    let view = scene.chain.view().unwrap();
    let filled = blocks.iter().map(|block| FilledBlock {
        prepared: Arc::new(scene.importer.prepare(view.snapshot(), block.clone(), None)),
        receipts: Arc::default(),
    });
    let filled = scene.chain.fill(filled.collect()).unwrap();
    assert!(filled.stored == 3 && filled.refused.is_none(), "{filled:?}");
    // A refused block puts the chain in doubt, and the next command ends the doubt.
    for _ in 0..2 {
        scene.chain.import(source.build_next(4)).unwrap_err();
    }
    assert_eq!(scene.events(), vec![]);
}

#[test]
fn a_side_block_whose_import_reported_an_error_becomes_an_uncle_candidate() {
    let scene = Scene::open(ChainInner::follow_import);
    let side = scene.build_next(1);
    scene.import_next(2);
    scene.import_fails.store(true, Ordering::Release);
    scene.chain.import(side.clone()).unwrap_err();
    let uncles = |scene: &Scene| scene.build_next(3).uncles;
    assert_eq!(uncles(&scene), []);
    // Any later command lets the chain catch up.
    assert_eq!(scene.chain.import(side.clone()).unwrap(), Imported::Known);
    assert_eq!(uncles(&scene), [side.header]);
}
