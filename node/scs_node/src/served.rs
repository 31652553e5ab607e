//! The SCS as its clients see it: the methods of `rpc` ask it through [`MicroChains`].

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use chain::call::{CallOutcome, CallRequest, revert_text};
use chain::pool::PoolContent;
use microchain::Reader;
use microchain::reader::{ExchangeRecord, MinedTransaction, ReadError};
use parking_lot::RwLock;
use primitives::{Address, B256, Bytes, ReceiptOutcome, Transaction, TxRules};
use rpc::health::Health;
use rpc::micro_chains::{
    DappCall, Exchange, ExchangeEntry, ServedAccount, ServedBlock, ServedChainInfo, ServedTransaction,
};
use rpc::objects::TransactionPlace;
use rpc::{ControlFuture, MicroChains, RpcError, RpcResult, ServedChain};
use tokio::sync::mpsc;

use crate::base::{BaseError, BaseReader, BaseReading};

/// A transaction that a client has sent to this SCS.
#[derive(Debug)]
pub(crate) struct SubmittedTransaction {
    /// The MicroChain.
    pub chain: Address,
    pub transaction: Transaction,
}

/// An SCS as clients see it.
#[derive(Debug)]
pub struct ServedChains {
    id: Address,
    chain_id: u64,
    directory: String,
    base: BaseReader,
    submitted: mpsc::Sender<SubmittedTransaction>,
    is_connected: AtomicBool,
    base_head: AtomicU64,
    /// Unix seconds at which the head of the base chain was told.
    base_head_at: AtomicU64,
    chains: RwLock<BTreeMap<Address, Arc<ServedEngine>>>,
}

/// A MicroChain as clients see it.
#[derive(Debug)]
struct ServedEngine {
    chain: Address,
    reader: Reader,
    base: BaseReader,
    contract: RwLock<ContractFacts>,
}

/// The last reading of the chain base.
#[derive(Clone, Debug, Default)]
struct ContractFacts {
    info: Option<ServedChainInfo>,
    /// The first withdrawal that is not paid out.
    redeem_position: u64,
}

impl ServedChains {
    /// Serves no MicroChain yet.
    pub(crate) fn new(
        id: Address,
        chain_id: u64,
        directory: &Path,
        base: BaseReader,
        submitted: mpsc::Sender<SubmittedTransaction>,
    ) -> Self {
        let directory = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
        Self {
            id,
            chain_id,
            directory: directory.display().to_string(),
            base,
            submitted,
            is_connected: AtomicBool::new(false),
            base_head: AtomicU64::new(0),
            base_head_at: AtomicU64::new(0),
            chains: RwLock::default(),
        }
    }

    /// Whether the VNODE is connected, as far as is known.
    pub fn is_connected(&self) -> bool {
        self.is_connected.load(Ordering::Relaxed)
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
            contract: RwLock::default(),
        };
        self.chains.write().insert(chain, Arc::new(served));
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
            *served.contract.write() = ContractFacts {
                info: Some(info),
                redeem_position: reading.state.redeem_position,
            };
        }
    }

    /// The members of a MicroChain, as they were read last.
    pub(crate) fn member_count(&self, chain: &Address) -> u64 {
        let chains = self.chains.read();
        let Some(served) = chains.get(chain) else {
            return 0;
        };
        let contract = served.contract.read();
        contract.info.as_ref().map_or(0, |info| info.members.len() as u64)
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
        self.chains.read().keys().copied().collect()
    }

    fn chain(&self, address: &Address) -> Option<Arc<dyn ServedChain>> {
        let engine = Arc::clone(self.chains.read().get(address)?);
        Some(engine)
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

/// A failure of the store is a fault of this node; anything else is told to the caller.
fn read_error(error: ReadError) -> RpcError {
    match error {
        ReadError::Store(error) => {
            tracing::error!(%error, "a request failed because of the store");
            RpcError::internal("the SCS could not read its data")
        }
        ReadError::Call(error) => RpcError::refused(error.to_string()),
        error @ (ReadError::Answer { .. } | ReadError::Failed { .. }) => RpcError::refused(error.to_string()),
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

    /// The parts of the exchange that are on the MicroChain, and the first deposit that waits.
    fn own_exchange(&self, user: Option<Address>) -> Result<(Exchange, u64), ReadError> {
        let mut exchange = Exchange::default();
        if self.reader.dapp_base()?.is_none() {
            return Ok((exchange, 0));
        }
        if let Some(user) = &user {
            let credited = self.reader.credited(user)?;
            exchange.deposits = credited.into_iter().map(entry).collect();
        }
        let from = self.contract.read().redeem_position;
        let withdrawing = self.reader.withdrawals(user.as_ref(), from)?;
        exchange.withdrawing = withdrawing.into_iter().map(entry).collect();
        Ok((exchange, self.reader.enter_position()?))
    }

    async fn whole_exchange(&self, user: Option<Address>) -> RpcResult<Exchange> {
        let base_error = |error: BaseError| RpcError::refused(format!("the base chain: {error}"));
        let (mut exchange, position) = self.own_exchange(user).map_err(read_error)?;
        let (depositing, _) = self
            .base
            .entering(self.chain, user.unwrap_or_default(), position)
            .await
            .map_err(base_error)?;
        exchange.depositing = depositing
            .into_iter()
            .map(|deposit| ExchangeEntry {
                user: deposit.user,
                amount: deposit.tokens,
                time: deposit.bought,
            })
            .collect();
        if let Some(user) = user {
            let paid = self.base.redeemed(self.chain, user).await.map_err(base_error)?;
            exchange.withdrawals = paid
                .into_iter()
                .map(|(amount, time)| ExchangeEntry { user, amount, time })
                .collect();
        }
        Ok(exchange)
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

    fn exchange(&self, user: Option<Address>) -> ControlFuture<'_, RpcResult<Exchange>> {
        Box::pin(self.whole_exchange(user))
    }
}
