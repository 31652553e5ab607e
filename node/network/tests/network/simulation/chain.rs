//! The chain of a simulated node: a store in memory, the importer, and a clock that the simulation
//! turns. Blocks are sealed by their header hash, which costs nothing and can still be wrong.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use chain::chain::AHEAD_SECS_MAX;
use chain::genesis::ensure_genesis;
use chain::import::{BlockId, FilledBlock, ForkLimits, ImportError, Imported, Importer, PreparedBlock};
use chain::mining::build::{BuildSettings, build};
use chain::pool::{NextBlock, PoolConfig, SenderState, TxPool};
use chain::rules::seal::SealCheck;
use chain::spec::{DEV_ACCOUNTS, DifficultyRule, GAS_TARGET_DEFAULT};
use chain::{ChainSpec, View};
use network::testing::{
    BlockFault, ChainAccess, ChainAccessError, ChainHead, ChainReader, ChainRefusal, HashedTransaction,
    ImportResult, SyncTarget, TransactionVerdict,
};
use primitives::{
    Address, B256, Block, Header, SecretKey, Transaction, TxForm, TxRules, U256, UnsignedTransaction,
    keccak256,
};
use store::Store;

/// The clock at block 0: long before the clock at the start, so that a branch of little weight can
/// have many headers.
pub(crate) const GENESIS_SECS: u64 = 1_000_000_000;
/// The clock at the start of the simulation.
pub(crate) const START_SECS: u64 = 1_700_000_000;
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
}

impl SimChain {
    pub(crate) fn new(spec: &Arc<ChainSpec>, clock: &Arc<AtomicU64>) -> Self {
        let store = Store::in_memory().expect("a store in memory");
        ensure_genesis(&store, spec).expect("block 0");
        let seals = SealCheck::Given(|header| header.pow_nonce == seal_of(header));
        Self {
            importer: Importer::new(store.clone(), spec.clone(), seals),
            spec: spec.clone(),
            clock: clock.clone(),
            skew: AtomicI64::new(0),
            side_blocks: Mutex::default(),
            store,
        }
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
        let mut sides = self.side_blocks.lock().expect("no panic");
        match &imported {
            Imported::Side => sides.push(block.header.clone()),
            Imported::Head { reverted, .. } if !reverted.is_empty() => {
                let view = self.view();
                let headers = reverted.iter().map(|id| view.header_by_hash(&id.hash));
                sides.extend(headers.filter_map(|record| Some(record.expect("read")?.header)));
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
        let account = view
            .account(&address, view.head_number())
            .expect("read")
            .expect("an account");
        let transfer = UnsignedTransaction {
            tx_nonce: account.tx_nonce,
            gas_price: U256::from(1_000_000_000u64),
            gas: 100_000,
            to: Some(Address::repeat_byte(7)),
            value: U256::from(1),
            ..Default::default()
        };
        let key = SecretKey::from_hex(key).expect("a key");
        let state = SenderState {
            tx_nonce: account.tx_nonce,
            balance: account.balance,
        };
        pool.add(transfer.sign(&key, 100, TxForm::Native), address, state)
            .expect("a good transfer");
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
            pool.ready(),
            &sides,
        );
        let mut block = built.expect("the store works").block;
        seal(&mut block.header);
        block
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
        let view = self.view();
        Ok(ChainHead {
            number: view.head_number(),
            hash: view.head_hash(),
            total_difficulty: view.head().total_difficulty,
        })
    }

    fn total_difficulty(&self, hash: &B256) -> Result<Option<U256>, ChainAccessError> {
        let record = self.view().header_by_hash(hash)?;
        Ok(record.map(|record| record.total_difficulty))
    }

    fn reader(&self) -> Result<Box<dyn ChainReader>, ChainAccessError> {
        Ok(Box::new(self.view()))
    }

    fn tx_rules(&self) -> TxRules {
        self.spec.tx_rules()
    }

    fn check_header(&self, hash: &B256, header: &Header) -> Result<(), BlockFault> {
        let snapshot = self.store.snapshot().expect("a snapshot");
        let checked = self
            .importer
            .check_new_header(&*snapshot, hash, header, self.latest());
        checked.map_err(|error| match ChainRefusal::of(id_of(header), &error) {
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
            Err(error) => result_of(&block, &error),
        }
    }

    fn pooled(&self, _: &B256) -> Option<Transaction> {
        None
    }

    fn pending(&self, _: usize) -> Vec<B256> {
        Vec::new()
    }

    fn submit(&self, _: HashedTransaction) -> TransactionVerdict {
        TransactionVerdict::Refused("no pool".to_owned())
    }
}

fn id_of(header: &Header) -> BlockId {
    BlockId {
        number: header.number,
        hash: header.hash(),
    }
}

fn result_of(block: &Block, error: &ImportError) -> ImportResult {
    match ChainRefusal::of(id_of(&block.header), error) {
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
        let snapshot = self.store.snapshot().expect("a snapshot");
        self.importer
            .check_headers(&*snapshot, headers, Some(self.latest()))
            .and_then(|checked| self.importer.import_headers(&checked))
            .map(drop)
            .map_err(|error| ChainRefusal::of(first, &error))
    }

    fn prepare_blocks(&self, blocks: Vec<Block>) -> Result<Vec<PreparedBlock>, ChainRefusal> {
        let snapshot = self.store.snapshot().expect("a snapshot");
        let prepare = |block: Block| {
            let parent = block.header.number.checked_sub(1);
            self.importer.prepare(&*snapshot, block, parent)
        };
        Ok(blocks.into_iter().map(prepare).collect())
    }

    fn take_blocks(&self, blocks: Vec<Arc<PreparedBlock>>) -> (usize, Option<ChainRefusal>) {
        for (at, block) in blocks.iter().enumerate() {
            if let Err(error) = self.import_one(&block.block) {
                let refusal = ChainRefusal::of(id_of(&block.block.header), &error);
                return (at, Some(refusal));
            }
        }
        (blocks.len(), None)
    }

    fn fill_blocks(&self, blocks: Vec<FilledBlock>) -> (usize, Option<ChainRefusal>) {
        let (stored, refused) = self.importer.fill(&blocks, None).expect("the store works");
        let id = |at: usize| id_of(&blocks[at].prepared.block.header);
        (stored, refused.map(|error| ChainRefusal::of(id(stored), &error)))
    }

    fn forget_headers(&self, hash: B256) {
        self.importer.forget_headers(&hash).expect("the store works");
    }
}
