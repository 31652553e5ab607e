//! The SCS as its clients see it: the methods of `rpc` ask it through [`MicroChains`].

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use chain::call::{CallOutcome, CallRequest, revert_text};
use chain::pool::PoolContent;
use microchain::Reader;
use microchain::reader::{ExchangeRecord, MinedTransaction, ReadError};
use parking_lot::{Mutex, RwLock};
use primitives::{Address, B256, Bytes, ReceiptOutcome, Transaction, TxRules, U256};
use rpc::health::Health;
use rpc::micro_chains::{
    DappCall, Exchange, ExchangeEntry, ServedAccount, ServedBlock, ServedChainInfo, ServedTransaction,
};
use rpc::objects::TransactionPlace;
use rpc::{MicroChains, Node, RpcError, RpcResult, ServedChain};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::base::{BaseError, BaseReader, BaseReading};
use crate::gas::GasFacts;
use crate::proven::BaseRefusals;
use crate::wallet::{SubmittedTransaction, WalletPool, read_error};

/// The longest time for the reads of the base chain for one list of deposits and withdrawals. The
/// call keeps a thread meanwhile, of which there are few.
const BASE_READS_MAX: Duration = Duration::from_secs(5);

/// An SCS as clients see it.
#[derive(Debug)]
pub struct ServedChains {
    id: Address,
    chain_id: u64,
    directory: String,
    base: BaseReader,
    refusals: Arc<BaseRefusals>,
    submitted: mpsc::Sender<SubmittedTransaction>,
    runtime: Handle,
    is_connected: AtomicBool,
    base_head: AtomicU64,
    /// Unix seconds at which the head of the base chain was told.
    base_head_at: AtomicU64,
    /// The money of the SCS for gas, if it was read.
    balance: Mutex<Option<U256>>,
    chains: RwLock<BTreeMap<Address, Arc<ServedEngine>>>,
}

/// The figures of one MicroChain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChainFigures {
    /// The MicroChain.
    pub chain: Address,
    /// The number of the highest block.
    pub head: u64,
    /// The time of the highest block, in unix seconds.
    pub head_time: u64,
    /// The members.
    pub members: u64,
    /// Whether this SCS is one of them.
    pub is_member: bool,
    /// The base block of the last flush; `None` before the start.
    pub last_flush: Option<u64>,
    /// The members that have voted for the proposal in progress.
    pub votes: u64,
    /// The transactions that wait.
    pub waiting: u64,
    /// The coins of the contract on the base chain, in sha, if they were read.
    pub escrow: Option<U256>,
    /// The coins of the contract that pay rewards and gas, in sha.
    pub operation: U256,
    /// The tokens outside DappBase, in their smallest unit.
    pub issued: U256,
}

/// A MicroChain as clients see it.
#[derive(Debug)]
struct ServedEngine {
    chain: Address,
    reader: Reader,
    base: BaseReader,
    runtime: Handle,
    contract: RwLock<ContractFacts>,
    /// Whether the SCS has no work in the MicroChain any more: then it is not listed.
    is_over: AtomicBool,
    /// The coins of the contract, if they were read.
    escrow: Mutex<Option<U256>>,
    submitted: mpsc::Sender<SubmittedTransaction>,
    /// The node for the methods of wallets, once somebody has asked for it.
    wallet_node: Mutex<Option<Arc<Node>>>,
}

/// The last reading of the chain base.
#[derive(Clone, Debug, Default)]
struct ContractFacts {
    info: Option<ServedChainInfo>,
    /// The first withdrawal that is not paid out.
    redeem_position: u64,
    gas: GasFacts,
    /// The base block of the last flush.
    last_flush: Option<u64>,
    /// The last block of the MicroChain that is flushed.
    flushed: u64,
    /// The members that have voted for the proposal in progress.
    votes: u64,
    /// The coins of the contract that pay rewards and gas.
    operation: U256,
}

impl ServedChains {
    /// Serves no MicroChain yet. Must be called within a tokio runtime.
    pub(crate) fn new(
        id: Address,
        chain_id: u64,
        directory: &Path,
        base: BaseReader,
        refusals: Arc<BaseRefusals>,
        submitted: mpsc::Sender<SubmittedTransaction>,
    ) -> Self {
        let directory = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
        Self {
            id,
            chain_id,
            directory: directory.display().to_string(),
            base,
            refusals,
            submitted,
            runtime: Handle::current(),
            is_connected: AtomicBool::new(false),
            base_head: AtomicU64::new(0),
            base_head_at: AtomicU64::new(0),
            balance: Mutex::default(),
            chains: RwLock::default(),
        }
    }

    /// Whether the VNODE is connected, as far as is known.
    pub fn is_connected(&self) -> bool {
        self.is_connected.load(Ordering::Relaxed)
    }

    /// The last answer of the VNODE about the base chain that was refused, for ten minutes.
    pub fn base_refusal(&self) -> Option<String> {
        self.refusals.last()
    }

    pub(crate) fn set_connected(&self, is_connected: bool) {
        self.is_connected.store(is_connected, Ordering::Relaxed);
    }

    pub(crate) fn set_base_head(&self, head: u64) {
        self.base_head.store(head, Ordering::Relaxed);
        self.base_head_at
            .store(chain::unix_now().as_secs(), Ordering::Relaxed);
    }

    pub(crate) fn add(&self, chain: Address, reader: Reader) {
        let served = ServedEngine {
            chain,
            reader,
            base: self.base.clone(),
            runtime: self.runtime.clone(),
            contract: RwLock::default(),
            is_over: AtomicBool::new(false),
            escrow: Mutex::default(),
            submitted: self.submitted.clone(),
            wallet_node: Mutex::default(),
        };
        self.chains.write().insert(chain, Arc::new(served));
    }

    /// Sets whether this SCS has no work in a MicroChain any more.
    pub(crate) fn set_over(&self, chain: &Address, is_over: bool) {
        if let Some(served) = self.chains.read().get(chain) {
            served.is_over.store(is_over, Ordering::Relaxed);
        }
    }

    /// Serves a MicroChain no more.
    pub(crate) fn remove(&self, chain: &Address) {
        self.chains.write().remove(chain);
    }

    pub(crate) fn set_reading(&self, chain: Address, reading: &BaseReading) {
        if let Some(served) = self.chains.read().get(&chain) {
            let info = ServedChainInfo {
                balance: reading.supply,
                block_reward: reading.state.rewards.block,
                bond_limit: reading.penalty_bond,
                owner: reading.owner,
                members: reading.state.members.clone(),
                tx_reward: reading.state.rewards.transaction,
                via_reward: reading.state.rewards.via,
            };
            let state = &reading.state;
            let mut facts = served.contract.write();
            // The block of the last flush moves with `addFund`, `reset` and `close`, too.
            if facts.info.is_some() && state.approved.end > facts.flushed {
                metrics::counter!("scs_flushes_total").increment(1);
            }
            *facts = ContractFacts {
                info: Some(info),
                redeem_position: state.redeem_position,
                gas: GasFacts {
                    members: state.members.len() as u64,
                    block: state.base_gas_limit,
                    payout_max: state.payout_max,
                },
                last_flush: state.last_flush,
                flushed: state.approved.end,
                votes: state.current.voters.len() as u64,
                operation: state.total_operation,
            };
        }
    }

    /// The number of the head of the base chain that was told last.
    pub fn base_head(&self) -> u64 {
        self.base_head.load(Ordering::Relaxed)
    }

    /// The money of the SCS for gas, in sha; `None` if it was not read yet.
    pub fn balance(&self) -> Option<U256> {
        *self.balance.lock()
    }

    pub(crate) fn set_balance(&self, balance: U256) {
        *self.balance.lock() = Some(balance);
    }

    pub(crate) fn set_escrow(&self, chain: &Address, escrow: U256) {
        if let Some(served) = self.chains.read().get(chain) {
            *served.escrow.lock() = Some(escrow);
        }
    }

    /// The figures of all MicroChains. One that cannot be read is left out.
    pub fn figures(&self) -> Vec<ChainFigures> {
        let chains: Vec<_> = self.chains.read().values().cloned().collect();
        let figures = chains.iter().filter_map(|served| served.figures(&self.id).ok());
        figures.collect()
    }

    /// The facts that the gas of calls depends on, as they were read last.
    pub(crate) fn gas_facts(&self, chain: &Address) -> GasFacts {
        let chains = self.chains.read();
        chains
            .get(chain)
            .map_or_else(GasFacts::default, |served| served.contract.read().gas)
    }
}

impl MicroChains for ServedChains {
    fn id(&self) -> Address {
        self.id
    }

    fn data_directory(&self) -> &str {
        &self.directory
    }

    fn chains(&self) -> Vec<Address> {
        let chains = self.chains.read();
        let listed = chains.values().filter(|one| !one.is_over.load(Ordering::Relaxed));
        listed.map(|one| one.chain).collect()
    }

    fn chain(&self, address: &Address) -> Option<Arc<dyn ServedChain>> {
        let engine = Arc::clone(self.chains.read().get(address)?);
        Some(engine)
    }

    fn wallet_node(&self, address: &Address) -> RpcResult<Option<Arc<Node>>> {
        let engine = self.chains.read().get(address).cloned();
        engine.map(|engine| engine.wallet_node()).transpose()
    }

    fn submit(&self, raw: &[u8]) -> RpcResult<B256> {
        let refused = |reason: String| RpcError::refused(reason);
        let transaction =
            Transaction::decode_raw(raw, TxRules::Moac).map_err(|error| refused(error.to_string()))?;
        let flag = transaction.sharding_flag;
        if !(1..=3).contains(&flag) {
            return Err(refused(format!(
                "shardingFlag error: got {flag}, expected 1, 2 or 3"
            )));
        }
        let chain = transaction.to.unwrap_or_default();
        if !self.chains.read().contains_key(&chain) {
            return Err(refused(format!(
                "to: got {chain}, expected a MicroChain of this SCS"
            )));
        }
        let got = transaction.chain_id();
        if got != Some(self.chain_id) {
            let got = got.map_or_else(|| "none".to_owned(), |id| id.to_string());
            return Err(refused(format!(
                "chain id: got {got}, expected {}",
                self.chain_id
            )));
        }
        transaction
            .recover_sender(true)
            .map_err(|error| refused(error.to_string()))?;
        let hash = transaction.hash();
        let submitted = self
            .submitted
            .try_send(SubmittedTransaction { chain, transaction });
        submitted.map_err(|_| refused("too many transactions wait: try again later".to_owned()))?;
        Ok(hash)
    }

    fn health(&self) -> RpcResult<Health> {
        let is_connected = self.is_connected();
        let told = self.base_head_at.load(Ordering::Relaxed);
        Ok(Health {
            head: self.base_head.load(Ordering::Relaxed),
            age: chain::unix_now().as_secs().saturating_sub(told),
            peers: u64::from(is_connected),
            syncing: !is_connected,
        })
    }
}

const fn entry(record: ExchangeRecord) -> ExchangeEntry {
    ExchangeEntry {
        user: record.user,
        amount: record.tokens,
        time: record.time,
    }
}

impl ServedEngine {
    fn figures(&self, id: &Address) -> Result<ChainFigures, ReadError> {
        let view = self.reader.view()?;
        let (head, time) = (view.head_number(), view.head().header.timestamp);
        let facts = self.contract.read().clone();
        let info = facts.info.unwrap_or_default();
        let issued = match self.reader.dapp_base()? {
            Some(dapp_base) => info.balance.saturating_sub(self.reader.balance(&dapp_base)?),
            None => U256::ZERO,
        };
        Ok(ChainFigures {
            chain: self.chain,
            head,
            head_time: time,
            members: info.members.len() as u64,
            is_member: info.members.contains(id),
            last_flush: facts.last_flush,
            votes: facts.votes,
            waiting: self.reader.waiting_count(),
            escrow: *self.escrow.lock(),
            operation: facts.operation,
            issued,
        })
    }

    fn wallet_node(&self) -> RpcResult<Arc<Node>> {
        let mut made = self.wallet_node.lock();
        if let Some(node) = &*made {
            return Ok(Arc::clone(node));
        }
        let pool = WalletPool {
            chain: self.chain,
            reader: self.reader.clone(),
            submitted: self.submitted.clone(),
            sent: Mutex::default(),
        };
        let node = Arc::new(pool.into_node()?);
        *made = Some(Arc::clone(&node));
        Ok(node)
    }

    fn show(&self, mined: Option<MinedTransaction>) -> RpcResult<Option<ServedTransaction>> {
        let Some(mined) = mined else {
            return Ok(None);
        };
        let Some(found) = self.reader.receipt_of(mined).map_err(read_error)? else {
            return Ok(None);
        };
        Ok(Some(ServedTransaction {
            place: TransactionPlace {
                block_hash: found.mined.block.hash,
                block_number: found.mined.block.number,
                index: found.mined.index as usize,
            },
            sender: found.mined.sender,
            success: found.receipt.outcome == ReceiptOutcome::Status(true),
            created: found.contract,
            first_log: found.first_log as usize,
            logs_bloom: found.receipt.logs_bloom,
            logs: found.receipt.logs,
            output: found.receipt.output,
            transaction: found.mined.transaction,
        }))
    }

    /// The parts of the exchange that are on the MicroChain, with at most `newest` withdrawals; and
    /// the first deposit that waits.
    fn own_exchange(&self, user: Option<Address>, newest: u64) -> Result<(Exchange, u64), ReadError> {
        let mut exchange = Exchange::default();
        if self.reader.dapp_base()?.is_none() {
            return Ok((exchange, 0));
        }
        if let Some(user) = &user {
            let credited = self.reader.credited(user)?;
            exchange.deposits = credited.into_iter().map(entry).collect();
        }
        let from = self.contract.read().redeem_position;
        let (withdrawing, count) = self.reader.withdrawals(user.as_ref(), from, newest)?;
        exchange.withdrawing = withdrawing.into_iter().map(entry).collect();
        exchange.withdrawing_count = count;
        Ok((exchange, self.reader.enter_position()?))
    }

    /// Adds the parts of the exchange that are on the base chain, with deposits from `position` on.
    async fn add_base_exchange(
        &self,
        exchange: &mut Exchange,
        user: Option<Address>,
        position: u64,
    ) -> Result<(), BaseError> {
        let entering = self.base.entering(self.chain, user.unwrap_or_default(), position);
        let (depositing, _) = entering.await?;
        let depositing = depositing.into_iter().map(|deposit| ExchangeEntry {
            user: deposit.user,
            amount: deposit.tokens,
            time: deposit.bought,
        });
        exchange.depositing = depositing.collect();
        if let Some(user) = user {
            let paid = self.base.redeemed(self.chain, user).await?.into_iter();
            let paid = paid.map(|(amount, time)| ExchangeEntry { user, amount, time });
            exchange.withdrawals = paid.collect();
        }
        Ok(())
    }
}

impl ServedChain for ServedEngine {
    fn head(&self) -> RpcResult<u64> {
        Ok(self.reader.head().map_err(read_error)?.number)
    }

    fn block(&self, number: u64) -> RpcResult<Option<ServedBlock>> {
        let block = self.reader.block(number).map_err(read_error)?;
        Ok(block.map(|block| ServedBlock {
            hash: block.hash,
            transactions: block.body.transactions.iter().map(Transaction::hash).collect(),
            header: block.record.header,
        }))
    }

    fn account(&self, account: &Address) -> RpcResult<ServedAccount> {
        Ok(ServedAccount {
            balance: self.reader.balance(account).map_err(read_error)?,
            tx_nonce: self.reader.nonce(account).map_err(read_error)?,
        })
    }

    fn dapps(&self) -> RpcResult<Vec<Address>> {
        let Some(dapp_base) = self.reader.dapp_base().map_err(read_error)? else {
            return Ok(Vec::new());
        };
        let registered = self.reader.dapps().map_err(read_error)?;
        let registered = registered.into_iter().map(|dapp| dapp.address);
        Ok(std::iter::once(dapp_base).chain(registered).collect())
    }

    fn info(&self) -> RpcResult<Option<ServedChainInfo>> {
        Ok(self.contract.read().info.clone())
    }

    fn transaction(&self, hash: &B256) -> RpcResult<Option<ServedTransaction>> {
        self.show(self.reader.transaction(hash).map_err(read_error)?)
    }

    fn transaction_of(&self, sender: &Address, tx_nonce: u64) -> RpcResult<Option<ServedTransaction>> {
        let mined = self.reader.transaction_by_nonce(sender, tx_nonce);
        self.show(mined.map_err(read_error)?)
    }

    fn call(&self, call: &DappCall) -> RpcResult<Bytes> {
        let dapp = match call.dapp {
            Some(dapp) => dapp,
            None => match self.reader.dapp_base().map_err(read_error)? {
                Some(dapp_base) => dapp_base,
                None => return Ok(Bytes::new()),
            },
        };
        let request = CallRequest {
            from: Some(call.from),
            to: Some(dapp),
            input: call.input.clone(),
            ..CallRequest::default()
        };
        match self.reader.call(&request).map_err(read_error)? {
            CallOutcome::Success { output, .. } => Ok(output),
            CallOutcome::Revert { output, .. } => Err(RpcError::reverted(revert_text(&output), &output)),
            CallOutcome::OutOfGas => Err(RpcError::refused("out of gas")),
            CallOutcome::Failed(reason) => Err(RpcError::refused(format!("the call failed: {reason}"))),
        }
    }

    fn pool(&self) -> RpcResult<PoolContent> {
        Ok(self.reader.pool())
    }

    fn exchange(&self, user: Option<Address>, newest: u64) -> RpcResult<Exchange> {
        let (mut exchange, position) = self.own_exchange(user, newest).map_err(read_error)?;
        let read = async {
            let added = self.add_base_exchange(&mut exchange, user, position);
            match timeout(BASE_READS_MAX, added).await {
                Ok(added) => added.map_err(|error| RpcError::refused(format!("the base chain: {error}"))),
                Err(_) => Err(RpcError::refused(format!(
                    "the base chain: no answer after {BASE_READS_MAX:?}"
                ))),
            }
        };
        self.runtime.block_on(read)?;
        Ok(exchange)
    }
}
