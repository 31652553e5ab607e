//! The values that a call replaces before it runs: of accounts, and of the block that it runs in.

use primitives::{Address, B256, Header, U256};

use crate::state::{AccountOverride, BlockState, StateError};

/// The values that a call replaces. The default replaces nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallOverrides {
    /// Accounts with their new values.
    pub accounts: Vec<(Address, AccountOverride)>,
    /// New values of the block.
    pub block: BlockOverride,
}

/// New values of the block that a call runs in. What is `None` stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockOverride {
    /// The number. It also decides which rules the call follows.
    pub number: Option<u64>,
    /// The timestamp, in seconds.
    pub timestamp: Option<u64>,
    /// The gas limit.
    pub gas_limit: Option<u64>,
    /// The address that is paid for the block.
    pub beneficiary: Option<Address>,
    /// The difficulty.
    pub difficulty: Option<U256>,
    /// The random value, on chains that have one in place of the difficulty.
    pub random: Option<B256>,
}

impl CallOverrides {
    /// Changes the state and the header that a call runs on.
    pub(super) fn apply(&self, state: &mut BlockState<'_>, header: &mut Header) -> Result<(), StateError> {
        let block = &self.block;
        header.number = block.number.unwrap_or(header.number);
        header.timestamp = block.timestamp.unwrap_or(header.timestamp);
        header.gas_limit = block.gas_limit.unwrap_or(header.gas_limit);
        header.beneficiary = block.beneficiary.unwrap_or(header.beneficiary);
        header.difficulty = block.difficulty.unwrap_or(header.difficulty);
        header.mix_hash = block.random.unwrap_or(header.mix_hash);
        for (address, change) in &self.accounts {
            state.override_account(*address, change)?;
        }
        Ok(())
    }
}
