//! What a body must be before anything is executed: hashes, senders, uncles.
//!
//! Knows headers, transactions and ancestors; knows no state.

use ethash::{CacheError, LightCaches, NEXT_EPOCH_LEAD_BLOCKS, SealError};
use primitives::{
    Address, B256, Block, Header, SYSTEM_SENDER, SignatureError, Transaction, TxForm, uncles_hash,
};
use store::{BlockReads, StoreError};

use crate::parallel::for_each_in_order;
use crate::rules::{HeaderError, UNCLE_GENERATIONS, UNCLES_MAX, check_header};
use crate::spec::ChainSpec;
use crate::trie::ordered_root;

/// Why a body is refused.
#[derive(Debug, thiserror::Error)]
#[expect(
    missing_docs,
    reason = "fields are the value got and the value expected, as the texts say"
)]
pub enum BodyError {
    /// The transactions are not those of the header.
    #[error("transactions root {got}, the header has {expected}")]
    TransactionsRoot { got: B256, expected: B256 },
    /// The uncles are not those of the header.
    #[error("uncles hash {got}, the header has {expected}")]
    UnclesHash { got: B256, expected: B256 },
    /// More uncles than allowed.
    #[error("{got} uncles, at most {max} are allowed")]
    UncleCount { got: usize, max: usize },
    /// An uncle twice, in this block or before.
    #[error("uncle {0} is included already")]
    UncleTwice(B256),
    /// The uncle is an ancestor of the block.
    #[error("uncle {0} is an ancestor")]
    UncleIsAncestor(B256),
    /// The uncle's parent is no ancestor, or too far away, or the block's own parent.
    #[error("uncle {0} does not hang on one of the last {UNCLE_GENERATIONS} ancestors' parents")]
    UncleParent(B256),
    /// The uncle's header breaks a rule.
    #[error("uncle {hash}: {error}")]
    UncleHeader { hash: B256, error: HeaderError },
    /// The uncle's seal is wrong.
    #[error("uncle {hash}: {error}")]
    UncleSeal { hash: B256, error: SealCheckError },
    /// The block does not begin with the system transaction.
    #[error("the block does not begin with the system transaction")]
    NoSystemTransaction,
    /// A transaction's signature or chain id is wrong.
    #[error("transaction {index}: {error}")]
    Sender { index: usize, error: SenderError },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a transaction has no sender on this chain.
#[derive(Debug, thiserror::Error)]
#[expect(
    missing_docs,
    reason = "fields are the value got and the value expected, as the texts say"
)]
pub enum SenderError {
    /// The signature is no signature.
    #[error("invalid sender: {0}")]
    Signature(#[from] SignatureError),
    /// Signed for another chain.
    #[error("invalid sender: {}, want chain id {expected}", chain_id_text(*got))]
    ChainId { got: Option<u64>, expected: u64 },
    /// A system transaction has none.
    #[error("invalid sender: a system transaction is not signed")]
    System,
}

fn chain_id_text(got: Option<u64>) -> String {
    got.map_or_else(|| "no chain id".to_owned(), |id| format!("chain id {id}"))
}

/// Whether seals are checked. Everything else always is.
#[derive(Clone, Debug)]
pub enum SealCheck {
    /// By Ethash, with these caches.
    Ethash(LightCaches),
    /// Not at all: for test vectors without seals.
    Off,
}

/// Why a seal is refused, or could not be checked.
#[derive(Debug, thiserror::Error)]
pub enum SealCheckError {
    /// The seal is wrong.
    #[error(transparent)]
    Seal(#[from] SealError),
    /// There is no cache for the epoch.
    #[error(transparent)]
    Cache(#[from] CacheError),
}

impl SealCheck {
    /// Begins to build the next epoch's cache in the background when block `number` comes near
    /// the end of its own epoch.
    pub fn prepare_ahead(&self, spec: &ChainSpec, number: u64) {
        let Self::Ethash(caches) = self else { return };
        let soon = spec.schedule.epoch(number.saturating_add(NEXT_EPOCH_LEAD_BLOCKS));
        if soon != spec.schedule.epoch(number) {
            caches.prepare(soon);
        }
    }

    /// Checks the seal of a header.
    ///
    /// # Errors
    /// [`SealCheckError`] when it is wrong or cannot be checked.
    pub fn check(&self, spec: &ChainSpec, header: &Header) -> Result<(), SealCheckError> {
        let Self::Ethash(caches) = self else { return Ok(()) };
        let cache = caches.get(spec.schedule.epoch(header.number))?;
        let boundary = ethash::boundary(&header.difficulty);
        ethash::verify_seal(
            &cache,
            &header.header_hash(),
            header.pow_nonce,
            &header.mix_hash,
            &boundary,
        )?;
        Ok(())
    }
}

/// Who sent a transaction, by this chain's rules for signatures.
///
/// # Errors
/// [`SenderError`] when nobody on this chain did.
pub fn sender(spec: &ChainSpec, number: u64, transaction: &Transaction) -> Result<Address, SenderError> {
    if transaction.form == TxForm::System {
        return Err(SenderError::System);
    }
    let got = transaction.chain_id();
    let unprotected = transaction.form == TxForm::Ethereum && got.is_none();
    if got != Some(spec.chain_id) && !unprotected {
        return Err(SenderError::ChainId {
            got,
            expected: spec.chain_id,
        });
    }
    Ok(transaction.recover_sender(spec.at(number).low_s())?)
}

/// The senders of a block's transactions, recovered on all processors.
///
/// # Errors
/// [`BodyError::Sender`] for the first transaction without one.
pub fn senders(
    spec: &ChainSpec,
    number: u64,
    transactions: &[Transaction],
) -> Result<Vec<Address>, BodyError> {
    /// Transactions that a thread takes at a time; fewer are not worth a thread.
    const CHUNK: usize = 16;
    let one = |(index, transaction): (usize, &Transaction)| {
        if index == 0 && spec.system_contract && transaction.form == TxForm::System {
            return Ok(SYSTEM_SENDER);
        }
        sender(spec, number, transaction).map_err(|error| BodyError::Sender { index, error })
    };
    let recover = |(first, chunk): (usize, &[Transaction])| -> Result<Vec<_>, BodyError> {
        (first..).zip(chunk).map(one).collect()
    };
    let chunks = (0..).step_by(CHUNK).zip(transactions.chunks(CHUNK));
    let mut senders = Vec::with_capacity(transactions.len());
    for_each_in_order(chunks, recover, |chunk| {
        senders.extend(chunk?);
        Ok::<_, BodyError>(())
    })?;
    Ok(senders)
}

/// The transactions root of a list of transactions.
pub fn transactions_root(transactions: &[Transaction]) -> B256 {
    ordered_root(transactions.iter().map(Transaction::encode))
}

/// Checks the body against its header and ancestors, and recovers the senders.
///
/// # Errors
/// [`BodyError`] for the first rule that is broken.
pub fn check_body(
    spec: &ChainSpec,
    seals: &SealCheck,
    view: &impl BlockReads,
    block: &Block,
) -> Result<Vec<Address>, BodyError> {
    let (got, expected) = (
        transactions_root(&block.transactions),
        block.header.transactions_root,
    );
    if got != expected {
        return Err(BodyError::TransactionsRoot { got, expected });
    }
    let (got, expected) = (uncles_hash(&block.uncles), block.header.uncles_hash);
    if got != expected {
        return Err(BodyError::UnclesHash { got, expected });
    }
    check_uncles(spec, seals, view, block)?;
    if spec.system_contract && block.transactions.first().is_none_or(|first| !first.is_system()) {
        return Err(BodyError::NoSystemTransaction);
    }
    senders(spec, block.header.number, &block.transactions)
}

fn check_uncles(
    spec: &ChainSpec,
    seals: &SealCheck,
    view: &impl BlockReads,
    block: &Block,
) -> Result<(), BodyError> {
    if block.uncles.is_empty() {
        return Ok(());
    }
    if block.uncles.len() > UNCLES_MAX {
        return Err(BodyError::UncleCount {
            got: block.uncles.len(),
            max: UNCLES_MAX,
        });
    }
    let family = Family::of(spec, view, &block.header.parent_hash)?;
    let mut included = family.uncles;
    for uncle in &block.uncles {
        let hash = uncle.hash();
        if included.contains(&hash) {
            return Err(BodyError::UncleTwice(hash));
        }
        if family.ancestors.iter().any(|(ancestor, _)| *ancestor == hash) {
            return Err(BodyError::UncleIsAncestor(hash));
        }
        let parent = family
            .ancestors
            .iter()
            .skip(1)
            .find(|(ancestor, _)| *ancestor == uncle.parent_hash)
            .ok_or(BodyError::UncleParent(hash))?;
        check_header(spec, uncle, &parent.1, None).map_err(|error| BodyError::UncleHeader { hash, error })?;
        seals
            .check(spec, uncle)
            .map_err(|error| BodyError::UncleSeal { hash, error })?;
        included.push(hash);
    }
    Ok(())
}

/// The ancestors that count for uncles, nearest first, and the uncles they include.
pub(crate) struct Family {
    pub(crate) ancestors: Vec<(B256, Header)>,
    pub(crate) uncles: Vec<B256>,
}

impl Family {
    /// The family of a block whose parent is `parent`.
    pub(crate) fn of(spec: &ChainSpec, view: &impl BlockReads, parent: &B256) -> Result<Self, StoreError> {
        let mut family = Self {
            ancestors: Vec::new(),
            uncles: Vec::new(),
        };
        let mut hash = *parent;
        for _ in 0..UNCLE_GENERATIONS {
            let Some(record) = view.header_by_hash(&hash)? else {
                break;
            };
            let number = record.header.number;
            if let Some(body) = view.body(number, &hash, spec.tx_rules())? {
                family.uncles.extend(body.uncles.iter().map(Header::hash));
            }
            let next = record.header.parent_hash;
            family.ancestors.push((hash, record.header));
            hash = next;
        }
        Ok(family)
    }
}
