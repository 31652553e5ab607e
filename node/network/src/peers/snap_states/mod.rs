//! The recent states of the chain, as they are given to peers by `snap/1`.

#[cfg(test)]
mod tests;

use chain::Chain;
use chain::recent::RecentState;
use primitives::{B256, Bytes, U256};
use store::{AccountRecord, StoreError};

use super::chain_access::ChainReader;
use super::snap_serve::{SnapSource, SnapState};

impl SnapSource for Chain {
    fn state(&self, root: &B256) -> Result<Option<Box<dyn SnapState + '_>>, StoreError> {
        let state = self.recent_state(root)?;
        Ok(state.map(|state| Box::new(state) as Box<dyn SnapState>))
    }

    fn code(&self, hash: &B256) -> Result<Option<Bytes>, StoreError> {
        // A damaged code is none to a peer.
        Ok(ChainReader::code(&self.view()?, hash).unwrap_or_default())
    }
}

impl SnapState for RecentState {
    fn account(&self, hash: &B256) -> Result<Option<AccountRecord>, StoreError> {
        Self::account(self, hash)
    }

    fn accounts(
        &self,
        from: &B256,
        visit: &mut dyn FnMut(B256, AccountRecord) -> bool,
    ) -> Result<(), StoreError> {
        Self::accounts(self, from, visit)
    }

    fn slots(
        &self,
        account: &B256,
        from: &B256,
        visit: &mut dyn FnMut(B256, U256) -> bool,
    ) -> Result<(), StoreError> {
        Self::slots(self, account, from, visit)
    }

    fn node(&self, account: Option<&B256>, path: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Self::node(self, account, path)
    }
}
