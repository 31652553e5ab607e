//! Chain specs: the rules of a network and its block 0, as data.
//!
//! A spec names each rule by the block where it begins ([`RuleTable`]). [`crate::rules`] applies
//! the rules of headers, difficulty and rewards, [`crate::evm`] those of gas and opcodes.
//! [`crate::genesis::file`] makes a spec from a genesis file.

mod application;
mod classic;
pub(crate) mod dao;
mod forks;
mod networks;
mod rule;

pub use application::{ApplicationRules, BLOCK_GAS_FILL, BLOCK_GAS_LIMIT, TRANSACTION_GAS};
pub use forks::{ChainFamily, ETHEREUM_FORKS, EthereumFork, MoacForks};
pub use networks::{DEV_ACCOUNTS, DEV_DIFFICULTY};
pub use rule::{BlockRules, ForkBlock, Rule, RuleBundleError, RuleTable};

use std::collections::BTreeMap;

use ethash::Schedule;
use indexmap::IndexMap;
use primitives::{Address, B256, Bytes, ReceiptForm, TxRules, U256, address};

/// The smallest gas limit of a valid block.
pub const GAS_LIMIT_MIN: u64 = 5000;

/// The gas limit of block 0 of the built-in networks. Blocks that are made for them steer to no
/// lower limit.
pub(crate) const GAS_LIMIT_FLOOR: u64 = 9_000_000;

/// The contract of the public network that says which contracts may send notices. The public node
/// asks it on the chains with the ids [`NOTICE_LIST_CHAINS`].
pub const NOTICE_LIST: Address = address!("406f4c2d1ca8be4709b6a3cc66066cf176aa01ca");

/// The ids of the chains on which the public node asks [`NOTICE_LIST`].
pub const NOTICE_LIST_CHAINS: [u64; 2] = [99, 188];

/// The gas limit that miners steer to by default.
pub const GAS_TARGET_DEFAULT: u64 = 18_000_000;

/// An account of block 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GenesisAccount {
    /// Balance in sha.
    pub balance: U256,
    /// Account nonce.
    pub tx_nonce: u64,
    /// Contract code.
    pub code: Bytes,
    /// Storage slots that are not zero.
    pub storage: BTreeMap<U256, U256>,
}

/// The accounts of block 0 by address, in the order in which they were added. There may be a
/// million, and a hash map of them is made in less time than a sorted one and takes less memory.
pub type GenesisAccounts = IndexMap<Address, GenesisAccount>;

/// The content of block 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Genesis {
    /// Difficulty of block 0.
    pub difficulty: U256,
    /// Gas limit of block 0.
    pub gas_limit: u64,
    /// Gas used in the header of block 0. Only test vectors have another value than 0.
    pub gas_used: u64,
    /// Timestamp of block 0.
    pub timestamp: u64,
    /// Extra data of block 0.
    pub extra_data: Bytes,
    /// Beneficiary of block 0.
    pub beneficiary: Address,
    /// Mix hash of block 0.
    pub mix_hash: B256,
    /// Parent hash of block 0. Only test vectors have another value than zero.
    pub parent_hash: B256,
    /// Nonce of block 0's seal.
    pub pow_nonce: u64,
    /// The accounts of block 0. Empty if only [`Self::state_root`] is known, as after the start of
    /// a node whose block 0 is stored.
    pub alloc: GenesisAccounts,
    /// The state root of block 0; `None` if it is that of the accounts.
    pub state_root: Option<B256>,
}

/// The formula for the next block's difficulty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DifficultyRule {
    /// Every block has this difficulty.
    Constant(u64),
    /// The public network's rule: Byzantium's formula with a difficulty bomb of its own.
    Moac,
    /// Ethereum's rule of the active fork.
    Ethereum,
}

/// The DAO fork: special extra data in ten blocks, and an irregular state change on the chains that
/// support it (EIP-779).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DaoFork {
    /// The first block.
    pub block: u64,
    /// Whether the chain makes the fork. One that does not must avoid its extra data.
    pub support: bool,
}

/// A block from which on signatures have another chain id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainIdChange {
    /// The first block with this id.
    pub first_block: u64,
    /// The id in signatures.
    pub chain_id: u64,
}

/// A network: its identity, its rules, its block 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainSpec {
    /// The name, for logs.
    pub name: String,
    /// The id in signatures, from block 0 on.
    pub chain_id: u64,
    /// Later ids in signatures, in ascending order of their blocks.
    pub chain_id_changes: Vec<ChainIdChange>,
    /// The id in the handshake and in `net_version`.
    pub network_id: u64,
    /// The family.
    pub family: ChainFamily,
    /// The first block of each rule.
    pub rules: RuleTable,
    /// The DAO fork; `None` if the chain does not know it.
    pub dao: Option<DaoFork>,
    /// The name and first block of the first fork that this program does not support.
    pub unsupported: Option<(String, u64)>,
    /// The number of blocks for which the difficulty bomb pauses (ECIP-1010), with
    /// [`Rule::Ecip1010`].
    pub bomb_pause_blocks: u64,
    /// The length of a reward era (ECIP-1017), with [`Rule::Ecip1017`].
    pub era_blocks: u64,
    /// Blocks that must have these hashes, by number.
    pub required_hashes: BTreeMap<u64, B256>,
    /// The formula for the difficulty.
    pub difficulty: DifficultyRule,
    /// The gas of failed calls goes back to the caller. This is a fault of the public network's
    /// first node that is consensus in its whole family. See `evm/refund.rs`.
    pub failed_calls_refund_gas: bool,
    /// Every block begins with the system transaction.
    pub system_contract: bool,
    /// The code size of 0x0d is 1 even if the account does not exist. So contracts that ask for it
    /// before they send a notice work on a network whose block 0 does not have the account.
    pub notify_scs_always_exists: bool,
    /// Blocks may change accounts, and transactions may name their senders instead of being signed,
    /// see [`crate::developer`]. Only the development network has this.
    pub developer: bool,
    /// The contract that says which contracts may send notices; `None` if all may. A call of 0x0d
    /// by any other contract returns 0. If the contract has no code, all may.
    pub notice_list: Option<Address>,
    /// The rules that an application chain has beside those of its family; `None` for a base chain.
    pub application: Option<ApplicationRules>,
    /// Which blocks belong to which Ethash epoch.
    pub schedule: Schedule,
    /// The lowest gas limit that blocks made here steer to. Blocks of others may have a lower one.
    pub gas_target_min: u64,
    /// The smallest gas price that the pool accepts in transactions of others, in sha.
    pub gas_price_min: U256,
    /// The content of block 0.
    pub genesis: Genesis,
    /// The hash that block 0 must have; `None` if it may have any hash.
    pub genesis_hash: Option<B256>,
}

impl ChainSpec {
    /// The rules that are active at block `number`.
    pub fn rules_at(&self, number: u64) -> BlockRules {
        self.rules.at(self.family, number)
    }

    /// Whether the network can have application chains, from some block on.
    pub const fn has_application_chains(&self) -> bool {
        matches!(self.family, ChainFamily::Moac)
    }

    /// The id in signatures of transactions in block `number`.
    pub fn chain_id_at(&self, number: u64) -> u64 {
        let changes = self.chain_id_changes.iter();
        let latest = changes.rev().find(|change| change.first_block <= number);
        latest.map_or(self.chain_id, |change| change.chain_id)
    }

    /// The name of a fork that is active at block `number` and that this program does not support.
    pub(crate) fn unsupported_fork(&self, number: u64) -> Option<&str> {
        let unsupported = self.unsupported.as_ref();
        unsupported
            .filter(|(_, first)| number >= *first)
            .map(|(name, _)| name.as_str())
    }

    /// Whether block `number` makes the irregular state change of the DAO fork.
    pub(crate) fn is_dao_fork(&self, number: u64) -> bool {
        self.dao.is_some_and(|dao| dao.support && dao.block == number)
    }

    /// The blocks that count in the fork id (EIP-2124): those at which rules begin. The DAO fork
    /// counts even on a chain that does not make it, and the new schedule of Etchash counts, too.
    pub fn fork_blocks(&self) -> Vec<u64> {
        let schedule = match self.schedule {
            Schedule::Ethash => None,
            Schedule::Etchash { fork_block } => Some(fork_block),
        };
        let dao = self.dao.map(|dao| dao.block);
        let next = self.unsupported.as_ref().map(|(_, first)| *first);
        let others = [schedule, dao, next].into_iter().flatten();
        self.rules.blocks().into_iter().chain(others).collect()
    }

    /// Which forms of transactions blocks contain.
    pub const fn tx_rules(&self) -> TxRules {
        match self.family {
            ChainFamily::Moac => TxRules::Moac,
            ChainFamily::Ethereum => TxRules::Ethereum,
        }
    }

    /// The encoding of receipts under the receipts root.
    pub const fn receipt_form(&self) -> ReceiptForm {
        match self.family {
            ChainFamily::Moac => ReceiptForm::Five,
            ChainFamily::Ethereum => ReceiptForm::Four,
        }
    }
}
