//! revm alone: the same transactions with its mainnet handler and its in-memory database.
//!
//! There are no trie, receipts, store or rewards, so this is a lower bound for every importer based
//! on revm.

use bench::Failure;
use bench::clock::{Clock, Took};
use primitives::{Address, EMPTY_CODE_HASH, U256};
use revm::bytecode::Bytecode;
use revm::context::{BlockEnv, TxEnv};
use revm::database::{CacheDB, EmptyDB};
use revm::primitives::TxKind;
use revm::primitives::hardfork::SpecId;
use revm::state::AccountInfo;
use revm::{Context, ExecuteCommitEvm, MainBuilder, MainContext};

use crate::workload::Workload;

/// The workload in the types of revm.
pub(crate) struct Peer {
    state: CacheDB<EmptyDB>,
    blocks: Vec<(BlockEnv, Vec<TxEnv>)>,
    chain_id: u64,
    gas: u64,
}

impl Peer {
    /// Converts the workload. `senders` has the senders of each block.
    pub(crate) fn new(workload: &Workload, senders: &[Vec<Address>]) -> Result<Self, Failure> {
        let mut state = CacheDB::new(EmptyDB::default());
        for (address, account) in &workload.spec.genesis.alloc {
            let code = (!account.code.is_empty()).then(|| Bytecode::new_legacy(account.code.clone()));
            let info = AccountInfo {
                balance: account.balance,
                nonce: account.tx_nonce,
                code_hash: code.as_ref().map_or(EMPTY_CODE_HASH, Bytecode::hash_slow),
                code,
                ..Default::default()
            };
            state.insert_account_info(*address, info);
            for (slot, value) in &account.storage {
                state.insert_account_storage(*address, *slot, *value)?;
            }
        }
        let blocks = workload.blocks.iter().zip(senders).map(|(block, senders)| {
            let header = &block.header;
            let env = BlockEnv {
                number: U256::from(header.number),
                beneficiary: header.beneficiary,
                timestamp: U256::from(header.timestamp),
                gas_limit: header.gas_limit,
                difficulty: header.difficulty,
                ..Default::default()
            };
            let transactions = block
                .transactions
                .iter()
                .zip(senders)
                .map(|(transaction, sender)| TxEnv {
                    caller: *sender,
                    gas_limit: transaction.gas,
                    gas_price: transaction.gas_price.saturating_to(),
                    kind: transaction.to.map_or(TxKind::Create, TxKind::Call),
                    value: transaction.value,
                    data: transaction.input.clone(),
                    nonce: transaction.tx_nonce,
                    chain_id: transaction.chain_id(),
                    ..Default::default()
                });
            (env, transactions.collect())
        });
        Ok(Self {
            state,
            blocks: blocks.collect(),
            chain_id: workload.spec.chain_id,
            gas: workload.gas,
        })
    }

    /// Runs all transactions once on a copy of the state. `before` is called with the index of each
    /// block; its time is measured, too.
    pub(crate) fn run(&self, mut before: impl FnMut(usize)) -> Result<Took, Failure> {
        let state = self.state.clone();
        let blocks = self.blocks.clone();
        let mut evm = Context::mainnet()
            .with_db(state)
            .modify_cfg_chained(|cfg| {
                cfg.set_spec_and_mainnet_gas_params(SpecId::ISTANBUL);
                cfg.chain_id = self.chain_id;
            })
            .build_mainnet();
        let mut gas = 0;
        let clock = Clock::start();
        for (index, (env, transactions)) in blocks.into_iter().enumerate() {
            before(index);
            evm.ctx.block = env;
            for transaction in transactions {
                let result = evm
                    .transact_commit(transaction)
                    .map_err(|error| format!("revm refuses a transaction: {error:?}"))?;
                gas += result.tx_gas_used();
            }
        }
        let took = clock.stop();
        if gas != self.gas {
            return Err(format!("gas used by revm: got {gas}, expected {}", self.gas).into());
        }
        Ok(took)
    }
}
