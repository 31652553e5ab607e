//! Checks a block's body before anything is executed: roots, uncles, senders.
//!
//! This module knows headers, transactions and ancestors, but no state.

use primitives::{
    Address, B256, Block, Header, SYSTEM_SENDER, SignatureError, Transaction, TxForm, uncles_hash,
};
use store::{BlockReads, StoreError};

use crate::developer::impersonated_sender;
use crate::parallel::for_each_in_order;
use crate::rules::seal::{SealCheck, SealCheckError};
use crate::rules::{HeaderError, UNCLE_GENERATIONS, UNCLES_MAX, check_uncle_header};
use crate::spec::{ChainSpec, Rule};
use crate::trie::ordered_root;

/// The reason why a body is rejected.
#[derive(Debug, thiserror::Error)]
#[expect(
    missing_docs,
    reason = "the fields are the got and expected values that the error texts name"
)]
pub enum BodyError {
    /// The transactions do not match the header.
    #[error("transactions root: got {got}, expected {expected}")]
    TransactionsRoot { got: B256, expected: B256 },
    /// The uncles do not match the header.
    #[error("uncles hash: got {got}, expected {expected}")]
    UnclesHash { got: B256, expected: B256 },
    /// The block has more uncles than allowed.
    #[error("number of uncles: got {got}, expected at most {max}")]
    UncleCount { got: usize, max: usize },
    /// The uncle is included twice, in this block or in an ancestor.
    #[error("uncle {0} is already included")]
    UncleTwice(B256),
    /// The uncle is an ancestor of the block.
    #[error("uncle {0} is an ancestor of the block")]
    UncleIsAncestor(B256),
    /// The uncle's parent is not an ancestor, is too far away, or is the block's own parent.
    #[error(
        "uncle {0}: its parent is not one of the {UNCLE_GENERATIONS} nearest ancestors, or is the block's own parent"
    )]
    UncleParent(B256),
    /// The uncle's header breaks a rule.
    #[error("uncle {hash}: {error}")]
    UncleHeader { hash: B256, error: HeaderError },
    /// The uncle's seal is wrong.
    #[error("uncle {hash}: {error}")]
    UncleSeal { hash: B256, error: SealCheckError },
    /// A transaction's signature or chain id is wrong.
    #[error("transaction {index}: {error}")]
    Sender { index: usize, error: SenderError },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The reason why a transaction has no valid sender on this chain.
#[derive(Debug, thiserror::Error)]
#[expect(
    missing_docs,
    reason = "the fields are the got and expected values that the error texts name"
)]
pub enum SenderError {
    /// The signature is not valid.
    #[error("invalid sender: {0}")]
    Signature(#[from] SignatureError),
    /// The transaction is signed for another chain.
    #[error("invalid sender: chain id: got {}, expected {expected}", chain_id_text(*got))]
    ChainId { got: Option<u64>, expected: u64 },
    /// System transactions have no signature, so none can be recovered.
    #[error("invalid sender: a system transaction is not signed")]
    System,
}

fn chain_id_text(got: Option<u64>) -> String {
    got.map_or_else(|| "none".to_owned(), |id| id.to_string())
}

/// The sender of a transaction, by this chain's rules for signatures in block `number`.
///
/// # Errors
/// [`SenderError`] when the transaction has no valid signature for this chain.
pub fn sender(spec: &ChainSpec, number: u64, transaction: &Transaction) -> Result<Address, SenderError> {
    if transaction.is_system() {
        return Err(SenderError::System);
    }
    let got = transaction.chain_id();
    let expected = spec.chain_id_of(transaction.form, number);
    let unprotected = transaction.form == TxForm::Ethereum && got.is_none();
    if got != Some(expected) && !unprotected {
        return Err(SenderError::ChainId { got, expected });
    }
    if spec.developer
        && let Some(named) = impersonated_sender(transaction)
    {
        return Ok(named);
    }
    Ok(transaction.recover_sender(spec.rules_at(number).has(Rule::Eip2))?)
}

/// The senders of a block's transactions, recovered on all processors. On a chain with a system
/// contract, a block may contain any system transactions: they are not executed.
///
/// # Errors
/// [`BodyError::Sender`] for the first transaction without a valid sender.
pub fn senders(
    spec: &ChainSpec,
    number: u64,
    transactions: &[Transaction],
) -> Result<Vec<Address>, BodyError> {
    /// Transactions that a thread takes at a time; fewer are not worth a thread.
    const CHUNK: usize = 16;
    let one = |(index, transaction): (usize, &Transaction)| {
        if spec.system_contract && transaction.is_system() {
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

/// The transactions of a block that has no uncles and whose transactions are known from its header:
/// none, or only the system transaction. `None` for every other block.
pub fn plain_transactions(spec: &ChainSpec, header: &Header) -> Option<Vec<Transaction>> {
    if header.uncles_hash != uncles_hash(&[]) {
        return None;
    }
    let transactions = match header.number.checked_sub(1) {
        Some(before) if spec.system_contract => vec![Transaction::system(before)],
        _ => Vec::new(),
    };
    (transactions_root(&transactions) == header.transactions_root).then_some(transactions)
}

/// Checks that the body of a block belongs to its header.
///
/// # Errors
/// [`BodyError::TransactionsRoot`] or [`BodyError::UnclesHash`] if it does not.
fn check_roots(block: &Block) -> Result<(), BodyError> {
    let transactions = block.transactions.iter().map(Transaction::encode);
    check_encoded_roots(&block.header, uncles_hash(&block.uncles), transactions)
}

/// Checks that a body belongs to a header, without decoding its transactions: `transactions` are
/// their stored forms.
///
/// # Errors
/// [`BodyError::TransactionsRoot`] or [`BodyError::UnclesHash`] if it does not.
pub fn check_encoded_roots<T: AsRef<[u8]>>(
    header: &Header,
    uncles_hash: B256,
    transactions: impl IntoIterator<Item = T>,
) -> Result<(), BodyError> {
    // The root costs much more than the other hash.
    let (got, expected) = (uncles_hash, header.uncles_hash);
    if got != expected {
        return Err(BodyError::UnclesHash { got, expected });
    }
    let (got, expected) = (ordered_root(transactions), header.transactions_root);
    if got != expected {
        return Err(BodyError::TransactionsRoot { got, expected });
    }
    Ok(())
}

/// Checks a body against its header and ancestors. Returns the senders of its transactions.
///
/// # Errors
/// [`BodyError`] for the first broken rule.
pub(crate) fn check_body(
    spec: &ChainSpec,
    seals: &SealCheck,
    view: &impl BlockReads,
    block: &Block,
) -> Result<Vec<Address>, BodyError> {
    check_roots(block)?;
    check_uncles(spec, seals, view, block)?;
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
    let recent = RecentAncestors::load(spec, view, &block.header.parent_hash)?;
    let mut included = recent.uncles;
    for uncle in &block.uncles {
        let hash = uncle.hash();
        if included.contains(&hash) {
            return Err(BodyError::UncleTwice(hash));
        }
        if recent.ancestors.iter().any(|(ancestor, _)| *ancestor == hash) {
            return Err(BodyError::UncleIsAncestor(hash));
        }
        let parent = recent
            .ancestors
            .iter()
            .skip(1)
            .find(|(ancestor, _)| *ancestor == uncle.parent_hash)
            .ok_or(BodyError::UncleParent(hash))?;
        check_uncle_header(spec, uncle, &parent.1, None)
            .map_err(|error| BodyError::UncleHeader { hash, error })?;
        included.push(hash);
    }
    // Seals cost the most, so they are checked when nothing else is wrong with any of the uncles.
    for uncle in &block.uncles {
        seals.check_seal(spec, uncle).map_err(|error| {
            let hash = uncle.hash();
            BodyError::UncleSeal { hash, error }
        })?;
    }
    Ok(())
}

/// The ancestors of a block that decide about its uncles.
pub(crate) struct RecentAncestors {
    /// Up to [`UNCLE_GENERATIONS`] ancestors with their hashes, the nearest first.
    pub(crate) ancestors: Vec<(B256, Header)>,
    /// Hashes of the uncles that these ancestors include.
    pub(crate) uncles: Vec<B256>,
}

impl RecentAncestors {
    /// Reads the recent ancestors of a block whose parent is `parent`.
    pub(crate) fn load(spec: &ChainSpec, view: &impl BlockReads, parent: &B256) -> Result<Self, StoreError> {
        let mut recent = Self {
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
                recent.uncles.extend(body.uncles.iter().map(Header::hash));
            }
            let next = record.header.parent_hash;
            recent.ancestors.push((hash, record.header));
            hash = next;
        }
        Ok(recent)
    }
}
