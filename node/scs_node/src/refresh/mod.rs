//! Reads a chain base again only if it may have changed.
//!
//! The last reading holds as long as the contract's storage root and code are the same, which one
//! call tells. Four facts do not follow from the contract's storage and are read at each head:
//!
//! - whether an SCS that has no role yet may join: the pool of SCSs and the number of the block
//!   decide;
//! - the deposits from the position on that the engine wants;
//! - the members whose transactions wait in the VNODE's pool;
//! - while a proposal is pending, and in the turn of this SCS, the branch of the base chain.

#[cfg(test)]
mod tests;

use microchain::contract::{ContractRole, PROPOSAL_PENDING};
use primitives::Address;

use crate::base::{BaseError, BaseReader, BaseReading, ContractMark, ReadWish, awaits_action};
use crate::source::BaseSource;

/// After so many base blocks everything is read again, whatever the storage root says. Chains
/// differ by up to the same number, so that not all are read at the same head.
const WHOLE_READ_BLOCKS: u64 = 32;

/// A reading, and the base block up to which it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeptReading {
    /// The last reading.
    pub reading: BaseReading,
    /// The mark before and after the reading; `None` if they differ, or if the VNODE tells no
    /// storage root: a chain base always has storage.
    mark: Option<ContractMark>,
    /// The base block from which on everything is read again.
    whole_at: u64,
}

impl<S: BaseSource> BaseReader<S> {
    /// The chain base at this head: the reading `kept` if the contract has not changed since then,
    /// otherwise a new one.
    ///
    /// # Errors
    /// As for [`Self::read`].
    pub(crate) async fn refresh(
        &self,
        chain: Address,
        wish: ReadWish,
        kept: Option<KeptReading>,
    ) -> Result<KeptReading, BaseError> {
        let wish = ReadWish {
            head: self.source.head(wish.head).await?,
            ..wish
        };
        let before = self.mark(chain).await?;
        if let Some(kept) = kept.and_then(|kept| kept.still_good(before, &wish)) {
            return self.with_role(chain, kept).await;
        }
        let (reading, after) = Box::pin(self.read(chain, wish)).await?;
        Ok(KeptReading {
            reading,
            mark: (before == after && !after.storage_root.is_zero()).then_some(after),
            whole_at: wish.head + WHOLE_READ_BLOCKS + u64::from(chain[19]) % WHOLE_READ_BLOCKS,
        })
    }

    /// The reading with the role of this moment, if the role depends on more than the contract, and
    /// with the branch of the base chain, if there is a proposal whose depth counts, or if this SCS
    /// has the turn.
    async fn with_role(&self, chain: Address, mut kept: KeptReading) -> Result<KeptReading, BaseError> {
        let state = &mut kept.reading.state;
        if matches!(state.role, ContractRole::None | ContractRole::Selectable) {
            state.role = self.role(chain).await?;
        }
        // A proposal names the base block before its turn.
        let next = state.base_block.saturating_add(1);
        let place = state.place_of(&self.id);
        let turn = place.and_then(|place| state.turn_at(place, next));
        if state.current.flag == PROPOSAL_PENDING || turn.is_some() {
            state.branch = self.source.branch().await?;
        }
        Ok(kept)
    }
}

impl KeptReading {
    /// The reading as of the head of `wish`, if the contract has this mark now and nothing else
    /// asks for a new reading.
    fn still_good(mut self, mark: ContractMark, wish: &ReadWish) -> Option<Self> {
        let state = &mut self.reading.state;
        if self.mark != Some(mark)
            || wish.head >= self.whole_at
            || wish.head < state.base_block
            || awaits_action(&state.current)
        {
            return None;
        }
        match (wish.deposits_from, &mut state.deposits) {
            (None, deposits) => *deposits = None,
            (Some(from), Some(deposits)) => {
                let credited = usize::try_from(from.checked_sub(deposits.from)?).ok()?;
                if credited > deposits.entries.len() {
                    return None;
                }
                deposits.entries.drain(..credited);
                deposits.from = from;
            }
            (Some(_), None) => return None,
        }
        state.base_block = wish.head;
        state.via = wish.via;
        Some(self)
    }
}
