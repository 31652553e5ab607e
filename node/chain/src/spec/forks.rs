//! The forks of the two families, and the rules that are active at one height.
//!
//! This module has names and block numbers only. [`crate::evm`] knows what a fork means for gas
//! and opcodes, [`crate::rules`] what it means for headers.

use revm::primitives::hardfork::SpecId;

/// The first block with a rule; `None` if the rule never becomes active.
pub type ForkBlock = Option<u64>;

/// Whether `fork` is active at block `number`.
pub(crate) fn is_active(fork: ForkBlock, number: u64) -> bool {
    fork.is_some_and(|first| number >= first)
}

/// Forks of the public network's family. A fork that a genesis file leaves out is active from block
/// 0 on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MoacForks {
    /// The first rules. A genesis file with this key is of the public network's family.
    pub pangu: ForkBlock,
    /// The contracts 0x0d and 0x0e return a word; before, they return nothing.
    pub nuwa: ForkBlock,
    /// Opcodes for shifts, EXTCODEHASH, CREATE2, CHAINID, SELFBALANCE.
    pub fuxi: ForkBlock,
    /// Precompiled contracts for modular exponentiation and the bn256 curve.
    pub precompiles: ForkBlock,
    /// Blocks may contain transactions of 9 fields.
    pub classic_transactions: ForkBlock,
    /// The difficulty bomb is switched off.
    pub bomb_defused: ForkBlock,
    /// CREATE2 pays for memory and for each word of its code (EIP-1014). The public network never
    /// does, so a genesis file that leaves this fork out has no such block.
    pub create2_by_word: ForkBlock,
}

/// Forks of Ethereum.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EthereumForks {
    /// EIP-2, EIP-7.
    pub homestead: ForkBlock,
    /// The DAO fork: an irregular state change, and special extra data in ten blocks.
    pub dao: ForkBlock,
    /// Whether this chain makes the DAO fork. A chain that does not must avoid its extra data.
    pub dao_support: bool,
    /// Gas prices of EIP-150.
    pub eip150: ForkBlock,
    /// Chain ids in signatures.
    pub eip155: ForkBlock,
    /// Empty accounts are removed, and the size of contract code is limited.
    pub eip158: ForkBlock,
    /// Status in receipts, STATICCALL, REVERT, precompiles 5 to 8.
    pub byzantium: ForkBlock,
    /// Shifts, EXTCODEHASH, CREATE2, net gas metering of EIP-1283.
    pub constantinople: ForkBlock,
    /// Petersburg: Constantinople without EIP-1283.
    pub petersburg: ForkBlock,
    /// EIP-1884, EIP-2200, CHAINID, SELFBALANCE, BLAKE2.
    pub istanbul: ForkBlock,
    /// The difficulty bomb is delayed once more.
    pub muir_glacier: ForkBlock,
    /// The name and first block of the first fork that this program does not support.
    pub unsupported: Option<(String, u64)>,
}

/// Ethereum's forks that change execution, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EthereumFork {
    /// The first rules.
    Frontier,
    /// EIP-2, EIP-7.
    Homestead,
    /// EIP-150, Tangerine Whistle.
    Eip150,
    /// EIP-158 and others, Spurious Dragon.
    Eip158,
    /// Byzantium.
    Byzantium,
    /// Constantinople as first specified, with EIP-1283.
    Constantinople,
    /// Constantinople as activated on Ethereum: Petersburg.
    ConstantinopleFix,
    /// Istanbul.
    Istanbul,
}

impl EthereumForks {
    /// All forks up to `fork`, active from block 0 on.
    pub fn only(fork: EthereumFork) -> Self {
        let from = |first: EthereumFork| (fork >= first).then_some(0);
        Self {
            homestead: from(EthereumFork::Homestead),
            eip150: from(EthereumFork::Eip150),
            eip155: from(EthereumFork::Eip158),
            eip158: from(EthereumFork::Eip158),
            byzantium: from(EthereumFork::Byzantium),
            constantinople: from(EthereumFork::Constantinople),
            petersburg: from(EthereumFork::ConstantinopleFix),
            istanbul: from(EthereumFork::Istanbul),
            ..Self::default()
        }
    }

    /// The latest fork that is active at block `number`.
    pub fn at(&self, number: u64) -> EthereumFork {
        let order = [
            (self.istanbul, EthereumFork::Istanbul),
            (self.petersburg, EthereumFork::ConstantinopleFix),
            (self.constantinople, EthereumFork::Constantinople),
            (self.byzantium, EthereumFork::Byzantium),
            (self.eip158, EthereumFork::Eip158),
            (self.eip150, EthereumFork::Eip150),
            (self.homestead, EthereumFork::Homestead),
        ];
        let latest = order.into_iter().find(|(block, _)| is_active(*block, number));
        latest.map_or(EthereumFork::Frontier, |(_, fork)| fork)
    }
}

impl EthereumFork {
    /// revm's name of these rules. [`crate::evm`] adds Constantinople's SSTORE.
    pub(crate) const fn spec_id(self) -> SpecId {
        match self {
            Self::Frontier => SpecId::FRONTIER,
            Self::Homestead => SpecId::HOMESTEAD,
            Self::Eip150 => SpecId::TANGERINE,
            Self::Eip158 => SpecId::SPURIOUS_DRAGON,
            Self::Byzantium => SpecId::BYZANTIUM,
            Self::Constantinople | Self::ConstantinopleFix => SpecId::PETERSBURG,
            Self::Istanbul => SpecId::ISTANBUL,
        }
    }
}

/// The family of a chain and its forks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChainFamily {
    /// The public network's: transactions have 12 fields and cost at least 1000 gas, receipts have
    /// 5 fields.
    Moac(MoacForks),
    /// Ethereum's: transactions have 9 fields and cost at least 21000 gas, receipts have 4 fields.
    Ethereum(EthereumForks),
}

/// The rules that are active at one height.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockRules {
    /// The public network's family.
    Moac {
        /// See [`MoacForks::nuwa`].
        nuwa: bool,
        /// See [`MoacForks::fuxi`].
        fuxi: bool,
        /// See [`MoacForks::precompiles`].
        precompiles: bool,
        /// See [`MoacForks::classic_transactions`].
        classic_transactions: bool,
        /// See [`MoacForks::create2_by_word`].
        create2_by_word: bool,
    },
    /// Ethereum's family.
    Ethereum {
        /// The latest fork.
        fork: EthereumFork,
        /// Signatures may include the chain id (EIP-155).
        protected: bool,
    },
}

impl BlockRules {
    /// Whether touched empty accounts are removed.
    pub fn removes_empty_accounts(self) -> bool {
        match self {
            Self::Moac { .. } => true,
            Self::Ethereum { fork, .. } => fork >= EthereumFork::Eip158,
        }
    }

    /// Whether receipts have a status. Before, they have a state root.
    pub fn receipts_have_status(self) -> bool {
        match self {
            Self::Moac { .. } => true,
            Self::Ethereum { fork, .. } => fork >= EthereumFork::Byzantium,
        }
    }

    /// Whether signatures must have a low S.
    pub fn low_s(self) -> bool {
        match self {
            Self::Moac { .. } => true,
            Self::Ethereum { fork, .. } => fork >= EthereumFork::Homestead,
        }
    }
}
