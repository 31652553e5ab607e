//! Transactions that peers offer: what is handed from step to step until the pool has judged them.
//!
//! Hashes and signatures cost far more than the bytes of a transaction. So the hub of peers, which
//! all peers share, computes none: whoever carries out its actions hashes a pack in parts, tells
//! the hub, offers to the pool what the hub wants, and tells the hub how that went.

use primitives::{AccessListEntry, B256, Transaction};

use super::share::ShareRate;

/// Transactions of a pack that are hashed, checked and offered in one step. So many signatures take
/// some 3 ms.
pub(crate) const PACK_PART: usize = 64;
/// The cost of each transaction in [`TRANSACTION_SHARE`]: it is decoded and hashed.
pub(crate) const LOOK_COST: u64 = 1;
/// The cost of a signature check in [`TRANSACTION_SHARE`] if the pool does not take the
/// transaction.
const CHECK_COST: u64 = 64;
/// The share of an address ([`super::ShareHolder`]) in the work on transactions: 8192 signature
/// checks that bring nothing, which is twice the pool of a peer that joins, and 256 in each second
/// after that. These cost about a hundredth of a processor.
pub(crate) const TRANSACTION_SHARE: ShareRate = ShareRate {
    burst: 8192 * CHECK_COST,
    per_second: 256 * CHECK_COST,
};

/// A transaction and its hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HashedTransaction {
    /// The hash.
    pub hash: B256,
    /// The transaction.
    pub transaction: Transaction,
}

impl From<Transaction> for HashedTransaction {
    fn from(transaction: Transaction) -> Self {
        Self {
            hash: transaction.hash(),
            transaction,
        }
    }
}

/// The transactions of one message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionPack {
    /// The transactions.
    pub transactions: Vec<Transaction>,
    /// If they answer a request: the hashes that were asked for, in order.
    pub asked: Option<Vec<B256>>,
}

impl TransactionPack {
    /// About how many bytes of memory the pack takes.
    pub fn memory(&self) -> usize {
        let of_one = |transaction: &Transaction| {
            let entry_bytes =
                |entry: &AccessListEntry| size_of::<AccessListEntry>() + size_of_val(&entry.slots[..]);
            let listed: usize = transaction.access_list.iter().map(entry_bytes).sum();
            size_of::<Transaction>() + transaction.input.len() + listed
        };
        let asked = self.asked.as_deref().map_or(0, size_of_val::<[B256]>);
        self.transactions.iter().map(of_one).sum::<usize>() + asked
    }
}

/// The pool's verdict on a transaction of a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransactionVerdict {
    /// The pool has taken it.
    Taken,
    /// The pool has it already, or does not want it at its price. No signature was checked.
    PassedOver,
    /// The pool does not want it. An honest peer may send such a transaction. For the log.
    Refused(String),
    /// An honest peer sends no such transaction: its sender does not exist or cannot pay, or no
    /// block may contain it. For the log.
    Worthless(String),
}

/// The pool's verdicts on a part of a pack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JudgedTransactions {
    /// Transactions that the pool has taken.
    pub(crate) taken: u32,
    /// Transactions that needed no signature check.
    pub(crate) passed_over: u32,
    /// Transactions that the pool does not want.
    pub(crate) refused: u32,
    /// Transactions that no honest peer sends.
    pub(crate) worthless: u32,
    /// Transactions for application chains that were not passed on before. Their signatures are
    /// checked elsewhere.
    pub(crate) flagged: u32,
}

impl JudgedTransactions {
    /// Counts a verdict.
    pub const fn count(&mut self, verdict: &TransactionVerdict) {
        match verdict {
            TransactionVerdict::Taken => self.taken += 1,
            TransactionVerdict::PassedOver => self.passed_over += 1,
            TransactionVerdict::Refused(_) => self.refused += 1,
            TransactionVerdict::Worthless(_) => self.worthless += 1,
        }
    }

    /// The cost of their signature checks in [`TRANSACTION_SHARE`].
    pub(crate) fn cost(&self) -> u64 {
        u64::from(self.refused + self.worthless + self.flagged) * CHECK_COST
    }
}
