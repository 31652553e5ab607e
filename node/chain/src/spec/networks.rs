//! The built-in networks: main, test, and the local development network.
//!
//! For main and test the rules and the hash of block 0 are built in. The accounts of their block 0
//! come from a genesis file. Source: docs/base-chain.md, 2.

use std::collections::BTreeMap;

use ethash::Schedule;
use primitives::{Address, U256, address, b256};

use super::{
    ChainFamily, ChainIdChange, ChainSpec, DifficultyRule, GAS_LIMIT_FLOOR, Genesis, GenesisAccount,
    MoacForks, NOTICE_LIST, RuleTable,
};

/// The difficulty of every block of the dev network.
pub const DEV_DIFFICULTY: u64 = 512;

impl ChainSpec {
    /// The main network, id 99, without the accounts of block 0.
    pub fn main() -> Self {
        Self {
            name: "main".to_owned(),
            chain_id: 99,
            network_id: 99,
            chain_id_changes: vec![ChainIdChange {
                first_block: 10_600_000,
                chain_id: 1099,
            }],
            notice_list: Some(NOTICE_LIST),
            rules: MoacForks {
                nuwa: Some(647_200),
                fuxi: Some(6_435_000),
                bomb_defused: Some(6_462_000),
                precompiles: Some(6_850_000),
                classic_transactions: Some(6_850_000),
                create2_by_word: None,
            }
            .rules(),
            genesis_hash: Some(b256!(
                "6b9661646439fab926ffc9bccdf3abb572d5209ae59e3390abf76aee4e2d49cd"
            )),
            genesis: Genesis {
                difficulty: U256::from(100_000_000_000u64),
                extra_data: b"1969ARPANET73TCPIP09BTC2018MOAC".into(),
                ..public_genesis()
            },
            ..public()
        }
    }

    /// The test network, id 101, without the accounts of block 0.
    pub fn test() -> Self {
        Self {
            name: "test".to_owned(),
            chain_id: 101,
            network_id: 101,
            rules: MoacForks {
                nuwa: Some(616_700),
                fuxi: Some(4_900_000),
                bomb_defused: Some(5_042_000),
                precompiles: Some(5_330_000),
                classic_transactions: Some(5_260_000),
                create2_by_word: None,
            }
            .rules(),
            genesis_hash: Some(b256!(
                "b44f499ad420fbba3d4a7e05e9485cddc0e70e3e3622919a5d945e9ed4f7699c"
            )),
            ..public()
        }
    }

    /// Whether this is a built-in network on which strangers mine.
    pub fn is_public(&self) -> bool {
        let names = |spec: &Self| (spec.name.clone(), spec.network_id, spec.chain_id);
        let public = [Self::main(), Self::test(), Self::classic(), Self::mordor()];
        public.iter().any(|spec| names(spec) == names(self))
    }

    /// The local development network: id 100, constant difficulty, ten accounts with balances.
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
            rules: MoacForks {
                nuwa: Some(0),
                fuxi: Some(0),
                precompiles: Some(0),
                classic_transactions: Some(0),
                bomb_defused: Some(0),
                create2_by_word: Some(0),
            }
            .rules(),
            difficulty: DifficultyRule::Constant(DEV_DIFFICULTY),
            system_contract: false,
            notify_scs_always_exists: true,
            developer: true,
            gas_price_min: U256::ZERO,
            genesis: Genesis {
                alloc,
                ..public_genesis()
            },
            genesis_hash: None,
            ..public()
        }
    }
}

impl ChainSpec {
    /// The development network with the rules of Ethereum's family up to the fork of this name
    /// instead of the public network's, see [`RuleTable::developer`]. `None` if there is no such
    /// fork.
    pub fn dev_of_fork(name: &str) -> Option<Self> {
        Some(Self {
            family: ChainFamily::Ethereum,
            rules: RuleTable::developer(name)?,
            failed_calls_refund_gas: false,
            notify_scs_always_exists: false,
            ..Self::dev()
        })
    }
}

/// The values that main and test have in common.
fn public() -> ChainSpec {
    ChainSpec {
        name: String::new(),
        chain_id: 0,
        chain_id_changes: Vec::new(),
        network_id: 0,
        family: ChainFamily::Moac,
        rules: RuleTable::default(),
        dao: None,
        unsupported: None,
        bomb_pause_blocks: 0,
        era_blocks: 0,
        required_hashes: BTreeMap::new(),
        difficulty: DifficultyRule::Moac,
        failed_calls_refund_gas: true,
        system_contract: true,
        notify_scs_always_exists: false,
        developer: false,
        notice_list: None,
        application: None,
        schedule: Schedule::Ethash,
        gas_target_min: GAS_LIMIT_FLOOR,
        gas_price_min: U256::from(1_000_000_000u64),
        genesis: public_genesis(),
        genesis_hash: None,
    }
}

fn public_genesis() -> Genesis {
    Genesis {
        difficulty: U256::from(DEV_DIFFICULTY),
        gas_limit: GAS_LIMIT_FLOOR,
        pow_nonce: 0x42,
        ..Default::default()
    }
}

/// The dev network's accounts and their secret keys, which everybody knows. They are the accounts
/// that other development nodes use too, derived from the well-known test mnemonic.
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
    use primitives::SecretKey;

    use super::*;
    use crate::spec::Rule;

    #[test]
    fn forks_begin_at_their_blocks() {
        let forks = [
            Rule::NoticeWord,
            Rule::Eip145,
            Rule::MoacCurves,
            Rule::ClassicTransactions,
            Rule::BombDefused,
        ];
        let firsts = [
            (
                ChainSpec::main(),
                [647_200, 6_435_000, 6_850_000, 6_850_000, 6_462_000],
            ),
            (
                ChainSpec::test(),
                [616_700, 4_900_000, 5_330_000, 5_260_000, 5_042_000],
            ),
        ];
        for (spec, firsts) in firsts {
            for (rule, first) in forks.into_iter().zip(firsts) {
                assert!(!spec.rules_at(first - 1).has(rule), "{} {rule:?}", spec.name);
                assert!(spec.rules_at(first).has(rule), "{} {rule:?}", spec.name);
            }
            assert!(spec.failed_calls_refund_gas && spec.system_contract);
            assert!(!spec.rules_at(u64::MAX).has(Rule::Eip1014), "{}", spec.name);
        }
        let dev = ChainSpec::dev();
        assert!(forks.into_iter().all(|rule| dev.rules_at(0).has(rule)));
        assert!(dev.rules_at(0).has(Rule::Eip1014) && dev.failed_calls_refund_gas);
    }

    #[test]
    fn the_chain_id_depends_on_the_height() {
        let main = ChainSpec::main();
        let at = |number| main.chain_id_at(number);
        assert_eq!((at(0), at(10_599_999), at(10_600_000)), (99, 99, 1099));
        assert_eq!(at(u64::MAX), 1099);
        let many = ChainSpec {
            chain_id_changes: [(5, 7), (9, 8)]
                .map(|(first_block, chain_id)| ChainIdChange {
                    first_block,
                    chain_id,
                })
                .into(),
            ..ChainSpec::dev()
        };
        let ids = [0, 4, 5, 8, 9, 10].map(|number| many.chain_id_at(number));
        assert_eq!(ids, [100, 100, 7, 7, 8, 8]);
        assert_eq!(ChainSpec::test().chain_id_at(u64::MAX), 101);
    }

    #[test]
    fn the_development_network_can_have_the_rules_of_a_fork() {
        let names = std::iter::once("Frontier").chain(crate::spec::ETHEREUM_FORKS.map(|fork| fork.name));
        for name in names {
            let spec = ChainSpec::dev_of_fork(name).expect(name);
            assert!(spec.rules_at(0).has(Rule::Eip155), "{name}");
            assert!(!spec.rules_at(0).has(Rule::Eip1559), "{name}");
        }
        let shanghai = ChainSpec::dev_of_fork("Shanghai").unwrap();
        assert!(shanghai.rules_at(0).has(Rule::Eip3855) && shanghai.developer);
        // Older forks are not asked: one of these has EIP-1283 alone, which no bundle allows.
        assert_eq!(shanghai.rules.check_bundles(), Ok(()));
        assert_eq!(ChainSpec::dev_of_fork("Cancun"), None);
    }

    #[test]
    fn dev_keys_belong_to_dev_accounts() {
        for (address, key) in DEV_ACCOUNTS {
            assert_eq!(SecretKey::from_hex(key).unwrap().address(), address);
        }
    }
}
