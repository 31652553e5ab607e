//! The facts that make an application chain (MicroChain), and its spec.
//!
//! The meaning of its rules for a block is in [`crate::application`].

use primitives::{Address, Bytes, Transaction, U256};

use super::{ChainSpec, DifficultyRule, Genesis, GenesisAccount};

/// The gas limit of each transaction, whatever the transaction says.
pub const TRANSACTION_GAS: u64 = 54_000_000;
/// A block takes another transaction while it has used at most this much gas.
pub const BLOCK_GAS_FILL: u64 = 54_000_000;
/// The gas limit of each block.
pub const BLOCK_GAS_LIMIT: u64 = BLOCK_GAS_FILL + TRANSACTION_GAS;
/// The facts that make an application chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApplicationRules {
    /// The address of the chain: that of its contract on the base chain.
    pub address: Address,
    /// The owner: block 0 gives it all tokens, and it creates DappBase.
    pub owner: Address,
    /// All tokens.
    pub supply: U256,
}

impl ApplicationRules {
    /// The address of DappBase. The only valid transaction before it exists is its creation by the
    /// owner with nonce 0, so the address is known from the beginning.
    pub fn dapp_base(&self) -> Address {
        Transaction::created_address(&self.owner, 0)
    }

    /// The spec of the chain. `extra` is the extra data of block 0; it names everything that two
    /// chains may differ in.
    pub fn spec(&self, chain_id: u64, extra: Bytes) -> ChainSpec {
        let owner = GenesisAccount {
            balance: self.supply,
            ..Default::default()
        };
        ChainSpec {
            name: format!("{:#x}", self.address),
            chain_id,
            network_id: chain_id,
            difficulty: DifficultyRule::Constant(1),
            // Gas is free, so failing must cost as much of a block as succeeding.
            failed_calls_refund_gas: false,
            application: Some(*self),
            genesis: Genesis {
                gas_limit: BLOCK_GAS_LIMIT,
                extra_data: extra,
                alloc: [(self.owner, owner)].into(),
                ..Default::default()
            },
            ..ChainSpec::dev()
        }
    }
}
