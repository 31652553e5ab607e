//! The gas that each sender has used lately, so that who has used little comes first.

use std::collections::HashMap;

use primitives::Address;

/// Half of what a sender has used is forgotten after so many slots.
const HALVING_SLOTS: u64 = 8;
/// Senders that are remembered. The rest are those that have used least.
const SENDERS_REMEMBERED_MAX: usize = 16_384;

/// Gas, and the slot up to which older gas was forgotten.
#[derive(Clone, Copy, Debug)]
struct UsedGas {
    gas: u64,
    slot: u64,
}

impl UsedGas {
    const fn at(self, slot: u64) -> Self {
        let halvings = slot.saturating_sub(self.slot) / HALVING_SLOTS;
        let gas = if halvings < u64::BITS as u64 {
            self.gas >> halvings
        } else {
            0
        };
        Self {
            gas,
            slot: self.slot + halvings * HALVING_SLOTS,
        }
    }
}

/// The gas that senders have used in blocks of the chain, whoever made them.
#[derive(Debug, Default)]
pub(super) struct GasLedger {
    senders: HashMap<Address, UsedGas>,
}

impl GasLedger {
    /// The gas that a sender has used, as far as it counts in this slot.
    pub(super) fn used(&self, sender: &Address, slot: u64) -> u64 {
        self.senders.get(sender).map_or(0, |used| used.at(slot).gas)
    }

    /// Notes that a transaction of `sender` is in a block.
    pub(super) fn charge(&mut self, sender: Address, gas: u64, slot: u64) {
        let used = self.senders.entry(sender).or_insert(UsedGas { gas: 0, slot });
        *used = used.at(slot);
        used.gas = used.gas.saturating_add(gas);
        if self.senders.len() > SENDERS_REMEMBERED_MAX {
            self.forget_half(slot);
        }
    }

    /// Keeps the half that has used most.
    fn forget_half(&mut self, slot: u64) {
        let mut all: Vec<u64> = self.senders.values().map(|used| used.at(slot).gas).collect();
        let middle = all.len() / 2;
        let (_, least, _) = all.select_nth_unstable(middle);
        let least = *least;
        self.senders.retain(|_, used| used.at(slot).gas > least);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn used_gas_is_forgotten_and_the_memory_is_bounded() {
        let mut ledger = GasLedger::default();
        let sender = Address::repeat_byte(1);
        ledger.charge(sender, 1000, 3);
        ledger.charge(sender, 500, 4);
        let used = [4, 10, 11, 19, 3 + 64 * 8, u64::MAX].map(|slot| ledger.used(&sender, slot));
        assert_eq!(used, [1500, 1500, 750, 375, 0, 0]);
        ledger.charge(sender, 1, 19);
        assert_eq!(ledger.used(&sender, 20), 376);
        for number in 0..SENDERS_REMEMBERED_MAX as u64 {
            let other = Address::from_word(primitives::U256::from(number).into());
            ledger.charge(other, number % 100, 20);
        }
        assert!(ledger.senders.len() <= SENDERS_REMEMBERED_MAX);
        assert_eq!(ledger.used(&sender, 20), 376, "who has used most is remembered");
    }
}
