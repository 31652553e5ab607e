//! Header rules: number, timestamp, gas limit, extra data; and the block rewards.
//!
//! Difficulty is in [`difficulty`], bodies are in [`body`], the order of execution in [`order`],
//! what a whole block pays in [`payment`], seals in [`seal`]. Source: docs/base-chain.md, 3. This
//! module knows headers and the spec, but no state.

pub mod body;
pub mod difficulty;
pub mod order;
pub mod payment;
pub mod seal;

use primitives::{B256, Bytes, Header, U256};

use crate::application::{BLOCK_GAS_LIMIT, EXTRA_BYTES_MAX};
use crate::developer::{self, DeveloperChange};
use crate::rules::difficulty::next_difficulty;
use crate::spec::{ChainFamily, ChainSpec, GAS_LIMIT_MIN, Rule};

/// The most extra data of a header, in bytes.
pub const EXTRA_DATA_BYTES_MAX: usize = 32;
/// The most uncles of a block.
pub const UNCLES_MAX: usize = 2;
/// An uncle's parent is at most this many generations before the block that includes the uncle.
pub const UNCLE_GENERATIONS: u64 = 7;
/// A gas limit differs from the parent's by less than the parent's divided by this.
const GAS_LIMIT_DIVISOR: u64 = 1024;
/// One native token in sha.
pub const COIN: u64 = 1_000_000_000_000_000_000;
/// The extra data of the DAO fork's first blocks.
const DAO_EXTRA: &[u8] = b"dao-hard-fork";
/// The number of blocks of the DAO fork that have its extra data.
const DAO_EXTRA_BLOCKS: u64 = 10;
/// Number of blocks of one reward era.
const ERA_BLOCKS: u64 = 12_500_000;

/// The reason why a header is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(
    missing_docs,
    reason = "the fields are the got and expected values that the error texts name"
)]
pub enum HeaderError {
    /// The number is not the parent's number plus one.
    #[error("block number: got {got}, expected {expected}")]
    Number { got: u64, expected: u64 },
    /// The extra data begins like a change of an account and is none.
    #[error("extra data: {0}")]
    Change(primitives::DecodeError),
    /// The timestamp is not greater than the parent's.
    #[error("timestamp: got {got}, expected more than the parent's {parent}")]
    Timestamp { got: u64, parent: u64 },
    /// The timestamp is ahead of the clock.
    #[error("timestamp: got {got}, expected at most {latest}, by the clock")]
    Future { got: u64, latest: u64 },
    /// The difficulty is not the one that the rules give.
    #[error("difficulty: got {got}, expected {expected}")]
    Difficulty { got: U256, expected: U256 },
    /// The gas limit is too far from the parent's, or below the minimum.
    #[error("gas limit: got {got}, expected {low} to {high}")]
    GasLimit { got: u64, low: u64, high: u64 },
    /// More gas is used than the limit allows.
    #[error("gas used: got {got}, expected at most the gas limit {limit}")]
    GasUsed { got: u64, limit: u64 },
    /// The extra data is too long.
    #[error("extra data: got {got} bytes, expected at most {max}")]
    ExtraData { got: usize, max: usize },
    /// The network's block of this number is another one.
    #[error("hash of block {number}: got {got}, expected {expected}, the network's own")]
    RequiredHash { number: u64, got: B256, expected: B256 },
    /// A block of the DAO fork has the wrong extra data.
    #[error(
        "extra data of a block of the DAO fork: got {got}, expected {}dao-hard-fork",
        if *supported { "" } else { "anything but " }
    )]
    DaoExtra { got: Bytes, supported: bool },
}

/// The smallest and the largest gas limit of a child of a block with gas limit `parent`.
pub(crate) fn gas_limit_bounds(parent: u64) -> (u64, u64) {
    let step = (parent / GAS_LIMIT_DIVISOR).saturating_sub(1);
    (
        parent.saturating_sub(step).max(GAS_LIMIT_MIN),
        parent.saturating_add(step).min(i64::MAX as u64),
    )
}

/// The gas limit that a miner sets in a child: the allowed value that is nearest to `target`, or to
/// the spec's lowest target if that is higher.
pub(crate) fn next_gas_limit(spec: &ChainSpec, parent: u64, target: u64) -> u64 {
    steered_gas_limit(parent, target.max(spec.gas_target_min))
}

/// The allowed gas limit of a child that is nearest to `target`.
pub(crate) fn steered_gas_limit(parent: u64, target: u64) -> u64 {
    let (low, high) = gas_limit_bounds(parent);
    // `clamp` would panic if `low > high`, which is so if block 0 has a gas limit far below the
    // minimum.
    target.max(low).min(high)
}

/// Checks the header of a block against its parent. `latest` is the latest allowed timestamp, in
/// unix seconds; with `None` the timestamp is not compared with the clock.
///
/// # Errors
/// [`HeaderError`] for the first broken rule.
pub fn check_header(
    spec: &ChainSpec,
    header: &Header,
    parent: &Header,
    latest: Option<u64>,
) -> Result<(), HeaderError> {
    check_uncle_header(spec, header, parent, latest)?;
    match spec.required_hashes.get(&header.number) {
        Some(expected) if header.hash() != *expected => Err(HeaderError::RequiredHash {
            number: header.number,
            got: header.hash(),
            expected: *expected,
        }),
        _ => Ok(()),
    }
}

/// Checks what headers and uncles have in common, which is all but the hashes that the network
/// demands at some numbers. An uncle beside such a block has another hash and is valid.
///
/// # Errors
/// [`HeaderError`] for the first broken rule.
pub(crate) fn check_uncle_header(
    spec: &ChainSpec,
    header: &Header,
    parent: &Header,
    latest: Option<u64>,
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
    if let Some(latest) = latest {
        check_clock(header, latest)?;
    }
    let max = extra_data_bytes_max(spec, &header.extra_data);
    if header.extra_data.len() > max {
        return Err(HeaderError::ExtraData {
            got: header.extra_data.len(),
            max,
        });
    }
    if spec.developer {
        DeveloperChange::decode(&header.extra_data).map_err(HeaderError::Change)?;
    }
    check_dao_extra(spec, header)?;
    let (low, high) = match spec.application {
        None if spec.developer && *header.extra_data == *developer::GAS_LIMIT_MARK => {
            (GAS_LIMIT_MIN, i64::MAX as u64)
        }
        None => gas_limit_bounds(parent.gas_limit),
        Some(_) => (BLOCK_GAS_LIMIT, BLOCK_GAS_LIMIT),
    };
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

/// Checks that a header is not ahead of the clock: `latest` is the latest allowed timestamp, in
/// unix seconds.
pub(crate) const fn check_clock(header: &Header, latest: u64) -> Result<(), HeaderError> {
    if header.timestamp > latest {
        return Err(HeaderError::Future {
            got: header.timestamp,
            latest,
        });
    }
    Ok(())
}

/// The most extra data of a header of this chain, in bytes. Where developers change accounts, a
/// change may be longer than other extra data.
fn extra_data_bytes_max(spec: &ChainSpec, extra_data: &[u8]) -> usize {
    match spec.application {
        None if spec.developer && developer::is_change(extra_data) => developer::EXTRA_BYTES_MAX,
        None => EXTRA_DATA_BYTES_MAX,
        Some(_) => EXTRA_BYTES_MAX,
    }
}

/// The extra data that block `number` must have. `None` if it is free.
pub(crate) fn dao_extra(spec: &ChainSpec, number: u64) -> Option<Bytes> {
    dao_extra_required(spec, number)?.then(|| Bytes::from_static(DAO_EXTRA))
}

/// For the first ten blocks of the DAO fork: whether they must have its extra data, or must not
/// have it. `None` for all other blocks.
fn dao_extra_required(spec: &ChainSpec, number: u64) -> Option<bool> {
    let dao = spec.dao?;
    (dao.block..dao.block.saturating_add(DAO_EXTRA_BLOCKS))
        .contains(&number)
        .then_some(dao.support)
}

fn check_dao_extra(spec: &ChainSpec, header: &Header) -> Result<(), HeaderError> {
    match dao_extra_required(spec, header.number) {
        Some(supported) if (*header.extra_data == *DAO_EXTRA) != supported => Err(HeaderError::DaoExtra {
            got: header.extra_data.clone(),
            supported,
        }),
        _ => Ok(()),
    }
}

/// The reward of block `number` without uncles, in sha.
pub fn block_reward(spec: &ChainSpec, number: u64) -> U256 {
    if spec.application.is_some() {
        return U256::ZERO;
    }
    let coin = U256::from(COIN);
    let rules = spec.rules_at(number);
    match spec.family {
        ChainFamily::Moac => match number.saturating_sub(1) / ERA_BLOCKS {
            era @ 0..=4 => (coin * U256::from(2)) >> era,
            _ => coin / U256::from(10),
        },
        ChainFamily::Ethereum if rules.has(Rule::Ecip1017) => {
            // 4^100 fits in 256 bits beside the coins. The reward is 0 long before that era.
            let era = U256::from(classic_era(spec, number).min(80));
            coin * U256::from(5) * U256::from(4).pow(era) / U256::from(5).pow(era)
        }
        ChainFamily::Ethereum if rules.has(Rule::Eip1234) => coin * U256::from(2),
        ChainFamily::Ethereum if rules.has(Rule::Eip649) => coin * U256::from(3),
        ChainFamily::Ethereum => coin * U256::from(5),
    }
}

/// The era of block `number` by ECIP-1017, counted from 0.
const fn classic_era(spec: &ChainSpec, number: u64) -> u64 {
    match number.saturating_sub(1).checked_div(spec.era_blocks) {
        Some(era) => era,
        None => 0,
    }
}

/// The rewards for an uncle: of its miner, and of the miner of block `number`, which includes the
/// uncle. They are (8 − distance) / 8 and 1/32 of the block's reward; from the second era of
/// ECIP-1017 on, both are 1/32.
pub fn uncle_rewards(spec: &ChainSpec, number: u64, uncle_number: u64) -> (U256, U256) {
    let reward = block_reward(spec, number);
    if spec.rules_at(number).has(Rule::Ecip1017) && classic_era(spec, number) > 0 {
        return (reward / U256::from(32), reward / U256::from(32));
    }
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
        let coins = |eighths: u64, parts| U256::from(2 * COIN) * U256::from(eighths) / U256::from(parts);
        assert_eq!(uncle_rewards(&spec(), 10, 9), (coins(7, 8), coins(1, 32)));
        assert_eq!(uncle_rewards(&spec(), 10, 3), (coins(1, 8), coins(1, 32)));
    }

    /// Source: ECIP-1017.
    #[test]
    fn rewards_of_ethereum_classic_by_era() {
        let spec = ChainSpec::classic();
        let milli = |thousandths: u64| U256::from(COIN / 1000) * U256::from(thousandths);
        for (number, thousandths) in [
            (1, 5000),
            (5_000_000, 5000),
            (5_000_001, 4000),
            (10_000_000, 4000),
            (10_000_001, 3200),
            (15_000_000, 3200),
            (15_000_001, 2560),
            (20_000_001, 2048),
        ] {
            assert_eq!(block_reward(&spec, number), milli(thousandths), "{number}");
            let part = milli(thousandths) / U256::from(32);
            let first_era = number <= 5_000_000;
            let uncle = if first_era {
                milli(thousandths) * U256::from(6) / U256::from(8)
            } else {
                part
            };
            assert_eq!(
                uncle_rewards(&spec, number, number.saturating_sub(2)).1,
                part,
                "{number}"
            );
            if number > 2 {
                assert_eq!(uncle_rewards(&spec, number, number - 2).0, uncle, "{number}");
            }
        }
        // The reward since block 25,000,001.
        let expected = U256::from(1_638_400_000_000_000_000u64);
        assert_eq!(block_reward(&spec, 25_000_001), expected);
        assert_eq!(block_reward(&ChainSpec::mordor(), 2_000_001), milli(4000));
    }

    #[test]
    fn each_broken_rule_has_its_error() {
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
    fn a_gas_limit_moves_in_small_steps_and_is_at_least_5000() {
        assert_eq!(gas_limit_bounds(9_000_000), (8_991_212, 9_008_788));
        assert_eq!(gas_limit_bounds(5001), (5000, 5004));
        assert_eq!(gas_limit_bounds(u64::MAX / 2).1, i64::MAX as u64);
    }

    #[test]
    fn blocks_made_for_built_in_networks_steer_to_no_limit_below_the_floor() {
        for spec in [ChainSpec::main(), ChainSpec::test(), ChainSpec::dev()] {
            assert_eq!(next_gas_limit(&spec, 9_000_500, 5000), 9_000_000);
            assert_eq!(next_gas_limit(&spec, 8_000_000, 5000), 8_007_811);
        }
        let other = ChainSpec {
            gas_target_min: GAS_LIMIT_MIN,
            ..ChainSpec::main()
        };
        assert_eq!(next_gas_limit(&other, 9_000_500, 5000), 8_991_712);
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
        // With a parent far below the minimum no limit is allowed. The function still returns one.
        assert_eq!(next_gas_limit(&spec, 4000, 18_000_000), 4002);
    }
}
