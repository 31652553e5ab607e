//! What follows a new head: pool, possible uncles, work, subscribers.
//!
//! Runs in the writer's thread. What the head became is the importer's doing. Where that is not
//! known, as a commit failed after its last write, or where the store could not be read, the way
//! from the head that was followed last is read from the store later, before the next block.

use std::collections::HashSet;
use std::sync::Arc;

use primitives::{Block, Header};
use store::{BlockReads, StateReads, StoreError, TableId};

use super::{HeadEvent, Inner, next_block, standing};
use crate::import::{BlockId, Imported};
use crate::pool::Reverted;
use crate::rules::UNCLE_GENERATIONS;
use crate::view::View;

/// Most side blocks remembered as possible uncles.
const UNCLE_CANDIDATES_MAX: usize = 16;

/// Possible uncles.
#[derive(Debug, Default)]
pub(super) struct Uncles {
    pub(super) headers: Vec<Header>,
    /// How many have come so far.
    pub(super) come: u64,
}

impl Uncles {
    /// Adds one, once: a block may be taken back more often than that.
    fn remember(&mut self, header: Header) {
        if !self.headers.contains(&header) {
            self.headers.push(header);
            self.come += 1;
            let excess = self.headers.len().saturating_sub(UNCLE_CANDIDATES_MAX);
            self.headers.drain(..excess);
        }
    }
}

/// Whether a side block can be an uncle of the block after `head`.
fn may_be_uncle(number: u64, head: u64) -> bool {
    number.saturating_add(UNCLE_GENERATIONS) > head
}

/// Which heads have been followed.
#[derive(Debug)]
pub(super) struct Followed {
    /// The one that the pool stands on.
    pool: BlockId,
    /// The one that subscribers have been told of.
    told: BlockId,
    /// One of them may not be the head.
    in_doubt: bool,
    /// The lowest block that the head may have been set back to, where that is in doubt.
    set_back: Option<u64>,
}

impl Followed {
    /// Both are the head.
    pub(super) fn new(head: BlockId) -> Self {
        Self {
            pool: head,
            told: head,
            in_doubt: false,
            set_back: None,
        }
    }
}

/// The way from a block to the head.
struct Way {
    /// Blocks that are canonical no more, highest first.
    reverted: Vec<BlockId>,
    /// Blocks that became canonical, lowest first.
    applied: Vec<BlockId>,
    /// Some of the reverted are deleted; of those only the highest is told.
    deleted: bool,
}

/// Whose standing a head may have changed.
enum Moved<'a> {
    /// The accounts that these blocks changed.
    By(&'a [BlockId]),
    /// Any. What a block changed is known only while it is canonical.
    Any,
}

impl Inner {
    /// Pool, possible uncles, work and subscribers follow an import.
    pub(super) fn follow(&self, block: &Block, imported: &Imported) -> Result<(), StoreError> {
        match imported {
            Imported::Known => {}
            Imported::Side => {
                let head = self.store.snapshot()?.head()?.map_or(0, |(number, _)| number);
                if may_be_uncle(block.header.number, head) {
                    self.uncles.lock().remember(block.header.clone());
                    self.desk.wake();
                }
            }
            Imported::Head { .. } if self.followed.lock().in_doubt => return self.catch_up(),
            Imported::Head { reverted, applied } => {
                let moved = match reverted[..] {
                    [] => Moved::By(applied),
                    _ => Moved::Any,
                };
                let followed = self
                    .view()
                    .and_then(|view| self.pool_follows(&view, reverted, moved));
                // Whatever failed above, the head has moved.
                if let Some(head) = applied.last() {
                    self.tell(*head, reverted.clone(), applied.clone());
                }
                followed?;
            }
        }
        Ok(())
    }

    /// Pool, work and subscribers follow the head that was set to block `number`.
    pub(super) fn follow_back(&self, number: u64, reverted: Vec<BlockId>) -> Result<(), StoreError> {
        if self.followed.lock().in_doubt {
            self.doubt(Some(number));
            return self.catch_up();
        }
        self.uncles.lock().headers.clear();
        let view = self.view()?;
        // Of what was taken back nothing returns.
        let followed = self.pool_follows(&view, &[], Moved::Any);
        self.tell(view.head_id(), reverted, Vec::new());
        followed
    }

    /// Notes that the pool or subscribers may not have followed the head; it may have been set
    /// back to the block `set_back`.
    pub(super) fn doubt(&self, set_back: Option<u64>) {
        let mut followed = self.followed.lock();
        followed.in_doubt = true;
        followed.set_back = [followed.set_back, set_back].into_iter().flatten().min();
    }

    /// Follows the head from wherever pool and subscribers are, where that is in doubt.
    pub(super) fn catch_up(&self) -> Result<(), StoreError> {
        let Followed {
            pool,
            told,
            in_doubt,
            set_back,
        } = *self.followed.lock();
        if !in_doubt {
            return Ok(());
        }
        // Whatever fails below, the head may have moved.
        self.renew_work();
        let view = self.view()?;
        let head = view.head_id();
        let way = |from| match Way::read(&view, from, set_back) {
            Err(error) if error.is_damage() => {
                tracing::error!(%error, "what happened before the present head is not known");
                Ok(Way::unknown(head))
            }
            way => way,
        };
        let followed = if pool == head {
            Ok(())
        } else {
            let way = way(pool)?;
            if way.deleted {
                self.uncles.lock().headers.clear();
            }
            self.pool_follows(&view, &way.reverted, Moved::Any)
        };
        if told != head {
            let way = way(told)?;
            self.tell(head, way.reverted, way.applied);
        }
        followed?;
        *self.followed.lock() = Followed::new(head);
        Ok(())
    }

    pub(super) fn view(&self) -> Result<View, StoreError> {
        View::new(&self.store, self.spec.clone())
    }

    fn renew_work(&self) {
        self.desk.publish(None);
        self.desk.wake();
    }

    /// Miners and readers learn that the head has moved.
    fn tell(&self, head: BlockId, reverted: Vec<BlockId>, applied: Vec<BlockId>) {
        self.renew_work();
        let event = Arc::new(HeadEvent { reverted, applied });
        self.subscribers
            .lock()
            .retain(|subscriber| subscriber.send(event.clone()).is_ok());
        self.followed.lock().told = head;
    }

    /// The pool and the possible uncles follow the head of `view`. What is damaged is passed over
    /// the next time, what could not be read is not.
    fn pool_follows(&self, view: &View, reverted: &[BlockId], moved: Moved<'_>) -> Result<(), StoreError> {
        self.desk.seals().prepare_ahead(&self.spec, view.head_number());
        let followed = self
            .transactions_follow(view, reverted, moved)
            .and_then(|()| self.uncles_follow(view, reverted));
        if followed.as_ref().map_or_else(StoreError::is_damage, |()| true) {
            self.followed.lock().pool = view.head_id();
        }
        followed
    }

    fn uncles_follow(&self, view: &View, reverted: &[BlockId]) -> Result<(), StoreError> {
        let head = view.head_number();
        let mut uncles = self.uncles.lock();
        for id in reverted.iter().filter(|id| may_be_uncle(id.number, head)) {
            if let Some(record) = view.header_by_hash(&id.hash)? {
                uncles.remember(record.header);
            }
        }
        uncles.headers.retain(|uncle| may_be_uncle(uncle.number, head));
        Ok(())
    }

    fn transactions_follow(
        &self,
        view: &View,
        reverted: &[BlockId],
        moved: Moved<'_>,
    ) -> Result<(), StoreError> {
        let _admission = self.admission.write();
        let moved = match moved {
            Moved::Any => self.pool.senders(),
            Moved::By(applied) => {
                let mut changed = HashSet::new();
                for id in applied {
                    changed.extend(view.snapshot().changes(id.number)?.accounts);
                }
                self.pool.present(changed)
            }
        };
        let mut back = Vec::new();
        for id in reverted.iter().rev() {
            let Some(body) = view.snapshot().body(id.number, &id.hash, self.spec.tx_rules())? else {
                continue;
            };
            let sent = body.transactions.into_iter().zip(body.senders);
            for (transaction, sender) in sent.filter(|(transaction, _)| !transaction.is_system()) {
                let standing = standing(view, &sender)?;
                back.push(Reverted {
                    transaction,
                    sender,
                    standing,
                });
            }
        }
        let next = next_block(&self.spec, &view.head().header, &self.settings.lock());
        let standings: Vec<_> = moved
            .into_iter()
            .map(|address| Ok((address, standing(view, &address)?)))
            .collect::<Result<_, StoreError>>()?;
        self.pool.follow_head(next, standings, back);
        Ok(())
    }
}

impl Way {
    /// A way of which only the end is known.
    fn unknown(head: BlockId) -> Self {
        Self {
            reverted: Vec::new(),
            applied: vec![head],
            deleted: false,
        }
    }

    /// Reads the way from `from` to the head of `view`. Where what lies between is deleted, as
    /// the head was set back, it goes by the block `set_back`.
    fn read(view: &View, from: BlockId, set_back: Option<u64>) -> Result<Self, StoreError> {
        let mut way = Self {
            reverted: Vec::new(),
            applied: Vec::new(),
            deleted: false,
        };
        let mut old = from;
        while view.canonical_hash(old.number)? != Some(old.hash) {
            way.reverted.push(old);
            let below = old.number.checked_sub(1).ok_or_else(|| {
                let reason = format!("no block in common with the chain below block {}", from.number);
                StoreError::corrupt(TableId::NumberToHash, &[], reason)
            })?;
            old = match view.header_by_hash(&old.hash)? {
                Some(record) => BlockId {
                    number: below,
                    hash: record.header.parent_hash,
                },
                None => {
                    way.deleted = true;
                    let number = below.min(view.head_number()).min(set_back.unwrap_or(u64::MAX));
                    let hash = view.canonical_hash(number)?.unwrap_or_default();
                    BlockId { number, hash }
                }
            };
        }
        for number in old.number + 1..=view.head_number() {
            if let Some(hash) = view.canonical_hash(number)? {
                way.applied.push(BlockId { number, hash });
            }
        }
        Ok(way)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use crossbeam_channel::Receiver;
    use primitives::{Address, SecretKey, Transaction, TxForm, U256, UnsignedTransaction};
    use store::Store;

    use super::*;
    use crate::chain::writer::Jobs;
    use crate::chain::{Chain, ChainConfig};
    use crate::import::{ImportError, Importer};
    use crate::pool::{Origin, PoolConfig};
    use crate::rules::body::SealCheck;
    use crate::spec::{ChainSpec, DEV_ACCOUNTS};

    type Follow = fn(&Inner, &Block, &Imported) -> Result<(), StoreError>;

    fn failure() -> StoreError {
        StoreError::Reopened {
            path: "as asked".into(),
        }
    }

    struct Scene {
        chain: Chain,
        importer: Importer,
        heads: Receiver<Arc<HeadEvent>>,
    }

    impl Scene {
        /// A chain whose orders to set the head back are followed and said to have failed.
        fn open(follow: Follow) -> Self {
            let spec = Arc::new(ChainSpec::dev());
            let config = ChainConfig {
                spec: spec.clone(),
                seals: SealCheck::Off,
                pool: PoolConfig::default(),
                beneficiary: Address::repeat_byte(1),
                extra_data: Default::default(),
            };
            let store = Store::in_memory().unwrap();
            let importer = Importer::new(store.clone(), spec, SealCheck::Off);
            let (taker, setter) = (importer.clone(), importer.clone());
            let jobs = Jobs {
                take: Box::new(move |block, _| taker.import(block, None)),
                follow,
                set_head: Box::new(move |number| {
                    setter.set_head(number)?;
                    Err(ImportError::Store(failure()))
                }),
            };
            let chain = Chain::start(store, config, jobs).unwrap();
            let heads = chain.subscribe();
            Self {
                chain,
                importer,
                heads,
            }
        }

        /// The next block, paid to `mark`.
        fn next(&self, mark: u8) -> Block {
            self.chain
                .change_settings(|settings| settings.beneficiary = Address::repeat_byte(mark));
            let view = self.chain.view().unwrap();
            self.chain.pending(&view).unwrap().block.clone()
        }

        fn take_block(&self, mark: u8) -> Block {
            let block = self.next(mark);
            self.chain.import(block.clone()).unwrap();
            block
        }

        fn take(&self, mark: u8) -> BlockId {
            id(&self.take_block(mark))
        }

        fn send(&self, tx_nonce: u64) {
            let transaction = transfer(tx_nonce);
            self.chain.submit_transaction(transaction, Origin::Local).unwrap();
        }

        /// What subscribers were told since the last question.
        fn told(&self) -> Vec<(Vec<BlockId>, Vec<BlockId>)> {
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
    fn a_head_that_was_not_followed_is_followed_before_the_next() {
        static BLOCKS: AtomicU32 = AtomicU32::new(0);
        let scene = Scene::open(|inner, block, imported| {
            if BLOCKS.fetch_add(1, Ordering::AcqRel) == 0 {
                return Err(failure());
            }
            inner.follow(block, imported)
        });
        scene.send(0);
        let one = scene.take(1);
        assert_eq!((scene.told(), scene.chain.pool().counts()), (vec![], (1, 0)));
        let two = scene.take(2);
        let want = vec![(vec![], vec![one]), (vec![], vec![two])];
        assert_eq!((scene.told(), scene.chain.pool().counts()), (want, (0, 0)));
        assert_eq!(scene.chain.failure(), None);
    }

    #[test]
    fn what_a_reorganization_took_back_returns_later_where_it_could_not_be_read() {
        static BLOCKS: AtomicU32 = AtomicU32::new(0);
        let scene = Scene::open(|inner, block, imported| {
            if BLOCKS.fetch_add(1, Ordering::AcqRel) == 2
                && let Imported::Head { reverted, applied } = imported
            {
                // Subscribers are told whatever the pool meets.
                inner.tell(id(block), reverted.clone(), applied.clone());
                return Err(failure());
            }
            inner.follow(block, imported)
        });
        // The branch that takes over is made on a chain of its own.
        let beside = Scene::open(Inner::follow);
        let branch = [beside.take_block(2), beside.take_block(3)];
        scene.send(0);
        let lost = scene.take(1);
        scene.chain.import(branch[0].clone()).unwrap();
        assert_eq!(scene.chain.pool().counts(), (0, 0));
        scene.told();
        scene.chain.import(branch[1].clone()).unwrap();
        let want = (vec![lost], branch.iter().map(id).collect());
        assert_eq!((scene.told(), scene.chain.pool().counts()), (vec![want], (0, 0)));
        let last = scene.take(6);
        assert_eq!(scene.told(), vec![(vec![], vec![last])], "nothing is told twice");
        assert_eq!(scene.chain.pool().counts(), (1, 0));
        assert_eq!(scene.chain.failure(), None);
    }

    #[test]
    fn a_head_that_was_set_back_though_that_failed_is_followed() {
        let scene = Scene::open(Inner::follow);
        let mut line = Vec::new();
        for tx_nonce in 0..3 {
            scene.send(tx_nonce);
            line.push(scene.take(1));
        }
        scene.send(3);
        scene.told();
        scene.chain.set_head(1).unwrap_err();
        assert_eq!(scene.chain.view().unwrap().head_id(), line[0]);
        assert_eq!((scene.told(), scene.chain.pool().counts()), (vec![], (1, 0)));
        // Another block gets in before anyone comes to look.
        let other = scene.next(2);
        scene.importer.import(&other, None).unwrap();
        let next = scene.take(3);
        let want = vec![(vec![line[2]], vec![id(&other)]), (vec![], vec![next])];
        assert_eq!(scene.told(), want);
        assert_eq!(scene.chain.pool().counts(), (0, 1), "two nonces are missing");
        // Set back alone, with nothing after it.
        scene.chain.set_head(2).unwrap_err();
        scene.chain.set_head(9).unwrap_err();
        assert_eq!(scene.told(), vec![(vec![next], vec![])]);
        assert_eq!(scene.chain.failure(), None);
    }
}
