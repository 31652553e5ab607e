//! Our side: the executor of the node makes the blocks of a case, and its importer imports them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use chain::evm::execute::Executor;
use chain::genesis::ensure_genesis;
use chain::import::{ImportError, Importer};
use chain::rules::body::{sender, transactions_root};
use chain::rules::difficulty::next_difficulty;
use chain::rules::seal::SealCheck;
use chain::spec::{Genesis, GenesisAccount, Rule};
use chain::state::BlockState;
use chain::trace::{StepOptions, Trace, TraceRequest, TraceStep, Tracer};
use chain::trie::ordered_root;
use chain::{ChainSpec, View};
use primitives::{
    B256, Block, Bytes, Header, Receipt, SECP256K1_ORDER, Transaction, TxForm, TxRules, U256,
    UnsignedTransaction, hex, uncles_hash,
};
use serde_json::{Value, json};
use store::Store;

use crate::case::{Case, CaseBlock, CaseTransaction, SENDERS, SignatureKind, sender_key};
use crate::error::DifferentialError;
use crate::rules::ForkRules;

/// Longest time for a trace.
const TRACE_TIMEOUT: Duration = Duration::from_secs(60);

/// The result of a transaction of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The transaction cannot be in the block, for this reason.
    Refused(String),
    /// The transaction was executed.
    Executed {
        /// Gas after refunds.
        gas_used: u64,
        /// The receipt's bytes.
        receipt: Vec<u8>,
    },
}

/// A block that was made from a plan and executed.
#[derive(Clone, Debug)]
pub struct ExecutedPlan {
    /// The block, without the transactions that were refused.
    pub block: Block,
    /// All transactions of the plan, raw, those that were refused included.
    pub candidates: Vec<Vec<u8>>,
    /// The fate of each of them.
    pub fates: Vec<Fate>,
}

/// A case that was executed.
#[derive(Debug)]
pub struct ExecutedCase {
    /// Block 0.
    pub genesis: Header,
    /// The blocks.
    pub blocks: Vec<ExecutedPlan>,
    spec: Arc<ChainSpec>,
    store: Store,
}

/// The spec of a fork.
///
/// # Errors
/// If the node does not have the fork.
pub fn spec_of(rules: &ForkRules) -> Result<ChainSpec, DifferentialError> {
    testvec::spec_of_fork(rules.name).map_err(|_| DifferentialError::NoSpec(rules.name))
}

/// Executes a case by the rules of `spec`, which are mostly those of the case.
///
/// # Errors
/// If the importer refuses a block that the executor has made, or the store fails.
pub fn execute(case: &Case, spec: ChainSpec) -> Result<ExecutedCase, DifferentialError> {
    let spec = Arc::new(ChainSpec {
        genesis: genesis(case),
        ..spec
    });
    let store = Store::in_memory()?;
    ensure_genesis(&store, &spec)?;
    let genesis = View::new(&store, spec.clone())?.head().header.clone();
    let importer = Importer::new(store.clone(), spec.clone(), SealCheck::Off);
    let mut executed = ExecutedCase {
        genesis: genesis.clone(),
        blocks: Vec::new(),
        spec,
        store,
    };
    let (mut grandparent, mut parent) = (None, genesis);
    for plan in &case.blocks {
        let uncle = plan.uncle.zip(grandparent.as_ref());
        let uncles = uncle.map(|(beneficiary, _)| Header {
            // A sibling of the parent, which differs in its beneficiary and its extra data.
            beneficiary,
            extra_data: Bytes::from_static(b"uncle"),
            ..parent.clone()
        });
        let uncles: Vec<Header> = uncles.into_iter().collect();
        let block = executed
            .make_block(plan, &parent, uncles, case.base_fee)
            .map_err(DifferentialError::at(|| format!("block {}", parent.number + 1)))?;
        if case.base_fee == 0 {
            let imported = importer.import(&block.block, None);
            imported.map_err(DifferentialError::at(|| format!("block {}", parent.number + 1)))?;
        }
        grandparent = Some(std::mem::replace(&mut parent, block.block.header.clone()));
        executed.blocks.push(block);
    }
    Ok(executed)
}

fn genesis(case: &Case) -> Genesis {
    let accounts = case.accounts.iter().map(|account| {
        let record = GenesisAccount {
            balance: account.balance,
            tx_nonce: account.nonce,
            code: account.code.assemble().into(),
            storage: account.storage.clone(),
        };
        (account.address, record)
    });
    Genesis {
        difficulty: U256::from(0x20000),
        gas_limit: case.gas_limit,
        alloc: accounts.collect(),
        ..Default::default()
    }
}

impl ExecutedCase {
    /// The chain id of the rules.
    pub fn chain_id(&self) -> u64 {
        self.spec.chain_id
    }

    /// The rules, with block 0 of the case.
    pub fn spec(&self) -> &ChainSpec {
        &self.spec
    }

    /// Block 0 and the blocks after it.
    pub fn chain(&self) -> Vec<Block> {
        let genesis = Block {
            header: self.genesis.clone(),
            transactions: Vec::new(),
            uncles: Vec::new(),
        };
        let blocks = self.blocks.iter().map(|plan| plan.block.clone());
        std::iter::once(genesis).chain(blocks).collect()
    }

    fn make_block(
        &self,
        plan: &CaseBlock,
        parent: &Header,
        uncles: Vec<Header>,
        base_fee: u64,
    ) -> Result<ExecutedPlan, DifferentialError> {
        let spec = &*self.spec;
        let timestamp = parent.timestamp + plan.seconds;
        let mut header = Header {
            parent_hash: parent.hash(),
            uncles_hash: uncles_hash(&uncles),
            beneficiary: plan.beneficiary,
            difficulty: next_difficulty(spec, parent, timestamp),
            number: parent.number + 1,
            gas_limit: parent.gas_limit,
            timestamp,
            extra_data: plan.extra.clone().into(),
            ..Default::default()
        };
        let view = self.store.snapshot()?;
        let mut state = BlockState::new(&*view, parent.number, parent.state_root);
        let mut nonces = Vec::new();
        for index in 0..SENDERS {
            nonces.push(state.balance_and_nonce(sender_key(index).address())?.1);
        }
        let mut executor = Executor::new(spec, &header, &mut state);
        if spec.rules_at(header.number).has(Rule::Eip1559) {
            executor.set_base_fee(base_fee);
        }
        let (mut candidates, mut fates, mut transactions) = (Vec::new(), Vec::new(), Vec::new());
        for planned in &plan.transactions {
            let nonce = &mut nonces[planned.sender];
            let transaction = sign(planned, *nonce, spec.chain_id_at(header.number), tx_form(spec));
            candidates.push(transaction.encode_raw());
            let run = match sender(spec, header.number, &transaction) {
                Ok(from) => {
                    let run = executor.transaction(&transaction, from);
                    run.map_err(|error| error.to_string())
                }
                Err(error) => Err(error.to_string()),
            };
            fates.push(match run {
                Ok(outcome) => {
                    *nonce = transaction.tx_nonce + 1;
                    transactions.push(transaction);
                    Fate::Executed {
                        gas_used: outcome.gas_used,
                        receipt: Vec::new(),
                    }
                }
                Err(reason) => Fate::Refused(reason),
            });
        }
        let executed = executor.finish(&uncles)?;
        header.state_root = state.root()?;
        header.transactions_root = transactions_root(&transactions);
        let encode = |receipt: &Receipt| receipt.encode(spec.receipt_form());
        header.receipts_root = receipts_root(spec, &executed.receipts);
        header.logs_bloom = executed.logs_bloom;
        header.gas_used = executed.gas_used;
        let mut receipts = executed.receipts.iter().map(encode);
        for fate in &mut fates {
            if let Fate::Executed { receipt, .. } = fate {
                *receipt = receipts.next().unwrap_or_default();
            }
        }
        Ok(ExecutedPlan {
            block: Block {
                header,
                transactions,
                uncles,
            },
            candidates,
            fates,
        })
    }

    /// The steps of a transaction, by its block's place in the case and its own place in the plan.
    ///
    /// # Errors
    /// If it was refused, or is too long for a trace.
    pub fn trace(&self, block: usize, candidate: usize) -> Result<Vec<TraceStep>, DifferentialError> {
        let executed = &self.blocks[block];
        if let Fate::Refused(reason) = &executed.fates[candidate] {
            return Err(DifferentialError::Refused(reason.clone()));
        }
        let before = executed.fates[..candidate].iter();
        let index = before
            .filter(|fate| matches!(fate, Fate::Executed { .. }))
            .count();
        let view = View::new(&self.store, self.spec.clone())?;
        steps(&view, &executed.block.hash(), index)
    }

    /// The reason why a header, or one of its uncles, may not follow the blocks of the case.
    /// Transactions and roots are not judged: the block has none.
    ///
    /// # Errors
    /// If the importer fails for another reason.
    pub fn judge(&self, header: &Header, uncles: &[Header]) -> Result<Option<String>, DifferentialError> {
        let block = Block {
            header: header.clone(),
            transactions: Vec::new(),
            uncles: uncles.to_vec(),
        };
        let importer = Importer::new(self.store.clone(), self.spec.clone(), SealCheck::Off);
        match importer.import(&block, None) {
            Err(error @ (ImportError::Header(_) | ImportError::Body(_))) => Ok(Some(error.to_string())),
            Ok(_)
            | Err(
                ImportError::StateRoot { .. }
                | ImportError::ReceiptsRoot { .. }
                | ImportError::Bloom { .. }
                | ImportError::GasUsed { .. },
            ) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The request of `vnode testvec block` for this case.
    pub fn testvec_request(&self, case: &Case) -> Value {
        let encoded = |block: &Block| hex::encode_prefixed(block.encode());
        let chain = self.chain();
        json!({
            "fork": case.rules.name,
            "seal": "NoProof",
            "pre": pre_state(case),
            "genesis": encoded(&chain[0]),
            "blocks": chain[1..].iter().map(encoded).collect::<Value>(),
        })
    }
}

/// The steps of a transaction of a canonical block.
///
/// # Errors
/// If there is no such transaction, or it is too long for a trace.
pub fn steps(view: &View, block: &B256, index: usize) -> Result<Vec<TraceStep>, DifferentialError> {
    let block = view
        .block_by_hash(block)?
        .ok_or(DifferentialError::NotStored(*block))?;
    let options = StepOptions {
        stack: false,
        memory: false,
        storage: false,
        limit: None,
    };
    let request = TraceRequest::new(Tracer::Steps(options), TRACE_TIMEOUT);
    match view.trace_transaction(&block, index, &request)? {
        Trace::Steps(trace) => Ok(trace.steps),
        other => Err(DifferentialError::NoSteps {
            got: format!("{other:?}"),
        }),
    }
}

/// The accounts of block 0, as in the member `pre` of public test vectors.
pub fn pre_state(case: &Case) -> Value {
    let word = |value: &U256| format!("{value:#066x}");
    let accounts = case.accounts.iter().map(|account| {
        let storage: BTreeMap<String, String> = account
            .storage
            .iter()
            .map(|(slot, value)| (word(slot), word(value)))
            .collect();
        let fields = json!({
            "balance": format!("{:#x}", account.balance),
            "nonce": format!("{:#x}", account.nonce),
            "code": hex::encode_prefixed(account.code.assemble()),
            "storage": storage,
        });
        (hex::encode_prefixed(account.address), fields)
    });
    Value::Object(accounts.collect())
}

/// The receipts root of a block with these receipts.
pub fn receipts_root(spec: &ChainSpec, receipts: &[Receipt]) -> B256 {
    ordered_root(receipts.iter().map(|receipt| receipt.encode(spec.receipt_form())))
}

/// The form of transactions on this chain.
pub const fn tx_form(spec: &ChainSpec) -> TxForm {
    match spec.tx_rules() {
        TxRules::Ethereum => TxForm::Ethereum,
        TxRules::Moac => TxForm::Native,
    }
}

/// Signs a planned transaction.
pub fn sign(planned: &CaseTransaction, nonce: u64, chain_id: u64, form: TxForm) -> Transaction {
    let unsigned = UnsignedTransaction {
        tx_nonce: nonce.saturating_add_signed(planned.nonce_offset),
        gas_price: planned.gas_price,
        gas: planned.gas,
        to: planned.to,
        value: planned.value,
        input: planned.input.bytes().into(),
        access_list: planned.access_list.clone().unwrap_or_default(),
        ..Default::default()
    };
    let form = match planned.access_list {
        Some(_) => TxForm::AccessList,
        None => form,
    };
    let key = sender_key(planned.sender);
    let plain = || match form {
        TxForm::Ethereum => unsigned.sign_unprotected(&key),
        _ => unsigned.sign(&key, chain_id, form),
    };
    match planned.signature {
        SignatureKind::Plain => plain(),
        SignatureKind::Protected => unsigned.sign(&key, chain_id, form),
        SignatureKind::OtherChain => unsigned.sign(&key, chain_id + 1, form),
        SignatureKind::HighS => with_high_s(plain()),
        SignatureKind::Broken => Transaction {
            r: U256::ZERO,
            ..plain()
        },
    }
}

/// The same signature with the other s, which recovers the same sender.
fn with_high_s(transaction: Transaction) -> Transaction {
    let odd = transaction.v.bit(0);
    let s = SECP256K1_ORDER - transaction.s;
    if transaction.is_typed() {
        let v = U256::from(!odd);
        return Transaction { v, s, ..transaction };
    }
    Transaction {
        // V is odd for the first recovery id: 27, or 35 plus an even number.
        v: if odd {
            transaction.v + U256::from(1)
        } else {
            transaction.v - U256::from(1)
        },
        s,
        ..transaction
    }
}
