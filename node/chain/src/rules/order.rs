//! The order in which a block's transactions are executed, and so the order of its receipts.
//!
//! On a chain with a system contract, the system transaction is executed first, whether the block
//! contains it or not. All other system transactions of the block are left out. In a block that
//! was built as usual, the system transaction stands first and is the only one, so receipts and
//! transactions have the same indexes.

use primitives::Transaction;

use crate::spec::ChainSpec;

/// The order of one block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutionOrder {
    /// For each receipt the index of its transaction in the block; `None` for a system transaction
    /// that the block does not contain.
    executed: Vec<Option<usize>>,
}

impl ExecutionOrder {
    /// The order of the transactions of block `number`.
    pub fn of(spec: &ChainSpec, number: u64, transactions: &[Transaction]) -> Self {
        Self::of_flags(spec, number, transactions.iter().map(Transaction::is_system))
    }

    /// The order of the transactions of block `number`, of which is known whether each is a system
    /// transaction.
    pub(crate) fn of_flags(
        spec: &ChainSpec,
        number: u64,
        are_system: impl Iterator<Item = bool> + Clone,
    ) -> Self {
        let has_system = spec.system_contract && number > 0;
        let first = has_system.then(|| are_system.clone().position(|is_system| is_system));
        let signed = are_system
            .enumerate()
            .filter(|(_, is_system)| !(has_system && *is_system))
            .map(|(index, _)| Some(index));
        Self {
            executed: first.into_iter().chain(signed).collect(),
        }
    }

    /// The number of receipts.
    pub const fn receipts(&self) -> usize {
        self.executed.len()
    }

    /// For each receipt the index of its transaction in the block; `None` for a system transaction
    /// that the block does not contain.
    pub fn transactions(&self) -> impl Iterator<Item = Option<usize>> {
        self.executed.iter().copied()
    }

    /// The index of the transaction that a receipt is of. `None` if there is no such receipt, or if
    /// it is of a system transaction that the block does not contain.
    pub fn transaction_of(&self, receipt: usize) -> Option<usize> {
        self.executed.get(receipt).copied().flatten()
    }

    /// The index of a transaction's receipt; `None` if the transaction was left out.
    pub fn receipt_of(&self, transaction: usize) -> Option<usize> {
        // The place in a block that was built as usual.
        if self.transaction_of(transaction) == Some(transaction) {
            return Some(transaction);
        }
        self.executed.iter().position(|index| *index == Some(transaction))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(flags: &[u8], expected: &[Option<usize>]) {
        let are_system = || flags.iter().map(|flag| *flag == 1);
        let order = ExecutionOrder::of_flags(&ChainSpec::main(), 5, are_system());
        assert_eq!(order.transactions().collect::<Vec<_>>(), expected, "{flags:?}");
        assert_eq!(order.receipts(), expected.len());
        for index in 0..=flags.len() {
            let receipt = expected.iter().position(|executed| *executed == Some(index));
            assert_eq!(order.receipt_of(index), receipt, "{flags:?} {index}");
            let transaction = expected.get(index).copied().flatten();
            assert_eq!(order.transaction_of(index), transaction, "{flags:?} {index}");
        }
    }

    #[test]
    fn the_system_transaction_is_executed_first_and_once() {
        check(&[1, 0, 0], &[Some(0), Some(1), Some(2)]);
        check(&[1], &[Some(0)]);
        check(&[0, 1, 0], &[Some(1), Some(0), Some(2)]);
        check(&[1, 1, 0, 1], &[Some(0), Some(2)]);
        check(&[0, 0], &[None, Some(0), Some(1)]);
        check(&[], &[None]);
    }

    #[test]
    fn chains_without_a_system_contract_and_block_0_have_none() {
        let order = ExecutionOrder::of_flags(&ChainSpec::dev(), 5, [false, false].into_iter());
        assert_eq!(order.transactions().collect::<Vec<_>>(), [Some(0), Some(1)]);
        let genesis = ExecutionOrder::of(&ChainSpec::main(), 0, &[]);
        assert_eq!(genesis.receipts(), 0);
    }
}
