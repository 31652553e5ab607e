//! Chain specs: the rules of a network as data, and its genesis.
//!
//! Knows networks, forks and parameters; executes nothing. How the rules are applied is in
//! [`crate::rules`] (headers, difficulty, rewards) and [`crate::evm`] (gas and opcodes).

use ethash::Schedule;
use primitives::{Address, B256, Bytes, ReceiptForm, TxRules, U256, address};
use std::collections::BTreeMap;

/// Smallest gas limit of a block on the public networks, and the dev network's genesis limit.
pub const GAS_LIMIT_FLOOR: u64 = 9_000_000;

/// The gas limit miners steer to unless told otherwise.
pub const GAS_TARGET_DEFAULT: u64 = 18_000_000;

/// Difficulty of every block of the dev network.
pub const DEV_DIFFICULTY: u64 = 512;

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

/// A block number from which a rule holds; `None` means never.
pub type ForkBlock = Option<u64>;

/// Whether `fork` holds at block `number`.
pub(crate) fn reached(fork: ForkBlock, number: u64) -> bool {
    fork.is_some_and(|first| number >= first)
}

/// Forks of the public network's family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MoacForks {
    /// Shifts, EXTCODEHASH, CREATE2, CHAINID, SELFBALANCE.
    pub fuxi: ForkBlock,
    /// Modular exponentiation and the bn256 curve as precompiles.
    pub precompiles: ForkBlock,
    /// The 9-field transaction is taken.
    pub classic_transactions: ForkBlock,
    /// The difficulty bomb is off.
    pub bomb_defused: ForkBlock,
}

/// How the next block's difficulty follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DifficultyRule {
    /// Always this difficulty.
    Constant(u64),
    /// The public network's: Byzantium's formula, its own bomb.
    Moac,
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
    /// When the family's rules begin.
    pub forks: MoacForks,
    /// How difficulty follows.
    pub difficulty: DifficultyRule,
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
}

/// What holds at one height.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RulesAt {
    /// Fuxi's opcodes.
    pub fuxi: bool,
    /// The later precompiles.
    pub precompiles: bool,
    /// 9-field transactions.
    pub classic_transactions: bool,
}

impl ChainSpec {
    /// The local development network: id 100, constant difficulty, ten funded accounts.
    pub fn dev() -> Self {
        let funded = GenesisAccount {
            balance: U256::from(1_000_000u64) * U256::from(10u64).pow(U256::from(18u64)),
            ..Default::default()
        };
        let alloc = DEV_ACCOUNTS.map(|(address, _)| (address, funded.clone())).into();
        Self {
            name: "dev".to_owned(),
            chain_id: 100,
            network_id: 100,
            forks: MoacForks {
                fuxi: Some(0),
                precompiles: Some(0),
                classic_transactions: Some(0),
                bomb_defused: Some(0),
            },
            difficulty: DifficultyRule::Constant(DEV_DIFFICULTY),
            failed_calls_refund_gas: false,
            system_contract: false,
            schedule: Schedule::Ethash,
            gas_limit_min: GAS_LIMIT_FLOOR,
            gas_price_min: U256::ZERO,
            genesis: Genesis {
                difficulty: U256::from(DEV_DIFFICULTY),
                gas_limit: GAS_LIMIT_FLOOR,
                pow_nonce: 0x42,
                alloc,
                ..Default::default()
            },
        }
    }

    /// What holds at block `number`.
    pub fn at(&self, number: u64) -> RulesAt {
        RulesAt {
            fuxi: reached(self.forks.fuxi, number),
            precompiles: reached(self.forks.precompiles, number),
            classic_transactions: reached(self.forks.classic_transactions, number),
        }
    }

    /// Which transaction forms lie in blocks.
    pub fn tx_rules(&self) -> TxRules {
        TxRules::Moac
    }

    /// How receipts are written under the receipts root.
    pub fn receipt_form(&self) -> ReceiptForm {
        ReceiptForm::Five
    }
}

/// The dev network's accounts with their keys, which are known to everyone: the accounts
/// that other development nodes also fund, from the well-known test mnemonic.
pub const DEV_ACCOUNTS: [(Address, &str); 10] = [
    (
        address!("f39fd6e51aad88f6f4ce6ab8827279cfffb92266"),
        "ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80",
    ),
    (
        address!("70997970c51812dc3a010c7d01b50e0d17dc79c8"),
        "59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d",
    ),
    (
        address!("3c44cdddb6a900fa2b585dd299e03d12fa4293bc"),
        "5de4111afa1a4b94908f83103eb1f1706367c2e68ca870fc3fb9a804cdab365a",
    ),
    (
        address!("90f79bf6eb2c4f870365e785982e1f101e93b906"),
        "7c852118294e51e653712a81e05800f419141751be58f605c371e15141b007a6",
    ),
    (
        address!("15d34aaf54267db7d7c367839aaf71a00a2c6a65"),
        "47e179ec197488593b187f80a00eb0da91f1b9d0b13f8733639f19c30a34926a",
    ),
    (
        address!("9965507d1a55bcc2695c58ba16fb37d819b0a4dc"),
        "8b3a350cf5c34c9194ca85829a2df0ec3153be0318b5e2d3348e872092edffba",
    ),
    (
        address!("976ea74026e726554db657fa54763abd0c3a0aa9"),
        "92db14e403b83dfe3df233f83dfa3a0d7096f21ca9b0d6d6b8d88b2b4ec1564e",
    ),
    (
        address!("14dc79964da2c08b23698b3d3cc7ca32193d9955"),
        "4bbbf85ce3377467afe5d46f804f221813b2bb87f24d81f60f1fcdbf7cbf4356",
    ),
    (
        address!("23618e81e3f5cdf7f54c3d65f7fbc0abf5b21e8f"),
        "dbda1821b80551c9d65939329250298aa3472ba22feea921c0cf5d620ea67b97",
    ),
    (
        address!("a0ee7a142d267c1f36714e4a8f75612f20a79720"),
        "2a871d0798f97d79848a013d4936a73bf4cc922c825d33c1cf7073dff6d409c6",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use primitives::SecretKey;

    #[test]
    fn dev_keys_belong_to_dev_accounts() {
        for (address, key) in DEV_ACCOUNTS {
            assert_eq!(SecretKey::from_hex(key).unwrap().address(), address);
        }
    }
}
