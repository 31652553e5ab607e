//! Which block belongs to which epoch, and the seed hash that names an epoch in mining protocols.
//!
//! An epoch of Ethash has 30,000 blocks. Etchash (ECIP-1099) doubles that from its fork block on.
//! The sizes then follow the new, smaller epoch number. But the seed still takes one Keccak-256
//! step per 30,000 blocks, so two steps per epoch. Therefore an epoch here is a pair: the number
//! that decides its sizes, and the number of steps of its seed.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::keccak::keccak256_32;
use crate::{B256, EPOCH_LENGTH_ETCHASH, EPOCH_LENGTH_ETHASH, MAX_EPOCH};

/// First block with the longer epochs of Etchash, on Ethereum Classic's main network.
pub const ETCHASH_FORK_BLOCK: u64 = 11_700_000;

/// Seed steps per epoch of Etchash.
const ETCHASH_STEPS: u32 = (EPOCH_LENGTH_ETCHASH / EPOCH_LENGTH_ETHASH) as u32;

/// An epoch: the number that decides its sizes, and the steps of its seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch {
    /// The epoch number, which decides the sizes of cache and dataset.
    pub index: u32,
    /// The number of Keccak-256 steps from 32 zero bytes to the seed hash.
    pub seed_steps: u32,
}

impl Epoch {
    /// Epoch `index` of Ethash, where sizes and seed have the same number.
    pub const fn ethash(index: u32) -> Self {
        Self {
            index,
            seed_steps: index,
        }
    }

    /// Epoch `index` of Etchash after its fork block. The seed steps saturate at `u32::MAX`.
    pub const fn etchash(index: u32) -> Self {
        Self {
            index,
            seed_steps: index.saturating_mul(ETCHASH_STEPS),
        }
    }

    /// The seed hash of this epoch.
    pub fn seed_hash(self) -> B256 {
        seed_hash(self.seed_steps)
    }

    /// The number of blocks of an epoch of this kind. Epoch 0 counts as one of Ethash.
    pub const fn length(self) -> u64 {
        if self.seed_steps == self.index {
            EPOCH_LENGTH_ETHASH
        } else {
            EPOCH_LENGTH_ETCHASH
        }
    }

    /// The number of the first block of the epoch. With Etchash, this block may be before the fork.
    pub const fn first_block(self) -> u64 {
        self.index as u64 * self.length()
    }
}

/// Which block belongs to which epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Schedule {
    /// 30,000 blocks per epoch.
    #[default]
    Ethash,
    /// 30,000 blocks per epoch before `fork_block`, 60,000 from it on.
    Etchash {
        /// First block with the longer epochs; [`ETCHASH_FORK_BLOCK`] on the main network.
        fork_block: u64,
    },
}

impl Schedule {
    /// The epoch of block `number`.
    ///
    /// If the block number is so high that its epoch has no sizes, the result is above
    /// [`MAX_EPOCH`]. No cache can be built for it.
    pub fn epoch(self, number: u64) -> Epoch {
        let index = |length: u64| u32::try_from(number / length).unwrap_or(u32::MAX);
        match self {
            Self::Etchash { fork_block } if number >= fork_block => {
                Epoch::etchash(index(EPOCH_LENGTH_ETCHASH))
            }
            Self::Ethash | Self::Etchash { .. } => Epoch::ethash(index(EPOCH_LENGTH_ETHASH)),
        }
    }

    /// The seed hash of the epoch of block `number`.
    pub fn seed_hash(self, number: u64) -> B256 {
        self.epoch(number).seed_hash()
    }

    /// The epoch with this seed hash; `None` if no epoch of this schedule has it.
    ///
    /// All 32 bytes are compared. If the fork block is not the first block of an epoch, one seed
    /// can belong to an epoch before the fork and to one after it. The result is then the epoch
    /// after it.
    pub fn find_epoch(self, seed_hash: &B256) -> Option<Epoch> {
        let seed_steps = find_seed_steps(seed_hash)?;
        let before = Epoch::ethash(seed_steps);
        let Self::Etchash { fork_block } = self else {
            return Some(before);
        };
        let after = Epoch {
            index: seed_steps / ETCHASH_STEPS,
            seed_steps,
        };
        let last_block_after = (u64::from(after.index) + 1) * EPOCH_LENGTH_ETCHASH - 1;
        if seed_steps.is_multiple_of(ETCHASH_STEPS) && last_block_after >= fork_block {
            Some(after)
        } else if u64::from(before.index) * EPOCH_LENGTH_ETHASH < fork_block {
            Some(before)
        } else {
            None
        }
    }
}

/// The seed hash: `steps` steps of Keccak-256, starting with 32 zero bytes.
///
/// For more than [`MAX_EPOCH`] steps the result is that of [`MAX_EPOCH`].
pub fn seed_hash(steps: u32) -> B256 {
    let mut seed = [0; 32];
    for _ in 0..steps.min(MAX_EPOCH) {
        seed = keccak256_32(&seed);
    }
    B256::from(seed)
}

/// The number of Keccak-256 steps from 32 zero bytes to `seed_hash`; `None` if there is none up to
/// [`MAX_EPOCH`].
///
/// The first call computes a table of all seeds, which takes about ten milliseconds. Later calls
/// only read the table.
pub fn find_seed_steps(seed_hash: &B256) -> Option<u32> {
    static STEPS: LazyLock<HashMap<B256, u32>> = LazyLock::new(|| {
        let mut seed = [0; 32];
        let mut table = HashMap::with_capacity(MAX_EPOCH as usize + 1);
        for steps in 0..=MAX_EPOCH {
            table.insert(B256::from(seed), steps);
            seed = keccak256_32(&seed);
        }
        table
    });
    STEPS.get(seed_hash).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ETC: Schedule = Schedule::Etchash {
        fork_block: ETCHASH_FORK_BLOCK,
    };

    #[test]
    fn ethash_counts_thirty_thousand() {
        let check =
            |number, index| assert_eq!(Schedule::Ethash.epoch(number), Epoch::ethash(index), "{number}");
        check(0, 0);
        check(29_999, 0);
        check(30_000, 1);
        check(11_700_000, 390);
        check(u64::MAX, u32::MAX);
    }

    #[test]
    fn etchash_halves_the_sizes_and_keeps_the_seed() {
        assert_eq!(
            ETC.epoch(11_699_999),
            Epoch {
                index: 389,
                seed_steps: 389
            }
        );
        assert_eq!(
            ETC.epoch(11_700_000),
            Epoch {
                index: 195,
                seed_steps: 390
            }
        );
        assert_eq!(
            ETC.epoch(11_759_999),
            Epoch {
                index: 195,
                seed_steps: 390
            }
        );
        assert_eq!(
            ETC.epoch(11_760_000),
            Epoch {
                index: 196,
                seed_steps: 392
            }
        );
        assert_eq!(ETC.seed_hash(11_760_000), seed_hash(392));
    }

    #[test]
    fn the_blocks_of_an_epoch_follow_from_its_seed() {
        for number in [0, 29_999, 30_000, 11_699_999, 11_700_000, 11_760_000, 20_000_000] {
            for schedule in [Schedule::Ethash, ETC] {
                let epoch = schedule.epoch(number);
                let first = epoch.first_block();
                assert!(
                    (first..first + epoch.length()).contains(&number),
                    "{number} in {epoch:?}"
                );
            }
        }
        assert_eq!(
            (Epoch::ethash(2).length(), Epoch::etchash(2).length()),
            (30_000, 60_000)
        );
    }

    #[test]
    fn epochs_are_found_by_seed() {
        for (schedule, numbers) in [
            (Schedule::Ethash, [0, 29_999, 30_000, 979_199_999]),
            (ETC, [0, 11_699_999, 11_700_000, 500_000_000]),
        ] {
            for number in numbers {
                let epoch = schedule.epoch(number);
                assert_eq!(
                    schedule.find_epoch(&epoch.seed_hash()),
                    Some(epoch),
                    "{schedule:?} {number}"
                );
            }
        }
        // 391 steps: after the fork every epoch has an even number.
        assert_eq!(ETC.find_epoch(&seed_hash(391)), None);
        // All bytes must be equal, not only the first.
        let mut seed = seed_hash(9);
        seed.0[31] ^= 1;
        assert_eq!(Schedule::Ethash.find_epoch(&seed), None);
    }

    #[test]
    fn a_fork_at_genesis_leaves_only_long_epochs() {
        let schedule = Schedule::Etchash { fork_block: 0 };
        assert_eq!(
            schedule.epoch(59_999),
            Epoch {
                index: 0,
                seed_steps: 0
            }
        );
        assert_eq!(
            schedule.epoch(60_000),
            Epoch {
                index: 1,
                seed_steps: 2
            }
        );
        assert_eq!(schedule.find_epoch(&seed_hash(1)), None);
        assert_eq!(
            schedule.find_epoch(&seed_hash(2)),
            Some(Epoch {
                index: 1,
                seed_steps: 2
            })
        );
    }
}
