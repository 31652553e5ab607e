//! The payments of a block: the rewards of its miner and of its uncles' miners, and the fees.

use primitives::{Address, Header, Receipt, Transaction, U256};

use super::order::ExecutionOrder;
use super::{block_reward, uncle_rewards};
use crate::spec::ChainSpec;

/// The rewards of a block, without fees, in sha.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockPayment {
    /// The reward of its miner, with the rewards for including uncles.
    pub miner: U256,
    /// The miner and the reward of each uncle, in the order of the uncles.
    pub uncles: Vec<(Address, U256)>,
}

impl BlockPayment {
    /// The rewards of block `number` with these uncles. Block 0 pays nothing.
    pub fn of(spec: &ChainSpec, number: u64, uncles: &[Header]) -> Self {
        let mut miner = if number == 0 {
            U256::ZERO
        } else {
            block_reward(spec, number)
        };
        let uncles = uncles.iter().map(|uncle| {
            let (of_uncle, of_nephew) = uncle_rewards(spec, number, uncle.number);
            miner += of_nephew;
            (uncle.beneficiary, of_uncle)
        });
        let uncles = uncles.collect();
        Self { miner, uncles }
    }

    /// The sum of the rewards of the uncles' miners.
    pub fn of_uncles(&self) -> U256 {
        self.uncles
            .iter()
            .fold(U256::ZERO, |sum, (_, reward)| sum + reward)
    }
}

/// The sum that the transactions of block `number` paid its miner for their gas, in sha. On an
/// application chain nobody pays.
pub fn block_fees(spec: &ChainSpec, number: u64, transactions: &[Transaction], receipts: &[Receipt]) -> U256 {
    if spec.application.is_some() {
        return U256::ZERO;
    }
    let order = ExecutionOrder::of(spec, number, transactions);
    let (mut before, mut sum) = (0, U256::ZERO);
    for (receipt, index) in receipts.iter().zip(order.transactions()) {
        let used = receipt.cumulative_gas_used.saturating_sub(before);
        before = receipt.cumulative_gas_used;
        // The system transaction may not be in the block. It pays nothing.
        if let Some(transaction) = index.and_then(|index| transactions.get(index)) {
            sum = sum.saturating_add(transaction.gas_price.saturating_mul(U256::from(used)));
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use primitives::{ReceiptOutcome, TxForm};

    use super::*;
    use crate::rules::COIN;

    #[test]
    fn a_block_pays_its_miner_and_those_of_its_uncles() {
        let spec = ChainSpec::main();
        let coins = |part: u64, whole: u64| U256::from(2 * COIN) * U256::from(part) / U256::from(whole);
        let uncle = |number, last| Header {
            number,
            beneficiary: Address::repeat_byte(last),
            ..Header::default()
        };
        let payment = BlockPayment::of(&spec, 10, &[uncle(9, 1), uncle(3, 2)]);
        assert_eq!(payment.miner, coins(1, 1) + coins(2, 32));
        let expected = vec![
            (Address::repeat_byte(1), coins(7, 8)),
            (Address::repeat_byte(2), coins(1, 8)),
        ];
        assert_eq!((payment.of_uncles(), payment.uncles), (coins(1, 1), expected));
        assert_eq!(BlockPayment::of(&spec, 0, &[]).miner, U256::ZERO);
    }

    #[test]
    fn fees_follow_from_receipts() {
        let spec = ChainSpec {
            system_contract: false,
            ..ChainSpec::dev()
        };
        let transaction = |price: u64| Transaction {
            syscnt: 0,
            form: TxForm::Native,
            gas_price: U256::from(price),
            ..Transaction::system(0)
        };
        let receipt = |gas| Receipt::new(ReceiptOutcome::Status(true), gas, Vec::new());
        let transactions = [transaction(3), transaction(5)];
        let receipts = [receipt(100), receipt(110)];
        assert_eq!(block_fees(&spec, 7, &transactions, &receipts), U256::from(350));
        // A block that was not executed has no receipts.
        assert_eq!(block_fees(&spec, 7, &transactions, &[]), U256::ZERO);
    }
}
