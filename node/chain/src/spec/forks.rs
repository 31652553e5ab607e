//! Forks of the two families, and what holds at one height.
//!
//! Knows names and numbers; what a fork means for gas is in [`crate::evm`], for headers in
//! [`crate::rules`].

use revm::primitives::hardfork::SpecId;

/// A block number from which a rule holds; `None` means never.
pub type ForkBlock = Option<u64>;

/// Whether `fork` holds at block `number`.
pub(crate) fn is_active(fork: ForkBlock, number: u64) -> bool {
    fork.is_some_and(|first| number >= first)
}

/// Forks of the public network's family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MoacForks {
    /// The first rules; only their key is needed.
    pub pangu: ForkBlock,
    /// 0x0d and 0x0e answer a word; below it they answer nothing. A chain that does not name it
    /// has it from block 0 on.
    pub nuwa: ForkBlock,
    /// Shifts, EXTCODEHASH, CREATE2, CHAINID, SELFBALANCE.
    pub fuxi: ForkBlock,
    /// Modular exponentiation and the bn256 curve as precompiles.
    pub precompiles: ForkBlock,
    /// The 9-field transaction is taken.
    pub classic_transactions: ForkBlock,
    /// The difficulty bomb is off.
    pub bomb_defused: ForkBlock,
}

/// Forks of Ethereum.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EthereumForks {
    /// EIP-2, EIP-7.
    pub homestead: ForkBlock,
    /// The irregular state change, and the extra data of ten blocks.
    pub dao: ForkBlock,
    /// Whether this chain made the change; the others avoid its extra data.
    pub dao_support: bool,
    /// Gas prices of EIP-150.
    pub eip150: ForkBlock,
    /// Chain ids in signatures.
    pub eip155: ForkBlock,
    /// Empty accounts go, code has a limit.
    pub eip158: ForkBlock,
    /// Status in receipts, STATICCALL, REVERT, precompiles 5 to 8.
    pub byzantium: ForkBlock,
    /// Shifts, EXTCODEHASH, CREATE2, net gas metering of EIP-1283.
    pub constantinople: ForkBlock,
    /// Constantinople without EIP-1283.
    pub petersburg: ForkBlock,
    /// EIP-1884, EIP-2200, CHAINID, SELFBALANCE, BLAKE2.
    pub istanbul: ForkBlock,
    /// The bomb is put off once more.
    pub muir_glacier: ForkBlock,
    /// Rules this program does not have, and what they are called.
    pub unsupported: Option<(String, u64)>,
}

/// Ethereum's rules by name, in order.
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
    /// Constantinople as it was first written.
    Constantinople,
    /// Constantinople as it was activated, Petersburg.
    ConstantinopleFix,
    /// Istanbul.
    Istanbul,
}

impl EthereumForks {
    /// All forks up to `fork` from block 0 on.
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

    /// The latest fork that holds at block `number`.
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
    /// revm's name of these rules. Constantinople's own SSTORE is put in by [`crate::evm`].
    pub(crate) fn spec_id(self) -> SpecId {
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
    /// The public network's: 12-field transactions, five-field receipts, gas from 1000 on.
    Moac(MoacForks),
    /// Ethereum's: 9-field transactions, four-field receipts, gas from 21000 on.
    Ethereum(EthereumForks),
}

/// What holds at one height.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockRules {
    /// The public network's family.
    Moac {
        /// 0x0d and 0x0e answer a word.
        nuwa: bool,
        /// Fuxi's opcodes.
        fuxi: bool,
        /// The later precompiles.
        precompiles: bool,
        /// 9-field transactions.
        classic_transactions: bool,
    },
    /// Ethereum's family.
    Ethereum {
        /// The latest fork.
        fork: EthereumFork,
        /// Signatures may carry the chain id.
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

    /// Whether receipts carry a status, not a state root.
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
