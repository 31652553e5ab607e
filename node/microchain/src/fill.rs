//! Filling a block with transactions: what a producer takes, and in which order
//! (docs/microchain-design.md, 5).
//!
//! Nothing here is a rule of the chain. A block that another producer has filled in another way is
//! as good.

use std::time::Duration;

use chain::application::BLOCK_GAS_FILL;
use chain::evm::execute::{Executor, TransactionError, TransactionOutcome};
use chain::evm::flagged::{TrialBound, TriedTransaction};
use chain::query_limit::QueryLimit;
use chain::state::StateError;
use primitives::{Address, Transaction};

use crate::pool::{CHEAP_GAS_MAX, ReadyQueue, WaitingTransaction};

/// A block takes another transaction while its transactions have at most so many bytes.
const BLOCK_BYTES_FILL: usize = 1 << 20;
/// Members' messages are taken first while the block has used at most this much gas.
const LANE_GAS_FILL: u64 = BLOCK_GAS_FILL / 2;
/// Cheap transactions are taken up to this much gas, if costly ones wait. Costly ones that fit have
/// the rest.
const CHEAP_GAS_FILL: u64 = BLOCK_GAS_FILL / 4 * 3;

/// The time for a block's transactions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FillTime {
    /// No transaction is begun later than this.
    pub(crate) all: Duration,
    /// A transaction that takes longer is left out.
    pub(crate) each: Duration,
}

/// A transaction of the pool, by its sender and nonce.
pub(crate) type PoolKey = (Address, u64);

/// The transactions that were left out of a block.
#[derive(Debug, Default)]
pub(crate) struct LeftOut {
    /// Transactions that can be in no block any more.
    pub(crate) invalid: Vec<PoolKey>,
    /// Transactions that use much gas, and how much.
    pub(crate) costly: Vec<(PoolKey, u64)>,
    /// Transactions that took too long.
    pub(crate) slow: Vec<PoolKey>,
}

/// A block that is being filled.
pub(crate) struct BlockFiller<'a, 'b, 's> {
    executor: &'a mut Executor<'b, 's>,
    ready: ReadyQueue,
    /// No transaction is begun later.
    end: QueryLimit,
    /// The time that one transaction may take.
    time: Duration,
    bytes: usize,
    /// Whether the block takes no more.
    is_closed: bool,
    transactions: Vec<Transaction>,
    senders: Vec<Address>,
    left_out: LeftOut,
}

impl<'a, 'b, 's> BlockFiller<'a, 'b, 's> {
    /// Fills a block of `executor` from `ready`.
    pub(crate) fn new(executor: &'a mut Executor<'b, 's>, ready: ReadyQueue, time: FillTime) -> Self {
        Self {
            executor,
            ready,
            end: QueryLimit::new(time.all),
            time: time.each,
            bytes: 0,
            is_closed: false,
            transactions: Vec::new(),
            senders: Vec::new(),
            left_out: LeftOut::default(),
        }
    }

    /// Returns the transactions of the block, their senders, and what was left out.
    ///
    /// # Errors
    /// [`StateError`] if the store fails.
    pub(crate) fn fill(mut self) -> Result<(Vec<Transaction>, Vec<Address>, LeftOut), StateError> {
        while self.takes_more(LANE_GAS_FILL)
            && let Some(next) = self.ready.next_of_members()
        {
            // Their messages may use much gas, but not for nothing.
            self.try_next(next, u64::MAX, &|used| used.success || is_cheap(used))?;
        }
        self.ready.close_lane();
        self.take_cheap(true)?;
        loop {
            let left = BLOCK_GAS_FILL.saturating_sub(self.executor.gas_used());
            if !self.takes_more(BLOCK_GAS_FILL) {
                break;
            }
            let Some(next) = self.ready.next_costly(left) else {
                break;
            };
            // To its end, so that its gas is known from now on.
            self.try_next(next, u64::MAX, &|used| used.gas_used <= left)?;
        }
        self.take_cheap(false)?;
        while self.takes_more(BLOCK_GAS_FILL)
            && let Some(next) = self.ready.next_costly(u64::MAX)
        {
            self.try_next(next, u64::MAX, &|_| true)?;
        }
        Ok((self.transactions, self.senders, self.left_out))
    }

    /// Takes transactions that are not costly. `leaves_rest` says whether costly ones that wait
    /// have a part of the block.
    fn take_cheap(&mut self, leaves_rest: bool) -> Result<(), StateError> {
        loop {
            let fill = if leaves_rest && self.ready.has_costly() {
                CHEAP_GAS_FILL
            } else {
                BLOCK_GAS_FILL
            };
            if !self.takes_more(fill) {
                return Ok(());
            }
            let Some(next) = self.ready.next_cheap() else {
                return Ok(());
            };
            self.try_next(next, CHEAP_GAS_MAX, &is_cheap)?;
        }
    }

    fn takes_more(&self, gas: u64) -> bool {
        !self.is_closed
            && self.bytes <= BLOCK_BYTES_FILL
            && self.executor.gas_used() <= gas
            && self.end.check().is_ok()
    }

    /// Runs a transaction until it has used more than `gas`, and takes it into the block if
    /// `accepts` says so.
    fn try_next(
        &mut self,
        (sender, waiting): (Address, WaitingTransaction),
        gas: u64,
        accepts: &dyn Fn(&TransactionOutcome) -> bool,
    ) -> Result<(), StateError> {
        let transaction = waiting.transaction.clone();
        let key = (sender, transaction.tx_nonce);
        let time = self.time;
        let tried = self
            .executor
            .try_transaction(&transaction, sender, TrialBound { time, gas }, accepts);
        match tried {
            Ok(TriedTransaction::Taken(used)) => {
                self.bytes += waiting.bytes;
                self.transactions.push((*transaction).clone());
                self.senders.push(sender);
                self.ready.included(sender, used.gas_used);
            }
            Ok(TriedTransaction::Declined { gas_used }) => {
                self.left_out.costly.push((key, gas_used));
                self.ready.put_aside(sender, waiting, gas_used);
            }
            Ok(TriedTransaction::TooSlow) => self.left_out.slow.push(key),
            Err(TransactionError::State(error)) => return Err(error),
            Err(TransactionError::BlockGas { .. }) => self.is_closed = true,
            Err(error) => {
                let hash = transaction.hash();
                tracing::debug!(%hash, %error, "a transaction is left out of the block");
                if never_valid(&error) {
                    self.left_out.invalid.push(key);
                }
            }
        }
        Ok(())
    }
}

const fn is_cheap(used: &TransactionOutcome) -> bool {
    used.gas_used <= CHEAP_GAS_MAX
}

/// Whether a transaction with this error need not wait for a better state.
const fn never_valid(error: &TransactionError) -> bool {
    matches!(
        error,
        TransactionError::NonceTooLow { .. }
            | TransactionError::IntrinsicGas { .. }
            | TransactionError::Other(_)
            | TransactionError::System
    )
}
