//! The chain of a simulated node: a store in memory or on a simulated disk, the importer, and a
//! clock that the simulation turns. Blocks are sealed by their header hash, which costs nothing and
//! can still be wrong.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use chain::chain::AHEAD_SECS_MAX;
use chain::genesis::{GenesisError, ensure_genesis};
use chain::import::{BlockId, FilledBlock, ForkLimits, ImportError, Imported, Importer, PreparedBlock};
use chain::mining::build::{BuildSettings, build};
use chain::pool::{NextBlock, PoolConfig, ReadyTransactions, TxPool};
use chain::rules::seal::SealCheck;
use chain::spec::{DEV_ACCOUNTS, DifficultyRule, GAS_TARGET_DEFAULT};
use chain::state::StateError;
use chain::{ChainSpec, View};
use network::testing::{
    BlockFault, ChainAccess, ChainAccessError, ChainHead, ChainReader, ChainRefusal, HashedTransaction,
    ImportResult, SyncTarget, TransactionVerdict,
};
use primitives::{
    Address, B256, Block, Header, SecretKey, Transaction, TxForm, TxRules, U256, UnsignedTransaction,
    keccak256,
};
use store::{Store, StoreError};

use crate::simulation::pool::{NodePool, sender_state};

/// The clock at block 0: long before the clock at the start, so that a branch of little weight can
/// have many headers.
pub(crate) const GENESIS_SECS: u64 = 1_000_000_000;
/// The clock at the start of the simulation.
pub(crate) const START_SECS: u64 = 1_700_000_000;
/// The gas price of transfers.
pub(crate) const GAS_PRICE: u64 = 1_000_000_000;
/// Side blocks that are remembered as uncles.
const UNCLES_KEPT: usize = 8;

/// The development network with a difficulty that adapts.
pub(crate) fn spec() -> Arc<ChainSpec> {
    let mut spec = ChainSpec {
        difficulty: DifficultyRule::Moac,
        ..ChainSpec::dev()
    };
    spec.genesis.timestamp = GENESIS_SECS;
    spec.genesis.difficulty = U256::from(1u64 << 40);
    Arc::new(spec)
}

/// The nonce that seals a header here.
fn seal_of(header: &Header) -> u64 {
    let hash = header.header_hash();
    u64::from_be_bytes(hash.0[..8].try_into().expect("eight bytes"))
}

/// Seals a header.
pub(crate) fn seal(header: &mut Header) {
    header.pow_nonce = seal_of(header);
}

/// A failure of a store.
#[derive(Clone, Debug)]
pub(crate) struct StoreFailure {
    pub(crate) is_damage: bool,
    pub(crate) is_final: bool,
    pub(crate) wants_space: bool,
    /// The drive refuses, so its bytes may be good.
    pub(crate) is_of_drive: bool,
    pub(crate) text: String,
}

impl StoreFailure {
    pub(crate) fn of(error: &StoreError) -> Self {
        Self {
            is_damage: error.is_damage(),
            is_final: error.is_final(),
            wants_space: error.wants_space(),
            is_of_drive: matches!(error, StoreError::Medium { .. }),
            text: error.to_string(),
        }
    }
}

/// A transfer from the development account with this key.
pub(crate) fn transfer(key: &str, tx_nonce: u64, gas_price: u64) -> Transaction {
    let transfer = UnsignedTransaction {
        tx_nonce,
        gas_price: U256::from(gas_price),
        gas: 100_000,
        to: Some(Address::repeat_byte(7)),
        value: U256::from(1),
        ..Default::default()
    };
    let key = SecretKey::from_hex(key).expect("a key");
    transfer.sign(&key, 100, TxForm::Native)
}

/// See the module.
pub(crate) struct SimChain {
    pub(crate) store: Store,
    pub(crate) spec: Arc<ChainSpec>,
    importer: Importer,
    /// Seconds since the start of the simulation.
    clock: Arc<AtomicU64>,
    /// Seconds by which the node's clock is ahead.
    skew: AtomicI64,
    side_blocks: Mutex<Vec<Header>>,
    /// The waiting transactions. Without one, blocks have a transfer that is made with them.
    pub(crate) pool: Option<NodePool>,
    /// The head of the last import that was reported as done.
    committed: Mutex<Option<BlockId>>,
    /// The failure of the store that was met since the last look.
    failure: Mutex<Option<StoreFailure>>,
    /// The text of the last refusal, for whoever looks for the cause of a failed run.
    last_refusal: Mutex<String>,
}

impl SimChain {
    pub(crate) fn new(spec: &Arc<ChainSpec>, clock: &Arc<AtomicU64>) -> Self {
        let store = Store::in_memory().expect("a store in memory");
        Self::open(store, spec, clock, false).expect("a chain in memory")
    }

    /// Opens the chain in `store` as a node does at its start.
    pub(crate) fn open(
        store: Store,
        spec: &Arc<ChainSpec>,
        clock: &Arc<AtomicU64>,
        has_pool: bool,
    ) -> Result<Self, StoreFailure> {
        ensure_genesis(&store, spec).map_err(|error| match error {
            GenesisError::Store(error) => StoreFailure::of(&error),
            other => panic!("block 0 of a node's own spec: {other}"),
        })?;
        let seals = SealCheck::Given(|header| header.pow_nonce == seal_of(header));
        let importer = Importer::new(store.clone(), spec.clone(), seals);
        importer.finish_open_reorganization().map_err(|error| {
            let failure = error.store_error().map(StoreFailure::of);
            failure.unwrap_or_else(|| panic!("an open reorganization: {error}"))
        })?;
        let view = View::new(&store, spec.clone()).map_err(|error| StoreFailure::of(&error))?;
        Ok(Self {
            importer,
            spec: spec.clone(),
            clock: clock.clone(),
            skew: AtomicI64::new(0),
            side_blocks: Mutex::default(),
            pool: has_pool.then(|| NodePool::new(&view)),
            committed: Mutex::new(Some(view.head_id())),
            failure: Mutex::default(),
            last_refusal: Mutex::default(),
            store,
        })
    }

    /// The chain as it is now. `None` if the store fails, which is noted.
    pub(crate) fn look(&self) -> Option<View> {
        self.noted(View::new(&self.store, self.spec.clone()))
    }

    /// Notes a failure of the store. The first one since the last look counts, and damage before
    /// everything else.
    pub(crate) fn noted<T>(&self, result: Result<T, StoreError>) -> Option<T> {
        result.map_err(|error| self.note(&error)).ok()
    }

    fn note(&self, error: &StoreError) {
        let mut failure = self.failure.lock().expect("no panic");
        if failure.is_none() || error.is_damage() {
            *failure = Some(StoreFailure::of(error));
        }
    }

    /// The failure of the store that was met since the last look.
    pub(crate) fn take_failure(&self) -> Option<StoreFailure> {
        self.failure.lock().expect("no panic").take()
    }

    /// The text of the last refusal of a block or of headers.
    pub(crate) fn last_refusal(&self) -> String {
        self.last_refusal.lock().expect("no panic").clone()
    }

    /// The head of the last import that was reported as done.
    pub(crate) fn committed(&self) -> Option<BlockId> {
        *self.committed.lock().expect("no panic")
    }

    /// The same chain, with MESS for late branches.
    pub(crate) fn with_mess(self) -> Self {
        let limits = ForkLimits {
            // The blocks have the time of the simulation, which is long ago.
            mess_head_age_secs_max: Some(u64::MAX),
            ..ForkLimits::default()
        };
        Self {
            importer: self.importer.with_limits(limits),
            ..self
        }
    }

    pub(crate) fn view(&self) -> View {
        View::new(&self.store, self.spec.clone()).expect("a head")
    }

    pub(crate) fn now(&self) -> u64 {
        let skew = self.skew.load(Ordering::Relaxed);
        (START_SECS + self.clock.load(Ordering::Relaxed)).saturating_add_signed(skew)
    }

    /// Lets the node's clock run ahead by so many seconds, or behind.
    pub(crate) fn set_skew(&self, seconds: i64) {
        self.skew.store(seconds, Ordering::Relaxed);
    }

    /// Blocks a little ahead of the clock need not wait here.
    fn latest(&self) -> u64 {
        self.now() + AHEAD_SECS_MAX
    }

    fn import_one(&self, block: &Block) -> Result<Imported, ImportError> {
        let imported = self.importer.import(block, Some(self.latest()))?;
        if let Imported::Head { applied, .. } = &imported {
            *self.committed.lock().expect("no panic") = applied.last().copied();
        }
        if let Some(pool) = &self.pool
            && let Some(view) = self.look()
        {
            self.noted(pool.follow(&view));
        }
        let mut sides = self.side_blocks.lock().expect("no panic");
        match &imported {
            Imported::Side => sides.push(block.header.clone()),
            Imported::Head { reverted, .. } if !reverted.is_empty() => {
                let view = self.look();
                let header = |id: &BlockId| self.noted(view.as_ref()?.header_by_hash(&id.hash))?;
                sides.extend(reverted.iter().filter_map(header).map(|record| record.header));
            }
            _ => {}
        }
        let excess = sides.len().saturating_sub(UNCLES_KEPT);
        sides.drain(..excess);
        Ok(imported)
    }

    /// Makes a block on the head, with one transfer of a development account.
    pub(crate) fn make_block(&self, miner: usize) -> Block {
        let view = self.view();
        let head = view.head();
        let next = NextBlock {
            number: view.head_number() + 1,
            gas_limit: head.header.gas_limit,
        };
        let pool = TxPool::new(self.spec.clone(), PoolConfig::default(), next);
        let (address, key) = DEV_ACCOUNTS[miner % DEV_ACCOUNTS.len()];
        let state = sender_state(&view, &address).expect("read");
        pool.add(transfer(key, state.tx_nonce, GAS_PRICE), address, state)
            .expect("a good transfer");
        self.build_block(&view, miner, pool.ready())
            .expect("the store works")
    }

    /// Makes a block on the head with transactions of the pool. `None` if the head is ahead of the
    /// clock, or if the store fails, which is noted.
    pub(crate) fn make_from_pool(&self, miner: usize) -> Option<Block> {
        let view = self
            .look()
            .filter(|view| view.head().header.timestamp < self.now())?;
        let ready = self.pool.as_ref()?.pool.ready();
        let StateError(error) = match self.build_block(&view, miner, ready) {
            Ok(block) => return Some(block),
            Err(error) => error,
        };
        self.note(&error);
        None
    }

    fn build_block(&self, view: &View, miner: usize, ready: ReadyTransactions) -> Result<Block, StateError> {
        let head = view.head();
        let settings = BuildSettings {
            beneficiary: Address::repeat_byte(miner as u8),
            extra_data: (miner as u64).to_be_bytes().to_vec().into(),
            gas_target: GAS_TARGET_DEFAULT,
            gas_limit: None,
        };
        let timestamp = self.now().max(head.header.timestamp + 1);
        let sides = self.side_blocks.lock().expect("no panic").clone();
        let built = build(
            &self.spec,
            view.snapshot(),
            head,
            timestamp,
            &settings,
            ready,
            &sides,
        );
        let mut block = built?.block;
        seal(&mut block.header);
        Ok(block)
    }

    /// The reason for peers and the synchronization. A failure of the store is noted.
    fn refusal(&self, id: BlockId, error: &ImportError) -> ChainRefusal {
        let refusal = ChainRefusal::of(id, error);
        *self.last_refusal.lock().expect("no panic") = format!("{refusal:?}");
        if let Some(failure) = error.store_error() {
            self.note(failure);
        }
        refusal
    }

    /// One hash over the receipts of all canonical blocks.
    pub(crate) fn receipts_hash(&self) -> B256 {
        let view = self.view();
        let mut all = Vec::new();
        for number in 0..=view.head_number() {
            let hash = view.canonical_hash(number).expect("read").expect("canonical");
            let receipts = view.receipts(&BlockId { number, hash }).expect("read");
            for receipt in receipts.unwrap_or_default() {
                all.extend(receipt.encode(self.spec.receipt_form()));
            }
        }
        keccak256(all)
    }

    /// The balance of every development account at the head, and of those that were paid.
    pub(crate) fn balances(&self) -> Vec<U256> {
        let view = self.view();
        let addresses = DEV_ACCOUNTS.iter().map(|(address, _)| *address);
        let miners = (0..60u8).map(Address::repeat_byte);
        let balance = |address: Address| {
            let account = view.account(&address, view.head_number()).expect("read");
            account.unwrap_or_default().balance
        };
        addresses.chain(miners).map(balance).collect()
    }
}

impl ChainAccess for SimChain {
    fn head(&self) -> Result<ChainHead, ChainAccessError> {
        let view = self.look().ok_or_else(cannot_be_read)?;
        Ok(ChainHead {
            number: view.head_number(),
            hash: view.head_hash(),
            total_difficulty: view.head().total_difficulty,
        })
    }

    fn total_difficulty(&self, hash: &B256) -> Result<Option<U256>, ChainAccessError> {
        let view = self.look().ok_or_else(cannot_be_read)?;
        let record = self.noted(view.header_by_hash(hash)).ok_or_else(cannot_be_read)?;
        Ok(record.map(|record| record.total_difficulty))
    }

    fn reader(&self) -> Result<Box<dyn ChainReader>, ChainAccessError> {
        Ok(Box::new(self.look().ok_or_else(cannot_be_read)?))
    }

    fn tx_rules(&self) -> TxRules {
        self.spec.tx_rules()
    }

    fn check_header(&self, hash: &B256, header: &Header) -> Result<(), BlockFault> {
        let Some(snapshot) = self.noted(self.store.snapshot()) else {
            return Err(BlockFault::NotNow("the store fails".to_owned()));
        };
        let checked = self
            .importer
            .check_new_header(&*snapshot, hash, header, self.latest());
        checked.map_err(|error| match self.refusal(id_of(header), &error) {
            ChainRefusal::Invalid { text, .. } if matches!(error, ImportError::KnownInvalid { .. }) => {
                BlockFault::KnownInvalid(text)
            }
            ChainRefusal::Invalid { text, .. } => BlockFault::Header(text),
            ChainRefusal::Early(text) => BlockFault::Ahead(text),
            ChainRefusal::Unsuitable(text) | ChainRefusal::NotNow(text) => BlockFault::NotNow(text),
        })
    }

    fn import(&self, block: Block) -> ImportResult {
        match self.import_one(&block) {
            Ok(_) => ImportResult::Good,
            Err(error) => result_of(self.refusal(id_of(&block.header), &error)),
        }
    }

    fn pooled(&self, hash: &B256) -> Option<Transaction> {
        self.pool.as_ref()?.get(hash)
    }

    fn pending(&self, most: usize) -> Vec<B256> {
        self.pool
            .as_ref()
            .map_or_else(Vec::new, |pool| pool.pending(most))
    }

    fn submit(&self, offered: HashedTransaction) -> TransactionVerdict {
        let (Some(pool), Some(view)) = (&self.pool, self.look()) else {
            return TransactionVerdict::Refused("no pool".to_owned());
        };
        let verdict = pool.submit(&view, offered);
        let refused = || TransactionVerdict::Refused("the store fails".to_owned());
        self.noted(verdict).unwrap_or_else(refused)
    }
}

fn id_of(header: &Header) -> BlockId {
    BlockId {
        number: header.number,
        hash: header.hash(),
    }
}

fn not_now() -> ChainRefusal {
    ChainRefusal::NotNow("the store fails".to_owned())
}

fn cannot_be_read() -> ChainAccessError {
    ChainAccessError("the store fails".to_owned())
}

fn result_of(refusal: ChainRefusal) -> ImportResult {
    match refusal {
        ChainRefusal::Invalid { text, .. } => ImportResult::Invalid(text),
        ChainRefusal::Unsuitable(text) | ChainRefusal::Early(text) | ChainRefusal::NotNow(text) => {
            ImportResult::Failed(text)
        }
    }
}

impl SyncTarget for SimChain {
    fn spec(&self) -> &ChainSpec {
        &self.spec
    }

    fn take_headers(&self, headers: Vec<Header>) -> Result<(), ChainRefusal> {
        let first = id_of(&headers[0]);
        let snapshot = self.noted(self.store.snapshot()).ok_or_else(not_now)?;
        self.importer
            .check_headers(&*snapshot, headers, Some(self.latest()))
            .and_then(|checked| self.importer.import_headers(&checked))
            .map(drop)
            .map_err(|error| self.refusal(first, &error))
    }

    fn prepare_blocks(&self, blocks: Vec<Block>) -> Result<Vec<PreparedBlock>, ChainRefusal> {
        let snapshot = self.noted(self.store.snapshot()).ok_or_else(not_now)?;
        let prepare = |block: Block| {
            let parent = block.header.number.checked_sub(1);
            self.importer.prepare(&*snapshot, block, parent)
        };
        Ok(blocks.into_iter().map(prepare).collect())
    }

    fn take_blocks(&self, blocks: Vec<Arc<PreparedBlock>>) -> (usize, Option<ChainRefusal>) {
        for (at, block) in blocks.iter().enumerate() {
            if let Err(error) = self.import_one(&block.block) {
                return (at, Some(self.refusal(id_of(&block.block.header), &error)));
            }
        }
        (blocks.len(), None)
    }

    fn fill_blocks(&self, blocks: Vec<FilledBlock>) -> (usize, Option<ChainRefusal>) {
        let (stored, refused) = match self.importer.fill(&blocks, None) {
            Ok(filled) => filled,
            Err(error) => {
                let first = id_of(&blocks[0].prepared.block.header);
                return (0, Some(self.refusal(first, &error)));
            }
        };
        let id = |at: usize| id_of(&blocks[at].prepared.block.header);
        (stored, refused.map(|error| self.refusal(id(stored), &error)))
    }

    fn forget_headers(&self, hash: B256) {
        if let Err(error) = self.importer.forget_headers(&hash) {
            self.refusal(BlockId { number: 0, hash }, &error);
        }
    }
}
