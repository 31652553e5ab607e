//! The index by address, as far as it agrees with the view of a request.
//!
//! The index follows the chain a little behind. So blocks from [`IndexedPast::end`] on are searched
//! as on a node without an index. Blocks of which not all accounts are known count as blocks of
//! every account; [`IndexedPast::transactions`] says so.

use chain::View;
use history::{IndexReader, Roles, canonical_end};
use primitives::Address;

use crate::error::{RpcResult, failure};
use crate::node::Node;

/// The most tokens of an account that are listed.
pub(crate) const TOKENS_MAX: usize = 1000;

/// The indexed blocks that are canonical in a view.
pub(crate) struct IndexedPast<'n> {
    reader: IndexReader<'n>,
    end: u64,
}

impl<'n> IndexedPast<'n> {
    /// The index of a node; `None` if it has none.
    ///
    /// # Errors
    /// An internal error if it cannot be read.
    pub(crate) fn of(node: &'n Node, view: &View) -> RpcResult<Option<Self>> {
        let Some(index) = &node.address_index else {
            return Ok(None);
        };
        let reader = index.read().map_err(failure)?;
        // A block above the view's head is not canonical in it.
        let end = canonical_end(view, &reader).map_err(failure)?;
        Ok(Some(Self { reader, end }))
    }

    /// The number of the first block that is not indexed.
    pub(crate) const fn end(&self) -> u64 {
        self.end
    }

    /// The last block below `number` in which `address` has one of `roles`.
    ///
    /// # Errors
    /// An internal error if the index cannot be read.
    pub(crate) fn before(&self, address: &Address, roles: Roles, number: u64) -> RpcResult<Option<u64>> {
        let Some(last) = self.end.min(number).checked_sub(1) else {
            return Ok(None);
        };
        self.found(address, roles, 0, last, true).map(|found| found.max())
    }

    /// The first indexed block from `number` on in which `address` has one of `roles`.
    ///
    /// # Errors
    /// An internal error if the index cannot be read.
    pub(crate) fn since(&self, address: &Address, roles: Roles, number: u64) -> RpcResult<Option<u64>> {
        let Some(last) = self.end.checked_sub(1).filter(|last| number <= *last) else {
            return Ok(None);
        };
        self.found(address, roles, number, last, false)
            .map(|found| found.min())
    }

    /// The nearest block of the account, and the nearest whose accounts are not all known.
    fn found(
        &self,
        address: &Address,
        roles: Roles,
        first: u64,
        last: u64,
        newest: bool,
    ) -> RpcResult<impl Iterator<Item = u64> + use<>> {
        let places = self
            .reader
            .participations(address, first..=last, roles, newest, 1)
            .map_err(failure)?;
        let partial = self.reader.partial(first..=last, newest).map_err(failure)?;
        Ok(places.into_iter().map(|place| place.number).chain(partial))
    }

    /// The indexes of the transactions of a block in which `address` has one of `roles`, in order.
    /// `None` if the index does not know them all.
    ///
    /// # Errors
    /// An internal error if the index cannot be read.
    pub(crate) fn transactions(
        &self,
        address: &Address,
        roles: Roles,
        number: u64,
    ) -> RpcResult<Option<Vec<usize>>> {
        let range = number..=number;
        if number >= self.end
            || self
                .reader
                .partial(range.clone(), false)
                .map_err(failure)?
                .is_some()
        {
            return Ok(None);
        }
        let places = self
            .reader
            .participations(address, range, roles, false, usize::MAX)
            .map_err(failure)?;
        let indexes = places.into_iter().filter_map(|place| place.index);
        Ok(Some(indexes.map(|index| index as usize).collect()))
    }

    /// The contracts of tokens that `address` ever received, at most [`TOKENS_MAX`].
    ///
    /// # Errors
    /// An internal error if the index cannot be read.
    pub(crate) fn tokens(&self, address: &Address) -> RpcResult<Vec<Address>> {
        self.reader.tokens(address, TOKENS_MAX).map_err(failure)
    }
}
