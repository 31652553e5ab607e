//! The facts that make an application chain (MicroChain), and its spec.
//!
//! The meaning of its rules for a block is in [`crate::application`].

use primitives::{Address, Bytes, Transaction, TxForm, U256, keccak256};

use super::{ChainSpec, DifficultyRule, Genesis, GenesisAccount};

/// The gas limit of each transaction, whatever the transaction says.
pub const TRANSACTION_GAS: u64 = 54_000_000;
/// A block takes another transaction while it has used at most this much gas.
pub const BLOCK_GAS_FILL: u64 = 54_000_000;
/// The gas limit of each block.
pub const BLOCK_GAS_LIMIT: u64 = BLOCK_GAS_FILL + TRANSACTION_GAS;
/// The text before the hashed bytes of a chain id.
const CHAIN_ID_TEXT: &[u8] = b"MicroChain chain id";
/// The lowest chain id of an application chain: 2^50. Twice the highest, and 36, is below 2^53, so
/// clients in JavaScript have it exactly.
const CHAIN_ID_MIN: u64 = 1 << 50;

/// The facts that make an application chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApplicationRules {
    /// The address of the chain: that of its contract on the base chain.
    pub address: Address,
    /// The owner: block 0 gives it all tokens, and it creates DappBase.
    pub owner: Address,
    /// All tokens.
    pub supply: U256,
    /// The least withdrawal, in units of 10^-18. A withdrawal of nothing is refused in any case.
    pub withdrawal_min: U256,
}

impl ApplicationRules {
    /// The address of DappBase. The only valid transaction before it exists is its creation by the
    /// owner with nonce 0, so the address is known from the beginning.
    pub fn dapp_base(&self) -> Address {
        Transaction::created_address(&self.owner, 0)
    }

    /// The id that wallets sign for, on an application chain whose base chain has the id
    /// `base_chain_id` (docs/microchain-design.md, 5.1).
    pub fn chain_id(&self, base_chain_id: u64) -> u64 {
        let base = base_chain_id.to_be_bytes();
        let hash = keccak256([CHAIN_ID_TEXT, &base, self.address.as_slice()].concat());
        let word = U256::from_be_bytes(hash.0).as_limbs()[0];
        CHAIN_ID_MIN + word % CHAIN_ID_MIN
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
            // A member, or a stranger's message, must not be able to name a sender that has signed
            // nothing.
            developer: false,
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

impl ChainSpec {
    /// The id for which wallets sign in block `number`: the own id of an application chain, the
    /// network's on others.
    pub fn wallet_chain_id(&self, number: u64) -> u64 {
        let id = self.chain_id_at(number);
        self.application.as_ref().map_or(id, |rules| rules.chain_id(id))
    }

    /// The id in signatures of transactions of this form in block `number`. On an application chain
    /// flagged ones have the base chain's id, and those of wallets the own one.
    pub(crate) fn chain_id_of(&self, form: TxForm, number: u64) -> u64 {
        match form {
            TxForm::Classic => self.wallet_chain_id(number),
            TxForm::Native | TxForm::Ethereum | TxForm::AccessList | TxForm::System => {
                self.chain_id_at(number)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use primitives::address;

    use super::*;

    fn id(base: u64, address: Address) -> u64 {
        let rules = ApplicationRules {
            address,
            owner: Address::ZERO,
            supply: U256::ZERO,
            withdrawal_min: U256::ZERO,
        };
        rules.chain_id(base)
    }

    #[test]
    fn chain_ids_differ_by_address_and_base_chain_and_fit_in_javascript() {
        let one = address!("0a674edac2ccd47ae2a3197ea3163aa81087fbd1");
        let two = address!("0a674edac2ccd47ae2a3197ea3163aa81087fbd2");
        assert_ne!(id(100, one), id(101, one));
        assert_ne!(id(100, one), id(100, two));
        for last in 0..=255 {
            let id = id(99, Address::with_last_byte(last));
            assert!((CHAIN_ID_MIN..2 * CHAIN_ID_MIN).contains(&id));
            assert!(2 * id + 36 < 1 << 53);
        }
    }
}
