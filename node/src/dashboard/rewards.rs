//! What the node's own address has earned by mining in the last day, from the canonical chain.
//!
//! The ledger has one entry for each canonical block of the last day, at most [`BLOCKS_MAX`]. It
//! follows the head and reorganizations, and reads a bounded number of blocks at a time. Knows no
//! clock.

use std::collections::VecDeque;

use chain::View;
use chain::rules::payment::BlockPayment;
use primitives::{Address, B256, U256};
use serde_json::{Value, json};
use store::StoreError;

use super::blocks::miner_income;

/// The time that is summed, in seconds.
const WINDOW_SECS: u64 = 24 * 60 * 60;
/// The most blocks that are summed.
const BLOCKS_MAX: usize = 20_000;
/// The most blocks that are read at a time.
const READS_MAX: usize = 250;

/// What one block paid the address, in sha.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct EarnedByBlock {
    /// The address mined the block.
    mined: bool,
    /// Uncles of the block that the address mined.
    uncles: u32,
    /// Rewards for mining it, with those for including uncles.
    rewards: U256,
    /// Fees of its transactions.
    fees: U256,
    /// Rewards for those uncles.
    uncle_rewards: U256,
}

#[derive(Clone, Debug)]
struct LedgerEntry {
    hash: B256,
    time_secs: u64,
    /// `None` if the block paid the address nothing.
    earned: Option<Box<EarnedByBlock>>,
}

/// The blocks of the last day, and what each has paid.
#[derive(Debug, Default)]
pub(super) struct RewardLedger {
    own: Address,
    /// The number of the first entry.
    first: u64,
    entries: VecDeque<LedgerEntry>,
    /// All blocks of the window are there.
    complete: bool,
}

impl RewardLedger {
    /// Follows the chain of `view`, for the address `own` and the day before `now`, in seconds
    /// since 1970.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails. What was read before stays.
    pub(super) fn follow(&mut self, view: &View, own: Address, now: u64) -> Result<(), StoreError> {
        if own != self.own {
            *self = Self {
                own,
                ..Self::default()
            };
        }
        if own.is_zero() {
            return Ok(());
        }
        let (head, since) = (view.head_number(), now.saturating_sub(WINDOW_SECS));
        self.take_back(view)?;
        let next = self.first + self.entries.len() as u64;
        if head.saturating_sub(next) >= BLOCKS_MAX as u64 {
            self.entries.clear();
        }
        if self.entries.is_empty() {
            self.first = head + 1;
        }
        let mut reads = READS_MAX;
        self.extend_up(view, &mut reads)?;
        while self.entries.len() > BLOCKS_MAX
            || self.entries.front().is_some_and(|entry| entry.time_secs < since)
        {
            self.entries.pop_front();
            self.first += 1;
        }
        self.extend_down(view, since, &mut reads)
    }

    /// Removes the blocks that are no longer canonical.
    fn take_back(&mut self, view: &View) -> Result<(), StoreError> {
        while let Some(last) = self.entries.back() {
            let number = self.first + self.entries.len() as u64 - 1;
            if view.canonical_hash(number)? == Some(last.hash) {
                break;
            }
            self.entries.pop_back();
        }
        Ok(())
    }

    fn extend_up(&mut self, view: &View, reads: &mut usize) -> Result<(), StoreError> {
        loop {
            let next = self.first + self.entries.len() as u64;
            if next > view.head_number() || *reads == 0 {
                return Ok(());
            }
            *reads -= 1;
            let Some(entry) = self.entry(view, next)? else {
                return Ok(());
            };
            self.entries.push_back(entry);
        }
    }

    fn extend_down(&mut self, view: &View, since: u64, reads: &mut usize) -> Result<(), StoreError> {
        let is_up = |ledger: &Self| ledger.first + ledger.entries.len() as u64 > view.head_number();
        self.complete = false;
        while *reads > 0 {
            if self.first <= 1 || self.entries.len() >= BLOCKS_MAX {
                self.complete = is_up(self);
                return Ok(());
            }
            *reads -= 1;
            match self.entry(view, self.first - 1)? {
                Some(entry) if entry.time_secs >= since => {
                    self.entries.push_front(entry);
                    self.first -= 1;
                }
                _ => {
                    self.complete = is_up(self);
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn entry(&self, view: &View, number: u64) -> Result<Option<LedgerEntry>, StoreError> {
        let Some((hash, record)) = view.header(number)? else {
            return Ok(None);
        };
        let header = record.header;
        let mut entry = LedgerEntry {
            hash,
            time_secs: header.timestamp,
            earned: None,
        };
        let mined = header.beneficiary == self.own;
        // Most blocks of others have no uncles, and their bodies are not read.
        if !mined && header.uncles_hash == primitives::uncles_hash(&[]) {
            return Ok(Some(entry));
        }
        let Some(block) = view.block(number)? else {
            return Ok(Some(entry));
        };
        let mut earned = EarnedByBlock {
            mined,
            ..EarnedByBlock::default()
        };
        if mined {
            (earned.rewards, earned.fees) = miner_income(view, &block)?;
        }
        for (miner, reward) in BlockPayment::of(view.spec(), number, &block.body.uncles).uncles {
            if miner == self.own {
                earned.uncles += 1;
                earned.uncle_rewards += reward;
            }
        }
        entry.earned = (earned != EarnedByBlock::default()).then(|| Box::new(earned));
        Ok(Some(entry))
    }

    /// The sums as JSON, in sha as decimal digits. Null without an address.
    pub(super) fn to_json(&self) -> Value {
        if self.own.is_zero() {
            return Value::Null;
        }
        let mut sum = EarnedByBlock::default();
        let (mut blocks, mut last_own) = (0u64, None);
        for (number, entry) in (self.first..).zip(&self.entries) {
            let Some(earned) = &entry.earned else { continue };
            if earned.mined {
                blocks += 1;
                last_own = Some((number, entry.time_secs));
            }
            sum.uncles += earned.uncles;
            sum.rewards += earned.rewards;
            sum.fees += earned.fees;
            sum.uncle_rewards += earned.uncle_rewards;
        }
        let range = self.entries.front().map(|first| {
            json!({
                "first": self.first,
                "last": self.first + self.entries.len() as u64 - 1,
                "first_time_s": first.time_secs,
            })
        });
        json!({
            "address": self.own.to_string(),
            "window_s": WINDOW_SECS,
            "blocks_max": BLOCKS_MAX,
            "complete": self.complete,
            "range": range,
            "blocks": blocks,
            "last_block": last_own.map(|(number, time)| json!({"number": number, "time_s": time})),
            "uncles": sum.uncles,
            "rewards": sum.rewards.to_string(),
            "fees": sum.fees.to_string(),
            "uncle_rewards": sum.uncle_rewards.to_string(),
            "total": (sum.rewards + sum.fees + sum.uncle_rewards).to_string(),
        })
    }
}
