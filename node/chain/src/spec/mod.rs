//! Chain specs: the rules of a network as data, and its genesis.
//!
//! Knows networks, forks and parameters; executes nothing. How the rules are applied is in
//! [`crate::rules`] (headers, difficulty, rewards) and [`crate::evm`] (gas and opcodes).

pub(crate) mod dao;
mod forks;
mod networks;

pub(crate) use forks::is_active;
pub use forks::{BlockRules, ChainFamily, EthereumFork, EthereumForks, ForkBlock, MoacForks};
pub use networks::{DEV_ACCOUNTS, DEV_DIFFICULTY};

use std::collections::BTreeMap;

use ethash::Schedule;
use primitives::{Address, B256, Bytes, ReceiptForm, TxRules, U256};

/// Smallest gas limit of a block on the built-in networks, and the dev network's genesis limit.
pub const GAS_LIMIT_FLOOR: u64 = 9_000_000;

/// Smallest gas limit of a block anywhere.
pub const GAS_LIMIT_MIN: u64 = 5000;

/// The gas limit miners steer to unless told otherwise.
pub const GAS_TARGET_DEFAULT: u64 = 18_000_000;

/// Account and the balance and code it starts with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GenesisAccount {
    /// Balance in sha.
    pub balance: U256,
    /// Account nonce.
    pub tx_nonce: u64,
    /// Contract code.
    pub code: Bytes,
    /// Storage slots.
    pub storage: BTreeMap<U256, U256>,
}

/// Block 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Genesis {
    /// Difficulty of block 0.
    pub difficulty: U256,
    /// Gas limit of block 0.
    pub gas_limit: u64,
    /// Gas used that block 0 claims; 0 but in test vectors.
    pub gas_used: u64,
    /// Timestamp of block 0.
    pub timestamp: u64,
    /// Extra data of block 0.
    pub extra_data: Bytes,
    /// Beneficiary of block 0.
    pub beneficiary: Address,
    /// Mix hash of block 0.
    pub mix_hash: B256,
    /// Parent hash of block 0; zero but in test vectors.
    pub parent_hash: B256,
    /// Seal nonce of block 0.
    pub pow_nonce: u64,
    /// The accounts of block 0.
    pub alloc: BTreeMap<Address, GenesisAccount>,
}

/// How the next block's difficulty follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DifficultyRule {
    /// Always this difficulty.
    Constant(u64),
    /// The public network's: Byzantium's formula, its own bomb.
    Moac,
    /// Ethereum's, by fork.
    Ethereum,
}

/// A network: its identity, its rules, its block 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainSpec {
    /// Name for logs.
    pub name: String,
    /// In signatures.
    pub chain_id: u64,
    /// In the handshake and in `net_version`.
    pub network_id: u64,
    /// The family's rules and when they begin.
    pub family: ChainFamily,
    /// How difficulty follows.
    pub difficulty: DifficultyRule,
    /// Touched empty accounts are removed (in Ethereum's family from EIP-158 on).
    pub remove_empty_accounts: bool,
    /// Gas of failed calls is returned to the caller (a fault of the public network that is consensus there).
    pub failed_calls_refund_gas: bool,
    /// Every block begins with the system transaction.
    pub system_contract: bool,
    /// Blocks and epochs.
    pub schedule: Schedule,
    /// No block may have a smaller gas limit.
    pub gas_limit_min: u64,
    /// Cheapest gas price the pool takes from others, in sha.
    pub gas_price_min: U256,
    /// Block 0.
    pub genesis: Genesis,
    /// The hash block 0 must have; `None` where any will do.
    pub genesis_hash: Option<B256>,
}

impl ChainSpec {
    /// What holds at block `number`.
    pub fn rules_at(&self, number: u64) -> BlockRules {
        match &self.family {
            ChainFamily::Moac(forks) => BlockRules::Moac {
                nuwa: forks.nuwa.is_none_or(|first| number >= first),
                fuxi: is_active(forks.fuxi, number),
                precompiles: is_active(forks.precompiles, number),
                classic_transactions: is_active(forks.classic_transactions, number),
            },
            ChainFamily::Ethereum(forks) => BlockRules::Ethereum {
                fork: forks.at(number),
                protected: is_active(forks.eip155, number),
            },
        }
    }

    /// Whether empty accounts go at block `number`.
    pub fn removes_empty_accounts(&self, number: u64) -> bool {
        self.remove_empty_accounts && self.rules_at(number).removes_empty_accounts()
    }

    /// The first rules that this program does not have, where block `number` would need them.
    pub fn unsupported_fork(&self, number: u64) -> Option<&str> {
        match &self.family {
            ChainFamily::Ethereum(EthereumForks {
                unsupported: Some((name, first)),
                ..
            }) if number >= *first => Some(name),
            _ => None,
        }
    }

    /// Whether block `number` makes the DAO fork's change of state.
    pub fn is_dao_fork(&self, number: u64) -> bool {
        matches!(&self.family, ChainFamily::Ethereum(forks) if forks.dao_support && forks.dao == Some(number))
    }

    /// Which transaction forms lie in blocks.
    pub fn tx_rules(&self) -> TxRules {
        match self.family {
            ChainFamily::Moac(_) => TxRules::Moac,
            ChainFamily::Ethereum(_) => TxRules::Ethereum,
        }
    }

    /// How receipts are written under the receipts root.
    pub fn receipt_form(&self) -> ReceiptForm {
        match self.family {
            ChainFamily::Moac(_) => ReceiptForm::Five,
            ChainFamily::Ethereum(_) => ReceiptForm::Four,
        }
    }
}
