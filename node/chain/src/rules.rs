//! Header rules: difficulty, gas limit, time, rewards, uncles' places.
//!
//! Source: facts of the public network; Ethereum's Byzantium difficulty (EIP-100). Knows
//! headers and the spec; knows neither state nor seals.

use crate::spec::{ChainSpec, DifficultyRule, reached};
use primitives::{Header, U256};

/// Most bytes of extra data.
pub const EXTRA_DATA_BYTES_MAX: usize = 32;
/// Most uncles of a block.
pub const UNCLES_MAX: usize = 2;
/// How many generations above a block its uncles' parents may lie.
pub const UNCLE_GENERATIONS: u64 = 7;
/// Gas limits may change by less than this part of the parent's.
const GAS_LIMIT_DIVISOR: u64 = 1024;
/// No block under this gas limit, whatever the network.
const GAS_LIMIT_MIN: u64 = 5000;
/// Smallest difficulty of networks with a moving one.
const DIFFICULTY_MIN: u64 = 131_072;
/// First parent number at which the public network's bomb ticks.
const BOMB_FIRST_PARENT: u64 = 2_999_999;
/// One native token in sha.
pub const COIN: u64 = 1_000_000_000_000_000_000;
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

/// The difficulty of a child of `parent` with this timestamp.
pub fn next_difficulty(spec: &ChainSpec, parent: &Header, timestamp: u64) -> U256 {
    match spec.difficulty {
        DifficultyRule::Constant(difficulty) => U256::from(difficulty),
        DifficultyRule::Moac => {
            let has_uncles = parent.uncles_hash != primitives::EMPTY_UNCLES_HASH;
            let next = byzantium(
                parent.difficulty,
                has_uncles,
                timestamp.saturating_sub(parent.timestamp),
            );
            let ticking =
                parent.number >= BOMB_FIRST_PARENT && !reached(spec.forks.bomb_defused, parent.number);
            let period = parent.number.saturating_sub(BOMB_FIRST_PARENT) / 100_000;
            if ticking && period > 1 {
                next.saturating_add(U256::from(1) << (period - 2))
            } else {
                next
            }
        }
    }
}

/// Byzantium's formula without a bomb.
fn byzantium(parent: U256, has_uncles: bool, seconds: u64) -> U256 {
    let unit = parent / U256::from(2048);
    let raise = if has_uncles { 2 } else { 1 };
    let steps = (raise - i64::try_from(seconds / 9).unwrap_or(i64::MAX)).max(-99);
    let change = unit.saturating_mul(U256::from(steps.unsigned_abs()));
    let next = if steps < 0 {
        parent.saturating_sub(change)
    } else {
        parent.saturating_add(change)
    };
    next.max(U256::from(DIFFICULTY_MIN))
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

/// What the miner of block `number` gets for the block itself, in sha.
pub fn block_reward(number: u64) -> U256 {
    let coin = U256::from(COIN);
    match number.saturating_sub(1) / ERA_BLOCKS {
        era @ 0..=4 => (coin * U256::from(2)) >> era,
        _ => coin / U256::from(10),
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
            difficulty: DifficultyRule::Moac,
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
            (25_000_001, 5),
        ];
        for (number, tenths) in halves {
            assert_eq!(
                block_reward(number),
                U256::from(COIN) * U256::from(tenths) / U256::from(10),
                "{number}"
            );
        }
        assert_eq!(block_reward(62_500_000), U256::from(COIN / 8));
        assert_eq!(block_reward(62_500_001), U256::from(COIN / 10));
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
    fn difficulty_follows_byzantium_and_the_bomb() {
        let at = |seconds, uncles| byzantium(U256::from(2_048_000), uncles, seconds);
        assert_eq!(at(8, false), U256::from(2_049_000));
        assert_eq!(at(8, true), U256::from(2_050_000));
        assert_eq!(at(9, false), U256::from(2_048_000));
        assert_eq!(at(27, false), U256::from(2_046_000));
        assert_eq!(at(1_000_000, false), U256::from(2_048_000 - 99_000));
        assert_eq!(byzantium(U256::from(131_072), false, 10_000), U256::from(131_072));
        let old = Header {
            number: BOMB_FIRST_PARENT + 200_000,
            ..parent()
        };
        let without = next_difficulty(
            &ChainSpec {
                forks: ChainSpec::dev().forks,
                ..spec()
            },
            &old,
            1005,
        );
        let spec = ChainSpec {
            forks: Default::default(),
            ..spec()
        };
        assert_eq!(next_difficulty(&spec, &old, 1005), without + U256::from(1));
        let older = Header {
            number: BOMB_FIRST_PARENT + 199_999,
            ..parent()
        };
        assert_eq!(next_difficulty(&spec, &older, 1005), without);
        // Off from the parent on that has the fork's number, one block after the fork.
        let defused_at = |number| ChainSpec {
            forks: crate::spec::MoacForks {
                bomb_defused: Some(number),
                ..spec.forks
            },
            ..spec.clone()
        };
        assert_eq!(next_difficulty(&defused_at(old.number), &old, 1005), without);
        let last = defused_at(old.number + 1);
        assert_eq!(next_difficulty(&last, &old, 1005), without + U256::from(1));
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
