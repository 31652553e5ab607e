//! The checks of a transaction before it may wait in the pool that need no other transaction
//! (docs/microchain-design.md, 5).

use chain::ChainSpec;
use chain::application::PlainAction;
use chain::evm::intrinsic_gas;
use chain::rules::body::{SenderError, sender};
use primitives::{Address, Transaction, TxForm, U256};

use crate::pool::PoolRefusal;

/// The reason why a transaction is not taken into the pool.
#[derive(Debug, thiserror::Error)]
pub enum TransactionRefusal {
    /// The pool refuses it.
    #[error(transparent)]
    Pool(#[from] PoolRefusal),
    /// The transaction is not for this MicroChain.
    #[error("receiver: got {got:?}, expected {expected}")]
    Receiver {
        /// The receiver of the transaction.
        got: Option<Address>,
        /// The MicroChain.
        expected: Address,
    },
    /// The sharding flag and the data do not fit each other.
    #[error(
        "sharding flag: got {flag} with {data} bytes of data, expected 1 to 3 with the data that it needs"
    )]
    Sharding {
        /// The sharding flag.
        flag: u64,
        /// The bytes of data.
        data: usize,
    },
    /// A vote for deposits that the chain base does not have.
    #[error("vote for deposits: got others than those of the chain base")]
    Deposits,
    /// The gas limit of a wallet's transaction does not cover its input.
    #[error("intrinsic gas too low: got {got}, expected at least {expected}")]
    Gas {
        /// The gas limit.
        got: u64,
        /// The gas that is needed before any code runs.
        expected: u64,
    },
    /// The sender has less than the transaction transfers.
    #[error("insufficient funds for value: balance {balance}, cost {cost}")]
    Funds {
        /// The balance of the sender.
        balance: U256,
        /// The value of the transaction.
        cost: U256,
    },
    /// The transaction has no valid signature.
    #[error(transparent)]
    Sender(#[from] SenderError),
}

/// Checks form, receiver and gas limit of a transaction, and finds its sender. That costs most, so
/// it comes last.
///
/// # Errors
/// [`TransactionRefusal`] if no block can have the transaction.
pub(crate) fn sender_for_pool(
    spec: &ChainSpec,
    transaction: &Transaction,
) -> Result<Address, TransactionRefusal> {
    let is_wallets = transaction.form == TxForm::Classic;
    let expected = spec
        .application
        .as_ref()
        .map_or(Address::ZERO, |rules| rules.address);
    if !is_wallets && transaction.to != Some(expected) {
        let got = transaction.to;
        return Err(TransactionRefusal::Receiver { got, expected });
    }
    if PlainAction::of(transaction).is_none() {
        return Err(TransactionRefusal::Sharding {
            flag: transaction.sharding_flag,
            data: transaction.input.len(),
        });
    }
    if is_wallets {
        let creates = transaction.to.is_none();
        let expected = intrinsic_gas(spec.rules_at(1), &transaction.input, creates, &[]);
        let got = transaction.gas;
        if got < expected {
            return Err(TransactionRefusal::Gas { got, expected });
        }
    }
    Ok(sender(spec, 1, transaction)?)
}
