//! The work of a member of a MicroChain: the engine of one MicroChain.
//!
//! | question | module |
//! |---|---|
//! | how is a block of others taken, and which chain is the better one? | `follow` |
//! | when is a block made? | `produce` |
//! | how does an SCS catch up? | `sync` |
//! | how does it join without all blocks? | `snapshot` |
//! | what is a flush, and who does what for it? | `flush`, `proposal` |
//! | what does a member vote for? | `commitment` |
//! | when is a proposal deep enough for a vote, and when is a vote withdrawn? | `votes` |
//! | how do deposits reach the MicroChain, and DappBase the list of members? | `credits` |
//! | are the credited deposits those of the chain base? | `deposits` |
//! | how deep is a deposit on the base chain? | `depths` |
//!
//! Each event is handled to its end by one thread. What is done depends on what is stored and on
//! the last reads of the chain base, never on the order of notices.

mod commitment;
mod credits;
mod deposits;
mod depths;
mod flush;
mod follow;
mod produce;
mod proposal;
mod snapshot;
mod sync;
#[cfg(test)]
mod tests;
mod votes;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use chain::View;
use chain::import::{BlockId, StateRetention};
use parking_lot::Mutex;
use primitives::{Address, B256, Transaction, TxForm};
use store::{BlockReads, FetchedStateReads, Store, StoreError, StoreOptions};

use crate::admission::{TransactionRefusal, sender_for_pool};
use crate::contract::{BaseCall, ContractState, RETRY_BLOCKS};
use crate::dapp_base::is_member_message;
pub(crate) use crate::error::EngineError;
use crate::event::{
    Action, CONFIRMATIONS_DEFAULT, CONFIRMATIONS_MAX, DappBaseRules, EngineOptions, Event, MemberMessage,
    MicroChainSetup,
};
use crate::fill::FillTime;
use crate::ledger::{BlockRefusal, Ledger};
use crate::memory::MemberMemory;
use crate::message::{PeerContent, RELAYED_BYTES_MAX, RELAYED_MAX, relayed};
use crate::pool::{IncomingTransaction, Pool, PoolRefusal, SenderClass};
use crate::reader::Reader;

use deposits::DepositWatch;
use flush::KnownFlush;
use follow::{SlotHeaders, WaitingBlocks};
use proposal::OwnProposal;
use snapshot::SnapshotSync;
use sync::CatchUpState;
use votes::SeenProposal;

/// Old blocks that are removed at once. More go with each base block.
const DROPPED_BLOCKS: u64 = 64;
/// The most calls that are remembered as asked for.
const ASKED_MAX: usize = 64;

/// The engine of one MicroChain. One thread works with it; clients read through [`Reader`]s.
#[derive(Debug)]
pub struct MemberEngine {
    setup: MicroChainSetup,
    key: primitives::SecretKey,
    id: Address,
    ledger: Ledger,
    pool: Arc<Mutex<Pool>>,
    reader: Reader,
    memory: MemberMemory,
    dapp_bases: DappBaseRules,
    /// The block in which DappBase was created, and whether the code that did it is known.
    dapp_base_creation: Mutex<Option<(BlockId, bool)>>,
    /// The last reads of the chain base.
    contract: Option<ContractState>,
    /// The last flush of the chain base.
    flush: Option<KnownFlush>,
    /// The proposal of this SCS in its present turn.
    own_proposal: Option<OwnProposal>,
    /// The deposits that the chain has credited, and the depth of those of the chain base.
    watch: DepositWatch,
    /// The action of the open proposal that is due, and the base block since which it is.
    due: Option<(BaseCall, u64)>,
    /// The base blocks that must follow a proposal before this SCS votes for it.
    confirmations: u64,
    /// The proposal in progress, if it is complete.
    seen: Option<SeenProposal>,
    /// The proposals for which own votes are withdrawn since the start.
    withdrawn: BTreeSet<B256>,
    /// Calls, and the base block at which they were asked for.
    asked: HashMap<BaseCall, u64>,
    waiting: WaitingBlocks,
    slots: SlotHeaders,
    sync: CatchUpState,
    snapshot: SnapshotSync,
    /// The slot that was handled last.
    last_slot: u64,
    /// Slots in a row in which a backup was near the head.
    near_slots: u64,
    now_ms: u64,
    out: Vec<Action>,
    /// The time for the transactions of an own block.
    fill_time: FillTime,
    /// The past states that are to be kept.
    states: StateRetention,
    /// The number of newest blocks that are to be kept; `None` for all.
    blocks: Option<u64>,
}

impl MemberEngine {
    /// Opens the chain in the folder of `options`, or makes it with block 0. The chain starts when
    /// a [`ContractState`] says that it has started.
    ///
    /// # Errors
    /// [`EngineError`] if the store fails or has another chain.
    pub fn open(setup: MicroChainSetup, options: &EngineOptions) -> Result<Self, EngineError> {
        let store_options = StoreOptions {
            cache_bytes: options.cache_bytes,
            log_bytes: LOG_BYTES,
            ..StoreOptions::default()
        };
        // The chains of MicroChains are small: a rewrite takes a moment.
        let store = chain::upgrade::open_store(&options.directory, &store_options, &mut |_| ())?;
        let mut engine = Self::on_store(setup, options.key.clone(), store)?;
        engine.confirmations = options.confirmations.min(CONFIRMATIONS_MAX);
        engine.dapp_bases = options.dapp_bases.clone();
        engine.states = options.states;
        engine.keep_blocks(options.blocks);
        Ok(engine)
    }

    /// The engine of a chain in this store. It pays withdrawals of a known `DappBase` only.
    ///
    /// # Errors
    /// [`EngineError`] if the store fails or has another chain.
    pub(crate) fn on_store(
        setup: MicroChainSetup,
        key: primitives::SecretKey,
        store: Store,
    ) -> Result<Self, EngineError> {
        let memory = MemberMemory::read(&store)?;
        let fill_time = produce::fill_time(setup.period_secs);
        let ledger = Ledger::open(setup.clone(), store)?;
        let is_fetching = ledger.store().snapshot()?.fetched_state()?.is_some();
        let pool = Arc::<Mutex<Pool>>::default();
        let reader = Reader::new(
            ledger.store().clone(),
            ledger.spec().clone(),
            pool.clone(),
            ledger.dapp_base(),
        );
        Ok(Self {
            id: key.address(),
            setup,
            key,
            ledger,
            pool,
            reader,
            memory,
            dapp_bases: DappBaseRules::default(),
            dapp_base_creation: Mutex::default(),
            contract: None,
            flush: None,
            own_proposal: None,
            watch: DepositWatch::default(),
            due: None,
            confirmations: CONFIRMATIONS_DEFAULT,
            seen: None,
            withdrawn: BTreeSet::new(),
            asked: HashMap::new(),
            waiting: WaitingBlocks::default(),
            slots: SlotHeaders::default(),
            sync: CatchUpState::default(),
            snapshot: SnapshotSync::of(is_fetching),
            last_slot: 0,
            near_slots: 0,
            now_ms: 0,
            out: Vec::new(),
            fill_time,
            states: StateRetention::Archive,
            blocks: None,
        })
    }

    /// Takes an event at the time `now_ms`, in unix milliseconds, and returns what is to be done.
    ///
    /// # Errors
    /// [`EngineError`] if the store failed, for example because the disk is full. Nothing is lost:
    /// what was to be done comes with the next event.
    pub fn handle(&mut self, now_ms: u64, event: Event) -> Result<Vec<Action>, EngineError> {
        self.now_ms = now_ms;
        match event {
            Event::Tick => {}
            Event::Contract(state) => self.take_contract(*state)?,
            Event::Message(message) => self.take_message(message)?,
            Event::Transaction(transaction) => {
                // No VNODE relays a wallet's transaction, so this SCS does.
                let relays = transaction.form == TxForm::Classic;
                let copy = relays.then(|| Arc::new((*transaction).clone()));
                match (self.add_transaction(*transaction)?, copy) {
                    (Ok(()), Some(copy)) => self.send(&relayed(&[copy]), None),
                    (Ok(()), None) => {}
                    (Err(refusal), _) => {
                        tracing::debug!(chain = %self.setup.address, %refusal, "a transaction is not taken");
                    }
                }
            }
            Event::Connected => self.connected()?,
        }
        self.pass_time()?;
        Ok(std::mem::take(&mut self.out))
    }

    /// Takes a transaction of a client, as [`Event::Transaction`], and says what is wrong with it.
    /// It is sent to the other SCSs with the next event.
    ///
    /// # Errors
    /// [`EngineError`] if the store failed.
    pub fn submit(
        &mut self,
        now_ms: u64,
        transaction: Transaction,
    ) -> Result<Result<(), TransactionRefusal>, EngineError> {
        self.now_ms = now_ms;
        let added = self.add_transaction(transaction.clone())?;
        if added.is_ok() {
            self.send(&relayed(&[Arc::new(transaction)]), None);
        }
        Ok(added)
    }

    /// The time at which [`Event::Tick`] is to be given next, in unix milliseconds: at the next
    /// slot, or when a block that came early is due.
    pub fn next_tick(&self, now_ms: u64) -> u64 {
        let period = 1000 * self.setup.period_secs;
        let slot = (now_ms / period + 1) * period;
        let early = self.waiting.next_time_ms().filter(|time| *time > now_ms);
        let asks = self.snapshot.next_time_ms().filter(|time| *time > now_ms);
        early.into_iter().chain(asks).fold(slot, u64::min)
    }

    /// The position from which on [`ContractState::deposits`] are wanted: that of the deposits
    /// that are not under a flush yet. `None` as long as this is not known: before the first
    /// reading, and while the chain does not have the last flush. All deposits of a chain base may
    /// be more than a VNODE answers with.
    pub fn deposits_from(&self) -> Option<u64> {
        self.contract.as_ref()?;
        self.flush.as_ref().map_or(Some(0), |flush| flush.enter_position)
    }

    /// The id of this SCS.
    pub const fn id(&self) -> Address {
        self.id
    }

    /// The setup of the MicroChain.
    pub const fn setup(&self) -> &MicroChainSetup {
        &self.setup
    }

    /// Whether this SCS has ever signed a block or cast a vote here.
    pub fn has_signed(&self) -> bool {
        self.memory.signed_slot > 0 || !self.memory.votes.is_empty()
    }

    /// A reader for clients.
    pub fn reader(&self) -> Reader {
        self.reader.clone()
    }

    /// Members that broke the rules, as far as this SCS has seen it.
    #[cfg(test)]
    pub(crate) fn accused(&self) -> &[Address] {
        &self.memory.accused
    }

    /// The present slot.
    const fn slot(&self) -> u64 {
        self.now_ms / 1000 / self.setup.period_secs
    }

    /// The chain base, if the MicroChain has started and has members.
    fn started(&self) -> Option<&ContractState> {
        self.contract.as_ref().filter(|contract| contract.has_started())
    }

    /// Changes what must not be forgotten. `change` returns whether anything changed. The change
    /// holds only if it is on the disk.
    fn remember(&mut self, change: impl FnOnce(&mut MemberMemory) -> bool) -> Result<bool, StoreError> {
        let mut changed = self.memory.clone();
        if !change(&mut changed) {
            return Ok(false);
        }
        changed.write(self.ledger.store())?;
        self.memory = changed;
        Ok(true)
    }

    fn send(&mut self, content: &PeerContent, receiver: Option<Address>) {
        let message = content.message(self.id, receiver);
        self.out.push(Action::Send(message));
    }

    /// Asks for a call of the chain base, unless it was asked for a short while ago.
    fn call(&mut self, call: BaseCall) {
        let Some(base) = self.contract.as_ref().map(|contract| contract.base_block) else {
            return;
        };
        if self.has_asked(&call) {
            return;
        }
        if self.asked.len() == ASKED_MAX {
            self.asked.retain(|_, at| base.abs_diff(*at) < RETRY_BLOCKS);
        }
        self.asked.insert(call.clone(), base);
        self.out.push(Action::Call(call));
    }

    /// Whether a call was asked for a short while ago.
    fn has_asked(&self, call: &BaseCall) -> bool {
        let base = self.contract.as_ref().map(|contract| contract.base_block);
        let recent = |at: &u64| base.is_some_and(|base| base.abs_diff(*at) < RETRY_BLOCKS);
        self.asked.get(call).is_some_and(recent)
    }

    fn take_message(&mut self, message: MemberMessage) -> Result<(), EngineError> {
        let content = match PeerContent::decode(message.status, &message.payload) {
            Ok(Some(content)) => content,
            Ok(None) => return Ok(()),
            Err(error) => {
                tracing::debug!(sender = %message.sender, %error, "a message cannot be read");
                return Ok(());
            }
        };
        match content {
            PeerContent::Block(block) => self.take_block(*block, Some(message.sender)),
            PeerContent::State { state, signature } => self.take_state(&state, &signature),
            PeerContent::Transactions(all) => {
                for transaction in all {
                    // A message that is refused here is refused by others, too.
                    let _ = self.add_transaction(transaction)?;
                }
                Ok(())
            }
            PeerContent::Evidence(headers) => self.take_evidence(&headers),
            PeerContent::SyncRequest { known, count } => self.answer_sync(message.sender, &known, count),
            PeerContent::SyncAnswer(blocks) => self.take_answer(message.sender, blocks),
            PeerContent::SnapshotRequest(request) => self.answer_snapshot(message.sender, &request),
            PeerContent::SnapshotAnswer(answer) => self.take_snapshot_answer(*answer),
        }
    }

    fn take_contract(&mut self, mut state: ContractState) -> Result<(), EngineError> {
        state.members.truncate(crate::contract::MEMBERS_MAX);
        if state.has_started() {
            self.remember(|memory| memory.take_list(state.base_block, &state.members))?;
        }
        let before = self.contract.replace(state);
        self.mark_deposits(before.and_then(|contract| contract.deposits).as_ref());
        self.look_at_proposal();
        self.withdraw_votes()?;
        self.find_flush()?;
        if self.snapshot.is_open() {
            return Ok(());
        }
        self.follow_deposits()?;
        self.keep_states();
        self.drop_old_blocks()?;
        self.retry_waiting()?;
        self.work_on_flush()
    }

    /// Lets go of past states that are not to be kept. Judging the next proposal takes the states
    /// since the last flush. The states since the one before are kept, too, because the base chain
    /// may take back a flush. Without a flush all are kept.
    fn keep_states(&mut self) {
        let (StateRetention::Recent { blocks } | StateRetention::RecentAndFrom { blocks, .. }) = self.states
        else {
            return;
        };
        let is_known = self.flush.as_ref().is_some_and(|flush| flush.block.is_some());
        let approved = self.contract.as_ref().map(|contract| &contract.approved);
        let start = approved.filter(|_| is_known).map(|approved| approved.start);
        self.ledger.keep(
            start.map_or(StateRetention::Archive, |start| StateRetention::RecentAndFrom {
                blocks,
                from: start.saturating_sub(1),
            }),
        );
    }

    /// Keeps so many of the newest blocks from now on.
    fn keep_blocks(&mut self, blocks: Option<u64>) {
        self.blocks = blocks;
        if blocks.is_some() {
            self.ledger.keep_no_file();
        }
    }

    /// Removes old blocks, but for those since the flush before the last one, and the two that
    /// later ones depend on: the one that names the members, and the one that creates DappBase.
    fn drop_old_blocks(&self) -> Result<(), EngineError> {
        let (Some(blocks), Some(contract)) = (self.blocks, &self.contract) else {
            return Ok(());
        };
        let Some(flush) = self.flush.as_ref().filter(|flush| flush.block.is_some()) else {
            return Ok(());
        };
        let view = self.ledger.view()?;
        let flushed = contract.approved.start.saturating_sub(1);
        let target = view.head_number().saturating_sub(blocks).min(flushed);
        let oldest = view.snapshot().first_block()?;
        let Some((hash, _)) = view.header(target)?.filter(|_| target >= oldest + DROPPED_BLOCKS) else {
            return Ok(());
        };
        let named = self.ledger.parent(&view, &hash)?.map(|block| block.extra.since);
        let created = self
            .first_transaction(&view, flush.end)?
            .map(|block| block.number);
        drop(view);
        let keep: Vec<u64> = named.into_iter().chain(created).collect();
        Ok(self.ledger.drop_blocks(target, &keep, DROPPED_BLOCKS)?)
    }

    /// Does the work that is due because time has passed.
    fn pass_time(&mut self) -> Result<(), EngineError> {
        let slot = self.slot();
        if slot > self.last_slot {
            self.last_slot = slot;
            self.begin_slot(slot)?;
        }
        if self
            .waiting
            .next_time_ms()
            .is_some_and(|time| time <= self.now_ms)
        {
            self.retry_waiting()?;
        }
        self.work_on_snapshot()?;
        if self.snapshot.is_open() {
            return Ok(());
        }
        self.produce()
    }

    fn begin_slot(&mut self, slot: u64) -> Result<(), EngineError> {
        let members = self
            .contract
            .as_ref()
            .map_or(1, |contract| contract.members.len()) as u64;
        let old = slot.saturating_sub(2 * members);
        let transactions = {
            let mut pool = self.pool.lock();
            pool.expire(slot);
            pool.take_unsent(old, slot, RELAYED_MAX, RELAYED_BYTES_MAX * 7 / 8)
        };
        if !transactions.is_empty() {
            self.send(&relayed(&transactions), None);
        }
        self.slots.forget_before(slot);
        self.send_state_in(slot)?;
        self.sync_again()
    }

    /// Checks a transaction and puts it into the pool.
    fn add_transaction(
        &self,
        transaction: Transaction,
    ) -> Result<Result<(), TransactionRefusal>, EngineError> {
        if self.pool.lock().contains(&transaction.hash()) {
            return Ok(Err(PoolRefusal::Known.into()));
        }
        let sender = match sender_for_pool(self.ledger.spec(), &transaction) {
            Ok(sender) => sender,
            Err(refusal) => return Ok(Err(refusal)),
        };
        if self.is_false_vote(&transaction, &sender) {
            return Ok(Err(TransactionRefusal::Deposits));
        }
        let view = self.ledger.view()?;
        let (next, class) = self.standing(&view, &sender)?;
        let is_message = self.is_member(&sender) && is_member_message(&transaction, &self.ledger.dapp_base());
        let incoming = IncomingTransaction {
            transaction,
            sender,
            class,
            next,
            is_message,
        };
        let slot = self.slot();
        let added = self.pool.lock().add(incoming, slot);
        Ok(added.map_err(TransactionRefusal::Pool))
    }

    /// Whether an account is a member by the last read.
    fn is_member(&self, account: &Address) -> bool {
        let contract = self.contract.as_ref();
        contract.is_some_and(|contract| contract.members.contains(account))
    }

    /// The next nonce of an account on the head's state, and its class.
    fn standing(&self, view: &View, account: &Address) -> Result<(u64, SenderClass), StoreError> {
        let stored = view.account(account, view.head_number())?.unwrap_or_default();
        let is_known = !stored.balance.is_zero() || *account == self.setup.owner || self.is_member(account);
        let class = if is_known {
            SenderClass::Known
        } else {
            SenderClass::Empty
        };
        Ok((stored.tx_nonce, class))
    }

    /// Number and hash of the head.
    fn head(&self) -> Result<BlockId, StoreError> {
        Ok(self.ledger.view()?.head_id())
    }
}

/// Bytes of the write-ahead log of one MicroChain's store: its checkpoints are small.
const LOG_BYTES: usize = 4 << 20;

/// The store's error ends the handling of an event; another refusal is told by `log`.
fn or_log<T>(
    result: Result<T, BlockRefusal>,
    log: impl FnOnce(BlockRefusal),
) -> Result<Option<T>, EngineError> {
    match result.map_err(BlockRefusal::into_store_error) {
        Ok(done) => Ok(Some(done)),
        Err(Ok(error)) => Err(error.into()),
        Err(Err(refusal)) => {
            log(refusal);
            Ok(None)
        }
    }
}
