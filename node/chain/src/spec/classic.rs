//! Ethereum Classic and its test network Mordor. Source: docs/etc.md, 1.
//!
//! The accounts of block 0 of Ethereum Classic are in [`crate::genesis`].

use std::collections::BTreeMap;

use ethash::Schedule;
use primitives::{B256, U256, b256, hex};

use super::rule::Rule::{self, *};
use super::rule::RuleTable;
use super::{ChainFamily, ChainSpec, DifficultyRule, GAS_LIMIT_MIN, Genesis};

/// The gas limit that blocks made for these networks steer to, at least.
const CLASSIC_GAS_TARGET: u64 = 8_000_000;
/// The smallest gas price that the pool accepts in transactions of others, in wei.
const CLASSIC_GAS_PRICE_MIN: u64 = 1_000_000_000;

const HOMESTEAD: &[Rule] = &[Eip2, Eip7];
const GAS_REPRICE: &[Rule] = &[Eip150];
const DIE_HARD: &[Rule] = &[Eip155, Eip160, Ecip1010];
const ATLANTIS: &[Rule] = &[
    Eip161, Eip170, Eip100, Eip140, Eip196, Eip197, Eip198, Eip211, Eip214, Eip658,
];
const AGHARTA: &[Rule] = &[Eip145, Eip1014, Eip1052];
const PHOENIX: &[Rule] = &[Eip152, Eip1108, Eip1344, Eip1884, Eip2028, Eip2200];
const MAGNETO: &[Rule] = &[Eip2565, Eip2718, Eip2929, Eip2930];
const MYSTIQUE: &[Rule] = &[Eip3529, Eip3541];
const SPIRAL: &[Rule] = &[Eip3651, Eip3855, Eip3860];

impl ChainSpec {
    /// Ethereum Classic, network 1, chain 61, without the accounts of block 0.
    pub fn classic() -> Self {
        Self {
            name: "classic".to_owned(),
            chain_id: 61,
            network_id: 1,
            rules: RuleTable::default()
                .with(1_150_000, HOMESTEAD)
                .with(2_500_000, GAS_REPRICE)
                .with(3_000_000, DIE_HARD)
                .with(5_000_000, &[Ecip1017])
                .with(5_900_000, &[Ecip1041])
                .with(8_772_000, ATLANTIS)
                .with(9_573_000, AGHARTA)
                .with(10_500_839, PHOENIX)
                .with(13_189_133, MAGNETO)
                .with(14_525_000, MYSTIQUE)
                .with(19_250_000, SPIRAL),
            bomb_pause_blocks: 2_000_000,
            era_blocks: 5_000_000,
            schedule: Schedule::Etchash {
                fork_block: 11_700_000,
            },
            required_hashes: BTreeMap::from([
                (
                    1_920_000,
                    b256!("94365e3a8c0b35089c1d1195081fe7489b528a84b22199c916180db8b28ade7f"),
                ),
                (
                    2_500_000,
                    b256!("ca12c63534f565899681965528d536c52cb05b7c48e269c2a6cb77ad864d878a"),
                ),
            ]),
            genesis_hash: Some(b256!(
                "d4e56740f876aef8c010b86a40d5f56745a118d0906a34e69aec8c0db1cb8fa3"
            )),
            genesis: Genesis {
                difficulty: U256::from(17_179_869_184u64),
                gas_limit: 5000,
                pow_nonce: 0x42,
                extra_data: hex!("11bbe8db4e347b4e8c937c1c8370e4b5ed33adb3db69cbdb7a38e1e50b1b82fa").into(),
                state_root: Some(b256!(
                    "d7f8974fb5ac78d9ac099b9ad5018bedc2ce0a72dad1827a1709da30580f0544"
                )),
                ..Default::default()
            },
            ..etchash()
        }
    }

    /// The test network Mordor, network 7, chain 63. Its block 0 has no accounts.
    pub fn mordor() -> Self {
        Self {
            name: "mordor".to_owned(),
            chain_id: 63,
            network_id: 7,
            rules: RuleTable::default()
                .with(0, HOMESTEAD)
                .with(0, GAS_REPRICE)
                .with(0, &[Eip155, Eip160, Ecip1041, Ecip1017])
                .with(0, ATLANTIS)
                .with(301_243, AGHARTA)
                .with(999_983, PHOENIX)
                .with(3_985_893, MAGNETO)
                .with(5_520_000, MYSTIQUE)
                .with(9_957_000, SPIRAL),
            era_blocks: 2_000_000,
            schedule: Schedule::Etchash {
                fork_block: 2_520_000,
            },
            required_hashes: BTreeMap::from([(
                840_013,
                b256!("2ceada2b191879b71a5bcf2241dd9bc50d6d953f1640e62f9c2cee941dc61c9d"),
            )]),
            genesis_hash: Some(b256!(
                "a68ebde7932eccb177d38d55dcc6461a019dd795a681e59b5a3e4f3a7259a3f1"
            )),
            genesis: Genesis {
                difficulty: U256::from(131_072u64),
                gas_limit: 0x2f_efd8,
                timestamp: 0x5d9_676db,
                extra_data: b"phoenix chicken absurd banana".into(),
                ..Default::default()
            },
            ..etchash()
        }
    }
}

/// The values that both networks have in common.
fn etchash() -> ChainSpec {
    ChainSpec {
        name: String::new(),
        chain_id: 0,
        chain_id_changes: Vec::new(),
        network_id: 0,
        family: ChainFamily::Ethereum,
        rules: RuleTable::default(),
        dao: None,
        unsupported: None,
        bomb_pause_blocks: 0,
        era_blocks: 0,
        required_hashes: BTreeMap::<u64, B256>::new(),
        difficulty: DifficultyRule::Ethereum,
        failed_calls_refund_gas: false,
        system_contract: false,
        notify_scs_always_exists: false,
        developer: false,
        notice_list: None,
        application: None,
        schedule: Schedule::Ethash,
        gas_target_min: CLASSIC_GAS_TARGET.max(GAS_LIMIT_MIN),
        gas_price_min: U256::from(CLASSIC_GAS_PRICE_MIN),
        genesis: Genesis::default(),
        genesis_hash: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::genesis::genesis_header;

    #[test]
    fn block_0_has_the_known_hash() {
        for spec in [ChainSpec::classic(), ChainSpec::mordor()] {
            assert_eq!(
                Some(genesis_header(&spec).hash()),
                spec.genesis_hash,
                "{}",
                spec.name
            );
        }
    }

    #[test]
    fn rules_begin_together_as_the_evm_needs_them() {
        for spec in [ChainSpec::classic(), ChainSpec::mordor()] {
            assert_eq!(spec.rules.check_bundles(), Ok(()), "{}", spec.name);
        }
    }

    #[test]
    fn what_the_forks_took_and_what_they_left_out() {
        let spec = ChainSpec::classic();
        let at = |number| spec.rules_at(number);
        assert!(at(3_000_000).has(Eip160) && !at(3_000_000).has(Eip161));
        assert!(at(8_772_000).has(Eip161) && !at(8_772_000).has(Eip649));
        assert!(at(10_500_839).has(Eip2200) && !at(10_500_838).has(Eip2200));
        let last = at(u64::MAX);
        for rule in [Eip1559, Eip3198, Eip4399, Eip649, Eip1234, Eip2384, Eip1283] {
            assert!(!last.has(rule), "{rule:?}");
        }
        for rule in [Eip3529, Eip3541, Eip3651, Eip3855, Eip3860, Eip2930] {
            assert!(last.has(rule), "{rule:?}");
        }
    }
}
