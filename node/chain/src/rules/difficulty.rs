//! The difficulty of the next block, by network and fork.
//!
//! Sources: docs/base-chain.md, 3; Ethereum Yellow Paper; EIP-2, EIP-100, EIP-649, EIP-1234,
//! EIP-2384, ECIP-1010, ECIP-1041.

use primitives::{Header, U256};

use crate::spec::{BlockRules, ChainSpec, DifficultyRule, Rule};

/// The smallest difficulty where it is adjusted from block to block.
const DIFFICULTY_MIN: u64 = 131_072;
/// The public network's difficulty bomb counts blocks from this parent number on.
const BOMB_FIRST_PARENT: u64 = 2_999_999;
/// A difficulty bomb doubles after this many blocks.
const BOMB_PERIOD: u64 = 100_000;

/// The values that a block's difficulty is computed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DifficultyInput {
    /// The block's number.
    pub number: u64,
    /// The block's timestamp.
    pub timestamp: u64,
    /// The parent's timestamp.
    pub parent_timestamp: u64,
    /// The parent's difficulty.
    pub parent_difficulty: U256,
    /// Whether the parent has uncles.
    pub parent_uncles: bool,
}

/// The difficulty of a child of `parent` with this timestamp.
pub fn next_difficulty(spec: &ChainSpec, parent: &Header, timestamp: u64) -> U256 {
    difficulty(
        spec,
        &DifficultyInput {
            number: parent.number + 1,
            timestamp,
            parent_timestamp: parent.timestamp,
            parent_difficulty: parent.difficulty,
            parent_uncles: parent.uncles_hash != primitives::EMPTY_UNCLES_HASH,
        },
    )
}

/// The difficulty that the rules of `spec` give a block.
pub fn difficulty(spec: &ChainSpec, input: &DifficultyInput) -> U256 {
    match spec.difficulty {
        DifficultyRule::Constant(difficulty) => U256::from(difficulty),
        DifficultyRule::Moac => {
            let parent_number = input.number.saturating_sub(1);
            let ticks = if spec.rules_at(parent_number).has(Rule::BombDefused) {
                0
            } else {
                parent_number.saturating_sub(BOMB_FIRST_PARENT)
            };
            with_bomb(byzantium(input), ticks)
        }
        DifficultyRule::Ethereum => {
            let rules = spec.rules_at(input.number);
            let plain = if rules.has(Rule::Eip100) {
                byzantium(input)
            } else if rules.has(Rule::Eip2) {
                steps(input, 1, 10)
            } else {
                frontier(input)
            };
            with_bomb(plain, bomb_ticks(spec, rules, input.number))
        }
    }
}

/// The number of blocks that the difficulty bomb of Ethereum's family has counted at block
/// `number`.
fn bomb_ticks(spec: &ChainSpec, rules: BlockRules, number: u64) -> u64 {
    if rules.has(Rule::Ecip1041) {
        return 0;
    }
    if let Some(pause) = spec
        .rules
        .first(Rule::Ecip1010)
        .filter(|_| rules.has(Rule::Ecip1010))
    {
        return number.saturating_sub(spec.bomb_pause_blocks).max(pause);
    }
    let delays = [
        (Rule::Eip2384, 9_000_000),
        (Rule::Eip1234, 5_000_000),
        (Rule::Eip649, 3_000_000),
    ];
    let delay = delays.into_iter().find(|(rule, _)| rules.has(*rule));
    number.saturating_sub(delay.map_or(0, |(_, blocks)| blocks))
}

/// The formula of the first rules, without a bomb.
fn frontier(input: &DifficultyInput) -> U256 {
    let unit = input.parent_difficulty / U256::from(2048);
    let fast = input.timestamp.saturating_sub(input.parent_timestamp) < 13;
    let next = if fast {
        input.parent_difficulty.saturating_add(unit)
    } else {
        input.parent_difficulty.saturating_sub(unit)
    };
    next.max(U256::from(DIFFICULTY_MIN))
}

/// Byzantium's formula without a bomb.
fn byzantium(input: &DifficultyInput) -> U256 {
    steps(input, if input.parent_uncles { 2 } else { 1 }, 9)
}

/// Adds `raise` 2048ths of the parent's difficulty, and subtracts one for every `slow` seconds
/// between the timestamps; at most 99 are subtracted.
fn steps(input: &DifficultyInput, raise: i64, slow: u64) -> U256 {
    let parent = input.parent_difficulty;
    let seconds = input.timestamp.saturating_sub(input.parent_timestamp);
    let steps = (raise - i64::try_from(seconds / slow).unwrap_or(i64::MAX)).max(-99);
    let change = (parent / U256::from(2048)).saturating_mul(U256::from(steps.unsigned_abs()));
    let next = if steps < 0 {
        parent.saturating_sub(change)
    } else {
        parent.saturating_add(change)
    };
    next.max(U256::from(DIFFICULTY_MIN))
}

/// Adds what the bomb adds after `ticks` blocks: 2^(periods − 2).
fn with_bomb(difficulty: U256, ticks: u64) -> U256 {
    let periods = ticks / BOMB_PERIOD;
    match periods {
        0 | 1 => difficulty,
        _ => difficulty.saturating_add(
            U256::from(1)
                .checked_shl((periods - 2) as usize)
                .unwrap_or(U256::MAX),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{ChainFamily, MoacForks, RuleTable};

    fn input(parent: u64, seconds: u64, parent_uncles: bool, number: u64) -> DifficultyInput {
        DifficultyInput {
            number,
            timestamp: 1000 + seconds,
            parent_timestamp: 1000,
            parent_difficulty: U256::from(parent),
            parent_uncles,
        }
    }

    #[test]
    fn steps_by_time_and_uncles() {
        let at = |seconds, uncles| byzantium(&input(2_048_000, seconds, uncles, 2));
        assert_eq!(at(8, false), U256::from(2_049_000));
        assert_eq!(at(8, true), U256::from(2_050_000));
        assert_eq!(at(9, false), U256::from(2_048_000));
        assert_eq!(at(27, false), U256::from(2_046_000));
        assert_eq!(at(1_000_000, false), U256::from(2_048_000 - 99_000));
        assert_eq!(byzantium(&input(131_072, 10_000, false, 2)), U256::from(131_072));
    }

    #[test]
    fn the_public_networks_bomb_grows_and_is_switched_off() {
        let spec = |bomb_defused| ChainSpec {
            rules: MoacForks {
                bomb_defused,
                ..Default::default()
            }
            .rules(),
            ..ChainSpec::main()
        };
        let at = |defused, parent_number| {
            difficulty(&spec(defused), &input(1_000_000, 5, false, parent_number + 1))
        };
        let plain = at(Some(0), 100);
        assert_eq!(at(None, BOMB_FIRST_PARENT + 199_999), plain);
        assert_eq!(at(None, BOMB_FIRST_PARENT + 200_000), plain + U256::from(1));
        assert_eq!(at(None, BOMB_FIRST_PARENT + 500_000), plain + U256::from(8));
        let off = BOMB_FIRST_PARENT + 250_000;
        assert_eq!(at(Some(off + 1), off), plain + U256::from(1));
        assert_eq!(at(Some(off), off), plain);
        // On the built-in networks: the first block with a bomb, the last one, and the block after
        // it.
        for (network, last, bomb) in [
            (ChainSpec::main(), 6_462_000, 1u64 << 32),
            (ChainSpec::test(), 5_042_000, 1 << 18),
        ] {
            let at = |number| difficulty(&network, &input(1_000_000, 5, false, number)) - plain;
            assert_eq!((at(3_199_999), at(3_200_000)), (U256::ZERO, U256::from(1)));
            assert_eq!((at(3_299_999), at(3_300_000)), (U256::from(1), U256::from(2)));
            assert_eq!((at(last), at(last + 1)), (U256::from(bomb), U256::ZERO));
        }
        let huge = difficulty(&spec(None), &input(1_000_000, 5, false, u64::MAX));
        assert_eq!(huge, U256::MAX);
    }

    #[test]
    fn ethereums_formulas_by_fork() {
        let at = |fork, seconds, number| {
            let spec = ChainSpec {
                family: ChainFamily::Ethereum,
                rules: RuleTable::up_to(fork).unwrap(),
                difficulty: DifficultyRule::Ethereum,
                ..ChainSpec::main()
            };
            difficulty(&spec, &input(2_048_000, seconds, false, number)).to::<u64>()
        };
        assert_eq!(at("Frontier", 12, 10), 2_049_000);
        assert_eq!(at("Frontier", 13, 10), 2_047_000);
        assert_eq!(at("Frontier", 13, 300_000), 2_047_002);
        assert_eq!(at("Homestead", 9, 10), 2_049_000);
        assert_eq!(at("Homestead", 10, 10), 2_048_000);
        assert_eq!(at("Byzantium", 9, 3_200_000), 2_048_001);
        assert_eq!(at("ConstantinopleFix", 9, 5_199_999), 2_048_000);
        assert_eq!(at("Istanbul", 9, 5_200_000), 2_048_001);
    }
}
