//! Reads the base chain without belief in the VNODE: headers with seals, and proofs of state.
//!
//! The VNODE shows headers, which are checked (`headers`), and for each call the nodes of the tries
//! that the call has read ([`chain::witness`]). The call runs again here on what they prove. An
//! answer that is not proven is an error, and nothing is done with it.
//!
//! Not checked are the transactions in the VNODE's pool, which nothing proves, and whether the
//! VNODE shows the newest head.

mod error;
mod headers;
mod refusals;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;

use chain::call::TIMEOUT_DEFAULT;
use chain::rules::seal::SealCheck;
use chain::spec::ChainSpec;
use chain::witness::{ProvenState, Replayer, Witness, contract_call};
use ethash::LightCaches;
use microchain::branch::BaseBranch;
use parking_lot::Mutex;
use primitives::{Address, B256, Bytes, Header, U256, keccak256};
use scs_service::WitnessWish;
use scs_service::client::{ContractSummary, ScsClient, ScsClientError};

use crate::checkpoint::{BaseCheckpoint, HeaderOrigin};
use crate::folders::{FolderError, Folders};
use error::not_offered;
use headers::{HeaderTree, KEPT, check_first_epoch};

pub(crate) use error::BaseReadError;
pub use error::{BaseCheckError, ProofRefusal};
pub use headers::BaseHeaderError;
pub(crate) use refusals::BaseRefusals;

/// Headers of one request. A VNODE may answer with fewer.
const BATCH: u64 = 192;
/// The blocks below the head at which the VNODE's headers are compared with the kept ones first.
const OVERLAP: u64 = 2;
/// A header may be ahead of the clock by so many seconds, as in a node.
const AHEAD_SECS: u64 = 15;
/// The most codes that are kept in memory, and the most that one call reads.
const CODES_MAX: usize = 256;
/// Calls that run again at the same time.
const REPLAYS_MAX: usize = 2;

/// The settings of the checks.
#[derive(Clone, Debug)]
pub struct BaseChecks {
    /// The rules of the base chain.
    pub spec: ChainSpec,
    /// Whether seals are checked. Chains for development can be without.
    pub seals: bool,
    /// The block that is believed; without it the first header that the VNODE shows.
    pub checkpoint: Option<BaseCheckpoint>,
}

impl BaseChecks {
    const fn origin(&self) -> HeaderOrigin {
        HeaderOrigin {
            checkpoint: self.checkpoint,
            seals: self.seals,
            network: self.spec.network_id,
        }
    }
}

/// The VNODE's part: headers and proofs, so that it need not be believed.
pub(crate) trait ProvingVnode: Clone + Send + Sync + 'static {
    /// At most `count` headers from block `number` on.
    fn headers(
        &self,
        number: u64,
        count: u64,
    ) -> impl Future<Output = Result<Vec<Header>, ScsClientError>> + Send;

    /// The RLP of a [`Witness`].
    fn witness(
        &self,
        wish: &WitnessWish,
    ) -> impl Future<Output = Result<Option<Bytes>, ScsClientError>> + Send;

    /// The code of a contract.
    fn code(&self, contract: Address) -> impl Future<Output = Result<Bytes, ScsClientError>> + Send;
}

impl ProvingVnode for ScsClient {
    async fn headers(&self, number: u64, count: u64) -> Result<Vec<Header>, ScsClientError> {
        self.base_headers(number, count).await
    }

    async fn witness(&self, wish: &WitnessWish) -> Result<Option<Bytes>, ScsClientError> {
        Self::witness(self, wish).await
    }

    async fn code(&self, contract: Address) -> Result<Bytes, ScsClientError> {
        let contract = self.chain_info(contract, Vec::new()).await?;
        Ok(contract.map(|contract| contract.code).unwrap_or_default())
    }
}

/// The base chain as far as a VNODE proves it. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct ProvenBase<V = ScsClient> {
    vnode: V,
    state: Arc<ProvenBaseState>,
}

#[derive(Debug)]
struct ProvenBaseState {
    checks: BaseChecks,
    folders: Folders,
    refusals: Arc<BaseRefusals>,
    /// The checked headers; `None` before the first one. Kept locked while seals are checked.
    tree: Mutex<Option<HeaderTree>>,
    /// The number of the root in the data directory.
    kept_root: Mutex<Option<u64>>,
    /// The head of the tree and its branch, for readers that must not wait.
    shown: Mutex<Option<(Header, Option<BaseBranch>)>>,
    /// Lets one task at a time ask for headers.
    gate: tokio::sync::Mutex<()>,
    replayer: Replayer,
    replays: tokio::sync::Semaphore,
    /// Codes by their hashes.
    codes: Mutex<BTreeMap<B256, Bytes>>,
}

impl ProvenBaseState {
    fn seals(&self) -> SealCheck {
        if self.checks.seals {
            SealCheck::Ethash(LightCaches::new())
        } else {
            SealCheck::Off
        }
    }

    fn new_tree(&self, root: Header) -> HeaderTree {
        HeaderTree::new(self.checks.spec.clone(), self.seals(), root)
    }

    /// Makes a tree of the header that is believed.
    fn begin(&self, root: Header) {
        *self.tree.lock() = Some(self.new_tree(root));
        self.show();
    }

    /// Shows the head of the tree to readers.
    fn show(&self) {
        let tree = self.tree.lock();
        let shown = tree.as_ref().map(|tree| (tree.head().clone(), tree.branch()));
        *self.shown.lock() = shown;
    }

    /// The checked head.
    fn head(&self) -> Option<Header> {
        self.shown.lock().as_ref().map(|(head, _)| head.clone())
    }

    /// The hashes of the known blocks below a header. Waits while seals are checked.
    fn ancestors(&self, header: &Header) -> BTreeMap<u64, B256> {
        let tree = self.tree.lock();
        tree.as_ref()
            .map(|tree| tree.ancestors(header))
            .unwrap_or_default()
    }

    /// Takes a batch of headers. The last one becomes the head if there is no heavier one.
    ///
    /// # Errors
    /// [`ProofRefusal`] if a header is refused. Too little work is no error unless `is_end`,
    /// because headers after the batch may have more; a VNODE whose chain ends on the way to the
    /// head is only late.
    fn take(&self, batch: &[Header], is_end: bool) -> Result<(), ProofRefusal> {
        let mut tree = self.tree.lock();
        let (Some(tree), Some(last)) = (tree.as_mut(), batch.last()) else {
            return Ok(());
        };
        // The clock of a chain for development is set by its developers.
        let latest = (!self.checks.spec.developer).then(|| chain::unix_now().as_secs() + AHEAD_SECS);
        tree.take(batch, latest)?;
        match tree.adopt(last) {
            Err(BaseHeaderError::Work { .. }) if !is_end => {}
            Err(BaseHeaderError::Work { .. }) if tree.leads_to_head(last) => {
                return Err(ProofRefusal::Behind {
                    got: last.number,
                    expected: tree.head().number,
                });
            }
            adopted => adopted?,
        }
        Ok(self.keep_root(tree.root())?)
    }

    /// Writes the root into the data directory, unless it is there.
    fn keep_root(&self, root: &Header) -> Result<(), FolderError> {
        let mut kept = self.kept_root.lock();
        if *kept != Some(root.number) {
            self.folders.keep_base_header(root, &self.checks.origin())?;
            *kept = Some(root.number);
        }
        Ok(())
    }
}

impl<V: ProvingVnode> ProvenBase<V> {
    /// Goes on from the header in the data directory, if there is one.
    ///
    /// # Errors
    /// [`BaseCheckError`] if that header cannot be read, or memory is short.
    pub(crate) fn new(
        vnode: V,
        checks: BaseChecks,
        folders: Folders,
        refusals: Arc<BaseRefusals>,
    ) -> Result<Self, BaseCheckError> {
        let replayer = Replayer::new(checks.spec.clone())?;
        let kept = folders.base_header(&checks.origin())?;
        let state = ProvenBaseState {
            checks,
            folders,
            refusals,
            tree: Mutex::new(None),
            kept_root: Mutex::new(kept.as_ref().map(|root| root.number)),
            shown: Mutex::default(),
            gate: tokio::sync::Mutex::new(()),
            replayer,
            replays: tokio::sync::Semaphore::new(REPLAYS_MAX),
            codes: Mutex::default(),
        };
        if let Some(root) = kept {
            state.begin(root);
        }
        Ok(Self {
            vnode,
            state: Arc::new(state),
        })
    }

    /// Follows the VNODE's chain to its head, which it says is `told`. Returns the number of the
    /// checked head.
    ///
    /// # Errors
    /// [`BaseReadError`] if a header is refused, or the VNODE does not answer.
    pub(crate) async fn follow(&self, told: u64) -> Result<u64, BaseReadError> {
        let followed = self.advance(told).await;
        Ok(self.noted(followed)?.number)
    }

    /// The branch of the base chain at the checked head.
    pub(crate) fn branch(&self) -> Option<BaseBranch> {
        self.state
            .shown
            .lock()
            .as_ref()
            .and_then(|(_, branch)| branch.clone())
    }

    /// Runs a call of a contract in its own name after the checked head.
    ///
    /// # Errors
    /// [`BaseReadError`] if the VNODE does not prove what the call reads, or does not answer.
    pub(crate) async fn call(&self, contract: Address, input: Bytes) -> Result<Bytes, BaseReadError> {
        let called = async {
            let (header, proven) = self.prove(contract, Vec::new(), Some(input.clone())).await?;
            let mut codes = BTreeMap::new();
            let wanted: Vec<_> = proven.codes().collect();
            if wanted.len() > CODES_MAX {
                let (got, most) = (wanted.len(), CODES_MAX);
                return Err(ProofRefusal::Codes { got, most }.into());
            }
            for (address, hash) in wanted {
                codes.insert(hash, self.code(address, hash).await?);
            }
            // Waits while seals are checked, so it takes no place of those that run calls.
            let (state, head) = (Arc::clone(&self.state), header.clone());
            let ancestors = tokio::task::spawn_blocking(move || state.ancestors(&head)).await;
            let ancestors = ancestors.map_err(|_| ProofRefusal::Panic)?;
            let state = Arc::clone(&self.state);
            let run = move || {
                let request = contract_call(Some(&contract), input);
                state
                    .replayer
                    .call(&header, ancestors, &proven, &codes, &request, TIMEOUT_DEFAULT)
                    .map_err(|error| ProofRefusal::Proof {
                        number: header.number,
                        error,
                    })
            };
            // Strangers' contracts are called, too: they must not take all processors.
            let _place = self.state.replays.acquire().await;
            let outcome = tokio::task::spawn_blocking(run).await;
            Ok(outcome.map_err(|_| ProofRefusal::Panic)??.into_answer())
        };
        self.noted(called.await)
    }

    /// An account with some of its slots after the checked head; `None` if it does not exist.
    ///
    /// # Errors
    /// As for [`Self::call`].
    pub(crate) async fn contract(
        &self,
        contract: Address,
        slots: Vec<U256>,
    ) -> Result<Option<ContractSummary>, BaseReadError> {
        let read = async {
            let (_, proven) = self.prove(contract, slots.clone(), None).await?;
            let incomplete = |what| ProofRefusal::Incomplete { contract, what };
            let account = proven.account(&contract);
            let account = account.ok_or_else(|| incomplete("the account".to_owned()))?;
            let Some(record) = &account.record else {
                return Ok(None);
            };
            let mut storage = BTreeMap::new();
            for slot in slots {
                let value = account.storage.get(&slot);
                let value = value.ok_or_else(|| incomplete(format!("slot {slot:#x}")))?;
                storage.insert(slot, *value);
            }
            Ok(Some(ContractSummary {
                balance: record.balance,
                tx_nonce: record.tx_nonce,
                storage_root: record.storage_root,
                code_hash: record.code_hash,
                code: self.code(contract, record.code_hash).await?,
                storage,
            }))
        };
        self.noted(read.await)
    }

    /// Notes a refusal for the operator.
    fn noted<T>(&self, result: Result<T, BaseReadError>) -> Result<T, BaseReadError> {
        if let Err(BaseReadError::Refused(refusal)) = &result {
            self.state.refusals.note(refusal);
        }
        result
    }

    /// The checked head, and what the VNODE proves of the state after it.
    async fn prove(
        &self,
        contract: Address,
        slots: Vec<U256>,
        input: Option<Bytes>,
    ) -> Result<(Header, ProvenState), BaseReadError> {
        // A head comes before each reading.
        let mut head = self.state.head().ok_or(ScsClientError::NotConnected)?;
        let mut wish = WitnessWish {
            number: head.number,
            hash: head.hash(),
            contract,
            slots,
            input,
        };
        let mut proof = self.vnode.witness(&wish).await.map_err(not_offered)?;
        if proof.is_none() {
            // The head may have left the VNODE's chain, or be too old.
            head = self.advance(head.number).await?;
            (wish.number, wish.hash) = (head.number, head.hash());
            proof = self.vnode.witness(&wish).await.map_err(not_offered)?;
        }
        let proof = proof.ok_or(ProofRefusal::NoProof {
            number: wish.number,
            hash: wish.hash,
        })?;
        let (number, state_root) = (head.number, head.state_root);
        let verify = move || {
            let witness = Witness::decode(&proof)?;
            witness
                .verify(state_root)
                .map_err(|error| ProofRefusal::Proof { number, error })
        };
        let proven = tokio::task::spawn_blocking(verify).await;
        Ok((head, proven.map_err(|_| ProofRefusal::Panic)??))
    }

    /// The code with this hash, from memory or from the VNODE.
    async fn code(&self, contract: Address, expected: B256) -> Result<Bytes, BaseReadError> {
        if expected == primitives::EMPTY_CODE_HASH {
            return Ok(Bytes::new());
        }
        if let Some(code) = self.state.codes.lock().get(&expected) {
            return Ok(code.clone());
        }
        let code = self.vnode.code(contract).await?;
        let got = keccak256(&code);
        if got != expected {
            return Err(ProofRefusal::Code {
                contract,
                got,
                expected,
            }
            .into());
        }
        let mut codes = self.state.codes.lock();
        if codes.len() >= CODES_MAX {
            codes.clear();
        }
        codes.insert(expected, code.clone());
        Ok(code)
    }

    /// The tree's head after the VNODE's newest headers.
    async fn advance(&self, told: u64) -> Result<Header, BaseReadError> {
        let _gate = self.state.gate.lock().await;
        let (head, root) = match self.ends() {
            Some(ends) => ends,
            None => {
                let first = self.first_header(told).await?;
                (first.clone(), first)
            }
        };
        let lowest = root.number + 1;
        let mut back = OVERLAP;
        let mut from = head.number.saturating_sub(back).max(lowest);
        let mut last = None;
        loop {
            let mut batch = self.vnode.headers(from, BATCH).await.map_err(not_offered)?;
            batch.truncate(BATCH as usize);
            let Some(first) = batch.first() else {
                if last.is_some() || from > head.number {
                    self.take(last.into_iter().collect(), true).await?;
                    break;
                }
                if from == lowest {
                    return Err(BaseHeaderError::Missing { number: from }.into());
                }
                // The VNODE's chain ends below.
                back = back.saturating_mul(8);
                from = head.number.saturating_sub(back).max(lowest);
                continue;
            };
            expect_number(first, from)?;
            if last.is_none() && from > lowest && !self.meets(first) {
                // The VNODE's chain has another block here.
                back = back.saturating_mul(8);
                from = head.number.saturating_sub(back).max(lowest);
                continue;
            }
            let is_end = (batch.len() as u64) < BATCH;
            from += batch.len() as u64;
            last = batch.last().cloned();
            self.take(batch, is_end).await?;
            if is_end {
                break;
            }
            if from.saturating_add(BATCH) < told {
                tracing::info!(block = from, head = told, "headers of the base chain are checked");
            }
        }
        Ok(self.state.head().unwrap_or(head))
    }

    /// Takes headers on a thread for long work.
    async fn take(&self, batch: Vec<Header>, is_end: bool) -> Result<(), BaseReadError> {
        let state = Arc::clone(&self.state);
        let take = move || {
            let taken = state.take(&batch, is_end);
            state.show();
            taken
        };
        let taken = tokio::task::spawn_blocking(take).await;
        Ok(taken.map_err(|_| ProofRefusal::Panic)??)
    }

    /// Whether a header or its parent is in the tree.
    fn meets(&self, header: &Header) -> bool {
        self.state
            .tree
            .lock()
            .as_ref()
            .is_some_and(|tree| tree.meets(header))
    }

    /// The head and the root of the tree.
    fn ends(&self) -> Option<(Header, Header)> {
        let tree = self.state.tree.lock();
        tree.as_ref()
            .map(|tree| (tree.head().clone(), tree.root().clone()))
    }

    /// Fetches the header that is believed, and makes it the root of the tree.
    async fn first_header(&self, told: u64) -> Result<Header, BaseReadError> {
        let checkpoint = self.state.checks.checkpoint;
        let number = checkpoint.map_or_else(|| told.saturating_sub(KEPT), |checkpoint| checkpoint.number);
        if checkpoint.is_none() && self.state.checks.seals {
            check_first_epoch(&self.state.checks.spec, number)?;
        }
        let headers = self.vnode.headers(number, 1).await.map_err(not_offered)?;
        let first = headers.into_iter().next();
        let first = first.ok_or(BaseHeaderError::Missing { number })?;
        expect_number(&first, number)?;
        let hash = first.hash();
        match checkpoint {
            Some(BaseCheckpoint { hash: expected, .. }) if hash != expected => {
                return Err(BaseHeaderError::Checkpoint {
                    number,
                    got: hash,
                    expected,
                }
                .into());
            }
            Some(_) => {}
            None => tracing::warn!(
                number, %hash,
                "this block of the base chain is believed, because there is no --verify-base.checkpoint: compare its hash elsewhere"
            ),
        }
        self.state.keep_root(&first).map_err(ProofRefusal::from)?;
        self.state.begin(first.clone());
        Ok(first)
    }
}

/// Checks that a header is the one that was asked for.
const fn expect_number(header: &Header, expected: u64) -> Result<(), BaseHeaderError> {
    let got = header.number;
    if got == expected {
        Ok(())
    } else {
        Err(BaseHeaderError::Number { got, expected })
    }
}
