//! The earnings of the node's own address by mining in the last day, from the canonical chain.
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

/// The pay of one block to the address, in sha.
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use chain::chain::BlockOrder;
    use chain::rules::COIN;
    use chain::rules::seal::SealCheck;
    use chain::spec::DEV_ACCOUNTS;
    use chain::{Chain, ChainConfig, ChainSpec};
    use clap::Parser;
    use store::Store;

    use super::*;
    use crate::options::VnodeOptions;

    const OWN: Address = Address::repeat_byte(7);
    const OTHER: Address = Address::repeat_byte(8);

    /// A chain in memory that pays [`OWN`], and the timestamp of its first block.
    fn chain() -> (Chain, u64) {
        let spec = ChainSpec::dev();
        let options = VnodeOptions::parse_from(["vnode", "--txpool.journal="]);
        let accounts = keystore::AccountManager::new();
        let pool = options
            .txpool
            .config(&spec, std::path::Path::new("/d"), &accounts, false, None);
        let begin = spec.genesis.timestamp + 1000;
        let config = ChainConfig {
            spec: Arc::new(spec),
            seals: SealCheck::Off,
            forks: chain::import::ForkLimits::default(),
            pool,
            beneficiary: OWN,
            extra_data: Default::default(),
            states: chain::import::StateRetention::Archive,
        };
        (Chain::open(Store::in_memory().unwrap(), config).unwrap(), begin)
    }

    fn make(chain: &Chain, timestamp: u64) {
        let order = BlockOrder {
            timestamp: Some(timestamp),
            ..BlockOrder::default()
        };
        chain.make_block(order).unwrap();
    }

    /// The sums, after the ledger has followed the chain once.
    #[track_caller]
    fn follow(ledger: &mut RewardLedger, chain: &Chain, own: Address, now: u64) -> Value {
        ledger.follow(&chain.view().unwrap(), own, now).unwrap();
        ledger.to_json()
    }

    /// The balance at the head, as digits.
    fn balance(chain: &Chain, address: Address) -> String {
        let view = chain.view().unwrap();
        let account = view.account(&address, view.head_number()).unwrap();
        account.map_or(U256::ZERO, |account| account.balance).to_string()
    }

    #[test]
    fn the_sums_are_what_the_chain_has_paid() {
        let (chain, begin) = chain();
        let mut ledger = RewardLedger::default();
        let empty = follow(&mut ledger, &chain, OWN, begin);
        assert_eq!((&empty["total"], &empty["range"]), (&json!("0"), &Value::Null));
        assert_eq!(empty["complete"], true);
        for time in 0..5 {
            make(&chain, begin + time);
        }
        let five = follow(&mut ledger, &chain, OWN, begin + 5);
        assert_eq!(five["total"], balance(&chain, OWN));
        assert_eq!(five["total"], (5 * 2 * u128::from(COIN)).to_string());
        assert_eq!((&five["blocks"], &five["range"]["first"]), (&json!(5), &json!(1)));

        // The last two blocks are taken back, and others mine.
        chain.set_head(3).unwrap();
        chain.change_settings(|settings| settings.beneficiary = OTHER);
        for time in 10..14 {
            make(&chain, begin + time);
        }
        let three = follow(&mut ledger, &chain, OWN, begin + 20);
        assert_eq!(three["total"], balance(&chain, OWN));
        assert_eq!(
            (&three["blocks"], &three["range"]["last"]),
            (&json!(3), &json!(7))
        );
        assert_eq!(three["last_block"]["number"], 3);
        let four = follow(&mut ledger, &chain, OTHER, begin + 20);
        assert_eq!(
            (&four["blocks"], &four["total"]),
            (&json!(4), &json!(balance(&chain, OTHER)))
        );

        // A day later the first blocks no longer count.
        let late = follow(&mut ledger, &chain, OTHER, begin + 12 + WINDOW_SECS);
        assert_eq!((&late["blocks"], &late["range"]["first"]), (&json!(2), &json!(6)));
        assert_eq!(late["complete"], true);
        let none = follow(&mut ledger, &chain, OTHER, begin + 20 + WINDOW_SECS);
        assert_eq!((&none["blocks"], &none["range"]), (&json!(0), &Value::Null));
        assert_eq!(follow(&mut ledger, &chain, Address::ZERO, begin), Value::Null);
    }

    #[test]
    fn a_long_chain_is_read_piece_by_piece() {
        let (chain, begin) = chain();
        let blocks = READS_MAX as u64 + 50;
        for time in 0..blocks {
            make(&chain, begin + time);
        }
        let mut ledger = RewardLedger::default();
        let part = follow(&mut ledger, &chain, OWN, begin + blocks);
        assert_eq!(
            (&part["complete"], &part["blocks"]),
            (&json!(false), &json!(READS_MAX))
        );
        assert_eq!(part["range"]["last"], blocks, "the newest blocks come first");
        let whole = follow(&mut ledger, &chain, OWN, begin + blocks);
        assert_eq!(
            (&whole["complete"], &whole["blocks"]),
            (&json!(true), &json!(blocks))
        );
        assert_eq!(whole["total"], balance(&chain, OWN));
    }

    #[test]
    fn fees_count() {
        let (chain, begin) = chain();
        let key = primitives::SecretKey::from_hex(DEV_ACCOUNTS[0].1).unwrap();
        let unsigned = primitives::UnsignedTransaction {
            gas_price: U256::from(5),
            gas: 21_000,
            to: Some(OTHER),
            value: U256::from(1),
            ..Default::default()
        };
        let signed = unsigned.sign(&key, chain.chain_id(), primitives::TxForm::Native);
        chain.submit_transaction(signed).unwrap();
        make(&chain, begin);
        let sums = follow(&mut RewardLedger::default(), &chain, OWN, begin + 1);
        let paid = U256::from(2 * COIN) + sums["fees"].as_str().unwrap().parse::<U256>().unwrap();
        assert_ne!(sums["fees"], "0", "{sums}");
        assert_eq!(
            (&sums["total"], paid.to_string()),
            (&json!(balance(&chain, OWN)), balance(&chain, OWN))
        );
    }
}
