//! What clients see of an SCS: the methods of `rpc` ask it through [`MicroChains`].

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use microchain::Reader;
use parking_lot::RwLock;
use primitives::{Address, B256, Transaction, TxRules};
use rpc::health::Health;
use rpc::micro_chains::ServedChainInfo;
use rpc::{MicroChains, RpcError, RpcResult, ServedChain};
use scs_service::client::ScsClient;
use tokio::sync::mpsc;

use crate::base::{BaseReader, BaseReading};

/// A transaction that a client has sent to this SCS.
#[derive(Debug)]
pub struct SubmittedTransaction {
    /// The MicroChain.
    pub chain: Address,
    /// The transaction.
    pub transaction: Transaction,
}

/// An SCS as clients see it.
#[derive(Debug)]
pub struct ServedChains {
    id: Address,
    chain_id: u64,
    directory: String,
    client: ScsClient,
    reader: BaseReader,
    submitted: mpsc::Sender<SubmittedTransaction>,
    is_connected: AtomicBool,
    base_head: AtomicU64,
    /// Unix seconds at which the head of the base chain was told.
    base_head_at: AtomicU64,
    chains: RwLock<BTreeMap<Address, Arc<ServedEngine>>>,
}

/// A MicroChain as clients see it.
#[derive(Debug)]
pub(crate) struct ServedEngine {
    reader: Reader,
    info: RwLock<Option<ServedChainInfo>>,
}

impl ServedChains {
    /// Serves no MicroChain yet.
    pub(crate) fn new(
        id: Address,
        chain_id: u64,
        directory: &Path,
        client: ScsClient,
        reader: BaseReader,
        submitted: mpsc::Sender<SubmittedTransaction>,
    ) -> Self {
        let directory = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
        Self {
            id,
            chain_id,
            directory: directory.display().to_string(),
            client,
            reader,
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
            reader,
            info: RwLock::default(),
        };
        self.chains.write().insert(chain, Arc::new(served));
    }

    pub(crate) fn set_reading(&self, chain: Address, reading: &BaseReading) {
        if let Some(served) = self.chains.read().get(&chain) {
            *served.info.write() = Some(ServedChainInfo {
                balance: reading.supply,
                block_reward: reading.state.rewards.block,
                bond_limit: reading.penalty_bond,
                owner: reading.owner,
                members: reading.state.members.clone(),
                tx_reward: reading.state.rewards.transaction,
                via_reward: reading.state.rewards.via,
            });
        }
    }

    /// The members of a MicroChain, as they were read last.
    pub(crate) fn member_count(&self, chain: &Address) -> u64 {
        let chains = self.chains.read();
        let info = chains.get(chain).and_then(|served| served.info.read().clone());
        info.map_or(0, |info| info.members.len() as u64)
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

    fn chain(&self, _address: &Address) -> Option<Arc<dyn ServedChain>> {
        None
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
