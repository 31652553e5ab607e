//! Header rules: gas limit, time, extra data, rewards. Difficulty is in [`crate::rules::difficulty`].
//!
//! Source: facts of the public network; Ethereum's Byzantium difficulty (EIP-100). Knows
//! headers and the spec; knows neither state nor seals.

pub mod body;
pub mod difficulty;

use primitives::{Bytes, Header, U256};

use crate::rules::difficulty::next_difficulty;
use crate::spec::{ChainFamily, ChainSpec, EthereumFork, GAS_LIMIT_MIN};

/// Most bytes of extra data.
pub const EXTRA_DATA_BYTES_MAX: usize = 32;
/// Most uncles of a block.
pub const UNCLES_MAX: usize = 2;
/// How many generations above a block its uncles' parents may lie.
pub const UNCLE_GENERATIONS: u64 = 7;
/// Gas limits may change by less than this part of the parent's.
const GAS_LIMIT_DIVISOR: u64 = 1024;
/// One native token in sha.
pub const COIN: u64 = 1_000_000_000_000_000_000;
/// The extra data of the DAO fork's first blocks, `dao-hard-fork`.
const DAO_EXTRA: &[u8] = b"dao-hard-fork";
/// How many blocks carry it.
const DAO_EXTRA_BLOCKS: u64 = 10;
/// Blocks of one reward era.
const ERA_BLOCKS: u64 = 12_500_000;

/// Why a header is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(
    missing_docs,
    reason = "fields are the value got and the value expected, as the texts say"
)]
pub enum HeaderError {
    /// Not the parent's number plus one.
    #[error("number {got}, want {expected}")]
    Number { got: u64, expected: u64 },
    /// Not after the parent.
    #[error("timestamp {got} is not after the parent's {parent}")]
    Timestamp { got: u64, parent: u64 },
    /// Ahead of the clock.
    #[error("timestamp {got} is ahead of the clock ({now})")]
    Future { got: u64, now: u64 },
    /// Another difficulty than the rules give.
    #[error("difficulty {got}, want {expected}")]
    Difficulty { got: U256, expected: U256 },
    /// Too far from the parent's gas limit, or under the floor.
    #[error("gas limit {got}, want {low} to {high}")]
    GasLimit { got: u64, low: u64, high: u64 },
    /// More gas used than allowed.
    #[error("gas used {got} is over the limit {limit}")]
    GasUsed { got: u64, limit: u64 },
    /// Too much extra data.
    #[error("extra data of {got} bytes, at most {max} are allowed")]
    ExtraData { got: usize, max: usize },
    /// The DAO fork's mark where it must not be, or missing where it must.
    #[error("extra data {got} in a block of the DAO fork, which this chain {}", if *supported { "makes" } else { "does not make" })]
    DaoExtra { got: Bytes, supported: bool },
}

/// Gas limits a child of a block with limit `parent` may have, inclusive.
pub fn gas_limit_bounds(spec: &ChainSpec, parent: u64) -> (u64, u64) {
    let step = (parent / GAS_LIMIT_DIVISOR).saturating_sub(1);
    let floor = GAS_LIMIT_MIN.max(spec.gas_limit_min);
    (
        parent.saturating_sub(step).max(floor),
        parent.saturating_add(step).min(i64::MAX as u64),
    )
}

/// The gas limit a miner gives a child, steering to `target`.
pub fn next_gas_limit(spec: &ChainSpec, parent: u64, target: u64) -> u64 {
    let (low, high) = gas_limit_bounds(spec, parent);
    // Not `clamp`, which panics where a genesis under the floor leaves no room between the two.
    target.max(low).min(high)
}

/// Checks what a header says against its parent. `now` is the clock in unix seconds;
/// `None` leaves the clock out.
///
/// # Errors
/// The first rule that is broken.
pub fn check_header(
    spec: &ChainSpec,
    header: &Header,
    parent: &Header,
    now: Option<u64>,
) -> Result<(), HeaderError> {
    let expected = parent.number + 1;
    if header.number != expected {
        return Err(HeaderError::Number {
            got: header.number,
            expected,
        });
    }
    if header.timestamp <= parent.timestamp {
        return Err(HeaderError::Timestamp {
            got: header.timestamp,
            parent: parent.timestamp,
        });
    }
    if let Some(now) = now.filter(|now| header.timestamp > *now) {
        return Err(HeaderError::Future {
            got: header.timestamp,
            now,
        });
    }
    if header.extra_data.len() > EXTRA_DATA_BYTES_MAX {
        return Err(HeaderError::ExtraData {
            got: header.extra_data.len(),
            max: EXTRA_DATA_BYTES_MAX,
        });
    }
    check_dao_extra(spec, header)?;
    let (low, high) = gas_limit_bounds(spec, parent.gas_limit);
    if !(low..=high).contains(&header.gas_limit) {
        return Err(HeaderError::GasLimit {
            got: header.gas_limit,
            low,
            high,
        });
    }
    if header.gas_used > header.gas_limit {
        return Err(HeaderError::GasUsed {
            got: header.gas_used,
            limit: header.gas_limit,
        });
    }
    let expected = next_difficulty(spec, parent, header.timestamp);
    if header.difficulty != expected {
        return Err(HeaderError::Difficulty {
            got: header.difficulty,
            expected,
        });
    }
    Ok(())
}

/// The extra data that block `number` must have: the DAO fork's mark in its first ten blocks.
pub(crate) fn dao_extra(spec: &ChainSpec, number: u64) -> Option<Bytes> {
    dao_mark(spec, number)?.then(|| Bytes::from_static(DAO_EXTRA))
}

/// Within the DAO fork's ten blocks: whether they carry its mark on this chain, or must not.
fn dao_mark(spec: &ChainSpec, number: u64) -> Option<bool> {
    let ChainFamily::Ethereum(forks) = &spec.family else {
        return None;
    };
    let first = forks.dao?;
    (first..first.saturating_add(DAO_EXTRA_BLOCKS))
        .contains(&number)
        .then_some(forks.dao_support)
}

fn check_dao_extra(spec: &ChainSpec, header: &Header) -> Result<(), HeaderError> {
    match dao_mark(spec, header.number) {
        Some(supported) if (*header.extra_data == *DAO_EXTRA) != supported => Err(HeaderError::DaoExtra {
            got: header.extra_data.clone(),
            supported,
        }),
        _ => Ok(()),
    }
}

/// What the miner of block `number` gets for the block itself, in sha.
pub fn block_reward(spec: &ChainSpec, number: u64) -> U256 {
    let coin = U256::from(COIN);
    match &spec.family {
        ChainFamily::Moac(_) => match number.saturating_sub(1) / ERA_BLOCKS {
            era @ 0..=4 => (coin * U256::from(2)) >> era,
            _ => coin / U256::from(10),
        },
        ChainFamily::Ethereum(forks) => match forks.at(number) {
            fork if fork < EthereumFork::Byzantium => coin * U256::from(5),
            EthereumFork::Byzantium => coin * U256::from(3),
            _ => coin * U256::from(2),
        },
    }
}

/// What an uncle's miner and the including miner get: ((8 − distance) / 8, 1/32) of the reward.
pub fn uncle_rewards(reward: U256, number: u64, uncle_number: u64) -> (U256, U256) {
    let eighths = 8u64.saturating_sub(number.saturating_sub(uncle_number));
    (
        reward * U256::from(eighths) / U256::from(8),
        reward / U256::from(32),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> ChainSpec {
        ChainSpec {
            difficulty: crate::spec::DifficultyRule::Moac,
            ..ChainSpec::dev()
        }
    }

    fn parent() -> Header {
        Header {
            number: 10,
            timestamp: 1000,
            gas_limit: 9_500_000,
            difficulty: U256::from(1_000_000),
            uncles_hash: primitives::EMPTY_UNCLES_HASH,
            ..Default::default()
        }
    }

    fn child() -> Header {
        let parent = parent();
        Header {
            number: 11,
            timestamp: 1005,
            difficulty: next_difficulty(&spec(), &parent, 1005),
            parent_hash: parent.hash(),
            ..parent
        }
    }

    #[test]
    fn rewards_by_era() {
        let halves = [
            (0, 20),
            (1, 20),
            (12_500_000, 20),
            (12_500_001, 10),
            (25_000_000, 10),
            (25_000_001, 5),
            (37_500_000, 5),
        ];
        for (number, tenths) in halves {
            assert_eq!(
                block_reward(&spec(), number),
                U256::from(COIN) * U256::from(tenths) / U256::from(10),
                "{number}"
            );
        }
        for network in [ChainSpec::main(), ChainSpec::test()] {
            assert_eq!(block_reward(&network, 12_500_000), U256::from(2 * COIN));
            assert_eq!(block_reward(&network, 12_500_001), U256::from(COIN));
        }
        assert_eq!(block_reward(&spec(), 37_500_001), U256::from(COIN / 4));
        assert_eq!(block_reward(&spec(), 50_000_000), U256::from(COIN / 4));
        assert_eq!(block_reward(&spec(), 50_000_001), U256::from(COIN / 8));
        assert_eq!(block_reward(&spec(), 62_500_000), U256::from(COIN / 8));
        assert_eq!(block_reward(&spec(), 62_500_001), U256::from(COIN / 10));
        assert_eq!(
            uncle_rewards(U256::from(3200), 10, 9),
            (U256::from(2800), U256::from(100))
        );
        assert_eq!(
            uncle_rewards(U256::from(3200), 10, 3),
            (U256::from(400), U256::from(100))
        );
    }

    #[test]
    fn each_broken_rule_is_named() {
        let check = |change: &dyn Fn(&mut Header)| {
            let mut header = child();
            change(&mut header);
            check_header(&spec(), &header, &parent(), Some(2000))
        };
        assert_eq!(check(&|_| ()), Ok(()));
        assert!(matches!(
            check(&|h| h.number = 12),
            Err(HeaderError::Number { .. })
        ));
        assert!(matches!(
            check(&|h| h.timestamp = 1000),
            Err(HeaderError::Timestamp { .. })
        ));
        assert!(matches!(
            check(&|h| h.timestamp = 2001),
            Err(HeaderError::Future { .. })
        ));
        assert!(matches!(
            check(&|h| h.difficulty += U256::from(1)),
            Err(HeaderError::Difficulty { .. })
        ));
        assert!(matches!(
            check(&|h| h.gas_limit += 9_500_000 / 1024),
            Err(HeaderError::GasLimit { .. })
        ));
        assert!(matches!(
            check(&|h| h.gas_used = h.gas_limit + 1),
            Err(HeaderError::GasUsed { .. })
        ));
        assert!(matches!(
            check(&|h| h.extra_data = vec![0; 33].into()),
            Err(HeaderError::ExtraData { .. })
        ));
    }

    #[test]
    fn built_in_networks_have_a_floor_of_gas() {
        for spec in [ChainSpec::main(), ChainSpec::test(), ChainSpec::dev()] {
            assert_eq!(gas_limit_bounds(&spec, 9_000_000), (9_000_000, 9_008_788));
            assert_eq!(gas_limit_bounds(&spec, 9_000_001).0, 9_000_000);
            assert_eq!(gas_limit_bounds(&spec, 9_010_000).0, 9_001_203);
            assert_eq!(next_gas_limit(&spec, 9_000_500, 5000), 9_000_000);
        }
        let other = ChainSpec {
            gas_limit_min: GAS_LIMIT_MIN,
            ..ChainSpec::main()
        };
        assert_eq!(gas_limit_bounds(&other, 9_000_000).0, 8_991_212);
        assert_eq!(gas_limit_bounds(&other, 5001), (5000, 5004));
        assert_eq!(gas_limit_bounds(&other, u64::MAX / 2).1, i64::MAX as u64);
    }

    #[test]
    fn the_gas_limit_steers_to_the_target() {
        let spec = ChainSpec::dev();
        assert_eq!(
            next_gas_limit(&spec, 9_000_000, 18_000_000),
            9_000_000 + 9_000_000 / 1024 - 1
        );
        assert_eq!(next_gas_limit(&spec, 9_000_000, 1), 9_000_000);
        assert_eq!(next_gas_limit(&spec, 18_000_000, 18_000_000), 18_000_000);
        // Far under the floor no limit is allowed; choosing one is no panic all the same.
        assert_eq!(next_gas_limit(&spec, 5000, 18_000_000), 5003);
    }
}
