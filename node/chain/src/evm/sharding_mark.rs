//! The mark that a creation leaves on the public network: the transaction's sharding flag, in the
//! storage of the new account. Source: docs/base-chain.md, 4.
//!
//! The public node writes it after the transaction, also if the creation failed.

use primitives::{Address, Transaction, U256};
use revm::Database;

use crate::spec::BlockRules;
use crate::state::{BlockState, StateError};

/// The slot of the mark: the text `__shardingFlag`, right-aligned.
const SHARDING_FLAG_SLOT: U256 = U256::from_limbs([0x6469_6e67_466c_6167, 0x0000_5f5f_7368_6172, 0, 0]);

/// The mark of one creation.
#[derive(Clone, Copy, Debug)]
struct ShardingMark {
    account: Address,
    flag: u64,
}

impl ShardingMark {
    /// Writes the mark, unless the account does not exist. Returns whether it exists.
    fn write(self, state: &mut BlockState<'_>) -> Result<bool, StateError> {
        let exists = state.basic(self.account)?.is_some_and(|info| !info.is_empty());
        if exists {
            state.set_slot(self.account, SHARDING_FLAG_SLOT, U256::from(self.flag))?;
        }
        Ok(exists)
    }
}

/// The mark of the last transaction, if its account does not exist. The end of the next
/// transaction writes it: that may pay the account, and so give it a life with the mark.
#[derive(Debug, Default)]
pub(crate) struct WaitingMark(Option<ShardingMark>);

impl WaitingMark {
    /// Writes the mark that waits. The changes of a transaction have just been added to `state`.
    pub(crate) fn write(&mut self, state: &mut BlockState<'_>) -> Result<(), StateError> {
        match self.0.take() {
            Some(mark) => mark.write(state).map(|_| ()),
            None => Ok(()),
        }
    }

    /// Writes the mark of a transaction that has ended and that [`Self::write`] has followed.
    pub(crate) fn mark_creation(
        &mut self,
        state: &mut BlockState<'_>,
        rules: BlockRules,
        transaction: &Transaction,
        sender: Address,
    ) -> Result<(), StateError> {
        if transaction.to.is_some() || !rules.is_moac() {
            return Ok(());
        }
        let mark = ShardingMark {
            account: Transaction::created_address(&sender, transaction.tx_nonce),
            flag: transaction.sharding_flag,
        };
        if !mark.write(state)? && mark.flag != 0 {
            self.0 = Some(mark);
        }
        Ok(())
    }
}
