//! From a block reference to the block, or to the state after it.
//!
//! A request takes one view of the chain and reads everything from it, so that the whole answer is
//! about the same head.

use std::sync::Arc;

use chain::View;
use chain::call::{EvmCallError, StateAt};
use chain::mining::build::UnsealedBlock;
use primitives::{Address, B256, Block};

use crate::block_cache::CachedBlock;
use crate::error::{RpcError, RpcResult, failure};
use crate::modules::NameStyle;
use crate::node::Node;
use crate::objects::{BlockFacts, BlockObject, HeaderObject, TransactionObject, TransactionPlace};
use crate::table::{InlineError, ReadScope};
use crate::types::BlockRef;

/// A block that was found: a stored block, or the pending one.
pub(in crate::methods) enum FoundBlock {
    Stored(Arc<CachedBlock>),
    Pending {
        draft: Arc<UnsealedBlock>,
        /// Whether its number is shown (`--rpc.pendingnumber`). `None`: under Ethereum's names.
        numbered: Option<bool>,
    },
}

impl FoundBlock {
    /// The block that `at` names, which may be a side block if it names a hash. Returns `None` for
    /// a number above the head and for an unknown hash.
    pub(in crate::methods) fn by_reference(
        node: &Node,
        view: &View,
        at: BlockRef,
        scope: ReadScope,
    ) -> Result<Option<Self>, InlineError> {
        match node.meant(at) {
            BlockRef::Pending if scope == ReadScope::Memory => Err(InlineError::Deferred),
            BlockRef::Pending => Ok(Some(Self::Pending {
                draft: pending(node, view)?,
                numbered: node.settings.pending_number,
            })),
            BlockRef::Hash {
                hash,
                require_canonical,
            } => {
                if require_canonical && canonical_number(view, &hash)?.is_none() {
                    return Err(not_canonical(&hash).into());
                }
                Self::by_hash(node, view, &hash, scope)
            }
            at => {
                let number = at.number(view.head_number()).unwrap_or_default();
                match view.canonical_hash(number).map_err(failure)? {
                    Some(hash) => Self::by_hash(node, view, &hash, scope),
                    None => Ok(None),
                }
            }
        }
    }

    /// The block of this hash, canonical or not. With [`ReadScope::Memory`] a block that is not
    /// cached is [`InlineError::Deferred`], never `None`.
    pub(in crate::methods) fn by_hash(
        node: &Node,
        view: &View,
        hash: &B256,
        scope: ReadScope,
    ) -> Result<Option<Self>, InlineError> {
        let block = match scope {
            ReadScope::Memory => Some(node.blocks.cached(hash).ok_or(InlineError::Deferred)?),
            ReadScope::Store => node.blocks.by_hash(&node.chain, view, hash)?,
        };
        Ok(block.map(Self::Stored))
    }

    pub(in crate::methods) fn block(&self) -> &Block {
        match self {
            Self::Stored(stored) => &stored.block,
            Self::Pending { draft, .. } => &draft.block,
        }
    }

    fn senders(&self) -> &[Address] {
        match self {
            Self::Stored(stored) => &stored.senders,
            Self::Pending { draft, .. } => &draft.senders,
        }
    }

    fn facts(&self, name_style: NameStyle) -> BlockFacts {
        match self {
            Self::Stored(stored) => BlockFacts {
                hash: Some(stored.hash),
                total_difficulty: stored.total_difficulty,
                numbered: true,
            },
            Self::Pending { draft, numbered } => BlockFacts {
                hash: None,
                total_difficulty: draft.total_difficulty,
                numbered: numbered.unwrap_or(name_style == NameStyle::Ethereum),
            },
        }
    }

    /// The block as JSON.
    pub(in crate::methods) fn object(&self, full: bool, name_style: NameStyle) -> BlockObject<'_> {
        let object = BlockObject::new(
            self.block(),
            self.senders(),
            self.facts(name_style),
            full,
            name_style,
        );
        match self {
            Self::Stored(stored) => object.hashed(stored.hashes(name_style)),
            Self::Pending { .. } => object,
        }
    }

    /// The header as JSON.
    pub(in crate::methods) fn header(&self) -> HeaderObject<'_> {
        HeaderObject::new(&self.block().header, self.facts(NameStyle::Native))
    }

    /// The transaction at `index` as JSON.
    pub(in crate::methods) fn transaction(
        &self,
        index: usize,
        name_style: NameStyle,
    ) -> Option<TransactionObject<'_>> {
        let transaction = self.block().transactions.get(index)?;
        let sender = *self.senders().get(index)?;
        Some(match self {
            Self::Pending { .. } => TransactionObject::new(transaction, sender, None, name_style),
            Self::Stored(stored) => {
                let place = TransactionPlace {
                    block_hash: stored.hash,
                    block_number: stored.block.header.number,
                    index,
                };
                let hash = stored.hashes(name_style)[index];
                TransactionObject::hashed(transaction, hash, sender, Some(place), name_style)
            }
        })
    }
}

/// The pending block on top of the head of `view`.
pub(in crate::methods) fn pending(node: &Node, view: &View) -> RpcResult<Arc<UnsealedBlock>> {
    node.chain.pending(view).map_err(failure)
}

/// The number of the block `hash` if it is canonical.
fn canonical_number(view: &View, hash: &B256) -> RpcResult<Option<u64>> {
    let Some(record) = view.header_by_hash(hash).map_err(failure)? else {
        return Ok(None);
    };
    let number = record.header.number;
    let is_canonical = view.canonical_hash(number).map_err(failure)? == Some(*hash);
    Ok(is_canonical.then_some(number))
}

fn not_canonical(hash: &B256) -> RpcError {
    RpcError::refused(format!("block {hash:#x} is not canonical"))
}

/// The number of the stored block that `at` names. It may be above the head.
///
/// # Errors
/// −32000 for the pending block, and for a hash that no canonical block has: only canonical blocks
/// have a stored state. `what` says in the error what is asked for.
pub(in crate::methods) fn stored_number(view: &View, at: BlockRef, what: &str) -> RpcResult<u64> {
    match at {
        BlockRef::Hash { hash, .. } => match canonical_number(view, &hash)? {
            Some(number) => Ok(number),
            None if view.header_by_hash(&hash).map_err(failure)?.is_none() => {
                Err(RpcError::refused(format!("block {hash:#x} not found")))
            }
            None => Err(not_canonical(&hash)),
        },
        at => at
            .number(view.head_number())
            .ok_or_else(|| RpcError::refused(format!("the pending block has no {what}"))),
    }
}

/// Calls `read` with the state that `at` names.
pub(in crate::methods) fn at_state<T>(
    node: &Node,
    view: &View,
    at: BlockRef,
    read: impl FnOnce(StateAt<'_>) -> Result<T, EvmCallError>,
) -> RpcResult<T> {
    with_state(node, view, at, |place| read(place).map_err(call_error))
}

/// The same, for a `read` whose errors are those of the method.
pub(in crate::methods) fn with_state<T>(
    node: &Node,
    view: &View,
    at: BlockRef,
    read: impl FnOnce(StateAt<'_>) -> RpcResult<T>,
) -> RpcResult<T> {
    match node.meant(at) {
        BlockRef::Pending => read(StateAt::Pending(&*pending(node, view)?)),
        at => read(StateAt::Block(stored_number(view, at, "state")?)),
    }
}

/// The error for the caller of a call or a read that failed.
pub(in crate::methods) fn call_error(error: EvmCallError) -> RpcError {
    match error {
        EvmCallError::Store(error) => failure(error),
        EvmCallError::State(error) => failure(error),
        EvmCallError::Reverted(ref reason) => RpcError::reverted(error.to_string(), reason),
        EvmCallError::AboveHead { .. }
        | EvmCallError::NotKept(_)
        | EvmCallError::Refused(_)
        | EvmCallError::AlwaysFails(_)
        | EvmCallError::Stopped(_) => RpcError::refused_by(error),
    }
}
